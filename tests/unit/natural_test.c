/* Names in the order in which people count. */
#include "base/natural.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Each before the next. */
static const char *const rows[] = {
	"", "0", "00", "1", "2", "10", "HCA", "HCA-01", "HCA-1", "HCA-2", "HCA-2 x", "HCA-9", "HCA-10", "HCA-10a2", "HCA-10a10",
	"HCA-99999999999999999999", "HCA-100000000000000000000", "HCA-a", "HCB-1", "mlx5_2", "mlx5_10", "mlx15_1",
	"weft0", "weft2", "weft10", "\xc3\xa9",
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void numbers_count(void **state)
{
	(void)state;
	for (int i = 0; i < ROWS; i++) {
		for (int j = 0; j < ROWS; j++) {
			int order = natural_compare(rows[i], rows[j]);

			if ((order > 0) - (order < 0) != (i > j) - (i < j))
				fail_msg("\"%s\" against \"%s\": %d", rows[i], rows[j], order);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(numbers_count) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
