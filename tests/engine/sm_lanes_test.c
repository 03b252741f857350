/* Tables of lanes as the manager writes them, by its options; paths and groups have levels that these tables give a lane. */
#include "sm_asker.h"

#include "fabric/walk.h"
#include "sm/lanes.h"

enum { LAST_LEVEL = 15, LOW = FABRIC_VLARB / 2 };

static unsigned lane_of(const struct fabric *f, uint32_t node, unsigned in, unsigned out, unsigned level)
{
	uint8_t two = fabric_sl2vl(f, node, in, out)[level / 2];

	return level & 1 ? two & 15 : two >> 4;
}

/* Every way through a node: the lanes of q, of so many. */
static void check_node(const struct fabric *f, uint32_t node, const struct fabric_qos *q, unsigned lanes)
{
	bool is_switch = fabric_is_switch(f, node);

	for (unsigned out = is_switch ? 0 : 1; out <= f->place[node].ports; out++) {
		uint32_t port = fabric_port_index(f, node, out);
		const struct fabric_vlarb *arb = fabric_vlarb(f, port);

		if (out && fabric_peer(f, port) == PORT_NONE)
			continue;
		if (out) {
			assert_int_equal(f->port[port].vls, lanes);
			assert_int_equal(f->port[port].vl_high_limit, q->high_limit);
		}
		for (unsigned in = 0; in <= (is_switch ? f->place[node].ports : 0u); in++) {
			for (unsigned level = 0; level < QOS_LEVELS; level++)
				assert_int_equal(lane_of(f, node, in, out, level),
						 q->sl2vl[level] == QOS_NO_LANE ? QOS_NO_LANE : q->sl2vl[level] % lanes);
		}
		for (unsigned i = 0; i < QOS_ENTRIES; i++) {
			assert_int_equal(arb[i].vl, q->high[i].vl % lanes);
			assert_int_equal(arb[i].weight, q->high[i].weight);
			assert_int_equal(arb[LOW + i].vl, q->low[i].vl % lanes);
			assert_int_equal(arb[LOW + i].weight, q->low[i].weight);
		}
	}
}

static void check_all(const struct fabric *f, const struct fabric_qos *q, unsigned lanes)
{
	for (uint32_t node = 0; node < f->nodes; node++)
		check_node(f, node, q, lanes);
}

/* As OpenSM's with -Q. */
static void without_options(void **state)
{
	struct fabric_qos q;
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	qos_default(&q);
	assert_int_equal(q.sl2vl[LAST_LEVEL], 7);
	assert_int_equal(q.high[0].weight, 4);
	assert_int_equal(q.high[1].weight, 0);
	assert_int_equal(q.low[14].weight, 4);
	check_all(&a.r.t.f, &q, 8);
	check_reaches(&a.r.t.f);
	run_fini(&a.r);
}

static const struct fabric_qos some = {
	.is_set = 1, .max_vls = 3, .high_limit = 9, .sl2vl = { 15, 15, 1, 3, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 14, 1 },
	.high = { { 1, 7 }, { 0, 200 } }, .low = { { 2, 1 }, [40] = { 1, 3 } },
};

static void by_options(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ .qos = &some });
	/* at most three: two */
	check_all(&a.r.t.f, &some, 2);
	run_fini(&a.r);
}

/* Options that nobody checked. */
static void options_that_make_no_sense(void **state)
{
	struct fabric_qos bad, q;
	struct asker a;

	memset(&bad, 0xff, sizeof(bad));
	bad.sl2vl[0] = 0xf0;
	qos_read(&bad, &q);
	assert_int_equal(q.max_vls, QOS_LANES_MOST);
	assert_int_equal(q.high[3].vl, 15);
	begin(&a, &(struct sm_config){ .qos = &bad });
	assert_int_equal(lane_of(&a.r.t.f, node_named(&a.r.t.f, "s2"), 1, 2, 0), 0);
	assert_int_equal(lane_of(&a.r.t.f, node_named(&a.r.t.f, "s2"), 1, 2, 1), QOS_NO_LANE);
	check_reaches(&a.r.t.f);
	run_fini(&a.r);
}

/* ---- what the administration says ---- */

static uint32_t port_of_lid(const struct fabric *f, uint16_t lid)
{
	uint32_t port = 0;

	while (port < f->ports && !host_has_lid(f, port, lid))
		port++;
	assert_true(port < f->ports);
	return port;
}

static void records_are_what_ports_have(void **state)
{
	struct asker a;
	const struct fabric *f = &a.r.t.f;

	begin(&a, &(struct sm_config){ .qos = &some });
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_SL2VL_RECORD_ID, 0), 8 + 6 * 25);
	for (unsigned i = 0; i < 8 + 6 * 25; i++) {
		const uint8_t *r = answer(&a, i);
		uint32_t node = f->owner[port_of_lid(f, (uint16_t)wire_get(r, 0, 0, 16))];
		bool is_switch = fabric_is_switch(f, node);

		assert_memory_equal(r + 8, fabric_sl2vl(f, node, is_switch ? r[2] : 0, is_switch ? r[3] : 1), FABRIC_SL2VL);
	}
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_VLARB_RECORD_ID, 0), 4 * (8 + 6 * 5));
	for (unsigned i = 0; i < 4 * (8 + 6 * 5); i++) {
		const uint8_t *r = answer(&a, i);
		uint32_t port = port_of_lid(f, (uint16_t)wire_get(r, 0, 0, 16));
		const struct fabric_vlarb *arb = fabric_vlarb(f, fabric_port_index(f, f->owner[port], r[2]));

		arb += (r[3] > 2 ? 0 : LOW) + (r[3] + 1) % 2 * 32;
		for (unsigned k = 0; k < 32; k++) {
			assert_int_equal(r[8 + 2 * k], arb[k].vl);
			assert_int_equal(r[8 + 2 * k + 1], arb[k].weight);
		}
	}
	/* one of them, by its ports */
	wire_put(a.record, lid_of(&a, "s2", 0), 0, 0, 16);
	a.record[2] = 3;
	a.record[3] = 1;
	assert_int_equal(ask(&a, MAD_GET, SA_SL2VL_RECORD_ID, 7), 1);
	assert_int_equal(answer(&a, 0)[2], 3);
	assert_int_equal(answer(&a, 0)[3], 1);
	run_fini(&a.r);
}

enum { P_DGID = 1 << 2, P_SGID = 1 << 3, P_SL = 1 << 15 };

static int ask_path(struct asker *a, unsigned level, uint64_t mask)
{
	write_gid(a, "h8", 1, a->record + 8);
	write_gid(a, "h1", 1, a->record + 24);
	a->record[53] = (uint8_t)level;
	return ask(a, MAD_GET, SA_PATH_RECORD_ID, P_DGID | P_SGID | mask);
}

/* Does a packet of this level get there? */
static bool gets_there(const struct fabric *f, unsigned level)
{
	struct walk_packet p = { .from = port_named(f, "h1", 1), .dlid = f->port[port_named(f, "h8", 1)].lid,
				 .pkey = PKEY_DEFAULT, .sl = (uint8_t)level, .switches = SWITCHES_MOST };
	struct walk_route r;

	return fabric_walk(f, &p, &r) == WALK_DELIVERED;
}

/* A path has the level that is asked for, or the first that has a lane, and packets of it get there. */
static void paths_have_levels_with_lanes(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ .qos = &some });
	for (unsigned level = 0; level < QOS_LEVELS; level++) {
		bool has_lane = some.sl2vl[level] != QOS_NO_LANE;

		assert_int_equal(gets_there(&a.r.t.f, level), has_lane);
		assert_int_equal(ask_path(&a, level, P_SL), has_lane ? 1 : -SA_NO_RECORDS);
		if (has_lane)
			assert_int_equal(wire_get(answer(&a, 0), 52, 0, 16), level);
	}
	assert_int_equal(ask_path(&a, 0, 0), 1);
	assert_int_equal(wire_get(answer(&a, 0), 52, 0, 16), 2);
	/* the manager itself is asked by one that has a lane */
	assert_int_equal(a.r.t.f.port[port_named(&a.r.t.f, "h3", 1)].sm_sl, 2);
	run_fini(&a.r);
}

enum { JOIN = 1 | 1 << 1 | 1 << 16, MAKE = JOIN | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 };

static int make_group(struct asker *a, unsigned level)
{
	static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = 7 };

	memcpy(a->record, mgid, 16);
	write_gid(a, "h1", 1, a->record + 16);
	wire_put(a->record, 0xffff, 40, 0, 16);
	wire_put(a->record, level, 44, 0, 4);
	a->record[48] = 1;
	return ask(a, MAD_SET, SA_MCMEMBER_RECORD_ID, MAKE);
}

static void groups_have_levels_with_lanes(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ .qos = &some });
	/* the broadcast group */
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 1);
	assert_int_equal(wire_get(answer(&a, 0), 44, 0, 4), 2);
	assert_int_equal(make_group(&a, 4), -SA_REQUEST_INVALID);
	assert_int_equal(make_group(&a, 6), 1);
	assert_int_equal(wire_get(answer(&a, 0), 44, 0, 4), 6);
	run_fini(&a.r);
}

/* ---- when they are written ---- */

/* A port that was away may have anything in its tables, and others are left alone. */
static void a_link_comes_back(void **state)
{
	struct asker a;
	const struct fabric *f = &a.r.t.f;
	struct fabric_qos q;
	uint32_t port, node, other;
	uint64_t mads;

	begin(&a, &(struct sm_config){ 0 });
	qos_default(&q);
	node = node_named(f, "s2");
	port = fabric_port_index(f, node, 1);
	other = port_named(f, "h7", 1);
	agents_set_link(&a.r.n.agents, a.r.n.now, port, false);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	memset(fabric_sl2vl(f, node, 3, 1), 0xff, FABRIC_SL2VL);
	memset(fabric_vlarb(f, port), 0xff, FABRIC_VLARB * sizeof(struct fabric_vlarb));
	fabric_vlarb(f, other)[0].weight = 99;
	mads = a.r.n.mads;
	agents_set_link(&a.r.n.agents, a.r.n.now, port, true);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	assert_int_equal(fabric_vlarb(f, other)[0].weight, 99);
	fabric_vlarb(f, other)[0].weight = q.high[0].weight;
	check_all(f, &q, 8);
	assert_true(a.r.n.mads - mads < 60);
	run_fini(&a.r);
}

/* A switch without OptimizedSLtoVLMappingProgramming is told each pair of ports. */
static void a_switch_that_takes_one_table_at_a_time(void **state)
{
	struct asker a;
	const struct fabric *f = &a.r.t.f;
	struct fabric_qos q;
	uint32_t node;
	uint64_t mads;

	begin(&a, &(struct sm_config){ 0 });
	qos_default(&q);
	for (uint32_t n = 0; n < a.s->net.nodes; n++)
		a.s->net.node[n].switch_info[11] &= 0xfe;
	for (uint32_t port = 0; port < a.s->net.ports; port++)
		a.s->net.port[port].lanes = 0;
	node = node_named(f, "s3");
	for (unsigned in = 0; in <= 4; in++)
		memset(fabric_sl2vl(f, node, in, 0), 0xff, 5 * FABRIC_SL2VL);
	mads = a.r.n.mads;
	lanes_configure(a.s);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	check_all(f, &q, 8);
	assert_int_equal(a.r.n.mads - mads, 8 * (1 + 4) + 6 * (25 + 5 * 4));
	run_fini(&a.r);
}

/* Whoever was the master before has written others: a manager that begins writes all of them. */
static void a_manager_begins_anew(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	mad_net_revive(&a.r.n, &a.r.n.manager[0], &(struct sm_config){ .qos = &some });
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	check_all(&a.r.t.f, &some, 2);
	run_fini(&a.r);
}

/* And one that comes back. */
static void another_master_comes_and_goes(void **state)
{
	struct asker a;
	struct fabric_qos q;

	begin(&a, &(struct sm_config){ 0 });
	qos_default(&q);
	run_add(&a.r, "h7", 1, &(struct sm_config){ .priority = 15, .qos = &some });
	mad_net_for(&a.r.n, 5 * WTIME_S);
	assert_int_equal(a.s->state, SM_STANDBY);
	check_all(&a.r.t.f, &some, 2);
	mad_net_kill(&a.r.n, &a.r.n.manager[1]);
	mad_net_for(&a.r.n, 20 * WTIME_S);
	assert_int_equal(a.s->state, SM_MASTER);
	check_all(&a.r.t.f, &q, 8);
	run_fini(&a.r);
}

static void whatever_is_lost(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct run r;

		run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, seed);
		r.n.loss_ppm = 200000;
		run_add(&r, "h1", 1, &(struct sm_config){ .qos = &some });
		assert_true(mad_net_until_quiet(&r.n, 1000 * WTIME_S));
		check_all(&r.t.f, &some, 2);
		run_fini(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_options),
		cmocka_unit_test(by_options),
		cmocka_unit_test(options_that_make_no_sense),
		cmocka_unit_test(records_are_what_ports_have),
		cmocka_unit_test(paths_have_levels_with_lanes),
		cmocka_unit_test(groups_have_levels_with_lanes),
		cmocka_unit_test(a_link_comes_back),
		cmocka_unit_test(a_switch_that_takes_one_table_at_a_time),
		cmocka_unit_test(a_manager_begins_anew),
		cmocka_unit_test(another_master_comes_and_goes),
		cmocka_unit_test(whatever_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
