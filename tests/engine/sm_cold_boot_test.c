/* What it costs to bring a whole subnet up, and what a dead switch costs: small ones. weft sim cold-boot prints the table of
 * docs/management.md. */
#include "../unit/fabric.h"
#include "cold_boot.h"

static void start(struct cold_boot *b, struct test_fabric *t, uint64_t seed, uint32_t loss_ppm, char *const settings[])
{
	*t = (struct test_fabric){ 0 };
	make_fabric(t, "fat-tree", settings);
	cold_boot_init(b, &t->f, seed, loss_ppm);
}

static void end(struct cold_boot *b, struct test_fabric *t)
{
	cold_boot_fini(b);
	end_fabric(t);
}

/* Nobody sends more than what a subnet of this size needs. */
static void datagrams(void **state)
{
	static const struct { char *settings[2]; uint64_t most; wtime within; } rows[] = {
		{ { "ports=8", NULL }, 1500, 10 * WTIME_MS }, { { "ports=16", NULL }, 5500, 30 * WTIME_MS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cold_boot_part part;
		struct test_fabric t;
		struct cold_boot b;

		start(&b, &t, 1, 0, rows[i].settings);
		assert_int_equal(cold_boot_active(&b), 0);
		cold_boot_begin(&b, &part);
		assert_int_equal(cold_boot_active(&b), t.f.nodes);
		assert_true(part.is_up && part.mads < rows[i].most && part.took < rows[i].within);
		assert_true(cold_boot_reaches(&b));
		assert_true(cold_boot_kill(&b, &part));
		assert_true(part.is_up && part.took < rows[i].within && cold_boot_reaches(&b));
		end(&b, &t);
	}
}

/* Half of all datagrams are lost, and it ends as without. */
static void losses(void **state)
{
	static const uint32_t ppm[] = { 10000, 100000, 300000, 500000 };

	for (size_t i = 0; i < sizeof(ppm) / sizeof(ppm[0]); i++) {
		struct cold_boot_part part;
		struct test_fabric t;
		struct cold_boot b;

		start(&b, &t, 7, ppm[i], (char *const[]){ "ports=8", NULL });
		cold_boot_begin(&b, &part);
		assert_true(part.is_up && cold_boot_reaches(&b));
		assert_true(cold_boot_kill(&b, &part) && part.is_up && cold_boot_reaches(&b));
		end(&b, &t);
	}
}

static void the_same_seed_is_the_same_boot(void **state)
{
	struct cold_boot_part part[3];

	for (int i = 0; i < 3; i++) {
		struct test_fabric t;
		struct cold_boot b;

		start(&b, &t, i == 2 ? 2 : 1, 100000, (char *const[]){ "ports=8", NULL });
		cold_boot_begin(&b, &part[i]);
		end(&b, &t);
	}
	assert_true(part[0].mads == part[1].mads && part[0].took == part[1].took);
	assert_true(part[0].mads != part[2].mads || part[0].took != part[2].took);
}

/* There is no other switch to die. */
static void one_switch(void **state)
{
	struct test_fabric t = { .mapping = NULL };
	struct cold_boot_part part;
	struct cold_boot b;

	MAKE(&t, "star", "hosts=4");
	cold_boot_init(&b, &t.f, 1, 0);
	cold_boot_begin(&b, &part);
	assert_true(part.is_up && cold_boot_reaches(&b));
	assert_false(cold_boot_kill(&b, &part));
	end(&b, &t);
}

/* Whose link is armed, and who has no LID. */
static void who_is_not_active(void **state)
{
	struct cold_boot_part part;
	struct test_fabric t;
	struct fabric_port *p;
	struct cold_boot b;

	start(&b, &t, 1, 0, (char *const[]){ "ports=4", NULL });
	cold_boot_begin(&b, &part);
	p = &t.f.port[fabric_port_index(&t.f, t.f.nodes - 1, 1)];
	assert_false(fabric_is_switch(&t.f, t.f.nodes - 1));
	p->state = PORT_ARMED;
	assert_int_equal(cold_boot_active(&b), t.f.nodes - 1);
	p->state = PORT_ACTIVE;
	p->lid = 0;
	assert_int_equal(cold_boot_active(&b), t.f.nodes - 1);
	end(&b, &t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(datagrams), cmocka_unit_test(losses), cmocka_unit_test(the_same_seed_is_the_same_boot),
		cmocka_unit_test(one_switch), cmocka_unit_test(who_is_not_active),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
