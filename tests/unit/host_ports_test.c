/* Adapters with several ports: where a program is, the device with its ports, and who reaches whom by which of them. */
#include "fabric.h"

#include "fabric/host.h"
#include "fabric/page.h"
#include "fabric/route.h"
#include "peers/devices.h"
#include "peers/node.h"
#include "weftd/page.h"
#include "control/devices.h"

/* h1 and h2 have a port at each switch; h3's second has no link, and h4 has one port. */
static const char two_rails[] =
	"Switch 8 \"s1\"\n[1] \"h1\"[1]\n[2] \"h2\"[1]\n[8] \"s2\"[8]\n\n"
	"Switch 8 \"s2\"\n[1] \"h1\"[2]\n[2] \"h2\"[2]\n[3] \"h3\"[1]\n[4] \"h4\"[1]\n[8] \"s1\"[8]\n\n"
	"Ca 2 \"h1\"\n[1] \"s1\"[1]\n[2] \"s2\"[1]\n\nCa 2 \"h2\"\n[1] \"s1\"[2]\n[2] \"s2\"[2]\n\n"
	"Ca 2 \"h3\"\n[1] \"s2\"[3]\n\nCa 1 \"h4\"\n[1] \"s2\"[4]\n";

enum { SLOT = 5, OTHER_SLOT = 6 };

struct world {
	struct test_fabric t;
	struct fabric_page page;
	struct node node;
	struct ca_device dev[CA_DEVICES];
	int devices;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	parse_fabric(&w->t, two_rails);
	assert_int_equal(fabric_route(&w->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&w->t.f);
	page_set_devices(&w->page, &control_default, 0x0200000000000100);
	w->page.fabric = 1;
	w->node = (struct node){ .fabric = w->t.f, .place = host_find_place(&w->t.f, "h1") };
	w->page.slot_port[SLOT] = host_find_place(&w->t.f, "h2") + 1;
	w->page.slot_port[OTHER_SLOT] = host_find_place(&w->t.f, "h2:2") + 1;
	w->devices = devices_read(&w->page, &w->node, w->dev);
	for (int i = 0; i < w->devices; i++)
		w->dev[i].index = (uint8_t)i;
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	ways_fini(&w->node.ways);
	trees_fini(&w->node.trees);
	end_fabric(&w->t);
	free(w);
	return 0;
}

static void a_host_is_all_ports_of_its_adapter(void **state)
{
	const struct world *w = *state;
	const struct fabric *f = &w->t.f;
	uint32_t h1 = host_find_place(f, "h1"), h1_2 = host_find_place(f, "h1:2"), h4 = host_find_place(f, "h4");

	assert_int_equal(h1, port_named(f, "h1", 0));
	assert_int_equal(host_ports(f, h1), 2);
	assert_int_equal(host_port(f, h1, 1), port_named(f, "h1", 1));
	assert_int_equal(host_port(f, h1, 2), port_named(f, "h1", 2));
	assert_int_equal(host_port(f, h1, 0), PORT_NONE);
	assert_int_equal(host_port(f, h1, 3), PORT_NONE);
	assert_int_equal(host_port_number(f, h1, port_named(f, "h1", 2)), 2);
	assert_int_equal(host_port_number(f, h1, port_named(f, "h2", 2)), 0);
	/* a port alone is the first of whoever is there */
	assert_int_equal(h1_2, port_named(f, "h1", 2));
	assert_int_equal(host_ports(f, h1_2), 1);
	assert_int_equal(host_port(f, h1_2, 1), h1_2);
	assert_int_equal(host_port(f, h1_2, 2), PORT_NONE);
	assert_int_equal(host_port_number(f, h1_2, h1_2), 1);
	assert_int_equal(host_port_number(f, h1_2, port_named(f, "h1", 1)), 0);
	assert_int_equal(h4, port_named(f, "h4", 1));
	assert_int_equal(host_ports(f, h4), 1);
}

static void what_is_no_place(void **state)
{
	const struct world *w = *state;
	const struct fabric *f = &w->t.f;
	uint32_t h3 = host_find_place(f, "h3"), h4 = port_named(f, "h4", 0);

	/* a port without a link is there, and nobody is at it alone */
	assert_int_equal(host_ports(f, h3), 2);
	assert_int_equal(host_find_place(f, "h3:2"), PORT_NONE);
	assert_int_equal(host_find_place(f, "h3:0"), PORT_NONE);
	assert_int_equal(host_find_place(f, "s1"), PORT_NONE);
	assert_int_equal(host_find_place(f, "h9"), PORT_NONE);
	/* number 0 of an adapter with one port, of a switch; what is beyond */
	assert_false(host_is_place(f, h4));
	assert_int_equal(host_ports(f, h4), 0);
	assert_false(host_is_place(f, port_named(f, "s1", 0)));
	assert_false(host_is_place(f, f->ports));
	assert_false(host_is_place(f, PORT_NONE));
	f->port[h3 + 1].lid = 0;
	f->port[h3 + 1].peer = PORT_NONE;
	assert_false(host_is_place(f, h3));
}

static void a_device_has_the_ports(void **state)
{
	struct world *w = *state;
	struct fabric *f = &w->t.f;
	struct ca_device *second = &w->dev[2];

	assert_int_equal(w->devices, 3);
	assert_int_equal(w->dev[0].ports, 2);
	assert_int_equal(w->dev[1].ports, 1);
	assert_string_equal(second->name, "weft0");
	assert_int_equal(second->port_num, 2);
	assert_int_equal(second->ports, 2);
	assert_int_equal(second->device, 0);
	assert_int_equal(second->lid, f->port[port_named(f, "h1", 2)].lid);
	assert_int_equal(w->dev[0].lid, f->port[port_named(f, "h1", 1)].lid);
	assert_int_not_equal(second->lid, w->dev[0].lid);
	assert_int_not_equal(second->gid[0].raw[15], w->dev[0].gid[0].raw[15]);
	assert_ptr_equal(device_port(&w->dev[0], 1), &w->dev[0]);
	assert_ptr_equal(device_port(&w->dev[0], 2), second);
	assert_ptr_equal(device_port(second, 1), &w->dev[0]);
	assert_ptr_equal(device_port(second, 2), second);
	assert_null(device_port(second, 0));
	assert_null(device_port(second, 3));
	assert_null(device_port(&w->dev[1], 2));
	assert_ptr_equal(device_first(second), &w->dev[0]);
	assert_int_equal(page_device_of(&w->page, 2), 0);
	assert_int_equal(page_port_number(&w->page, 2), 2);
	assert_int_equal(page_index(&w->page, 2), 2);
	assert_int_equal(page_index(&w->page, 1), 0);
}

/* By its LIDs, or a GID where there is none. */
static void a_packet_is_for_the_port_of_its_address(void **state)
{
	struct world *w = *state;
	struct ca_device *first = &w->dev[0], *second = &w->dev[2];

	assert_true(device_is_addressed(second, second->lid, NULL));
	assert_false(device_is_addressed(first, second->lid, NULL));
	assert_false(device_is_addressed(second, first->lid, second->gid[0].raw));
	assert_true(device_is_addressed(second, 0, second->gid[0].raw));
	assert_false(device_is_addressed(first, 0, second->gid[0].raw));
	assert_false(device_is_addressed(first, 0, NULL));
	second->lid = 0x20;
	second->lmc = 2;
	assert_true(device_is_addressed(second, 0x23, NULL));
	assert_false(device_is_addressed(second, 0x24, NULL));
}

static enum route_kind way(const struct world *w, unsigned from, const char *host, unsigned port, uint32_t slot)
{
	const struct packet_path path = { .dlid = w->t.f.port[port_named(&w->t.f, host, port)].lid };

	return node_way(&w->node, &w->page, device_port(&w->dev[0], from), 0xffff, &path, slot);
}

static void each_port_goes_its_way(void **state)
{
	struct world *w = *state;
	uint32_t rail = port_named(&w->t.f, "s2", 1);

	for (unsigned from = 1; from <= 2; from++)
		for (unsigned to = 1; to <= 2; to++)
			assert_int_equal(way(w, from, "h2", to, SLOT), ROUTE_LOOP);
	/* who is at one port is not at the other */
	assert_int_equal(way(w, 1, "h2", 2, OTHER_SLOT), ROUTE_LOOP);
	assert_int_equal(way(w, 1, "h2", 1, OTHER_SLOT), ROUTE_NOWHERE);
	fabric_set_link(&w->t.f, rail, false);
	assert_int_equal(way(w, 2, "h2", 2, SLOT), ROUTE_CUT);
	assert_int_equal(way(w, 1, "h2", 2, SLOT), ROUTE_LOOP);
	assert_int_equal(way(w, 1, "h2", 1, SLOT), ROUTE_LOOP);
}

/* Ways and trees of two ports to one LID are two. */
static void each_port_counts_for_itself(void **state)
{
	struct world *w = *state;
	const struct fabric *f = &w->t.f;
	const struct packet_path path = { .dlid = f->port[port_named(f, "h2", 1)].lid };
	const struct wire_load load = { .words = 10, .packets = 1 };
	const struct route r = { .generation = 1, .pkey = 0xffff };
	uint32_t first = port_named(f, "h1", 1), second = port_named(f, "h1", 2);
	const struct tree *tree;
	uint16_t number[2];

	w->node.traffic = calloc(1, traffic_bytes(f));
	assert_non_null(w->node.traffic);
	for (unsigned i = 0; i < 2; i++)
		number[i] = node_find_way(&w->node, device_port(&w->dev[0], i + 1), 0xffff, &path, 1);
	assert_true(number[0] && number[1] && number[0] != number[1]);
	node_count(&w->node, &ways_at(&w->node.ways, number[1])->there, &load);
	node_count_discards(&w->node, number[1], 3);
	node_count_wait(&w->node, number[1]);
	assert_int_equal(traffic_read(w->node.traffic, first, TRAFFIC_PACKETS), 0);
	assert_int_equal(traffic_read(w->node.traffic, second, TRAFFIC_PACKETS), 1);
	assert_int_equal(traffic_read(w->node.traffic, second, TRAFFIC_TOO_SLOW), 3);
	assert_int_equal(traffic_read(w->node.traffic, second, TRAFFIC_WAIT), 1);
	assert_int_equal(fabric_route_group(&w->t.f, MLID_FIRST), 0);
	tree = node_find_tree(&w->node, device_port(&w->dev[0], 2), &r, MLID_FIRST, 0, MLID_FIRST);
	assert_non_null(tree);
	assert_true(tree_reaches(tree, first));
	assert_int_equal(tree->out[0], second);
	tree = node_find_tree(&w->node, &w->dev[0], &r, MLID_FIRST, 0, MLID_FIRST);
	assert_true(tree_reaches(tree, second));
	assert_int_equal(tree->out[0], first);
	free(w->node.traffic);
	w->node.traffic = NULL;
}

/* Answers come back to the LID that the request came from, of several that the port has. */
static void each_lid_has_a_way_back(void **state)
{
	struct world *w = *state;
	struct fabric *f = &w->t.f;
	struct packet_path path = { .dlid = f->port[port_named(f, "h2", 1)].lid };
	uint16_t number[2];

	w->node.traffic = calloc(1, traffic_bytes(f));
	assert_non_null(w->node.traffic);
	w->dev[0].lid = 40;
	w->dev[0].lmc = 2;
	for (unsigned i = 0; i < 2; i++) {
		path.slid = (uint16_t)(40 + 3 * i);
		number[i] = node_find_way(&w->node, &w->dev[0], 0xffff, &path, 1);
		assert_int_equal(ways_at(&w->node.ways, number[i])->own_lid, path.slid);
	}
	assert_int_not_equal(number[0], number[1]);
	path.slid = 44;		/* not the port's */
	assert_int_equal(node_find_way(&w->node, &w->dev[0], 0xffff, &path, 1), number[0]);
	free(w->node.traffic);
	w->node.traffic = NULL;
}

/* Members listen at ports; a tree gets to some of these. */
static void a_group_has_members_at_ports(void **state)
{
	struct world *w = *state;
	const struct route r = { .generation = 1, .pkey = 0xffff };
	const uint8_t gid[16] = { 0xff, 0x12, [15] = 3 };
	uint64_t members[PAGE_SLOTS / 64] = { 1ull << SLOT };
	const struct tree *tree;

	for (unsigned i = 0; i < 2; i++) {
		w->page.group[i] = (struct page_group){ .used = 1, .device = i ? 2 : 0, .mlid = MLID_FIRST,
							.slots[0] = 1ull << SLOT };
		memcpy(w->page.group[i].gid, gid, sizeof(gid));
	}
	assert_int_equal(group_indexes(&w->page, &w->dev[0], gid, 0), 1 | 1 << 2);
	assert_int_equal(group_indexes(&w->page, &w->dev[2], NULL, MLID_FIRST), 1 | 1 << 2);
	assert_int_equal(group_indexes(&w->page, &w->dev[1], gid, 0), 0);
	w->page.group[1].device = 200;
	assert_int_equal(group_indexes(&w->page, &w->dev[0], gid, 0), 1);
	assert_int_equal(fabric_route_group(&w->t.f, MLID_FIRST), 0);
	fabric_set_link(&w->t.f, port_named(&w->t.f, "h2", 2), false);
	tree = node_find_tree(&w->node, &w->dev[0], &r, MLID_FIRST, 0, MLID_FIRST);
	node_filter(&w->node, &w->page, &w->dev[0], tree, 1, members);
	assert_true(members[0] >> SLOT & 1);
	node_filter(&w->node, &w->page, &w->dev[0], tree, 2, members);
	assert_false(members[0] >> SLOT & 1);
}

enum { EVENTS = 8 };

struct heard {
	unsigned events;
	enum ibv_event_type event[EVENTS];
};

static void hear(void *owner, enum ibv_event_type type, void *object)
{
	struct heard *h = owner;

	(void)object;
	assert_true(h->events < EVENTS);
	h->event[h->events++] = type;
}

/* Each change of a port is an event of its own, and is told once. */
static void what_changes_at_a_port_is_told(void **state)
{
	static const struct ca_ops ops = { .async_event = hear };
	struct world *w = *state;
	struct fabric_port *port = &w->t.f.port[port_named(&w->t.f, "h1", 1)];
	const struct {
		uint8_t *byte;
		enum ibv_event_type event;
	} rows[] = {
		{ (uint8_t *)&port->lid, IBV_EVENT_LID_CHANGE }, { &port->lmc, IBV_EVENT_LID_CHANGE },
		{ (uint8_t *)&port->sm_lid, IBV_EVENT_SM_CHANGE }, { &port->sm_sl, IBV_EVENT_SM_CHANGE },
		{ &port->reregistered, IBV_EVENT_CLIENT_REREGISTER },
		{ (uint8_t *)&fabric_pkeys(&w->t.f, port_named(&w->t.f, "h1", 1))[1], IBV_EVENT_PKEY_CHANGE },
		{ (uint8_t *)&fabric_guids(&w->t.f, port_named(&w->t.f, "h1", 1))[1], IBV_EVENT_GID_CHANGE },
	};
	struct heard heard = { 0 };
	struct ca *ca = calloc(1, sizeof(*ca));

	assert_non_null(ca);
	ca->ops = &ops;
	ca->owner = &heard;
	ca->devices = w->devices;
	ca->dev = w->dev;
	list_init(&ca->all_qps);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		heard.events = 0;
		devices_refresh(&w->page, &w->node, ca);
		assert_int_equal(heard.events, 0);
		*rows[i].byte ^= 2;
		devices_refresh(&w->page, &w->node, ca);
		assert_int_equal(heard.events, 1);
		assert_int_equal(heard.event[0], rows[i].event);
	}
	free(ca);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
		ROW(a_host_is_all_ports_of_its_adapter), ROW(what_is_no_place), ROW(a_device_has_the_ports),
		ROW(a_packet_is_for_the_port_of_its_address), ROW(each_port_goes_its_way), ROW(each_port_counts_for_itself),
		ROW(each_lid_has_a_way_back),
		ROW(a_group_has_members_at_ports), ROW(what_changes_at_a_port_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
