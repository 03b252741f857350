/* Queries to the subnet administration of a subnet that its manager has brought up: what comes back, to whom. */
#include "sm_asker.h"

#include "sm/reply.h"
#include "sm/sa_query.h"

/* 14 nodes, 32 links, 6 switches of 4 ports. */
static void tables_have_everything(void **state)
{
	static const struct { unsigned attribute; int records; } tables[] = {
		{ SA_NODE_RECORD_ID, 14 }, { SA_PORT_INFO_RECORD_ID, 8 + 6 * 5 }, { SA_SWITCH_INFO_RECORD_ID, 6 },
		{ SA_LINK_RECORD_ID, 2 * 16 }, { SA_LFT_RECORD_ID, 6 }, { SA_SM_INFO_RECORD_ID, 1 },
		{ SA_GUID_INFO_RECORD_ID, 14 }, { SA_PATH_RECORD_ID, 14 * 14 }, { SA_MCMEMBER_RECORD_ID, 1 },
		{ SA_SERVICE_RECORD_ID, 0 }, { SA_INFORM_RECORD_ID, 0 }, { SA_MFT_RECORD_ID, 0 },
		{ SA_SL2VL_RECORD_ID, 8 + 6 * 25 }, { SA_VLARB_RECORD_ID, 4 * (8 + 6 * 5) },
	};
	struct asker a;
	uint64_t queries;

	begin(&a, &(struct sm_config){ 0 });
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		assert_int_equal(ask(&a, SA_GET_TABLE, tables[i].attribute, 0), tables[i].records);
	/* not for everybody */
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PKEY_RECORD_ID, 0), -SA_REQUEST_INVALID);
	a.key = MASTER_KEY;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PKEY_RECORD_ID, 0), 8 + 6 * 5);
	assert_int_equal(wire_get(answer(&a, 0), 8, 0, 16), 0xffff);
	a.key = 2;
	assert_int_equal(a.s->counters.wrong_keys, 0);
	queries = a.s->counters.queries;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 0), -EAGAIN);
	assert_int_equal(a.s->counters.wrong_keys, 1);
	assert_int_equal(a.s->counters.queries, queries);
	/* who does not answer at all refuses no key */
	a.s->state = SM_STANDBY;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 0), -EAGAIN);
	assert_int_equal(a.s->counters.wrong_keys, 1);
	run_fini(&a.r);
}

static void components_select(void **state)
{
	struct asker a;
	char name[65] = "";

	begin(&a, &(struct sm_config){ 0 });
	wire_put(a.record, lid_of(&a, "h3", 1), 0, 0, 16);
	assert_int_equal(ask(&a, MAD_GET, SA_NODE_RECORD_ID, 1), 1);
	memcpy(name, answer(&a, 0) + 44, 64);
	assert_string_equal(name, "h3");
	assert_int_equal(wire_get(answer(&a, 0), 0, 0, 16), lid_of(&a, "h3", 1));
	/* by type: component 4 */
	a.record[6] = NODE_SWITCH;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 1 << 4), 6);
	a.record[6] = NODE_ROUTER;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 1 << 4), 0);
	a.record[6] = NODE_SWITCH;
	assert_int_equal(ask(&a, MAD_GET, SA_NODE_RECORD_ID, 1 << 4), -SA_TOO_MANY_RECORDS);
	a.record[6] = NODE_ROUTER;
	assert_int_equal(ask(&a, MAD_GET, SA_NODE_RECORD_ID, 1 << 4), -SA_NO_RECORDS);
	/* 4 bits in the middle of a byte: PortState 15, PortPhysicalState 16 */
	a.record[4 + 32] = PORT_ACTIVE;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PORT_INFO_RECORD_ID, 1 << 15), 8 + 6 * 5);
	a.record[4 + 32] = PORT_INIT;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PORT_INFO_RECORD_ID, 1 << 15), 0);
	/* of one port of a switch */
	wire_put(a.record, lid_of(&a, "s2", 0), 0, 0, 16);
	a.record[2] = 3;
	assert_int_equal(ask(&a, MAD_GET, SA_PORT_INFO_RECORD_ID, 3), 1);
	assert_int_equal(answer(&a, 0)[2], 3);
	/* some of the capability mask, by the modifier's upper bit: who can be a manager */
	wire_put(a.record, CAPABLE_SM, 4 + 20, 0, 32);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PORT_INFO_RECORD_ID, 1 << 7), 0);
	a.modifier = 1u << 31;
	wire_put(a.record, CAPABLE_SM, 4 + 20, 0, 32);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PORT_INFO_RECORD_ID, 1 << 7), 1);
	a.modifier = 0;
	/* links from a LID */
	wire_put(a.record, lid_of(&a, "s1", 0), 0, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_LINK_RECORD_ID, 1), 4);
	run_fini(&a.r);
}

static void what_makes_no_sense(void **state)
{
	struct asker a;
	struct mad_letter l;
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SA_CLASS_VERSION, MAD_GET };

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(ask(&a, MAD_GET, 0x7777, 0), -MAD_STATUS_BAD_ATTRIBUTE);
	assert_int_equal(ask(&a, MAD_SET, SA_NODE_RECORD_ID, 0), -MAD_STATUS_BAD_METHOD);
	assert_int_equal(ask(&a, MAD_GET, SA_MULTI_PATH_RECORD_ID, 0), -MAD_STATUS_BAD_METHOD);
	a.lid = 0xbfff;
	assert_int_equal(ask(&a, MAD_GET, SA_CLASS_PORT_INFO, 0), -SA_REQUEST_INVALID);
	a.lid = lid_of(&a, "h1", 1);
	assert_int_equal(ask(&a, MAD_GET, SA_CLASS_PORT_INFO, 0), 1);
	assert_int_equal(answer(&a, 0)[1], SA_CLASS_VERSION);
	l = (struct mad_letter){ .agent = SM_AGENT_SA, .data = mad, .bytes = SA_HEAD - 1, .remote = { .lid = a.lid } };
	sm_input(a.s, a.r.n.now, &l);
	assert_false(sm_output(a.s, a.r.n.now, &l));
	run_fini(&a.r);
}

/* ---- paths ---- */

enum { P_DGID = 1 << 2, P_SGID = 1 << 3, P_DLID = 1 << 4, P_SLID = 1 << 5, P_NUMBER = 1 << 12, P_PKEY = 1 << 13,
       P_MTU = 3 << 16, P_RATE = 3 << 18 };

static int ask_path(struct asker *a, unsigned method, const char *from, const char *to, uint64_t mask)
{
	write_gid(a, to, to[0] == 'h', a->record + 8);
	write_gid(a, from, from[0] == 'h', a->record + 24);
	return ask(a, method, SA_PATH_RECORD_ID, P_DGID | P_SGID | mask);
}

enum { M_NUMBER = 1 << 6, M_MTU = 3 << 10, M_RATE = 3 << 12 };

/* From the first two to the others. */
static int ask_multi_of(struct asker *a, const char *const hosts[4], uint64_t mask, unsigned number)
{
	a->record[5] = (uint8_t)number;
	a->record[15] = 2;
	a->record[16] = 2;
	for (unsigned i = 0; i < 4; i++)
		write_gid(a, hosts[i], hosts[i][0] == 'h', a->record + 24 + 16 * i);
	return ask(a, SA_GET_MULTI, SA_MULTI_PATH_RECORD_ID, 3 << 19 | mask);
}

static int ask_multi(struct asker *a, uint64_t mask, unsigned number)
{
	static const char *const hosts[] = { "h1", "h2", "h7", "h8" };

	return ask_multi_of(a, hosts, mask, number);
}

static void a_path(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h8", 0), 1);
	assert_int_equal(wire_get(answer(&a, 0), 40, 0, 16), lid_of(&a, "h8", 1));
	assert_int_equal(wire_get(answer(&a, 0), 42, 0, 16), lid_of(&a, "h1", 1));
	assert_int_equal(wire_get(answer(&a, 0), 50, 0, 16), 0xffff);
	assert_int_equal(answer(&a, 0)[54], 2 << 6 | MTU_4096);
	/* 4xHDR */
	assert_int_equal(answer(&a, 0)[55], 2 << 6 | 17);
	assert_int_equal(answer(&a, 0)[56], 2 << 6 | 18);
	/* to a switch, from one, to oneself */
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "s3", 0), 1);
	assert_int_equal(ask_path(&a, MAD_GET, "s3", "h1", 0), 1);
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h1", 0), 1);
	assert_int_equal(answer(&a, 0)[56], 2 << 6);
	/* a GID and a LID of two ports */
	wire_put(a.record, lid_of(&a, "h3", 1), 40, 0, 16);
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h8", P_DLID), -SA_NO_RECORDS);
	a.record[8 + 15] = 1;
	a.record[9] = 1;
	assert_int_equal(ask(&a, MAD_GET, SA_PATH_RECORD_ID, P_DGID), -SA_GID_INVALID);
	/* by LIDs alone, and to all */
	wire_put(a.record, lid_of(&a, "h3", 1), 42, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, P_SLID), 14);
	run_fini(&a.r);
}

static void selectors(void **state)
{
	static const struct { uint8_t mtu; int result; uint8_t is; } mtus[] = {
		{ 0 << 6 | 4, 1, 5 }, { 0 << 6 | 5, -SA_NO_RECORDS, 0 }, { 1 << 6 | 4, 1, 3 }, { 2 << 6 | 3, 1, 3 },
		{ 2 << 6 | 5, 1, 5 }, { 3 << 6, 1, 5 }, { 1 << 6 | 1, -SA_NO_RECORDS, 0 },
		/* what is no MTU */
		{ 0 << 6, -SA_REQUEST_INVALID, 0 }, { 1 << 6 | 6, -SA_REQUEST_INVALID, 0 },
		{ 2 << 6, -SA_REQUEST_INVALID, 0 }, { 2 << 6 | 6, -SA_REQUEST_INVALID, 0 },
	}, rates[] = {
		{ 0 << 6 | 16, 1, 17 }, { 0 << 6 | 17, -SA_NO_RECORDS, 0 }, { 1 << 6 | 7, 1, 4 }, { 2 << 6 | 3, 1, 3 },
		{ 2 << 6 | 18, -SA_NO_RECORDS, 0 }, { 0 << 6 | 24, -SA_NO_RECORDS, 0 }, { 3 << 6, 1, 17 },
		/* what is no rate */
		{ 0 << 6 | 1, -SA_REQUEST_INVALID, 0 }, { 1 << 6 | 25, -SA_REQUEST_INVALID, 0 },
		{ 2 << 6, -SA_REQUEST_INVALID, 0 }, { 2 << 6 | 1, -SA_REQUEST_INVALID, 0 },
	};
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		a.record[54] = mtus[i].mtu;
		assert_int_equal(ask_path(&a, MAD_GET, "h1", "h5", P_MTU), mtus[i].result);
		if (mtus[i].result > 0)
			assert_int_equal(answer(&a, 0)[54] & 63, mtus[i].is);
	}
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		a.record[55] = rates[i].mtu;
		assert_int_equal(ask_path(&a, MAD_GET, "h1", "h5", P_RATE), rates[i].result);
		if (rates[i].result > 0)
			assert_int_equal(answer(&a, 0)[55] & 63, rates[i].is);
	}
	/* without a selector there is no choice */
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h5", 1 << 17 | 1 << 19), 1);
	/* of several pairs */
	a.record[10] = 2 << 6 | 6;
	assert_int_equal(ask_multi(&a, M_MTU, 0), -SA_REQUEST_INVALID);
	a.record[11] = 2 << 6 | 1;
	assert_int_equal(ask_multi(&a, M_RATE, 0), -SA_REQUEST_INVALID);
	run_fini(&a.r);
}

/* With an LMC there are alternates, which go by other switches. */
static void alternates(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ .lmc = 1 });
	assert_int_equal(ask_path(&a, SA_GET_TABLE, "h1", "h8", 0), 4);
	assert_int_equal(wire_get(answer(&a, 0), 40, 0, 16), lid_of(&a, "h8", 1));
	assert_int_equal(wire_get(answer(&a, 1), 40, 0, 16), lid_of(&a, "h8", 1) + 1);
	assert_int_equal(wire_get(answer(&a, 1), 42, 0, 16), lid_of(&a, "h1", 1) + 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(answer(&a, i)[57], i < 2 ? 0 : 2);
	a.record[49] = 2;
	assert_int_equal(ask_path(&a, SA_GET_TABLE, "h1", "h8", P_NUMBER), 2);
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h8", 0), 1);
	wire_put(a.record, lid_of(&a, "h8", 1) + 1, 40, 0, 16);
	assert_int_equal(ask_path(&a, SA_GET_TABLE, "h1", "h8", P_DLID), 2);
	/* where one LID alone is wanted, it counts as the first */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(wire_get(answer(&a, i), 42, 0, 16), lid_of(&a, "h1", 1) + i);
		assert_int_equal(wire_get(answer(&a, i), 40, 0, 16), lid_of(&a, "h8", 1) + 1);
		assert_int_equal(answer(&a, i)[57], i ? 2 : 0);
	}
	wire_put(a.record, lid_of(&a, "h8", 1) + 1, 40, 0, 16);
	wire_put(a.record, lid_of(&a, "h1", 1), 42, 0, 16);
	assert_int_equal(ask_path(&a, SA_GET_TABLE, "h1", "h8", P_DLID | P_SLID), 1);
	assert_int_equal(answer(&a, 0)[57], 0);
	/* several at once: two sources, two destinations */
	assert_int_equal(ask_multi(&a, 0, 0), 16);
	assert_int_equal(ask_multi(&a, M_NUMBER, 100), 16);
	a.record[15] = 12;
	a.record[16] = 1;
	assert_int_equal(ask(&a, SA_GET_MULTI, SA_MULTI_PATH_RECORD_ID, 3 << 19), -SA_COMPONENTS_MISSING);
	run_fini(&a.r);
}

/* Whose ports have as many LIDs as there can be. */
static void begin_many_lids(struct asker *a)
{
	struct topology topology;
	char why[300];

	memset(a, 0, sizeof(*a));
	topology_init(&topology);
	assert_int_equal(generate(&topology, "fat-tree", 1, (char *const[]){ "ports=8" }, why, sizeof(why)), 0);
	assert_int_equal(topology_set_lmc(&topology, LMC_MOST), 0);
	map_topology(&a->r.t, &topology);
	run_cold(&a->r, 1);
	a->s = &run_add(&a->r, "s1", 0, &(struct sm_config){ .lmc = LMC_MOST })->sm;
	assert_true(mad_net_until_quiet(&a->r.n, 100 * WTIME_S));
	a->lid = lid_of(a, "h1", 1);
}

/* In all, and not for each pair: the first source has them first. */
static void paths_of_several_pairs_are_as_many_as_asked_for(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ .lmc = 2 });
	assert_int_equal(ask_multi(&a, M_NUMBER, 0), 0);
	assert_int_equal(ask_multi(&a, M_NUMBER, 3), 3);
	assert_int_equal(ask_multi(&a, M_NUMBER, 17), 17);
	for (unsigned i = 0; i < 17; i++) {
		assert_int_equal(wire_get(answer(&a, i), 42, 0, 16) & ~3u, lid_of(&a, "h1", 1));
		assert_int_equal(wire_get(answer(&a, i), 40, 0, 16) & ~3u, lid_of(&a, i < 16 ? "h7" : "h8", 1));
	}
	assert_int_equal(ask_multi(&a, 0, 0), 64);
	run_fini(&a.r);
	/* four times 16,384, of which nobody wants a number */
	begin_many_lids(&a);
	assert_int_equal(ask_multi(&a, 0, 0), 0x7f);
	run_fini(&a.r);
}

/* Whichever LID of a port it is asked for by, it is known by its first. */
static void every_lid_of_a_port_names_it(void **state)
{
	enum { LMC = 2 };
	static const struct { unsigned attribute; int records; } rows[] = {
		{ SA_NODE_RECORD_ID, 1 }, { SA_PORT_INFO_RECORD_ID, 1 }, { SA_SL2VL_RECORD_ID, 1 }, { SA_VLARB_RECORD_ID, 4 },
		{ SA_GUID_INFO_RECORD_ID, 1 }, { SA_PKEY_RECORD_ID, 1 }, { SA_LINK_RECORD_ID, 1 },
		{ SA_SM_INFO_RECORD_ID, 1 },
	};
	struct asker a;
	uint16_t lid;

	begin(&a, &(struct sm_config){ .priority = 9, .lmc = LMC });
	run_add(&a.r, "h3", 1, &(struct sm_config){ .lmc = LMC });
	mad_net_for(&a.r.n, 5 * WTIME_S);
	lid = lid_of(&a, "h3", 1);
	a.key = MASTER_KEY;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned bits = 0; bits < 1 << LMC; bits++) {
			wire_put(a.record, lid + bits, 0, 0, 16);
			assert_int_equal(ask(&a, SA_GET_TABLE, rows[i].attribute, 1), rows[i].records);
			assert_int_equal(wire_get(answer(&a, 0), 0, 0, 16), lid);
		}
	}
	/* the other end of a link, both ends, and those of two links */
	wire_put(a.record, lid + 1, 4, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_LINK_RECORD_ID, 1 << 3), 1);
	assert_int_equal(wire_get(answer(&a, 0), 4, 0, 16), lid);
	wire_put(a.record, wire_get(answer(&a, 0), 0, 0, 16), 0, 0, 16);
	wire_put(a.record, lid + 2, 4, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_LINK_RECORD_ID, 1 << 3 | 1), 1);
	wire_put(a.record, lid_of(&a, "h1", 1) + 1, 0, 0, 16);
	wire_put(a.record, lid + 2, 4, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_LINK_RECORD_ID, 1 << 3 | 1), 0);
	/* where no manager is */
	wire_put(a.record, lid_of(&a, "h4", 1), 0, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_SM_INFO_RECORD_ID, 1), 0);
	/* BaseLID, a component of PortInfo, is what the port has */
	wire_put(a.record, lid + 1, 4 + 16, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PORT_INFO_RECORD_ID, 1 << 5), 0);
	/* what is refused comes back as it was asked */
	wire_put(a.record, lid + 1, 0, 0, 16);
	assert_int_equal(ask(&a, MAD_GET, SA_VLARB_RECORD_ID, 1), -SA_TOO_MANY_RECORDS);
	assert_int_equal(wire_get(a.r.said + SA_HEAD, 0, 0, 16), lid + 1);
	run_fini(&a.r);
}

enum { TORUS = 270 };		/* nodes of what begin_torus() makes: 15 * 9 switches, a host at each */

static void begin_torus(struct asker *a)
{
	memset(a, 0, sizeof(*a));
	run_init(&a->r, "torus", (char *const[]){ "size=9x15", "hosts=1", NULL }, 1);
	a->s = &run_add(&a->r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&a->r.n, 100 * WTIME_S));
	a->lid = lid_of(a, "h1", 1);
}

/* No two nodes have such a path: to look at all pairs takes longer than weftd may be away for one datagram. */
static void a_query_that_nothing_fits_ends(void **state)
{
	struct asker a;

	begin_torus(&a);
	a.record[54] = 0 << 6 | MTU_4096;
	assert_int_equal(ask(&a, MAD_GET, SA_PATH_RECORD_ID, P_MTU), -SA_NO_RESOURCES);
	a.record[54] = 0 << 6 | MTU_4096;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, P_MTU), 0);
	assert_int_equal(a.r.source_gives, 1 + (TORUS * TORUS - SA_STEPS_AT_ONCE - 1) / SA_STEPS_EACH);
	a.record[54] = 0 << 6 | MTU_4096;
	wire_put(a.record, a.lid, 42, 0, 16);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, P_SLID | P_MTU), 0);
	assert_int_equal(a.s->counters.long_answers, 1);
	run_fini(&a.r);
}

/* 66,675 ports: more than the records that a table looks at before it pauses. */
static void a_get_looks_at_all_ports(void **state)
{
	enum { BASE_LID = 5, PORT_STATE = 15, TO_LID = 3 };
	struct asker a;

	memset(&a, 0, sizeof(a));
	run_init(&a.r, "fat-tree", (char *const[]){ "ports=210", "hosts=1", NULL }, 1);
	a.s = &run_add(&a.r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	assert_true(a.s->net.ports > SA_STEPS_AT_ONCE);
	a.lid = lid_of(&a, "h1", 1);
	a.record[4 + 32] = PORT_INIT;
	assert_int_equal(ask(&a, MAD_GET, SA_PORT_INFO_RECORD_ID, 1 << PORT_STATE), -SA_NO_RECORDS);
	a.record[4 + 32] = PORT_ACTIVE;
	assert_int_equal(ask(&a, MAD_GET, SA_PORT_INFO_RECORD_ID, 1 << PORT_STATE), -SA_TOO_MANY_RECORDS);
	wire_put(a.record, lid_of(&a, "h210", 1), 4 + 16, 0, 16);
	assert_int_equal(ask(&a, MAD_GET, SA_PORT_INFO_RECORD_ID, 1 << BASE_LID), 1);
	wire_put(a.record, lid_of(&a, "h210", 1), 4, 0, 16);
	assert_int_equal(ask(&a, MAD_GET, SA_LINK_RECORD_ID, 1 << TO_LID), 1);
	run_fini(&a.r);
}

/* A search looks at a way to each LID of a port, whichever LID it begins at. */
static void a_query_of_many_lids_ends(void **state)
{
	enum { HOSTS = 32, SWITCHES = 12, LIDS_OF_ONE = 1 << LMC_MOST };
	const uint32_t ways = (HOSTS + SWITCHES) * (HOSTS * LIDS_OF_ONE + SWITCHES);
	const struct sa_record *record = sa_record_find(SA_PATH_RECORD_ID);
	struct sa_query q = { .head = { .method = SA_GET_TABLE, .attr_id = SA_PATH_RECORD_ID }, .record = record,
			      .mask = P_DGID | P_SGID | P_MTU, .most = UINT32_MAX, .enough = UINT32_MAX,
			      .steps_most = UINT32_MAX };
	struct asker a;

	begin_many_lids(&a);
	a.record[54] = 0 << 6 | MTU_4096;
	assert_int_equal(ask(&a, MAD_GET, SA_PATH_RECORD_ID, P_MTU), -SA_NO_RESOURCES);
	a.record[54] = 0 << 6 | MTU_4096;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, P_MTU), 0);
	assert_in_range(a.r.source_gives, (ways - SA_STEPS_AT_ONCE) / (SA_STEPS_EACH + LIDS_OF_ONE),
			1 + (ways - SA_STEPS_AT_ONCE) / SA_STEPS_EACH);
	/* of one pair, and of one whose ways nobody has to look at */
	q.s = a.s;
	q.from = net_port_of_lid(&a.s->net, a.lid);
	write_gid(&a, "h1", 1, q.wanted + 24);
	write_gid(&a, "h32", 1, q.wanted + 8);
	q.wanted[54] = 0 << 6 | MTU_4096;
	sa_find_paths(&q);
	assert_int_equal(q.count, 0);
	assert_int_equal(q.steps, LIDS_OF_ONE);
	wire_put(q.wanted, 0x8005, 50, 0, 16);
	q.mask |= P_PKEY;
	q.at = q.at_to = q.steps = 0;
	sa_find_paths(&q);
	assert_int_equal(q.steps, 1);
	/* and one way is enough for one path */
	q.mask = P_DGID | P_SGID;
	q.head.method = MAD_GET;
	q.at = q.at_to = q.steps = 0;
	sa_find_paths(&q);
	assert_int_equal(q.count, 1);
	assert_int_equal(q.steps, 1);
	free(q.out);
	run_fini(&a.r);
}

/* 4.7 MB, from each node what it has by itself, in the order of their ports. */
static void all_paths_are_one_answer(void **state)
{
	enum { BYTES = 64 };
	struct asker a;
	uint8_t *all;
	uint32_t at = 0;

	begin_torus(&a);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, 0), TORUS * TORUS);
	assert_int_equal(a.r.all_said[(a.r.said_count - 1) % 64].bytes, SA_HEAD + SA_ANSWER_AT_ONCE);
	all = malloc(a.r.said_bytes);
	assert_non_null(all);
	memcpy(all, a.r.said + SA_HEAD, a.r.said_bytes - SA_HEAD);
	for (uint32_t port = 0; port < a.s->net.ports; port++) {
		if (!net_is_here(&a.s->net, port))
			continue;
		wire_put(a.record, a.s->net.port[port].lid, 42, 0, 16);
		assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, P_SLID), TORUS);
		assert_memory_equal(all + at, a.r.said + SA_HEAD, TORUS * BYTES);
		at += TORUS * BYTES;
	}
	assert_int_equal(at, TORUS * TORUS * BYTES);
	assert_int_equal(a.s->counters.long_answers, 1);
	free(all);
	run_fini(&a.r);
}

static const struct table { unsigned attribute; int records; sa_handler *find; } tables[] = {
	{ SA_NODE_RECORD_ID, 14, sa_find_nodes }, { SA_PORT_INFO_RECORD_ID, 8 + 6 * 5, sa_find_ports },
	{ SA_SWITCH_INFO_RECORD_ID, 6, sa_find_switches }, { SA_LINK_RECORD_ID, 2 * 16, sa_find_links },
	{ SA_LFT_RECORD_ID, 6, sa_find_lfts }, { SA_GUID_INFO_RECORD_ID, 14, sa_find_guids },
	{ SA_PATH_RECORD_ID, 14 * 14, sa_find_paths }, { SA_SL2VL_RECORD_ID, 8 + 6 * 25, sa_find_sl2vls },
	{ SA_VLARB_RECORD_ID, 4 * (8 + 6 * 5), sa_find_vlarbs },
};

/* Each table that has more than goes at once is whole, if its search pauses anywhere. */
static void what_pauses_goes_on_where_it_was(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct sa_query q = { .s = a.s, .head = { .method = SA_GET_TABLE, .attr_id = (uint16_t)tables[i].attribute },
				      .most = UINT32_MAX, .steps_most = UINT32_MAX,
				      .record = sa_record_find((uint16_t)tables[i].attribute) };
		unsigned pauses = 0;

		assert_int_equal(ask(&a, SA_GET_TABLE, tables[i].attribute, 0), tables[i].records);
		q.from = net_port_of_lid(&a.s->net, a.lid);
		do {
			q.is_paused = false;
			q.enough = q.bytes + 1;
			tables[i].find(&q);
			pauses++;
		} while (q.is_paused);
		assert_true(pauses > 5 && !q.status);
		assert_int_equal(q.bytes, a.r.said_bytes - SA_HEAD);
		assert_memory_equal(q.out, a.r.said + SA_HEAD, q.bytes);
		free(q.out);
	}
	run_fini(&a.r);
}

/* A search counts what it looks at, whether it fits or not, and pauses by that: also where switches have blocks of trees, but no
 * tree. One whose answer has no room ends. */
static void what_does_not_fit_counts(void **state)
{
	enum { BLOCKS = 4 };
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (uint32_t node = 0; node < a.s->net.nodes; node++) {
		if (net_is_switch(&a.s->net, node))
			assert_int_equal(groups_note(a.s, node, BLOCKS - 1, (uint8_t[SMP_DATA_BYTES]){ 0 }), 0);
	}
	for (size_t i = 0; i <= sizeof(tables) / sizeof(tables[0]); i++) {
		const struct table trees = { SA_MFT_RECORD_ID, 6 * BLOCKS, sa_find_mfts };
		const struct table *t = i < sizeof(tables) / sizeof(tables[0]) ? &tables[i] : &trees;
		const struct sa_query first = { .s = a.s, .head = { .method = SA_GET_TABLE, .attr_id = (uint16_t)t->attribute },
						.from = net_port_of_lid(&a.s->net, a.lid), .most = UINT32_MAX,
						.enough = UINT32_MAX, .record = sa_record_find((uint16_t)t->attribute) };
		struct sa_query q = first;
		unsigned pauses = 0, steps;

		/* no record is like that, and of paths no P_Key */
		memset(q.wanted, 0xee, sizeof(q.wanted));
		q.mask = t->find == sa_find_paths ? P_PKEY : ~1ull;
		q.steps_most = UINT32_MAX;
		t->find(&q);
		assert_int_equal(q.count, 0);
		assert_true(q.steps >= (unsigned)t->records);
		steps = q.steps;
		q.at = q.at_to = 0;
		do {
			q.steps = 0;
			q.steps_most = 1;
			q.is_paused = false;
			t->find(&q);
			pauses++;
		} while (q.is_paused);
		assert_true(pauses > 5 && !q.count);
		if (t == &trees)
			continue;
		q = first;
		q.most = t->find == sa_find_paths ? 64 : q.record->bytes;
		q.steps_most = UINT32_MAX;
		t->find(&q);
		assert_int_equal(q.status, SA_NO_RESOURCES);
		assert_true(q.steps < steps);
		free(q.out);
	}
	run_fini(&a.r);
}

/* A search for a LID looks at its ports alone. */
static void a_lid_is_looked_up(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		bool is_of_switches = tables[i].find == sa_find_switches || tables[i].find == sa_find_lfts;
		struct sa_query q = { .s = a.s, .head = { .method = SA_GET_TABLE, .attr_id = (uint16_t)tables[i].attribute },
				      .from = net_port_of_lid(&a.s->net, a.lid), .mask = 1, .most = UINT32_MAX,
				      .enough = UINT32_MAX, .steps_most = UINT32_MAX,
				      .record = sa_record_find((uint16_t)tables[i].attribute) };

		if (tables[i].find == sa_find_paths)
			continue;
		wire_put(q.wanted, is_of_switches ? lid_of(&a, "s6", 0) : lid_of(&a, "h8", 1), 0, 0, 16);
		tables[i].find(&q);
		assert_int_equal(q.count, tables[i].find == sa_find_vlarbs ? 4 : 1);
		assert_in_range(q.steps, 1, 5);
		free(q.out);
	}
	run_fini(&a.r);
}

/* The same by letters, as it is sent. */
static void small_tables_pause_where_little_goes_at_once(void **state)
{
	enum { AT_ONCE = 1000, NODES = 14, BYTES = 112 };
	struct asker a;

	begin(&a, &(struct sm_config){ .at_once = AT_ONCE });
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 0), NODES);
	assert_int_equal(a.r.all_said[(a.r.said_count - 1) % 64].bytes, SA_HEAD + (AT_ONCE + BYTES - 1) / BYTES * BYTES);
	assert_int_equal(a.s->counters.long_answers, 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_SWITCH_INFO_RECORD_ID, 0), 6);
	assert_int_equal(a.s->counters.long_answers, 1);
	run_fini(&a.r);
}

static enum mad_given give_some(struct asker *a)
{
	static uint8_t some[100 * 64];
	uint32_t bytes = 0;

	return a->r.source->give(a->r.source, some, sizeof(some), &bytes);
}

static void end_source(struct asker *a)
{
	a->r.source->end(a->r.source);
	a->r.source = NULL;
}

static void ask_for_all(struct asker *a)
{
	assert_int_equal(ask(a, SA_GET_TABLE, SA_PATH_RECORD_ID, 0), SA_ANSWER_AT_ONCE / 64);
	assert_non_null(a->r.source);
	assert_int_equal(give_some(a), MAD_GIVES_MORE);
}

/* A sweep that finds nothing new changes nothing; a link that is gone ends what is under way, and who asks again has it all. */
static void a_long_answer_is_of_one_state(void **state)
{
	struct asker a;

	begin_torus(&a);
	a.r.keeps_source = true;
	ask_for_all(&a);
	sm_sweep(a.s, a.r.n.now, false);
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	sm_sweep(a.s, a.r.n.now, true);
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	assert_int_equal(give_some(&a), MAD_GIVES_MORE);
	mad_net_set_node(&a.r.n, a.r.t.f.owner[port_named(&a.r.t.f, "h20", 1)], false);
	sm_sweep(a.s, a.r.n.now, true);
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	assert_int_equal(give_some(&a), MAD_GIVES_UP);
	assert_int_equal(a.s->counters.cut_short, 1);
	end_source(&a);
	a.r.keeps_source = false;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, 0), (TORUS - 1) * (TORUS - 1));
	/* who is not the master any more has no answers */
	a.r.keeps_source = true;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, 0), SA_ANSWER_AT_ONCE / 64);
	a.s->state = SM_STANDBY;
	assert_int_equal(give_some(&a), MAD_GIVES_UP);
	a.s->state = SM_MASTER;
	assert_int_equal(give_some(&a), MAD_GIVES_MORE);
	/* nor who has ended */
	mad_net_kill(&a.r.n, &a.r.n.manager[0]);
	assert_int_equal(give_some(&a), MAD_GIVES_UP);
	end_source(&a);
	run_fini(&a.r);
}

/* Of one switch, whose records alone are more than goes at once, and then its hosts. */
static void begin_star(struct asker *a)
{
	memset(a, 0, sizeof(*a));
	run_init(&a->r, "star", (char *const[]){ "hosts=200", NULL }, 1);
	a->s = &run_add(&a->r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&a->r.n, 100 * WTIME_S));
	a->lid = lid_of(a, "h1", 1);
}

/* The lanes of all ports. */
static void ask_for_lanes(struct asker *a)
{
	a->r.keeps_source = true;
	assert_int_equal(ask(a, SA_GET_TABLE, SA_SL2VL_RECORD_ID, 0), 201 * 201);
	assert_non_null(a->r.source);
	a->r.keeps_source = false;
}

/* Sets a GUID of a host, as that host. */
static int set_guid(struct asker *a, const char *host, unsigned place, uint64_t guid)
{
	a->lid = lid_of(a, host, 1);
	wire_put(a->record, a->lid, 0, 0, 16);
	wire_put(a->record + 8 + 8 * place, guid, 0, 0, 64);
	return ask(a, MAD_SET, SA_GUID_INFO_RECORD_ID, 3 | 1ull << (4 + place));
}

/* What nothing is written for leaves tables of lanes as they are, too: sweeps, and what is refused to whoever asks for it. */
static void a_long_answer_outlives_what_changes_nothing(void **state)
{
	struct asker a;

	begin_star(&a);
	ask_for_lanes(&a);
	sm_sweep(a.s, a.r.n.now, false);
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	sm_sweep(a.s, a.r.n.now, true);
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	assert_int_equal(ask(&a, MAD_SET, SA_INFORM_INFO, 0), -SA_REQUEST_INVALID);
	/* a port's first GUID is its own */
	assert_int_equal(set_guid(&a, "h2", 0, 1), -SA_REQUEST_INVALID);
	assert_int_equal(give_some(&a), MAD_GAVE_ALL);
	end_source(&a);
	ask_for_lanes(&a);
	assert_int_equal(set_guid(&a, "h2", 1, 0xabcd), 1);
	assert_int_equal(give_some(&a), MAD_GIVES_UP);
	end_source(&a);
	run_fini(&a.r);
}

/* As another manager has written them: those that were known are others. */
static void a_long_answer_ends_with_guids_that_are_read(void **state)
{
	struct asker a;

	begin_star(&a);
	for (unsigned is_other = 0; is_other <= 1; is_other++) {
		ask_for_lanes(&a);
		fabric_guids(&a.r.t.f, port_named(&a.r.t.f, "h3", 1))[1] = is_other ? 0xabce : 0;
		for (uint32_t port = 0; port < a.s->net.ports; port++)
			a.s->net.port[port].has_guids = false;
		sm_sweep(a.s, a.r.n.now, true);
		assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
		assert_int_equal(give_some(&a), is_other ? MAD_GIVES_UP : MAD_GAVE_ALL);
		end_source(&a);
	}
	run_fini(&a.r);
}

/* Who is put off hears so, whatever he asks; who may not ask hears nothing. */
static void who_is_put_off_hears_it(void **state)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SA_CLASS_VERSION, SA_GET_TABLE, [17] = SA_PATH_RECORD_ID };
	struct mad_letter l = { .agent = SM_AGENT_SA, .data = mad, .bytes = sizeof(mad) }, back;
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	l.remote.lid = a.lid;
	sa_put_off(a.s, a.r.n.now, &l);
	assert_true(sm_output(a.s, a.r.n.now, &back));
	assert_int_equal(back.remote.lid, a.lid);
	assert_int_equal(back.bytes, MAD_BYTES);
	assert_int_equal(back.data[3], SA_GET_TABLE | MAD_RESPONSE);
	assert_int_equal(wire_get(back.data, 4, 0, 16), MAD_STATUS_BUSY);
	wire_put(mad, 2, SA_KEY);
	sa_put_off(a.s, a.r.n.now, &l);
	assert_int_equal(a.s->counters.wrong_keys, 1);
	l.bytes = SA_HEAD - 1;
	sa_put_off(a.s, a.r.n.now, &l);
	assert_false(sm_output(a.s, a.r.n.now, &back));
	assert_int_equal(a.s->counters.wrong_keys, 1);
	run_fini(&a.r);
}

/* Two of two sources and two destinations have no end in common, and with an LMC other LIDs, whatever the order of ports. */
static void two_paths_apart(void **state)
{
	struct asker a;

	for (uint8_t lmc = 0; lmc < 2; lmc++) {
		begin(&a, &(struct sm_config){ .lmc = lmc });
		for (unsigned order = 0; order < 4; order++) {
			const char *const hosts[] = { order & 1 ? "h2" : "h1", order & 1 ? "h1" : "h2",
						      order & 2 ? "h8" : "h7", order & 2 ? "h7" : "h8" };

			assert_int_equal(ask_multi_of(&a, hosts, M_NUMBER, 2), 2);
			for (unsigned i = 0; i < 2; i++) {
				assert_int_equal(wire_get(answer(&a, i), 42, 0, 16), lid_of(&a, i ? "h2" : "h1", 1) + i * lmc);
				assert_int_equal(wire_get(answer(&a, i), 40, 0, 16), lid_of(&a, i ? "h8" : "h7", 1) + i * lmc);
			}
		}
		run_fini(&a.r);
	}
}

/* The switch of h1 has a greater GUID than h7, beside h8. */
static void two_paths_apart_are_short(void **state)
{
	static const char *const hosts[] = { "h1", "h8", "h7", "s3" };
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(ask_multi_of(&a, hosts, M_NUMBER, 2), 2);
	assert_int_equal(wire_get(answer(&a, 0), 42, 0, 16), lid_of(&a, "h1", 1));
	assert_int_equal(wire_get(answer(&a, 0), 40, 0, 16), lid_of(&a, "s3", 0));
	assert_int_equal(wire_get(answer(&a, 1), 42, 0, 16), lid_of(&a, "h8", 1));
	assert_int_equal(wire_get(answer(&a, 1), 40, 0, 16), lid_of(&a, "h7", 1));
	run_fini(&a.r);
}

/* Both pairs of paths are as long: the one is taken whose ends share partitions. If there is none, what there is. */
static void two_paths_apart_are_in_a_partition(void **state)
{
	static const char *const hosts[] = { "h1", "h2", "h7", "h8" };
	/* partitions as bits; ends by their numbers */
	static const struct { unsigned of[4], paths, from[2], to[2]; } rows[] = {
		{ { 1, 2, 1, 2 }, 2, { 0, 1 }, { 2, 3 } }, { { 1, 2, 2, 1 }, 2, { 0, 1 }, { 3, 2 } },
		{ { 1, 2, 3, 1 }, 2, { 0, 1 }, { 3, 2 } }, { { 1, 2, 1, 1 }, 2, { 0, 0 }, { 2, 3 } },
		{ { 1, 2, 4, 1 }, 1, { 0 }, { 3 } }, { { 1, 2, 4, 8 }, 0, { 0 }, { 0 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct asker a = { 0 };

		run_init(&a.r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
		/* limited members of the default one reach the manager alone, which is a full one */
		for (uint32_t port = 0; port < a.r.t.f.ports; port++)
			fabric_partitions(&a.r.t.f, port)[0] = fabric_pkeys(&a.r.t.f, port)[0] = 0x7fff;
		run_give_pkey(&a.r, "s1", 0, 0, 0xffff);
		for (unsigned k = 0; k < 4 * 4; k++) {
			if (rows[i].of[k / 4] >> k % 4 & 1)
				run_give_pkey(&a.r, hosts[k / 4], 1, 1 + k % 4, (uint16_t)(0x8001 + k % 4));
		}
		a.s = &run_add(&a.r, "s1", 0, &(struct sm_config){ 0 })->sm;
		assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
		a.lid = lid_of(&a, "s1", 0);
		assert_int_equal(ask_multi_of(&a, hosts, M_NUMBER, 2), rows[i].paths);
		for (unsigned k = 0; k < rows[i].paths; k++) {
			assert_int_equal(wire_get(answer(&a, k), 42, 0, 16), lid_of(&a, hosts[rows[i].from[k]], 1));
			assert_int_equal(wire_get(answer(&a, k), 40, 0, 16), lid_of(&a, hosts[rows[i].to[k]], 1));
		}
		run_fini(&a.r);
	}
}

/* There are LIDs for seven of the hosts. The last one is there, and no LID is a way to it. */
static void a_port_without_lids_has_no_paths(void **state)
{
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SA_CLASS_VERSION, SA_GET_MULTI, [17] = SA_MULTI_PATH_RECORD_ID };
	struct mad_letter l = { .agent = SM_AGENT_SA, .data = mad, .bytes = sizeof(mad) }, back;
	struct asker a = { 0 };

	run_init(&a.r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	a.s = &run_add(&a.r, "s1", 0, &(struct sm_config){ .lmc = 3 })->sm;
	mad_net_for(&a.r.n, 30 * WTIME_S);
	assert_true(lid_of(&a, "h7", 1) && !lid_of(&a, "h8", 1));
	l.remote.lid = lid_of(&a, "h1", 1);
	wire_put(mad, 3 << 19, SA_MASK);
	mad[SA_HEAD + 15] = mad[SA_HEAD + 16] = 1;
	for (unsigned i = 0; i < 3; i++) {
		write_gid(&a, i == 1 ? "h8" : "h1", 1, mad + SA_HEAD + 24);
		write_gid(&a, i == 1 ? "h1" : i ? "h7" : "h8", 1, mad + SA_HEAD + 24 + 16);
		sm_input(a.s, a.r.n.now, &l);
		assert_true(sm_output(a.s, a.r.n.now, &back));
		assert_int_equal(wire_get(back.data, 4, 0, 16), 0);
		/* from each LID to each */
		assert_int_equal(back.bytes, SA_HEAD + (i == 2 ? 8 * 8 * 64 : 0));
	}
	run_fini(&a.r);
}

/* Who asks by RMPP says how long the question is; what it does not have of the record is zero. The answer's attribute is that of
 * paths, also where it has none (o15-0.2.7). */
static void a_request_shorter_than_a_mad(void **state)
{
	enum { GIDS = SA_HEAD + 24 };
	uint8_t mad[GIDS + 32] = { 1, MAD_CLASS_SA, SA_CLASS_VERSION, SA_GET_MULTI, [17] = SA_MULTI_PATH_RECORD_ID };
	struct mad_letter l = { .agent = SM_AGENT_SA, .data = mad, .bytes = sizeof(mad) }, back;
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	l.remote.lid = a.lid;
	wire_put(mad, 3 << 19, SA_MASK);
	mad[SA_HEAD + 15] = mad[SA_HEAD + 16] = 1;
	write_gid(&a, "h1", 1, mad + GIDS);
	write_gid(&a, "h8", 1, mad + GIDS + 16);
	sm_input(a.s, a.r.n.now, &l);
	assert_true(sm_output(a.s, a.r.n.now, &back));
	assert_int_equal(wire_get(back.data, 4, 0, 16), 0);
	assert_int_equal(wire_get(back.data, 16, 0, 16), SA_PATH_RECORD_ID);
	assert_int_equal(back.bytes, SA_HEAD + 64);
	assert_memory_equal(back.data + SA_HEAD + 8, mad + GIDS + 16, 16);
	/* one destination more, of which there are zeros */
	mad[SA_HEAD + 16] = 2;
	sm_input(a.s, a.r.n.now, &l);
	assert_true(sm_output(a.s, a.r.n.now, &back));
	assert_int_equal(wire_get(back.data, 4, 0, 16), SA_GID_INVALID);
	assert_int_equal(wire_get(back.data, 16, 0, 16), SA_PATH_RECORD_ID);
	sa_put_off(a.s, a.r.n.now, &l);
	assert_true(sm_output(a.s, a.r.n.now, &back));
	assert_int_equal(wire_get(back.data, 4, 0, 16), MAD_STATUS_BUSY);
	/* a PortNum of zero is that of the six switches */
	mad[3] = SA_GET_TABLE;
	mad[17] = SA_PORT_INFO_RECORD_ID;
	wire_put(mad, 1 << 1, SA_MASK);
	l.bytes = SA_HEAD;
	sm_input(a.s, a.r.n.now, &l);
	assert_true(sm_output(a.s, a.r.n.now, &back));
	assert_true(wire_get(back.data, SA_ATTRIBUTE_OFFSET));
	assert_int_equal(back.bytes, SA_HEAD + 6 * 8 * wire_get(back.data, SA_ATTRIBUTE_OFFSET));
	assert_int_equal(wire_get(back.data, 16, 0, 16), SA_PORT_INFO_RECORD_ID);
	run_fini(&a.r);
}

/* What comes in segments is refused and counted, but for the one request that may, whatever the rest of it says. */
static void requests_in_segments(void **state)
{
	static const struct { uint8_t method, attribute; uint16_t bytes, status, put_off; } rows[] = {
		{ MAD_GET, SA_NODE_RECORD_ID, MAD_BYTES, 0, MAD_STATUS_BUSY },
		{ MAD_GET, SA_NODE_RECORD_ID, MAD_BYTES + 1, SA_REQUEST_INVALID, SA_REQUEST_INVALID },
		{ SA_GET_TABLE, SA_NODE_RECORD_ID, 1000, SA_REQUEST_INVALID, SA_REQUEST_INVALID },
		{ MAD_SET, SA_SERVICE_RECORD_ID, 1000, SA_REQUEST_INVALID, SA_REQUEST_INVALID },
		{ SA_DELETE, SA_SERVICE_RECORD_ID, 1000, SA_REQUEST_INVALID, SA_REQUEST_INVALID },
		{ SA_GET_TRACE_TABLE, SA_PATH_RECORD_ID, 1000, SA_REQUEST_INVALID, SA_REQUEST_INVALID },
		{ SA_GET_MULTI, SA_MULTI_PATH_RECORD_ID, 1000, SA_COMPONENTS_MISSING, MAD_STATUS_BUSY },
		{ SA_GET_MULTI, SA_NODE_RECORD_ID, 1000, MAD_STATUS_BAD_METHOD, MAD_STATUS_BUSY },
	};
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (size_t i = 0; i < 2 * (sizeof(rows) / sizeof(rows[0])); i++) {
		uint8_t mad[1000] = { 1, MAD_CLASS_SA, SA_CLASS_VERSION, rows[i / 2].method, [17] = rows[i / 2].attribute };
		struct mad_letter l = { .agent = SM_AGENT_SA, .data = mad, .bytes = rows[i / 2].bytes }, back;
		uint64_t refused = a.s->counters.refused, queries = a.s->counters.queries;
		uint16_t status = i % 2 ? rows[i / 2].put_off : rows[i / 2].status;

		l.remote.lid = a.lid;
		if (rows[i / 2].bytes == MAD_BYTES) {
			/* NodeRecord of who asks: LID */
			wire_put(mad, 1, SA_MASK);
			wire_put(mad + SA_HEAD, a.lid, 0, 0, 16);
		}
		if (i % 2)
			sa_put_off(a.s, a.r.n.now, &l);
		else
			sm_input(a.s, a.r.n.now, &l);
		assert_true(sm_output(a.s, a.r.n.now, &back));
		assert_int_equal(wire_get(back.data, 4, 0, 16), status);
		assert_int_equal(back.bytes, MAD_BYTES);
		assert_int_equal(a.s->counters.queries, queries + 1);
		assert_int_equal(a.s->counters.refused, refused + (status != 0));
	}
	run_fini(&a.r);
}

/* Ports see what is in their partitions. */
static void partitions(void **state)
{
	struct asker a;

	memset(&a, 0, sizeof(a));
	run_init(&a.r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	/* h8 is a limited member of the default partition, h7 of none that others are in, h6 of its too */
	run_give_pkey(&a.r, "h8", 1, 0, 0x7fff);
	run_give_pkey(&a.r, "h7", 1, 0, 0x8005);
	run_give_pkey(&a.r, "h6", 1, 3, 0x0005);
	a.s = &run_add(&a.r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	a.lid = lid_of(&a, "h1", 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 0), 13);
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h7", 0), -SA_NO_RECORDS);
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h8", 0), 1);
	a.lid = lid_of(&a, "h7", 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 0), 2);
	assert_int_equal(ask_path(&a, MAD_GET, "h7", "h6", 0), 1);
	assert_int_equal(wire_get(answer(&a, 0), 50, 0, 16), 0x8005);
	wire_put(a.record, 0xffff, 50, 0, 16);
	assert_int_equal(ask_path(&a, MAD_GET, "h7", "h6", P_PKEY), -SA_NO_RECORDS);
	run_fini(&a.r);
}

static void two_limited_members_share_nothing(void **state)
{
	struct asker a;

	memset(&a, 0, sizeof(a));
	run_init(&a.r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	run_give_pkey(&a.r, "h7", 1, 0, 0x7fff);
	run_give_pkey(&a.r, "h8", 1, 0, 0x7fff);
	a.s = &run_add(&a.r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	a.lid = lid_of(&a, "h8", 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 0), 13);
	assert_int_equal(ask_path(&a, MAD_GET, "h8", "h7", 0), -SA_NO_RECORDS);
	run_fini(&a.r);
}

/* A path has the P_Key that is asked for where its ends reach each other by it: one of them is a full member. */
static void paths_of_a_partition(void **state)
{
	static const struct { const char *from, *to; uint16_t wanted; int result; uint16_t is; } paths[] = {
		/* both are limited members */
		{ "h7", "h8", 0x8005, -SA_NO_RECORDS, 0 }, { "h7", "h8", 0x0005, -SA_NO_RECORDS, 0 },
		{ "h7", "h8", 0xffff, 1, 0xffff }, { "h7", "h8", 0, 1, 0xffff },
		/* one is a full one, whichever end it is and however it is written */
		{ "h5", "h7", 0x8005, 1, 0x8005 }, { "h7", "h5", 0x0005, 1, 0x0005 }, { "h6", "h7", 0x8005, 1, 0x8005 },
		{ "h7", "h6", 0x8005, 1, 0x8005 }, { "h1", "h5", 0x8005, -SA_NO_RECORDS, 0 },
		{ "h5", "h1", 0x8005, -SA_NO_RECORDS, 0 }, { "h5", "h6", 0x8006, -SA_NO_RECORDS, 0 },
		/* to itself: as a full member, or by its first */
		{ "h1", "h1", 0, 1, 0xffff }, { "h4", "h4", 0, 1, 0x8005 }, { "h3", "h3", 0, 1, 0x8006 },
		{ "h2", "h2", 0, 1, 0x0007 }, { "h7", "h7", 0x0005, 1, 0x0005 }, { "h4", "h4", 0xffff, -SA_NO_RECORDS, 0 },
	};
	static const struct { const char *host; unsigned place; uint16_t pkey; } pkeys[] = {
		{ "h7", 1, 0x0005 }, { "h8", 1, 0x0005 }, { "h5", 1, 0x8005 }, { "h6", 1, 0x0005 }, { "h6", 2, 0x8005 },
		{ "h4", 0, 0x8005 }, { "h3", 0, 0x0005 }, { "h3", 1, 0x8006 }, { "h2", 0, 0x8000 }, { "h2", 1, 0x0007 },
	};
	struct asker a;

	memset(&a, 0, sizeof(a));
	run_init(&a.r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	for (size_t i = 0; i < sizeof(pkeys) / sizeof(pkeys[0]); i++)
		run_give_pkey(&a.r, pkeys[i].host, 1, pkeys[i].place, pkeys[i].pkey);
	a.s = &run_add(&a.r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&a.r.n, 100 * WTIME_S));
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		a.lid = lid_of(&a, paths[i].from, 1);
		wire_put(a.record, paths[i].wanted, 50, 0, 16);
		assert_int_equal(ask_path(&a, MAD_GET, paths[i].from, paths[i].to, paths[i].wanted ? P_PKEY : 0),
				 paths[i].result);
		if (paths[i].is)
			assert_int_equal(wire_get(answer(&a, 0), 50, 0, 16), paths[i].is);
	}
	/* whose P_Keys nobody has read have those that hardware begins with */
	a.lid = lid_of(&a, "h1", 1);
	free(a.s->net.port[net_port_of_lid(&a.s->net, a.lid)].pkeys);
	a.s->net.port[net_port_of_lid(&a.s->net, a.lid)].pkeys = NULL;
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h1", 0), 1);
	assert_int_equal(wire_get(answer(&a, 0), 50, 0, 16), 0xffff);
	wire_put(a.record, 0x7fff, 50, 0, 16);
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h7", P_PKEY), 1);
	wire_put(a.record, 0x8005, 50, 0, 16);
	assert_int_equal(ask_path(&a, MAD_GET, "h1", "h5", P_PKEY), -SA_NO_RECORDS);
	run_fini(&a.r);
}

/* ---- groups ---- */

enum { JOIN = 1 | 1 << 1 | 1 << 16, MAKE = JOIN | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 };

static int join_in(struct asker *a, uint16_t pkey, uint8_t group, const char *host, unsigned method, uint64_t mask,
		   unsigned state)
{
	const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = group };

	memcpy(a->record, mgid, 16);
	write_gid(a, host, 1, a->record + 16);
	wire_put(a->record, 0x1234, 32, 0, 32);
	wire_put(a->record, pkey, 40, 0, 16);
	a->record[48] = (uint8_t)state;
	return ask(a, method, SA_MCMEMBER_RECORD_ID, mask);
}

static int join_group(struct asker *a, uint8_t group, const char *host, unsigned method, uint64_t mask, unsigned state)
{
	return join_in(a, 0xffff, group, host, method, mask, state);
}

static int join_for(struct asker *a, const char *host, unsigned method, uint64_t mask, unsigned state)
{
	return join_group(a, 7, host, method, mask, state);
}

static int join(struct asker *a, const char *host, unsigned method, uint64_t mask, unsigned state)
{
	a->lid = lid_of(a, host, 1);
	return join_for(a, host, method, mask, state);
}

/* The broadcast group of all. */
static int join_for_all(struct asker *a, const char *host)
{
	static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [12] = 0xff, 0xff, 0xff, 0xff };

	a->lid = lid_of(a, host, 1);
	memcpy(a->record, mgid, 16);
	write_gid(a, host, 1, a->record + 16);
	a->record[48] = MCAST_FULL;
	return ask(a, MAD_SET, SA_MCMEMBER_RECORD_ID, JOIN);
}

/* Who of h1 to h8 gets a packet of this host, as bits. */
static unsigned hear(struct asker *a, const char *from, uint16_t mlid)
{
	const struct fabric *f = &a->r.t.f;
	struct walk_packet p = { .from = port_named(f, from, 1), .dlid = mlid, .pkey = PKEY_DEFAULT };
	struct walk_group g;
	unsigned who = 0;

	assert_int_equal(walk_group_init(&g, f), 0);
	fabric_walk_group(f, &p, &g);
	assert_false(g.loops);
	for (uint32_t i = 0; i < g.ports; i++) {
		for (unsigned h = 1; h <= 8; h++) {
			char name[8];

			snprintf(name, sizeof(name), "h%u", h);
			who |= (g.port[i] == port_named(f, name, 1)) << h;
		}
	}
	walk_group_fini(&g);
	return who;
}

static void a_group_and_its_tree(void **state)
{
	struct asker a;
	uint16_t mlid;
	wtime before;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(join(&a, "h1", MAD_SET, JOIN, 1), -SA_COMPONENTS_MISSING);
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE, 4), -SA_REQUEST_INVALID);
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE, 1), 1);
	mlid = (uint16_t)wire_get(answer(&a, 0), 36, 0, 16);
	assert_int_equal(mlid, MLID_FIRST + 1);
	assert_int_equal(answer(&a, 0)[38], 2 << 6 | MTU_4096);
	assert_int_equal(join(&a, "h4", MAD_SET, JOIN, 1), 1);
	assert_int_equal(wire_get(answer(&a, 0), 32, 0, 32), 0x1234);
	assert_int_equal(join(&a, "h8", MAD_SET, JOIN, 1), 1);
	assert_int_equal(hear(&a, "h1", mlid), 1 << 4 | 1 << 8);
	assert_int_equal(hear(&a, "h8", mlid), 1 << 1 | 1 << 4);
	/* who only sends hears nothing */
	assert_int_equal(join(&a, "h6", MAD_SET, JOIN, 4), 1);
	assert_int_equal(hear(&a, "h6", mlid), 1 << 1 | 1 << 4 | 1 << 8);
	assert_int_equal(hear(&a, "h1", mlid), 1 << 4 | 1 << 8);
	/* a tree grows before its member is answered, and shrinks when what that has sent is gone */
	before = a.r.n.now;
	assert_int_equal(join(&a, "h5", MAD_SET, JOIN | 1 << 2, 1), 1);
	assert_true(a.r.n.now < before + 100 * WTIME_MS);
	/* the tree goes around what fails */
	agents_set_link(&a.r.n.agents, a.r.n.now, fabric_port_index(&a.r.t.f, node_named(&a.r.t.f, "s1"), 1), false);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	assert_int_equal(hear(&a, "h1", mlid), 1 << 4 | 1 << 5 | 1 << 8);
	/* a state that it has not, somebody else's, its own */
	assert_int_equal(join(&a, "h4", SA_DELETE, JOIN, 2), -SA_REQUEST_INVALID);
	assert_int_equal(join(&a, "h2", SA_DELETE, JOIN, 1), -SA_REQUEST_INVALID);
	a.lid = lid_of(&a, "h2", 1);
	assert_int_equal(join_for(&a, "h4", SA_DELETE, JOIN, 1), -SA_REQUEST_INVALID);
	before = a.r.n.now;
	assert_int_equal(join(&a, "h4", SA_DELETE, JOIN, 1), 1);
	assert_true(a.r.n.now > before + 100 * WTIME_MS);
	assert_int_equal(hear(&a, "h1", mlid), 1 << 5 | 1 << 8);
	assert_int_equal(join(&a, "h5", SA_DELETE, JOIN, 1), 1);
	assert_int_equal(join(&a, "h8", SA_DELETE, JOIN, 1), 1);
	assert_int_equal(join(&a, "h1", SA_DELETE, JOIN, 1), 1);
	/* the group went with its last full member */
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 1);
	assert_int_equal(hear(&a, "h1", mlid), 0);
	run_fini(&a.r);
}

/* Of what is asked for, the group has another value, or its own. */
static void a_path_to_a_group_is_as_its_group(void **state)
{
	static const struct { unsigned component, at, byte, bits; } rows[] = {
		{ 4, 40, 0, 16 }, { 8, 44, 4, 20 }, { 9, 47, 0, 8 }, { 10, 48, 0, 8 }, { 13, 50, 0, 16 }, { 15, 53, 4, 4 },
	};
	enum { FLOW_LABEL = 0x54321, TCLASS = 9, SL = 3, HOP_LIMIT = 7 };
	uint8_t path[64];
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	a.record[39] = TCLASS;
	wire_put(a.record, (uint32_t)SL << 28 | FLOW_LABEL << 8 | HOP_LIMIT, 44, 0, 32);
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE | 1 << 14, 1), 1);
	memcpy(a.record + 8, answer(&a, 0), 16);
	assert_int_equal(ask(&a, MAD_GET, SA_PATH_RECORD_ID, P_DGID), 1);
	memcpy(path, answer(&a, 0), sizeof(path));
	assert_int_equal(wire_get(path, 40, 0, 16), MLID_FIRST + 1);
	assert_int_equal(wire_get(path, 44, 4, 20), FLOW_LABEL);
	assert_int_equal(path[47], HOP_LIMIT);
	assert_int_equal(path[48], TCLASS);
	assert_int_equal(path[53], SL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned is_other = 0; is_other <= 1; is_other++) {
			uint32_t value = (uint32_t)wire_get(path, rows[i].at, rows[i].byte, rows[i].bits) ^ is_other;

			memcpy(a.record, path, sizeof(path));
			wire_put(a.record, value, rows[i].at, rows[i].byte, rows[i].bits);
			assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, P_DGID | 1 << rows[i].component), !is_other);
		}
	}
	for (unsigned number = 0; number <= 1; number++) {
		memcpy(a.record, path, sizeof(path));
		a.record[49] = (uint8_t)number;
		assert_int_equal(ask(&a, SA_GET_TABLE, SA_PATH_RECORD_ID, P_DGID | P_NUMBER), number);
	}
	run_fini(&a.r);
}

/* A full member that only sends makes a group, and keeps it, as OpenSM has it. */
static void a_group_of_those_who_only_send(void **state)
{
	struct asker a;
	uint16_t mlid;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE, MCAST_SEND_ONLY), -SA_REQUEST_INVALID);
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE, MCAST_SEND_ONLY_FULL), 1);
	assert_int_equal(answer(&a, 0)[48] & 15, MCAST_SEND_ONLY_FULL);
	mlid = (uint16_t)wire_get(answer(&a, 0), 36, 0, 16);
	assert_int_equal(join(&a, "h4", MAD_SET, JOIN, MCAST_FULL), 1);
	assert_int_equal(join(&a, "h6", MAD_SET, JOIN, MCAST_SEND_ONLY), 1);
	assert_int_equal(hear(&a, "h1", mlid), 1 << 4);
	assert_int_equal(hear(&a, "h6", mlid), 1 << 4);
	assert_int_equal(hear(&a, "h4", mlid), 0);
	/* one may be both, and leave as one of them */
	assert_int_equal(join(&a, "h1", MAD_SET, JOIN, MCAST_FULL), 1);
	assert_int_equal(answer(&a, 0)[48] & 15, MCAST_FULL | MCAST_SEND_ONLY_FULL);
	assert_int_equal(hear(&a, "h4", mlid), 1 << 1);
	assert_int_equal(join(&a, "h1", SA_DELETE, JOIN, MCAST_FULL), 1);
	assert_int_equal(hear(&a, "h4", mlid), 0);
	assert_int_equal(hear(&a, "h1", mlid), 1 << 4);
	assert_int_equal(join(&a, "h4", SA_DELETE, JOIN, MCAST_FULL), 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 2);
	assert_int_equal(join(&a, "h1", SA_DELETE, JOIN, MCAST_SEND_ONLY_FULL), 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 1);
	run_fini(&a.r);
}

/* Rates do not stand in the order of their numbers: 4 is 30 Gbit/s, and 5 is 5. */
static void a_group_is_slower_than_what_is_asked_for(void **state)
{
	enum { RATE_5 = 5, RATE_2_5 = 2 };
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	a.record[42] = 1 << 6 | RATE_5;
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE | 3 << 8, 1), 1);
	assert_int_equal(answer(&a, 0)[42], 2 << 6 | RATE_2_5);
	run_fini(&a.r);
}

static unsigned searches;	/* for a group among all */

struct mcast_group *__real_groups_find(struct sm *s, const uint8_t mgid[16]);
struct mcast_group *__wrap_groups_find(struct sm *s, const uint8_t mgid[16]);

struct mcast_group *__wrap_groups_find(struct sm *s, const uint8_t mgid[16])
{
	searches++;
	return __real_groups_find(s, mgid);
}

/* Others have named groups as the manager names its own, in the same scope: how many there are makes no search longer. */
static void each_group_has_a_name_of_its_own(void **state)
{
	enum { SITE_LOCAL = 5, SCOPE = 1 << 15, GROUPS = 8, OWN = 2 };
	uint8_t mgid[16] = { 0xff, 0x10 | SITE_LOCAL, 0xa0, 0x1b }, given[OWN][16];
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	wire_put(mgid, PREFIX_DEFAULT, 4, 0, 64);
	for (unsigned i = 0; i < GROUPS + OWN; i++) {
		const bool is_own = i >= GROUPS;

		/* those of the manager's next MLIDs */
		wire_put(mgid, MLID_FIRST + GROUPS + 1 + i % 2, 14, 0, 16);
		wire_put(mgid, i / 2, 12, 0, 16);
		if (!is_own)
			memcpy(a.record, mgid, sizeof(mgid));
		write_gid(&a, "h1", 1, a.record + 16);
		wire_put(a.record, 0xffff, 40, 0, 16);
		a.record[48] = SITE_LOCAL << 4 | MCAST_FULL;
		searches = 0;
		assert_int_equal(ask(&a, MAD_SET, SA_MCMEMBER_RECORD_ID, MAKE | SCOPE), 1);
		assert_int_equal(searches, 1);
		assert_memory_equal(answer(&a, 0), mgid, 16);
		if (is_own)
			memcpy(given[i - GROUPS], mgid, 16);
	}
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 1 + GROUPS + OWN);
	for (unsigned i = 0; i < OWN; i++) {
		memcpy(a.record, given[i], 16);
		assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 1), 1);
		memcpy(a.record, given[i], 16);
		write_gid(&a, "h1", 1, a.record + 16);
		a.record[48] = MCAST_FULL;
		assert_int_equal(ask(&a, SA_DELETE, SA_MCMEMBER_RECORD_ID, JOIN), 1);
	}
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 1 + GROUPS);
	run_fini(&a.r);
}

/* One of the two P_Keys is a full member's, or they are the same; so they are found, too. */
static void a_group_and_the_pkey_that_is_asked_for(void **state)
{
	static const struct { uint16_t group, asked; int result; } rows[] = {
		{ 0xffff, 0xffff, 1 }, { 0xffff, 0x7fff, 1 }, { 0x7fff, 0xffff, 1 }, { 0x7fff, 0x7fff, 1 },
		{ 0xffff, 0x8005, -SA_REQUEST_INVALID }, { 0xffff, 0x0005, -SA_REQUEST_INVALID },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct asker a;

		begin(&a, &(struct sm_config){ 0 });
		assert_int_equal(join_in(&a, rows[i].group, 7, "h1", MAD_SET, MAKE, 1), 1);
		wire_put(a.record, rows[i].asked, 40, 0, 16);
		wire_put(a.record, 0x1234, 32, 0, 32);
		assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 1 << 7 | 1 << 2), rows[i].result == 1);
		a.lid = lid_of(&a, "h4", 1);
		assert_int_equal(join_in(&a, rows[i].asked, 7, "h4", MAD_SET, JOIN | 1 << 7, 1), rows[i].result);
		if (rows[i].result == 1)
			assert_int_equal(wire_get(answer(&a, 0), 40, 0, 16), rows[i].group);
		run_fini(&a.r);
	}
}

/* A port enters no group whose packets its link does not carry, or not so fast: 4 is 30 Gbit/s, and 5 is 5. */
static void who_cannot_do_a_group_does_not_enter(void **state)
{
	enum { AT_SDR = 1, ON_1X = 1, ON_4X = 2, ON_12X = 8, RATE_10 = 3, RATE_5 = 5, MTU_1024 = 3, MTU_2048 };
	static const struct { uint8_t group_mtu, group_rate, mtu, width; int result; } rows[] = {
		{ MTU_2048, RATE_10, MTU_2048, ON_4X, 1 }, { MTU_2048, RATE_10, MTU_1024, ON_4X, -SA_REQUEST_INVALID },
		{ MTU_2048, RATE_10, MTU_2048, ON_1X, -SA_REQUEST_INVALID }, { MTU_2048, RATE_5, MTU_4096, ON_12X, 1 },
	};
	struct asker a;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct smp_port_info info;
		struct net_port *p;

		begin(&a, &(struct sm_config){ 0 });
		a.record[38] = 2 << 6 | rows[i].group_mtu;
		a.record[42] = 2 << 6 | rows[i].group_rate;
		assert_int_equal(join(&a, "h1", MAD_SET, MAKE | 3 << 4 | 3 << 8, 1), 1);
		p = &a.s->net.port[net_port_of_lid(&a.s->net, lid_of(&a, "h4", 1))];
		smp_port_info_get(&info, p->info);
		info.mtu = rows[i].mtu;
		info.width_active = rows[i].width;
		info.speed_active = AT_SDR;
		info.ext_active = 0;
		smp_port_info_put(&info, p->info);
		assert_int_equal(join(&a, "h4", MAD_SET, JOIN, 1), rows[i].result);
		run_fini(&a.r);
	}
}

static void members_are_seen_by_the_trusted(void **state)
{
	static const uint8_t none[16];
	uint8_t gid[16];
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE, 1), 1);
	assert_int_equal(join(&a, "h2", MAD_SET, JOIN, 1), 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 2);
	/* groups of a join state are those that were made by it, and whose it is is not told */
	a.record[48] = MCAST_FULL;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 1 << 16), 2);
	assert_int_equal(answer(&a, 0)[48] & 15, 0);
	a.record[48] = MCAST_SEND_ONLY;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 1 << 16), 0);
	/* nor by which state one that is named is in it, and for whom */
	a.lid = lid_of(&a, "h3", 1);
	assert_int_equal(join_for(&a, "h4", MAD_SET, JOIN, 1), 1);
	for (a.key = 0; a.key <= MASTER_KEY; a.key++) {
		write_gid(&a, "h4", 1, gid);
		memcpy(a.record + 16, gid, sizeof(gid));
		a.record[48] = MCAST_FULL;
		assert_int_equal(ask(&a, MAD_GET, SA_MCMEMBER_RECORD_ID, 1 << 1 | 1 << 16), 1);
		assert_int_equal(wire_get(answer(&a, 0), 32, 0, 32), 0x1234);
		assert_memory_equal(answer(&a, 0) + 16, a.key ? gid : none, sizeof(gid));
		assert_int_equal(answer(&a, 0)[48] & 15, a.key ? MCAST_FULL : 0);
		assert_int_equal(answer(&a, 0)[49] >> 7, a.key ? 1 : 0);
		/* one that is in none, by its state */
		memcpy(a.record + 16, gid, sizeof(gid));
		a.record[48] = MCAST_SEND_ONLY;
		assert_int_equal(ask(&a, MAD_GET, SA_MCMEMBER_RECORD_ID, 1 << 1 | 1 << 16), -SA_NO_RECORDS);
	}
	a.key = MASTER_KEY;
	assert_int_equal(join_for(&a, "h4", SA_DELETE, JOIN, 1), 1);
	a.lid = lid_of(&a, "h2", 1);
	a.record[48] = MCAST_FULL;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 1 << 16), 2);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 2);
	write_gid(&a, "h2", 1, a.record + 16);
	assert_int_equal(ask(&a, MAD_GET, SA_MCMEMBER_RECORD_ID, 1 << 1), 1);
	/* one that is gone is a member no more, and its group with it when it was the last */
	agents_set_link(&a.r.n.agents, a.r.n.now, port_named(&a.r.t.f, "h2", 1), false);
	assert_true(mad_net_until_quiet(&a.r.n, 10 * WTIME_S));
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), -SA_REQUEST_INVALID);
	a.lid = lid_of(&a, "h1", 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 1);
	run_fini(&a.r);
}

/* o15-0.2.4: what it says of ProxyJoin is ignored, wanted or not, and the record has who it was that asked. */
static void who_enters_for_another_says_so_or_not(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (unsigned i = 0; i < 4; i++) {
		static const char *const hosts[] = { "h1", "h2", "h3", "h1" };
		const bool is_new = !i, is_proxy = i == 1 || i == 2;

		a.lid = lid_of(&a, "h1", 1);
		a.record[49] = i % 2 << 7;
		assert_int_equal(join_for(&a, hosts[i], MAD_SET, (is_new ? MAKE : JOIN) | 1 << 17, 1), 1);
		assert_int_equal(answer(&a, 0)[49] >> 7, is_proxy);
	}
	run_fini(&a.r);
}

/* ---- services and subscriptions ---- */

static int announce(struct asker *a, const char *of, unsigned method, uint32_t lease)
{
	wire_put(a->record, 0xabcdef, 0, 0, 64);
	write_gid(a, of, 1, a->record + 8);
	wire_put(a->record, 0xffff, 24, 0, 16);
	wire_put(a->record, lease, 28, 0, 32);
	a->record[32] = 9;
	memcpy(a->record + 48, "disk", 4);
	return ask(a, method, SA_SERVICE_RECORD_ID, 0x17);
}

static void services(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(announce(&a, "h2", MAD_SET, 10), -SA_REQUEST_INVALID);
	assert_int_equal(announce(&a, "h1", MAD_SET, 10), 1);
	assert_int_equal(announce(&a, "h1", MAD_SET, 20), 1);
	assert_int_equal(answer(&a, 0)[32], 0);
	a.lid = lid_of(&a, "h3", 1);
	memcpy(a.record + 48, "disk", 4);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_SERVICE_RECORD_ID, 1 << 6), 1);
	/* its key is its owner's */
	assert_int_equal(answer(&a, 0)[32], 0);
	for (unsigned key = 0; key < 10; key += 9) {
		memcpy(a.record + 48, "disk", 4);
		a.record[32] = (uint8_t)key;
		assert_int_equal(ask(&a, SA_GET_TABLE, SA_SERVICE_RECORD_ID, 1 << 6 | 1 << 5), key == 9);
		assert_true(!key || !answer(&a, 0)[32]);
	}
	a.key = MASTER_KEY;
	memcpy(a.record + 48, "disk", 4);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_SERVICE_RECORD_ID, 1 << 6), 1);
	assert_int_equal(answer(&a, 0)[32], 9);
	a.key = 0;
	assert_true(wire_get(answer(&a, 0), 28, 0, 32) <= 20);
	assert_int_equal(announce(&a, "h1", SA_DELETE, 0), -SA_REQUEST_INVALID);
	mad_net_for(&a.r.n, 21 * WTIME_S);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_SERVICE_RECORD_ID, 0), 0);
	a.lid = lid_of(&a, "h1", 1);
	assert_int_equal(announce(&a, "h1", MAD_SET, UINT32_MAX), 1);
	assert_int_equal(announce(&a, "h1", SA_DELETE, 0), 1);
	assert_int_equal(announce(&a, "h1", SA_DELETE, 0), -SA_NO_RECORDS);
	run_fini(&a.r);
}

/* In a partition that its port is not in; the mask leaves the P_Key out, and the record has it. */
static void a_service_is_in_partitions_of_its_port(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (unsigned mask = 3; mask <= 7; mask += 4) {
		write_gid(&a, "h1", 1, a.record + 8);
		wire_put(a.record, 0x8005, 24, 0, 16);
		assert_int_equal(ask(&a, MAD_SET, SA_SERVICE_RECORD_ID, mask), -SA_REQUEST_INVALID);
	}
	run_fini(&a.r);
}

static int subscribe(struct asker *a, unsigned trap, unsigned on)
{
	wire_put(a->record, 0xffff, 16, 0, 16);
	a->record[22] = 1;
	a->record[23] = (uint8_t)on;
	wire_put(a->record, 0xffff, 24, 0, 16);
	wire_put(a->record, trap, 26, 0, 16);
	a->record[30] = 1;
	memset(a->record + 33, 0xff, 3);
	return ask(a, MAD_SET, SA_INFORM_INFO, 0);
}

/* Of services and subscriptions: what is kept of one port leaves room for others, and what is there can be said again. */
static void one_port_takes_not_all_places(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (unsigned i = 0; i <= SA_OF_ONE; i++) {
		wire_put(a.record, i, 0, 0, 64);
		write_gid(&a, "h1", 1, a.record + 8);
		assert_int_equal(ask(&a, MAD_SET, SA_SERVICE_RECORD_ID, 3), i < SA_OF_ONE ? 1 : -SA_NO_RESOURCES);
		assert_int_equal(subscribe(&a, 1000 + i, 1), i < SA_OF_ONE ? 1 : -SA_NO_RESOURCES);
	}
	assert_int_equal(subscribe(&a, 1000, 1), 1);
	assert_int_equal(announce(&a, "h1", MAD_SET, 10), -SA_NO_RESOURCES);
	a.lid = lid_of(&a, "h2", 1);
	assert_int_equal(announce(&a, "h2", MAD_SET, 10), 1);
	assert_int_equal(subscribe(&a, 65, 1), 1);
	run_fini(&a.r);
}

/* Half of the MLIDs that the switches have, and those of groups that have ended. */
static void one_port_makes_not_all_groups(void **state)
{
	struct asker a;
	unsigned most;

	begin(&a, &(struct sm_config){ 0 });
	most = groups_most(a.s) / 2;
	assert_in_range(most, 1, UINT8_MAX - 1);
	a.lid = lid_of(&a, "h1", 1);
	for (unsigned i = 0; i <= most; i++)
		assert_int_equal(join_group(&a, (uint8_t)i, "h1", MAD_SET, MAKE, 1), i < most ? 1 : -SA_NO_RESOURCES);
	assert_int_equal(join_group(&a, 0, "h1", SA_DELETE, JOIN, 1), 1);
	assert_int_equal(join_group(&a, (uint8_t)most, "h1", MAD_SET, MAKE, 1), 1);
	a.lid = lid_of(&a, "h2", 1);
	assert_int_equal(join_group(&a, 0, "h2", MAD_SET, MAKE, 1), 1);
	assert_int_equal(join_group(&a, 1, "h2", MAD_SET, JOIN, 1), 1);
	run_fini(&a.r);
}

/* Reports that were sent since, of this trap; the last one's TID. */
static unsigned reports(const struct asker *a, uint32_t since, unsigned trap, uint64_t *tid)
{
	unsigned count = 0;

	for (uint32_t i = since; i < a->r.said_count; i++) {
		const struct run_said *said = &a->r.all_said[i % 64];

		if (said->method != MAD_REPORT || wire_get(said->data + SA_HEAD, 4, 0, 16) != trap)
			continue;
		count++;
		*tid = wire_get(said->data, 8, 0, 64);
	}
	return count;
}

static void respond(struct asker *a, uint64_t tid)
{
	uint8_t mad[MAD_BYTES] = { 0 };
	const struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SA, .class_version = SA_CLASS_VERSION,
				      .method = MAD_REPORT_RESP, .tid = tid, .attr_id = SA_NOTICE };

	mad_header_build(&h, mad);
	sm_input(a->s, a->r.n.now, &(struct mad_letter){ .agent = SM_AGENT_SA, .data = mad, .bytes = sizeof(mad),
							 .remote = { .lid = a->lid } });
}

/* By the LID from which it has subscribed last. */
static void who_subscribes_again_hears_there(void **state)
{
	struct asker a;
	uint64_t tid = 0;
	uint32_t since;

	begin(&a, &(struct sm_config){ .lmc = 1 });
	assert_int_equal(subscribe(&a, 65, 1), 1);
	a.lid++;
	assert_int_equal(subscribe(&a, 65, 1), 1);
	since = a.r.said_count;
	agents_set_link(&a.r.n.agents, a.r.n.now, port_named(&a.r.t.f, "h5", 1), false);
	mad_net_for(&a.r.n, 500 * WTIME_MS);
	assert_int_equal(reports(&a, since, 65, &tid), 1);
	assert_int_equal(a.r.all_said[since % 64].lid, a.lid);
	run_fini(&a.r);
}

static void subscribers_hear(void **state)
{
	struct asker a;
	uint64_t tid = 0;
	uint32_t since;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(subscribe(&a, 65, 0), -SA_REQUEST_INVALID);
	assert_int_equal(subscribe(&a, 257, 1), -SA_REQUEST_INVALID);
	assert_int_equal(subscribe(&a, 65, 1), 1);
	assert_int_equal(subscribe(&a, 65, 1), 1);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_INFORM_RECORD_ID, 0), 1);
	assert_int_equal(answer(&a, 0)[24 + 30], 0);
	since = a.r.said_count;
	agents_set_link(&a.r.n.agents, a.r.n.now, port_named(&a.r.t.f, "h5", 1), false);
	mad_net_for(&a.r.n, 500 * WTIME_MS);
	assert_int_equal(reports(&a, since, 65, &tid), 1);
	respond(&a, tid);
	mad_net_for(&a.r.n, 10 * WTIME_S);
	assert_int_equal(reports(&a, since, 65, &tid), 1);
	/* what it has not subscribed to */
	agents_set_link(&a.r.n.agents, a.r.n.now, port_named(&a.r.t.f, "h5", 1), true);
	mad_net_for(&a.r.n, 10 * WTIME_S);
	assert_int_equal(reports(&a, since, 64, &tid), 0);
	/* who does not answer is forgotten */
	agents_set_link(&a.r.n.agents, a.r.n.now, port_named(&a.r.t.f, "h5", 1), false);
	mad_net_for(&a.r.n, 10 * WTIME_S);
	assert_int_equal(reports(&a, since, 65, &tid), 1 + 3);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_INFORM_RECORD_ID, 0), 0);
	/* traps of ports are passed on */
	assert_int_equal(subscribe(&a, 128, 1), 1);
	since = a.r.said_count;
	agents_set_link(&a.r.n.agents, a.r.n.now, port_named(&a.r.t.f, "h5", 1), true);
	mad_net_for(&a.r.n, 500 * WTIME_MS);
	assert_true(reports(&a, since, 128, &tid) > 0);
	run_fini(&a.r);
}

/* A link that has changed, as its switch tells. */
static void write_link_notice(const struct asker *a, uint8_t notice[SMP_DATA_BYTES])
{
	memset(notice, 0, SMP_DATA_BYTES);
	smp_notice_put(&(struct smp_notice){ .is_generic = 1, .type = 1, .producer = 2, .trap_number = 128,
					     .issuer_lid = lid_of(a, "s1", 0) }, notice);
}

/* More subscribers than there is room for datagrams: each of them is sent its report as often as one alone, and others are
 * answered meanwhile. */
static void more_reports_than_there_is_room_for(void **state)
{
	enum { MANY = SA_OF_ONE };
	uint8_t notice[SMP_DATA_BYTES];
	struct asker a;
	uint32_t since;

	begin(&a, &(struct sm_config){ 0 });
	for (unsigned i = 0; i < MANY; i++) {
		/* which says nothing where LIDs are all */
		wire_put(a.record, i, 18, 0, 16);
		assert_int_equal(subscribe(&a, 128, 1), 1);
	}
	write_link_notice(&a, notice);
	since = a.r.said_count;
	sa_notice(a.s, a.r.n.now, notice);
	assert_true(a.s->replies && a.s->replies < REPLIES_MOST);
	mad_net_for(&a.r.n, 500 * WTIME_MS);
	assert_int_equal(a.r.said_count - since, MANY);
	mad_net_for(&a.r.n, 2 * WTIME_S);
	assert_int_equal(a.r.said_count - since, 3 * MANY);
	assert_int_equal(a.s->sa->subscriptions, MANY);
	/* nobody has answered */
	mad_net_for(&a.r.n, 2 * WTIME_S);
	assert_int_equal(a.r.said_count - since, 3 * MANY);
	assert_int_equal(a.s->sa->subscriptions, 0);
	assert_int_equal(a.s->sa->reports, 0);
	run_fini(&a.r);
}

/* Reports to that host since then, as far as they are kept. */
static unsigned heard(const struct asker *a, const char *host, uint32_t since, unsigned trap)
{
	uint16_t lid = lid_of(a, host, 1);
	unsigned count = 0;

	assert_in_range(a->r.said_count - since, 0, 64);
	for (uint32_t i = since; i < a->r.said_count; i++) {
		const struct run_said *said = &a->r.all_said[i % 64];

		count += said->method == MAD_REPORT && said->lid == lid && wire_get(said->data + SA_HEAD, 4, 0, 16) == trap;
	}
	return count;
}

/* The manager's 18, or the next to what is asked for; of a group that cannot be nobody hears. */
static void a_group_lives_as_long_as_is_asked_for(void **state)
{
	enum { MOST = 63, SELECTOR = 1 << 10, LIFE = 1 << 11, BOTH = SELECTOR | LIFE, NEVER = 64 };
	static const struct { uint8_t asked, life; uint32_t mask; } rows[] = {
		{ 0 << 6 | 10, 18, BOTH }, { 0 << 6 | 18, 19, BOTH }, { 0 << 6 | (MOST - 1), MOST, BOTH },
		{ 0 << 6 | MOST, NEVER, BOTH }, { 1 << 6 | 20, 18, BOTH }, { 1 << 6 | 18, 17, BOTH }, { 1 << 6 | 1, 0, BOTH },
		{ 1 << 6 | 0, NEVER, BOTH }, { 2 << 6 | 20, 20, BOTH }, { 2 << 6 | 0, 0, BOTH }, { 3 << 6 | 20, 18, BOTH },
		{ 0 << 6 | 20, 20, LIFE }, { 0 << 6 | 20, 18, SELECTOR }, { 0 << 6 | 20, 18, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool can_be = rows[i].life != NEVER;
		struct asker a;
		uint32_t since;

		begin(&a, &(struct sm_config){ 0 });
		assert_int_equal(subscribe(&a, 0xffff, 1), 1);
		since = a.r.said_count;
		a.record[43] = rows[i].asked;
		assert_int_equal(join(&a, "h1", MAD_SET, MAKE | rows[i].mask, 1), can_be ? 1 : -SA_REQUEST_INVALID);
		if (can_be) {
			assert_int_equal(answer(&a, 0)[43], 2 << 6 | rows[i].life);
			/* it is what another one asks for */
			a.record[43] = rows[i].asked;
			assert_int_equal(join(&a, "h2", MAD_SET, MAKE | rows[i].mask, 1), 1);
		}
		assert_int_equal(heard(&a, "h1", since, 66), can_be);
		assert_int_equal(heard(&a, "h1", since, 67), 0);
		run_fini(&a.r);
	}
}

/* h7 is in a partition of its own, with h6, which is in the others' too; h1 and h7 want to hear everything. */
static void begin_apart(struct asker *a)
{
	memset(a, 0, sizeof(*a));
	run_init(&a->r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	run_give_pkey(&a->r, "h7", 1, 0, 0x8005);
	run_give_pkey(&a->r, "h6", 1, 3, 0x8005);
	a->s = &run_add(&a->r, "s1", 0, &(struct sm_config){ 0 })->sm;
	assert_true(mad_net_until_quiet(&a->r.n, 100 * WTIME_S));
	a->lid = lid_of(a, "h1", 1);
	assert_int_equal(subscribe(a, 0xffff, 1), 1);
	a->lid = lid_of(a, "h7", 1);
	assert_int_equal(subscribe(a, 0xffff, 1), 1);
}

/* Reports to h1 of ports that come and go since then: their traps' numbers in order, as digits of 64 and 65. */
static unsigned comings_and_goings(struct asker *a, uint32_t since)
{
	uint16_t lid = lid_of(a, "h1", 1);
	unsigned digits = 0;

	assert_in_range(a->r.said_count - since, 0, 64);
	for (uint32_t i = since; i < a->r.said_count; i++) {
		const struct run_said *said = &a->r.all_said[i % 64];
		unsigned trap = (unsigned)wire_get(said->data + SA_HEAD, 4, 0, 16);

		if (said->method == MAD_REPORT && said->lid == lid && trap >= 64 && trap <= 65)
			digits = 10 * digits + trap - 60;
	}
	/* as if they were answered */
	a->s->sa->reports = 0;
	return digits;
}

/* The host is pulled out, and is plugged in as a node of this type, whose port has the GUID of that one's. */
static void plug_in_as(struct asker *a, const char *host, uint8_t type, const char *as)
{
	uint32_t port = port_named(&a->r.t.f, host, 1), like = port_named(&a->r.t.f, as, 1);
	struct fabric *f = &a->r.t.f;

	agents_set_link(&a->r.n.agents, a->r.n.now, port, false);
	f->node[f->owner[port]].type = type;
	f->port[port].guid = f->port[like].guid;
	agents_set_link(&a->r.n.agents, a->r.n.now, port, true);
	sm_sweep(a->s, a->r.n.now, false);
	mad_net_for(&a->r.n, 400 * WTIME_MS);
}

static void registers(struct asker *a, const char *host)
{
	a->lid = lid_of(a, host, 1);
	assert_int_equal(subscribe(a, 1000, 1), 1);
	assert_int_equal(join_for_all(a, host), 1);
}

/* A port that has the GUID of one that was here, in another place of the manager's books, before or behind it: the one is gone
 * before the other is here, with what it was in and wanted to hear, and its clients register anew. */
static void what_is_other_is_gone_first(void **state)
{
	struct asker a;
	uint32_t port;

	begin(&a, &(struct sm_config){ 0 });
	port = port_named(&a.r.t.f, "h8", 1);
	registers(&a, "h1");
	assert_int_equal(subscribe(&a, 64, 1), 1);
	assert_int_equal(subscribe(&a, 65, 1), 1);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t since, told = a.r.t.f.port[port].reregistered;

		registers(&a, "h8");
		since = a.r.said_count;
		plug_in_as(&a, "h8", i % 2 ? NODE_CA : NODE_ROUTER, "h8");
		assert_int_equal(comings_and_goings(&a, since), 54);
		assert_int_equal(a.s->sa->subscriptions, 3);
		assert_int_equal(a.s->groups.group->members, 1);
		assert_int_equal(a.r.t.f.port[port].reregistered, told + 1);
	}
	run_fini(&a.r);
}

/* Another node, at h7's link, says that its port has the PortGUID of h8's, which stays what it is until it is pulled out. */
static void what_is_here_already_is_not_gone(void **state)
{
	struct asker a;
	uint32_t since;

	begin(&a, &(struct sm_config){ 0 });
	registers(&a, "h1");
	assert_int_equal(subscribe(&a, 64, 1), 1);
	assert_int_equal(subscribe(&a, 65, 1), 1);
	registers(&a, "h8");
	/* while it is here nobody else has its PortGUID; h7 is gone */
	since = a.r.said_count;
	plug_in_as(&a, "h7", NODE_ROUTER, "h8");
	mad_net_for(&a.r.n, WTIME_S);
	assert_int_equal(comings_and_goings(&a, since), 5);
	assert_int_equal(a.s->sa->subscriptions, 4);
	assert_int_equal(a.s->groups.group->members, 2);
	since = a.r.said_count;
	agents_set_link(&a.r.n.agents, a.r.n.now, port_named(&a.r.t.f, "h8", 1), false);
	sm_sweep(a.s, a.r.n.now, false);
	mad_net_for(&a.r.n, 400 * WTIME_MS);
	assert_int_equal(comings_and_goings(&a, since), 5);
	assert_int_equal(a.s->sa->subscriptions, 3);
	assert_int_equal(a.s->groups.group->members, 1);
	run_fini(&a.r);
}

static void reports_tell_of_shared_partitions(void **state)
{
	static const struct { const char *host; unsigned h7_hears; } ports[] = { { "h5", 0 }, { "h6", 1 } };
	static const struct { uint16_t pkey; unsigned h1_hears, h7_hears; } groups[] = { { 0xffff, 1, 0 }, { 0x8005, 0, 1 } };
	struct asker a;

	for (size_t i = 0; i < 2; i++) {
		uint32_t since, port;

		begin_apart(&a);
		port = port_named(&a.r.t.f, ports[i].host, 1);
		since = a.r.said_count;
		agents_set_link(&a.r.n.agents, a.r.n.now, port, false);
		mad_net_for(&a.r.n, 400 * WTIME_MS);
		/* before the switch may tell again */
		agents_set_link(&a.r.n.agents, a.r.n.now, port, true);
		sm_sweep(a.s, a.r.n.now, false);
		mad_net_for(&a.r.n, 400 * WTIME_MS);
		for (unsigned trap = 64; trap <= 65; trap++) {
			assert_int_equal(heard(&a, "h1", since, trap), 1);
			assert_int_equal(heard(&a, "h7", since, trap), ports[i].h7_hears);
		}
		/* of a switch */
		assert_true(heard(&a, "h1", since, 128));
		assert_false(heard(&a, "h7", since, 128));
		run_fini(&a.r);
	}
	for (size_t i = 0; i < 2; i++) {
		uint32_t since;

		begin_apart(&a);
		since = a.r.said_count;
		a.lid = lid_of(&a, "h6", 1);
		assert_int_equal(join_in(&a, groups[i].pkey, 7, "h6", MAD_SET, MAKE, 1), 1);
		assert_int_equal(join_in(&a, groups[i].pkey, 7, "h6", SA_DELETE, JOIN, 1), 1);
		for (unsigned trap = 66; trap <= 67; trap++) {
			assert_int_equal(heard(&a, "h1", since, trap), groups[i].h1_hears);
			assert_int_equal(heard(&a, "h7", since, trap), groups[i].h7_hears);
		}
		run_fini(&a.r);
	}
}

/* Whichever way it was subscribed to. */
static void the_trusted_hear_of_wrong_keys(void **state)
{
	static const struct smp_notice first = { .is_generic = 1, .type = 2, .producer = 1, .trap_number = 256 };
	uint8_t notice[SMP_DATA_BYTES] = { 0 };
	struct asker a;

	begin(&a, &(struct sm_config){ 0 });
	for (unsigned key = 0; key <= MASTER_KEY; key++) {
		a.key = key;
		assert_int_equal(subscribe(&a, 0xffff, 1), 1);
		for (unsigned trap = 255; trap <= 260; trap++) {
			struct smp_notice n = first;
			uint32_t since = a.r.said_count;

			n.trap_number = (uint16_t)trap;
			n.issuer_lid = lid_of(&a, "h2", 1);
			smp_notice_put(&n, notice);
			sa_notice(a.s, a.r.n.now, notice);
			mad_net_for(&a.r.n, 100 * WTIME_MS);
			assert_int_equal(heard(&a, "h1", since, trap), key || trap == 255 || trap == 260);
		}
	}
	run_fini(&a.r);
}

/* A standby says nothing. */
static void only_the_master_answers(void **state)
{
	struct asker a;

	begin(&a, &(struct sm_config){ .priority = 9 });
	a.s = &run_add(&a.r, "h8", 1, &(struct sm_config){ 0 })->sm;
	mad_net_for(&a.r.n, 5 * WTIME_S);
	assert_int_equal(a.s->state, SM_STANDBY);
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_NODE_RECORD_ID, 0), -EAGAIN);
	a.s = &a.r.n.manager[0].sm;
	assert_int_equal(ask(&a, SA_GET_TABLE, SA_SM_INFO_RECORD_ID, 0), 2);
	run_fini(&a.r);
}

/* h1 has left its group while another manager was the master, for one that is handed the subnet back or misses that master. It
 * may enter again, by the LID that it knows; the group of all stays, without members. */
static void a_later_reign_begins_without_members(void **state)
{
	for (unsigned is_handed = 0; is_handed < 2; is_handed++) {
		struct asker a;
		uint32_t since;
		uint16_t mlid;

		begin(&a, &(struct sm_config){ 0 });
		a.lid = lid_of(&a, "h1", 1);
		assert_int_equal(join_group(&a, 0, "h1", MAD_SET, MAKE, 1), 1);
		assert_int_equal(join(&a, "h1", MAD_SET, MAKE, 1), 1);
		mlid = (uint16_t)wire_get(answer(&a, 0), 36, 0, 16);
		assert_int_equal(join_for_all(&a, "h2"), 1);
		assert_int_equal(subscribe(&a, 67, 1), 1);
		run_add(&a.r, "h6", 1, &(struct sm_config){ .priority = 9 });
		mad_net_for(&a.r.n, 5 * WTIME_S);
		assert_int_equal(a.s->state, SM_STANDBY);
		since = a.r.said_count;
		mad_net_kill(&a.r.n, &a.r.n.manager[1]);
		if (is_handed)
			hand_over(&a);
		/* the report of each group's end is sent three times */
		mad_net_for(&a.r.n, 20 * WTIME_S);
		assert_int_equal(a.s->state, SM_MASTER);
		assert_int_equal(heard(&a, "h2", since, 67), 2 * 3);
		a.key = MASTER_KEY;
		assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 0);
		assert_int_equal(hear(&a, "h2", mlid), 0);
		a.key = 0;
		assert_int_equal(ask(&a, SA_GET_TABLE, SA_MCMEMBER_RECORD_ID, 0), 1);
		wire_put(a.record, mlid, 36, 0, 16);
		assert_int_equal(join(&a, "h1", MAD_SET, MAKE, 1), 1);
		assert_int_equal(wire_get(answer(&a, 0), 36, 0, 16), mlid);
		assert_int_equal(hear(&a, "h2", mlid), 1 << 1);
		run_fini(&a.r);
	}
}

/* It was the master all the time, of which ports have taken their leave. */
static void a_master_that_is_handed_more_keeps_members(void **state)
{
	struct asker a;
	uint16_t mlid;

	begin(&a, &(struct sm_config){ 0 });
	assert_int_equal(join(&a, "h1", MAD_SET, MAKE, 1), 1);
	mlid = (uint16_t)wire_get(answer(&a, 0), 36, 0, 16);
	hand_over(&a);
	assert_int_equal(a.s->counters.heavy, 2);
	assert_int_equal(hear(&a, "h2", mlid), 1 << 1);
	assert_int_equal(join(&a, "h1", SA_DELETE, JOIN, 1), 1);
	run_fini(&a.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_have_everything),
		cmocka_unit_test(components_select),
		cmocka_unit_test(what_makes_no_sense),
		cmocka_unit_test(a_path),
		cmocka_unit_test(selectors),
		cmocka_unit_test(alternates), cmocka_unit_test(paths_of_several_pairs_are_as_many_as_asked_for),
		cmocka_unit_test(every_lid_of_a_port_names_it),
		cmocka_unit_test(a_query_that_nothing_fits_ends), cmocka_unit_test(a_query_of_many_lids_ends),
		cmocka_unit_test(a_get_looks_at_all_ports),
		cmocka_unit_test(all_paths_are_one_answer), cmocka_unit_test(what_pauses_goes_on_where_it_was),
		cmocka_unit_test(what_does_not_fit_counts), cmocka_unit_test(a_lid_is_looked_up),
		cmocka_unit_test(small_tables_pause_where_little_goes_at_once), cmocka_unit_test(a_long_answer_is_of_one_state),
		cmocka_unit_test(a_long_answer_outlives_what_changes_nothing),
		cmocka_unit_test(a_long_answer_ends_with_guids_that_are_read),
		cmocka_unit_test(who_is_put_off_hears_it),
		cmocka_unit_test(requests_in_segments), cmocka_unit_test(two_paths_apart),
		cmocka_unit_test(two_paths_apart_are_short), cmocka_unit_test(two_paths_apart_are_in_a_partition),
		cmocka_unit_test(a_request_shorter_than_a_mad),
		cmocka_unit_test(a_port_without_lids_has_no_paths),
		cmocka_unit_test(partitions),
		cmocka_unit_test(two_limited_members_share_nothing),
		cmocka_unit_test(paths_of_a_partition),
		cmocka_unit_test(a_group_and_its_tree),
		cmocka_unit_test(a_path_to_a_group_is_as_its_group),
		cmocka_unit_test(a_group_of_those_who_only_send),
		cmocka_unit_test(a_group_is_slower_than_what_is_asked_for),
		cmocka_unit_test(each_group_has_a_name_of_its_own),
		cmocka_unit_test(a_group_and_the_pkey_that_is_asked_for),
		cmocka_unit_test(who_cannot_do_a_group_does_not_enter),
		cmocka_unit_test(members_are_seen_by_the_trusted),
		cmocka_unit_test(who_enters_for_another_says_so_or_not),
		cmocka_unit_test(services),
		cmocka_unit_test(a_service_is_in_partitions_of_its_port),
		cmocka_unit_test(one_port_takes_not_all_places),
		cmocka_unit_test(one_port_makes_not_all_groups),
		cmocka_unit_test(subscribers_hear), cmocka_unit_test(who_subscribes_again_hears_there),
		cmocka_unit_test(more_reports_than_there_is_room_for),
		cmocka_unit_test(a_group_lives_as_long_as_is_asked_for),
		cmocka_unit_test(what_is_other_is_gone_first), cmocka_unit_test(what_is_here_already_is_not_gone),
		cmocka_unit_test(reports_tell_of_shared_partitions),
		cmocka_unit_test(the_trusted_hear_of_wrong_keys),
		cmocka_unit_test(only_the_master_answers),
		cmocka_unit_test(a_later_reign_begins_without_members),
		cmocka_unit_test(a_master_that_is_handed_more_keeps_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
