/* All hosts ask for paths at once: everybody has an answer, and what it takes by buffers and by windows. weft sim path-storm
 * prints the tables of docs/management.md. */
#include "../unit/fabric.h"
#include "cold_boot.h"
#include "path_storm.h"

struct subnet {
	struct test_fabric t;
	struct cold_boot b;
};

static void up(struct subnet *s)
{
	struct cold_boot_part part;

	s->t = (struct test_fabric){ 0 };
	MAKE(&s->t, "fat-tree", "ports=8");
	cold_boot_init(&s->b, &s->t.f, 1, 0);
	cold_boot_begin(&s->b, &part);
	assert_true(part.is_up && mad_net_until_quiet(&s->b.net, WTIME_S));
}

static void down(struct subnet *s)
{
	cold_boot_fini(&s->b);
	end_fabric(&s->t);
}

static struct path_storm_config usual(bool is_table)
{
	struct path_storm_config c = path_storm_usual;

	c.tunables = gsa_defaults;
	c.is_table = is_table;
	return c;
}

static void storm(struct subnet *s, const struct path_storm_config *c, struct path_storm_result *r)
{
	path_storm_run(&s->b.net, c, r);
	assert_int_equal(r->hosts, 32);
	assert_int_equal(r->answered + r->failed, r->hosts);
	assert_true(r->median <= r->last);
}

static void buffers(void **state)
{
	struct path_storm_config c = usual(false);
	struct path_storm_result adaptive, announced, one;
	struct subnet s;

	up(&s);
	storm(&s, &c, &adaptive);
	assert_int_equal(adaptive.answered, 32);
	c.hint = 32;
	storm(&s, &c, &announced);
	assert_int_equal(announced.drops, 0);
	assert_int_equal(announced.queries, 32);
	/* a query and its answer each */
	assert_int_equal(announced.datagrams, 64);
	/* one query after the other, 11 us each */
	assert_true(announced.last >= 32 * 11 * WTIME_US && announced.last < 33 * 11 * WTIME_US + 50 * WTIME_US);
	c.hint = 0;
	c.tunables.fixed = 1;
	storm(&s, &c, &one);
	assert_true(one.drops > 0 && one.last > WTIME_S);
	down(&s);
}

static void windows(void **state)
{
	struct path_storm_config c = usual(true);
	struct path_storm_result one, usual_window, lossy;
	struct subnet s;

	up(&s);
	storm(&s, &c, &usual_window);
	assert_int_equal(usual_window.answered, 32);
	c.tunables.window = 1;
	storm(&s, &c, &one);
	assert_int_equal(one.answered, 32);
	/* each segment is acknowledged by itself */
	assert_true(one.datagrams > usual_window.datagrams && one.last > usual_window.last);
	c.tunables.window = gsa_defaults.window;
	c.loss_ppm = 20000;
	storm(&s, &c, &lossy);
	assert_int_equal(lossy.answered, 32);
	assert_true(lossy.last > usual_window.last);
	down(&s);
}

/* Answers of 30 MB, of which the administration has 8 under way: the other questions wait, and are answered once. */
static void more_than_there_is_room_for(void **state)
{
	struct path_storm_config c = usual(true);
	struct path_storm_result r;
	struct cold_boot_part part;
	struct subnet s = { .t = { .mapping = NULL } };

	MAKE(&s.t, "fat-tree", "ports=14", "levels=3");
	cold_boot_init(&s.b, &s.t.f, 1, 0);
	cold_boot_begin(&s.b, &part);
	assert_true(part.is_up && mad_net_until_quiet(&s.b.net, WTIME_S));
	c.tunables.window = 4;
	c.loss_ppm = 10000;
	path_storm_run(&s.b.net, &c, &r);
	assert_int_equal(r.hosts, 686);
	assert_int_equal(r.answered, r.hosts);
	assert_true(r.queries < r.hosts + 20);
	down(&s);
}

static void the_same_seed_is_the_same_storm(void **state)
{
	struct path_storm_config c = usual(true);
	struct path_storm_result r[3];
	struct subnet s;

	c.loss_ppm = 50000;
	for (int i = 0; i < 3; i++) {
		c.seed = i == 2 ? 2 : 1;
		up(&s);
		storm(&s, &c, &r[i]);
		down(&s);
	}
	assert_memory_equal(&r[0], &r[1], sizeof(r[0]));
	assert_true(memcmp(&r[0], &r[2], sizeof(r[0])) != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers), cmocka_unit_test(windows), cmocka_unit_test(more_than_there_is_room_for),
		cmocka_unit_test(the_same_seed_is_the_same_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
