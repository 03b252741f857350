/* A file of partitions: which P_Keys ports have by it. tests/e2e shows who reaches whom by them. */
#include "cli_file.h"
#include "fabric.h"

#include "cli/partitions.h"
#include "wire/pkey.h"

enum { DEFAULT = PKEY_DEFAULT & ~PKEY_FULL };

/* The end port that has this name, in a line of two hosts with full members of the default partition, by this file. The manager,
 * at that host or the switch, gives the port the same ones. */
static void expect_keys_by(const char *text, const char *manager, unsigned number, const char *host, const uint16_t expected[4])
{
	struct test_fabric t;

	make_fabric(&t, "line", (char *const[]){ NULL });
	set_file(text);
	assert_int_equal(partitions_apply(&t.f, "file", port_named(&t.f, manager, number)), EXIT_OK);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(fabric_pkeys(&t.f, port_named(&t.f, host, 1))[i], expected[i]);
	for (uint32_t port = 0; port < t.f.ports; port++)
		assert_memory_equal(fabric_partitions(&t.f, port), fabric_pkeys(&t.f, port), PORT_PKEYS * sizeof(uint16_t));
	end_fabric(&t);
}

static void expect_keys(const char *text, const char *host, const uint16_t expected[4])
{
	expect_keys_by(text, "s1", 0, host, expected);
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

/* Whatever the file says of it: all ask it by the default key. */
static void the_manager_is_a_full_member(void **state)
{
	(void)state;
	expect_keys_by("Default=0x7fff: h2", "h1", 1, "h1", (uint16_t[4]){ PKEY_DEFAULT });
	expect_keys_by("Default=0x7fff: ALL, SELF=limited; red=1: h1", "h1", 1, "h1", (uint16_t[4]){ PKEY_DEFAULT, 1 });
	expect_keys_by("Default=0x7fff: ALL; red=1: h1", "h1", 1, "h2", (uint16_t[4]){ DEFAULT });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_in_a_table_once),
		cmocka_unit_test(the_manager_is_a_full_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
