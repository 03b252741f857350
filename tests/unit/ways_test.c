/* What programs' data counts at the ports of its way, and the ways that are kept. */
#include "fabric.h"

#include "fabric/route.h"
#include "peers/trees.h"
#include "peers/ways.h"

struct world {
	struct test_fabric t;
	struct traffic_block *all;
	struct ways ways;
	uint32_t h1, h2;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	MAKE(&w->t, "line", "switches=2");
	assert_int_equal(fabric_route(&w->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&w->t.f);
	w->all = calloc(1, traffic_bytes(&w->t.f));
	assert_non_null(w->all);
	w->h1 = port_named(&w->t.f, "h1", 1);
	w->h2 = port_named(&w->t.f, "h2", 1);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	ways_fini(&w->ways);
	end_fabric(&w->t);
	free(w->all);
	free(w);
	return 0;
}

static const struct way *find(struct world *w, uint64_t generation, uint16_t dlid, uint8_t sl)
{
	const struct walk_packet p = { .from = w->h1, .dlid = dlid, .pkey = 0xffff, .sl = sl, .switches = SWITCHES_MOST };

	uint32_t number = ways_find(&w->ways, generation, &w->t.f, &p, w->t.f.port[w->h1].lid);

	assert_int_not_equal(number, 0);
	return ways_at(&w->ways, number);
}

static uint64_t sum(const struct world *w, enum traffic_count c)
{
	uint64_t n = 0;

	for (uint32_t p = 0; p < w->t.f.ports; p++)
		n += traffic_read(w->all, p, c);
	return n;
}

static void every_port_that_sends_it_on_counts(void **state)
{
	struct world *w = *state;
	const struct way *way = find(w, 1, w->t.f.port[w->h2].lid, 0);
	const struct wire_load there = { 5, 700 }, back = { 1, 7 };
	uint32_t s1 = w->t.f.port[w->h1].peer, s2 = w->t.f.port[w->h2].peer;

	assert_non_null(way);
	assert_int_equal(way->there.links, 3);
	traffic_pass(w->all, &way->there, &there);
	traffic_pass(w->all, &way->there, &there);
	traffic_pass(w->all, &way->back, &back);
	assert_int_equal(traffic_read(w->all, w->h1, TRAFFIC_PACKETS), 10);
	assert_int_equal(traffic_read(w->all, w->h1, TRAFFIC_WORDS), 1400);
	assert_int_equal(traffic_read(w->all, s2, TRAFFIC_WORDS), 1400);
	assert_int_equal(traffic_read(w->all, w->h2, TRAFFIC_PACKETS), 1);
	assert_int_equal(traffic_read(w->all, s1, TRAFFIC_WORDS), 7);
	assert_int_equal(sum(w, TRAFFIC_PACKETS), 3 * (10 + 1));
	assert_int_equal(sum(w, TRAFFIC_WORDS), 3 * (1400 + 7));
	assert_int_equal(sum(w, TRAFFIC_INACTIVE) + sum(w, TRAFFIC_NO_ROUTE), 0);
}

static void what_is_dropped_counts_where_it_is(void **state)
{
	struct world *w = *state;
	const struct wire_load load = { 3, 30 };
	uint32_t s1 = w->t.f.port[w->h1].peer, s2 = w->t.f.port[w->h2].peer;
	const struct way *way = find(w, 1, 77, 0);

	/* no port has the LID: the first switch discards it */
	traffic_pass(w->all, &way->there, &load);
	assert_int_equal(traffic_read(w->all, w->h1, TRAFFIC_PACKETS), 3);
	assert_int_equal(traffic_read(w->all, s1, TRAFFIC_NO_ROUTE), 3);
	assert_int_equal(way->back.links, 0);
	/* nothing comes back of it */
	traffic_pass(w->all, &way->back, &load);
	assert_int_equal(sum(w, TRAFFIC_PACKETS), 3);
	/* a link that is down: the port before it */
	fabric_set_link(&w->t.f, w->h2, false);
	way = find(w, 2, w->t.f.port[w->h2].lid, 0);
	traffic_pass(w->all, &way->there, &load);
	assert_int_equal(traffic_read(w->all, s2, TRAFFIC_INACTIVE), 3);
	assert_int_equal(sum(w, TRAFFIC_INACTIVE), 3);
	assert_int_equal(traffic_read(w->all, s2, TRAFFIC_PACKETS), 0);
	assert_int_equal(traffic_read(w->all, w->h1, TRAFFIC_PACKETS), 6);
}

static void what_stays_at_the_port_counts_nowhere(void **state)
{
	struct world *w = *state;
	const struct way *way = find(w, 1, w->t.f.port[w->h1].lid, 0);

	traffic_pass(w->all, &way->there, &(struct wire_load){ 3, 30 });
	assert_int_equal(sum(w, TRAFFIC_PACKETS), 0);
}

static void a_way_is_kept_for_its_generation(void **state)
{
	struct world *w = *state;
	uint16_t lid = w->t.f.port[w->h2].lid;
	const struct way *way = find(w, 1, lid, 0);

	assert_ptr_equal(find(w, 1, lid, 0), way);
	assert_ptr_not_equal(find(w, 1, lid, 1), way);
	assert_ptr_not_equal(find(w, 1, w->t.f.port[w->h1].lid, 0), way);
	assert_int_equal(way->there.links, 3);
	/* the fabric is another one from now on */
	fabric_set_link(&w->t.f, w->h2, false);
	assert_int_equal(find(w, 1, lid, 0)->there.links, 3);
	assert_int_equal(find(w, 2, lid, 0)->there.links, 2);
}

static void copies_of_a_group_count_on_each_link(void **state)
{
	struct world *w = *state;
	const struct walk_packet p = { .from = w->h1, .dlid = MLID_FIRST, .pkey = 0xffff };
	const struct wire_load load = { 3, 30 };
	struct trees trees = { 0 };
	const struct tree *tree;

	assert_int_equal(fabric_route_group(&w->t.f, MLID_FIRST), 0);
	tree = trees_find(&trees, 1, &w->t.f, &p);
	assert_non_null(tree);
	assert_int_equal(tree->links, 3);
	assert_true(tree_reaches(tree, w->h1) && tree_reaches(tree, w->h2));
	tree_pass(w->all, tree, &load);
	assert_int_equal(sum(w, TRAFFIC_PACKETS), 9);
	assert_int_equal(sum(w, TRAFFIC_MULTICAST), 9);
	assert_int_equal(sum(w, TRAFFIC_WORDS), 90);
	assert_int_equal(sum(w, TRAFFIC_INACTIVE), 0);
	/* the same one until routes change: then its partition does not let the packet in, and one link later it is down */
	fabric_pkeys(&w->t.f, w->h2)[0] = 0x8001;
	assert_ptr_equal(trees_find(&trees, 1, &w->t.f, &p), tree);
	assert_true(tree_reaches(tree, w->h2));
	tree = trees_find(&trees, 2, &w->t.f, &p);
	assert_false(tree_reaches(tree, w->h2));
	fabric_set_link(&w->t.f, w->h2, false);
	tree = trees_find(&trees, 3, &w->t.f, &p);
	assert_int_equal(tree->links, 2);
	tree_pass(w->all, tree, &load);
	assert_int_equal(traffic_read(w->all, w->t.f.port[w->h2].peer, TRAFFIC_INACTIVE), 3);
	trees_fini(&trees);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_port_that_sends_it_on_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_dropped_counts_where_it_is, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_stays_at_the_port_counts_nowhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_way_is_kept_for_its_generation, set_up, tear_down),
		cmocka_unit_test_setup_teardown(copies_of_a_group_count_on_each_link, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
