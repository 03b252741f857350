/* The kinds of topologies. A kind makes its switches first, then their links, then their hosts, on the lowest ports that are
 * left: so hosts behind one switch have numbers in a row. */
#include "fabric/generate.h"

#include "fabric/scan.h"
#include "fabric/speed.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DIMENSIONS = 6 };

#define UNSET UINT32_MAX

/* Locally administered EUI-64s, as no vendor has them. */
static const uint64_t switch_guids = 0x0200000000200000, host_guids = 0x0200000000100000;

struct generate {
	struct topology *t;
	char *why;
	size_t room;
	uint32_t hosts, switches;	/* hosts: of each switch that has any */
	uint32_t ports, levels, groups, group, global;
	uint32_t size[DIMENSIONS], dimensions;
	uint8_t width, speed;
	uint32_t made_hosts;
	int err;			/* of the first fault */
};

/* Returns -EINVAL, which a caller may return. */
static int __attribute__((format(printf, 2, 3))) refuse(struct generate *g, const char *format, ...)
{
	va_list ap;

	if (g->err)
		return g->err;
	va_start(ap, format);
	vsnprintf(g->why, g->room, format, ap);
	va_end(ap);
	return g->err = -EINVAL;
}

static int fail(struct generate *g, int err)
{
	if (err == -E2BIG)
		return refuse(g, "it has more nodes, ports or LIDs than a subnet may have (%d nodes)", TOPOLOGY_NODES);
	if (!g->err)
		g->err = err;
	return g->err;
}

/* ---- pieces ---- */

/* A node named by its letter and number. False after any fault. */
static bool add_node(struct generate *g, enum node_type type, unsigned ports, char letter, uint32_t number, uint64_t guid)
{
	int index = g->err ? g->err : topology_add(g->t, type, ports);

	if (index < 0)
		return fail(g, index), false;
	topology_set_guid(g->t, (uint32_t)index, guid);
	snprintf(g->t->node[index].description, sizeof(g->t->node[index].description), "%c%u", letter, number);
	return true;
}

/* `count` switches, nodes 0 to count - 1. */
static void add_switches(struct generate *g, uint32_t count, uint32_t ports)
{
	if (!ports)
		refuse(g, "a switch would have no port");
	if (ports > NODE_PORTS)
		refuse(g, "a switch would have %u ports: at most %d are possible", ports, NODE_PORTS);
	for (uint32_t i = 0; i < count && !g->err; i++)
		add_node(g, NODE_SWITCH, ports, 's', i + 1, switch_guids + i);
}

static uint32_t free_port(const struct generate *g, uint32_t node)
{
	const struct fabric_node *n = &g->t->node[node];

	for (unsigned i = 1; i <= n->ports; i++) {
		if (g->t->port[n->first_port + i].peer == PORT_NONE)
			return n->first_port + i;
	}
	return PORT_NONE;
}

static void add_link(struct generate *g, uint32_t a, uint32_t b)
{
	if (!g->err && topology_link(g->t, free_port(g, a), free_port(g, b), g->width, g->speed))
		refuse(g, "switch %u or %u has no port left", a + 1, b + 1);
}

/* So many hosts behind a switch, each with one port. */
static void add_hosts(struct generate *g, uint32_t node, uint32_t count)
{
	for (uint32_t i = 0; i < count && !g->err; i++, g->made_hosts++) {
		if (add_node(g, NODE_CA, 1, 'h', g->made_hosts + 1, host_guids + 2 * (uint64_t)g->made_hosts))
			add_link(g, node, g->t->nodes - 1);
	}
}

/* ---- kinds ---- */

static void make_star(struct generate *g)
{
	add_switches(g, 1, g->hosts);
	add_hosts(g, 0, g->hosts);
}

static void make_line(struct generate *g)
{
	add_switches(g, g->switches, g->hosts + 2);
	for (uint32_t i = 0; i + 1 < g->switches; i++)
		add_link(g, i, i + 1);
	for (uint32_t i = 0; i < g->switches; i++)
		add_hosts(g, i, g->hosts);
}

/* The first coordinate runs fastest. */
static void make_grid(struct generate *g, bool is_torus)
{
	uint32_t count = 1, step = 1;

	for (uint32_t d = 0; d < g->dimensions && count <= TOPOLOGY_NODES; d++)
		count *= g->size[d];
	add_switches(g, count, g->hosts + 2 * g->dimensions);
	for (uint32_t d = 0; d < g->dimensions; step *= g->size[d++]) {
		for (uint32_t i = 0; i < count && !g->err; i++) {
			uint32_t at = i / step % g->size[d];

			if (at + 1 < g->size[d])
				add_link(g, i, i + step);
			else if (is_torus && g->size[d] > 2)
				add_link(g, i, i - at * step);
		}
	}
	for (uint32_t i = 0; i < count && !g->err; i++)
		add_hosts(g, i, g->hosts);
}

static void make_mesh(struct generate *g)
{
	make_grid(g, false);
}

static void make_torus(struct generate *g)
{
	make_grid(g, true);
}

/* Leaves are switches 1 to `ports`, spines those behind them. */
static void make_two_levels(struct generate *g, uint32_t half)
{
	add_switches(g, g->ports + half, g->ports);
	for (uint32_t leaf = 0; leaf < g->ports; leaf++) {
		for (uint32_t spine = 0; spine < half; spine++)
			add_link(g, leaf, g->ports + spine);
	}
	for (uint32_t leaf = 0; leaf < g->ports; leaf++)
		add_hosts(g, leaf, g->hosts);
}

/* Al-Fares, Loukissas, Vahdat (SIGCOMM 2008): pods of half edge and half aggregation switches, half * half core switches. Edges
 * come first, pod by pod, then aggregation switches, then the core. */
static void make_three_levels(struct generate *g, uint32_t half)
{
	uint32_t edges = g->ports * half, core = 2 * edges;

	add_switches(g, core + half * half, g->ports);
	for (uint32_t e = 0; e < edges; e++) {
		for (uint32_t i = 0; i < half; i++)
			add_link(g, e, edges + e / half * half + i);
	}
	for (uint32_t a = 0; a < edges; a++) {
		for (uint32_t i = 0; i < half; i++)
			add_link(g, edges + a, core + a % half * half + i);
	}
	for (uint32_t e = 0; e < edges; e++)
		add_hosts(g, e, g->hosts);
}

static void make_fat_tree(struct generate *g)
{
	uint32_t half = g->ports / 2;

	if (g->ports % 2 || !half)
		refuse(g, "ports=%u: a fat tree's switches have an even number of ports, half of them upwards", g->ports);
	else if (g->levels != 2 && g->levels != 3)
		refuse(g, "levels=%u: a fat tree has 2 or 3", g->levels);
	else if (g->hosts != UNSET && g->hosts > half)
		refuse(g, "hosts=%u: a leaf switch of %u ports has room for %u", g->hosts, g->ports, half);
	if (g->err)
		return;
	if (g->hosts == UNSET)
		g->hosts = half;
	if (g->levels == 2)
		make_two_levels(g, half);
	else
		make_three_levels(g, half);
}

/* Kim, Dally, Scott, Abts (ISCA 2008): groups whose switches are all linked; link k of a group leads to the group k + 1 further,
 * whose link back is the one that leads to this group. */
static void make_dragonfly(struct generate *g)
{
	uint32_t most = g->group * g->global + 1;

	if (g->groups == UNSET)
		g->groups = most;
	if (g->groups > most) {
		refuse(g, "groups=%u: %u switches of %u global links each reach %u groups", g->groups, g->group, g->global, most);
		return;
	}
	add_switches(g, g->groups * g->group, g->hosts + g->group - 1 + g->global);
	for (uint32_t group = 0; group < g->groups; group++) {
		for (uint32_t i = 0; i < g->group; i++) {
			for (uint32_t j = i + 1; j < g->group; j++)
				add_link(g, group * g->group + i, group * g->group + j);
		}
	}
	for (uint32_t a = 0; a < g->groups; a++) {
		for (uint32_t b = a + 1; b < g->groups; b++) {
			uint32_t there = (b - a - 1) / g->global, back = (a + g->groups - b - 1) / g->global;

			add_link(g, a * g->group + there, b * g->group + back);
		}
	}
	for (uint32_t i = 0; i < g->groups * g->group; i++)
		add_hosts(g, i, g->hosts);
}

/* ---- settings ---- */

enum { SIZE = 1, LINK = 2 };	/* settings that are no number */

static const struct parameter {
	const char *name;
	size_t offset;
	unsigned what;
	uint32_t least, most;
} parameters[] = {
	{ "hosts", offsetof(struct generate, hosts), 0, 0, TOPOLOGY_NODES },
	{ "switches", offsetof(struct generate, switches), 0, 1, TOPOLOGY_NODES },
	{ "ports", offsetof(struct generate, ports), 0, 2, NODE_PORTS },
	{ "levels", offsetof(struct generate, levels), 0, 2, 3 },
	{ "groups", offsetof(struct generate, groups), 0, 1, TOPOLOGY_NODES },
	{ "group", offsetof(struct generate, group), 0, 1, NODE_PORTS },
	{ "global", offsetof(struct generate, global), 0, 1, NODE_PORTS },
	{ "size", 0, SIZE, 1, TOPOLOGY_NODES },
	{ "link", 0, LINK, 0, 0 },
};

const struct generate_kind generate_kinds[] = {
	{ "star", "one switch", "hosts=8" },
	{ "line", "switches in a row", "switches=4 hosts=1" },
	{ "mesh", "switches in a grid of one to six dimensions", "size=4x4 hosts=1" },
	{ "torus", "a grid whose ends are linked", "size=4x4 hosts=1" },
	{ "fat-tree", "switches of equal size, half of their ports upwards", "ports=4 levels=2 hosts=(ports / 2)" },
	{ "dragonfly", "groups of linked switches, linked with each other",
	  "group=4 global=2 groups=(group * global + 1) hosts=2" },
	{ 0 },
};

/* By the order above; what each takes of `parameters` is in its text, where = follows the name. */
static const struct {
	void (*make)(struct generate *g);
	struct generate defaults;
} makers[] = {
	{ make_star, { .hosts = 8 } },
	{ make_line, { .switches = 4, .hosts = 1 } },
	{ make_mesh, { .size = { 4, 4 }, .dimensions = 2, .hosts = 1 } },
	{ make_torus, { .size = { 4, 4 }, .dimensions = 2, .hosts = 1 } },
	{ make_fat_tree, { .ports = 4, .levels = 2, .hosts = UNSET } },
	{ make_dragonfly, { .group = 4, .global = 2, .groups = UNSET, .hosts = 2 } },
};

static bool has_parameter(const struct generate_kind *kind, const struct parameter *p)
{
	size_t length = strlen(p->name);

	if (p->what == LINK)
		return true;
	for (const char *at = kind->parameters; (at = strstr(at, p->name)); at++) {
		if (at[length] == '=' && (at == kind->parameters || at[-1] == ' '))
			return true;
	}
	return false;
}

static int set_size(struct generate *g, struct scan *s)
{
	uint64_t value;

	for (g->dimensions = 0; g->dimensions < DIMENSIONS; g->size[g->dimensions++] = (uint32_t)value) {
		if (!scan_number(s, 10, TOPOLOGY_NODES, &value) || !value)
			break;
		if (!scan_char(s, 'x')) {
			g->size[g->dimensions++] = (uint32_t)value;
			return scan_ends(s) ? 0 : -EINVAL;
		}
	}
	return -EINVAL;
}

static int set_link(struct generate *g, struct scan *s)
{
	struct word speed;
	uint64_t lanes;

	if (!scan_number(s, 10, 100, &lanes) || !scan_char(s, 'x') || !scan_name(s, &speed) || !scan_ends(s))
		return -EINVAL;
	g->width = width_of((unsigned)lanes);
	g->speed = (uint8_t)speed_of(speed.at, speed.length);
	return g->width && g->speed ? 0 : -EINVAL;
}

static int set(struct generate *g, const struct parameter *p, struct scan *s, const char *setting)
{
	uint64_t value;

	if (p->what == SIZE && set_size(g, s))
		return refuse(g, "%s: expected one to %d numbers, as size=4x4x2", setting, DIMENSIONS);
	if (p->what == LINK && set_link(g, s))
		return refuse(g, "%s: expected a width and a speed, as link=4xHDR", setting);
	if (p->what)
		return 0;
	if (!scan_number(s, 10, p->most, &value) || !scan_ends(s) || value < p->least)
		return refuse(g, "%s: expected a number of %u to %u", setting, p->least, p->most);
	*(uint32_t *)(void *)((char *)g + p->offset) = (uint32_t)value;
	return 0;
}

static int take_setting(struct generate *g, const struct generate_kind *kind, const char *setting)
{
	struct scan s = { setting, setting + strlen(setting) };
	struct word name;

	if (scan_name(&s, &name) && scan_char(&s, '=')) {
		for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
			if (word_is(name, parameters[i].name) && has_parameter(kind, &parameters[i]))
				return set(g, &parameters[i], &s, setting);
		}
	}
	return refuse(g, "%s: a %s has the settings %s link=4xHDR", setting, kind->name, kind->parameters);
}

int generate(struct topology *t, const char *kind, unsigned settings, char *const setting[], char *why, size_t room)
{
	struct generate g;
	uint32_t port;
	size_t row = 0;
	int err;

	while (generate_kinds[row].name && strcmp(generate_kinds[row].name, kind) != 0)
		row++;
	if (!generate_kinds[row].name) {
		snprintf(why, room, "there is no kind '%s' of topology", kind);
		return -EINVAL;
	}
	g = makers[row].defaults;
	g.t = t;
	g.why = why;
	g.room = room;
	g.width = WIDTH_4X;
	g.speed = SPEED_HDR;
	for (unsigned i = 0; i < settings; i++) {
		if (take_setting(&g, &generate_kinds[row], setting[i]))
			return g.err;
	}
	makers[row].make(&g);
	err = g.err ? g.err : topology_set_lids(t, &port);
	return err ? fail(&g, err) : 0;
}
