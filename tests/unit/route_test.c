/* Topologies of every kind, their routes, and the survey of the routes. */
#include "fabric.h"

#include "fabric/route.h"
#include "fabric/survey.h"

#include <errno.h>

/* A kind and its settings; what comes of it. */
static const struct {
	const char *kind;
	char *settings[5];
	uint32_t switches, hosts, links;
	unsigned longest;	/* of min-hop, in links */
	bool has_credit_loop;	/* of min-hop */
} rows[] = {
	{ "star", { "hosts=1" }, 1, 1, 1, 0, false },
	{ "star", { "hosts=254" }, 1, 254, 254, 2, false },
	{ "line", { "switches=5", "hosts=2" }, 5, 10, 14, 6, false },
	{ "line", { "switches=1", "hosts=3" }, 1, 3, 3, 2, false },
	{ "mesh", { "size=3" }, 3, 3, 5, 4, false },
	{ "mesh", { "size=2x3x4" }, 24, 24, 46 + 24, 1 + 2 + 3 + 2, false },
	{ "mesh", { "size=2x2x2x2x2x2" }, 64, 64, 192 + 64, 6 + 2, true },
	{ "torus", { "size=5" }, 5, 5, 10, 4, true },
	{ "torus", { "size=3" }, 3, 3, 6, 3, false },
	{ "torus", { "size=4x2", "hosts=3" }, 8, 24, 12 + 24, 5, true },
	{ "torus", { "size=5x4x3" }, 60, 60, 180 + 60, 2 + 2 + 1 + 2, true },
	{ "fat-tree", { "ports=2" }, 3, 2, 4, 4, false },
	{ "fat-tree", { "ports=36" }, 54, 648, 1296, 4, false },
	{ "fat-tree", { "ports=8", "hosts=1" }, 12, 8, 40, 4, false },
	{ "fat-tree", { "ports=8", "levels=3" }, 80, 128, 384, 6, false },
	{ "dragonfly", { "hosts=1" }, 36, 36, 54 + 36 + 36, 5, true },
	{ "dragonfly", { "group=3", "global=1", "groups=3", "hosts=2" }, 9, 18, 9 + 3 + 18, 5, true },
};

static uint32_t count_links(const struct fabric *f)
{
	uint32_t ends = 0;

	for (uint32_t p = 0; p < f->ports; p++)
		ends += f->port[p].peer != PORT_NONE;
	return ends / 2;
}

/* Hops by a search of its own, for comparison: of each node from one. */
static void measure(const struct fabric *f, uint32_t from, unsigned *hops)
{
	bool changed = true;

	for (uint32_t n = 0; n < f->nodes; n++)
		hops[n] = n == from ? 0 : UINT32_MAX;
	while (changed) {
		changed = false;
		for (uint32_t p = 0; p < f->ports; p++) {
			uint32_t a = f->owner[p], b = f->port[p].peer == PORT_NONE ? a : f->owner[f->port[p].peer];

			if (hops[a] == UINT32_MAX || hops[a] + 1 >= hops[b] || (a != from && !fabric_is_switch(f, a)))
				continue;
			hops[b] = hops[a] + 1;
			changed = true;
		}
	}
}

/* The links of the path from a host to a LID by the tables alone; 0: it does not reach. */
static unsigned path_links(const struct fabric *f, uint32_t host, uint32_t lid)
{
	uint32_t at = f->port[host].peer;

	for (unsigned links = 1; links < 100 && at != PORT_NONE; links++) {
		uint32_t node = f->owner[at];

		if (!fabric_is_switch(f, node))
			return f->port[at].lid == lid ? links : 0;
		if (fabric_lft(f, node)[lid] == LFT_NONE)
			return 0;
		at = f->port[fabric_port_index(f, node, fabric_lft(f, node)[lid])].peer;
	}
	return 0;
}

/* Compares the survey with every path followed by itself. */
static void compare(const struct fabric *f, const struct survey *s, bool shortest)
{
	unsigned *hops = calloc(f->nodes, sizeof(*hops)), longest = 0;
	uint64_t paths = 0, links = 0;

	for (uint32_t a = 0; a < f->ports; a++) {
		if (fabric_is_switch(f, f->owner[a]) || !f->port[a].lid)
			continue;
		measure(f, f->owner[a], hops);
		for (uint32_t b = 0; b < f->ports; b++) {
			unsigned n;

			if (a == b || fabric_is_switch(f, f->owner[b]) || !f->port[b].lid)
				continue;
			n = path_links(f, a, f->port[b].lid);
			assert_true(n > 0);
			if (shortest)
				assert_int_equal(n, hops[f->owner[b]]);
			longest = n > longest ? n : longest;
			links += n;
			paths++;
		}
	}
	assert_int_equal(s->paths, paths);
	assert_int_equal(s->reached, paths);
	assert_int_equal(s->links, links);
	assert_int_equal(s->longest, longest);
	assert_int_equal(s->lost + s->looping, 0);
	free(hops);
}

static void every_kind_is_routed(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t switches = 0;
		struct test_fabric t;
		struct survey s;

		make_fabric(&t, rows[i].kind, rows[i].settings);
		for (uint32_t n = 0; n < t.f.nodes; n++)
			switches += fabric_is_switch(&t.f, n);
		assert_int_equal(switches, rows[i].switches);
		assert_int_equal(t.f.nodes - switches, rows[i].hosts);
		assert_int_equal(count_links(&t.f), rows[i].links);
		assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
		assert_int_equal(survey(&s, &t.f), 0);
		compare(&t.f, &s, true);
		assert_int_equal(s.longest, rows[i].longest);
		if (s.has_credit_loop != rows[i].has_credit_loop)
			fail_msg("row %zu: credit loop: %d", i, s.has_credit_loop);
		survey_fini(&s);
		assert_int_equal(fabric_route(&t.f, ROUTE_UP_DOWN), 0);
		assert_int_equal(survey(&s, &t.f), 0);
		compare(&t.f, &s, false);
		assert_false(s.has_credit_loop);
		survey_fini(&s);
		end_fabric(&t);
	}
}

/* The paths on links between switches: the least and the most. */
static void measure_load(const struct fabric *f, const struct survey *s, uint32_t *least, uint32_t *most)
{
	*least = UINT32_MAX;
	*most = 0;
	for (uint32_t p = 0; p < f->ports; p++) {
		if (f->port[p].peer == PORT_NONE || !fabric_is_switch(f, f->owner[p]) ||
		    !fabric_is_switch(f, f->owner[f->port[p].peer]))
			continue;
		*least = s->load[p] < *least ? s->load[p] : *least;
		*most = s->load[p] > *most ? s->load[p] : *most;
	}
}

static void load_is_even_in_fat_trees(void **state)
{
	uint32_t least, most;
	struct test_fabric t;
	struct survey s;

	/* 35 leaves send 18 hosts' paths to 18 LIDs by 18 ports */
	MAKE(&t, "fat-tree", "ports=36");
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	assert_int_equal(survey(&s, &t.f), 0);
	measure_load(&t.f, &s, &least, &most);
	assert_int_equal(least, 35 * 18);
	assert_int_equal(most, 35 * 18);
	/* a host's own link has the paths that begin there, and those that end there */
	assert_int_equal(s.load[port_named(&t.f, "h5", 1)], 647);
	assert_int_equal(s.load[t.f.port[port_named(&t.f, "h5", 1)].peer], 647);
	survey_fini(&s);
	end_fabric(&t);
	MAKE(&t, "fat-tree", "ports=12", "levels=3");
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	assert_int_equal(survey(&s, &t.f), 0);
	measure_load(&t.f, &s, &least, &most);
	assert_in_range(most - least, 0, most / 10);
	survey_fini(&s);
	end_fabric(&t);
}

/* Paths on the busiest link between switches. */
static void load_is_shared_out_in_grids(void **state)
{
	static const struct { const char *kind; char *settings[3]; enum route_engine engine; uint32_t most; } grids[] = {
		{ "torus", { "size=4x4" }, ROUTE_MIN_HOP, 10 },
		{ "torus", { "size=6x6", "hosts=2" }, ROUTE_MIN_HOP, 122 },
		{ "mesh", { "size=3x3x3" }, ROUTE_MIN_HOP, 23 },
		{ "dragonfly", { "hosts=2" }, ROUTE_MIN_HOP, 78 },
		{ "torus", { "size=4x4" }, ROUTE_UP_DOWN, 17 },
		/* the root is a corner; from the middle 31 and 58 */
		{ "mesh", { "size=4x4" }, ROUTE_UP_DOWN, 26 },
		{ "mesh", { "size=3x3x3" }, ROUTE_UP_DOWN, 40 },
		/* the root is the middle; the switch farthest from it makes paths longer */
		{ "dragonfly", { "hosts=2" }, ROUTE_UP_DOWN, 296 },
	};

	for (size_t i = 0; i < sizeof(grids) / sizeof(grids[0]); i++) {
		uint32_t least, most;
		struct test_fabric t;
		struct survey s;

		make_fabric(&t, grids[i].kind, grids[i].settings);
		assert_int_equal(fabric_route(&t.f, grids[i].engine), 0);
		assert_int_equal(survey(&s, &t.f), 0);
		measure_load(&t.f, &s, &least, &most);
		if (most != grids[i].most)
			fail_msg("row %zu: %u paths on the busiest link", i, most);
		survey_fini(&s);
		end_fabric(&t);
	}
}

/* Who begins anew with the tables that are there changes none of them, also where nobody knows the ranks: of the
 * engine that a fabric gets by itself. */
static void routes_of_the_same_fabric_stay(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum route_engine engine = rows[i].has_credit_loop ? ROUTE_UP_DOWN : ROUTE_MIN_HOP;
		uint32_t *ranks, changed = 0;
		struct test_fabric t;
		uint8_t *was;

		make_fabric(&t, rows[i].kind, rows[i].settings);
		assert_int_equal(fabric_route(&t.f, engine), 0);
		was = malloc(t.f.bytes);
		ranks = calloc(t.f.nodes, sizeof(*ranks));
		memcpy(was, t.f.head, t.f.bytes);
		assert_int_equal(fabric_route_again(&t.f, engine, true, ranks), 0);
		for (uint32_t n = 0; n < t.f.nodes; n++) {
			const uint8_t *lft = fabric_lft(&t.f, n);

			for (uint32_t lid = 0; fabric_is_switch(&t.f, n) && lid < t.f.lids; lid++)
				changed += lft[lid] != was[lft + lid - (const uint8_t *)t.f.head];
		}
		if (changed)
			fail_msg("row %zu: %u entries change", i, changed);
		free(ranks);
		free(was);
		end_fabric(&t);
	}
}

/* The blocks of a topology's text, the last one first. */
static void turn_round(const char *text, char *turned)
{
	const char *block, *end = text + strlen(text);

	for (*turned = '\0'; end > text; end = block) {
		for (block = end - 1; block > text && strncmp(block, "\n\n", 2) != 0; block--)
			;
		turned += sprintf(turned, "\n%.*s\n", (int)(end - block), block);
	}
}

/* Whoever knows the nodes in another order, as a manager that begins elsewhere, comes to the same ways. */
static void the_order_of_nodes_is_all_one(void **state)
{
	for (unsigned engine = 0; engine < ROUTE_ENGINES; engine++) {
		struct test_fabric t, other;
		char *text, *turned;

		MAKE(&t, "torus", "size=4x3", "hosts=2");
		text = print_fabric(&t.f);
		turned = malloc(2 * strlen(text) + 2);
		turn_round(text, turned);
		parse_fabric(&other, turned);
		assert_string_not_equal(t.f.node[0].description, other.f.node[0].description);
		assert_int_equal(fabric_route(&t.f, engine), 0);
		assert_int_equal(fabric_route(&other.f, engine), 0);
		for (uint32_t n = 0; n < t.f.nodes; n++) {
			uint32_t same = node_named(&other.f, t.f.node[n].description);

			if (fabric_is_switch(&t.f, n))
				assert_memory_equal(fabric_lft(&t.f, n), fabric_lft(&other.f, same), t.f.lids);
		}
		free(turned);
		free(text);
		end_fabric(&other);
		end_fabric(&t);
	}
}

static void routes_avoid_a_link_that_is_down(void **state)
{
	struct test_fabric t;
	struct survey s;
	uint32_t port;

	MAKE(&t, "torus", "size=5");
	port = port_named(&t.f, "s1", 1);
	t.f.port[port].state = PORT_DOWN;
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	assert_int_equal(survey(&s, &t.f), 0);
	assert_int_equal(s.reached, s.paths);
	assert_int_equal(s.longest, 6);
	assert_int_equal(s.load[port], 0);
	survey_fini(&s);
	end_fabric(&t);
}

static void what_does_not_reach_is_told(void **state)
{
	struct test_fabric t;
	struct survey s;
	uint32_t h1;

	/* two parts, and a pair of adapters without a switch */
	parse_fabric(&t, "Switch 2 \"s1\"\n[1] \"a\"\n[2] \"b\"\nSwitch 2 \"s2\"\n[1] \"c\"\n"
			 "Ca 1 \"a\"\nCa 1 \"b\"\nCa 1 \"c\"\nCa 1 \"d\"\n[1] \"e\"\nCa 1 \"e\"\n");
	assert_int_equal(fabric_route(&t.f, ROUTE_UP_DOWN), 0);
	assert_int_equal(survey(&s, &t.f), 0);
	assert_int_equal(s.paths, 20);
	assert_int_equal(s.reached, 4);
	assert_int_equal(s.lost, 16);
	survey_fini(&s);
	end_fabric(&t);

	MAKE(&t, "line", "switches=3");
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	/* s1 sends h3's LID to s2, and s2 would send it back: of h1 and h2 */
	h1 = node_named(&t.f, "s2");
	fabric_lft(&t.f, h1)[t.f.port[port_named(&t.f, "h3", 1)].lid] = 1;
	assert_int_equal(survey(&s, &t.f), 0);
	assert_int_equal(s.looping, 0);
	assert_int_equal(s.lost, 2);
	assert_int_equal(s.reached, 4);
	assert_int_equal(s.bad_lid, t.f.port[port_named(&t.f, "h3", 1)].lid);
	assert_int_equal(t.f.owner[s.bad_port], node_named(&t.f, "s1"));
	survey_fini(&s);
	/* to a host that does not have the LID, to port 0, to a port that is not there */
	for (int out = 0; out < 3; out++) {
		fabric_lft(&t.f, h1)[t.f.port[port_named(&t.f, "h3", 1)].lid] = (uint8_t[]){ 3, 0, 77 }[out];
		assert_int_equal(survey(&s, &t.f), 0);
		assert_int_equal(s.lost, 2);
		assert_int_equal(s.looping, 0);
		survey_fini(&s);
	}
	end_fabric(&t);

	MAKE(&t, "torus", "size=5");
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	send_round(&t.f, 5, t.f.port[port_named(&t.f, "h1", 1)].lid);
	assert_int_equal(survey(&s, &t.f), 0);
	assert_int_equal(s.looping, 4);
	assert_int_equal(s.lost, 0);
	assert_int_equal(s.reached, 16);
	survey_fini(&s);
	end_fabric(&t);
}

static void every_lid_of_a_port_has_a_path(void **state)
{
	struct test_fabric t;
	struct survey s;
	uint32_t lid;

	parse_fabric(&t, "Switch 4 \"s\"\n[1] \"t\"[1]\n[2] \"t\"[2]\n[3] \"a\"\nSwitch 4 \"t\"\n[3] \"b\"\n"
			 "Ca 1 \"a\"\nCa 1 \"b\"\n[1] \"t\"[3] # lid 0 lmc 1 \"t\"\n");
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	assert_int_equal(survey(&s, &t.f), 0);
	assert_int_equal(s.paths, 3);
	assert_int_equal(s.reached, 3);
	lid = t.f.port[port_named(&t.f, "b", 1)].lid;
	/* by two ways, as two LIDs are for */
	assert_int_not_equal(fabric_lft(&t.f, 0)[lid], fabric_lft(&t.f, 0)[lid + 1]);
	/* a switch has a LID for its management */
	assert_int_equal(fabric_lft(&t.f, 0)[t.f.port[port_named(&t.f, "s", 0)].lid], 0);
	assert_in_range(fabric_lft(&t.f, 0)[t.f.port[port_named(&t.f, "t", 0)].lid], 1, 2);
	survey_fini(&s);
	end_fabric(&t);
}

/* From l to the four LIDs of a host behind m, by bits. */
static unsigned ways_to(const struct test_fabric *t, const char *host)
{
	uint32_t lid = t->f.port[port_named(&t->f, host, 1)].lid;
	unsigned ways = 0;

	for (uint32_t i = lid; i < lid + 4; i++)
		ways |= 1u << fabric_lft(&t->f, node_named(&t->f, "l"))[i];
	return ways;
}

/* A port's LIDs go by as many ways as there are, also where a link comes back that has less to carry than any other. */
static void lids_of_a_port_go_by_different_ways(void **state)
{
	enum { ALL = 0x1e };
	static const char *const hosts[] = { "b", "c", "d" };
	struct test_fabric t;
	uint32_t port;

	parse_fabric(&t, "Switch 5 \"l\"\n[1] \"s1\"[1]\n[2] \"s2\"[1]\n[3] \"s3\"[1]\n[4] \"s4\"[1]\n[5] \"a\"\n"
			 "Switch 7 \"m\"\n[1] \"s1\"[2]\n[2] \"s2\"[2]\n[3] \"s3\"[2]\n[4] \"s4\"[2]\n"
			 "[5] \"b\"\n[6] \"c\"\n[7] \"d\"\n"
			 "Switch 2 \"s1\"\nSwitch 2 \"s2\"\nSwitch 2 \"s3\"\nSwitch 2 \"s4\"\nCa 1 \"a\"\n"
			 "Ca 1 \"b\"\n[1] \"m\"[5] # lid 0 lmc 2 \"m\"\nCa 1 \"c\"\n[1] \"m\"[6] # lid 0 lmc 2 \"m\"\n"
			 "Ca 1 \"d\"\n[1] \"m\"[7] # lid 0 lmc 2 \"m\"\n");
	port = port_named(&t.f, "l", 2);
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ways_to(&t, hosts[i]), ALL);
	t.f.port[port].state = PORT_DOWN;
	assert_int_equal(fabric_route_again(&t.f, ROUTE_MIN_HOP, false, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ways_to(&t, hosts[i]), ALL & ~(1u << 2));
	t.f.port[port].state = PORT_ACTIVE;
	assert_int_equal(fabric_route_again(&t.f, ROUTE_MIN_HOP, true, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ways_to(&t, hosts[i]), ALL);
	end_fabric(&t);
}

/* One of eighteen: the others carry an eighteenth more, which is little. */
static void a_spine_of_many_gets_its_share_again(void **state)
{
	struct test_fabric t;
	struct survey s, again;
	uint32_t spine;

	MAKE(&t, "fat-tree", "ports=36");
	assert_int_equal(fabric_route(&t.f, ROUTE_MIN_HOP), 0);
	assert_int_equal(survey(&s, &t.f), 0);
	spine = t.f.owner[fabric_peer(&t.f, port_named(&t.f, "s1", 20))];
	for (unsigned i = 1; i <= t.f.place[spine].ports; i++)
		t.f.port[fabric_port_index(&t.f, spine, i)].state = PORT_DOWN;
	assert_int_equal(fabric_route_again(&t.f, ROUTE_MIN_HOP, false, NULL), 0);
	for (unsigned i = 1; i <= t.f.place[spine].ports; i++)
		t.f.port[fabric_port_index(&t.f, spine, i)].state = PORT_ACTIVE;
	assert_int_equal(fabric_route_again(&t.f, ROUTE_MIN_HOP, true, NULL), 0);
	assert_int_equal(survey(&again, &t.f), 0);
	for (unsigned i = 1; i <= t.f.place[spine].ports; i++) {
		uint32_t port = fabric_port_index(&t.f, spine, i);

		assert_in_range(again.load[port], s.load[port] * 3 / 4, s.load[port] * 5 / 4);
	}
	survey_fini(&again);
	survey_fini(&s);
	end_fabric(&t);
}

static const struct {
	const char *kind, *setting, *says;
} refused[] = {
	{ "ring", "hosts=1", "no kind 'ring'" },
	{ "star", "hosts=0", "no port" },
	{ "star", "hosts=255", "255 ports: at most 254" },
	{ "star", "hosts=", "a number of 0 to" },
	{ "star", "hosts=1x", "a number of 0 to" },
	{ "star", "size=4", "a star has the settings hosts=8 link=4xHDR" },
	{ "star", "hosts", "has the settings" },
	{ "star", "link=3xHDR", "as link=4xHDR" },
	{ "star", "link=4xQQQ", "as link=4xHDR" },
	{ "mesh", "size=4x", "as size=4x4x2" },
	{ "mesh", "size=4x0", "as size=4x4x2" },
	{ "mesh", "size=2x2x2x2x2x2x2", "one to 6 numbers" },
	{ "mesh", "size=200x200", "more nodes" },
	{ "torus", "size=16384x16384x16384", "more nodes" },
	{ "line", "switches=49152", "more nodes" },
	{ "fat-tree", "ports=7", "even number of ports" },
	{ "fat-tree", "levels=4", "a number of 2 to 3" },
	{ "fat-tree", "hosts=3", "has room for 2" },
	{ "fat-tree", "group=3", "has the settings" },
	{ "dragonfly", "groups=10", "reach 9 groups" },
};

static void settings_that_make_no_sense_are_refused(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		char setting[64], why[300] = "";
		struct topology t;

		snprintf(setting, sizeof(setting), "%s", refused[i].setting);
		topology_init(&t);
		assert_int_equal(generate(&t, refused[i].kind, 1, (char *const[]){ setting }, why, sizeof(why)), -EINVAL);
		if (!strstr(why, refused[i].says))
			fail_msg("%s %s: %s", refused[i].kind, refused[i].setting, why);
		topology_fini(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_routed),
		cmocka_unit_test(load_is_even_in_fat_trees),
		cmocka_unit_test(load_is_shared_out_in_grids), cmocka_unit_test(routes_of_the_same_fabric_stay),
		cmocka_unit_test(the_order_of_nodes_is_all_one),
		cmocka_unit_test(routes_avoid_a_link_that_is_down),
		cmocka_unit_test(what_does_not_reach_is_told),
		cmocka_unit_test(every_lid_of_a_port_has_a_path),
		cmocka_unit_test(lids_of_a_port_go_by_different_ways),
		cmocka_unit_test(a_spine_of_many_gets_its_share_again),
		cmocka_unit_test(settings_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
