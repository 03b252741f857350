/* A file of the manager's options: how routing_engine is read, and what of it comes into the fabric's head. */
#include "cli_file.h"

#include "cli/manager_options.h"

static int read_file(const char *text, struct manager_options *o)
{
	set_file(text);
	return manager_options_read(o, "file");
}

/* The first that can be is the first, as both can in any topology. */
static void ways_to_route_are_named(void **state)
{
	static const struct {
		const char *text;
		enum route_choice choice;
	} rows[] = {
		{ "", ROUTE_AUTO },
		{ "sm_priority 3\n", ROUTE_AUTO },
		{ "routing_engine (null)\n", ROUTE_AUTO },
		{ "routing_engine minhop", ROUTE_ALWAYS_MIN_HOP },
		{ "\trouting_engine\t updn \t\r\n", ROUTE_ALWAYS_UP_DOWN },
		{ "routing_engine updn,minhop # in this order\n", ROUTE_ALWAYS_UP_DOWN },
		{ "routing_engine minhop, updn\n", ROUTE_ALWAYS_MIN_HOP },
		{ "routing_engine updn\nrouting_engine minhop\n", ROUTE_ALWAYS_MIN_HOP },
		{ "routing_engine updn\nrouting_engine (null)\n", ROUTE_AUTO },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fabric_head head = { .manager_routing = UINT8_MAX };
		struct manager_options o;

		assert_int_equal(read_file(rows[i].text, &o), EXIT_OK);
		assert_string_equal(told, "");
		assert_int_equal(o.routing, rows[i].choice);
		manager_options_apply(&o, &head);
		assert_int_equal(head.manager_routing, rows[i].choice);
	}
}

static void others_are_refused_by_name(void **state)
{
	static const struct {
		const char *text, *where, *word;
	} rows[] = {
		{ "routing_engine lash\n", "file:1:", "'lash'" },
		{ "lmc 1\nrouting_engine updn,ftree\n", "file:2:", "'ftree'" },
		{ "routing_engine minhop updn x\n", "file:1:", "'x'" },
		{ "routing_engine (null),updn\n", "file:1:", "'(null)'" },
		{ "routing_engine MINHOP\n", "file:1:", "'MINHOP'" },
		{ "routing_engine up-down\n", "file:1:", "'up-down'" },
		{ "routing_engine ,\n", "file:1:", "''" },
	};
	struct manager_options o;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(read_file(rows[i].text, &o), EXIT_FAILED);
		if (!strstr(told, rows[i].where) || !strstr(told, rows[i].word) || !strstr(told, "minhop, updn") ||
		    !strstr(told, "(null)"))
			fail_msg("'%s' is refused by '%s'", rows[i].text, told);
	}
	assert_int_equal(read_file("routing_engine\n", &o), EXIT_FAILED);
	assert_non_null(strstr(told, "a value is missing"));
}

/* PortInfo.SubnetTimeOut has five bits; without the option the manager has its own. */
static void timeouts_have_five_bits(void **state)
{
	static const struct { const char *text; int status; uint8_t timeout; } rows[] = {
		{ "", EXIT_OK, 0 }, { "subnet_timeout 1\n", EXIT_OK, 1 }, { "subnet_timeout 31\n", EXIT_OK, 31 },
		{ "subnet_timeout 0\n", EXIT_FAILED, 0 }, { "subnet_timeout 32\n", EXIT_FAILED, 0 },
		{ "subnet_timeout -1\n", EXIT_FAILED, 0 }, { "subnet_timeout 0x1f\n", EXIT_OK, 31 },
		{ "subnet_timeout 010\n", EXIT_FAILED, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fabric_head head = { .manager_subnet_timeout = UINT8_MAX };
		struct manager_options o;

		assert_int_equal(read_file(rows[i].text, &o), rows[i].status);
		if (rows[i].status != EXIT_OK)
			continue;
		manager_options_apply(&o, &head);
		assert_int_equal(head.manager_subnet_timeout, rows[i].timeout);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ways_to_route_are_named),
		cmocka_unit_test(others_are_refused_by_name),
		cmocka_unit_test(timeouts_have_five_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
