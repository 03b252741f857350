/* Seeded random numbers: the published sequences, and the shape of what is derived from them. */
#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The reference implementation's output from the state 1, 2, 3, 4. */
static void reference_sequence(void **state)
{
	static const uint64_t expected[] = { 11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600 };
	struct rand r = { { 1, 2, 3, 4 } };

	for (unsigned i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert_true(rand_u64(&r) == expected[i]);
}

/* splitmix64 from the seed 0, as published. */
static void seeding(void **state)
{
	struct rand r;

	rand_seed(&r, 0);
	assert_true(r.s[0] == 0xe220a8397b1dcdaf);
	assert_true(r.s[1] == 0x6e789e6aa1b965f4);
}

static void one_seed_one_sequence(void **state)
{
	struct rand a, b;

	rand_seed(&a, 77);
	rand_seed(&b, 77);
	for (int i = 0; i < 100; i++)
		assert_true(rand_u64(&a) == rand_u64(&b));
}

static void below_stays_below(void **state)
{
	static const uint64_t bounds[] = { 1, 2, 3, 7, 1000, 1ull << 32, UINT64_MAX };
	struct rand r;

	rand_seed(&r, 1);
	for (unsigned i = 0; i < sizeof(bounds) / sizeof(*bounds); i++)
		for (int k = 0; k < 1000; k++)
			assert_true(rand_below(&r, bounds[i]) < bounds[i]);
}

/* 60000 throws of a die: chi squared with 5 degrees of freedom is below 20.5 but once in a thousand seeds. */
static void below_is_even(void **state)
{
	unsigned face[6] = { 0 };
	double chi = 0;
	struct rand r;

	rand_seed(&r, 1);
	for (int i = 0; i < 60000; i++)
		face[rand_below(&r, 6)]++;
	for (int i = 0; i < 6; i++)
		chi += ((double)face[i] - 10000) * ((double)face[i] - 10000) / 10000;
	assert_true(chi < 20.5);
}

static void chance(void **state)
{
	unsigned hits = 0;
	struct rand r;

	rand_seed(&r, 3);
	for (int i = 0; i < 100000; i++) {
		assert_false(rand_chance(&r, 0));
		assert_true(rand_chance(&r, 1000000));
		hits += rand_chance(&r, 10000);
	}
	assert_in_range(hits, 850, 1150);	/* 1000 expected, 5 standard deviations */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reference_sequence),
		cmocka_unit_test(seeding),
		cmocka_unit_test(one_seed_one_sequence),
		cmocka_unit_test(below_stays_below),
		cmocka_unit_test(below_is_even),
		cmocka_unit_test(chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
