/* MADs of QP0 through a fabric: directed routes, LIDs and both; what agents answer; what is lost. */
#include "agents.h"

#include "fabric/route.h"

/* s1 has hosts h1 at port 1 and h2 at port 2 */
static void a_directed_route_of_no_hop_is_the_own_node(void **state)
{
	struct test_agents g;
	struct smp_node_info info;
	uint32_t h1;

	AGENTS(&g, "star", "hosts=2");
	h1 = port_named(&g.t.f, "h1", 1);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, NULL, 0);
	assert_int_equal(send_directed(&g, h1), MAD_ANSWERED);
	assert_int_equal(g.out.port, h1);
	assert_int_equal(g.mad[3], MAD_GET_RESP);
	assert_int_equal(g.mad[4], 0x80);
	assert_int_equal(status_of(g.mad), 0);
	assert_int_equal(g.mad[6], 0);
	smp_node_info_get(&info, g.mad + SMP_DATA);
	assert_int_equal(info.node_type, NODE_CA);
	assert_int_equal(info.local_port, 1);
	assert_int_equal(info.port_guid, g.t.f.port[h1].guid);
	end_agents(&g);
}

static void a_directed_route_goes_there_and_back(void **state)
{
	struct test_agents g;
	struct smp_node_info info;
	struct smp_head head;
	uint32_t h1, h2;

	AGENTS(&g, "star", "hosts=2");
	h1 = port_named(&g.t.f, "h1", 1);
	h2 = port_named(&g.t.f, "h2", 1);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1, 2));
	assert_int_equal(send_directed(&g, h1), MAD_ANSWERED);
	assert_int_equal(g.out.port, h1);
	smp_node_info_get(&info, g.mad + SMP_DATA);
	assert_int_equal(info.port_guid, g.t.f.port[h2].guid);
	smp_head_get(&head, g.mad);
	assert_int_equal(head.is_return, 1);
	assert_int_equal(head.hop_pointer, 0);
	assert_int_equal(head.return_path[1], 1);
	assert_int_equal(head.return_path[2], 1);
	make_directed(g.mad, MAD_GET, SMP_NODE_DESCRIPTION, 0, PATH(1));
	assert_int_equal(send_directed(&g, h2), MAD_ANSWERED);
	assert_string_equal((char *)g.mad + SMP_DATA, "s1");
	end_agents(&g);
}

static void attributes_that_nobody_has_are_refused(void **state)
{
	struct test_agents g;

	AGENTS(&g, "star", "hosts=2");
	make_directed(g.mad, MAD_GET, SMP_MLNX_PORT_INFO, 1, NULL, 0);
	assert_int_equal(send_directed(&g, port_named(&g.t.f, "h1", 1)), MAD_ANSWERED);
	assert_int_equal(status_of(g.mad), MAD_STATUS_BAD_ATTRIBUTE);
	make_directed(g.mad, MAD_GET, SMP_SWITCH_INFO, 0, NULL, 0);
	assert_int_equal(send_directed(&g, port_named(&g.t.f, "h1", 1)), MAD_ANSWERED);
	assert_int_equal(status_of(g.mad), MAD_STATUS_BAD_ATTRIBUTE);
	end_agents(&g);
}


/* ---- by LIDs ---- */

static void set_up(struct test_agents *g)
{
	assert_int_equal(fabric_route(&g->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&g->t.f);
}

static void make_routed(uint8_t mad[MAD_BYTES], unsigned method, unsigned attribute, uint32_t modifier, uint64_t m_key)
{
	struct mad_header h = { .base_version = 1, .mgmt_class = MAD_CLASS_SUBN_LID, .class_version = 1,
				.method = (uint8_t)method, .tid = 77, .attr_id = (uint16_t)attribute, .attr_modifier = modifier };

	memset(mad, 0, MAD_BYTES);
	mad_header_build(&h, mad);
	wire_put(mad, m_key, 24, 0, 64);
}

static uint16_t lid_named(struct test_agents *g, const char *name, unsigned number)
{
	return g->t.f.port[port_named(&g->t.f, name, number)].lid;
}

static enum mad_outcome send_to(struct test_agents *g, uint32_t from, uint16_t dlid)
{
	struct mad_address to = { .path = { .dlid = dlid } };

	return agents_mad(&g->a, g->now, from, &to, g->mad, &g->out);
}

static void by_lids_there_and_back(void **state)
{
	struct test_agents g;
	struct smp_node_info info;
	uint32_t h1;

	AGENTS(&g, "line", "switches=3");
	set_up(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	make_routed(g.mad, MAD_GET, SMP_NODE_INFO, 0, 0);
	assert_int_equal(send_to(&g, h1, lid_named(&g, "s3", 0)), MAD_ANSWERED);
	assert_int_equal(g.out.address.path.slid, lid_named(&g, "s3", 0));
	assert_int_equal(g.out.address.path.dlid, lid_named(&g, "h1", 1));
	assert_int_equal(g.mad[4], 0);
	smp_node_info_get(&info, g.mad + SMP_DATA);
	assert_true(info.node_guid == g.t.f.node[node_named(&g.t.f, "s3")].guid);
	assert_int_not_equal(info.local_port, 0);	/* the one by which it came */
	/* to itself */
	make_routed(g.mad, MAD_GET, SMP_NODE_INFO, 0, 0);
	assert_int_equal(send_to(&g, h1, lid_named(&g, "h1", 1)), MAD_ANSWERED);
	/* nowhere */
	make_routed(g.mad, MAD_GET, SMP_NODE_INFO, 0, 0);
	assert_int_equal(send_to(&g, h1, LID_PERMISSIVE), MAD_LOST);
	fabric_lft(&g.t.f, node_named(&g.t.f, "s2"))[lid_named(&g, "h1", 1)] = LFT_NONE;
	make_routed(g.mad, MAD_GET, SMP_NODE_INFO, 0, 0);
	assert_int_equal(send_to(&g, h1, lid_named(&g, "s3", 0)), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_NO_ROUTE);
	end_agents(&g);
}

/* By LIDs to s2, and on by its port to s3; the other way round with a LID at the end. */
static void directed_in_the_middle(void **state)
{
	struct test_agents g;
	struct mad_address to = { .path = { .dlid = 0 } };
	struct smp_node_info info;
	struct smp_head head;
	uint32_t h1, s2;
	unsigned out = 0;

	AGENTS(&g, "line", "switches=3");
	set_up(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	s2 = node_named(&g.t.f, "s2");
	for (unsigned i = 1; i <= g.t.f.place[s2].ports; i++) {
		uint32_t peer = fabric_peer(&g.t.f, fabric_port_index(&g.t.f, s2, i));

		if (peer != PORT_NONE && g.t.f.owner[peer] == node_named(&g.t.f, "s3"))
			out = i;
	}
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, (const uint8_t[]){ (uint8_t)out }, 1);
	smp_head_get(&head, g.mad);
	head.dr_slid = lid_named(&g, "h1", 1);
	smp_head_put(&head, g.mad);
	to.path.dlid = lid_named(&g, "s2", 0);
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_ANSWERED);
	smp_node_info_get(&info, g.mad + SMP_DATA);
	assert_true(info.node_guid == g.t.f.node[node_named(&g.t.f, "s3")].guid);
	assert_int_equal(g.out.port, h1);
	assert_int_equal(g.out.address.path.slid, lid_named(&g, "s2", 0));
	/* one hop to s1, and by LIDs to h3 */
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1));
	smp_head_get(&head, g.mad);
	head.dr_dlid = lid_named(&g, "h3", 1);
	smp_head_put(&head, g.mad);
	assert_int_equal(send_directed(&g, h1), MAD_ANSWERED);
	smp_node_info_get(&info, g.mad + SMP_DATA);
	assert_true(info.node_guid == g.t.f.node[node_named(&g.t.f, "h3")].guid);
	assert_int_equal(g.out.address.path.slid, LID_PERMISSIVE);
	end_agents(&g);
}

/* ---- clients ---- */

static void what_is_the_managers_arrives(void **state)
{
	struct test_agents g;
	struct mad_arrival at;
	uint32_t h1, h2;

	AGENTS(&g, "star", "hosts=2");
	set_up(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	h2 = port_named(&g.t.f, "h2", 1);
	make_directed(g.mad, MAD_GET, SMP_SM_INFO, 0, PATH(1, 2));
	assert_int_equal(send_directed(&g, h1), MAD_ARRIVED);
	assert_int_equal(g.out.port, h2);
	assert_int_equal(g.mad[6], 3);
	/* the client's answer */
	mad_respond(g.mad, 0);
	assert_int_equal(agents_mad(&g.a, 1, h2, &g.out.address, g.mad, &at), MAD_ARRIVED);
	assert_int_equal(at.port, h1);
	assert_int_equal(g.mad[6], 0);
	/* nobody's */
	make_directed(g.mad, MAD_GET, SMP_SM_INFO, 0, PATH(1, 2));
	assert_int_equal(send_directed(&g, h1), MAD_ARRIVED);
	assert_int_equal(agents_refuse(&g.a, 1, &g.out, g.mad, &g.out), MAD_ANSWERED);
	assert_int_equal(g.out.port, h1);
	assert_int_equal(status_of(g.mad), MAD_STATUS_BAD_ATTRIBUTE);
	make_routed(g.mad, MAD_TRAP, SMP_NOTICE, 0, 0);
	assert_int_equal(send_to(&g, h1, lid_named(&g, "h2", 1)), MAD_ARRIVED);
	assert_int_equal(agents_refuse(&g.a, 1, &g.out, g.mad, &g.out), MAD_LOST);
	end_agents(&g);
}

static const char every_kind[] =
	"Switch 3 \"S-1\" # \"s\" lid 1\n[1] \"H-1\"[1]\n[2] \"R-1\"[1]\n[3] \"S-2\"[1]\n"
	"Switch 2 \"S-2\" # \"t\" lid 2\n[1] \"S-1\"[3]\n"
	"Ca 1 \"H-1\" # \"h\"\n[1] \"S-1\"[1] # lid 3\n"
	"Rt 1 \"R-1\" # \"r\"\n[1] \"S-1\"[2] # lid 4\n";

/* SAN-38: switches, adapters and routers each have an agent of the subnet and one of performance, which answer for their node;
 * what is of another class comes to the port, where its manager may be. */
static void every_kind_of_node_has_its_agents(void **state)
{
	static const struct { const char *name; unsigned port, type; } nodes[] = {
		{ "t", 0, NODE_SWITCH }, { "s", 0, NODE_SWITCH }, { "h", 1, NODE_CA }, { "r", 1, NODE_ROUTER },
	};
	static const uint8_t classes[] = { MAD_CLASS_SA, MAD_CLASS_BM, MAD_CLASS_DEVICE, MAD_CLASS_CM, MAD_CLASS_SNMP };
	struct test_agents g = { .now = 1 };
	uint32_t h;

	parse_fabric(&g.t, every_kind);
	assert_int_equal(agents_init(&g.a, &g.t.f), 0);
	set_up(&g);
	h = port_named(&g.t.f, "h", 1);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		uint32_t n = node_named(&g.t.f, nodes[i].name), port = port_named(&g.t.f, nodes[i].name, nodes[i].port);
		struct mad_address to = { .path = { .dlid = (uint16_t)g.t.f.port[port].lid }, .pkey = PKEY_DEFAULT,
					  .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };
		struct smp_node_info info;

		make_routed(g.mad, MAD_GET, SMP_NODE_INFO, 0, 0);
		assert_int_equal(send_to(&g, h, to.path.dlid), MAD_ANSWERED);
		assert_int_equal(g.out.address.path.slid, to.path.dlid);
		smp_node_info_get(&info, g.mad + SMP_DATA);
		assert_int_equal(info.node_type, nodes[i].type);
		assert_true(info.node_guid == g.t.f.node[n].guid);
		make_routed(g.mad, MAD_GET, 1, 0, 0);
		g.mad[1] = MAD_CLASS_PERF;
		assert_int_equal(agents_mad(&g.a, 1, h, &to, g.mad, &g.out), MAD_ANSWERED);
		assert_int_equal(g.out.address.path.slid, to.path.dlid);
		assert_int_equal(g.mad[1], MAD_CLASS_PERF);
		assert_int_equal(g.mad[3], MAD_GET_RESP);
		assert_int_equal(status_of(g.mad), 0);
		for (size_t c = 0; c < sizeof(classes); c++) {
			make_routed(g.mad, MAD_GET, 1, 0, 0);
			g.mad[1] = classes[c];
			assert_int_equal(agents_mad(&g.a, 1, h, &to, g.mad, &g.out), MAD_ARRIVED);
			assert_int_equal(g.out.port, port);
		}
	}
	end_agents(&g);
}

/* Two hosts, with addresses. */
static void begin_pair(struct test_agents *g, uint32_t *h1, uint32_t *h2)
{
	AGENTS(g, "star", "hosts=2");
	set_up(g);
	*h1 = port_named(&g->t.f, "h1", 1);
	*h2 = port_named(&g->t.f, "h2", 1);
}

static void datagrams_of_qp1(void **state)
{
	struct test_agents g;
	struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };
	uint32_t h1, h2;

	begin_pair(&g, &h1, &h2);
	to.path.dlid = lid_named(&g, "h2", 1);
	fabric_pkeys(&g.t.f, h2)[0] = 0;
	fabric_pkeys(&g.t.f, h2)[7] = 0x7fff;
	make_routed(g.mad, MAD_GET, 1, 0, 0);
	g.mad[1] = MAD_CLASS_SA;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_ARRIVED);
	assert_int_equal(g.out.port, h2);
	assert_int_equal(g.out.pkey_index, 7);
	assert_int_equal(g.out.address.path.slid, lid_named(&g, "h1", 1));
	assert_int_equal(agents_refuse(&g.a, 1, &g.out, g.mad, &g.out), MAD_ANSWERED);
	assert_int_equal(g.out.port, h1);
	to.qkey++;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_QKEY);
	assert_int_equal(g.t.f.port[h2].qkey_violations, 1);
	to.qkey--;
	fabric_pkeys(&g.t.f, h2)[7] = 0x8001;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_PARTITION);
	assert_int_equal(g.t.f.port[h2].pkey_violations, 1);
	/* they need an active link */
	fabric_pkeys(&g.t.f, h2)[7] = PKEY_DEFAULT;
	g.t.f.port[h1].state = PORT_ARMED;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_LOST);
	end_agents(&g);
}

/* ---- routes that are none ---- */

static void expect_lost(struct test_agents *g, uint32_t from, enum mad_loss loss)
{
	assert_int_equal(send_directed(g, from), MAD_LOST);
	assert_int_equal(g->a.lost, loss);
}

static void tricks_with_directed_routes(void **state)
{
	struct test_agents g;
	uint8_t longest[64];
	uint32_t h1;

	AGENTS(&g, "star", "hosts=2");
	h1 = port_named(&g.t.f, "h1", 1);
	memset(longest, 1, sizeof(longest));
	/* an adapter sends by its own port, and forwards nothing */
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(2));
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1, 2, 1));
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	/* ports that a switch does not have, its port 0, and one without a link */
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1, 255));
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1, 0));
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	/* hop counts and pointers beyond the path, or in the middle of it */
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1, 2));
	g.mad[7] = 64;
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	g.mad[7] = 255;
	g.mad[6] = 255;
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1, 2));
	g.mad[6] = 4;
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	for (uint8_t pointer = 1; pointer <= 2; pointer++) {
		make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1, 2));
		g.mad[6] = pointer;
		expect_lost(&g, h1, LOSS_BAD_ROUTE);
	}
	/* a response in the middle of its way back */
	make_directed(g.mad, MAD_GET_RESP, SMP_NODE_INFO, 0, PATH(1, 2));
	g.mad[4] = 0x80;
	g.mad[6] = 2;
	g.mad[192 + 1] = 1;
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	/* by another port than it came */
	g.mad[6] = 3;
	g.mad[192 + 2] = 2;
	expect_lost(&g, h1, LOSS_BAD_ROUTE);
	end_agents(&g);
}

/* A Set whose effect is seen, though no response comes back. */
static void light(struct test_agents *g, const uint8_t *path, unsigned hops)
{
	make_directed(g->mad, MAD_SET, SMP_LED_INFO, 0, path, hops);
	g->mad[SMP_DATA] = 0x80;
}

static bool any_is_lit(const struct test_agents *g)
{
	for (uint32_t n = 0; n < g->t.f.nodes; n++) {
		if (g->t.f.node[n].led)
			return true;
	}
	return false;
}

static void nothing_is_done_by_what_has_no_route(void **state)
{
	struct test_agents g;

	AGENTS(&g, "star", "hosts=2");
	light(&g, PATH(1, 2, 1));
	expect_lost(&g, port_named(&g.t.f, "h1", 1), LOSS_BAD_ROUTE);
	assert_false(any_is_lit(&g));
	light(&g, PATH(1));
	g.mad[6] = 1;
	expect_lost(&g, port_named(&g.t.f, "s1", 0), LOSS_BAD_ROUTE);
	assert_false(any_is_lit(&g));
	light(&g, PATH(1, 2));
	assert_int_equal(send_directed(&g, port_named(&g.t.f, "h1", 1)), MAD_ANSWERED);
	assert_true(any_is_lit(&g));
	end_agents(&g);
}

/* Round a ring of three switches until the path is used up. */
static void a_route_in_circles_ends(void **state)
{
	struct test_agents g;
	uint8_t path[SMP_HOPS_MOST];
	uint32_t port, node;

	AGENTS(&g, "torus", "size=3", "hosts=1");
	port = port_named(&g.t.f, "h1", 1);
	path[0] = 1;
	node = g.t.f.owner[fabric_peer(&g.t.f, port)];
	for (unsigned i = 1; i < SMP_HOPS_MOST; i++) {
		uint32_t next = PORT_NONE;

		for (unsigned n = 1; n <= g.t.f.place[node].ports && next == PORT_NONE; n++) {
			uint32_t peer = fabric_peer(&g.t.f, fabric_port_index(&g.t.f, node, n));

			if (peer == PORT_NONE || !fabric_is_switch(&g.t.f, g.t.f.owner[peer]))
				continue;
			next = peer;
			path[i] = (uint8_t)n;
		}
		node = g.t.f.owner[next];
	}
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, path, SMP_HOPS_MOST);
	assert_int_equal(send_directed(&g, port), MAD_ANSWERED);
	assert_int_equal(g.mad[6], 0);
	/* a hop more, whose port would be the first byte behind the path */
	light(&g, path, SMP_HOPS_MOST);
	g.mad[7] = SMP_HOPS_MOST + 1;
	g.mad[192] = path[SMP_HOPS_MOST - 1];
	expect_lost(&g, port, LOSS_BAD_ROUTE);
	assert_false(any_is_lit(&g));
	end_agents(&g);
}

/* Nobody sends in another one's name, nor gets what others asked for. */
static void sources_that_are_not_the_senders(void **state)
{
	struct test_agents g;
	struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };
	struct smp_head head;
	uint32_t h1;

	AGENTS(&g, "star", "hosts=2");
	set_up(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	to.path.slid = to.path.dlid = lid_named(&g, "h2", 1);
	make_routed(g.mad, MAD_GET, 1, 0, 0);
	g.mad[1] = MAD_CLASS_SA;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_ARRIVED);
	assert_int_equal(g.out.address.path.slid, lid_named(&g, "h1", 1));
	to = (struct mad_address){ .path = { .slid = lid_named(&g, "h2", 1), .dlid = lid_named(&g, "s1", 0) } };
	make_routed(g.mad, MAD_GET, SMP_NODE_INFO, 0, 0);
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_ANSWERED);
	assert_int_equal(g.out.port, h1);
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1));
	smp_head_get(&head, g.mad);
	head.dr_slid = lid_named(&g, "h2", 1);
	smp_head_put(&head, g.mad);
	assert_int_equal(send_directed(&g, h1), MAD_ARRIVED);
	assert_int_equal(g.mad[3], MAD_GET_RESP);
	end_agents(&g);
}

static void senders_that_are_none(void **state)
{
	struct test_agents g;

	AGENTS(&g, "star", "hosts=2");
	make_directed(g.mad, MAD_GET, SMP_NODE_INFO, 0, NULL, 0);
	expect_lost(&g, g.t.f.ports, LOSS_NO_PORT);
	expect_lost(&g, PORT_NONE, LOSS_NO_PORT);
	expect_lost(&g, port_named(&g.t.f, "s1", 1), LOSS_NO_PORT);
	expect_lost(&g, port_named(&g.t.f, "h1", 0), LOSS_NO_PORT);
	end_agents(&g);
}

static void queue_pairs_that_are_not_of_the_class(void **state)
{
	static const struct {
		uint8_t mgmt_class;
		uint32_t src, dest;
	} rows[] = {
		{ MAD_CLASS_SUBN_LID, 1, 1 }, { MAD_CLASS_SUBN_DIRECTED, 1, 1 }, { MAD_CLASS_SUBN_LID, 0, 1 },
		{ MAD_CLASS_SUBN_LID, 1, 0 }, { MAD_CLASS_SUBN_LID, 0, 7 }, { MAD_CLASS_SUBN_LID, 7, 0 }, { MAD_CLASS_SA, 1, 0 },
		{ MAD_CLASS_SA, 0, 1 }, { MAD_CLASS_PERF, 0, 0 }, { MAD_CLASS_PERF, 7, 0 }, { MAD_CLASS_SUBN_LID, 7, 1 },
		{ MAD_CLASS_SA, 7, 7 },
	};
	struct test_agents g;

	AGENTS(&g, "star", "hosts=2");
	set_up(&g);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = rows[i].src, .dest_qpn = rows[i].dest,
					  .qkey = GSI_QKEY };

		to.path.dlid = lid_named(&g, "h2", 1);
		make_routed(g.mad, MAD_TRAP, SMP_NOTICE, 0, 0);
		g.mad[1] = rows[i].mgmt_class;
		assert_int_equal(agents_mad(&g.a, 1, port_named(&g.t.f, "h1", 1), &to, g.mad, &g.out), MAD_LOST);
		assert_int_equal(g.a.lost, LOSS_QUEUE);
	}
	end_agents(&g);
}

/* Any QP speaks with QP1, which has a Q_Key; and QP1 with any QP, which looks at its own by itself. */
static void other_queue_pairs_speak_with_qp1(void **state)
{
	struct test_agents g;
	struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = 7, .dest_qpn = 1, .qkey = GSI_QKEY };
	uint32_t h1, h2;

	begin_pair(&g, &h1, &h2);
	to.path.dlid = lid_named(&g, "h2", 1);
	make_routed(g.mad, MAD_GET, SMP_NOTICE, 0, 0);
	g.mad[1] = MAD_CLASS_SA;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_ARRIVED);
	assert_int_equal(g.out.port, h2);
	assert_int_equal(g.out.address.src_qpn, 7);
	/* nobody is there for it: who asked is told */
	assert_int_equal(agents_refuse(&g.a, 1, &g.out, g.mad, &g.out), MAD_ANSWERED);
	assert_int_equal(g.out.port, h1);
	assert_int_equal(g.out.address.src_qpn, 1);
	assert_int_equal(g.out.address.dest_qpn, 7);
	make_routed(g.mad, MAD_GET, 1, 0, 0);
	g.mad[1] = MAD_CLASS_PERF;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_ANSWERED);
	assert_int_equal(g.out.port, h1);
	assert_int_equal(g.out.address.dest_qpn, 7);
	/* what an agent would answer at QP1 is another QP's */
	to = (struct mad_address){ .path = to.path, .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 7, .qkey = 5 };
	make_routed(g.mad, MAD_GET, 1, 0, 0);
	g.mad[1] = MAD_CLASS_PERF;
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_ARRIVED);
	assert_int_equal(g.out.port, h2);
	assert_int_equal(g.out.address.dest_qpn, 7);
	to = (struct mad_address){ .path = to.path, .pkey = PKEY_DEFAULT, .src_qpn = 7, .dest_qpn = 1, .qkey = 5 };
	assert_int_equal(agents_mad(&g.a, 1, h1, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_QKEY);
	end_agents(&g);
}

/* A port whose receive buffers others hold loses what its agents would answer, of that QP alone. */
static void a_port_without_buffers_does_not_answer(void **state)
{
	struct gsa_tunables t = gsa_defaults;
	struct mad_buffers b;
	struct mad_pool *p;
	struct test_agents g;

	(void)state;
	AGENTS(&g, "star", "hosts=2");
	set_up(&g);
	t.fixed = 2;
	mad_buffers_init(&b);
	assert_int_equal(mad_buffers_set(&b, &t), 0);
	p = mad_pool_get(&b, port_named(&g.t.f, "h2", 1));
	g.a.buffers = &b;
	for (unsigned qpn = 0; qpn < 2; qpn++) {
		struct mad_address to = { .pkey = PKEY_DEFAULT, .src_qpn = qpn, .dest_qpn = qpn, .qkey = GSI_QKEY };

		to.path.dlid = lid_named(&g, "h2", 1);
		for (int held = 0; held <= 2; held++) {
			make_routed(g.mad, MAD_GET, qpn ? 1 : SMP_NODE_INFO, 0, 0);
			g.mad[1] = qpn ? MAD_CLASS_PERF : MAD_CLASS_SUBN_LID;
			assert_int_equal(agents_mad(&g.a, 1, port_named(&g.t.f, "h1", 1), &to, g.mad, &g.out),
					 held < 2 ? MAD_ANSWERED : MAD_LOST);
			assert_int_equal(g.a.lost, held < 2 ? LOSS_NONE : LOSS_NO_BUFFER);
			mad_pool_arrive(1, p, qpn, 0);
		}
	}
	mad_pool_put(&b, p);
	mad_buffers_fini(&b);
	end_agents(&g);
}

/* ---- M_Keys ---- */

#define KEY 0x1234567890abcdefull

static void keys_guard_ports(void **state)
{
	struct test_agents g;
	struct fabric_port *p;
	uint32_t h1;

	AGENTS(&g, "star", "hosts=2");
	h1 = port_named(&g.t.f, "h1", 1);
	p = &g.t.f.port[port_named(&g.t.f, "h2", 1)];
	p->m_key = KEY;
	for (p->m_key_protect = 0; p->m_key_protect < 4; p->m_key_protect++) {
		bool reads = p->m_key_protect < 2;

		make_directed(g.mad, MAD_GET, SMP_PORT_INFO, 0, PATH(1, 2));
		assert_int_equal(send_directed(&g, h1), reads ? MAD_ANSWERED : MAD_LOST);
		if (reads)
			assert_true(wire_get(g.mad, 64, 0, 64) == (p->m_key_protect ? 0 : KEY));
		make_directed(g.mad, MAD_SET, SMP_LED_INFO, 0, PATH(1, 2));
		wire_put(g.mad, KEY + 1, 24, 0, 64);
		expect_lost(&g, h1, LOSS_M_KEY);
		make_directed(g.mad, MAD_GET, SMP_PORT_INFO, 0, PATH(1, 2));
		wire_put(g.mad, KEY, 24, 0, 64);
		assert_int_equal(send_directed(&g, h1), MAD_ANSWERED);
		assert_true(wire_get(g.mad, 64, 0, 64) == KEY);
	}
	assert_int_equal(p->m_key_violations, 6);
	/* a directed route through a port asks for no key of it */
	p->m_key = 0;
	g.t.f.port[port_named(&g.t.f, "s1", 0)].m_key = KEY;
	make_directed(g.mad, MAD_SET, SMP_LED_INFO, 0, PATH(1, 2));
	assert_int_equal(send_directed(&g, h1), MAD_ANSWERED);
	make_directed(g.mad, MAD_SET, SMP_LED_INFO, 0, PATH(1));
	expect_lost(&g, h1, LOSS_M_KEY);
	p->m_key_violations = UINT16_MAX;
	p->m_key = KEY;
	make_directed(g.mad, MAD_SET, SMP_LED_INFO, 0, PATH(1, 2));
	expect_lost(&g, h1, LOSS_M_KEY);
	assert_int_equal(p->m_key_violations, UINT16_MAX);
	end_agents(&g);
}

static void a_lease_ends_unless_its_owner_is_alive(void **state)
{
	struct test_agents g;
	struct fabric_port *p;
	uint32_t h1;

	AGENTS(&g, "star", "hosts=2");
	h1 = port_named(&g.t.f, "h1", 1);
	p = &g.t.f.port[port_named(&g.t.f, "h2", 1)];
	p->m_key = KEY;
	p->m_key_protect = 3;
	p->m_key_lease = 10;
	assert_true(agents_deadline(&g.a) == WTIME_NEVER);
	for (int alive = 1; alive >= 0; alive--) {
		g.now += 100 * WTIME_S;
		make_directed(g.mad, MAD_GET, SMP_PORT_INFO, 0, PATH(1, 2));
		expect_lost(&g, h1, LOSS_M_KEY);
		assert_true(agents_deadline(&g.a) == g.now + 10 * WTIME_S);
		g.now += 9 * WTIME_S;
		make_directed(g.mad, MAD_GET, SMP_PORT_INFO, 0, PATH(1, 2));
		wire_put(g.mad, alive ? KEY : 1, 24, 0, 64);
		assert_int_equal(send_directed(&g, h1), alive ? MAD_ANSWERED : MAD_LOST);
		g.now += 1 * WTIME_S;
		agents_expire(&g.a, g.now);
		assert_int_equal(p->m_key_protect, alive ? 3 : 0);
	}
	assert_true(agents_deadline(&g.a) == WTIME_NEVER);
	make_directed(g.mad, MAD_GET, SMP_PORT_INFO, 0, PATH(1, 2));
	assert_int_equal(send_directed(&g, h1), MAD_ANSWERED);
	assert_true(wire_get(g.mad, 64, 0, 64) == KEY);
	end_agents(&g);
}

/* ---- traps ---- */

static void start_traps(struct test_agents *g)
{
	AGENTS(g, "line", "switches=3");
	set_up(g);
	for (uint32_t port = 0; port < g->t.f.ports; port++)
		g->t.f.port[port].sm_lid = g->t.f.port[port].lid ? lid_named(g, "h1", 1) : 0;
}

static struct smp_notice next_trap(struct test_agents *g)
{
	struct smp_notice n;

	assert_true(agents_output(&g->a, g->now, g->mad, &g->out));
	assert_int_equal(g->mad[1], MAD_CLASS_SUBN_LID);
	assert_int_equal(g->mad[3], MAD_TRAP);
	assert_int_equal(g->out.port, port_named(&g->t.f, "h1", 1));
	smp_notice_get(&n, g->mad + SMP_DATA);
	return n;
}

static void a_link_that_changes_is_told_until_it_is_heard(void **state)
{
	struct test_agents g;
	struct smp_notice n;
	struct mad_header h;

	start_traps(&g);
	agents_set_link(&g.a, g.now, port_named(&g.t.f, "h3", 1), false);
	assert_true(agents_deadline(&g.a) <= g.now);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 128);
	assert_int_equal(n.type, 1);
	assert_int_equal(n.producer, 2);
	assert_int_equal(n.issuer_lid, lid_named(&g, "s3", 0));
	assert_int_equal(n.data_details[0] << 8 | n.data_details[1], n.issuer_lid);
	assert_int_equal(g.out.address.path.slid, n.issuer_lid);
	assert_false(agents_output(&g.a, g.now, g.mad, &g.out));
	/* again after the subnet's timeout of 4.096 us << 18 */
	assert_true(agents_deadline(&g.a) == g.now + (4096ull << 18));
	g.now += 4096ull << 18;
	n = next_trap(&g);
	mad_header_parse(&h, g.mad);
	h.method = MAD_TRAP_REPRESS;
	mad_header_build(&h, g.mad);
	assert_int_equal(send_to(&g, port_named(&g.t.f, "h1", 1), n.issuer_lid), MAD_TAKEN);
	assert_true(agents_deadline(&g.a) == WTIME_NEVER);
	g.now += 100 * WTIME_S;
	assert_false(agents_output(&g.a, g.now, g.mad, &g.out));
	end_agents(&g);
}

static uint64_t counted(const struct test_agents *g, uint32_t port, enum port_count c)
{
	return g->a.counters[port].total[c];
}

/* Beyond the thresholds that the manager has set, at a switch's port and at an adapter's. */
static void errors_of_links_are_told(void **state)
{
	static const struct {
		enum link_error e;
		uint32_t times, passed;
		enum port_count counts;
	} rows[] = {
		{ LINK_SPOILS, 8, 0, COUNT_INTEGRITY }, { LINK_SPOILS, 9, 1, COUNT_INTEGRITY },
		{ LINK_SPOILS, 18, 2, COUNT_INTEGRITY }, { LINK_OVERRUNS, 2, 0, COUNT_OVERRUNS },
		{ LINK_OVERRUNS, 3, 1, COUNT_OVERRUNS }, { LINK_IS_SILENT, 1, 1, COUNT_LINK_RECOVERIES },
	};

	for (int is_host = 0; is_host < 2; is_host++) {
		struct test_agents g;
		const char *name = is_host ? "h3" : "s3";
		struct mad_header h;
		uint32_t port, recoveries = 0;

		start_traps(&g);
		port = is_host ? port_named(&g.t.f, "h3", 1) : fabric_peer(&g.t.f, port_named(&g.t.f, "h3", 1));
		g.t.f.port[port].phy_errors = 8;
		g.t.f.port[port].overrun_errors = 3;
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			uint64_t before = counted(&g, port, rows[i].counts);

			agents_link_error(&g.a, g.now, port, rows[i].e, rows[i].times);
			recoveries += rows[i].passed;
			assert_int_equal(counted(&g, port, rows[i].counts) - before, rows[i].passed);
			assert_int_equal(counted(&g, port, COUNT_LINK_RECOVERIES), recoveries);
			g.now += 10 * WTIME_S;
			if (rows[i].passed) {
				struct smp_notice n = next_trap(&g);

				assert_int_equal(n.trap_number, 129 + rows[i].e);
				assert_int_equal(n.type, 1);
				assert_int_equal(n.producer, is_host ? 1 : 2);
				assert_int_equal(n.issuer_lid, lid_named(&g, name, is_host));
				assert_int_equal(n.data_details[2] << 8 | n.data_details[3], n.issuer_lid);
				assert_int_equal(n.data_details[4], fabric_port_number(&g.t.f, port));
				/* until the manager has heard it */
				g.now += 10 * WTIME_S;
				assert_int_equal(next_trap(&g).trap_number, n.trap_number);
				mad_header_parse(&h, g.mad);
				h.method = MAD_TRAP_REPRESS;
				mad_header_build(&h, g.mad);
				assert_int_equal(send_to(&g, port_named(&g.t.f, "h1", 1), n.issuer_lid), MAD_TAKEN);
				g.now += 10 * WTIME_S;
			}
			assert_false(agents_output(&g.a, g.now, g.mad, &g.out));
		}
		assert_int_equal(counted(&g, port, COUNT_SYMBOL_ERRORS), 8 + 9 + 18);
		assert_int_equal(counted(&g, port, COUNT_RCV_ERRORS), 8 + 9 + 18 + 2 + 3);
		end_agents(&g);
	}
}

static void a_trap_that_nobody_hears_ends(void **state)
{
	struct test_agents g;
	unsigned sent = 0;

	start_traps(&g);
	agents_set_link(&g.a, g.now, port_named(&g.t.f, "h3", 1), false);
	agents_set_link(&g.a, g.now, port_named(&g.t.f, "h3", 1), true);	/* is one trap */
	while (agents_deadline(&g.a) != WTIME_NEVER) {
		g.now = agents_deadline(&g.a);
		sent += agents_output(&g.a, g.now, g.mad, &g.out);
	}
	assert_int_equal(sent, 16);
	/* without a manager there is none */
	for (uint32_t port = 0; port < g.t.f.ports; port++)
		g.t.f.port[port].sm_lid = 0;
	agents_set_link(&g.a, g.now, port_named(&g.t.f, "h3", 1), false);
	assert_true(agents_deadline(&g.a) == WTIME_NEVER);
	end_agents(&g);
}

static void other_traps(void **state)
{
	struct test_agents g;
	struct mad_address to = { .pkey = 0x8123, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };
	struct smp_notice n;
	uint32_t h2;

	start_traps(&g);
	h2 = port_named(&g.t.f, "h2", 1);
	agents_set_sm(&g.a, g.now, h2, true);
	agents_set_sm(&g.a, g.now, h2, true);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 144);
	assert_int_equal(n.data_details[3], lid_named(&g, "h2", 1));
	assert_memory_equal(n.data_details + 6, ((const uint8_t[]){ 0x06, 0x61, 0x4a, 0x4a }), 4);
	assert_int_equal(g.t.f.port[h2].capabilities & CAPABLE_SM, CAPABLE_SM);
	assert_false(agents_output(&g.a, g.now, g.mad, &g.out));
	agents_set_sm(&g.a, g.now, PORT_NONE, true);
	/* a key that is not h3's */
	g.t.f.port[port_named(&g.t.f, "h3", 1)].m_key = KEY;
	make_routed(g.mad, MAD_SET, SMP_LED_INFO, 0x55667788, 0x0102030405060708);
	assert_int_equal(send_to(&g, h2, lid_named(&g, "h3", 1)), MAD_LOST);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 256);
	assert_int_equal(n.type, 2);
	assert_memory_equal(n.data_details + 2, ((const uint8_t[]){ 0, (uint8_t)lid_named(&g, "h2", 1), 0, 0, 2, 0, 0, 0x31, 0x55,
			    0x66, 0x77, 0x88, 1, 2, 3, 4, 5, 6, 7, 8 }), 20);
	/* a partition that it is not in */
	to.path.dlid = lid_named(&g, "h3", 1);
	g.mad[1] = MAD_CLASS_SA;
	assert_int_equal(agents_mad(&g.a, g.now, h2, &to, g.mad, &g.out), MAD_LOST);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 257);
	assert_memory_equal(n.data_details + 2, ((const uint8_t[]){ 0, (uint8_t)lid_named(&g, "h2", 1), 0,
			    (uint8_t)lid_named(&g, "h3", 1), 0, 0, 0x81, 0x23, 0, 0, 0, 1, 0, 0, 0, 1 }), 16);
	/* a Q_Key that is not QP1's; a port of neither partition nor key tells of the partition */
	to.qkey = 0x11223344;
	to.path.sl = 5;
	g.mad[1] = MAD_CLASS_SA;
	assert_int_equal(agents_mad(&g.a, g.now, h2, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_PARTITION);
	to.pkey = PKEY_DEFAULT;
	assert_int_equal(agents_mad(&g.a, g.now, h2, &to, g.mad, &g.out), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_QKEY);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 258);
	assert_memory_equal(n.data_details + 2, ((const uint8_t[]){ 0, (uint8_t)lid_named(&g, "h2", 1), 0,
			    (uint8_t)lid_named(&g, "h3", 1), 0x11, 0x22, 0x33, 0x44, 0x50, 0, 0, 1, 0, 0, 0, 1 }), 16);
	end_agents(&g);
}

/* What processes tell of packets: the walk finds who has stopped them, and nobody else counts. */
static void keys_of_data(void **state)
{
	struct test_agents g;
	struct mad_address to = { .pkey = 0x8123, .src_qpn = 0x10001, .dest_qpn = 0x20002, .qkey = 0x11223344 };
	struct smp_notice n;
	uint32_t h2, h3, in;

	start_traps(&g);
	h2 = port_named(&g.t.f, "h2", 1);
	h3 = port_named(&g.t.f, "h3", 1);
	to.path = (struct packet_path){ .dlid = lid_named(&g, "h3", 1), .sl = 3, .slid = 77 };
	fabric_pkeys(&g.t.f, h2)[3] = 0x8123;
	agents_bad_key(&g.a, g.now, h2, &to, false, 5, PORT_NONE);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 257);
	assert_int_equal(n.issuer_lid, lid_named(&g, "h3", 1));
	assert_memory_equal(n.data_details + 2, ((const uint8_t[]){ 0, (uint8_t)lid_named(&g, "h2", 1), 0,
			    (uint8_t)lid_named(&g, "h3", 1), 0, 0, 0x81, 0x23, 0x30, 1, 0, 1, 0, 2, 0, 2 }), 16);
	assert_int_equal(g.t.f.port[h3].pkey_violations, 5);
	for (unsigned i = 0; i < 9; i++) {
		unsigned counted = 5 + i * AGENT_BAD_KEYS;

		assert_int_equal(g.t.f.port[h3].pkey_violations, counted < UINT16_MAX ? counted : UINT16_MAX);
		agents_bad_key(&g.a, g.now, h2, &to, false, 1ull << 40, PORT_NONE);
	}
	/* a switch on the way */
	in = fabric_peer(&g.t.f, h2);
	g.t.f.port[in].enforce = ENFORCE_IN;
	agents_bad_key(&g.a, g.now, h2, &to, false, 2, PORT_NONE);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 259);
	assert_int_equal(n.issuer_lid, g.t.f.port[g.t.f.place[g.t.f.owner[in]].first_port].lid);
	assert_memory_equal(n.data_details + 2, ((const uint8_t[]){ 0, (uint8_t)lid_named(&g, "h2", 1), 0,
			    (uint8_t)lid_named(&g, "h3", 1), 0x81, 0x23, 0x30, 1, 0, 1, 0, 2, 0, 2 }), 14);
	assert_memory_equal(n.data_details + 48, ((const uint8_t[]){ 0, (uint8_t)n.issuer_lid,
			    (uint8_t)fabric_port_number(&g.t.f, in) }), 3);
	assert_int_equal(g.t.f.port[in].pkey_violations, 2);
	/* keys that ports let in are bad by the word of the port that they came to alone */
	to.pkey = PKEY_DEFAULT;
	g.t.f.port[h3].pkey_violations = 0;
	agents_bad_key(&g.a, g.now, h2, &to, false, 1, PORT_NONE);
	agents_bad_key(&g.a, g.now, h2, &to, true, 1, h2);
	agents_bad_key(&g.a, g.now, PORT_NONE, &to, true, 1, h3);
	assert_int_equal(g.t.f.port[h3].pkey_violations + g.t.f.port[h3].qkey_violations, 0);
	agents_bad_key(&g.a, g.now, h2, &to, false, 1, h3);
	assert_int_equal(g.t.f.port[h3].pkey_violations, 1);
	agents_bad_key(&g.a, g.now, h2, &to, true, 3, h3);
	assert_int_equal(g.t.f.port[h3].qkey_violations, 3);
	n = next_trap(&g);
	assert_int_equal(n.trap_number, 258);
	assert_memory_equal(n.data_details + 6, ((const uint8_t[]){ 0x11, 0x22, 0x33, 0x44 }), 4);
	end_agents(&g);
}

static unsigned all_violations(const struct test_agents *g)
{
	unsigned sum = 0;

	for (uint32_t port = 0; port < g->t.f.ports; port++)
		sum += g->t.f.port[port].pkey_violations + g->t.f.port[port].qkey_violations;
	return sum;
}

/* h1 says that packets of h2, of which it knows the numbers alone, have come to it. */
static void a_port_speaks_for_itself_alone(void **state)
{
	struct test_agents g;
	struct mad_address to = { .pkey = 0x8123, .src_qpn = 0x20001, .dest_qpn = 0x10001 };
	uint32_t h1, h2, in;

	start_traps(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	h2 = port_named(&g.t.f, "h2", 1);
	in = fabric_peer(&g.t.f, h2);
	fabric_pkeys(&g.t.f, h2)[3] = 0x8123;
	to.path.dlid = lid_named(&g, "h3", 1);
	for (unsigned is_qkey = 0; is_qkey < 2; is_qkey++)
		agents_bad_key(&g.a, g.now, h2, &to, is_qkey, 7, h1);
	g.t.f.port[in].enforce = ENFORCE_IN;
	agents_bad_key(&g.a, g.now, h2, &to, false, 7, h1);
	to.path.dlid = lid_named(&g, "h1", 1);
	agents_bad_key(&g.a, g.now, h2, &to, false, 7, h1);
	assert_int_equal(all_violations(&g), 0);
	assert_int_equal(g.a.traps, 0);
	/* nor does a port send a P_Key that it has not */
	to.pkey = 0x8124;
	agents_bad_key(&g.a, g.now, h2, &to, false, 7, PORT_NONE);
	g.t.f.port[in].enforce = 0;
	agents_bad_key(&g.a, g.now, h2, &to, false, 7, PORT_NONE);
	assert_int_equal(all_violations(&g), 0);
	assert_int_equal(g.a.traps, 0);
	/* what gets to it counts there */
	agents_bad_key(&g.a, g.now, h2, &to, true, 7, h1);
	assert_int_equal(g.t.f.port[h1].pkey_violations, 7);
	assert_int_equal(all_violations(&g), 7);
	end_agents(&g);
}

/* From the port, with this value of a P_Key. */
static enum mad_outcome send_keyed(struct test_agents *g, uint32_t from, uint16_t dlid, uint16_t pkey)
{
	struct mad_address to = { .path = { .dlid = dlid }, .pkey = pkey, .src_qpn = 1, .dest_qpn = 1, .qkey = GSI_QKEY };

	make_routed(g->mad, MAD_GET, 1, 0, 0);
	g->mad[1] = MAD_CLASS_SA;
	return agents_mad(&g->a, g->now, from, &to, g->mad, &g->out);
}

static void repress(struct test_agents *g, uint16_t trap)
{
	struct smp_notice n = { .trap_number = trap };

	make_routed(g->mad, MAD_TRAP_REPRESS, SMP_NOTICE, 0, 0);
	smp_notice_put(&n, g->mad + SMP_DATA);
}

static void an_entry_without_a_key_alarms_nobody(void **state)
{
	struct test_agents g;
	uint32_t h3;

	start_traps(&g);
	h3 = port_named(&g.t.f, "h3", 1);
	for (unsigned pkey = 0; pkey <= 0x8000; pkey += 0x8000) {
		assert_int_equal(send_keyed(&g, port_named(&g.t.f, "h2", 1), g.t.f.port[h3].lid, (uint16_t)pkey), MAD_LOST);
		assert_int_equal(g.a.lost, LOSS_PARTITION);
	}
	assert_int_equal(g.t.f.port[h3].pkey_violations, 0);
	assert_true(agents_deadline(&g.a) == WTIME_NEVER);
	end_agents(&g);
}

/* However often its manager hears it. */
static void one_trap_in_the_timeout(void **state)
{
	struct test_agents g;
	uint16_t h3;
	unsigned sent = 0;
	uint32_t h1, h2;

	start_traps(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	h2 = port_named(&g.t.f, "h2", 1);
	h3 = lid_named(&g, "h3", 1);
	for (int i = 0; i < 400; i++) {
		assert_int_equal(send_keyed(&g, h2, h3, 0x8123), MAD_LOST);
		while (agents_output(&g.a, g.now, g.mad, &g.out)) {
			sent++;
			repress(&g, 257);
			if (i % 2)
				assert_int_equal(send_to(&g, h1, h3), MAD_TAKEN);
		}
		g.now += (4096ull << 18) / 100;
	}
	assert_in_range(sent, 3, 5);
	end_agents(&g);
}

/* A link that changes again before the manager has heard of it the first time. */
static void what_was_not_told_is_not_heard(void **state)
{
	struct test_agents g;
	uint32_t h3;

	start_traps(&g);
	h3 = port_named(&g.t.f, "h3", 1);
	agents_set_link(&g.a, g.now, h3, false);
	assert_int_equal(next_trap(&g).trap_number, 128);
	agents_set_link(&g.a, g.now, h3, true);
	repress(&g, 128);
	assert_int_equal(send_to(&g, port_named(&g.t.f, "h1", 1), lid_named(&g, "s3", 0)), MAD_TAKEN);
	assert_true(agents_deadline(&g.a) == g.now + (4096ull << 18));
	g.now = agents_deadline(&g.a);
	assert_int_equal(next_trap(&g).trap_number, 128);
	end_agents(&g);
}

/* With bad keys, to all that have a LID; how many traps are under way then. */
static uint32_t flood(struct test_agents *g, uint32_t from)
{
	for (uint32_t port = 0; port < g->t.f.ports; port++) {
		if (port != from && g->t.f.port[port].lid)
			assert_int_equal(send_keyed(g, from, g->t.f.port[port].lid, 0x8123), MAD_LOST);
	}
	return g->a.traps;
}

static void bad_keys_leave_room_for_others(void **state)
{
	struct test_agents g;
	uint32_t h1, last = 0;
	uint16_t h9;
	unsigned hosts = 0;

	AGENTS(&g, "fat-tree", "ports=40");
	set_up(&g);
	for (uint32_t port = 0; port < g.t.f.ports; port++)
		g.t.f.port[port].sm_lid = g.t.f.port[port].lid ? lid_named(&g, "h1", 1) : 0;
	h1 = port_named(&g.t.f, "h1", 1);
	h9 = lid_named(&g, "h9", 1);
	for (uint32_t port = h1; g.a.traps < AGENT_DATA_ALARMS && hosts < 20; port++) {
		if (!g.t.f.port[port].lid || fabric_is_switch(&g.t.f, g.t.f.owner[port]))
			continue;
		hosts++;
		assert_in_range(flood(&g, port), last + 1, last + AGENT_SHARE);
		last = g.a.traps;
	}
	assert_int_equal(hosts, AGENT_DATA_ALARMS / AGENT_SHARE);
	assert_int_equal(last, AGENT_DATA_ALARMS);
	assert_int_equal(flood(&g, port_named(&g.t.f, "h40", 1)), AGENT_DATA_ALARMS);
	g.t.f.port[port_named(&g.t.f, "h9", 1)].m_key = KEY;
	make_routed(g.mad, MAD_SET, SMP_LED_INFO, 0, KEY + 1);
	assert_int_equal(send_to(&g, h1, h9), MAD_LOST);
	assert_int_equal(g.a.traps, AGENT_DATA_ALARMS + 1);
	agents_set_link(&g.a, g.now, port_named(&g.t.f, "h8", 1), false);
	assert_int_equal(g.a.traps, AGENT_DATA_ALARMS + 2);
	assert_int_equal(next_trap(&g).trap_number, 128);
	assert_int_equal(next_trap(&g).trap_number, 256);
	end_agents(&g);
}

/* A manager that says nothing, and bad keys without end: the place of the trap is free from time to time. */
static void a_flood_does_not_keep_its_place(void **state)
{
	struct test_agents g;
	uint32_t h2;
	unsigned sent = 0;

	start_traps(&g);
	h2 = port_named(&g.t.f, "h2", 1);
	do {
		assert_int_equal(send_keyed(&g, h2, lid_named(&g, "h3", 1), 0x8123), MAD_LOST);
		assert_true(agents_output(&g.a, g.now, g.mad, &g.out));
		g.now += 4096ull << 18;
	} while (++sent < 20 && g.a.traps);
	assert_int_equal(sent, 16);
	end_agents(&g);
}

/* ---- links with faults ---- */

enum { MILLION = 1000000, TRIES = 64 };

/* What was sent over the link of h1 has come, or is an error of the port at its other end. */
static void check_link_counts(const struct test_agents *g, uint32_t from, uint64_t sent, uint64_t lost)
{
	uint32_t to = fabric_peer(&g->t.f, from);

	assert_int_equal(counted(g, from, COUNT_XMIT_PKTS), sent);
	assert_int_equal(counted(g, from, COUNT_XMIT_DATA), 72 * sent);
	assert_int_equal(counted(g, to, COUNT_RCV_PKTS), sent - lost);
	assert_int_equal(counted(g, to, COUNT_RCV_DATA), 72 * (sent - lost));
	assert_int_equal(counted(g, to, COUNT_SYMBOL_ERRORS), lost);
	assert_int_equal(counted(g, to, COUNT_RCV_ERRORS), lost);
}

/* Requests from h1 that are lost on their way, or whose answers are, as bits. */
static uint64_t ask_often(struct test_agents *g, enum mad_outcome (*ask)(struct test_agents *))
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		enum mad_outcome outcome = ask(g);

		assert_true(outcome == MAD_ANSWERED || (outcome == MAD_LOST && g->a.lost == LOSS_FAULT));
		lost |= (uint64_t)(outcome == MAD_LOST) << i;
	}
	return lost;
}

/* As a process of this number would lose them. */
static uint64_t drawn(const struct test_agents *g, uint32_t out)
{
	struct passage p = { .link = { { 0 } } };
	uint32_t back = fabric_peer(&g->t.f, out);
	uint64_t lost = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		bool is_lost = passage_loses(&p, &g->t.f, out, PASSAGE_WEFTD) || passage_loses(&p, &g->t.f, back, PASSAGE_WEFTD);

		lost |= (uint64_t)is_lost << i;
	}
	return lost;
}

static enum mad_outcome ask_directed(struct test_agents *g)
{
	make_directed(g->mad, MAD_GET, SMP_NODE_INFO, 0, PATH(1));
	return send_directed(g, port_named(&g->t.f, "h1", 1));
}

static enum mad_outcome ask_routed(struct test_agents *g)
{
	make_routed(g->mad, MAD_GET, SMP_NODE_INFO, 0, 0);
	return send_to(g, port_named(&g->t.f, "h1", 1), lid_named(g, "s2", 0));
}

static enum mad_outcome ask_by_qp1(struct test_agents *g)
{
	struct mad_address to = { .path = { .dlid = lid_named(g, "h2", 1) }, .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1,
				  .qkey = GSI_QKEY };

	make_routed(g->mad, MAD_GET, 1, 0, 0);
	g->mad[1] = MAD_CLASS_PERF;
	return agents_mad(&g->a, g->now, port_named(&g->t.f, "h1", 1), &to, g->mad, &g->out);
}

/* A class of which the port at the other end has no agent. */
static void ask_class(struct test_agents *g, uint8_t mgmt_class, struct mad_arrival *at)
{
	struct mad_address to = { .path = { .dlid = lid_named(g, "h2", 1) }, .pkey = PKEY_DEFAULT, .src_qpn = 1, .dest_qpn = 1,
				  .qkey = GSI_QKEY };

	make_routed(g->mad, MAD_GET, 1, 0, 0);
	g->mad[1] = mgmt_class;
	assert_int_equal(agents_mad(&g->a, g->now, port_named(&g->t.f, "h1", 1), &to, g->mad, at), MAD_ARRIVED);
}

static void links_with_faults_lose_mads(void **state)
{
	static enum mad_outcome (*const kinds[])(struct test_agents *) = { ask_directed, ask_routed, ask_by_qp1 };

	(void)state;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct test_agents g;
		uint32_t h1, s1;
		uint64_t lost;

		AGENTS(&g, "line", "switches=2");
		set_up(&g);
		h1 = port_named(&g.t.f, "h1", 1);
		s1 = fabric_peer(&g.t.f, h1);
		agents_set_fault(&g.a, s1, MILLION / 4, 0, 7);
		lost = ask_often(&g, kinds[i]);
		assert_true(lost && ~lost);
		assert_true(lost == drawn(&g, h1));
		assert_int_equal(g.a.losses[LOSS_FAULT], __builtin_popcountll(lost));
		check_link_counts(&g, h1, TRIES, counted(&g, s1, COUNT_SYMBOL_ERRORS));
		check_link_counts(&g, s1, counted(&g, s1, COUNT_RCV_PKTS), counted(&g, h1, COUNT_SYMBOL_ERRORS));
		assert_int_equal(counted(&g, s1, COUNT_SYMBOL_ERRORS) + counted(&g, h1, COUNT_SYMBOL_ERRORS),
				 __builtin_popcountll(lost));
		/* a fault that is set again begins again, and another seed is another fault */
		agents_set_fault(&g.a, h1, MILLION / 4, 0, 7);
		assert_true(ask_often(&g, kinds[i]) == lost);
		agents_set_fault(&g.a, h1, MILLION / 4, 0, 8);
		assert_true(ask_often(&g, kinds[i]) != lost);
		agents_set_fault(&g.a, h1, 0, 0, 0);
		assert_int_equal(ask_often(&g, kinds[i]), 0);
		end_agents(&g);
	}
}

/* It is spoilt at the first link: those behind carry nothing, and the switch that would stop it counts nothing. */
static void a_lost_mad_goes_no_further(void **state)
{
	struct test_agents g;
	uint32_t h1, s1;

	(void)state;
	AGENTS(&g, "line", "switches=2");
	set_up(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	s1 = fabric_peer(&g.t.f, h1);
	g.t.f.port[s1].enforce = ENFORCE_IN;
	fabric_pkeys(&g.t.f, s1)[0] = 0;
	agents_set_fault(&g.a, h1, MILLION, 0, 7);
	assert_int_equal(ask_by_qp1(&g), MAD_LOST);
	assert_int_equal(g.a.lost, LOSS_FAULT);
	check_link_counts(&g, h1, 1, 1);
	assert_int_equal(counted(&g, s1, COUNT_RCV_CONSTRAINT), 0);
	assert_int_equal(g.t.f.port[s1].pkey_violations, 0);
	g.t.f.port[s1].enforce = 0;
	assert_int_equal(ask_routed(&g), MAD_LOST);
	check_link_counts(&g, h1, 2, 2);
	for (uint32_t port = 0; port < g.t.f.ports; port++)
		assert_true(port == h1 || !counted(&g, port, COUNT_XMIT_PKTS));
	end_agents(&g);
}

/* A link on which a MAD is 1 ms: each takes its turn there, also behind data; too many are lost, and counted. */
static void slow_links_say_when_a_mad_is_there(void **state)
{
	static enum mad_outcome (*const kinds[])(struct test_agents *) = { ask_directed, ask_routed, ask_by_qp1 };
	enum { MAD_KBPS = 72 * 32 };

	(void)state;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct test_agents g;
		uint32_t h1, sent = 3;

		AGENTS(&g, "line", "switches=2");
		set_up(&g);
		h1 = port_named(&g.t.f, "h1", 1);
		g.a.traffic = calloc(g.t.f.ports, sizeof(*g.a.traffic));
		assert_non_null(g.a.traffic);
		assert_int_equal(kinds[i](&g), MAD_ANSWERED);
		assert_true(g.out.due == g.now);
		agents_set_fault(&g.a, h1, 0, MAD_KBPS, 7);
		assert_int_equal(kinds[i](&g), MAD_ANSWERED);
		assert_true(g.out.due == g.now + 2 * WTIME_MS);
		assert_int_equal(traffic_read(g.a.traffic, h1, TRAFFIC_WAIT), 0);
		/* behind the first, and behind data */
		assert_true(atomic_load(&g.a.traffic[h1].busy_until) == g.now + WTIME_MS);
		atomic_store(&g.a.traffic[h1].busy_until, g.now + 10 * WTIME_MS);
		assert_int_equal(kinds[i](&g), MAD_ANSWERED);
		assert_true(g.out.due == g.now + 12 * WTIME_MS);
		assert_int_equal(traffic_read(g.a.traffic, h1, TRAFFIC_WAIT), 1);
		while (sent < 1000 && kinds[i](&g) == MAD_ANSWERED)
			sent++;
		assert_int_equal(g.a.lost, LOSS_SLOW);
		assert_in_range(sent, 80, 110);
		assert_int_equal(counted(&g, h1, COUNT_XMIT_PKTS), sent);
		assert_int_equal(traffic_read(g.a.traffic, h1, TRAFFIC_TOO_SLOW), 1);
		/* time alone empties it */
		g.now += WTIME_S;
		assert_int_equal(kinds[i](&g), MAD_ANSWERED);
		assert_true(g.out.due == g.now + 2 * WTIME_MS);
		free(g.a.traffic);
		g.a.traffic = NULL;
		end_agents(&g);
	}
}

/* A response to what was refused goes the way back when the request has come. */
static void slow_links_hold_refusals_up(void **state)
{
	struct test_agents g;
	struct mad_arrival at;
	uint32_t h1;

	(void)state;
	AGENTS(&g, "line", "switches=2");
	set_up(&g);
	h1 = port_named(&g.t.f, "h1", 1);
	g.a.traffic = calloc(g.t.f.ports, sizeof(*g.a.traffic));
	assert_non_null(g.a.traffic);
	agents_set_fault(&g.a, h1, 0, 72 * 32, 7);
	ask_class(&g, 0x09, &at);
	assert_true(at.due == g.now + WTIME_MS);
	assert_int_equal(agents_refuse(&g.a, at.due + 5 * WTIME_MS, &at, g.mad, &at), MAD_ANSWERED);
	assert_true(at.due == g.now + 7 * WTIME_MS);
	free(g.a.traffic);
	g.a.traffic = NULL;
	end_agents(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directed_route_of_no_hop_is_the_own_node),
		cmocka_unit_test(a_directed_route_goes_there_and_back),
		cmocka_unit_test(attributes_that_nobody_has_are_refused),
		cmocka_unit_test(by_lids_there_and_back),
		cmocka_unit_test(directed_in_the_middle),
		cmocka_unit_test(what_is_the_managers_arrives),
		cmocka_unit_test(every_kind_of_node_has_its_agents), cmocka_unit_test(datagrams_of_qp1),
		cmocka_unit_test(tricks_with_directed_routes),
		cmocka_unit_test(nothing_is_done_by_what_has_no_route),
		cmocka_unit_test(a_route_in_circles_ends),
		cmocka_unit_test(senders_that_are_none),
		cmocka_unit_test(queue_pairs_that_are_not_of_the_class),
		cmocka_unit_test(other_queue_pairs_speak_with_qp1),
		cmocka_unit_test(a_port_without_buffers_does_not_answer),
		cmocka_unit_test(sources_that_are_not_the_senders),
		cmocka_unit_test(keys_guard_ports),
		cmocka_unit_test(a_lease_ends_unless_its_owner_is_alive),
		cmocka_unit_test(a_link_that_changes_is_told_until_it_is_heard),
		cmocka_unit_test(errors_of_links_are_told),
		cmocka_unit_test(a_trap_that_nobody_hears_ends),
		cmocka_unit_test(other_traps),
		cmocka_unit_test(keys_of_data),
		cmocka_unit_test(a_port_speaks_for_itself_alone),
		cmocka_unit_test(an_entry_without_a_key_alarms_nobody),
		cmocka_unit_test(one_trap_in_the_timeout),
		cmocka_unit_test(what_was_not_told_is_not_heard),
		cmocka_unit_test(bad_keys_leave_room_for_others),
		cmocka_unit_test(a_flood_does_not_keep_its_place),
		cmocka_unit_test(links_with_faults_lose_mads),
		cmocka_unit_test(slow_links_say_when_a_mad_is_there),
		cmocka_unit_test(slow_links_hold_refusals_up),
		cmocka_unit_test(a_lost_mad_goes_no_further),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
