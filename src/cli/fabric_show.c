/* weft fabric show: the network's fabric as it stands: each node with its GUID, each port with its LID, GID and state, each link
 * with its rate, its fault and what it has carried; all, or of the node that is named. */
#include "cli/fabric_show.h"

#include "cli/fabric_net.h"
#include "cli/output.h"
#include "fabric/host.h"
#include "fabric/speed.h"

#include <stdlib.h>
#include <string.h>

int fabric_shown_init(struct shown *s, const struct cli_options *o)
{
	return fabric_net_counts(o, &s->l, &s->counts);
}

void fabric_shown_fini(struct shown *s)
{
	free(s->counts);
	fabric_unload(&s->l);
}

static const char *state_text(const struct fabric_port *p)
{
	static const char *const names[] = { "?", "down", "init", "armed", "active" };

	return p->unplugged ? "unplugged" : p->state < sizeof(names) / sizeof(names[0]) ? names[p->state] : "?";
}

static const char *type_text(uint8_t type)
{
	return type == NODE_SWITCH ? "switch" : type == NODE_ROUTER ? "router" : "host";
}

/* The port whose LID leads to this one: of a switch port 0. */
static uint32_t end_port(const struct fabric *f, uint32_t port)
{
	uint32_t node = f->owner[port];

	return fabric_is_switch(f, node) ? fabric_port_index(f, node, 0) : port;
}

static void gid_text(const struct fabric *f, uint32_t port, char text[40])
{
	uint8_t gid[16];
	int n = 0;

	host_write_gid(f, end_port(f, port), 0, gid);
	for (int i = 0; i < 16; i += 2)
		n += snprintf(text + n, 40 - (size_t)n, "%s%x", i ? ":" : "", gid[i] << 8 | gid[i + 1]);
}

/* What rdma_cm finds a host's port by; empty: it has none. */
static const char *address_text(const struct fabric *f, uint32_t port, char text[16])
{
	uint8_t a[HOST_IPV4_BYTES];

	*text = '\0';
	if (host_has_programs(f, port) && host_write_ipv4(f, port, a))
		snprintf(text, 16, "%u.%u.%u.%u", a[0], a[1], a[2], a[3]);
	return text;
}

/* "1 %, 10000 Mbit/s", or empty. */
static const char *fault_text(const struct fabric_port *p, char *to, size_t room)
{
	char loss[32] = "", rate[32] = "";

	if (p->loss_ppm)
		snprintf(loss, sizeof(loss), "loses %g%%", p->loss_ppm / 10000.0);
	if (p->rate_kbps)
		snprintf(rate, sizeof(rate), "%g Mbit/s", p->rate_kbps / 1000.0);
	snprintf(to, room, "%s%s%s", loss, *loss && *rate ? ", " : "", rate);
	return to;
}

static json_t *describe(const struct shown *s, uint32_t port, uint32_t peer)
{
	const struct fabric *f = &s->l.f;
	const struct fabric_port *p = &f->port[port];
	const struct control_port_count *c = &s->counts[port];

	return json_pack("{s:i, s:i, s:s, s:s, s:i, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
			 "port", (int)fabric_port_number(f, port), "lid", (int)f->port[end_port(f, port)].lid,
			 "state", state_text(p), "to", f->node[f->owner[peer]].description,
			 "to_port", (int)fabric_port_number(f, peer), "width", (int)width_lanes(p->width),
			 "speed", speed_name(p->speed), "mbps", (json_int_t)link_mbps(p->width, p->speed),
			 "sent_bytes", 4 * (json_int_t)c->words, "received_bytes", 4 * (json_int_t)s->counts[peer].words,
			 "sent_packets", (json_int_t)c->packets, "waits", (json_int_t)c->waits,
			 "discards", (json_int_t)c->discards, "errors", (json_int_t)c->errors);
}

json_t *fabric_show_port(const struct shown *s, uint32_t port)
{
	const struct fabric *f = &s->l.f;
	uint32_t peer = fabric_peer(f, port);
	json_t *row = describe(s, port, peer);
	char gid[40], address[16];

	if (!row)
		return NULL;
	gid_text(f, port, gid);
	json_object_set_new(row, "gid", json_string(gid));
	if (*address_text(f, port, address))
		json_object_set_new(row, "address", json_string(address));
	json_object_set_new(row, "loss_ppm", json_integer(f->port[port].loss_ppm));
	json_object_set_new(row, "rate_kbps", json_integer(fabric_rate(f, port)));
	return row;
}

uint64_t fabric_show_load(const struct shown *s, uint32_t port)
{
	uint32_t peer = fabric_peer(&s->l.f, port);
	uint64_t out = s->counts[port].words, in = peer == PORT_NONE ? 0 : s->counts[peer].words;

	return 4 * (out > in ? out : in);
}

/* ---- JSON ---- */

static json_t *json_node(const struct shown *s, uint32_t n)
{
	const struct fabric *f = &s->l.f;
	json_t *ports = json_array();
	char guid[24];

	for (unsigned i = 1; i <= f->place[n].ports; i++) {
		uint32_t port = fabric_port_index(f, n, i);

		if (fabric_peer(f, port) != PORT_NONE)
			json_array_append_new(ports, fabric_show_port(s, port));
	}
	snprintf(guid, sizeof(guid), "0x%016llx", (unsigned long long)f->node[n].guid);
	return json_pack("{s:s, s:s, s:s, s:o}", "name", f->node[n].description, "type", type_text(f->place[n].type), "guid",
			 guid, "ports", ports);
}

static int print_json(const struct shown *s, uint32_t only)
{
	json_t *nodes = json_array();

	for (uint32_t n = 0; n < s->l.f.nodes; n++)
		if (only == UINT32_MAX || n == only)
			json_array_append_new(nodes, json_node(s, n));
	return output_json(json_pack("{s:o}", "nodes", nodes));
}

/* ---- a table ---- */

static const struct output_column link_columns[] = {
	{ "from", "PORT" }, { "lid", "LID" }, { "state", "STATE" }, { "link", "LINK" }, { "peer", "TO" },
	{ "sent_bytes", "SENT" }, { "received_bytes", "RECEIVED" }, { "waits", "WAITS" }, { "discards", "DISCARDS" },
	{ "errors", "ERRORS" }, { "fault", "FAULT" }, { 0 },
};

static json_t *table_row(const struct shown *s, uint32_t port)
{
	const struct fabric *f = &s->l.f;
	json_t *row = fabric_show_port(s, port);
	char name[PORT_NAME], link[32], fault[80];

	json_object_set_new(row, "from", json_string(fabric_port_name(f, port, name, sizeof(name))));
	snprintf(link, sizeof(link), "%ux%s", width_lanes(f->port[port].width), speed_name(f->port[port].speed));
	json_object_set_new(row, "link", json_string(link));
	json_object_set_new(row, "peer", json_string(fabric_port_name(f, fabric_peer(f, port), name, sizeof(name))));
	json_object_set_new(row, "fault", json_string(fault_text(&f->port[port], fault, sizeof(fault))));
	return row;
}

/* One node also tells its addresses. */
static void print_node(const struct fabric *f, uint32_t n)
{
	char name[PORT_NAME], gid[40], address[16];

	output_plain(f->node[n].description, name, sizeof(name));
	printf("%s: a %s, GUID 0x%016llx\n", name, type_text(f->place[n].type), (unsigned long long)f->node[n].guid);
	for (unsigned i = fabric_is_switch(f, n) ? 0 : 1; i <= (fabric_is_switch(f, n) ? 0 : f->place[n].ports); i++) {
		uint32_t port = fabric_port_index(f, n, i);

		gid_text(f, port, gid);
		printf("port %u: LID %u, GID %s", i, f->port[port].lid, gid);
		printf(*address_text(f, port, address) ? ", address %s\n" : "%s\n", address);
	}
}

static int print_table(const struct shown *s, uint32_t only)
{
	const struct fabric *f = &s->l.f;
	json_t *rows = json_array();

	if (only != UINT32_MAX)
		print_node(f, only);
	for (uint32_t port = 0; port < f->ports; port++) {
		if (fabric_peer(f, port) != PORT_NONE && (only == UINT32_MAX || f->owner[port] == only))
			json_array_append_new(rows, table_row(s, port));
	}
	output_table(rows, link_columns);
	json_decref(rows);
	return EXIT_OK;
}

/* The node of this name, UINT32_MAX without one. An exit status. */
static int find_node(const struct fabric *f, const char *name, uint32_t *node)
{
	uint32_t port = name ? host_find_port(f, name) : PORT_NONE;

	*node = port == PORT_NONE ? UINT32_MAX : f->owner[port];
	if (!name || port != PORT_NONE)
		return EXIT_OK;
	return cli_fail("weft fabric show names all of them", "the network's fabric has no node '%s'", name);
}

int fabric_show(const struct cli_options *o, int argc, char **argv)
{
	struct shown s;
	uint32_t node;
	int status;

	if (argc > 1 || (o->svg && (argc || o->json))) {
		cli_fail("weft fabric show, show NODE, show --json, or show --svg FILE", "show takes one node, or one output");
		return EXIT_USAGE;
	}
	status = fabric_shown_init(&s, o);
	if (status != EXIT_OK)
		return status;
	status = find_node(&s.l.f, argc ? argv[0] : NULL, &node);
	if (status == EXIT_OK)
		status = o->svg ? fabric_svg(&s, o->svg) : o->json ? print_json(&s, node) : print_table(&s, node);
	fabric_shown_fini(&s);
	return status;
}
