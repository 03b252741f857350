/* serial numbers, exhaustively at width 8, then at the edges of 24 and 32 bits. */
#include "base/psn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static void every_sum_of_8_bits(void **state)
{
	for (unsigned a = 0; a < 256; a++)
		for (int n = -600; n <= 600; n++)
			assert_int_equal(serial_add(a, n, 8), (unsigned)((int)a + n + 1024) % 256);
}

/* The distance is the one number in -128..127 that leads from b to a. */
static void every_difference_of_8_bits(void **state)
{
	for (unsigned a = 0; a < 256; a++) {
		for (unsigned b = 0; b < 256; b++) {
			int64_t d = serial_diff(a, b, 8);

			assert_in_range(d + 128, 0, 255);
			assert_int_equal(serial_add(b, d, 8), a);
			if (d != -128)
				assert_int_equal(serial_diff(b, a, 8), -d);
		}
	}
}

/* Within half the circle, being before is transitive and does not depend on where the circle begins. */
static void order_of_8_bits_survives_rotation(void **state)
{
	for (unsigned a = 0; a < 256; a++)
		for (unsigned b = 0; b < 256; b++)
			for (unsigned by = 0; by < 256; by += 5)
				assert_int_equal(serial_diff(a, b, 8), serial_diff((a + by) & 255, (b + by) & 255, 8));
}

static const struct {
	psn_t a, b;
	int32_t diff;
} psns[] = {
	{ 0, 0, 0 }, { 1, 0, 1 }, { 0, 1, -1 }, { 0, 0xffffff, 1 }, { 0xffffff, 0, -1 }, { 0x7fffff, 0, 0x7fffff },
	{ 0x800000, 0, -0x800000 }, { 0, 0x800000, -0x800000 }, { 0x800001, 0, -0x7fffff }, { 5, 0xfffffb, 10 },
};

static int sign(int d)
{
	return (d > 0) - (d < 0);
}

static void psn_edges(void **state)
{
	for (unsigned i = 0; i < COUNT(psns); i++) {
		int32_t d = psns[i].diff;

		assert_int_equal(psn_diff(psns[i].a, psns[i].b), d);
		assert_int_equal(sign(psn_cmp(psns[i].a, psns[i].b)), sign(d));
		assert_int_equal(psn_add(psns[i].b, d), psns[i].a);
	}
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_add(0, -1), 0xffffff);
	assert_int_equal(psn_add(3, 1 << 24), 3);
}

static void edges_of_32_bits(void **state)
{
	assert_int_equal(serial_add(UINT32_MAX, 1, 32), 0);
	assert_int_equal(serial_add(0, -1, 32), UINT32_MAX);
	assert_true(serial_diff(0, UINT32_MAX, 32) == 1);
	assert_true(serial_diff(0x80000000, 0, 32) == INT32_MIN);
	assert_true(serial_diff(0x7fffffff, 0, 32) == INT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sum_of_8_bits),
		cmocka_unit_test(every_difference_of_8_bits),
		cmocka_unit_test(order_of_8_bits_survives_rotation),
		cmocka_unit_test(psn_edges),
		cmocka_unit_test(edges_of_32_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
