/* A small subnet manager that knows nothing but MADs: it discovers by directed routes, gives LIDs, writes tables, makes links
 * active; then everybody reaches everybody by LIDs. What it found is what the fabric is. */
#include "agents.h"

#include "fabric/walk.h"

enum { NODES = 64, PATHS = 62 };

struct seen {
	uint64_t guid;
	bool is_switch;
	unsigned ports, hops, first;		/* first: by which the first SMP came */
	uint8_t path[PATHS];
	uint16_t lid[40];			/* by port: of the port, or of port 0 */
	unsigned peer[40], peer_port[40];	/* PORT_NONE: no link */
};

struct manager {
	struct test_agents g;
	uint32_t at;
	struct seen seen[NODES];
	unsigned count;
};

static bool ask(struct manager *m, unsigned method, unsigned attribute, uint32_t modifier, const uint8_t *path, unsigned hops,
		const void *data)
{
	make_directed(m->g.mad, method, attribute, modifier, path, hops);
	if (data)
		memcpy(m->g.mad + SMP_DATA, data, SMP_DATA_BYTES);
	return send_directed(&m->g, m->at) == MAD_ANSWERED && !status_of(m->g.mad);
}

/* The node at the end of the path; its index. */
static unsigned visit(struct manager *m, const uint8_t *path, unsigned hops, unsigned *port)
{
	struct smp_node_info info;
	struct seen *s;

	assert_true(ask(m, MAD_GET, SMP_NODE_INFO, 0, path, hops, NULL));
	smp_node_info_get(&info, m->g.mad + SMP_DATA);
	*port = info.local_port;
	for (unsigned i = 0; i < m->count; i++) {
		if (m->seen[i].guid == info.node_guid)
			return i;
	}
	assert_true(m->count < NODES && hops <= PATHS && info.ports < 40);
	s = &m->seen[m->count];
	*s = (struct seen){ .guid = info.node_guid, .is_switch = info.node_type == NODE_SWITCH, .ports = info.ports, .hops = hops,
			    .first = info.local_port };
	if (hops)
		memcpy(s->path, path, hops);
	for (unsigned i = 0; i < 40; i++)
		s->peer[i] = PORT_NONE;
	return m->count++;
}

static void discover(struct manager *m)
{
	unsigned port;

	visit(m, NULL, 0, &port);
	for (unsigned n = 0; n < m->count; n++) {
		for (unsigned i = 1; i <= m->seen[n].ports; i++) {
			struct seen *s = &m->seen[n];
			uint8_t path[PATHS + 1];
			struct smp_port_info info;

			if (!s->is_switch && i != s->first)
				continue;
			assert_true(ask(m, MAD_GET, SMP_PORT_INFO, i, s->path, s->hops, NULL));
			smp_port_info_get(&info, m->g.mad + SMP_DATA);
			if (info.phys_state != PHYS_LINK_UP || (!s->is_switch && n))
				continue;
			memcpy(path, s->path, s->hops);
			path[s->hops] = (uint8_t)i;
			s->peer[i] = visit(m, path, s->hops + 1, &port);
			s->peer_port[i] = port;
		}
	}
}

static void set_port(struct manager *m, const struct seen *s, unsigned port, uint16_t lid, unsigned state)
{
	struct smp_port_info info;
	uint8_t data[SMP_DATA_BYTES];

	assert_true(ask(m, MAD_GET, SMP_PORT_INFO, port, s->path, s->hops, NULL));
	smp_port_info_get(&info, m->g.mad + SMP_DATA);
	if (state && info.phys_state != PHYS_LINK_UP)
		return;
	info.state = (uint8_t)state;
	info.phys_state = 0;
	info.lid = lid ? lid : info.lid;
	info.sm_lid = lid ? 1 : info.sm_lid;
	smp_port_info_put(&info, data);
	assert_true(ask(m, MAD_SET, SMP_PORT_INFO, port, s->path, s->hops, data));
}

static void give_lids(struct manager *m)
{
	uint16_t lid = 1;

	for (unsigned n = 0; n < m->count; n++) {
		struct seen *s = &m->seen[n];

		s->lid[0] = lid++;
		set_port(m, s, s->is_switch ? 0 : s->first, s->lid[0], 0);
	}
}

/* By breadth from each destination: the port of each switch that is nearer. */
static void route_to(struct manager *m, unsigned to, uint8_t table[NODES][SMP_DATA_BYTES])
{
	unsigned queue[NODES], head = 0, tail = 0;
	bool known[NODES] = { false };

	known[queue[tail++] = to] = true;
	if (m->seen[to].is_switch)
		table[to][m->seen[to].lid[0]] = 0;
	while (head < tail) {
		unsigned near = queue[head++];

		for (unsigned n = 0; n < m->count; n++) {
			for (unsigned i = 1; m->seen[n].is_switch && !known[n] && i <= m->seen[n].ports; i++) {
				if (m->seen[n].peer[i] != near || (near != to && !m->seen[near].is_switch))
					continue;
				known[queue[tail++] = n] = true;
				table[n][m->seen[to].lid[0]] = (uint8_t)i;
			}
		}
	}
}

static void write_tables(struct manager *m)
{
	uint8_t table[NODES][SMP_DATA_BYTES], in[SMP_DATA_BYTES] = { [7] = 63 };

	memset(table, LFT_NONE, sizeof(table));
	for (unsigned n = 0; n < m->count; n++)
		route_to(m, n, table);
	for (unsigned n = 0; n < m->count; n++) {
		if (!m->seen[n].is_switch)
			continue;
		assert_true(ask(m, MAD_SET, SMP_SWITCH_INFO, 0, m->seen[n].path, m->seen[n].hops, in));
		assert_true(ask(m, MAD_SET, SMP_LFT, 0, m->seen[n].path, m->seen[n].hops, table[n]));
	}
}

static void activate(struct manager *m, enum port_state state)
{
	for (unsigned n = 0; n < m->count; n++) {
		for (unsigned i = 1; i <= m->seen[n].ports; i++) {
			if (m->seen[n].is_switch || i == m->seen[n].first)
				set_port(m, &m->seen[n], i, 0, state);
		}
	}
}

/* Every port with a LID reaches every other one, by an SMP and by data. */
static void all_reach_all(struct manager *m)
{
	const struct fabric *f = &m->g.t.f;

	for (uint32_t from = 0; from < f->ports; from++) {
		for (uint32_t to = 0; to < f->ports; to++) {
			struct walk_packet p = { .from = from, .dlid = f->port[to].lid, .pkey = PKEY_DEFAULT,
						 .switches = SWITCHES_MOST };

			if (f->port[from].lid && f->port[to].lid && fabric_destination(f, &p) != to)
				fail_msg("port %u does not reach port %u", from, to);
		}
	}
}

static void manage(const char *kind, char *const settings[])
{
	static struct manager m;

	m = (struct manager){ .g.now = 1 };
	make_fabric(&m.g.t, kind, settings);
	for (uint32_t port = 0; port < m.g.t.f.ports; port++)
		m.g.t.f.port[port].lid = 0;
	assert_int_equal(agents_init(&m.g.a, &m.g.t.f), 0);
	m.at = port_named(&m.g.t.f, "h1", 1);
	discover(&m);
	assert_int_equal(m.count, m.g.t.f.nodes);
	for (unsigned n = 0; n < m.count; n++) {
		uint32_t node = 0;

		while (m.g.t.f.node[node].guid != m.seen[n].guid)
			node++;
		for (unsigned i = 1; i <= m.seen[n].ports; i++) {
			uint32_t peer = fabric_peer(&m.g.t.f, fabric_port_index(&m.g.t.f, node, i));

			if (!m.seen[n].is_switch)
				continue;
			assert_int_equal(m.seen[n].peer[i] == PORT_NONE, peer == PORT_NONE);
			if (peer == PORT_NONE)
				continue;
			assert_true(m.seen[m.seen[n].peer[i]].guid == m.g.t.f.node[m.g.t.f.owner[peer]].guid);
			assert_int_equal(m.seen[n].peer_port[i], fabric_port_number(&m.g.t.f, peer));
		}
	}
	give_lids(&m);
	write_tables(&m);
	activate(&m, PORT_ARMED);
	activate(&m, PORT_ACTIVE);
	all_reach_all(&m);
	end_agents(&m.g);
}

#define MANAGE(kind, ...) manage(kind, (char *const[]){ __VA_ARGS__, NULL })

static void a_fat_tree(void **state)
{
	MANAGE("fat-tree", "ports=6");
}

static void a_torus(void **state)
{
	MANAGE("torus", "size=4x4", "hosts=1");
}

static void a_line(void **state)
{
	MANAGE("line", "switches=20");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fat_tree),
		cmocka_unit_test(a_torus),
		cmocka_unit_test(a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
