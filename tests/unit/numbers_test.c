/* QP numbers: all of a slot's, each once, in no order one could guess, and long rests before they come again. */
#include "host/numbers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void every_number_once(void **state)
{
	struct numbers n;
	struct rand rand;
	uint8_t *seen = calloc(1 << 24, 1);
	uint32_t qpn, ascending = 0, last = 0;

	(void)state;
	rand_seed(&rand, 5);
	numbers_init(&n);
	assert_int_equal(numbers_take(&n, &qpn), -ENOMEM);
	assert_int_equal(numbers_add_slot(&n, &rand, 0x123), 0);
	for (int i = 0; i < 4095; i++) {
		assert_int_equal(numbers_take(&n, &qpn), 0);
		assert_int_equal(qpn >> 12, 0x123);
		assert_int_not_equal(qpn & 0xfff, 0);
		assert_int_equal(seen[qpn]++, 0);
		ascending += qpn > last;
		last = qpn;
	}
	assert_in_range(ascending, 1900, 2200);
	assert_int_equal(numbers_take(&n, &qpn), -ENOMEM);
	numbers_fini(&n);
	free(seen);
}

static void numbers_rest(void **state)
{
	struct numbers n;
	struct rand rand;
	uint32_t first, qpn;
	int between = 0;

	(void)state;
	rand_seed(&rand, 6);
	numbers_init(&n);
	numbers_add_slot(&n, &rand, 1);
	assert_false(numbers_low(&n));
	numbers_take(&n, &first);
	numbers_give(&n, first);
	do {
		numbers_take(&n, &qpn);
		numbers_give(&n, qpn);
		between++;
	} while (qpn != first);
	assert_int_equal(between, 4095);
	while (!numbers_low(&n))
		numbers_take(&n, &qpn);
	numbers_add_slot(&n, &rand, 2);
	assert_false(numbers_low(&n));
	numbers_fini(&n);
}

static void multicast_is_no_number(void **state)
{
	struct numbers n;
	struct rand rand;
	uint32_t qpn;
	int count = 0;

	(void)state;
	rand_seed(&rand, 7);
	numbers_init(&n);
	numbers_add_slot(&n, &rand, 0xfff);
	for (; numbers_take(&n, &qpn) == 0; count++)
		assert_int_not_equal(qpn, 0xffffff);
	assert_int_equal(count, 4094);
	numbers_fini(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_once),
		cmocka_unit_test(numbers_rest),
		cmocka_unit_test(multicast_is_no_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
