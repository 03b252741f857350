/* Packets through a fabric: each verdict, lanes and partitions, changes while a route is used, multicast, and a writer who
 * is hostile. */
#include "fabric.h"

#include "base/rand.h"
#include "fabric/route.h"
#include "fabric/survey.h"
#include "fabric/walk.h"
#include "wire/pkey.h"

#include <errno.h>
#include <pthread.h>

static void set_up(struct test_fabric *t)
{
	assert_int_equal(fabric_route(&t->f, ROUTE_MIN_HOP), 0);
	assert_int_equal(fabric_route_group(&t->f, MLID_FIRST), 0);
	fabric_activate(&t->f);
}

static struct walk_packet packet(const struct fabric *f, const char *from, const char *to)
{
	uint32_t node = node_named(f, to);

	return (struct walk_packet){ .from = port_named(f, from, 1), .dlid = f->port[fabric_port_index(f, node, 1)].lid,
				     .pkey = PKEY_DEFAULT, .switches = SWITCHES_MOST };
}

static void every_host_reaches_every_other(void **state)
{
	static char *const kinds[][3] = { { "fat-tree", "ports=4" }, { "fat-tree", "levels=3" }, { "torus", "size=4x3" },
					  { "dragonfly", "hosts=1" }, { "line", "switches=9" } };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		uint64_t paths = 0, links = 0;
		struct walk_route r;
		struct test_fabric t;
		struct survey s;

		make_fabric(&t, kinds[k][0], &kinds[k][1]);
		set_up(&t);
		for (uint32_t a = 0; a < t.f.ports; a++) {
			for (uint32_t b = 0; b < t.f.ports; b++) {
				struct walk_packet p = { a, t.f.port[b].lid, PKEY_DEFAULT, 3, SWITCHES_MOST, 0, false };

				if (!t.f.port[a].lid || !t.f.port[b].lid || a == b)
					continue;
				assert_int_equal(fabric_walk(&t.f, &p, &r), WALK_DELIVERED);
				assert_int_equal(r.at, b);
				assert_int_equal(r.vl, 3);
				assert_int_equal(r.nodes, r.links + 1);
				if (fabric_is_switch(&t.f, t.f.owner[a]) || fabric_is_switch(&t.f, t.f.owner[b]))
					continue;
				paths++;
				links += r.links;
			}
		}
		assert_int_equal(survey(&s, &t.f), 0);
		assert_int_equal(s.reached, paths);
		assert_int_equal(s.links, links);
		survey_fini(&s);
		end_fabric(&t);
	}
}

/* Changes a line of two switches with a host each (h1 s1 s2 h2; port 1 of s1 leads to s2); where h1's packet to h2 ends then. */
struct walk_row {
	const char *name;
	void (*change)(struct fabric *f, struct walk_packet *p);
	enum walk_verdict verdict;
	const char *node;
	unsigned port;
};

static uint32_t s1_port(struct fabric *f, unsigned port)
{
	return port_named(f, "s1", port);
}

static void nothing(struct fabric *f, struct walk_packet *p)
{
}

static void lid_zero(struct fabric *f, struct walk_packet *p)
{
	p->dlid = 0;
}

static void multicast_lid(struct fabric *f, struct walk_packet *p)
{
	p->dlid = MLID_FIRST;
}

static void no_such_port(struct fabric *f, struct walk_packet *p)
{
	p->from = f->ports;
}

static void own_link_down(struct fabric *f, struct walk_packet *p)
{
	f->port[p->from].state = PORT_DOWN;
}

static void link_initialised(struct fabric *f, struct walk_packet *p)
{
	f->port[s1_port(f, 1)].state = PORT_INIT;
}

static void sender_armed(struct fabric *f, struct walk_packet *p)
{
	f->port[s1_port(f, 1)].state = PORT_ARMED;
}

static void receiver_armed(struct fabric *f, struct walk_packet *p)
{
	f->port[port_named(f, "s2", 1)].state = PORT_ARMED;
}

static void receiver_initialised(struct fabric *f, struct walk_packet *p)
{
	f->port[port_named(f, "s2", 1)].state = PORT_INIT;
}

static void unplugged(struct fabric *f, struct walk_packet *p)
{
	f->port[s1_port(f, 1)].peer = PORT_NONE;
}

static void no_route(struct fabric *f, struct walk_packet *p)
{
	fabric_lft(f, node_named(f, "s2"))[p->dlid] = LFT_NONE;
}

static void beyond_the_table(struct fabric *f, struct walk_packet *p)
{
	p->dlid = (uint16_t)f->lids;
	f->node[node_named(f, "s1")].lft_top = 0xffff;
}

static void beyond_the_top(struct fabric *f, struct walk_packet *p)
{
	f->node[node_named(f, "s1")].lft_top = (uint16_t)(p->dlid - 1);
}

static void the_top(struct fabric *f, struct walk_packet *p)
{
	f->node[node_named(f, "s1")].lft_top = p->dlid;
}

static void port_of_nobody(struct fabric *f, struct walk_packet *p)
{
	fabric_lft(f, node_named(f, "s1"))[p->dlid] = 4;
}

static void unlinked_port(struct fabric *f, struct walk_packet *p)
{
	fabric_lft(f, node_named(f, "s1"))[p->dlid] = 3;
}

static void to_itself(struct fabric *f, struct walk_packet *p)
{
	fabric_lft(f, node_named(f, "s2"))[p->dlid] = 0;
}

static void host_of_another_lid(struct fabric *f, struct walk_packet *p)
{
	f->port[port_named(f, "h2", 1)].lid = (uint16_t)(p->dlid + 1);
}

static void back_to_the_sender(struct fabric *f, struct walk_packet *p)
{
	fabric_lft(f, node_named(f, "s1"))[p->dlid] = 2;
}

static void back_to_a_switch(struct fabric *f, struct walk_packet *p)
{
	fabric_lft(f, node_named(f, "s2"))[p->dlid] = 1;
}

static void to_the_own_port(struct fabric *f, struct walk_packet *p)
{
	p->dlid = f->port[p->from].lid;
}

static void to_the_own_port_without_a_link(struct fabric *f, struct walk_packet *p)
{
	p->dlid = f->port[p->from].lid;
	f->port[p->from].state = PORT_DOWN;
}

static void too_long_for_a_link(struct fabric *f, struct walk_packet *p)
{
	p->mtu = MTU_4096;
	f->port[s1_port(f, 1)].mtu = MTU_4096 - 1;
}

static void too_long_for_the_own_link(struct fabric *f, struct walk_packet *p)
{
	p->mtu = MTU_4096;
	f->port[p->from].mtu = MTU_4096 - 1;
}

static void as_long_as_a_link_takes(struct fabric *f, struct walk_packet *p)
{
	p->mtu = MTU_4096 - 1;
	f->port[s1_port(f, 1)].mtu = MTU_4096 - 1;
}

static void one_switch_allowed(struct fabric *f, struct walk_packet *p)
{
	p->switches = 1;
}

static void two_switches_allowed(struct fabric *f, struct walk_packet *p)
{
	p->switches = 2;
}

static void no_lane(struct fabric *f, struct walk_packet *p)
{
	p->sl = 5;
	fabric_sl2vl(f, node_named(f, "s1"), 2, 1)[2] = 0x1f;
}

static void lane_of_others(struct fabric *f, struct walk_packet *p)
{
	p->sl = 4;
	fabric_sl2vl(f, node_named(f, "s1"), 2, 1)[2] = 0x1f;
	fabric_sl2vl(f, node_named(f, "s1"), 1, 1)[2] = 0xff;
}

static void lane_not_configured(struct fabric *f, struct walk_packet *p)
{
	p->sl = 5;
	f->port[s1_port(f, 1)].vls = 4;
}

static void adapter_without_lane(struct fabric *f, struct walk_packet *p)
{
	fabric_sl2vl(f, f->owner[p->from], 1, 1)[0] = 0xf0;
}

static void partition_at_input(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x8001;
	f->port[port_named(f, "s2", 1)].enforce = ENFORCE_IN;
}

static void partition_at_output(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x8001;
	f->port[port_named(f, "s2", 2)].enforce = ENFORCE_OUT;
}

static void partition_of_the_other_direction(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x8001;
	f->port[port_named(f, "s2", 1)].enforce = ENFORCE_OUT;
}

static void partition_of_an_adapter(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x8001;
	f->port[p->from].enforce = ENFORCE_OUT;
}

static void partition_known(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x0001;
	f->port[port_named(f, "s2", 1)].enforce = ENFORCE_IN;
	fabric_pkeys(f, port_named(f, "s2", 1))[31] = 0x8001;
}

static void two_limited_members(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x0001;
	f->port[port_named(f, "s2", 1)].enforce = ENFORCE_IN;
	fabric_pkeys(f, port_named(f, "s2", 1))[31] = 0x0001;
}

static void partition_of_a_limited_member(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x8001;
	f->port[port_named(f, "s2", 1)].enforce = ENFORCE_IN;
	fabric_pkeys(f, port_named(f, "s2", 1))[31] = 0x0001;
}

static void invalid_pkey(struct fabric *f, struct walk_packet *p)
{
	p->pkey = 0x8000;
	f->port[port_named(f, "s2", 1)].enforce = ENFORCE_IN;
}

static void writer_gone(struct fabric *f, struct walk_packet *p)
{
	fabric_write(f, node_named(f, "s2"));
}

static void smp_over_initialised_links(struct fabric *f, struct walk_packet *p)
{
	p->is_smp = true;
	f->port[s1_port(f, 1)].state = f->port[port_named(f, "s2", 1)].state = PORT_INIT;
}

static void smp_over_a_link_that_is_down(struct fabric *f, struct walk_packet *p)
{
	p->is_smp = true;
	f->port[s1_port(f, 1)].state = PORT_DOWN;
}

static void smp_to_a_port_that_is_down(struct fabric *f, struct walk_packet *p)
{
	p->is_smp = true;
	f->port[port_named(f, "s2", 1)].state = PORT_DOWN;
}

static void smp_of_any_partition_and_lane(struct fabric *f, struct walk_packet *p)
{
	partition_at_input(f, p);
	partition_at_output(f, p);
	no_lane(f, p);
	p->is_smp = true;
}

#define ROW(name, verdict, node, port) { #name, name, WALK_##verdict, node, port }

static const struct walk_row rows[] = {
	ROW(nothing, DELIVERED, "h2", 1),
	ROW(lid_zero, BAD_LID, "h1", 1),
	ROW(multicast_lid, BAD_LID, "h1", 1),
	ROW(no_such_port, NO_LINK, NULL, 0),
	ROW(own_link_down, NOT_ACTIVE, "h1", 1),
	ROW(link_initialised, NOT_ACTIVE, "s1", 1),
	ROW(sender_armed, NOT_ACTIVE, "s1", 1),
	ROW(receiver_armed, DELIVERED, "h2", 1),
	ROW(receiver_initialised, NOT_RECEIVING, "s2", 1),
	ROW(unplugged, NO_LINK, "s1", 1),
	ROW(no_route, NO_ROUTE, "s2", 1),
	ROW(beyond_the_table, NO_ROUTE, "s1", 2),
	ROW(beyond_the_top, NO_ROUTE, "s1", 2),
	ROW(the_top, DELIVERED, "h2", 1),
	ROW(port_of_nobody, NO_PORT, "s1", 2),
	ROW(unlinked_port, NO_LINK, "s1", 3),
	ROW(to_itself, NOT_ITS_LID, "s2", 0),
	ROW(host_of_another_lid, NOT_ITS_LID, "h2", 1),
	ROW(back_to_the_sender, BACK, "s1", 2),
	ROW(back_to_a_switch, BACK, "s2", 1),
	ROW(to_the_own_port, DELIVERED, "h1", 1),
	ROW(to_the_own_port_without_a_link, DELIVERED, "h1", 1),
	ROW(too_long_for_a_link, TOO_LONG, "s1", 1),
	ROW(too_long_for_the_own_link, TOO_LONG, "h1", 1),
	ROW(as_long_as_a_link_takes, DELIVERED, "h2", 1),
	ROW(one_switch_allowed, TOO_FAR, "s2", 1),
	ROW(two_switches_allowed, DELIVERED, "h2", 1),
	ROW(no_lane, NO_LANE, "s1", 2),
	ROW(lane_of_others, DELIVERED, "h2", 1),
	ROW(lane_not_configured, NO_LANE, "s1", 2),
	ROW(adapter_without_lane, NO_LANE, "h1", 1),
	ROW(partition_at_input, PKEY_IN, "s2", 1),
	ROW(partition_at_output, PKEY_OUT, "s2", 2),
	ROW(partition_of_the_other_direction, DELIVERED, "h2", 1),
	ROW(partition_of_an_adapter, DELIVERED, "h2", 1),
	ROW(partition_known, DELIVERED, "h2", 1),
	ROW(two_limited_members, DELIVERED, "h2", 1),
	ROW(partition_of_a_limited_member, DELIVERED, "h2", 1),
	ROW(invalid_pkey, PKEY_IN, "s2", 1),
	ROW(smp_over_initialised_links, DELIVERED, "h2", 1),
	ROW(smp_over_a_link_that_is_down, NOT_ACTIVE, "s1", 1),
	ROW(smp_to_a_port_that_is_down, NOT_RECEIVING, "s2", 1),
	ROW(smp_of_any_partition_and_lane, DELIVERED, "h2", 1),
	ROW(writer_gone, CHANGING, "s2", 1),
};

static void each_verdict(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct walk_packet p;
		struct walk_route r;
		struct test_fabric t;
		enum walk_verdict v;
		uint32_t at;

		MAKE(&t, "line", "switches=2");
		set_up(&t);
		p = packet(&t.f, "h1", "h2");
		rows[i].change(&t.f, &p);
		v = fabric_walk(&t.f, &p, &r);
		at = rows[i].node ? port_named(&t.f, rows[i].node, rows[i].port) : p.from;
		if (v != rows[i].verdict || (v != WALK_CHANGING && r.at != at))
			fail_msg("%s: %s, at %u", rows[i].name, walk_text(v), r.at);
		assert_int_equal(fabric_walk_again(&t.f, &r), v);
		assert_true(*walk_text(v) && *walk_clause(v));
		end_fabric(&t);
	}
}

/* 10.9.3: two limited members of a partition do not hear each other; a full one is heard by both. */
static void a_destination_looks_at_the_partition(void **state)
{
	struct walk_packet p = { .pkey = PKEY_DEFAULT, .switches = SWITCHES_MOST };
	struct test_fabric t;
	uint32_t h2;

	MAKE(&t, "line", "switches=2");
	set_up(&t);
	h2 = port_named(&t.f, "h2", 1);
	p.from = port_named(&t.f, "h1", 1);
	p.dlid = t.f.port[h2].lid;
	assert_int_equal(fabric_destination(&t.f, &p), h2);
	p.pkey = PKEY_DEFAULT & ~PKEY_FULL;
	assert_int_equal(fabric_destination(&t.f, &p), h2);
	fabric_pkeys(&t.f, h2)[0] = PKEY_DEFAULT & ~PKEY_FULL;
	assert_int_equal(fabric_destination(&t.f, &p), PORT_NONE);
	p.is_smp = true;
	assert_int_equal(fabric_destination(&t.f, &p), h2);
	p.is_smp = false;
	p.pkey = PKEY_DEFAULT;
	assert_int_equal(fabric_destination(&t.f, &p), h2);
	end_fabric(&t);
}

static void a_loop_is_as_long_as_it_may_be(void **state)
{
	struct walk_packet p;
	struct walk_route r;
	struct test_fabric t;

	MAKE(&t, "line", "switches=64");
	set_up(&t);
	p = packet(&t.f, "h1", "h64");
	assert_int_equal(fabric_walk(&t.f, &p, &r), WALK_DELIVERED);
	assert_int_equal(r.nodes, WALK_NODES);
	assert_int_equal(r.links, 65);
	end_fabric(&t);

	MAKE(&t, "torus", "size=65");
	set_up(&t);
	p = packet(&t.f, "h1", "h2");
	p.switches = 255;
	send_round(&t.f, 65, p.dlid);
	assert_int_equal(fabric_walk(&t.f, &p, &r), WALK_TOO_FAR);
	assert_int_equal(r.nodes, 65);
	end_fabric(&t);
}

/* A change of a node's table for a LID, as a subnet manager makes it. */
static void set_route(struct fabric *f, const char *name, uint32_t lid, uint8_t out)
{
	fabric_write(f, node_named(f, name));
	fabric_lft(f, node_named(f, name))[lid] = out;
	fabric_written(f, node_named(f, name));
}

static void touch(struct fabric *f, const char *name)
{
	fabric_write(f, node_named(f, name));
	fabric_written(f, node_named(f, name));
}

static void a_route_is_used_until_a_node_on_it_changes(void **state)
{
	static const char *const names[] = { "h1", "s1", "s2", "h2" };
	struct walk_packet p;
	struct walk_route r;
	struct test_fabric t;

	MAKE(&t, "line", "switches=3");
	set_up(&t);
	p = packet(&t.f, "h1", "h2");
	for (int i = 0; i < 4; i++) {
		uint8_t *lft = fabric_lft(&t.f, node_named(&t.f, "s1"));

		assert_int_equal(fabric_walk(&t.f, &p, &r), WALK_DELIVERED);
		/* a change that no sequence word tells shows whether the route was walked anew */
		lft[p.dlid] = LFT_NONE;
		assert_int_equal(fabric_walk_again(&t.f, &r), WALK_DELIVERED);
		touch(&t.f, "s3");
		assert_int_equal(fabric_walk_again(&t.f, &r), WALK_DELIVERED);
		touch(&t.f, names[i]);
		assert_int_equal(fabric_walk_again(&t.f, &r), WALK_NO_ROUTE);
		lft[p.dlid] = 1;
		/* a way that ended early depends on nothing behind its end */
		touch(&t.f, "s2");
		assert_int_equal(fabric_walk_again(&t.f, &r), WALK_NO_ROUTE);
	}
	set_route(&t.f, "s1", p.dlid, 1);
	assert_int_equal(fabric_walk_again(&t.f, &r), WALK_DELIVERED);
	set_route(&t.f, "s2", p.dlid, LFT_NONE);
	assert_int_equal(fabric_walk_again(&t.f, &r), WALK_NO_ROUTE);
	end_fabric(&t);
}

/* While its writer is in a node, a walk waits for the end, but not for ever, and what it says is not kept. */
static void a_node_in_change_is_not_believed(void **state)
{
	struct walk_packet p;
	struct walk_route r;
	struct test_fabric t;

	MAKE(&t, "line", "switches=2");
	set_up(&t);
	p = packet(&t.f, "h1", "h2");
	fabric_write(&t.f, node_named(&t.f, "s2"));
	assert_int_equal(fabric_walk(&t.f, &p, &r), WALK_CHANGING);
	assert_int_equal(r.nodes, 0);
	fabric_written(&t.f, node_named(&t.f, "s2"));
	assert_int_equal(fabric_walk_again(&t.f, &r), WALK_DELIVERED);
	end_fabric(&t);
}

enum { TURNS = 100000 };

/* A ring in which s1 sends to h2 by one way or the other, and has a virtual lane for that way only. */
struct turning {
	struct fabric *f;
	uint32_t s1;
	uint16_t dlid;
	_Atomic unsigned turns;
};

static void turn(struct turning *t, unsigned by, unsigned away)
{
	unsigned host = 3;	/* h1's port of s1 */

	fabric_write(t->f, t->s1);
	FABRIC_SET(fabric_sl2vl(t->f, t->s1, host, away)[0], (uint8_t)0xff);
	FABRIC_SET(fabric_lft(t->f, t->s1)[t->dlid], (uint8_t)by);
	FABRIC_SET(fabric_sl2vl(t->f, t->s1, host, by)[0], (uint8_t)0x01);
	fabric_written(t->f, t->s1);
}

static void *turn_on_and_on(void *arg)
{
	struct turning *t = arg;

	for (; t->turns < TURNS; t->turns++)
		turn(t, 1 + t->turns % 2, 2 - t->turns % 2);
	return NULL;
}

static void a_walk_sees_a_node_before_a_change_or_after_it(void **state)
{
	struct turning turning = { 0 };
	struct test_fabric t;
	struct walk_packet p;
	struct walk_route r;
	pthread_t writer;

	MAKE(&t, "torus", "size=3");
	set_up(&t);
	p = packet(&t.f, "h1", "h2");
	turning.f = &t.f;
	turning.s1 = node_named(&t.f, "s1");
	turning.dlid = p.dlid;
	assert_int_equal(fabric_lft(&t.f, turning.s1)[t.f.port[port_named(&t.f, "h1", 1)].lid], 3);
	set_route(&t.f, "s3", p.dlid, 1);
	assert_int_equal(pthread_create(&writer, NULL, turn_on_and_on, &turning), 0);
	for (unsigned i = 1; i < 3 || turning.turns < TURNS; i++) {
		enum walk_verdict v = i % 2 ? fabric_walk(&t.f, &p, &r) : fabric_walk_again(&t.f, &r);

		if (v != WALK_DELIVERED && v != WALK_CHANGING)
			fail_msg("walk %u: %s", i, walk_text(v));
	}
	pthread_join(writer, NULL);
	end_fabric(&t);
}

static bool was_reached(const struct walk_group *g, uint32_t port)
{
	unsigned times = 0;

	for (uint32_t i = 0; i < g->ports; i++)
		times += g->port[i] == port;
	assert_in_range(times, 0, 1);
	return times;
}

static void a_group_reaches_everybody_once(void **state)
{
	static char *const kinds[][2] = { { "fat-tree" }, { "torus" }, { "dragonfly" }, { "line" }, { "star" } };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct walk_packet p = { .dlid = MLID_FIRST, .pkey = PKEY_DEFAULT };
		struct walk_group g;
		struct test_fabric t;

		make_fabric(&t, kinds[k][0], &kinds[k][1]);
		set_up(&t);
		assert_int_equal(walk_group_init(&g, &t.f), 0);
		for (p.from = 0; p.from < t.f.ports; p.from++) {
			if (!t.f.port[p.from].lid)
				continue;
			fabric_walk_group(&t.f, &p, &g);
			assert_false(g.loops);
			assert_int_equal(g.dropped, 0);
			/* a tree: one link to each switch and host */
			assert_int_equal(g.links, g.ports);
			for (uint32_t port = 0; port < t.f.ports; port++)
				assert_int_equal(was_reached(&g, port), t.f.port[port].lid && port != p.from);
		}
		walk_group_fini(&g);
		end_fabric(&t);
	}
}

static void a_group_obeys_links_and_partitions(void **state)
{
	struct walk_packet p = { .dlid = MLID_FIRST, .pkey = PKEY_DEFAULT };
	struct walk_group g;
	struct test_fabric t;

	MAKE(&t, "line", "switches=3");
	set_up(&t);
	assert_int_equal(walk_group_init(&g, &t.f), 0);
	p.from = port_named(&t.f, "h1", 1);
	t.f.port[port_named(&t.f, "s3", 2)].state = PORT_ARMED;
	fabric_walk_group(&t.f, &p, &g);
	assert_true(was_reached(&g, port_named(&t.f, "h2", 1)) && was_reached(&g, port_named(&t.f, "s3", 0)));
	assert_false(was_reached(&g, port_named(&t.f, "h3", 1)));
	assert_int_equal(g.dropped, 1);
	assert_int_equal(g.why, WALK_NOT_ACTIVE);
	assert_int_equal(g.drop[0].at, port_named(&t.f, "s3", 2));
	/* h1 - s1 - s2 - s3, s2 - h2 */
	assert_int_equal(g.links, 4);
	assert_int_equal(g.out[0], p.from);
	t.f.port[port_named(&t.f, "s2", 1)].enforce = ENFORCE_IN;
	p.pkey = 0x8002;
	fabric_walk_group(&t.f, &p, &g);
	assert_int_equal(g.ports, 1);
	assert_int_equal(g.why, WALK_PKEY_IN);
	/* a group that nobody joined; LIDs that are no group's */
	p.dlid = MLID_FIRST + 1;
	fabric_walk_group(&t.f, &p, &g);
	assert_int_equal(g.ports + g.dropped, 0);
	p.dlid = (uint16_t)(MLID_FIRST + t.f.mlids);
	fabric_walk_group(&t.f, &p, &g);
	assert_int_equal(g.why, WALK_BAD_LID);
	p.dlid = 1;
	fabric_walk_group(&t.f, &p, &g);
	assert_int_equal(g.why, WALK_BAD_LID);
	assert_int_equal(fabric_route_group(&t.f, MLID_FIRST + t.f.mlids), -EINVAL);
	walk_group_fini(&g);
	end_fabric(&t);
}

static void a_loop_of_a_group_is_told(void **state)
{
	struct walk_packet p = { .dlid = MLID_FIRST, .pkey = PKEY_DEFAULT };
	struct walk_group g;
	struct test_fabric t;

	MAKE(&t, "torus", "size=3");
	set_up(&t);
	for (uint32_t n = 0; n < t.f.nodes; n++) {
		if (fabric_is_switch(&t.f, n))
			fabric_mft(&t.f, n, MLID_FIRST)[0] = 0xf;
	}
	assert_int_equal(walk_group_init(&g, &t.f), 0);
	p.from = port_named(&t.f, "h1", 1);
	fabric_walk_group(&t.f, &p, &g);
	assert_true(g.loops);
	assert_int_equal(g.ports, 5);
	assert_true(was_reached(&g, port_named(&t.f, "h3", 1)));
	walk_group_fini(&g);
	end_fabric(&t);
}

/* Whatever is in the mapping after it was judged, a walk ends inside it. */
static void a_hostile_writer_leads_nobody_outside(void **state)
{
	struct walk_group g;
	struct test_fabric t;
	struct rand r;

	rand_seed(&r, 7);
	MAKE(&t, "torus", "size=3x2", "hosts=2");
	set_up(&t);
	assert_int_equal(walk_group_init(&g, &t.f), 0);
	for (int i = 0; i < 3000; i++) {
		for (int n = 0; n < 10; n++)
			((uint8_t *)t.mapping)[rand_below(&r, t.bytes)] = (uint8_t)rand_u64(&r);
		for (int n = 0; n < 20; n++) {
			struct walk_packet p = { (uint32_t)rand_below(&r, t.f.ports), (uint16_t)rand_below(&r, 70),
						 (uint16_t)rand_u64(&r), (uint8_t)rand_below(&r, 16), 255,
						 (uint8_t)rand_below(&r, 7), rand_below(&r, 4) == 0 };
			struct walk_route route;

			assert_in_range(fabric_walk(&t.f, &p, &route), 0, WALK_VERDICTS - 1);
			assert_true(route.at < t.f.ports && route.nodes <= WALK_NODES);
			p.dlid = MLID_FIRST;
			fabric_walk_group(&t.f, &p, &g);
			assert_true(g.ports <= t.f.ports && g.links <= t.f.ports && g.dropped <= t.f.ports);
		}
	}
	walk_group_fini(&g);
	end_fabric(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_host_reaches_every_other),
		cmocka_unit_test(each_verdict),
		cmocka_unit_test(a_destination_looks_at_the_partition),
		cmocka_unit_test(a_loop_is_as_long_as_it_may_be),
		cmocka_unit_test(a_route_is_used_until_a_node_on_it_changes),
		cmocka_unit_test(a_node_in_change_is_not_believed),
		cmocka_unit_test(a_walk_sees_a_node_before_a_change_or_after_it),
		cmocka_unit_test(a_group_reaches_everybody_once),
		cmocka_unit_test(a_group_obeys_links_and_partitions),
		cmocka_unit_test(a_loop_of_a_group_is_told),
		cmocka_unit_test(a_hostile_writer_leads_nobody_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
