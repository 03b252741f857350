/* The list of devices that a network is started with. */
#include "control/devices.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void names_kinds_rates_and_interfaces(void **state)
{
	static const char list[] = "mlx5_0,mlx5_1:roce,rate=400G,netdev=eth0,ib-2:ib,rate=56G";
	struct control_table t;
	char why[100];

	(void)state;
	assert_int_equal(control_table_parse(list, &t, why, sizeof(why)), 0);
	assert_int_equal(t.devices, 3);
	assert_string_equal(t.device[0].name, "mlx5_0");
	assert_int_equal(t.device[0].protocol, PAGE_IB);
	assert_int_equal(control_rate(t.device[0].width, t.device[0].speed), 100);
	assert_string_equal(t.device[1].name, "mlx5_1");
	assert_string_equal(t.device[1].netdev, "eth0");
	assert_int_equal(t.device[1].protocol, PAGE_ROCE_V2);
	assert_int_equal(control_rate(t.device[1].width, t.device[1].speed), 400);
	assert_string_equal(t.device[2].netdev, "");
	assert_int_equal(t.device[2].protocol, PAGE_IB);
	assert_int_equal(control_rate(t.device[2].width, t.device[2].speed), 56);
}

static void what_is_wrong_is_named(void **state)
{
	static const struct { const char *list, *why; } rows[] = {
		{ "", "1 to 15" }, { "a,", "1 to 15" }, { "a,,b", "1 to 15" }, { "../x", "1 to 15" }, { "a.b", "1 to 15" },
		{ "sixteen_letters_", "1 to 15" }, { "a b", "1 to 15" }, { "-a", "1 to 15" }, { ":roce", "1 to 15" },
		{ "a,b,a", "one name" }, { "a:iwarp", "ib or roce" }, { "a:", "ib or roce" }, { "a:rocec", "ib or roce" },
		{ "rate=100G", "comes first" }, { "a,rate=99G", "rates are" }, { "a,rate=", "rates are" },
		{ "a,rate=100", "rates are" },
		{ "a,speed=1G", "rate= and netdev=" }, { "a,netdev=eth0", "of a roce" }, { "a:roce,netdev=", "of a roce" },
		{ "a:roce,netdev=sixteen_letters_", "of a roce" }, { "a:roce,netdev=e\xff", "of a roce" },
		{ "a:roce,netdev=e/0", "of a roce" }, { "a:roce,netdev=e0,b:roce,netdev=e0", "one netdev" },
		{ "a,b,c,d,e,f,g,h,i", "at most 8" },
	};
	struct control_table t;
	char why[100];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(control_table_parse(rows[i].list, &t, why, sizeof(why)), -EINVAL);
		if (!strstr(why, rows[i].why))
			fail_msg("'%s' gives: %s", rows[i].list, why);
	}
	assert_int_equal(control_table_parse("a,b,c,d,e,f,g,fifteen_letters", &t, why, sizeof(why)), 0);
	assert_int_equal(t.devices, PAGE_NAMED);
}

static void a_list_of_names_is_bits(void **state)
{
	unsigned named;

	(void)state;
	assert_int_equal(control_devices_listed("", &control_default, &named), 0);
	assert_int_equal(named, ~0u);
	assert_int_equal(control_devices_listed("weft1", &control_default, &named), 0);
	assert_int_equal(named, 2);
	assert_int_equal(control_devices_listed("weft1,weft", &control_default, &named), -EINVAL);
	assert_int_equal(named, 2);
}

static void without_a_network_the_names_are_the_default_ones(void **state)
{
	struct control_table t;

	(void)state;
	control_table_names("/nonesuch/weft", &t);
	assert_int_equal(t.devices, 2);
	assert_string_equal(t.device[1].name, "weft1");
}

/* weftd starts or ends: of the tree there is a part. */
static void names_are_whole_or_none(void **state)
{
	static struct fabric_page page = { .magic = PAGE_MAGIC, .version = PAGE_VERSION, .devices = 3 };
	char dir[] = "/tmp/weft-names.XXXXXX", own[64], path[160], command[160];
	struct control_table t;
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(own, sizeof(own), "%s/" CONTROL_OWN, dir);
	snprintf(command, sizeof(command), "mkdir -p %s/devices/sys/class/infiniband_verbs/uverbs0", own);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/devices/sys/class/infiniband_verbs/uverbs0/ibdev", own);
	file = fopen(path, "w");
	assert_true(fputs("mlx5_0\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	control_table_names(dir, &t);
	assert_int_equal(t.devices, 2);
	assert_string_equal(t.device[0].name, "weft0");
	snprintf(path, sizeof(path), "%s/page", own);
	for (unsigned i = 0; i < page.devices; i++)
		snprintf(page.device[i].name, PAGE_NAME, "mlx5_%u", i);
	file = fopen(path, "w");
	assert_int_equal(fwrite(&page, sizeof(page), 1, file), 1);
	assert_int_equal(fclose(file), 0);
	control_table_names(dir, &t);
	assert_int_equal(t.devices, 3);
	assert_string_equal(t.device[2].name, "mlx5_2");
	/* what is not whole yet is none */
	assert_int_equal(truncate(path, 100), 0);
	control_table_names(dir, &t);
	assert_string_equal(t.device[0].name, "weft0");
	assert_int_equal(unlink(path), 0);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_kinds_rates_and_interfaces),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_list_of_names_is_bits),
		cmocka_unit_test(without_a_network_the_names_are_the_default_ones),
		cmocka_unit_test(names_are_whole_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
