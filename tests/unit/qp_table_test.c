/* QPs by number: found while they are in, whatever stood or stands in the same places, and in few steps. */
#include "adapter.h"

#include "base/rand.h"

#include <stdio.h>

enum { POOL = 200, SLOTS = 64, SLOT_NUMBERS = 4095, STEPS_MOST = 8 };

/* As much of an adapter as qp_find looks at. */
static struct ca ca;

static struct qp *new_pool(struct rand *r, uint32_t below)
{
	struct qp *pool = calloc(POOL, sizeof(*pool));

	assert_non_null(pool);
	for (unsigned i = 0; i < POOL; i++) {
		bool taken;

		do {
			pool[i].qpn = (uint32_t)rand_below(r, below);
			taken = false;
			for (unsigned k = 0; k < i; k++)
				taken |= pool[k].qpn == pool[i].qpn;
		} while (taken);
	}
	return pool;
}

static void expect_those(const struct qp *pool, const bool *in, uint64_t seed, unsigned step)
{
	for (unsigned i = 0; i < POOL; i++)
		if (qp_find(&ca, pool[i].qpn) != (in[i] ? &pool[i] : NULL))
			fail_msg("seed %llu, step %u: QP %#x is %sfound", (unsigned long long)seed, step, pool[i].qpn,
				 in[i] ? "not " : "");
	assert_null(qp_find(&ca, pool[0].qpn | 1u << 24));
}

/* Few places and much coming and going, so that QPs stand far behind their homes and holes open among them. */
static void what_is_in_is_found_after_any_others_went(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 30; seed++) {
		bool in[POOL] = { false };
		struct qp *pool;
		struct rand r;

		rand_seed(&r, seed);
		pool = new_pool(&r, seed % 2 ? 1 << 24 : 400);
		assert_int_equal(qp_table_init(&ca.by_number), 0);
		for (unsigned step = 0; step < 600; step++) {
			unsigned most = 4u << seed % 6, i = (unsigned)rand_below(&r, POOL);

			if (in[i])
				qp_table_remove(&ca.by_number, &pool[i]);
			else if (ca.by_number.count < most)
				assert_int_equal(qp_table_insert(&ca.by_number, &pool[i]), 0);
			else
				continue;
			in[i] = !in[i];
			expect_those(pool, in, seed, step);
		}
		qp_table_fini(&ca.by_number);
		free(pool);
	}
}

static void removing_twice_changes_nothing(void **state)
{
	struct qp a = { .qpn = 7 }, b = { .qpn = 9 };

	(void)state;
	assert_int_equal(qp_table_init(&ca.by_number), 0);
	assert_int_equal(qp_table_insert(&ca.by_number, &a), 0);
	qp_table_remove(&ca.by_number, &b);
	qp_table_remove(&ca.by_number, &a);
	qp_table_remove(&ca.by_number, &a);
	assert_int_equal(ca.by_number.count, 0);
	assert_null(qp_find(&ca, 7));
	qp_table_fini(&ca.by_number);
}

/* What a lookup of the n QPs costs: places looked at, in the mean and at most. */
static void expect_few_steps(struct qp *qp, uint32_t n, const char *what)
{
	uint64_t sum = 0;
	uint32_t most = 0;

	assert_int_equal(qp_table_init(&ca.by_number), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(qp_table_insert(&ca.by_number, &qp[i]), 0);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t steps = 1, at = qp_table_home(&ca.by_number, qp[i].qpn);

		for (; ca.by_number.place[at] != &qp[i]; at = qp_table_after(&ca.by_number, at))
			steps++;
		sum += steps;
		most = steps > most ? steps : most;
	}
	print_message("%s: %u QPs, %.2f steps in the mean, %u at most, %zu KB\n", what, n, (double)sum / n, most,
		      ((size_t)8 << (32 - ca.by_number.shift)) >> 10);
	assert_true(sum < n + n / 8);
	assert_true(most <= STEPS_MOST);
	qp_table_fini(&ca.by_number);
}

/* A process of 262,080 QPs has 64 slots of the 4,096, wherever they are, and all numbers of each. */
static void whole_slots_do_not_stand_in_each_others_way(void **state)
{
	struct qp *qp = calloc(SLOTS * SLOT_NUMBERS, sizeof(*qp));

	(void)state;
	assert_non_null(qp);
	for (unsigned stride = 1; stride <= 64; stride *= 8) {
		for (uint32_t i = 0; i < SLOTS * SLOT_NUMBERS; i++)
			qp[i].qpn = (i / SLOT_NUMBERS * stride) << 12 | (i % SLOT_NUMBERS + 1);
		expect_few_steps(qp, SLOT_NUMBERS, "one slot");
		expect_few_steps(qp, SLOTS * SLOT_NUMBERS, "all slots");
	}
	for (uint32_t i = 0; i < 1000; i++)
		qp[i].qpn = i << 12 | 1;
	expect_few_steps(qp, 1000, "one number of each slot");
	free(qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_is_found_after_any_others_went),
		cmocka_unit_test(removing_twice_changes_nothing),
		cmocka_unit_test(whole_slots_do_not_stand_in_each_others_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
