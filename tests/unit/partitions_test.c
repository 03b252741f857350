/* A file of partitions: which P_Keys ports have by it. tests/e2e shows who reaches whom by them. */
#include "cli_file.h"
#include "fabric.h"

#include "cli/partitions.h"
#include "wire/pkey.h"

enum { DEFAULT = PKEY_DEFAULT & ~PKEY_FULL };

/* The end port that has this name, in a line of two hosts with full members of the default partition, by this file. */
static void expect_keys(const char *text, const char *host, const uint16_t expected[4])
{
	struct test_fabric t;

	make_fabric(&t, "line", (char *const[]){ NULL });
	set_file(text);
	assert_int_equal(partitions_apply(&t.f, "file", 0), EXIT_OK);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(fabric_pkeys(&t.f, port_named(&t.f, host, 1))[i], expected[i]);
	end_fabric(&t);
}

/* In whichever order: the default partition's place is free as soon as the file names that partition. */
static void a_key_is_in_a_table_once(void **state)
{
	(void)state;
	expect_keys("", "h1", (uint16_t[4]){ PKEY_DEFAULT });
	expect_keys("red=1: h1; red=1: h1=full", "h1", (uint16_t[4]){ PKEY_DEFAULT, 0x8001 });
	expect_keys("Default=0x7fff: ALL; red=1: h1; red=1: h1=full", "h1", (uint16_t[4]){ DEFAULT, 0x8001 });
	expect_keys("red=1: h1; Default=0x7fff: h2; red=1: h1=full", "h1", (uint16_t[4]){ 0, 0x8001 });
	expect_keys("red=1: h1; Default=0x7fff: h2; blue=2: h1; red=1: h1=full", "h1", (uint16_t[4]){ 2, 0x8001 });
	expect_keys("red=1: h1; Default=0x7fff: ALL=full; red=1: h1=full", "h1", (uint16_t[4]){ PKEY_DEFAULT, 0x8001 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_in_a_table_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
