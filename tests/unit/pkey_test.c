/* Which P_Keys let each other's packets in: IBA vol. 1, 10.9.3. */
#include "wire/pkey.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void one_partition_and_one_full_member(void **state)
{
	static const struct {
		uint16_t a, b;
		bool matches;
	} rows[] = {
		{ 0xffff, 0xffff, true }, { 0xffff, 0x7fff, true }, { 0x8001, 0x0001, true },
		{ 0x7fff, 0x7fff, false }, { 0x0001, 0x0001, false },
		{ 0xffff, 0x8001, false }, { 0x8001, 0x8002, false }, { 0x8003, 0x0001, false },
		/* an empty entry of a table, or what looks like one */
		{ 0x0000, 0x0000, false }, { 0x8000, 0x0000, false }, { 0x8000, 0x8000, false }, { 0x8000, 0x0001, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(pkey_matches(rows[i].a, rows[i].b), rows[i].matches);
		assert_int_equal(pkey_matches(rows[i].b, rows[i].a), rows[i].matches);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(one_partition_and_one_full_member) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
