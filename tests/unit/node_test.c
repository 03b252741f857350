/* Ports of hosts by name and as devices; and whom a process at one reaches. */
#include "fabric.h"

#include "fabric/host.h"
#include "fabric/route.h"
#include "peers/node.h"

enum { SLOT = 9, OTHER_SLOT = 11, OUTSIDE = 13 };

/* This process is at h1 of a line of two switches, that of SLOT at h2, that of OTHER_SLOT at h1 too. */
struct world {
	struct test_fabric t;
	struct fabric_page *page;
	struct node node;
	struct ca_device dev;
};

static const struct device_protocol *const protocols[] = { &protocol_ib, &protocol_roce_v2 };

static uint32_t host(const struct world *w, const char *name)
{
	return port_named(&w->t.f, name, 1);
}

static void take_device(struct world *w)
{
	struct page_device d = { .protocol = PAGE_IB, .max_mtu = 5 };

	node_describe(&w->node, 1, &d);
	w->dev = (struct ca_device){ .protocol = protocols[0], .port_num = 1, .place_number = 1,
				    .lid = d.lid, .pkeys = 1, .pkey = { d.pkey[0] } };
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->page = calloc(1, sizeof(*w->page));
	MAKE(&w->t, "line", "switches=2");
	assert_int_equal(fabric_route(&w->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&w->t.f);
	w->node = (struct node){ .fabric = w->t.f, .place = host(w, "h1") };
	w->page->fabric = 1;
	w->page->slot_port[SLOT] = host(w, "h2") + 1;
	w->page->slot_port[OTHER_SLOT] = host(w, "h1") + 1;
	take_device(w);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	end_fabric(&w->t);
	free(w->page);
	free(w);
	return 0;
}

static struct packet_path path_to(const struct world *w, const char *name)
{
	return (struct packet_path){ .dlid = w->t.f.port[host(w, name)].lid };
}

static void put_gid(const struct world *w, uint8_t gid[16], const char *name)
{
	struct page_device d = { .protocol = PAGE_IB, .max_mtu = 5 };

	host_describe(&w->t.f, host(w, name), &d);
	memcpy(gid, d.gid[0].raw, 16);
}

static enum route_kind way(const struct world *w, const struct packet_path *path, uint32_t slot)
{
	return node_way(&w->node, w->page, &w->dev, w->dev.pkey[0], path, slot);
}

static void names_are_found(void **state)
{
	const struct world *w = *state;
	const struct fabric *f = &w->t.f;

	assert_int_equal(host_find_port(f, "h2"), port_named(f, "h2", 1));
	assert_int_equal(host_find_port(f, "s1"), port_named(f, "s1", 0));
	assert_int_equal(host_find_port(f, "s2:1"), port_named(f, "s2", 1));
	assert_int_equal(host_find_port(f, "h2:1"), port_named(f, "h2", 1));
	assert_int_equal(host_find_port(f, "h"), PORT_NONE);
	assert_int_equal(host_find_port(f, "h22"), PORT_NONE);
	assert_int_equal(host_find_port(f, "h2:"), PORT_NONE);
	assert_int_equal(host_find_port(f, "h2:-1"), PORT_NONE);
	assert_int_equal(host_find_port(f, "h2:2"), PORT_NONE);
	assert_int_equal(host_find_port(f, ""), PORT_NONE);
	/* a description without an end, as another process may make it */
	memset(f->node[node_named(f, "h1")].description, 'x', sizeof(f->node[0].description));
	assert_int_equal(host_find_port(f, "h2"), port_named(f, "h2", 1));
	assert_true(host_has_programs(f, port_named(f, "h2", 1)));
	assert_false(host_has_programs(f, port_named(f, "h2", 0)));
	assert_false(host_has_programs(f, port_named(f, "s1", 0)));
	assert_false(host_has_programs(f, port_named(f, "s1", 1)));
	assert_false(host_has_programs(f, f->ports));
	assert_false(host_has_programs(f, PORT_NONE));
	f->port[port_named(f, "h2", 1)].lid = 0;
	assert_true(host_has_programs(f, port_named(f, "h2", 1)));
	f->port[port_named(f, "h2", 1)].peer = PORT_NONE;
	assert_false(host_has_programs(f, port_named(f, "h2", 1)));
}

static void hosts_have_addresses(void **state)
{
	struct world *w = *state;
	const struct fabric *f = &w->t.f;
	uint8_t address[16] = { [10] = 0xff, 0xff }, gid[16], far[16];
	static const uint8_t second[HOST_IPV4_BYTES] = { 127, 1, 0, 2 }, none[][HOST_IPV4_BYTES] = {
		{ 127, 1, 0, 3 }, { 127, 1, 0, 0 }, { 127, 1, 1, 2 }, { 127, 2, 0, 2 }, { 127, 0, 0, 2 }, { 10, 1, 0, 2 },
	};

	assert_true(host_write_ipv4(f, host(w, "h2"), address + 12));
	assert_memory_equal(address + 12, second, sizeof(second));
	assert_int_equal(host_find_ipv4(f, second), host(w, "h2"));
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(host_find_ipv4(f, none[i]), PORT_NONE);
	host_write_gid(f, host(w, "h2"), 0, far);
	assert_int_equal(host_find_gid(f, far), host(w, "h2"));
	/* the process is at h1 */
	assert_int_equal(node_find_address(&w->node, address, gid), NODE_OTHERS);
	assert_memory_equal(gid, far, sizeof(gid));
	assert_int_equal(node_find_address(&w->node, far, gid), NODE_OTHERS);
	address[15] = 3;
	assert_int_equal(node_find_address(&w->node, address, gid), NODE_NOBODYS);
	address[13] = 0;
	assert_int_equal(node_find_address(&w->node, address, gid), NODE_ELSEWHERE);
	assert_true(node_own_address(&w->node, address));
	assert_int_equal(node_find_address(&w->node, address, gid), NODE_OWN);
	assert_int_equal(address[12] << 24 | address[13] << 16 | address[15], 127 << 24 | 1 << 16 | 1);
	far[15] ^= 1;
	assert_int_equal(host_find_gid(f, far), PORT_NONE);
	assert_int_equal(node_find_address(&(struct node){ 0 }, address, gid), NODE_ELSEWHERE);
	assert_false(node_own_address(&(struct node){ 0 }, address));
}

static void a_port_is_shown_as_a_device(void **state)
{
	const struct world *w = *state;
	uint32_t at = host(w, "h2");
	struct fabric_port *p = &w->t.f.port[at];
	struct page_device d = { .protocol = PAGE_IB, .max_mtu = 5 };

	p->lmc = 2;
	p->sm_lid = 77;
	p->sm_sl = 3;
	p->mtu = 4;
	fabric_pkeys(&w->t.f, at)[0] = 0x8123;
	fabric_guids(&w->t.f, at)[3] = 0x1122334455667788;
	host_describe(&w->t.f, at, &d);
	assert_int_equal(d.lid, p->lid);
	assert_int_equal(d.lmc, 2);
	assert_int_equal(d.sm_lid, 77);
	assert_int_equal(d.sm_sl, 3);
	assert_int_equal(d.active_mtu, 4);
	assert_int_equal(d.port_state, PORT_ACTIVE);
	assert_int_equal(d.phys_state, PHYS_LINK_UP);
	assert_int_equal(d.width, 2);
	assert_int_equal(d.speed, 64);		/* HDR */
	assert_int_equal(d.pkey[0], 0x8123);
	assert_int_equal(d.guid, 0x0200000000100002);
	assert_memory_equal(d.gid[0].raw, "\xfe\x80\0\0\0\0\0\0\x02\0\0\0\0\x10\0\x03", 16);
	assert_true(d.gid[0].valid);
	assert_false(d.gid[1].valid);
	assert_true(d.gid[3].valid);
	assert_memory_equal(d.gid[3].raw + 8, "\x11\x22\x33\x44\x55\x66\x77\x88", 8);
	assert_true(host_has_gid(&w->t.f, at, d.gid[3].raw));
	assert_false(host_has_gid(&w->t.f, at, d.gid[1].raw));
	d.gid[0].raw[1] ^= 1;
	assert_false(host_has_gid(&w->t.f, at, d.gid[0].raw));
	assert_true(host_has_lid(&w->t.f, at, p->lid + 3u));
	assert_false(host_has_lid(&w->t.f, at, p->lid + 4u));
	/* values that no port has */
	p->mtu = 77;
	p->state = 0;
	p->speed = 200;
	host_describe(&w->t.f, at, &d);
	assert_int_equal(d.active_mtu, 5);
	assert_int_equal(d.port_state, PORT_DOWN);
	assert_int_equal(d.speed, 0);
}

static void another_node_is_reached_at_its_address(void **state)
{
	struct world *w = *state;
	struct packet_path path = path_to(w, "h2");

	assert_int_equal(way(w, &path, SLOT), ROUTE_LOOP);
	/* the LID of one host and the process of another */
	assert_int_equal(way(w, &path, OTHER_SLOT), ROUTE_NOWHERE);
	assert_int_equal(way(w, &path, OUTSIDE), ROUTE_NOWHERE);
	path.has_grh = true;
	put_gid(w, path.dgid, "h2");
	assert_int_equal(way(w, &path, SLOT), ROUTE_LOOP);
	put_gid(w, path.dgid, "h1");
	assert_int_equal(way(w, &path, SLOT), ROUTE_NOWHERE);
	path = path_to(w, "h1");
	assert_int_equal(way(w, &path, SLOT), ROUTE_NOWHERE);
	assert_int_equal(way(w, &path, OTHER_SLOT), ROUTE_LOOP);
	/* a word of the page that is no port's */
	w->page->slot_port[OUTSIDE] = UINT32_MAX;
	assert_int_equal(way(w, &path, OUTSIDE), ROUTE_NOWHERE);
}

static void a_link_that_is_down_cuts(void **state)
{
	struct world *w = *state;
	struct packet_path there = path_to(w, "h2"), own = path_to(w, "h1");

	for (int i = 0; i < 2; i++) {
		uint32_t port = i ? port_named(&w->t.f, "s1", 1) : host(w, "h1");
		uint32_t sequence = w->t.f.node[w->t.f.owner[port]].sequence;

		fabric_set_link(&w->t.f, port, false);
		assert_int_not_equal(w->t.f.node[w->t.f.owner[port]].sequence, sequence);
		assert_int_equal(w->t.f.node[w->t.f.owner[port]].sequence % 2, 0);
		assert_int_equal(w->t.f.port[fabric_peer(&w->t.f, port)].state, PORT_DOWN);
		assert_int_equal(way(w, &there, SLOT), ROUTE_CUT);
		assert_int_equal(way(w, &there, 0), ROUTE_CUT);
		/* who shares the host is not on the other side of a link */
		assert_int_equal(way(w, &own, OTHER_SLOT), ROUTE_LOOP);
		fabric_set_link(&w->t.f, port, true);
		assert_int_equal(way(w, &there, SLOT), ROUTE_LOOP);
		/* QP1 of whom it gets to */
		assert_int_equal(way(w, &there, 0), ROUTE_LOOP);
	}
}

static void a_way_without_return_is_told(void **state)
{
	struct world *w = *state;
	struct packet_path path = path_to(w, "h2");
	uint8_t *lft = &fabric_lft(&w->t.f, node_named(&w->t.f, "s2"))[w->dev.lid], was = *lft;

	*lft = LFT_NONE;
	assert_int_equal(way(w, &path, SLOT), ROUTE_ONE_WAY);
	*lft = was;
	lft = &fabric_lft(&w->t.f, node_named(&w->t.f, "s2"))[path.dlid];
	*lft = LFT_NONE;
	assert_int_equal(way(w, &path, SLOT), ROUTE_CUT);
}

static void partitions_and_lanes_are_heeded(void **state)
{
	struct world *w = *state;
	struct packet_path path = path_to(w, "h2");
	uint32_t in = port_named(&w->t.f, "s2", 1);

	w->t.f.port[in].enforce = ENFORCE_IN;
	assert_int_equal(way(w, &path, SLOT), ROUTE_LOOP);
	w->dev.pkey[0] = fabric_pkeys(&w->t.f, host(w, "h1"))[0] = 0x8001;
	assert_int_equal(way(w, &path, SLOT), ROUTE_CUT);
	fabric_pkeys(&w->t.f, in)[5] = 0x8001;
	/* the other end is in another partition */
	assert_int_equal(way(w, &path, SLOT), ROUTE_CUT);
	fabric_pkeys(&w->t.f, host(w, "h2"))[0] = 0x8001;
	assert_int_equal(way(w, &path, SLOT), ROUTE_LOOP);
	/* any place of the table opens the port; a switch looks for the partition, and members at the end judge each other */
	fabric_pkeys(&w->t.f, host(w, "h2"))[0] = 0x7fff;
	fabric_pkeys(&w->t.f, host(w, "h2"))[9] = fabric_pkeys(&w->t.f, in)[5] = 0x0001;
	assert_int_equal(way(w, &path, SLOT), ROUTE_LOOP);
	w->dev.pkey[0] = fabric_pkeys(&w->t.f, host(w, "h1"))[0] = 0x0001;
	assert_int_equal(way(w, &path, SLOT), ROUTE_CUT);
	fabric_pkeys(&w->t.f, host(w, "h2"))[9] = 0x8001;
	assert_int_equal(way(w, &path, SLOT), ROUTE_LOOP);
	path.sl = 9;
	memset(fabric_sl2vl(&w->t.f, node_named(&w->t.f, "s1"), 2, 1), 0xff, FABRIC_SL2VL);
	assert_int_equal(way(w, &path, SLOT), ROUTE_CUT);
}

static bool is_member(const uint64_t members[PAGE_SLOTS / 64], uint32_t slot)
{
	return members[slot / 64] >> slot % 64 & 1;
}

static void groups_have_those_who_are_reached(void **state)
{
	struct world *w = *state;
	const struct node nowhere = { 0 };
	const struct route groups[] = { { .generation = 1, .pkey = 0xffff }, { .generation = 2, .pkey = 0xffff },
					{ .generation = 3, .pkey = 0xffff }, { .generation = 4 } };
	const uint64_t all[PAGE_SLOTS / 64] = { 1ull << SLOT | 1ull << OTHER_SLOT | 1ull << OUTSIDE };
	uint64_t members[PAGE_SLOTS / 64];
	const struct tree *tree;

	assert_int_equal(fabric_route_group(&w->t.f, MLID_FIRST + 1), 0);
	memcpy(members, all, sizeof(all));
	tree = node_find_tree(&w->node, &w->dev, &groups[0], MLID_FIRST + 7, 0, MLID_FIRST + 1);
	node_filter(&w->node, w->page, &w->dev, tree, 1, members);
	assert_true(is_member(members, SLOT) && is_member(members, OTHER_SLOT) && !is_member(members, OUTSIDE));
	/* where a manager is, the LID of the packet leads; here to no port but the own */
	FABRIC_SET(w->t.f.port[w->node.place].sm_lid, 1);
	tree = node_find_tree(&w->node, &w->dev, &groups[1], MLID_FIRST + 7, 0, MLID_FIRST + 1);
	node_filter(&w->node, w->page, &w->dev, tree, 1, members);
	assert_true(!is_member(members, SLOT) && is_member(members, OTHER_SLOT));
	memcpy(members, all, sizeof(all));
	fabric_set_link(&w->t.f, host(w, "h2"), false);
	tree = node_find_tree(&w->node, &w->dev, &groups[2], MLID_FIRST + 1, 0, 0);
	node_filter(&w->node, w->page, &w->dev, tree, 1, members);
	assert_true(!is_member(members, SLOT) && is_member(members, OTHER_SLOT));
	trees_fini(&w->node.trees);
	memcpy(members, all, sizeof(all));
	assert_null(node_find_tree(&w->node, &(struct ca_device){ .protocol = protocols[1] }, &groups[3],
				   MLID_FIRST + 1, 0, 0));
	node_filter(&nowhere, w->page, &w->dev, NULL, 1, members);
	assert_true(!is_member(members, SLOT) && !is_member(members, OTHER_SLOT) && is_member(members, OUTSIDE));
	/* on the other device, and without a fabric, all are */
	memcpy(members, all, sizeof(all));
	w->dev.protocol = protocols[1];
	node_filter(&w->node, w->page, &w->dev, NULL, 1, members);
	w->dev.protocol = protocols[0];
	w->page->fabric = 0;
	node_filter(&nowhere, w->page, &w->dev, NULL, 1, members);
	assert_memory_equal(members, all, sizeof(all));
}

enum { DRAWS = 64, WORDS = 70 };

static uint64_t count_at(const struct world *w, uint32_t port, enum traffic_count c)
{
	return traffic_read(w->node.traffic, port, c);
}

/* How many of DRAWS packets to the group got to h2; each gets to who is at h1, as no link is between. */
static unsigned draw_all(struct world *w, const struct route *r)
{
	const struct tree *tree = node_find_tree(&w->node, &w->dev, r, MLID_FIRST, 0, MLID_FIRST);
	unsigned got = 0;

	assert_true(tree && tree_has_faults(tree));
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t members[PAGE_SLOTS / 64] = { 1ull << SLOT | 1ull << OTHER_SLOT };

		/* whom a packet may get to has room, whoever got the last one */
		node_filter(&w->node, w->page, &w->dev, tree, 1, members);
		assert_true(is_member(members, SLOT) && is_member(members, OTHER_SLOT));
		node_draw_tree(&w->node, tree, 1, 1000, WORDS);
		assert_true(node_tree_got(&w->node, w->page, tree, OTHER_SLOT, 1));
		got += node_tree_got(&w->node, w->page, tree, SLOT, 1);
	}
	return got;
}

/* From h1 over s1 and s2 to h2: what the link in the middle loses gets to nobody behind it, and is counted up to there. */
static void a_link_loses_copies_for_all_behind_it(void **state)
{
	struct world *w = *state;
	const struct route whole = { .generation = 1, .pkey = 0xffff }, none = { .generation = 2, .pkey = 0xffff },
			   half = { .generation = 3, .pkey = 0xffff };
	uint32_t h2 = host(w, "h2"), last, middle = port_named(&w->t.f, "s1", 1);
	unsigned got;

	if (!fabric_is_switch(&w->t.f, w->t.f.owner[fabric_peer(&w->t.f, middle)]))
		middle = port_named(&w->t.f, "s1", 2);
	last = fabric_peer(&w->t.f, h2);
	assert_int_equal(fabric_route_group(&w->t.f, MLID_FIRST), 0);
	w->node.traffic = calloc(1, traffic_bytes(&w->t.f));
	assert_non_null(w->node.traffic);
	assert_false(tree_has_faults(node_find_tree(&w->node, &w->dev, &whole, MLID_FIRST, 0, MLID_FIRST)));
	fabric_set_fault(&w->t.f, middle, 1000000, 0, 7);
	assert_int_equal(draw_all(w, &none), 0);
	assert_int_equal(count_at(w, middle, TRAFFIC_PACKETS), DRAWS);
	assert_int_equal(count_at(w, fabric_peer(&w->t.f, middle), TRAFFIC_ERRORS), DRAWS);
	assert_int_equal(count_at(w, last, TRAFFIC_PACKETS), 0);
	fabric_set_fault(&w->t.f, middle, 500000, 0, 7);
	got = draw_all(w, &half);
	assert_true(got > DRAWS / 8 && got < DRAWS - DRAWS / 8);
	assert_int_equal(count_at(w, middle, TRAFFIC_MULTICAST), 2 * DRAWS);
	assert_int_equal(count_at(w, fabric_peer(&w->t.f, middle), TRAFFIC_ERRORS), 2 * DRAWS - got);
	assert_int_equal(count_at(w, fabric_peer(&w->t.f, middle), TRAFFIC_ERROR_WORDS), (2 * DRAWS - got) * WORDS);
	assert_int_equal(count_at(w, fabric_peer(&w->t.f, middle), TRAFFIC_MULTICAST_ERRORS), 2 * DRAWS - got);
	assert_int_equal(count_at(w, last, TRAFFIC_WORDS), got * WORDS);
	trees_fini(&w->node.trees);
	free(w->node.traffic);
}

/* 70 words take 22.4 us at 100 Mbit/s. Copies that do not pass the link wait for nobody. */
static void a_slow_link_holds_copies_up(void **state)
{
	static const wtime takes = 22400, now = 1000;
	struct world *w = *state;
	const struct route whole = { .generation = 1, .pkey = 0xffff }, slow = { .generation = 2, .pkey = 0xffff };
	uint32_t h2 = host(w, "h2"), last = fabric_peer(&w->t.f, h2);
	const struct tree *tree;
	unsigned sent = 0;

	assert_int_equal(fabric_route_group(&w->t.f, MLID_FIRST), 0);
	w->node.traffic = calloc(1, traffic_bytes(&w->t.f));
	assert_non_null(w->node.traffic);
	assert_false(tree_has_faults(node_find_tree(&w->node, &w->dev, &whole, MLID_FIRST, 0, MLID_FIRST)));
	fabric_set_fault(&w->t.f, last, 0, 100000, 0);
	tree = node_find_tree(&w->node, &w->dev, &slow, MLID_FIRST, 0, MLID_FIRST);
	assert_true(tree && tree_has_faults(tree));
	do {
		node_draw_tree(&w->node, tree, 1, now, WORDS);
		sent++;
		if (sent > 2)
			continue;
		assert_int_equal(node_tree_arrival(&w->node, w->page, tree, SLOT, 1, now), now + sent * takes);
		assert_int_equal(node_tree_arrival(&w->node, w->page, tree, OTHER_SLOT, 1, now), now);
		assert_int_equal(count_at(w, last, TRAFFIC_WAIT), sent - 1);
	} while (tree_got(tree, h2) && sent < 10000);
	/* a queue of 100 ms is full; who does not pass it has got all */
	assert_in_range(sent, 100 * WTIME_MS / takes, 100 * WTIME_MS / takes + 3);
	assert_true(tree_got(tree, host(w, "h1")));
	assert_int_equal(count_at(w, last, TRAFFIC_PACKETS), sent - 1);
	assert_int_equal(count_at(w, last, TRAFFIC_TOO_SLOW), 1);
	trees_fini(&w->node.trees);
	free(w->node.traffic);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD(names_are_found),
		WORLD(hosts_have_addresses),
		WORLD(a_port_is_shown_as_a_device),
		WORLD(another_node_is_reached_at_its_address),
		WORLD(a_link_that_is_down_cuts),
		WORLD(a_way_without_return_is_told),
		WORLD(partitions_and_lanes_are_heeded),
		WORLD(groups_have_those_who_are_reached),
		WORLD(a_link_loses_copies_for_all_behind_it),
		WORLD(a_slow_link_holds_copies_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
