/* The tables of the manager, which nobody chose by hand, cannot deadlock, whatever the topology. A channel dependency graph is
 * built from the tables as switches have them: a channel is a direction of a link; one depends on another when a packet of some
 * path goes from the first to the second. Tables deadlock if and only if there is a circle in it (Dally and Seitz, 1987). */
#include "sm_run.h"

#include "base/log.h"

enum { TEXT = 1 << 16, SWITCHES = 12, PORTS = 24 };

/* Dependencies of channels, as bits: channels are named by the port that they leave. */
struct graph {
	uint32_t channels;
	uint8_t *depends;		/* [from * channels + to] */
	uint8_t *mark;			/* 1: on the way, 2: done */
};

/* A packet from this host to a LID, hop by hop: links that it passes. */
static unsigned follow(struct graph *g, const struct fabric *f, uint32_t from, uint32_t lid)
{
	uint32_t channel = from;

	for (unsigned hops = 0; hops < SWITCHES_MOST; hops++) {
		uint32_t peer = fabric_peer(f, channel), node = f->owner[peer], next;
		unsigned out = fabric_is_switch(f, node) ? fabric_lft(f, node)[lid] : 0;

		if (!fabric_is_switch(f, node) || !out)
			return hops + 1;
		assert_int_not_equal(out, LFT_NONE);
		next = fabric_port_index(f, node, out);
		g->depends[(size_t)channel * g->channels + next] = 1;
		channel = next;
	}
	fail_msg("a path to LID %u does not end", lid);
	return 0;
}

/* By depth. */
static bool comes_back(struct graph *g, uint32_t channel)
{
	g->mark[channel] = 1;
	for (uint32_t next = 0; next < g->channels; next++) {
		if (!g->depends[(size_t)channel * g->channels + next] || g->mark[next] == 2)
			continue;
		if (g->mark[next] == 1 || comes_back(g, next))
			return true;
	}
	g->mark[channel] = 2;
	return false;
}

/* `pairs`: paths between hosts that were followed. */
static bool can_deadlock(const struct fabric *f, unsigned *pairs)
{
	struct graph g = { .channels = f->ports };
	bool found = false;

	g.depends = calloc((size_t)f->ports * f->ports, 1);
	g.mark = calloc(f->ports, 1);
	assert_true(g.depends && g.mark);
	*pairs = 0;
	for (uint32_t from = 0; from < f->ports; from++) {
		if (fabric_is_switch(f, f->owner[from]) || fabric_peer(f, from) == PORT_NONE || f->port[from].state == PORT_DOWN)
			continue;
		for (uint32_t to = 0; to < f->ports; to++) {
			if (to == from || fabric_is_switch(f, f->owner[to]) || !f->port[to].lid || f->port[to].state == PORT_DOWN)
				continue;
			follow(&g, f, from, f->port[to].lid);
			++*pairs;
		}
	}
	for (uint32_t channel = 0; channel < g.channels && !found; channel++)
		found = !g.mark[channel] && comes_back(&g, channel);
	free(g.depends);
	free(g.mark);
	return found;
}

/* Switches with links between any two of them, and a host or two each; all have a way to all. */
static void make_random(char *text, struct rand *rand)
{
	unsigned switches = 3 + rand_below(rand, SWITCHES - 2), used[SWITCHES] = { 0 };
	char *at = text;

	for (unsigned i = 0; i < switches; i++) {
		at += sprintf(at, "Switch %u \"s%u\"\n", PORTS, i);
		for (unsigned k = 0; k < i; k++) {
			/* a tree, and about a third of all other links, some of them twice */
			unsigned links = (k == i - 1 - rand_below(rand, i) || k == i - 1) + rand_below(rand, 3) / 2;

			for (; links && used[i] < PORTS - 3 && used[k] < PORTS - 3; links--)
				at += sprintf(at, "[%u] \"s%u\"[%u]\n", ++used[i], k, ++used[k]);
		}
	}
	for (unsigned i = 0; i < switches; i++) {
		for (unsigned hosts = 1 + rand_below(rand, 2); hosts; hosts--)
			at += sprintf(at, "Ca 1 \"h%u_%u\"\n[1] \"s%u\"[%u]\n", i, hosts, i, ++used[i]);
	}
	assert_true(at - text < TEXT);
}

static uint32_t count_here(const struct run *r)
{
	const struct net *net = &r->n.manager[0].sm.net;
	uint32_t n = 0;

	for (uint32_t i = 0; i < net->nodes; i++)
		n += net->node[i].is_here;
	return n;
}

/* The manager's tables, then those after links have died one after another. */
static void check_all(struct run *r, const char *what, uint64_t seed)
{
	const struct fabric *f = &r->t.f;
	unsigned pairs;

	run_add(r, "s1", 0, &(struct sm_config){ 0 });
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
	for (unsigned tries = 0;; tries++) {
		uint32_t port = rand_below(&r->n.rand, f->ports), peer = fabric_peer(f, port);

		check_reaches(f);
		if (can_deadlock(f, &pairs))
			fail_msg("%s, seed %llu, after %u tries to take a link down: there is a circle", what,
				 (unsigned long long)seed, tries);
		assert_true(pairs);
		if (tries == 8)
			return;
		if (peer == PORT_NONE || !fabric_is_switch(f, f->owner[port]) || !fabric_is_switch(f, f->owner[peer]))
			continue;
		agents_set_link(&r->n.agents, r->n.now, port, false);
		mad_net_for(&r->n, 20 * WTIME_S);
		/* where it has parted the subnet, the manager goes on with its own part */
		if (count_here(r) < f->nodes)
			return;
	}
}

static void every_kind(void **state)
{
	for (const struct generate_kind *k = generate_kinds; k->name; k++) {
		struct run r;

		run_init(&r, k->name, (char *const[]){ NULL }, 1);
		check_all(&r, k->name, 1);
		run_fini(&r);
	}
}

static void random_fabric(struct run *r, uint64_t seed)
{
	struct rand rand;
	char *text = calloc(1, TEXT);

	rand_seed(&rand, seed);
	make_random(text, &rand);
	parse_fabric(&r->t, text);
	free(text);
	run_cold(r, seed);
}

static void random_ones(void **state)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct run r = { 0 };

		random_fabric(&r, seed);
		check_all(&r, "a random one", seed);
		run_fini(&r);
	}
}

static bool has_link(const struct fabric *f, uint32_t node)
{
	bool has = false;

	for (unsigned i = 1; i <= f->place[node].ports; i++) {
		uint32_t port = fabric_port_index(f, node, i);

		has |= fabric_peer(f, port) != PORT_NONE && f->port[port].state != PORT_DOWN;
	}
	return has;
}

/* Has the manager found all who have a link? */
static bool is_whole(const struct run *r)
{
	const struct net *net = &r->n.manager[0].sm.net;
	const struct fabric *f = &r->t.f;
	bool is = true;

	for (uint32_t n = 0; n < f->nodes; n++)
		is &= !has_link(f, n) || net->node[guid_map_find(&net->by_node, f->node[n].guid)].is_here;
	return is;
}

static void check_paths(const struct run *r, const char *what, uint64_t seed, const char *when)
{
	const struct fabric *f = &r->t.f;
	unsigned pairs;

	if (can_deadlock(f, &pairs))
		fail_msg("%s, seed %llu, %s: there is a circle", what, (unsigned long long)seed, when);
	/* one host may be all that is left */
	if (pairs)
		check_reaches(f);
}

/* One after another, of which each comes back without what was in it, and some while another one is gone. */
static void let_switches_die(struct run *r, const char *what, uint64_t seed)
{
	const struct fabric *f = &r->t.f;
	uint32_t own = node_named(f, "s1"), gone = own, switches = 0;
	char when[100] = "at first";

	for (uint32_t n = 0; n < f->nodes; n++)
		switches += fabric_is_switch(f, n);
	run_add(r, "s1", 0, &(struct sm_config){ .routing = ROUTE_ALWAYS_UP_DOWN });
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
	check_paths(r, what, seed, when);
	/* two at a time, beside the manager's */
	for (unsigned deaths = 0; deaths < 6 && switches > 2;) {
		uint32_t node = rand_below(&r->n.rand, f->nodes);

		if (!fabric_is_switch(f, node) || node == own || node == gone)
			continue;
		deaths++;
		mad_net_set_node(&r->n, node, false);
		assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
		snprintf(when, sizeof(when), "without nodes %u and %u", node, gone);
		if (is_whole(r))
			check_paths(r, what, seed, when);
		/* the last one comes back while this one is gone */
		if (gone != own) {
			memset(fabric_lft(f, gone), LFT_NONE, f->lids);
			mad_net_set_node(&r->n, gone, true);
			assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
			snprintf(when, sizeof(when), "without node %u, with %u again", node, gone);
			if (is_whole(r))
				check_paths(r, what, seed, when);
		}
		gone = node;
	}
	if (gone != own) {
		memset(fabric_lft(f, gone), LFT_NONE, f->lids);
		mad_net_set_node(&r->n, gone, true);
	}
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
	assert_true(is_whole(r));
	check_paths(r, what, seed, "at the end");
}

static void switches_die_and_come_back(void **state)
{
	for (const struct generate_kind *k = generate_kinds; k->name; k++) {
		struct run r;

		run_init(&r, k->name, (char *const[]){ NULL }, 1);
		let_switches_die(&r, k->name, 1);
		run_fini(&r);
	}
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct run r = { 0 };

		random_fabric(&r, seed);
		let_switches_die(&r, "a random one", seed);
		run_fini(&r);
	}
}

/* The graph finds the circles that are known to be there. */
static void rings_deadlock_by_shortest_paths(void **state)
{
	static char *const rings[][3] = { { "size=5", "hosts=1", NULL }, { "size=4x4", "hosts=1", NULL } };

	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		struct test_fabric t;
		unsigned pairs;

		make_fabric(&t, "torus", rings[i]);
		assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
		fabric_activate(&t.f);
		assert_true(can_deadlock(&t.f, &pairs));
		assert_int_equal(fabric_route(&t.f, ROUTE_UP_DOWN), 0);
		assert_false(can_deadlock(&t.f, &pairs));
		end_fabric(&t);
	}
}

/* ---- ways that were asked for ---- */

/* Links of the shortest path between two hosts, by breadth. */
static unsigned shortest(const struct fabric *f, uint32_t from, uint32_t to)
{
	uint32_t *queue = calloc(f->nodes, sizeof(*queue)), head = 0, tail = 1;
	unsigned *links = calloc(f->nodes, sizeof(*links)), found;

	assert_true(queue && links);
	queue[0] = f->owner[fabric_peer(f, from)];
	for (links[queue[0]] = 1; head < tail; head++) {
		uint32_t node = queue[head];

		for (unsigned i = 1; fabric_is_switch(f, node) && i <= f->place[node].ports; i++) {
			uint32_t port = fabric_port_index(f, node, i), peer = fabric_peer(f, port);

			if (peer == PORT_NONE || f->port[port].state == PORT_DOWN || links[f->owner[peer]])
				continue;
			links[f->owner[peer]] = links[node] + 1;
			queue[tail++] = f->owner[peer];
		}
	}
	found = links[f->owner[to]];
	free(queue);
	free(links);
	return found;
}

/* How many links paths between hosts have beyond those of shortest ones, in sum. */
static unsigned detours(const struct fabric *f)
{
	struct graph g = { .channels = f->ports };
	unsigned sum = 0;

	g.depends = calloc((size_t)f->ports * f->ports, 1);
	assert_non_null(g.depends);
	for (uint32_t from = 0; from < f->ports; from++) {
		for (uint32_t to = 0; to < f->ports; to++) {
			if (to != from && f->owner[to] != f->owner[from] && f->port[to].lid && f->port[from].lid &&
			    !fabric_is_switch(f, f->owner[from]) && !fabric_is_switch(f, f->owner[to]))
				sum += follow(&g, f, from, f->port[to].lid) - shortest(f, from, to);
		}
	}
	free(g.depends);
	return sum;
}

static void hear(void *arg, enum log_level level, const char *line)
{
	unsigned *told = arg;

	*told += level == LOG_WARNING && strstr(line, "routing_engine minhop");
}

static void run_routed(struct run *r, const char *kind, char *const settings[], enum route_choice choice)
{
	run_init(r, kind, settings, 1);
	run_add(r, "s1", 0, &(struct sm_config){ .routing = choice });
	assert_true(mad_net_until_quiet(&r->n, 100 * WTIME_S));
}

/* As both do in any topology; where there are no rings nobody is told of a circle. */
static void each_way_in_every_kind(void **state)
{
	unsigned told = 0, circles = 0, pairs;

	log_set_sink(hear, &told, LOG_WARNING);
	for (const struct generate_kind *k = generate_kinds; k->name; k++) {
		unsigned before = told;
		bool deadlocks;
		struct run r;

		run_routed(&r, k->name, (char *const[]){ NULL }, ROUTE_ALWAYS_UP_DOWN);
		assert_int_equal(r.n.manager[0].sm.engine, ROUTE_UP_DOWN);
		check_reaches(&r.t.f);
		assert_false(can_deadlock(&r.t.f, &pairs));
		assert_true(told == before && !r.n.manager[0].sm.can_deadlock);
		run_fini(&r);

		run_routed(&r, k->name, (char *const[]){ NULL }, ROUTE_ALWAYS_MIN_HOP);
		assert_int_equal(r.n.manager[0].sm.engine, ROUTE_MIN_HOP);
		assert_int_equal(detours(&r.t.f), 0);
		deadlocks = can_deadlock(&r.t.f, &pairs);
		assert_true(r.n.manager[0].sm.can_deadlock == deadlocks && told - before == deadlocks);
		circles += deadlocks;
		run_fini(&r);
	}
	assert_true(circles);
	log_set_sink(NULL, NULL, LOG_ERROR);
}

/* A ring that is asked for keeps its shortest paths, and the log tells each time that they become a circle. */
static void a_ring_by_shortest_paths(void **state)
{
	static char *const ring[] = { "size=6", "hosts=2", NULL };
	uint64_t routings;
	uint32_t link;
	unsigned told = 0, pairs;
	struct run r;

	log_set_sink(hear, &told, LOG_WARNING);
	run_routed(&r, "torus", ring, ROUTE_AUTO);
	assert_false(can_deadlock(&r.t.f, &pairs));
	assert_true(detours(&r.t.f) && !told);
	run_fini(&r);

	run_routed(&r, "torus", ring, ROUTE_ALWAYS_MIN_HOP);
	assert_true(can_deadlock(&r.t.f, &pairs));
	assert_int_equal(detours(&r.t.f), 0);
	assert_int_equal(told, 1);
	/* a host goes, which the circle is not of */
	routings = r.n.manager[0].sm.counters.routings;
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h2", 1), false);
	mad_net_for(&r.n, 20 * WTIME_S);
	agents_set_link(&r.n.agents, r.n.now, port_named(&r.t.f, "h2", 1), true);
	mad_net_for(&r.n, 20 * WTIME_S);
	assert_true(r.n.manager[0].sm.counters.routings > routings);
	assert_int_equal(told, 1);
	for (link = port_named(&r.t.f, "s1", 1); !fabric_is_switch(&r.t.f, r.t.f.owner[fabric_peer(&r.t.f, link)]);)
		link++;
	agents_set_link(&r.n.agents, r.n.now, link, false);
	mad_net_for(&r.n, 20 * WTIME_S);
	check_reaches(&r.t.f);
	assert_int_equal(detours(&r.t.f), 0);
	assert_true(!r.n.manager[0].sm.can_deadlock && told == 1);
	agents_set_link(&r.n.agents, r.n.now, link, true);
	mad_net_for(&r.n, 20 * WTIME_S);
	assert_true(can_deadlock(&r.t.f, &pairs) && r.n.manager[0].sm.can_deadlock);
	assert_int_equal(told, 2);
	assert_int_equal(detours(&r.t.f), 0);
	run_fini(&r);
	log_set_sink(NULL, NULL, LOG_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind),
		cmocka_unit_test(random_ones),
		cmocka_unit_test(switches_die_and_come_back),
		cmocka_unit_test(rings_deadlock_by_shortest_paths),
		cmocka_unit_test(each_way_in_every_kind),
		cmocka_unit_test(a_ring_by_shortest_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
