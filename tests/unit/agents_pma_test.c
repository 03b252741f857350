/* The performance management agent: what was sent is counted, and counters are read, set and full. */
#include "agents.h"

#include "fabric/route.h"

enum { CLASS_PORT_INFO = 1, PORT_COUNTERS = 0x12, ERROR_DETAILS = 0x15, DISCARD_DETAILS = 0x16, EXTENDED = 0x1d, WORDS = 72 };

static void start(struct test_agents *g)
{
	AGENTS(g, "line", "switches=2");
	assert_int_equal(fabric_route(&g->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&g->t.f);
}

static uint8_t *data_of(struct test_agents *g)
{
	return g->mad + 64;
}

/* h1 asks the node with this LID. */
static unsigned ask(struct test_agents *g, unsigned method, unsigned attribute, const char *node, unsigned number, unsigned port,
		    unsigned select)
{
	struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };
	struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_PERF, .class_version = 1, .method = (uint8_t)method,
				.tid = 5, .attr_id = (uint16_t)attribute };
	uint32_t h1 = port_named(&g->t.f, "h1", 1);

	mad_header_build(&h, g->mad);
	wire_put(data_of(g), port, 1, 0, 8);
	wire_put(data_of(g), select & 0xffff, 2, 0, 16);
	if (attribute == PORT_COUNTERS)
		wire_put(data_of(g), select >> 16, 18, 7, 1);
	to.path.dlid = g->t.f.port[port_named(&g->t.f, node, number)].lid;
	assert_int_equal(agents_mad(&g->a, 1, h1, &to, g->mad, &g->out), MAD_ANSWERED);
	assert_int_equal(g->out.port, h1);
	assert_int_equal(g->out.address.path.slid, to.path.dlid);
	assert_int_equal(g->mad[3], MAD_GET_RESP);
	return status_of(g->mad);
}

static uint64_t field(struct test_agents *g, unsigned byte, unsigned bit, unsigned width)
{
	return wire_get(data_of(g), byte, bit, width);
}

static void what_was_sent_is_counted_at_every_port(void **state)
{
	struct test_agents g;

	start(&g);
	for (int i = 0; i < 3; i++) {
		make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1));
		assert_int_equal(send_directed(&g, port_named(&g.t.f, "h1", 1)), MAD_ANSWERED);
	}
	memset(g.mad, 0, sizeof(g.mad));
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "h1", 1, 1, 0), 0);
	assert_int_equal(field(&g, 1, 0, 8), 1);
	assert_int_equal(field(&g, 24, 0, 32), 3 * WORDS);
	assert_int_equal(field(&g, 28, 0, 32), 3 * WORDS);
	assert_int_equal(field(&g, 32, 0, 32), 3);
	assert_int_equal(field(&g, 36, 0, 32), 3);
	/* the request has come to the switch by then */
	assert_int_equal(ask(&g, MAD_GET, EXTENDED, "s1", 0, 255, 0), 0);
	assert_int_equal(field(&g, 8, 0, 64), 3 * WORDS);
	assert_int_equal(field(&g, 16, 0, 64), 4 * WORDS);
	assert_int_equal(field(&g, 40, 0, 64), 3);
	assert_int_equal(field(&g, 48, 0, 64), 4);
	assert_int_equal(field(&g, 56, 0, 64), 0);
	end_agents(&g);
}

/* What h1's and h2's programs sent is in the block of each port that sent it; the port at the link's other end received it. */
static void data_of_programs_is_counted_with_it(void **state)
{
	struct test_agents g;
	struct traffic_block *all;
	uint32_t h2, s2;

	(void)state;
	start(&g);
	all = calloc(1, traffic_bytes(&g.t.f));
	assert_non_null(all);
	g.a.traffic = all;
	h2 = port_named(&g.t.f, "h2", 1);
	s2 = g.t.f.port[h2].peer;
	for (unsigned c = 0; c < TRAFFIC_COUNTS; c++) {
		traffic_add(&all[h2], c, 100 + c);
		traffic_add(&all[s2], c, 200 + c);
	}
	traffic_add(&all[h2], TRAFFIC_PACKETS, 50);
	memset(g.mad, 0, sizeof(g.mad));
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "h2", 1, 1, 0), 0);
	assert_int_equal(field(&g, 24, 0, 32), 100 + TRAFFIC_WORDS);
	assert_int_equal(field(&g, 28, 0, 32), 200 + TRAFFIC_WORDS + WORDS - (100 + TRAFFIC_ERROR_WORDS));
	assert_int_equal(field(&g, 32, 0, 32), 150 + TRAFFIC_PACKETS);
	assert_int_equal(field(&g, 36, 0, 32), 200 + TRAFFIC_PACKETS + 1 - (100 + TRAFFIC_ERRORS));
	assert_int_equal(field(&g, 4, 0, 16), 100 + TRAFFIC_ERRORS);
	assert_int_equal(field(&g, 8, 0, 16), 100 + TRAFFIC_ERRORS);
	assert_int_equal(field(&g, 40, 0, 32), 100 + TRAFFIC_WAIT);
	assert_int_equal(field(&g, 12, 0, 16), 300 + TRAFFIC_NO_ROUTE + TRAFFIC_NO_LANE + TRAFFIC_BACK);
	assert_int_equal(field(&g, 14, 0, 16), 300 + TRAFFIC_INACTIVE + TRAFFIC_TOO_LONG + TRAFFIC_TOO_SLOW);
	assert_int_equal(field(&g, 16, 0, 8), 100 + TRAFFIC_XMIT_CONSTRAINT);
	assert_int_equal(field(&g, 17, 0, 8), 100 + TRAFFIC_RCV_CONSTRAINT);
	assert_int_equal(ask(&g, MAD_GET, EXTENDED, "h2", 1, 1, 0), 0);
	assert_int_equal(field(&g, 40, 0, 64), 150 + TRAFFIC_PACKETS + 1 - (100 + TRAFFIC_MULTICAST));
	assert_int_equal(field(&g, 56, 0, 64), 100 + TRAFFIC_MULTICAST);
	assert_int_equal(field(&g, 64, 0, 64), 200 + TRAFFIC_MULTICAST - (100 + TRAFFIC_MULTICAST_ERRORS));
	/* set to 7, it counts on from there */
	memset(data_of(&g), 0, 64);
	wire_put(data_of(&g), 7, 24, 0, 32);
	assert_int_equal(ask(&g, MAD_SET, PORT_COUNTERS, "h2", 1, 1, 1 << 12), 0);
	traffic_add(&all[h2], TRAFFIC_WORDS, 1000);
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "h2", 1, 1, 0), 0);
	assert_int_equal(field(&g, 24, 0, 32), 7 + 1000 + WORDS);
	free(all);
	end_agents(&g);
}

static void counters_are_set_one_by_one_and_stay_at_their_greatest(void **state)
{
	struct test_agents g;
	struct port_counters *p;

	start(&g);
	p = &g.a.counters[port_named(&g.t.f, "h2", 1)];
	for (unsigned c = 0; c < PORT_COUNTS; c++)
		p->total[c] = 1ull << 40;
	memset(g.mad, 0, sizeof(g.mad));
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "h2", 1, 1, 0), 0);
	assert_memory_equal(data_of(&g) + 4, ((const uint8_t[]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			    0xff, 0xff, 0xff, 0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }), 24);
	/* link downed becomes 3, XmitWait 9, and nothing else anything */
	memset(data_of(&g), 0, 64);
	wire_put(data_of(&g), 3, 7, 0, 8);
	wire_put(data_of(&g), 9, 40, 0, 32);
	assert_int_equal(ask(&g, MAD_SET, PORT_COUNTERS, "h2", 1, 1, 1 << 2 | 1 << 16), 0);
	assert_int_equal(field(&g, 6, 0, 16), 0xff03);
	assert_int_equal(field(&g, 40, 0, 32), 9);
	assert_int_equal(field(&g, 4, 0, 16), 0xffff);
	p->total[COUNT_LINK_DOWNED] += 2;
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "h2", 1, 1, 0), 0);
	assert_int_equal(field(&g, 7, 0, 8), 5);
	/* the 64 bits count on */
	assert_int_equal(ask(&g, MAD_GET, EXTENDED, "h2", 1, 1, 0), 0);
	assert_true(field(&g, 8, 0, 64) > 1ull << 39);
	memset(data_of(&g), 0, 72);
	assert_int_equal(ask(&g, MAD_SET, EXTENDED, "h2", 1, 1, 1), 0);
	assert_int_equal(field(&g, 8, 0, 64), 0);
	assert_true(field(&g, 16, 0, 64) > 1ull << 39);
	end_agents(&g);
}

static void what_is_dropped_is_counted_where(void **state)
{
	struct test_agents g;
	struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };
	uint32_t h1, s1;

	start(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	s1 = fabric_peer(&g.t.f, h1);
	memset(g.mad, 0, sizeof(g.mad));
	to.path.dlid = (uint16_t)(g.t.f.lids - 1);
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.counters[s1].total[COUNT_RCV_RELAY], 1);
	to.path.dlid = g.t.f.port[port_named(&g.t.f, "h2", 1)].lid;
	to.pkey = 0x8001;
	g.t.f.port[s1].enforce = ENFORCE_IN;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_PARTITION);
	assert_int_equal(g.a.counters[s1].total[COUNT_RCV_CONSTRAINT], 1);
	to.pkey = PKEY_DEFAULT;
	g.t.f.port[h1].state = PORT_INIT;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.counters[h1].total[COUNT_XMIT_DISCARDS], 1);
	end_agents(&g);
}

/* What h1 sends to h2, and nobody hears. */
static void lose_one(struct test_agents *g)
{
	struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };

	to.path.dlid = g->t.f.port[port_named(&g->t.f, "h2", 1)].lid;
	assert_int_equal(agents_mad(&g->a, 1, port_named(&g->t.f, "h1", 1), &to, g->mad, &g->out), MAD_LOST);
}

/* h1 is at port 2 of s1, whose port 1 leads to s2 */
static void errors_and_discards_in_detail(void **state)
{
	struct traffic_block *all;
	struct test_agents g;
	uint8_t *lft, was;
	uint32_t s1;

	(void)state;
	start(&g);
	all = calloc(1, traffic_bytes(&g.t.f));
	assert_non_null(all);
	g.a.traffic = all;
	s1 = fabric_peer(&g.t.f, port_named(&g.t.f, "h1", 1));
	lft = fabric_lft(&g.t.f, g.t.f.owner[s1]) + g.t.f.port[port_named(&g.t.f, "h2", 1)].lid;
	was = *lft;
	*lft = LFT_NONE;
	lose_one(&g);
	*lft = (uint8_t)fabric_port_number(&g.t.f, s1);
	lose_one(&g);
	lose_one(&g);
	*lft = was;
	memset(fabric_sl2vl(&g.t.f, g.t.f.owner[s1], 2, 1), 0xff, FABRIC_SL2VL);
	for (int i = 0; i < 3; i++)
		lose_one(&g);
	agents_link_error(&g.a, 1, s1, LINK_SPOILS, 4);
	agents_link_error(&g.a, 1, s1, LINK_OVERRUNS, 5);
	traffic_add(&all[s1], TRAFFIC_ERRORS, 10);
	traffic_add(&all[s1], TRAFFIC_NO_ROUTE, 20);
	traffic_add(&all[s1], TRAFFIC_NO_LANE, 30);
	traffic_add(&all[s1], TRAFFIC_BACK, 40);
	traffic_add(&all[s1], TRAFFIC_INACTIVE, 50);
	traffic_add(&all[s1], TRAFFIC_TOO_LONG, 60);
	traffic_add(&all[s1], TRAFFIC_TOO_SLOW, 1 << 20);
	memset(g.mad, 0, sizeof(g.mad));
	assert_int_equal(ask(&g, MAD_GET, ERROR_DETAILS, "s1", 0, 2, 0), 0);
	assert_memory_equal(data_of(&g) + 4, ((const uint8_t[]){ 0, 14, 0, 0, 0, 5, 0, 21, 0, 33, 0, 42, 0, 0 }), 14);
	assert_int_equal(ask(&g, MAD_GET, DISCARD_DETAILS, "s1", 0, 2, 0), 0);
	assert_memory_equal(data_of(&g) + 4, ((const uint8_t[]){ 0, 50, 0, 60, 0, 0, 0xff, 0xff, 0, 0 }), 10);
	/* their sums are PortCounters' */
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "s1", 0, 2, 0), 0);
	assert_int_equal(field(&g, 8, 0, 16), 14 + 5);
	assert_int_equal(field(&g, 12, 0, 16), 21 + 33 + 42);
	assert_int_equal(field(&g, 14, 0, 16), 0xffff);
	/* one is set to 7, those of other ports and of other attributes to nothing */
	memset(data_of(&g), 0, 64);
	wire_put(data_of(&g), 7, 8, 0, 16);
	assert_int_equal(ask(&g, MAD_SET, ERROR_DETAILS, "s1", 0, 2, 1 << 2), 0);
	assert_memory_equal(data_of(&g) + 4, ((const uint8_t[]){ 0, 14, 0, 0, 0, 7, 0, 21, 0, 33, 0, 42, 0, 0 }), 14);
	memset(data_of(&g), 0, 64);
	assert_int_equal(ask(&g, MAD_SET, DISCARD_DETAILS, "s1", 0, 2, 1 << 1), 0);
	assert_memory_equal(data_of(&g) + 4, ((const uint8_t[]){ 0, 50, 0, 0, 0, 0, 0xff, 0xff, 0, 0 }), 10);
	assert_int_equal(ask(&g, MAD_GET, ERROR_DETAILS, "s1", 0, 255, 0), 0);
	assert_int_equal(field(&g, 14, 0, 16), 42);
	free(all);
	end_agents(&g);
}

/* A link that is down and a route without end: of the first the port before it discards, of the other the last switch. */
static void what_goes_round_is_discarded(void **state)
{
	struct test_agents g;
	uint32_t h2, s2, at = PORT_NONE;
	uint16_t lid;

	(void)state;
	AGENTS(&g, "torus", "size=3");
	assert_int_equal(fabric_route(&g.t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&g.t.f);
	h2 = port_named(&g.t.f, "h2", 1);
	s2 = fabric_peer(&g.t.f, h2);
	lid = g.t.f.port[h2].lid;
	agents_set_link(&g.a, 1, h2, false);
	lose_one(&g);
	assert_int_equal(g.a.counters[s2].detail[DETAIL_INACTIVE], 1);
	for (uint32_t n = 0; n < g.t.f.nodes; n++) {
		for (unsigned i = 1; fabric_is_switch(&g.t.f, n) && i <= g.t.f.place[n].ports; i++) {
			uint32_t peer = fabric_peer(&g.t.f, fabric_port_index(&g.t.f, n, i));

			if (peer != PORT_NONE && fabric_is_switch(&g.t.f, g.t.f.owner[peer]) &&
			    g.t.f.owner[peer] == (n + 1) % 3)
				fabric_lft(&g.t.f, n)[lid] = (uint8_t)i;
		}
	}
	lose_one(&g);
	for (uint32_t port = 0; port < g.t.f.ports; port++) {
		if (g.a.counters[port].detail[DETAIL_HOQ_LIFETIME])
			at = port;
	}
	assert_int_not_equal(at, PORT_NONE);
	assert_int_equal(g.a.counters[at].total[COUNT_XMIT_DISCARDS], 1);
	assert_true(fabric_is_switch(&g.t.f, g.t.f.owner[at]));
	end_agents(&g);
}

/* LinkDownedCounter, once a time, whatever is said of a link that is down already. */
static void a_link_that_goes_down_is_counted_at_both_ends(void **state)
{
	struct test_agents g;
	uint32_t h2, s2;

	(void)state;
	start(&g);
	h2 = port_named(&g.t.f, "h2", 1);
	s2 = fabric_peer(&g.t.f, h2);
	agents_set_link(&g.a, 1, h2, false);
	agents_set_link(&g.a, 1, s2, false);
	assert_int_equal(g.a.counters[h2].total[COUNT_LINK_DOWNED], 1);
	assert_int_equal(g.a.counters[s2].total[COUNT_LINK_DOWNED], 1);
	agents_set_link(&g.a, 1, s2, true);
	assert_int_equal(g.a.counters[h2].total[COUNT_LINK_DOWNED], 1);
	agents_set_link(&g.a, 1, s2, false);
	assert_int_equal(g.a.counters[h2].total[COUNT_LINK_DOWNED], 2);
	assert_int_equal(g.a.counters[s2].total[COUNT_LINK_DOWNED], 2);
	end_agents(&g);
}

static void ports_and_attributes_that_are_not_there(void **state)
{
	struct test_agents g;

	start(&g);
	memset(g.mad, 0, sizeof(g.mad));
	assert_int_equal(ask(&g, MAD_GET, CLASS_PORT_INFO, "s2", 0, 0, 0), 0);
	assert_memory_equal(data_of(&g), ((const uint8_t[]){ 1, 1, 0x13, 0, 0, 0, 0, 18, 0 }), 9);
	assert_int_equal(ask(&g, MAD_SET, CLASS_PORT_INFO, "s2", 0, 0, 0), MAD_STATUS_BAD_ATTRIBUTE);
	assert_int_equal(ask(&g, MAD_GET, 0x36, "s2", 0, 0, 0), MAD_STATUS_BAD_ATTRIBUTE);
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "s2", 0, 0, 0), 0);
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "h2", 1, 0, 0), MAD_STATUS_BAD_VALUE);
	assert_int_equal(ask(&g, MAD_GET, PORT_COUNTERS, "h2", 1, 2, 0), MAD_STATUS_BAD_VALUE);
	assert_int_equal(ask(&g, MAD_SET, EXTENDED, "s2", 0, 254, 0xffff), MAD_STATUS_BAD_VALUE);
	end_agents(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_sent_is_counted_at_every_port),
		cmocka_unit_test(data_of_programs_is_counted_with_it),
		cmocka_unit_test(counters_are_set_one_by_one_and_stay_at_their_greatest),
		cmocka_unit_test(what_is_dropped_is_counted_where),
		cmocka_unit_test(errors_and_discards_in_detail),
		cmocka_unit_test(what_goes_round_is_discarded),
		cmocka_unit_test(a_link_that_goes_down_is_counted_at_both_ends),
		cmocka_unit_test(ports_and_attributes_that_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
