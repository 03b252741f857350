/* QP numbers: all of a slot's, each once, in no order one could guess, and long rests before they come again. */
#include "runtime/qpn_pool.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void every_number_once(void **state)
{
	struct qpn_pool n;
	struct rand rand;
	uint8_t *seen = calloc(1 << 24, 1);
	uint32_t qpn, ascending = 0, last = 0;

	(void)state;
	rand_seed(&rand, 5);
	qpn_pool_init(&n);
	assert_int_equal(qpn_pool_take(&n, &qpn), -ENOMEM);
	assert_int_equal(qpn_pool_add_slot(&n, &rand, 0x123), 0);
	for (int i = 0; i < 4095; i++) {
		assert_int_equal(qpn_pool_take(&n, &qpn), 0);
		assert_int_equal(qpn >> 12, 0x123);
		assert_int_not_equal(qpn & 0xfff, 0);
		assert_int_equal(seen[qpn]++, 0);
		ascending += qpn > last;
		last = qpn;
	}
	assert_in_range(ascending, 1900, 2200);
	assert_int_equal(qpn_pool_take(&n, &qpn), -ENOMEM);
	qpn_pool_fini(&n);
	free(seen);
}

static void numbers_rest(void **state)
{
	struct qpn_pool n;
	struct rand rand;
	uint32_t first, qpn;
	int between = 0;

	(void)state;
	rand_seed(&rand, 6);
	qpn_pool_init(&n);
	qpn_pool_add_slot(&n, &rand, 1);
	assert_false(qpn_pool_low(&n));
	qpn_pool_take(&n, &first);
	qpn_pool_give(&n, first);
	do {
		qpn_pool_take(&n, &qpn);
		qpn_pool_give(&n, qpn);
		between++;
	} while (qpn != first);
	assert_int_equal(between, 4095);
	while (!qpn_pool_low(&n))
		qpn_pool_take(&n, &qpn);
	qpn_pool_add_slot(&n, &rand, 2);
	assert_false(qpn_pool_low(&n));
	qpn_pool_fini(&n);
}

static void multicast_is_no_number(void **state)
{
	struct qpn_pool n;
	struct rand rand;
	uint32_t qpn;
	int count = 0;

	(void)state;
	rand_seed(&rand, 7);
	qpn_pool_init(&n);
	qpn_pool_add_slot(&n, &rand, 0xfff);
	for (; qpn_pool_take(&n, &qpn) == 0; count++)
		assert_int_not_equal(qpn, 0xffffff);
	assert_int_equal(count, 4094);
	qpn_pool_fini(&n);
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
