/* What changes in a subnet is found by traps and light sweeps, and written with few changes. */
#include "sm_run.h"

#include "base/log.h"
#include "sm/groups.h"
#include "sm/request.h"

#include <errno.h>

static void begin(struct run *r, const char *kind, char *const settings[])
{
	run_init(r, kind, settings, 1);
	run_add(r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
	check_reaches(&r->t.f);
}

static uint8_t *copy_tables(const struct fabric *f)
{
	uint8_t *copy = malloc((size_t)f->nodes * f->lids);

	assert_non_null(copy);
	for (uint32_t n = 0; n < f->nodes; n++) {
		if (fabric_is_switch(f, n))
			memcpy(copy + (size_t)n * f->lids, fabric_lft(f, n), f->lids);
	}
	return copy;
}

/* By the tables as they were, over the links as they are. */
static bool led_there(const struct fabric *f, const uint8_t *was, uint32_t node, uint32_t lid)
{
	for (unsigned hops = 0; hops < SWITCHES_MOST; hops++) {
		uint8_t out = was[(size_t)node * f->lids + lid];
		uint32_t port = out == LFT_NONE ? PORT_NONE : fabric_port_index(f, node, out), peer;

		if (out == LFT_NONE || (out && f->port[port].state != PORT_ACTIVE))
			return false;
		if (!out)
			return f->port[port].lid == lid;
		peer = fabric_peer(f, port);
		if (!fabric_is_switch(f, f->owner[peer]))
			return f->port[peer].lid == lid;
		node = f->owner[peer];
	}
	return false;
}

/* Entries that are others than they were; `needless`: of these, those that would have led there as well. */
static unsigned changed(const struct fabric *f, const uint8_t *was, unsigned *needless)
{
	unsigned all = 0;

	*needless = 0;
	for (uint32_t n = 0; n < f->nodes; n++) {
		for (uint32_t lid = 0; fabric_is_switch(f, n) && lid < f->lids; lid++) {
			uint8_t before = was[(size_t)n * f->lids + lid], now = fabric_lft(f, n)[lid];

			if (before == now)
				continue;
			all++;
			*needless += led_there(f, was, n, lid);
		}
	}
	return all;
}

static bool is_up(const struct fabric *f, uint32_t port)
{
	uint32_t peer = fabric_peer(f, port);

	return peer != PORT_NONE && f->port[port].state == PORT_ACTIVE && f->port[peer].state == PORT_ACTIVE;
}

/* The switch that a LID is at or behind over links that are up, or PORT_NONE. */
static uint32_t switch_of(const struct fabric *f, uint32_t lid)
{
	for (uint32_t port = 0; port < f->ports; port++) {
		if (f->port[port].lid != lid)
			continue;
		if (fabric_is_switch(f, f->owner[port]))
			return f->owner[port];
		return is_up(f, port) ? f->owner[fabric_peer(f, port)] : PORT_NONE;
	}
	return PORT_NONE;
}

/* Hops of all switches to this one; UINT32_MAX: none lead there. */
static void count_hops(const struct fabric *f, uint32_t to, uint32_t *hops)
{
	bool any = true;

	memset(hops, 0xff, f->nodes * sizeof(*hops));
	hops[to] = 0;
	for (uint32_t far = 0; any; far++) {
		any = false;
		for (uint32_t port = 0; port < f->ports; port++) {
			uint32_t a = f->owner[port], b = is_up(f, port) ? f->owner[fabric_peer(f, port)] : a;

			if (!fabric_is_switch(f, a) || !fabric_is_switch(f, b) || hops[a] != far || hops[b] != UINT32_MAX)
				continue;
			hops[b] = far + 1;
			any = true;
		}
	}
}

/* Entries that are no part of a shortest path any more, those that are others than they were, and all; of LIDs that are still
 * there. */
static void count_changes(const struct fabric *f, const uint8_t *was, unsigned *least, unsigned *changes, unsigned *all)
{
	uint32_t *hops = calloc(f->nodes, sizeof(*hops));

	assert_non_null(hops);
	*least = *changes = *all = 0;
	for (uint32_t lid = 1; lid < f->lids; lid++) {
		uint32_t to = switch_of(f, lid);

		if (to == PORT_NONE)
			continue;
		count_hops(f, to, hops);
		for (uint32_t n = 0; n < f->nodes; n++) {
			uint8_t before = was[(size_t)n * f->lids + lid];
			uint32_t port = before == LFT_NONE ? PORT_NONE : fabric_port_index(f, n, before);

			if (!fabric_is_switch(f, n) || n == to || !hops[n] || hops[n] == UINT32_MAX)
				continue;
			++*all;
			*changes += before != fabric_lft(f, n)[lid];
			*least += port == PORT_NONE || !is_up(f, port) || hops[f->owner[fabric_peer(f, port)]] != hops[n] - 1;
		}
	}
	free(hops);
}

static uint32_t link_between(const struct fabric *f, const char *a, const char *b)
{
	uint32_t node = node_named(f, a);

	for (unsigned i = 1; i <= f->place[node].ports; i++) {
		uint32_t port = fabric_port_index(f, node, i), peer = fabric_peer(f, port);

		if (peer != PORT_NONE && f->owner[peer] == node_named(f, b))
			return port;
	}
	fail_msg("%s and %s have no link", a, b);
	return 0;
}

/* Leaves are s1 to s8, spines s9 to s12. */
static void a_link_fails_and_comes_back(void **state)
{
	struct run r;
	const struct fabric *f = &r.t.f;
	uint8_t *was;
	unsigned needless;
	uint64_t mads;
	uint32_t port;

	begin(&r, "fat-tree", (char *const[]){ "ports=8", NULL });
	was = copy_tables(f);
	port = link_between(f, "s2", "s9");
	mads = r.n.mads;
	agents_set_link(&r.n.agents, r.n.now, port, false);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	check_reaches(f);
	assert_true(changed(f, was, &needless) > 0);
	assert_int_equal(needless, 0);
	/* switches are asked, two of them about their ports, and what has changed is written */
	assert_true(r.n.mads - mads < 100);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, 1);
	assert_int_equal(r.n.agents.traps, 0);
	agents_set_link(&r.n.agents, r.n.now, port, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	check_reaches(f);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, 1);
	/* all is known then: the next sweep asks each switch, and nothing else */
	mads = r.n.mads;
	sm_sweep(&r.n.manager[0].sm, r.n.now, false);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(r.n.mads - mads, 12);
	free(was);
	run_fini(&r);
}

static void spread(const struct fabric *f, const char *at, uint32_t *least, uint32_t *most)
{
	uint32_t node = node_named(f, at);
	struct survey s;

	assert_int_equal(survey(&s, f), 0);
	*least = UINT32_MAX;
	*most = 0;
	for (unsigned i = 1; i <= f->place[node].ports; i++) {
		uint32_t port = fabric_port_index(f, node, i), peer = fabric_peer(f, port);

		if (peer == PORT_NONE || !fabric_is_switch(f, f->owner[peer]))
			continue;
		*least = s.load[port] < *least ? s.load[port] : *least;
		*most = s.load[port] > *most ? s.load[port] : *most;
	}
	survey_fini(&s);
}

static void a_switch_dies_and_comes_back(void **state)
{
	struct run r;
	const struct fabric *f = &r.t.f;
	uint32_t least, most, died = 0;
	uint16_t lid;

	begin(&r, "fat-tree", (char *const[]){ "ports=8", NULL });
	died = node_named(f, "s10");
	lid = f->port[f->place[died].first_port].lid;
	mad_net_set_node(&r.n, node_named(f, "s10"), false);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	check_reaches(f);
	assert_false(r.n.manager[0].sm.net.node[guid_map_find(&r.n.manager[0].sm.net.by_node, f->node[died].guid)].is_here);
	/* it has lost what was in it */
	memset(fabric_lft(f, died), LFT_NONE, f->lids);
	mad_net_set_node(&r.n, node_named(f, "s10"), true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	check_reaches(f);
	assert_int_equal(f->port[f->place[died].first_port].lid, lid);
	spread(f, "s1", &least, &most);
	if (most > least + least / 3)
		fail_msg("the switch that came back carries %u paths, others up to %u", least, most);
	run_fini(&r);
}

/* Where this switch dies: least, changes, all. False: it is none, or the manager's. */
static bool let_die(char *const kind[], uint32_t n, unsigned counts[3])
{
	bool dies;
	struct run r;
	uint8_t *was;

	begin(&r, kind[0], kind + 1);
	was = copy_tables(&r.t.f);
	dies = fabric_is_switch(&r.t.f, n) && n != node_named(&r.t.f, "s1");
	if (dies) {
		mad_net_set_node(&r.n, n, false);
		assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
		count_changes(&r.t.f, was, &counts[0], &counts[1], &counts[2]);
		if (counts[0] != counts[1])
			fail_msg("%s %s: %s dies: %u entries change, %u must", kind[0], kind[1], r.t.f.node[n].description,
				 counts[1], counts[0]);
	}
	free(was);
	run_fini(&r);
	return dies;
}

/* Any of them but the manager's. */
static void where_a_switch_dies_only_what_must_changes(void **state)
{
	static char *const kinds[][4] = { { "fat-tree", "ports=8", NULL }, { "fat-tree", "ports=4", "levels=3", NULL },
					  { "fat-tree", "ports=6", "levels=3", NULL } };

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		unsigned sums[3] = { 0 }, deaths = 0;
		struct test_fabric t;
		uint32_t nodes;

		make_fabric(&t, kinds[kind][0], kinds[kind] + 1);
		nodes = t.f.nodes;
		end_fabric(&t);
		for (uint32_t n = 0; n < nodes; n++) {
			unsigned counts[3] = { 0 };

			deaths += let_die(kinds[kind], n, counts);
			for (unsigned i = 0; i < 3; i++)
				sums[i] += counts[i];
		}
		print_message("%s %s %s: %u deaths: of %u entries %u must change, and %u do\n", kinds[kind][0], kinds[kind][1],
			      kinds[kind][2] ? kinds[kind][2] : "", deaths, sums[2], sums[0], sums[1]);
	}
}

struct moves {
	unsigned deaths, entries;	/* of LIDs that are still there */
	unsigned changed, needless;	/* at the death; of these, those that would have led there as well */
	unsigned moved;			/* others than before the death, once it is back */
};

/* Entries of the switches but this one that are others than they were. */
static void compare_tables(const struct fabric *f, const uint8_t *was, uint32_t but, unsigned *all, unsigned *changes,
			   unsigned *needless)
{
	for (uint32_t lid = 1; lid < f->lids; lid++) {
		uint32_t to = switch_of(f, lid);

		for (uint32_t n = 0; to != PORT_NONE && to != but && n < f->nodes; n++) {
			bool differs = fabric_is_switch(f, n) && was[(size_t)n * f->lids + lid] != fabric_lft(f, n)[lid];

			if (!fabric_is_switch(f, n) || n == but)
				continue;
			++*all;
			*changes += differs;
			*needless += differs && led_there(f, was, n, lid);
		}
	}
}

/* Which switch is above which, as far as that is known by heart. */
static uint64_t order_of(const struct run *r)
{
	const struct net *net = &r->n.manager[0].sm.net;
	uint64_t order = 0;

	for (uint32_t n = 0; n < net->nodes; n++)
		order = order * 1000003 + net->node[n].rank;
	return order;
}

static void die_and_come_back(char *const kind[], uint32_t n, struct moves *m)
{
	unsigned none = 0, all = 0;
	uint64_t order;
	struct run r;
	uint8_t *was;

	begin(&r, kind[0], kind + 1);
	assert_int_equal(r.n.manager[0].sm.engine, ROUTE_UP_DOWN);
	was = copy_tables(&r.t.f);
	order = order_of(&r);
	if (fabric_is_switch(&r.t.f, n) && n != node_named(&r.t.f, "s1")) {
		m->deaths++;
		mad_net_set_node(&r.n, n, false);
		assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
		check_reaches(&r.t.f);
		compare_tables(&r.t.f, was, n, &m->entries, &m->changed, &m->needless);
		memset(fabric_lft(&r.t.f, n), LFT_NONE, r.t.f.lids);
		mad_net_set_node(&r.n, n, true);
		assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
		check_reaches(&r.t.f);
		compare_tables(&r.t.f, was, n, &all, &m->moved, &none);
		assert_true(order_of(&r) == order);
	}
	free(was);
	run_fini(&r);
}

/* Which way is up stays, so that paths which led around the switch do, and those that led through it do again. */
static void where_paths_go_up_and_down_a_death_changes_little(void **state)
{
	static char *const kinds[][4] = { { "torus", "size=4x4", "hosts=1", NULL }, { "torus", "size=6x6", "hosts=1", NULL },
					  { "torus", "size=3x3x3", "hosts=1", NULL } };

	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		struct moves m = { 0 };
		struct test_fabric t;
		uint32_t nodes;

		make_fabric(&t, kinds[kind][0], kinds[kind] + 1);
		nodes = t.f.nodes;
		end_fabric(&t);
		for (uint32_t n = 0; n < nodes; n++)
			die_and_come_back(kinds[kind], n, &m);
		print_message("%s %s: %u deaths: of %u entries %u change, %u of them led there; back, %u are others\n",
			      kinds[kind][0], kinds[kind][1], m.deaths, m.entries, m.changed, m.needless, m.moved);
		/* a way that went down alone and does not any more may go up by a shorter one, and others with it */
		assert_true(m.needless * 20 <= m.changed);
		assert_true(m.moved < m.changed);
	}
}

static void a_host_comes_and_goes(void **state)
{
	struct run r;
	const struct fabric *f = &r.t.f;
	uint32_t port;
	uint16_t lid;

	begin(&r, "star", (char *const[]){ "hosts=8", NULL });
	port = port_named(f, "h5", 1);
	lid = f->port[port].lid;
	agents_set_link(&r.n.agents, r.n.now, port, false);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(fabric_lft(f, node_named(f, "s1"))[lid], LFT_NONE);
	agents_set_link(&r.n.agents, r.n.now, port, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(f->port[port].lid, lid);
	/* a port that comes back has forgotten its groups: it is told to register anew */
	assert_int_equal(f->port[port].reregistered, 2);
	/* so it is where no sweep has seen that it was away */
	agents_set_link(&r.n.agents, r.n.now, port, false);
	agents_set_link(&r.n.agents, r.n.now, port, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(f->port[port].reregistered, 3);
	check_reaches(f);
	run_fini(&r);
}

/* A host's own link stays up, so that the host does not notice; the manager has ended its groups and subscriptions meanwhile. */
static void hosts_behind_a_link_that_comes_back_register_anew(void **state)
{
	struct run r;
	const struct fabric *f = &r.t.f;
	uint32_t link, host;

	begin(&r, "line", (char *const[]){ "switches=2", NULL });
	link = link_between(f, "s1", "s2");
	host = port_named(f, "h2", 1);
	assert_int_equal(f->port[host].reregistered, 1);
	/* s2 tells the manager of it until the manager hears */
	agents_set_link(&r.n.agents, r.n.now, link, false);
	mad_net_for(&r.n, 5 * WTIME_S);
	assert_int_equal(f->port[host].state, PORT_ACTIVE);
	agents_set_link(&r.n.agents, r.n.now, link, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(f->port[host].reregistered, 2);
	/* the manager's side has lost nothing */
	assert_int_equal(f->port[port_named(f, "h1", 1)].reregistered, 1);
	check_reaches(f);
	run_fini(&r);
}

/* A link goes down or comes up, and nobody hears of it. */
static void set_link_untold(struct run *r, uint32_t port, bool is_up)
{
	agents_set_link(&r->n.agents, r->n.now, port, is_up);
	memset(r->n.agents.trap, 0, AGENT_TRAPS * sizeof(*r->n.agents.trap));
	r->n.agents.traps = 0;
}

static uint64_t guid_of(const struct run *r, const char *host)
{
	return r->t.f.port[port_named(&r->t.f, host, 1)].guid;
}

/* The trap got lost for good: the next light sweep sees it. */
static void a_change_without_a_trap(void **state)
{
	struct run r;
	const struct fabric *f = &r.t.f;

	begin(&r, "torus", (char *const[]){ "size=3x3", "hosts=1", NULL });
	set_link_untold(&r, link_between(&r.t.f, "s1", "s2"), false);
	mad_net_for(&r.n, 11 * WTIME_S);
	assert_true(mad_net_is_quiet(&r.n));
	check_reaches(f);
	assert_int_equal(r.n.manager[0].sm.counters.light, 1);
	assert_int_equal(r.n.manager[0].sm.counters.traps, 0);
	run_fini(&r);
}

/* An SMP of this kind to this port of a switch is under way. */
static bool is_asking(const struct run *r, enum sm_kind kind, uint32_t port)
{
	const struct sm *s = &r->n.manager[0].sm;

	for (unsigned i = 0; i < SM_WINDOW_MOST; i++) {
		const struct sm_work *w = &s->request[i].work;

		if (s->request[i].tid && w->kind == kind && w->number == fabric_port_number(&r->t.f, port) &&
		    s->net.node[w->node].guid == r->t.f.node[r->t.f.owner[port]].guid)
			return true;
	}
	return false;
}

static void until_asking(struct run *r, enum sm_kind kind, uint32_t port)
{
	for (mad_net_pump(&r->n); !is_asking(r, kind, port); mad_net_pump(&r->n))
		assert_true(mad_net_step(&r->n, r->n.now + 5 * WTIME_S));
}

/* The link of h7 goes down, and a sweep goes on until it asks this of the port of h8 at the same switch, or of the switch. */
static void begin_amid_questions(struct run *r, enum sm_kind kind, bool of_port)
{
	const struct fabric *f = &r->t.f;
	uint32_t h7, behind;

	begin(r, "fat-tree", (char *const[]){ "ports=4", NULL });
	r->n.delay_ns = 50 * WTIME_US;
	h7 = port_named(f, "h7", 1);
	behind = fabric_peer(f, port_named(f, "h8", 1));
	assert_int_equal(f->owner[behind], f->owner[fabric_peer(f, h7)]);
	behind = of_port ? behind : f->place[f->owner[behind]].first_port;
	agents_set_link(&r->n.agents, r->n.now, h7, false);
	until_asking(r, kind, behind);
}

static bool is_known_linked(const struct run *r, const char *host)
{
	const struct net *net = &r->n.manager[0].sm.net;

	return net->port[guid_map_find(&net->by_port, guid_of(r, host))].peer != PORT_NONE;
}

static void check_is_cleared(const struct run *r)
{
	for (uint32_t n = 0; n < r->t.f.nodes; n++)
		assert_int_equal(r->t.f.node[n].port_state_change, 0);
}

/* The answer for its port is under way when another link of the switch goes down. */
static void a_change_behind_the_question(void **state)
{
	struct run r;

	begin_amid_questions(&r, WORK_PORT_INFO, true);
	set_link_untold(&r, port_named(&r.t.f, "h8", 1), false);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	mad_net_for(&r.n, 11 * WTIME_S);
	assert_false(is_known_linked(&r, "h7"));
	assert_false(is_known_linked(&r, "h8"));
	assert_int_equal(r.n.manager[0].sm.counters.heavy, 1);
	check_is_cleared(&r);
	run_fini(&r);
}

/* A switch has been cleared, and what its ports answer gets lost: it says no more that they have changed. */
static void a_change_of_a_silent_switch(void **state)
{
	struct run r;
	struct sm *s;

	begin_amid_questions(&r, WORK_CLEAR_CHANGE, false);
	s = &r.n.manager[0].sm;
	r.n.loss_ppm = 1000000;
	while (!s->counters.given_up)
		assert_true(mad_net_step(&r.n, r.n.now + 5 * WTIME_S));
	r.n.loss_ppm = 0;
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_false(is_known_linked(&r, "h7"));
	assert_int_equal(s->counters.heavy, 1);
	run_fini(&r);
}

/* A manager begins, and the link of h8 is down. Returns the host's port. */
static uint32_t begin_without_h8(struct run *r)
{
	uint32_t h8;

	run_init(r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
	h8 = port_named(&r->t.f, "h8", 1);
	agents_set_link(&r->n.agents, r->n.now, h8, false);
	run_add(r, "h2", 1, &(struct sm_config){ 0 });
	return h8;
}

/* A link comes up in the first sweep, when the switch has said that there are changes and none of this one. */
static void a_change_behind_the_first_questions(void **state)
{
	struct run r;
	uint32_t h8 = begin_without_h8(&r);

	/* as switches say that were switched on */
	for (uint32_t n = 0; n < r.t.f.nodes; n++)
		r.t.f.node[n].port_state_change = fabric_is_switch(&r.t.f, n);
	until_asking(&r, WORK_PORT_INFO, fabric_peer(&r.t.f, h8));
	set_link_untold(&r, h8, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_not_equal(r.t.f.port[h8].lid, 0);
	check_reaches(&r.t.f);
	check_is_cleared(&r);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, 1);
	assert_int_equal(r.n.manager[0].sm.counters.light, 1);
	run_fini(&r);
}

/* The switch has no manager yet that it could tell of the link: a light sweep finds it. */
static void a_link_comes_up_in_the_first_sweep(void **state)
{
	struct run r;
	uint32_t h8 = begin_without_h8(&r);

	until_asking(&r, WORK_PORT_INFO, fabric_peer(&r.t.f, h8));
	agents_set_link(&r.n.agents, r.n.now, h8, true);
	mad_net_for(&r.n, 11 * WTIME_S);
	assert_int_not_equal(r.t.f.port[h8].lid, 0);
	check_reaches(&r.t.f);
	assert_int_equal(r.n.manager[0].sm.counters.traps, 0);
	assert_int_equal(r.n.manager[0].sm.counters.heavy, 1);
	run_fini(&r);
}

/* Groups of which members come and go put off no sweep. */
static void groups_that_change_put_off_no_sweep(void **state)
{
	const uint8_t mgid[16] = { 0xff, 0x12, [15] = 7 }, gid[16] = { 0xfe, 0x80, [15] = 1 };
	struct mcast_group *g;
	struct run r;
	struct sm *s;

	begin(&r, "torus", (char *const[]){ "size=3x3", "hosts=1", NULL });
	s = &r.n.manager[0].sm;
	g = groups_add(s, mgid, 0);
	assert_non_null(g);
	set_link_untold(&r, link_between(&r.t.f, "s1", "s2"), false);
	for (unsigned i = 0; i < 9; i++) {
		struct mcast_member *m = groups_join(s, g, guid_map_find(&s->net.by_port, guid_of(&r, "h5")), gid);

		m->join_state = MCAST_FULL;
		mad_net_for(&r.n, 700 * WTIME_MS);
		groups_leave(s, g, m);
		mad_net_for(&r.n, 700 * WTIME_MS);
	}
	assert_int_equal(s->counters.light, 1);
	assert_true(mad_net_until_quiet(&r.n, WTIME_S));
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* A quiet subnet costs a question for each switch in a sweep, and nothing is written. */
static void nothing_changes(void **state)
{
	struct run r;
	uint64_t mads;

	begin(&r, "fat-tree", (char *const[]){ "ports=4", NULL });
	mads = r.n.mads;
	mad_net_for(&r.n, 10 * WTIME_S + WTIME_MS);
	assert_int_equal(r.n.mads - mads, 6);
	mads = r.n.mads;
	sm_sweep(&r.n.manager[0].sm, r.n.now, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(r.n.manager[0].sm.counters.routings, 1);
	run_fini(&r);
}

static void a_switch_that_was_reset_is_written_anew(void **state)
{
	struct run r;
	uint32_t node;

	begin(&r, "line", (char *const[]){ "switches=3", NULL });
	node = node_named(&r.t.f, "s2");
	r.t.f.node[node].lft_top = 0;
	memset(fabric_lft(&r.t.f, node), LFT_NONE, r.t.f.lids);
	mad_net_for(&r.n, 11 * WTIME_S);
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* An adapter with one port that had two when it was here last, and the LID that it has: to the manager it is another node. */
static void an_adapter_that_had_more_ports(void **state)
{
	enum { LID = 40 };
	struct smp_node_info info = { .node_type = NODE_CA, .ports = 2, .local_port = 1 };
	uint32_t h8, before, is, nodes;
	struct run r;
	struct sm *s;

	h8 = begin_without_h8(&r);
	s = &r.n.manager[0].sm;
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	info.node_guid = r.t.f.node[r.t.f.owner[h8]].guid;
	info.port_guid = r.t.f.port[h8].guid;
	before = net_port_index(&s->net, (uint32_t)net_node(&s->net, PORT_NONE, &info), 1);
	assert_int_equal(net_set_guid(&s->net, before, info.port_guid), 0);
	s->net.by_lid[LID] = before + 1;
	s->net.port[before].lid = r.t.f.port[h8].lid = LID;
	nodes = s->net.nodes;
	agents_set_link(&r.n.agents, r.n.now, h8, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	check_reaches(&r.t.f);
	assert_int_equal(r.t.f.port[h8].lid, LID);
	assert_int_equal(s->failures, 0);
	is = guid_map_find(&s->net.by_port, info.port_guid);
	assert_int_not_equal(is, before);
	/* two nodes with one GUID are not told apart */
	sm_sweep(s, r.n.now, true);
	until_asking(&r, WORK_PORT_INFO, h8);
	assert_int_equal(net_node(&s->net, PORT_NONE, &info), -EEXIST);
	/* for a moment it was what it had been */
	assert_int_equal(guid_map_put(&s->net.by_port, info.port_guid, before), 0);
	sm_sweep(s, r.n.now, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(guid_map_find(&s->net.by_port, info.port_guid), is);
	/* and each is kept once */
	for (unsigned i = 0; i < 4; i++) {
		s->net.node[s->net.owner[is]].is_seen = false;
		assert_true(net_node(&s->net, PORT_NONE, &info) >= 0);
		info.ports ^= 3;
	}
	assert_int_equal(s->net.nodes, nodes + 1);
	run_fini(&r);
}

/* The node is of another type from now on, and none of its links was down. */
static void become(struct run *r, const char *name, enum node_type type)
{
	struct sm *s = &r->n.manager[0].sm;
	uint64_t heavy = s->counters.heavy;

	r->t.f.node[node_named(&r->t.f, name)].type = (uint8_t)type;
	sm_sweep(s, r->n.now, true);
	assert_true(mad_net_until_quiet(&r->n, 5 * WTIME_S));
	assert_int_equal(s->counters.heavy, heavy + 1);
	assert_int_equal(s->net.node[guid_map_find(&s->net.by_node, r->t.f.node[node_named(&r->t.f, name)].guid)].type, type);
	check_reaches(&r->t.f);
}

/* Another host, or the manager's own. */
static void an_adapter_that_becomes_a_router(void **state)
{
	static const char *const names[] = { "h8", "h1" };
	struct run r;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		run_init(&r, "fat-tree", (char *const[]){ "ports=4", NULL }, 1);
		run_add(&r, "h1", 1, &(struct sm_config){ 0 });
		assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
		become(&r, names[i], NODE_ROUTER);
		become(&r, names[i], NODE_CA);
		run_fini(&r);
	}
}

static uint64_t count_reached(const struct fabric *f)
{
	struct survey v;
	uint64_t reached;

	assert_int_equal(survey(&v, f), 0);
	reached = v.reached;
	survey_fini(&v);
	return reached;
}

static void hear(void *arg, enum log_level level, const char *line)
{
	unsigned *told = arg;

	*told += level == LOG_WARNING && strstr(line, "another node has this NodeGUID");
}

/* A node says that it has the NodeGUID, and perhaps the PortGUID, of another one of its kind: that one goes on, and who says so
 * is out, whichever of them is asked first. */
static void twins(void **state)
{
	static const struct { const char *is, *says_so; } pairs[] = {
		{ "h8", "h2" }, { "h2", "h8" }, { "h8", "h7" }, { "s4", "s3" }, { "s3", "s4" },
	};

	for (unsigned i = 0; i < 2 * sizeof(pairs) / sizeof(pairs[0]); i++) {
		const char *is = pairs[i / 2].is, *says_so = pairs[i / 2].says_so;
		unsigned number = *is == 'h', told = 0;
		uint32_t is_port, other_port, at;
		struct fabric_node *node;
		struct net_port was;
		struct run r;
		struct sm *s;

		begin(&r, "fat-tree", (char *const[]){ "ports=4", NULL });
		log_set_sink(hear, &told, LOG_WARNING);
		s = &r.n.manager[0].sm;
		is_port = port_named(&r.t.f, is, number);
		other_port = port_named(&r.t.f, says_so, number);
		node = &r.t.f.node[node_named(&r.t.f, says_so)];
		at = guid_map_find(&s->net.by_port, r.t.f.port[is_port].guid);
		was = s->net.port[at];
		node->guid = r.t.f.node[node_named(&r.t.f, is)].guid;
		if (i % 2)
			r.t.f.port[other_port].guid = r.t.f.port[is_port].guid;
		sm_sweep(s, r.n.now, true);
		mad_net_for(&r.n, 60 * WTIME_S);
		assert_int_equal(guid_map_find(&s->net.by_port, r.t.f.port[is_port].guid), at);
		assert_true(net_is_here(&s->net, at));
		assert_int_equal(s->net.port[at].peer, was.peer);
		assert_int_equal(s->net.port[at].lid, r.t.f.port[is_port].lid);
		assert_true(s->failures != 0);
		assert_int_equal(told, 1);
		if (number)
			assert_int_equal(count_reached(&r.t.f), 49);
		log_set_sink(NULL, NULL, LOG_ERROR);
		run_fini(&r);
	}
}

/* A host, nearer to the manager, says that it has the NodeGUID of a switch: the switch goes on, and the host is out. */
static void a_host_with_the_guid_of_a_switch(void **state)
{
	for (unsigned is_new = 0; is_new < 2; is_new++) {
		struct fabric_node *h1, *s3;
		uint32_t at, port;
		unsigned told = 0;
		uint64_t guid;
		struct run r;
		struct sm *s;

		begin(&r, "fat-tree", (char *const[]){ "ports=4", NULL });
		log_set_sink(hear, &told, LOG_WARNING);
		s = &r.n.manager[0].sm;
		h1 = &r.t.f.node[node_named(&r.t.f, "h1")];
		s3 = &r.t.f.node[node_named(&r.t.f, "s3")];
		port = port_named(&r.t.f, "h1", 1);
		at = guid_map_find(&s->net.by_node, s3->guid);
		guid = h1->guid;
		if (is_new)
			agents_set_link(&r.n.agents, r.n.now, port, false);
		h1->guid = s3->guid;
		if (is_new)
			agents_set_link(&r.n.agents, r.n.now, port, true);
		else
			sm_sweep(s, r.n.now, true);
		mad_net_for(&r.n, 60 * WTIME_S);
		assert_int_equal(guid_map_find(&s->net.by_node, s3->guid), at);
		assert_true(s->net.node[at].is_here);
		assert_true(s->failures != 0);
		/* all paths but those to the host */
		assert_int_equal(count_reached(&r.t.f), 49);
		assert_int_equal(told, 1);
		/* it has its own again */
		h1->guid = guid;
		assert_true(mad_net_until_quiet(&r.n, 60 * WTIME_S));
		check_reaches(&r.t.f);
		/* for a while */
		h1->guid = s3->guid;
		sm_sweep(s, r.n.now, true);
		mad_net_for(&r.n, 10 * WTIME_S);
		assert_int_equal(told, 2);
		log_set_sink(NULL, NULL, LOG_ERROR);
		run_fini(&r);
	}
}

/* What the manager's own node has told of itself is asked anew. */
static void the_own_node_has_been_another(void **state)
{
	struct sm_work w = { .kind = WORK_NODE_INFO };
	struct run r;
	struct sm *s;
	uint32_t own;

	begin(&r, "fat-tree", (char *const[]){ "ports=4", NULL });
	s = &r.n.manager[0].sm;
	own = s->net.own;
	w.node = s->net.owner[own];
	discover_node_info(s, r.n.now, &w, s->net.node[s->net.owner[guid_map_find(&s->net.by_port, guid_of(&r, "h8"))]].info);
	assert_int_not_equal(s->net.own, own);
	sm_sweep(s, r.n.now, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	assert_int_equal(s->net.own, own);
	check_reaches(&r.t.f);
	run_fini(&r);
}

/* A port that has been armed, and no more, carries no data. */
static void an_armed_port_becomes_active(void **state)
{
	struct run r;

	begin(&r, "fat-tree", (char *const[]){ "ports=4", NULL });
	r.t.f.port[port_named(&r.t.f, "h8", 1)].state = PORT_ARMED;
	sm_sweep(&r.n.manager[0].sm, r.n.now, true);
	assert_true(mad_net_until_quiet(&r.n, 5 * WTIME_S));
	check_reaches(&r.t.f);
	run_fini(&r);
}

static bool leads_up(const struct fabric *f, uint32_t node, unsigned number)
{
	uint32_t peer = number && number != LFT_NONE ? fabric_peer(f, fabric_port_index(f, node, number)) : PORT_NONE;

	return peer != PORT_NONE && fabric_is_switch(f, f->owner[peer]);
}

/* Of two levels: each lower switch goes to hosts behind others by the upper switch next to the one of fabric_route(). */
static void turn_ways(struct fabric *f)
{
	for (uint32_t n = 0; n < f->nodes; n++) {
		unsigned half = f->place[n].ports / 2u;

		/* its upper half has hosts */
		if (!fabric_is_switch(f, n) || leads_up(f, n, 2 * half))
			continue;
		for (uint32_t port = 0; port < f->ports; port++) {
			uint8_t *entry = &fabric_lft(f, n)[f->port[port].lid];

			if (f->port[port].lid && !fabric_is_switch(f, f->owner[port]) && leads_up(f, n, *entry))
				*entry = (uint8_t)(*entry % half + 1);
		}
	}
}

/* Who loads a fabric, or was its manager before, has written tables and LIDs: they stay, and data flows all the time. */
static void what_is_there_stays(const char *kind, char *const settings[], enum route_engine engine, bool is_turned)
{
	struct run r = { 0 };
	struct fabric *f = &r.t.f;
	unsigned needless;
	uint8_t *was;
	uint16_t *lids;

	make_fabric(&r.t, kind, settings);
	assert_int_equal(fabric_route(f, engine), 0);
	if (is_turned)
		turn_ways(f);
	fabric_activate(f);
	run_as_it_is(&r, 1);
	was = copy_tables(f);
	lids = calloc(f->ports, sizeof(*lids));
	for (uint32_t port = 0; port < f->ports; port++)
		lids[port] = f->port[port].lid;
	run_add(&r, "s1", 0, &(struct sm_config){ 0 });
	for (bool goes_on = true; goes_on && !mad_net_is_quiet(&r.n); goes_on = mad_net_step(&r.n, 100 * WTIME_S)) {
		for (uint32_t port = 0; port < f->ports; port++) {
			assert_int_equal(f->port[port].lid, lids[port]);
			if (fabric_peer(f, port) != PORT_NONE)
				assert_int_equal(f->port[port].state, PORT_ACTIVE);
		}
		assert_int_equal(changed(f, was, &needless), 0);
	}
	assert_int_equal(r.n.manager[0].sm.state, SM_MASTER);
	assert_true(r.n.manager[0].sm.is_up);
	free(was);
	free(lids);
	run_fini(&r);
}

static void tables_that_are_there_stay(void **state)
{
	what_is_there_stays("fat-tree", (char *const[]){ "ports=8", NULL }, ROUTE_MIN_HOP, false);
	what_is_there_stays("fat-tree", (char *const[]){ "ports=8", NULL }, ROUTE_MIN_HOP, true);
	what_is_there_stays("fat-tree", (char *const[]){ "ports=4", "levels=3", NULL }, ROUTE_MIN_HOP, false);
	what_is_there_stays("torus", (char *const[]){ "size=4x4", "hosts=2", NULL }, ROUTE_UP_DOWN, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_link_fails_and_comes_back),
		cmocka_unit_test(a_switch_dies_and_comes_back),
		cmocka_unit_test(where_a_switch_dies_only_what_must_changes),
		cmocka_unit_test(where_paths_go_up_and_down_a_death_changes_little),
		cmocka_unit_test(a_host_comes_and_goes),
		cmocka_unit_test(hosts_behind_a_link_that_comes_back_register_anew),
		cmocka_unit_test(a_change_without_a_trap),
		cmocka_unit_test(a_change_behind_the_question),
		cmocka_unit_test(a_change_of_a_silent_switch),
		cmocka_unit_test(a_change_behind_the_first_questions),
		cmocka_unit_test(a_link_comes_up_in_the_first_sweep),
		cmocka_unit_test(groups_that_change_put_off_no_sweep),
		cmocka_unit_test(nothing_changes),
		cmocka_unit_test(tables_that_are_there_stay),
		cmocka_unit_test(a_switch_that_was_reset_is_written_anew),
		cmocka_unit_test(an_adapter_that_had_more_ports),
		cmocka_unit_test(an_adapter_that_becomes_a_router),
		cmocka_unit_test(twins),
		cmocka_unit_test(a_host_with_the_guid_of_a_switch),
		cmocka_unit_test(the_own_node_has_been_another),
		cmocka_unit_test(an_armed_port_becomes_active),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
