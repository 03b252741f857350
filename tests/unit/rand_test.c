/* Random numbers: the published vector, and the shape of what is derived from them. */
#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The authors' vector of eight bytes, 00 01 .. 07, under the key 00 01 .. 0f: the numbers are the keyed function of a counter. */
static void numbers_are_the_function_of_a_counter(void **state)
{
	static const struct siphash_key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
	struct rand r;

	rand_key(&r, &key);
	assert_true(rand_u64(&r) == siphash_word(&key, 0));
	assert_true(rand_u64(&r) == siphash_word(&key, 1));
	r.count = 0x0706050403020100;
	assert_true(rand_u64(&r) == 0x93f5f5799a932462);
}

/* xoshiro256** and others are linear over the field of two elements: with as many outputs as the state has bits, each further
 * bit is a sum of earlier ones. Here the sum of two earlier ones, wherever they stand, is right half of the time. */
static void no_bit_is_a_short_sum_of_others(void **state)
{
	enum { BITS = 4096, BACK = 64 };
	static uint8_t bit[BITS];
	struct rand r;

	rand_seed(&r, 5);
	for (int i = 0; i < BITS; i++)
		bit[i] = (uint8_t)(rand_u64(&r) & 1);
	for (int a = 1; a < BACK; a++) {
		for (int b = a + 1; b < BACK; b++) {
			int right = 0;

			for (int i = BACK; i < BITS; i++)
				right += bit[i] == (bit[i - a] ^ bit[i - b]);
			assert_in_range(right, 1700, 2332);	/* 2016 expected, 32 a standard deviation */
		}
	}
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

/* Of a bound that 2^64 is no multiple of, by far: without care the lower third of these numbers comes half the time. */
static void a_large_bound_is_even_too(void **state)
{
	const uint64_t bound = 3ull << 62;
	unsigned low = 0;
	struct rand r;

	rand_seed(&r, 1);
	for (int i = 0; i < 30000; i++)
		low += rand_below(&r, bound) < bound / 3;
	assert_in_range(low, 9600, 10400);	/* 10000 expected, 5 standard deviations */
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
		cmocka_unit_test(numbers_are_the_function_of_a_counter),
		cmocka_unit_test(no_bit_is_a_short_sum_of_others),
		cmocka_unit_test(one_seed_one_sequence),
		cmocka_unit_test(below_stays_below),
		cmocka_unit_test(below_is_even),
		cmocka_unit_test(a_large_bound_is_even_too),
		cmocka_unit_test(chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
