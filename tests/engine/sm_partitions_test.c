/* P_KeyTables of end ports are as the fabric's partitions say: whatever has been written into them, and by whom. */
#include "sm_run.h"

#include "sm/sa_query.h"
#include "wire/field.h"

enum { RED = 0x0001, BLUE = 0x0002, GREEN = 0x0003, FOREIGN = 0x8005, LIMITED = PKEY_DEFAULT & ~PKEY_FULL };

/* h7 is in several partitions, h8 and a switch in one; all are limited members of the default one, but for the manager at s1. */
static void give_partitions(const struct run *r)
{
	for (uint32_t port = 0; port < r->t.f.ports; port++)
		fabric_partitions(&r->t.f, port)[0] = LIMITED;
	fabric_partitions(&r->t.f, port_named(&r->t.f, "s1", 0))[0] = PKEY_DEFAULT;
	fabric_partitions(&r->t.f, port_named(&r->t.f, "h7", 1))[1] = PKEY_FULL | RED;
	fabric_partitions(&r->t.f, port_named(&r->t.f, "h7", 1))[2] = BLUE;
	fabric_partitions(&r->t.f, port_named(&r->t.f, "h7", 1))[3] = PKEY_FULL | GREEN;
	fabric_partitions(&r->t.f, port_named(&r->t.f, "h8", 1))[4] = RED;
	fabric_partitions(&r->t.f, port_named(&r->t.f, "s3", 0))[1] = PKEY_FULL | BLUE;
}

/* Tables are as hardware has them at first. */
static void begin(struct run *r)
{
	run_init(r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	give_partitions(r);
	run_add(r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
}

static uint16_t *table_of(const struct run *r, const char *node, unsigned number)
{
	return fabric_pkeys(&r->t.f, port_named(&r->t.f, node, number));
}

static bool is_end(const struct fabric *f, uint32_t port)
{
	return fabric_is_switch(f, f->owner[port]) == !fabric_port_number(f, port);
}

/* And what the manager knows of them. */
static void check_all(const struct run *r)
{
	const struct fabric *f = &r->t.f;
	const struct net *net = &r->n.manager[0].sm.net;

	for (uint32_t port = 0; port < f->ports; port++) {
		if (!is_end(f, port) || (fabric_port_number(f, port) && fabric_peer(f, port) == PORT_NONE))
			continue;
		assert_memory_equal(fabric_pkeys(f, port), fabric_partitions(f, port), PORT_PKEYS * sizeof(uint16_t));
		assert_memory_equal(net->port[guid_map_find(&net->by_port, f->port[port].guid)].pkeys,
				    fabric_partitions(f, port), PORT_PKEYS * sizeof(uint16_t));
	}
}

static void look_at_all(struct run *r)
{
	sm_sweep(&r->n.manager[0].sm, r->n.now, true);
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
}

static void a_subnet_that_is_switched_on(void **state)
{
	struct run r;

	begin(&r);
	check_all(&r);
	/* ports of switches are no members of any */
	assert_int_equal(table_of(&r, "s3", 1)[0], PKEY_DEFAULT);
	run_fini(&r);
}

/* Without a policy of its own a port is a full member of the default partition, and of no other. */
static void a_fabric_without_partitions(void **state)
{
	static const uint16_t was[][3] = {
		{ 0 }, { PKEY_DEFAULT, FOREIGN }, { FOREIGN, PKEY_DEFAULT }, { LIMITED, RED, FOREIGN },
	};

	for (size_t i = 0; i < sizeof(was) / sizeof(was[0]); i++) {
		struct run r;

		run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
		memcpy(table_of(&r, "h8", 1), was[i], sizeof(was[i]));
		memcpy(table_of(&r, "s2", 0), was[i], sizeof(was[i]));
		run_add(&r, "h1", 1, &(struct sm_config){ 0 });
		assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
		check_all(&r);
		assert_int_equal(table_of(&r, "h8", 1)[0], PKEY_DEFAULT);
		assert_int_equal(table_of(&r, "h8", 1)[1], 0);
		run_fini(&r);
	}
}

/* Of a host, of a switch, of the manager itself. */
static void tables_that_were_wiped(void **state)
{
	static const struct { const char *node; unsigned number; } ports[] = { { "h7", 1 }, { "s3", 0 }, { "s1", 0 } };
	struct run r;

	begin(&r);
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		memset(table_of(&r, ports[i].node, ports[i].number), 0, PORT_PKEYS * sizeof(uint16_t));
	look_at_all(&r);
	check_all(&r);
	run_fini(&r);
}

/* Whoever was the master before has written them: one that begins anew puts them right. */
static void tables_of_another_master(void **state)
{
	struct run r;

	begin(&r);
	for (uint32_t port = 0; port < r.t.f.ports; port++) {
		fabric_pkeys(&r.t.f, port)[0] = PKEY_DEFAULT;
		fabric_pkeys(&r.t.f, port)[1] = FOREIGN;
		fabric_pkeys(&r.t.f, port)[PORT_PKEYS - 1] = FOREIGN + 1;
	}
	mad_net_revive(&r.n, &r.n.manager[0], &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
	assert_int_equal(table_of(&r, "h7", 1)[PORT_PKEYS - 1], 0);
	assert_int_equal(table_of(&r, "h7", 1)[2], BLUE);
	assert_int_equal(table_of(&r, "h8", 1)[1], 0);
	assert_int_equal(table_of(&r, "h8", 1)[4], RED);
	assert_int_equal(table_of(&r, "h1", 1)[0], LIMITED);
	check_all(&r);
	run_fini(&r);
}

/* By its place a QP has chosen a P_Key; by the first who chooses none. */
static void places_stay(void **state)
{
	static const struct { uint16_t was[6], is[6]; } tables[] = {
		{ { LIMITED, 0, PKEY_FULL | GREEN, 0, BLUE, PKEY_FULL | RED },
		  { LIMITED, 0, PKEY_FULL | GREEN, 0, BLUE, PKEY_FULL | RED } },
		/* with another membership */
		{ { PKEY_DEFAULT, GREEN, RED, PKEY_FULL | BLUE }, { LIMITED, PKEY_FULL | GREEN, PKEY_FULL | RED, BLUE } },
		/* what is missing gets the place that the policy says, or a free one */
		{ { LIMITED, FOREIGN, PKEY_FULL | GREEN, BLUE }, { LIMITED, PKEY_FULL | RED, PKEY_FULL | GREEN, BLUE } },
		{ { LIMITED, 0, PKEY_FULL | RED }, { LIMITED, BLUE, PKEY_FULL | RED, PKEY_FULL | GREEN } },
		/* one that is there twice, and the default one elsewhere */
		{ { PKEY_FULL | RED, BLUE, BLUE, LIMITED }, { LIMITED, BLUE, PKEY_FULL | RED, PKEY_FULL | GREEN } },
	};
	struct run r;

	begin(&r);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		memcpy(table_of(&r, "h7", 1), tables[i].was, sizeof(tables[i].was));
		look_at_all(&r);
		assert_memory_equal(table_of(&r, "h7", 1), tables[i].is, sizeof(tables[i].is));
		for (unsigned k = 6; k < PORT_PKEYS; k++)
			assert_int_equal(table_of(&r, "h7", 1)[k], 0);
	}
	run_fini(&r);
}

/* All places are taken: by others, by all of them in another order. */
static void a_full_table(void **state)
{
	struct run r;
	uint16_t *table, *policy;

	run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	policy = fabric_partitions(&r.t.f, port_named(&r.t.f, "h7", 1));
	table = table_of(&r, "h7", 1);
	for (unsigned i = 1; i < PORT_PKEYS; i++) {
		policy[i] = (uint16_t)(0x100 + i);
		table[i] = (uint16_t)(0x200 + i);
	}
	run_add(&r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r.n, 100 * WTIME_S));
	check_all(&r);
	for (unsigned i = 0; i < PORT_PKEYS; i++)
		table[i] = policy[PORT_PKEYS - 1 - i];
	look_at_all(&r);
	assert_int_equal(table[0], PKEY_DEFAULT);
	for (unsigned i = 1; i < PORT_PKEYS - 1; i++)
		assert_int_equal(table[i], policy[PORT_PKEYS - 1 - i]);
	assert_int_equal(table[PORT_PKEYS - 1], policy[PORT_PKEYS - 1]);
	run_fini(&r);
}

static void what_is_right_is_not_written(void **state)
{
	struct run r;
	uint64_t writes;

	begin(&r);
	writes = r.n.manager[0].sm.net.writes;
	look_at_all(&r);
	assert_int_equal(r.n.manager[0].sm.net.writes, writes);
	run_fini(&r);
}

/* A port whose link was down may have been reset: a light sweep reads its table. */
static void a_link_comes_back(void **state)
{
	struct run r;
	uint32_t port;
	uint64_t heavy;

	begin(&r);
	heavy = r.n.manager[0].sm.counters.heavy;
	port = port_named(&r.t.f, "h7", 1);
	agents_set_link(&r.n.agents, r.n.now, port, false);
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	memset(fabric_pkeys(&r.t.f, port), 0, PORT_PKEYS * sizeof(uint16_t));
	fabric_pkeys(&r.t.f, port)[0] = PKEY_DEFAULT;
	agents_set_link(&r.n.agents, r.n.now, port, true);
	assert_true(mad_net_until_quiet(&r.n, 10 * WTIME_S));
	check_all(&r);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, heavy);
	run_fini(&r);
}

/* Packets of its own partition that a port does not let in make its agent send trap 257: the next light sweep asks it. */
static void a_port_that_refuses_packets_is_read(void **state)
{
	struct mad_address to = { .pkey = PKEY_DEFAULT };
	struct run r;
	uint32_t from, port;
	uint64_t heavy;

	begin(&r);
	heavy = r.n.manager[0].sm.counters.heavy;
	from = port_named(&r.t.f, "s1", 0);
	port = port_named(&r.t.f, "h8", 1);
	memset(fabric_pkeys(&r.t.f, port), 0, PORT_PKEYS * sizeof(uint16_t));
	to.path.slid = r.t.f.port[from].lid;
	to.path.dlid = r.t.f.port[port].lid;
	agents_bad_key(&r.n.agents, r.n.now, from, &to, false, 1, PORT_NONE);
	assert_int_equal(r.t.f.port[port].pkey_violations, 1);
	mad_net_for(&r.n, 20 * WTIME_S);
	check_all(&r);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, heavy);
	run_fini(&r);
}

static void whatever_is_lost(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct run r;

		run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, seed);
		r.n.loss_ppm = 100000;
		give_partitions(&r);
		run_add(&r, "s1", 0, &(struct sm_config){ 0 });
		assert_true(mad_net_until_quiet(&r.n, 1000 * WTIME_S));
		check_all(&r);
		for (uint32_t port = 0; port < r.t.f.ports; port++)
			fabric_pkeys(&r.t.f, port)[port % 3] = FOREIGN;
		sm_sweep(&r.n.manager[0].sm, r.n.now, true);
		assert_true(mad_net_until_quiet(&r.n, 1000 * WTIME_S));
		for (uint32_t port = 0; port < r.t.f.ports; port++) {
			for (unsigned i = 0; is_end(&r.t.f, port) && i < PORT_PKEYS; i++)
				assert_int_not_equal(fabric_pkeys(&r.t.f, port)[i], FOREIGN);
		}
		run_fini(&r);
	}
}

/* The agent of a host whose P_KeyTable has another size, with the blocks that weft's agents have not. */
struct table {
	uint64_t guid;			/* of the node */
	uint16_t entries;
	unsigned sets;			/* of these blocks */
	uint8_t block[NET_PKEY_BLOCKS][SMP_DATA_BYTES];
};

static void answer(void *arg, const uint8_t *asked, uint8_t *mad)
{
	struct table *t = arg;
	struct smp_node_info info;
	struct mad_header h;
	uint32_t block;

	mad_header_parse(&h, asked);
	smp_node_info_get(&info, mad + SMP_DATA);
	if (h.attr_id == SMP_NODE_INFO && info.node_guid == t->guid) {
		info.partition_cap = t->entries;
		smp_node_info_put(&info, mad + SMP_DATA);
	}
	block = h.attr_modifier & 0xffff;
	if (h.attr_id != SMP_PKEY_TABLE || !block)
		return;
	assert_in_range(block, 1, (t->entries - 1) / NET_PKEYS);
	assert_in_range(block, 1, NET_PKEY_BLOCKS - 1);
	if (h.method == MAD_SET) {
		memcpy(t->block[block], asked + SMP_DATA, SMP_DATA_BYTES);
		t->sets++;
	}
	memcpy(mad + SMP_DATA, t->block[block], SMP_DATA_BYTES);
	wire_put(mad, 0, 4, 1, 15);	/* the status */
}

static void begin_with_entries(struct run *r, struct table *t, const char *host, uint16_t entries)
{
	run_init(r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	give_partitions(r);
	t->guid = r->t.f.node[node_named(&r->t.f, host)].guid;
	t->entries = entries;
	r->n.answers = answer;
	r->n.answers_arg = t;
	run_add(r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
}

/* Foreign P_Keys are taken away there too, and what is empty is not written. */
static void a_table_of_many_blocks(void **state)
{
	static const struct { uint16_t entries; unsigned block, last; } tables[] = {	/* its last entry */
		{ 33, 1, 0 }, { 64, 1, 31 }, { 128, 3, 31 }, { UINT16_MAX, NET_PKEY_BLOCKS - 1, 31 },
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct table t = { 0 };
		struct net *net;
		struct run r;
		uint32_t h7;

		wire_put(t.block[tables[i].block] + 2 * tables[i].last, FOREIGN, 0, 0, 16);
		begin_with_entries(&r, &t, "h7", tables[i].entries);
		assert_int_equal(t.sets, 1);
		assert_int_equal(wire_get(t.block[tables[i].block] + 2 * tables[i].last, 0, 0, 16), 0);
		check_all(&r);
		/* whatever is said to be behind the last entry */
		if (!tables[i].last)
			wire_put(t.block[tables[i].block] + 2, FOREIGN, 0, 0, 16);
		look_at_all(&r);
		assert_int_equal(t.sets, 1);
		wire_put(t.block[1], FOREIGN, 0, 0, 16);
		wire_put(t.block[tables[i].block] + 2 * (tables[i].last > 0), FOREIGN, 0, 0, 16);
		look_at_all(&r);
		assert_int_equal(t.sets, tables[i].block > 1 ? 3 : 2);
		for (unsigned k = 0; k < NET_PKEY_BLOCKS; k++)
			assert_int_equal(wire_get(t.block[k], 0, 0, 32), 0);
		/* blocks that are not there any more are not written */
		net = &r.n.manager[0].sm.net;
		h7 = guid_map_find(&net->by_port, r.t.f.port[port_named(&r.t.f, "h7", 1)].guid);
		net->port[h7].pkeys_behind = 1u << tables[i].block;
		t.entries = NET_PKEYS;
		look_at_all(&r);
		assert_int_equal(t.sets, tables[i].block > 1 ? 3 : 2);
		run_fini(&r);
	}
}

/* There is room for the first P_Keys of the policy; who says that there are no entries has a block. */
static void a_table_of_few_entries(void **state)
{
	static const struct { const char *host; uint16_t entries, is[6]; } tables[] = {
		{ "h7", 1, { LIMITED } },
		{ "h7", 3, { LIMITED, PKEY_FULL | RED, BLUE } },
		{ "h7", 4, { LIMITED, PKEY_FULL | RED, BLUE, PKEY_FULL | GREEN } },
		{ "h7", 0, { LIMITED, PKEY_FULL | RED, BLUE, PKEY_FULL | GREEN } },
		/* the policy's place is not there */
		{ "h8", 4, { LIMITED, RED } },
		{ "h8", 5, { LIMITED, 0, 0, 0, RED } },
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct table t = { 0 };
		uint16_t *table;
		uint64_t writes;
		uint32_t port;
		struct run r;

		begin_with_entries(&r, &t, tables[i].host, tables[i].entries);
		table = table_of(&r, tables[i].host, 1);
		assert_memory_equal(table, tables[i].is, sizeof(tables[i].is));
		/* whatever is said to be where there are none */
		writes = r.n.manager[0].sm.net.writes;
		table[PORT_PKEYS - 1] = tables[i].entries ? FOREIGN : 0;
		look_at_all(&r);
		assert_int_equal(r.n.manager[0].sm.net.writes, writes);
		/* is no P_Key that the port has */
		port = guid_map_find(&r.n.manager[0].sm.net.by_port, r.t.f.port[port_named(&r.t.f, tables[i].host, 1)].guid);
		assert_false(sa_has_pkey(&r.n.manager[0].sm, port, FOREIGN));
		run_fini(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_subnet_that_is_switched_on),
		cmocka_unit_test(a_fabric_without_partitions),
		cmocka_unit_test(tables_that_were_wiped),
		cmocka_unit_test(tables_of_another_master),
		cmocka_unit_test(places_stay),
		cmocka_unit_test(a_full_table),
		cmocka_unit_test(what_is_right_is_not_written),
		cmocka_unit_test(a_link_comes_back),
		cmocka_unit_test(a_port_that_refuses_packets_is_read),
		cmocka_unit_test(whatever_is_lost),
		cmocka_unit_test(a_table_of_many_blocks),
		cmocka_unit_test(a_table_of_few_entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
