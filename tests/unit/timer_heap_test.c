/* The heap of timers against a plain array, through random operations from printed seeds. */
#include "base/rand.h"
#include "base/timer_heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { NODES = 200 };

static void check_order(const struct timer_heap *h)
{
	for (uint32_t k = 1; k <= h->count; k++) {
		assert_int_equal(h->node[k]->place, k);
		if (k > 1)
			assert_true(h->node[k / 2]->at <= h->node[k]->at);
	}
}

static void starts_empty(void **state)
{
	struct timer_heap_node n = { 0 };
	struct timer_heap h;

	timer_heap_init(&h);
	assert_null(timer_heap_min(&h));
	assert_false(timer_heap_contains(&n));
	timer_heap_remove(&h, &n);	/* nothing happens */
	assert_int_equal(timer_heap_reserve(&h, 0), 0);
	assert_true(timer_heap_reserve(&h, UINT32_MAX) < 0);
	timer_heap_fini(&h);
}

static void gives_back_in_order(void **state)
{
	static const wtime times[] = { 5, 3, WTIME_NEVER, 0, 3, 9, 1, 1, 7 };
	struct timer_heap_node n[9] = { 0 };
	wtime last = 0;
	struct timer_heap h;

	timer_heap_init(&h);
	assert_int_equal(timer_heap_reserve(&h, 9), 0);
	for (int i = 0; i < 9; i++)
		timer_heap_insert(&h, &n[i], times[i]);
	for (int i = 0; i < 9; i++) {
		struct timer_heap_node *first = timer_heap_min(&h);

		assert_true(first->at >= last);
		last = first->at;
		timer_heap_remove(&h, first);
		assert_false(timer_heap_contains(first));
	}
	assert_null(timer_heap_min(&h));
	timer_heap_fini(&h);
}

static void reserve_keeps_what_is_in(void **state)
{
	struct timer_heap_node n[40] = { 0 };
	struct timer_heap h;

	timer_heap_init(&h);
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(timer_heap_reserve(&h, i + 1), 0);
		assert_true(h.room > i);
		timer_heap_insert(&h, &n[i], 100 - i);
		assert_ptr_equal(timer_heap_min(&h), &n[i]);
	}
	check_order(&h);
	timer_heap_fini(&h);
}

static wtime model_min(const struct timer_heap_node *n)
{
	wtime min = WTIME_NEVER;

	for (int i = 0; i < NODES; i++)
		if (timer_heap_contains(&n[i]))
			min = wtime_min(min, n[i].at);
	return min;
}

static void random_run(uint64_t seed)
{
	struct timer_heap_node n[NODES] = { 0 };
	uint32_t in = 0;
	struct rand r;
	struct timer_heap h;

	print_message("seed %u\n", (unsigned)seed);
	rand_seed(&r, seed);
	timer_heap_init(&h);
	assert_int_equal(timer_heap_reserve(&h, NODES), 0);
	for (int step = 0; step < 5000; step++) {
		struct timer_heap_node *node = &n[rand_below(&r, NODES)];
		wtime at = rand_below(&r, 50);

		if (!timer_heap_contains(node)) {
			timer_heap_insert(&h, node, at);
			in++;
		} else if (rand_chance(&r, 500000)) {
			timer_heap_update(&h, node, at);
		} else {
			timer_heap_remove(&h, node);
			in--;
		}
		assert_int_equal(h.count, in);
		check_order(&h);
		if (in)
			assert_true(timer_heap_min(&h)->at == model_min(n));
	}
	timer_heap_fini(&h);
}

static void random_operations(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++)
		random_run(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_empty),
		cmocka_unit_test(gives_back_in_order),
		cmocka_unit_test(reserve_keeps_what_is_in),
		cmocka_unit_test(random_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
