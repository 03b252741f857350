/* Hosts of several adapters: which nodes they are, where a program is, its devices, and who reaches whom by which of them. */
#include "fabric.h"

#include "control/devices.h"
#include "fabric/adapters.h"
#include "fabric/host.h"
#include "fabric/page.h"
#include "fabric/route.h"
#include "peers/devices.h"
#include "peers/node.h"
#include "weftd/page.h"
#include "weftd/tree.h"

/* In the order of a file of ibnetdiscover, which is nobody's: h1 has two adapters, the first with two ports, h2 two of one port,
 * h3 one. Of the others the descriptions look similar. */
static const char hosts[] =
	"Switch 12 \"s1\"\n[1] \"a\"[1]\n[2] \"a\"[2]\n[3] \"b\"[1]\n[4] \"c\"[1]\n[5] \"d\"[1]\n[6] \"e\"[1]\n[7] \"f\"[1]\n"
	"[8] \"g\"[1]\n[9] \"i\"[1]\n[10] \"j\"[1]\n\n"
	"Ca 1 \"b\" # \"h1 HCA-2\"\n[1] \"s1\"[3]\n\nCa 1 \"d\" # \"h2 mlx5_1\"\n[1] \"s1\"[5]\n\n"
	"Ca 1 \"e\" # \"h3 HCA-1\"\n[1] \"s1\"[6]\n\nCa 2 \"a\" # \"h1 HCA-1\"\n[1] \"s1\"[1]\n[2] \"s1\"[2]\n\n"
	"Ca 1 \"c\" # \"h2 mlx5_0\"\n[1] \"s1\"[4]\n\nCa 1 \"f\" # \"h1\"\n[1] \"s1\"[7]\n\n"
	"Ca 1 \"g\" # \"MT4 Mellanox Technologies\"\n[1] \"s1\"[8]\n\nCa 1 \"i\" # \"MT4 Mellanox Infiniband\"\n[1] \"s1\"[9]\n\n"
	"Ca 1 \"j\" # \"h2 mlx5_1\"\n[1] \"s1\"[10]\n";

enum { SLOT = 5 };

struct world {
	struct test_fabric t;
	struct fabric_page page;
	struct node node;
	struct ca_device dev[CA_DEVICES];
	int devices;
	uint32_t h1, h2;	/* places of all their adapters */
};

static void be_at(struct world *w, uint32_t place)
{
	w->node = (struct node){ .fabric = w->t.f, .place = place };
	w->devices = devices_read(&w->page, &w->node, w->dev);
	for (int i = 0; i < w->devices; i++)
		w->dev[i].index = (uint8_t)i;
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	parse_fabric(&w->t, hosts);
	assert_int_equal(fabric_route(&w->t.f, ROUTE_MIN_HOP), 0);
	fabric_activate(&w->t.f);
	page_set_devices(&w->page, &control_default, 0x0200000000000100);
	w->page.fabric = 1;
	w->h1 = w->t.f.ports + node_named(&w->t.f, "h1 HCA-1");
	w->h2 = w->t.f.ports + node_named(&w->t.f, "h2 mlx5_0");
	w->page.slot_port[SLOT] = w->h2 + 1;
	be_at(w, w->h1);
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

static void which_descriptions_are_of_a_host(void **state)
{
	static const struct { const char *text; size_t bytes; } rows[] = {
		{ "h1 HCA-1", 2 }, { "h1", 0 }, { "h1 ", 0 }, { " HCA-1", 0 }, { "", 0 }, { " ", 0 }, { "a b c", 0 },
		{ "h1  HCA-1", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(adapters_host(rows[i].text), rows[i].bytes);
}

/* By their descriptions' order, whatever that of the file is. */
static void adapters_of_a_host_are_joined(void **state)
{
	const struct world *w = *state;
	const struct fabric *f = &w->t.f;
	uint32_t first = node_named(f, "h1 HCA-1"), second = node_named(f, "h1 HCA-2");
	uint32_t last = node_named(f, "h2 mlx5_1");

	assert_int_equal(f->place[first].next, second);
	assert_int_equal(f->place[first].host, first);
	assert_int_equal(f->place[second].host, first);
	assert_int_equal(f->place[second].next, NODE_NONE);
	assert_int_equal(f->place[node_named(f, "h2 mlx5_0")].next, last);
	/* the second of the same description, one of another host, one of more words: a host each */
	for (uint32_t n = 0; n < f->nodes; n++) {
		bool is_joined = n == first || n == second || n == last || n == node_named(f, "h2 mlx5_0");

		if (!is_joined)
			assert_true(f->place[n].host == n && f->place[n].next == NODE_NONE);
	}
}

static void a_host_is_all_its_adapters(void **state)
{
	const struct world *w = *state;
	const struct fabric *f = &w->t.f;
	char name[NODE_DESCRIPTION + 1];
	uint32_t second = port_named(f, "h1 HCA-2", 1);

	/* a node that has the name alone comes first */
	assert_int_equal(host_find_place(f, "h1"), port_named(f, "h1", 1));
	assert_int_equal(host_find_place(f, "h2"), w->h2);
	assert_int_equal(host_find_place(f, "h2 mlx5_0"), port_named(f, "h2 mlx5_0", 1));
	assert_int_equal(host_find_place(f, "h1 HCA-1"), port_named(f, "h1 HCA-1", 0));
	assert_int_equal(host_find_place(f, "h3"), port_named(f, "h3 HCA-1", 1));
	assert_int_equal(host_find_place(f, "MT4"), PORT_NONE);
	assert_int_equal(host_find_place(f, "h"), PORT_NONE);
	assert_int_equal(host_find_place(f, ""), PORT_NONE);
	assert_int_equal(host_find_port(f, "h2"), port_named(f, "h2 mlx5_0", 1));
	assert_true(host_is_place(f, w->h1));
	assert_int_equal(host_ports(f, w->h1), 3);
	assert_int_equal(host_port(f, w->h1, 2), port_named(f, "h1 HCA-1", 2));
	assert_int_equal(host_port(f, w->h1, 3), second);
	assert_int_equal(host_port(f, w->h1, 4), PORT_NONE);
	assert_int_equal(host_port(f, w->h1, 0), PORT_NONE);
	assert_int_equal(host_port_number(f, w->h1, second), 3);
	assert_int_equal(host_port_number(f, w->h1, second - 1), 0);
	assert_int_equal(host_port_number(f, w->h2, second), 0);
	host_name(f, w->h1, name);
	assert_string_equal(name, "h1");
	host_name(f, second, name);
	assert_string_equal(name, "h1 HCA-2");
	/* of any other node: no such host, or not its first */
	assert_false(host_is_place(f, f->ports + node_named(f, "h1 HCA-2")));
	assert_false(host_is_place(f, f->ports + node_named(f, "h3 HCA-1")));
	assert_false(host_is_place(f, f->ports + f->nodes));
}

static void a_host_without_links_is_no_place(void **state)
{
	struct world *w = *state;
	struct fabric *f = &w->t.f;

	f->port[port_named(f, "h2 mlx5_0", 1)].lid = 0;
	f->port[port_named(f, "h2 mlx5_0", 1)].peer = PORT_NONE;
	assert_true(host_is_place(f, w->h2));
	f->port[port_named(f, "h2 mlx5_1", 1)].lid = 0;
	f->port[port_named(f, "h2 mlx5_1", 1)].peer = PORT_NONE;
	assert_false(host_is_place(f, w->h2));
}

static void a_port_is_of_several_places(void **state)
{
	const struct world *w = *state;
	const struct fabric *f = &w->t.f;
	uint32_t place[HOST_PLACES], first = port_named(f, "h1 HCA-1", 2), second = port_named(f, "h1 HCA-2", 1);

	assert_int_equal(host_places(f, first, place), 3);
	assert_int_equal(place[0], w->h1);
	assert_int_equal(place[1], port_named(f, "h1 HCA-1", 0));
	assert_int_equal(place[2], first);
	assert_int_equal(host_places(f, second, place), 2);
	assert_int_equal(place[0], w->h1);
	assert_int_equal(place[1], second);
	assert_int_equal(host_places(f, port_named(f, "h3 HCA-1", 1), place), 1);
	assert_int_equal(host_places(f, port_named(f, "s1", 0), place), 0);
}

static void each_adapter_is_a_device(void **state)
{
	struct world *w = *state;
	const struct fabric *f = &w->t.f;
	const struct ca_device *second = &w->dev[3];

	assert_int_equal(w->devices, 4);
	assert_int_equal(w->dev[0].ports, 2);
	assert_int_equal(w->dev[2].device, 0);
	assert_int_equal(w->dev[2].place_number, 2);
	assert_string_equal(second->name, "weft2");
	assert_int_equal(second->ports, 1);
	assert_int_equal(second->port_num, 1);
	assert_int_equal(second->device, 3);
	assert_int_equal(second->network, 0);
	assert_int_equal(second->place_number, 3);
	assert_int_equal(second->guid, f->node[node_named(f, "h1 HCA-2")].guid);
	assert_int_equal(second->lid, f->port[port_named(f, "h1 HCA-2", 1)].lid);
	assert_int_equal(w->dev[0].guid, f->node[node_named(f, "h1 HCA-1")].guid);
	assert_ptr_equal(device_first(second), second);
	assert_ptr_equal(device_port(&w->dev[0], 2), &w->dev[2]);
	assert_null(device_port(second, 2));
	assert_true(w->dev[0].shares_network && second->shares_network);
	assert_false(w->dev[1].shares_network);
	assert_int_equal(tree_devices(&w->page, f, w->h1), 3);
	assert_int_equal(tree_devices(&w->page, f, port_named(f, "h3 HCA-1", 1)), 2);
	/* at one adapter alone */
	be_at(w, port_named(&w->t.f, "h1 HCA-2", 1));
	assert_int_equal(w->devices, 2);
	assert_int_equal(w->dev[0].device, 0);
	assert_false(w->dev[0].shares_network);
}

static void names_count_on(void **state)
{
	static const struct { const char *devices, *first, *second; } rows[] = {
		{ "weft0,weft1:roce", "weft2", "weft3" }, { "mlx5_0", "mlx5_1", "mlx5_2" },
		{ "mlx5_7:roce,mlx5_9", "mlx5_8", "mlx5_10" }, { "ib", "ib1", "ib2" },
		{ "abcdefghijklmno", "abcdefghijklmn1", "abcdefghijklmn2" },
	};
	struct control_table t;
	char why[100], name[PAGE_NAME];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t own;

		assert_int_equal(control_table_parse(rows[i].devices, &t, why, sizeof(why)), 0);
		control_adapter_name(&t, 1, name);
		assert_string_equal(name, rows[i].first);
		control_adapter_name(&t, 2, name);
		assert_string_equal(name, rows[i].second);
		own = t.devices;
		control_table_add_adapters(&t);
		assert_int_equal(t.devices, PAGE_DEVICES);
		assert_string_equal(t.device[own].name, rows[i].first);
		assert_string_equal(t.device[own + 1].name, rows[i].second);
	}
}

static enum route_kind way(const struct world *w, const struct ca_device *from, const char *node)
{
	const struct packet_path path = { .dlid = w->t.f.port[port_named(&w->t.f, node, 1)].lid };

	return node_way(&w->node, &w->page, from, 0xffff, &path, SLOT);
}

static void each_device_goes_its_way(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < w->devices; i++) {
		if (!device_has(&w->dev[i], DEVICE_LIDS))
			continue;
		assert_int_equal(way(w, &w->dev[i], "h2 mlx5_0"), ROUTE_LOOP);
		assert_int_equal(way(w, &w->dev[i], "h2 mlx5_1"), ROUTE_LOOP);
		assert_int_equal(way(w, &w->dev[i], "h3 HCA-1"), ROUTE_NOWHERE);
	}
	fabric_set_link(&w->t.f, port_named(&w->t.f, "h1 HCA-2", 1), false);
	assert_int_equal(way(w, &w->dev[3], "h2 mlx5_1"), ROUTE_CUT);
	assert_int_equal(way(w, &w->dev[0], "h2 mlx5_1"), ROUTE_LOOP);
}

/* Groups of the network are those of each device in it. */
static void a_group_has_members_at_adapters(void **state)
{
	struct world *w = *state;

	for (unsigned i = 0; i < 2; i++)
		w->page.group[i] = (struct page_group){ .used = 1, .device = i ? 3 : 0, .mlid = MLID_FIRST };
	assert_int_equal(group_indexes(&w->page, &w->dev[3], NULL, MLID_FIRST), 1 | 1 << 3);
	assert_int_equal(group_indexes(&w->page, &w->dev[0], NULL, MLID_FIRST), 1 | 1 << 3);
	assert_int_equal(group_indexes(&w->page, &w->dev[1], NULL, MLID_FIRST), 0);
}

/* The ports of a process are sixteen, so of adapters beyond these nobody has a device. Adapters come in the order of their
 * numbers. */
static void adapters_beyond_the_last_place(void **state)
{
	char text[4000];
	struct world w = { .devices = 0 };
	size_t n = (size_t)snprintf(text, sizeof(text), "Switch 20 \"s1\"\n");

	(void)state;
	for (int i = 1; i <= 17; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "[%d] \"c%d\"[1]\n", i, i);
	for (int i = 17; i >= 1; i--)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\nCa 1 \"c%d\" # \"h1 HCA-%d\"\n[1] \"s1\"[%d]\n", i, i, i);
	parse_fabric(&w.t, text);
	page_set_devices(&w.page, &control_default, 1);
	be_at(&w, host_find_place(&w.t.f, "h1"));
	assert_int_equal(host_ports(&w.t.f, w.node.place), 17);
	for (unsigned i = 0; i < 17; i++) {
		snprintf(text, sizeof(text), "h1 HCA-%u", i + 1);
		assert_int_equal(host_port(&w.t.f, w.node.place, i + 1), port_named(&w.t.f, text, 1));
	}
	assert_false(host_is_place(&w.t.f, w.t.f.ports + node_named(&w.t.f, "h1 HCA-2")));
	assert_int_equal(w.devices, CA_DEVICES);
	assert_string_equal(w.dev[15].name, "weft15");
	assert_int_equal(w.dev[15].guid, w.t.f.node[node_named(&w.t.f, "h1 HCA-15")].guid);
	assert_int_equal(tree_devices(&w.page, &w.t.f, w.node.place), PAGE_DEVICES);
	end_fabric(&w.t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
		cmocka_unit_test(which_descriptions_are_of_a_host), ROW(adapters_of_a_host_are_joined),
		ROW(a_host_is_all_its_adapters), ROW(a_host_without_links_is_no_place), ROW(a_port_is_of_several_places),
		ROW(each_adapter_is_a_device), cmocka_unit_test(names_count_on), ROW(each_device_goes_its_way),
		ROW(a_group_has_members_at_adapters), cmocka_unit_test(adapters_beyond_the_last_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
