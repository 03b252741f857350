/* Which users a user namespace can tell apart, from its map. */
#include "weftd/users.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { OVERFLOW = 65534 };

static void where_all_are_mapped_everybody_is_somebody(void **state)
{
	(void)state;
	assert_true(users_is_mapped(OVERFLOW, OVERFLOW, "         0          0 4294967295\n"));
	assert_true(users_is_mapped(OVERFLOW, OVERFLOW, "0 0 65536\n65536 100000 4294901759\n"));
}

static void elsewhere_the_overflow_uid_is_nobody(void **state)
{
	static const char *const maps[] = { "", "0 1000 1\n", "0 0 4294967294\n", "0 1000 1\n1 100000 65536\n", "x", "0 0",
					    "65534 7 1\n" };

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		assert_false(users_is_mapped(OVERFLOW, OVERFLOW, maps[i]));
		assert_true(users_is_mapped(OVERFLOW - 1, OVERFLOW, maps[i]));
		assert_true(users_is_mapped(0, OVERFLOW, maps[i]));
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_all_are_mapped_everybody_is_somebody),
		cmocka_unit_test(elsewhere_the_overflow_uid_is_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
