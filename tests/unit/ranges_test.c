/* The set of ranges against a plain array, through random operations from printed seeds; and that no order of insertion makes
 * it deep. */
#include "base/rand.h"
#include "base/ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NODES = 120, PLACES = 300, OPERATIONS = 20000, MANY = 1 << 16, DEEPEST = 64 };

static uint64_t plain_reach(const struct range_node *n, uint64_t at)
{
	uint64_t reach = 0;

	for (unsigned i = 0; i < NODES; i++)
		if (n[i].set && n[i].range.start <= at && n[i].range.end > reach)
			reach = n[i].range.end;
	return reach;
}

static uint64_t plain_next(const struct range_node *n, uint64_t at)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < NODES; i++)
		if (n[i].set && n[i].range.start > at && n[i].range.start < next)
			next = n[i].range.start;
	return next;
}

static bool plain_meet(const struct range_node *n, struct range r)
{
	bool found = false;

	for (unsigned i = 0; i < NODES; i++)
		found = found || (n[i].set && n[i].range.start < r.end && r.start < n[i].range.end);
	return found;
}

static struct range draw_range(struct rand *r)
{
	uint64_t start = rand_below(r, PLACES);

	return (struct range){ start, start + 1 + rand_below(r, rand_below(r, 10) ? 5 : PLACES) };
}

static void answers_are_those_of_an_array(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct range_node n[NODES] = { 0 };
		struct ranges s;
		struct rand r;

		print_message("seed %lu\n", (unsigned long)seed);
		rand_seed(&r, seed);
		ranges_init(&s);
		for (unsigned i = 0; i < OPERATIONS; i++) {
			struct range_node *one = &n[rand_below(&r, NODES)];
			struct range asked = draw_range(&r);
			uint64_t at = rand_below(&r, PLACES);

			if (one->set)
				ranges_remove(one);
			else
				ranges_insert(&s, one, draw_range(&r));
			assert_true(ranges_reach(&s, at) == plain_reach(n, at));
			assert_true(ranges_next(&s, at) == plain_next(n, at));
			assert_int_equal(ranges_meet(&s, asked), plain_meet(n, asked));
		}
	}
	(void)state;
}

static void a_node_in_no_set_is_not_removed(void **state)
{
	struct range_node n = { 0 };
	struct ranges s;

	ranges_init(&s);
	ranges_remove(&n);
	assert_true(ranges_reach(&s, UINT64_MAX) == 0 && ranges_next(&s, 0) == UINT64_MAX);
	ranges_insert(&s, &n, (struct range){ 1, UINT64_MAX });
	assert_true(ranges_meet(&s, (struct range){ 0, 2 }));
	assert_false(ranges_meet(&s, (struct range){ 0, 1 }));
	ranges_remove(&n);
	assert_null(n.set);
	assert_null(s.root);
	(void)state;
}

static unsigned depth(const struct range_node *n)
{
	unsigned left = n ? depth(n->left) : 0, right = n ? depth(n->right) : 0;

	return n ? 1 + (left > right ? left : right) : 0;
}

/* Of 65,536 nodes: a random tree is some 40 deep. */
static void no_order_makes_it_deep(void **state)
{
	struct range_node *n = calloc(MANY, sizeof(*n));
	struct ranges s;

	assert_non_null(n);
	for (unsigned way = 0; way < 3; way++) {
		ranges_init(&s);
		for (uint64_t i = 0; i < MANY; i++) {
			uint64_t start = way == 0 ? i : way == 1 ? MANY - i : 7;

			ranges_insert(&s, &n[i], (struct range){ start, start + 1 });
		}
		assert_in_range(depth(s.root), 16, DEEPEST);
		for (uint64_t i = 0; i < MANY; i++)
			ranges_remove(&n[i]);
		assert_null(s.root);
	}
	free(n);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_those_of_an_array),
		cmocka_unit_test(a_node_in_no_set_is_not_removed),
		cmocka_unit_test(no_order_makes_it_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
