/* What a port counts during an interval: samples begin and end by themselves, one of a node at a time. */
#include "agents.h"

#include "fabric/route.h"

enum { CONTROL = 0x10, RESULT = 0x11, RESULT_EXTENDED = 0x1e, WORDS = 72 };

static struct test_agents g;
static struct traffic_block *all;	/* what programs' data counts */

static int set_up(void **state)
{
	(void)state;
	AGENTS(&g, "line", "switches=2");
	assert_int_equal(fabric_route(&g.t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&g.t.f);
	all = calloc(1, traffic_bytes(&g.t.f));
	assert_non_null(all);
	g.a.traffic = all;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(all);
	end_agents(&g);
	return 0;
}

static uint8_t *data(void)
{
	return g.mad + 64;
}

static uint64_t field(unsigned byte, unsigned bit, unsigned width)
{
	return wire_get(data(), byte, bit, width);
}

/* h1 asks the node with this LID, with the data that is there. */
static unsigned ask(unsigned method, unsigned attribute, const char *node, unsigned number)
{
	struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };
	struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_PERF, .class_version = 1, .method = (uint8_t)method,
				.tid = 5, .attr_id = (uint16_t)attribute };

	mad_header_build(&h, g.mad);
	to.path.dlid = g.t.f.port[port_named(&g.t.f, node, number)].lid;
	assert_int_equal(agents_mad(&g.a, g.now, port_named(&g.t.f, "h1", 1), &to, g.mad, &g.out), MAD_ANSWERED);
	return status_of(g.mad);
}

static void write_control(unsigned port, unsigned tag, uint32_t start, uint32_t interval)
{
	memset(g.mad, 0, sizeof(g.mad));
	wire_put(data(), port, 1, 0, 8);
	wire_put(data(), start, 28, 0, 32);
	wire_put(data(), interval, 32, 0, 32);
	wire_put(data(), tag, 36, 0, 16);
	for (unsigned i = 0; i < 15; i++)
		wire_put(data(), i % 6, 38 + 2 * i, 0, 16);	/* nothing, then each quantity */
}

static unsigned sample(const char *node, unsigned number, unsigned port, unsigned tag, uint32_t start, uint32_t interval)
{
	write_control(port, tag, start, interval);
	return ask(MAD_SET, CONTROL, node, number);
}

static void expect_result(const char *node, unsigned number, unsigned tag, unsigned status)
{
	assert_int_equal(ask(MAD_GET, RESULT, node, number), 0);
	assert_int_equal(field(0, 0, 16), tag);
	assert_int_equal(field(2, 14, 2), status);
}

/* As perfquery asks, before anybody has sampled anything. */
static void what_a_node_offers(void **state)
{
	(void)state;
	write_control(2, 0, 0, 0);
	assert_int_equal(ask(MAD_GET, CONTROL, "s1", 0), 0);
	assert_int_equal(field(1, 0, 8), 2);
	assert_int_equal(field(2, 0, 8), 249);	/* ticks of 250 * 4 ns */
	assert_int_equal(field(3, 5, 3), 4);	/* 32 bits */
	assert_int_equal(field(4, 2, 30), 01111111111);
	assert_int_equal(field(8, 1, 15), 011111);
	assert_int_equal(field(10, 0, 8), 0);
	assert_int_equal(field(11, 6, 2), SAMPLE_DONE);
	for (unsigned i = 0; i < 15; i++)
		assert_int_equal(field(38 + 2 * i, 0, 16), 0);
	expect_result("s1", 0, 0, SAMPLE_DONE);
	assert_int_equal(agents_deadline(&g.a), WTIME_NEVER);
}

/* Between its begin and its end alone, of the port alone; time makes both. */
static void an_interval_is_counted(void **state)
{
	uint32_t h2 = port_named(&g.t.f, "h2", 1);
	struct mad_arrival out;

	(void)state;
	traffic_add(&all[h2], TRAFFIC_WORDS, 1000);
	g.now = 5000;
	assert_int_equal(sample("h2", 1, 1, 0x77, 100, 2000), 0);
	assert_int_equal(field(11, 6, 2), SAMPLE_WAITING);
	assert_int_equal(field(28, 0, 32), 100);
	assert_int_equal(field(32, 0, 32), 2000);
	assert_int_equal(field(36, 0, 16), 0x77);
	assert_int_equal(field(38 + 2 * 5, 0, 16), 5);
	assert_int_equal(agents_deadline(&g.a), 5000 + 100 * WTIME_US);
	expect_result("h2", 1, 0x77, SAMPLE_WAITING);
	traffic_add(&all[h2], TRAFFIC_WORDS, 300);
	g.now = agents_deadline(&g.a);
	assert_false(agents_output(&g.a, g.now, g.mad, &out));
	assert_int_equal(agents_deadline(&g.a), 5000 + 2100 * WTIME_US);
	traffic_add(&all[h2], TRAFFIC_WORDS, 40);
	traffic_add(&all[h2], TRAFFIC_PACKETS, 3);
	traffic_add(&all[h2], TRAFFIC_WAIT, 9);
	traffic_add(&all[g.t.f.port[h2].peer], TRAFFIC_WORDS, 5);
	traffic_add(&all[g.t.f.port[h2].peer], TRAFFIC_PACKETS, 2);
	g.now += 1;
	assert_false(agents_output(&g.a, g.now, g.mad, &out));
	assert_int_equal(g.a.sample[0].status, SAMPLE_RUNNING);
	g.now = agents_deadline(&g.a);
	assert_false(agents_output(&g.a, g.now, g.mad, &out));
	traffic_add(&all[h2], TRAFFIC_WORDS, 70);
	assert_int_equal(agents_deadline(&g.a), WTIME_NEVER);
	expect_result("h2", 1, 0x77, SAMPLE_DONE);
	assert_memory_equal(data() + 4, ((const uint8_t[]){ 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 2,
							    0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40 }), 32);
	assert_int_equal(ask(MAD_GET, RESULT_EXTENDED, "h2", 1), 0);
	assert_int_equal(field(0, 0, 16), 0x77);
	assert_int_equal(field(4, 0, 2), 2);
	assert_int_equal(field(8 + 8, 0, 64), 40);
	assert_int_equal(field(8 + 8 * 14, 0, 64), 5);
	/* nobody else's */
	expect_result("s1", 0, 0, SAMPLE_DONE);
}

/* An interval lasts no less than was asked for, however late it begins, and is full at 32 bits. */
static void a_late_sample_lasts_as_long(void **state)
{
	uint32_t h2 = port_named(&g.t.f, "h2", 1);

	(void)state;
	assert_int_equal(sample("h2", 1, 1, 1, 10, 50), 0);
	g.now += WTIME_S;
	agents_expire(&g.a, g.now);
	assert_int_equal(g.a.sample[0].status, SAMPLE_RUNNING);
	assert_int_equal(agents_deadline(&g.a), g.now + 50 * WTIME_US);
	traffic_add(&all[h2], TRAFFIC_WORDS, 1ull << 33);
	g.now += 50 * WTIME_US;
	expect_result("h2", 1, 1, SAMPLE_DONE);
	assert_int_equal(field(8, 0, 32), UINT32_MAX);
	assert_int_equal(ask(MAD_GET, RESULT_EXTENDED, "h2", 1), 0);
	assert_int_equal(field(16, 0, 64), (1ull << 33) + 0);
	/* at once, and over at once: the request itself came before it */
	assert_int_equal(sample("h2", 1, 1, 2, 0, 0), 0);
	expect_result("h2", 1, 2, SAMPLE_DONE);
	assert_int_equal(field(12, 0, 32), 0);
}

static void one_at_a_time(void **state)
{
	(void)state;
	assert_int_equal(sample("s1", 0, 1, 1, 0, 1000), 0);
	/* another one learns by the tag that it did not get its sample */
	assert_int_equal(sample("s1", 0, 2, 9, 0, 5), 0);
	assert_int_equal(field(1, 0, 8), 1);
	assert_int_equal(field(36, 0, 16), 1);
	assert_int_equal(field(32, 0, 32), 1000);
	assert_int_equal(field(11, 6, 2), SAMPLE_RUNNING);
	g.now += 1000 * WTIME_US;
	assert_int_equal(sample("s1", 0, 2, 9, 0, 5), 0);
	assert_int_equal(field(1, 0, 8), 2);
	assert_int_equal(field(36, 0, 16), 9);
	/* nodes do not wait for each other */
	assert_int_equal(sample("h2", 1, 1, 3, 0, 5), 0);
	assert_int_equal(field(36, 0, 16), 3);
}

static void what_cannot_be_sampled(void **state)
{
	(void)state;
	assert_int_equal(sample("s1", 0, 255, 1, 0, 5), MAD_STATUS_BAD_VALUE);
	assert_int_equal(sample("s1", 0, 77, 1, 0, 5), MAD_STATUS_BAD_VALUE);
	assert_int_equal(sample("h2", 1, 0, 1, 0, 5), MAD_STATUS_BAD_VALUE);
	write_control(1, 1, 0, 5);
	wire_put(data(), 6, 38 + 2 * 14, 0, 16);
	assert_int_equal(ask(MAD_SET, CONTROL, "h2", 1), MAD_STATUS_BAD_VALUE);
	write_control(1, 1, 0, 5);
	wire_put(data(), 1, 0, 0, 8);	/* another mechanism */
	assert_int_equal(ask(MAD_SET, CONTROL, "h2", 1), MAD_STATUS_BAD_VALUE);
	assert_int_equal(ask(MAD_SET, RESULT, "h2", 1), MAD_STATUS_BAD_ATTRIBUTE);
	assert_int_equal(ask(MAD_SET, RESULT_EXTENDED, "h2", 1), MAD_STATUS_BAD_ATTRIBUTE);
	expect_result("h2", 1, 0, SAMPLE_DONE);
}

/* As many nodes as there are places: the next one is told so, until a sample has ended; that is forgotten. */
static void many_nodes(void **state)
{
	char name[8];

	tear_down(state);
	AGENTS(&g, "torus", "size=17x17", "hosts=1");
	assert_int_equal(fabric_route(&g.t.f, ROUTE_UP_DOWN), 0);
	fabric_activate(&g.t.f);
	all = NULL;
	for (unsigned i = 0; i <= AGENT_SAMPLES; i++) {
		snprintf(name, sizeof(name), "h%u", i + 1);
		assert_int_equal(sample(name, 1, 1, i, 0, i == 7 ? 10 : 1000), i < AGENT_SAMPLES ? 0 : MAD_STATUS_BUSY);
	}
	g.now += 10 * WTIME_US;
	assert_int_equal(sample(name, 1, 1, 3, 0, 1000), 0);
	expect_result(name, 1, 3, SAMPLE_RUNNING);
	expect_result("h8", 1, 0, SAMPLE_DONE);
	expect_result("h9", 1, 8, SAMPLE_RUNNING);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
		ROW(what_a_node_offers), ROW(an_interval_is_counted), ROW(a_late_sample_lasts_as_long), ROW(one_at_a_time),
		ROW(what_cannot_be_sampled), ROW(many_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
