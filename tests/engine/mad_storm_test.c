/* A subnet begins (GSA-33): all its nodes ask the administration at time 0, and what its receive buffers make of that.
 * weft sim mad-storm prints the tables of docs/management.md. */
#include "mad_storm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 512 };

static void all_nodes_ask_at_once(void **state)
{
	static struct mad_storm_result result[STORM_MODES];

	(void)state;
	for (unsigned i = 0; i < STORM_MODES; i++) {
		struct mad_storm_config c;

		mad_storm_configure(&c, i, NODES, 1);
		mad_storm_run(&c, &result[i]);
		assert_true(result[i].queries == NODES + result[i].drops + result[i].discards);
	}
	assert_true(result[0].drops > result[1].drops && result[1].drops > result[2].drops);
	assert_int_equal(result[3].drops, 0);
	assert_int_equal(result[3].queries, NODES);
	assert_true(result[3].last <= result[2].last && result[2].last < result[1].last);
}

/* GSA-25..27: a client with a datagram each microsecond, which takes a millisecond for one, beside nodes that ask: they wait no
 * longer than 1.2 times as long. By the fixed depth they wait for each other's tries. */
static void a_flood_costs_nodes_nothing(void **state)
{
	static struct mad_storm_result result[STORM_FLOODS];
	const struct mad_storm_result *quiet = &result[0], *flooded = &result[1], *fixed = &result[2];

	(void)state;
	for (unsigned i = 0; i < STORM_FLOODS; i++) {
		struct mad_storm_config c;

		mad_storm_flood(&c, i, 1);
		mad_storm_run(&c, &result[i]);
	}
	assert_int_equal(flooded->queries, 32);
	assert_true(flooded->flood_lost > 100000);
	assert_true(5 * flooded->median <= 6 * quiet->median && 5 * flooded->most_of_all <= 6 * quiet->most_of_all);
	assert_true(fixed->queries > 32 && fixed->most_of_all > 10 * quiet->most_of_all);
}

/* GSA-40: a driver that is kept from looking for 50 ms at a time while a datagram comes each microsecond. What it misses is lost,
 * and nothing stands still: nodes have their answers as soon as the flood ends. */
static void a_starved_driver_recovers(void **state)
{
	static struct mad_storm_result r;
	struct mad_storm_config c;

	(void)state;
	mad_storm_configure(&c, 2, NODES, 1);
	c.tunables.most = 2048;
	c.jitter_ns = 20 * WTIME_MS;
	c.wake_ns = 50 * WTIME_MS;
	c.flood_ns = WTIME_US;
	c.flood_serve_ns = 10 * WTIME_US;
	c.ends = 400 * WTIME_MS;
	mad_storm_run(&c, &r);
	assert_true(r.drops > 0 && r.flood_lost > 200000);
	assert_true(r.answered[NODES - 1] == r.last && r.last < c.ends + 3 * c.retry_ns);
	assert_true(r.most_posted <= c.tunables.most);
}

static void the_same_seed_is_the_same_storm(void **state)
{
	static struct mad_storm_result a, b;
	struct mad_storm_config c;

	(void)state;
	mad_storm_configure(&c, 1, NODES, 1);
	mad_storm_run(&c, &a);
	mad_storm_run(&c, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	c.seed++;
	mad_storm_run(&c, &b);
	assert_true(memcmp(&a, &b, sizeof(a)) != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_nodes_ask_at_once),
		cmocka_unit_test(a_flood_costs_nodes_nothing),
		cmocka_unit_test(a_starved_driver_recovers),
		cmocka_unit_test(the_same_seed_is_the_same_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
