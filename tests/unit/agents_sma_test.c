/* The subnet management agent: each attribute read and set, byte for byte, and what it refuses. */
#include "agents.h"

#include "fabric/speed.h"

/* s1 has hosts h1, h2 and h3 at its ports 1 to 3; MADs are sent by h1 to s1 or, over it, to h2. */
static const uint8_t to_switch[] = { 1 }, to_h2[] = { 1, 2 };

static unsigned ask(struct test_agents *g, unsigned method, unsigned attribute, uint32_t modifier, const uint8_t *path,
		    unsigned hops, const uint8_t *data)
{
	make_directed(g->mad, method, attribute, modifier, path, hops);
	if (data)
		memcpy(g->mad + SMP_DATA, data, SMP_DATA_BYTES);
	assert_int_equal(send_directed(g, port_named(&g->t.f, "h1", 1)), MAD_ANSWERED);
	assert_int_equal(g->mad[3], MAD_GET_RESP);
	return status_of(g->mad);
}

#define GET_SWITCH(g, attribute, modifier) ask(g, MAD_GET, attribute, modifier, to_switch, 1, NULL)
#define SET_SWITCH(g, attribute, modifier, data) ask(g, MAD_SET, attribute, modifier, to_switch, 1, data)
#define GET_H2(g, attribute, modifier) ask(g, MAD_GET, attribute, modifier, to_h2, 2, NULL)
#define SET_H2(g, attribute, modifier, data) ask(g, MAD_SET, attribute, modifier, to_h2, 2, data)

static uint8_t *data_of(struct test_agents *g)
{
	return g->mad + SMP_DATA;
}

static void bytes_are(struct test_agents *g, unsigned at, const void *bytes, size_t length)
{
	assert_memory_equal(data_of(g) + at, bytes, length);
}
#define BYTES_ARE(g, at, ...) bytes_are(g, at, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void start(struct test_agents *g)
{
	AGENTS(g, "star", "hosts=3");
}

static void node_info_byte_for_byte(void **state)
{
	struct test_agents g;
	struct fabric_node *n;

	start(&g);
	n = &g.t.f.node[node_named(&g.t.f, "s1")];
	n->guid = 0x0102030405060708;
	n->system_guid = 0x1112131415161718;
	n->vendor = 0x0002c9;
	n->device = 0xbd36;
	g.t.f.port[n->first_port].guid = 0x2122232425262728;
	assert_int_equal(GET_SWITCH(&g, SMP_NODE_INFO, 0), 0);
	BYTES_ARE(&g, 0, 1, 1, 2, 3, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 1, 2, 3, 4, 5, 6, 7, 8, 0x21, 0x22, 0x23,
		  0x24, 0x25, 0x26, 0x27, 0x28, 0, 32, 0xbd, 0x36, 0, 0, 0, 0xa0, 1, 0x00, 0x02, 0xc9);
	/* what is there for reading only */
	assert_int_equal(SET_SWITCH(&g, SMP_NODE_INFO, 0, data_of(&g)), MAD_STATUS_BAD_ATTRIBUTE);
	assert_int_equal(SET_SWITCH(&g, SMP_NODE_DESCRIPTION, 0, data_of(&g)), MAD_STATUS_BAD_ATTRIBUTE);
	end_agents(&g);
}

static void port_info_byte_for_byte(void **state)
{
	struct test_agents g;
	struct fabric_port *p;

	start(&g);
	p = &g.t.f.port[port_named(&g.t.f, "h2", 1)];
	p->lid = 5;
	p->sm_lid = 0x0102;
	p->sm_sl = 3;
	p->m_key_lease = 0x0304;
	p->enforce = ENFORCE_OUT;
	p->vl_high_limit = 9;
	p->vl_stall = 5;
	p->hoq_life = 0x12;
	p->m_key_violations = 0x1001;
	p->pkey_violations = 0x1002;
	p->qkey_violations = 0x1003;
	p->phy_errors = 8;
	p->overrun_errors = 7;
	p->speed = p->speed_most = SPEED_EDR;
	p->ext_enabled = 3;
	assert_int_equal(GET_H2(&g, SMP_PORT_INFO, 0), 0);
	BYTES_ARE(&g, 8, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 5, 1, 2);
	BYTES_ARE(&g, 20, 0x06, 0x61, 0x4a, 0x48, 0, 0, 3, 4);
	/* port 1; widths 1X and 4X; QDR; init; link up, polls when down; LMC 0; 4X; QDR of all; MTU 4096, SL 3 */
	BYTES_ARE(&g, 28, 1, 3, 3, 2, 0x72, 0x52, 0x00, 0x47, 0x53);
	/* 8 lanes; limit; caps 64, 64; MTU cap 4096; stall and life; 8 lanes, out; violations */
	BYTES_ARE(&g, 37, 0x40, 9, 64, 64, 5, 0xb2, 0x44, 0x10, 1, 0x10, 2, 0x10, 3);
	/* 8 GUIDs; timeout 18; response 18; 8 and 7; EDR of FDR and EDR */
	BYTES_ARE(&g, 50, 8, 18, 18, 0x87, 0, 0, 0, 0, 0, 0, 0, 0, 0x23, 3);
	/* a port 0 has no link, and is active */
	assert_int_equal(GET_SWITCH(&g, SMP_PORT_INFO, 0), 0);
	BYTES_ARE(&g, 28, 1);
	assert_int_equal(data_of(&g)[32] & 15, PORT_ACTIVE);
	assert_int_equal(GET_SWITCH(&g, SMP_PORT_INFO, 3), 0);
	assert_int_equal(GET_SWITCH(&g, SMP_PORT_INFO, 4), MAD_STATUS_BAD_VALUE);
	/* the upper bit: who asks knows of extended speeds */
	assert_int_equal(GET_SWITCH(&g, SMP_PORT_INFO, 0x80000001), 0);
	assert_int_equal(GET_SWITCH(&g, SMP_PORT_INFO, 0x40000001), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_H2(&g, SMP_PORT_INFO, 2), MAD_STATUS_BAD_VALUE);
	end_agents(&g);
}

static void switch_info_byte_for_byte(void **state)
{
	struct test_agents g;
	uint8_t in[SMP_DATA_BYTES] = { [7] = 40, [8] = 1, 2, 3, (18 << 3) | 4 };
	struct fabric_node *n;

	start(&g);
	n = &g.t.f.node[node_named(&g.t.f, "s1")];
	n->port_state_change = 1;
	assert_int_equal(GET_SWITCH(&g, SMP_SWITCH_INFO, 0), 0);
	BYTES_ARE(&g, 0, 0, (uint8_t)g.t.f.lids, 0, 0, 1, 0, 0, (uint8_t)(g.t.f.lids - 1), 0, 0, 0, 4 | 1);
	BYTES_ARE(&g, 12, 0, 0, 0, 32, 0xc0, 0, 0, 0);
	assert_int_equal(SET_SWITCH(&g, SMP_SWITCH_INFO, 0, in), 0);
	BYTES_ARE(&g, 6, 0, 40, 1, 2, 3, 18 << 3 | 1);
	assert_int_equal(n->lft_top, 40);
	/* a bit that is not set is left */
	n->port_state_change = 1;
	in[11] = 0;
	assert_int_equal(SET_SWITCH(&g, SMP_SWITCH_INFO, 0, in), 0);
	assert_int_equal(data_of(&g)[11], 4 | 1);
	/* a table as long as LinearFDBCap has no LID there */
	in[7] = (uint8_t)g.t.f.lids;
	assert_int_equal(SET_SWITCH(&g, SMP_SWITCH_INFO, 0, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(n->lft_top, 40);
	assert_int_equal(GET_H2(&g, SMP_SWITCH_INFO, 0), MAD_STATUS_BAD_ATTRIBUTE);
	end_agents(&g);
}

static void guids_but_the_first_are_set(void **state)
{
	struct test_agents g;
	uint8_t in[SMP_DATA_BYTES];
	uint64_t *guids, own;

	start(&g);
	guids = fabric_guids(&g.t.f, port_named(&g.t.f, "h2", 1));
	own = guids[0];
	memset(in, 0x5a, sizeof(in));
	assert_int_equal(SET_H2(&g, SMP_GUID_INFO, 0, in), 0);
	assert_true(guids[0] == own);
	assert_true(guids[1] == 0x5a5a5a5a5a5a5a5a && guids[7] == guids[1]);
	BYTES_ARE(&g, 0, own >> 56, own >> 48 & 255, own >> 40 & 255, own >> 32 & 255, own >> 24 & 255, own >> 16 & 255,
		  own >> 8 & 255, own & 255, 0x5a);
	assert_int_equal(GET_H2(&g, SMP_GUID_INFO, 1), MAD_STATUS_BAD_VALUE);
	assert_int_equal(SET_H2(&g, SMP_GUID_INFO, 1, in), MAD_STATUS_BAD_VALUE);
	end_agents(&g);
}

static void pkeys_of_adapters_and_of_ports_of_switches(void **state)
{
	struct test_agents g;
	uint8_t in[SMP_DATA_BYTES] = { 0xff, 0xff, 0x80, 0x01, [62] = 0x12, 0x34 };
	const uint16_t *pkeys;

	start(&g);
	assert_int_equal(GET_H2(&g, SMP_PKEY_TABLE, 0), 0);
	BYTES_ARE(&g, 0, 0xff, 0xff, 0, 0);
	assert_int_equal(SET_H2(&g, SMP_PKEY_TABLE, 0, in), 0);
	pkeys = fabric_pkeys(&g.t.f, port_named(&g.t.f, "h2", 1));
	assert_int_equal(pkeys[1], 0x8001);
	assert_int_equal(pkeys[31], 0x1234);
	assert_int_equal(SET_SWITCH(&g, SMP_PKEY_TABLE, 3 << 16, in), 0);
	assert_int_equal(fabric_pkeys(&g.t.f, port_named(&g.t.f, "s1", 3))[31], 0x1234);
	assert_int_equal(fabric_pkeys(&g.t.f, port_named(&g.t.f, "s1", 2))[31], 0);
	assert_int_equal(SET_SWITCH(&g, SMP_PKEY_TABLE, 4 << 16, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_H2(&g, SMP_PKEY_TABLE, 1), MAD_STATUS_BAD_VALUE);
	end_agents(&g);
}

/* 14.2.5.8: of all input ports of one output port, of all output ports of one input port, and all. */
static void lanes_of_many_ports_at_once(void **state)
{
	enum { ALL_OUT = 1 << 16, ALL_IN = 1 << 17, PORTS = 3 };
	uint8_t in[SMP_DATA_BYTES] = { [7] = 0x0f };
	struct test_agents g;

	start(&g);
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, ALL_IN | 2, in), 0);
	BYTES_ARE(&g, 7, 0x0f, 0);
	for (unsigned i = 0; i <= PORTS; i++) {
		for (unsigned k = 0; k <= PORTS; k++)
			assert_int_equal(fabric_sl2vl(&g.t.f, 0, i, k)[7], k == 2 ? 0x0f : 0x67);
	}
	in[7] = 0x11;
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, ALL_OUT | 1 << 8, in), 0);
	assert_int_equal(fabric_sl2vl(&g.t.f, 0, 1, 3)[7], 0x11);
	assert_int_equal(fabric_sl2vl(&g.t.f, 0, 2, 3)[7], 0x67);
	in[7] = 0x22;
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, ALL_OUT | ALL_IN, in), 0);
	for (unsigned i = 0; i <= PORTS; i++) {
		for (unsigned k = 0; k <= PORTS; k++)
			assert_int_equal(fabric_sl2vl(&g.t.f, 0, i, k)[7], 0x22);
	}
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, ALL_IN | 4, in), MAD_STATUS_BAD_VALUE);
	end_agents(&g);
}

static void lanes_and_arbitration(void **state)
{
	struct test_agents g;
	uint8_t in[SMP_DATA_BYTES] = { 0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x0f, [62] = 0xf5, 77 };
	const struct fabric_vlarb *arb;

	start(&g);
	assert_int_equal(GET_SWITCH(&g, SMP_SL2VL, 1 << 8 | 2), 0);
	BYTES_ARE(&g, 0, 0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67, 0);
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, 1 << 8 | 2, in), 0);
	assert_int_equal(fabric_sl2vl(&g.t.f, 0, 1, 2)[7], 0x0f);
	assert_int_equal(fabric_sl2vl(&g.t.f, 0, 2, 1)[7], 0x67);
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, 4 << 8, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, 4, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(SET_SWITCH(&g, SMP_SL2VL, 1 << 18, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(SET_H2(&g, SMP_SL2VL, 1 << 16, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(SET_H2(&g, SMP_SL2VL, 0, in), 0);
	assert_int_equal(fabric_sl2vl(&g.t.f, node_named(&g.t.f, "h2"), 0, 1)[7], 0x0f);
	/* the last 32 entries of high priority, and the first of low */
	assert_int_equal(SET_SWITCH(&g, SMP_VLARB, 4 << 16 | 2, in), 0);
	arb = fabric_vlarb(&g.t.f, port_named(&g.t.f, "s1", 2));
	assert_int_equal(arb[63].vl, 5);
	assert_int_equal(arb[63].weight, 77);
	assert_int_equal(GET_SWITCH(&g, SMP_VLARB, 1 << 16 | 2), 0);
	BYTES_ARE(&g, 0, 0, 1, 1, 1, 2, 1);
	assert_int_equal(GET_SWITCH(&g, SMP_VLARB, 2), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_SWITCH(&g, SMP_VLARB, 5 << 16 | 2), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_SWITCH(&g, SMP_VLARB, 1 << 16 | 4), MAD_STATUS_BAD_VALUE);
	end_agents(&g);
}

static void forwarding_tables(void **state)
{
	struct test_agents g;
	uint8_t in[SMP_DATA_BYTES] = { 1, [63] = 2 };

	start(&g);
	assert_int_equal(SET_SWITCH(&g, SMP_LFT, 0, in), 0);
	assert_int_equal(fabric_lft(&g.t.f, 0)[63], 2);
	assert_int_equal(SET_SWITCH(&g, SMP_LFT, g.t.f.lids / 64, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_SWITCH(&g, SMP_LFT, UINT32_MAX), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_H2(&g, SMP_LFT, 0), MAD_STATUS_BAD_ATTRIBUTE);
	assert_int_equal(SET_SWITCH(&g, SMP_MFT, 7, in), 0);
	assert_int_equal(fabric_mft(&g.t.f, 0, MLID_FIRST + 7 * 32)[0], 0x0100);
	assert_int_equal(fabric_mft(&g.t.f, 0, MLID_FIRST + 7 * 32 + 31)[0], 2);
	assert_int_equal(SET_SWITCH(&g, SMP_MFT, 8, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(SET_SWITCH(&g, SMP_MFT, 1u << 28, in), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_SWITCH(&g, SMP_MFT, 8), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_SWITCH(&g, SMP_RANDOM_TABLE, 0), MAD_STATUS_BAD_ATTRIBUTE);
	end_agents(&g);
}

static void lamps_and_vendors(void **state)
{
	struct test_agents g;
	uint8_t in[SMP_DATA_BYTES] = { 0x80 };

	start(&g);
	assert_int_equal(SET_H2(&g, SMP_LED_INFO, 0, in), 0);
	assert_int_equal(GET_H2(&g, SMP_LED_INFO, 0), 0);
	BYTES_ARE(&g, 0, 0x80);
	assert_int_equal(GET_SWITCH(&g, SMP_LED_INFO, 0), 0);
	BYTES_ARE(&g, 0, 0);
	assert_int_equal(GET_H2(&g, SMP_VENDOR_DIAG, 0), 0);
	assert_int_equal(GET_H2(&g, SMP_VENDOR_DIAG, 1), MAD_STATUS_BAD_VALUE);
	assert_int_equal(GET_H2(&g, SMP_MLNX_PORT_INFO, 1), MAD_STATUS_BAD_ATTRIBUTE);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, to_h2, 2);
	g.mad[2] = 2;
	assert_int_equal(send_directed(&g, port_named(&g.t.f, "h1", 1)), MAD_ANSWERED);
	assert_int_equal(status_of(g.mad), MAD_STATUS_BAD_VERSION);
	end_agents(&g);
}

/* ---- PortInfo, set ---- */

static struct smp_port_info read_port(struct test_agents *g, const uint8_t *path, unsigned hops, uint32_t number)
{
	struct smp_port_info info;

	assert_int_equal(ask(g, MAD_GET, SMP_PORT_INFO, number, path, hops, NULL), 0);
	smp_port_info_get(&info, data_of(g));
	info.state = info.phys_state = 0;
	return info;
}

static unsigned write_port(struct test_agents *g, const uint8_t *path, unsigned hops, uint32_t number,
			   const struct smp_port_info *info)
{
	uint8_t data[SMP_DATA_BYTES];

	smp_port_info_put(info, data);
	return ask(g, MAD_SET, SMP_PORT_INFO, number, path, hops, data);
}

static void addresses_are_set_at_end_ports(void **state)
{
	struct test_agents g;
	struct smp_port_info info;
	struct fabric_port *p;

	start(&g);
	p = &g.t.f.port[port_named(&g.t.f, "h2", 1)];
	info = read_port(&g, to_h2, 2, 0);
	info.lid = 24;
	info.lmc = 3;
	info.sm_lid = 9;
	info.prefix = 0xfec0000000000000;
	info.subnet_timeout = 20;
	assert_int_equal(write_port(&g, to_h2, 2, 1, &info), 0);
	BYTES_ARE(&g, 8, 0xfe, 0xc0, 0, 0, 0, 0, 0, 0, 0, 24, 0, 9);
	assert_int_equal(p->lid, 24);
	assert_int_equal(p->lmc, 3);
	info.lid = 28;	/* not where 8 LIDs begin */
	assert_int_equal(write_port(&g, to_h2, 2, 0, &info), MAD_STATUS_BAD_VALUE);
	info.lid = 0;
	assert_int_equal(write_port(&g, to_h2, 2, 0, &info), MAD_STATUS_BAD_VALUE);
	info.lid = (uint16_t)g.t.f.lids;
	assert_int_equal(write_port(&g, to_h2, 2, 0, &info), MAD_STATUS_BAD_VALUE);
	info.lid = 24;
	info.sm_lid = 0xc000;
	assert_int_equal(write_port(&g, to_h2, 2, 0, &info), MAD_STATUS_BAD_VALUE);
	assert_int_equal(p->lid, 24);
	assert_int_equal(p->sm_lid, 9);
	/* port 0 of a switch has no LMC, and its other ports no LID */
	info = read_port(&g, to_switch, 1, 0);
	info.lid = 32;
	info.lmc = 1;
	assert_int_equal(write_port(&g, to_switch, 1, 0, &info), MAD_STATUS_BAD_VALUE);
	info.lmc = 0;
	assert_int_equal(write_port(&g, to_switch, 1, 0, &info), 0);
	assert_int_equal(g.t.f.port[port_named(&g.t.f, "s1", 0)].lid, 32);
	info = read_port(&g, to_switch, 1, 2);
	info.lid = 33;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	assert_int_equal(g.t.f.port[port_named(&g.t.f, "s1", 2)].lid, 0);
	end_agents(&g);
}

/* 14.4.11: a manager tells it to an end port; nobody reads it back. */
static void clients_are_told_to_register_again(void **state)
{
	struct test_agents g;
	struct smp_port_info info;
	uint64_t changes;

	start(&g);
	info = read_port(&g, to_h2, 2, 0);
	changes = g.a.changes;
	for (unsigned i = 0; i < 4; i++) {
		info.reregister = i < 3;
		assert_int_equal(write_port(&g, to_h2, 2, 0, &info), 0);
		assert_false(read_port(&g, to_h2, 2, 0).reregister);
	}
	assert_int_equal(g.t.f.port[port_named(&g.t.f, "h2", 1)].reregistered, 3);
	assert_true(g.a.changes > changes);
	info = read_port(&g, to_switch, 1, 2);
	info.reregister = 1;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	assert_int_equal(g.t.f.port[port_named(&g.t.f, "s1", 2)].reregistered, 0);
	end_agents(&g);
}

static void violations_are_cleared_by_zero_only(void **state)
{
	struct test_agents g;
	struct smp_port_info info;
	struct fabric_port *p;

	start(&g);
	p = &g.t.f.port[port_named(&g.t.f, "h2", 1)];
	p->m_key_violations = p->pkey_violations = p->qkey_violations = 5;
	info = read_port(&g, to_h2, 2, 0);
	info.m_key_violations = 3;
	info.qkey_violations = 0;
	assert_int_equal(write_port(&g, to_h2, 2, 0, &info), 0);
	assert_int_equal(p->m_key_violations, 5);
	assert_int_equal(p->qkey_violations, 0);
	end_agents(&g);
}

static void a_port_goes_from_initialised_to_armed_to_active(void **state)
{
	struct test_agents g;
	struct smp_port_info info;
	struct fabric_port *p;

	start(&g);
	p = &g.t.f.port[port_named(&g.t.f, "s1", 2)];
	info = read_port(&g, to_switch, 1, 2);
	info.state = PORT_ACTIVE;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.state = PORT_INIT;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.state = PORT_ARMED;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	assert_int_equal(p->state, PORT_ARMED);
	info.state = PORT_ACTIVE;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	assert_int_equal(p->state, PORT_ACTIVE);
	info.state = PORT_ARMED;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.state = 5;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.state = PORT_ACTIVE;
	info.phys_state = PHYS_DISABLED;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.state = 0;
	info.phys_state = PHYS_TRAINING;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	assert_int_equal(p->state, PORT_ACTIVE);
	end_agents(&g);
}

static void a_port_is_disabled_and_enabled(void **state)
{
	struct test_agents g;
	struct smp_port_info info;
	struct fabric_port *p, *peer;

	start(&g);
	p = &g.t.f.port[port_named(&g.t.f, "s1", 2)];
	peer = &g.t.f.port[port_named(&g.t.f, "h2", 1)];
	info = read_port(&g, to_switch, 1, 2);
	info.state = PORT_DOWN;
	info.phys_state = PHYS_DISABLED;
	assert_int_equal(write_port(&g, to_switch, 1, 0x80000002, &info), 0);
	BYTES_ARE(&g, 32, 0x71, 0x32);
	assert_int_equal(peer->state, PORT_DOWN);
	assert_int_equal(peer->phys_state, PHYS_POLLING);
	assert_int_equal(g.t.f.node[0].port_state_change, 1);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, to_h2, 2);
	assert_int_equal(send_directed(&g, port_named(&g.t.f, "h1", 1)), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_NO_LINK);
	/* it comes back slower: one lane of DDR */
	info.width_enabled = 1;
	info.speed_enabled = 3;
	info.ext_enabled = 30;	/* none of them */
	info.state = 0;
	info.phys_state = PHYS_POLLING;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	BYTES_ARE(&g, 28, 1, 1, 3, 1);
	assert_int_equal(p->state, PORT_INIT);
	assert_int_equal(peer->state, PORT_INIT);
	assert_int_equal(peer->width, 1);
	assert_int_equal(data_of(&g)[35] >> 4, 2);
	/* a link that is up trains anew when it is told to poll, as ibportstate's reset does */
	info.speed_enabled = 1;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	assert_int_equal(p->state, PORT_INIT);
	assert_int_equal(peer->speed, SPEED_SDR);
	/* all that is supported, at the next training */
	info.width_enabled = 255;
	info.speed_enabled = 15;
	info.ext_enabled = 31;
	info.state = PORT_DOWN;
	info.phys_state = 0;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	BYTES_ARE(&g, 28, 1, 3, 3, 2);
	assert_int_equal(p->state, PORT_INIT);
	/* what is not supported */
	info.state = 0;
	info.width_enabled = 8;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.width_enabled = 3;
	info.mtu = 6;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.mtu = 4;
	info.operational_vls = 5;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), MAD_STATUS_BAD_VALUE);
	info.operational_vls = 2;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	assert_int_equal(p->vls, 2);
	assert_int_equal(p->mtu, 4);
	end_agents(&g);
}

static void an_unplugged_link_is_not_trained(void **state)
{
	struct test_agents g;
	struct smp_port_info info;
	uint32_t port;

	start(&g);
	port = port_named(&g.t.f, "s1", 2);
	agents_set_link(&g.a, 1, port, false);
	info = read_port(&g, to_switch, 1, 2);
	info.phys_state = PHYS_POLLING;
	assert_int_equal(write_port(&g, to_switch, 1, 2, &info), 0);
	assert_int_equal(g.t.f.port[port].state, PORT_DOWN);
	agents_set_link(&g.a, 1, port, true);
	assert_int_equal(g.t.f.port[port].state, PORT_ACTIVE);
	/* a manager finds it initialised */
	g.t.f.port[port_named(&g.t.f, "h2", 1)].sm_lid = 1;
	agents_set_link(&g.a, 1, port, false);
	agents_set_link(&g.a, 1, port, true);
	assert_int_equal(g.t.f.port[port].state, PORT_INIT);
	end_agents(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_info_byte_for_byte),
		cmocka_unit_test(port_info_byte_for_byte),
		cmocka_unit_test(switch_info_byte_for_byte),
		cmocka_unit_test(guids_but_the_first_are_set),
		cmocka_unit_test(pkeys_of_adapters_and_of_ports_of_switches),
		cmocka_unit_test(lanes_and_arbitration),
		cmocka_unit_test(lanes_of_many_ports_at_once),
		cmocka_unit_test(forwarding_tables),
		cmocka_unit_test(lamps_and_vendors),
		cmocka_unit_test(addresses_are_set_at_end_ports),
		cmocka_unit_test(clients_are_told_to_register_again),
		cmocka_unit_test(violations_are_cleared_by_zero_only),
		cmocka_unit_test(a_port_goes_from_initialised_to_armed_to_active),
		cmocka_unit_test(a_port_is_disabled_and_enabled),
		cmocka_unit_test(an_unplugged_link_is_not_trained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
