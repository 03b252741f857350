/* A picture of a fabric. Where some switches have no hosts, as in trees, switches stand in rows by their distance from the hosts,
 * which are at the bottom; else, as on grids and rings, switches stand in a circle and their hosts around it. Links are coloured
 * by what they have carried, the busier direction, as a share of the busiest link. */
#include "cli/fabric_show.h"

#include "cli/output.h"
#include "fabric/speed.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	MARGIN = 30, HEAD = 84,			/* pixels, as all that follows */
	HOST = 10, HOST_STEP = 22, HOST_COLUMNS = 4, NAME_ROOM = 34,
	SWITCH_WIDTH = 30, SWITCH_HEIGHT = 18, ROW = 110, ROW_MOST = 260, LEAST_WIDTH = 840,
	NAMED_HOSTS = 160,			/* with more hosts their names are told by pointing at them alone */
	NO_RANK = UINT32_MAX,
	ESCAPED = 6 * PORT_NAME,
};

/* Shares of the busiest link, from cold to hot; the colours stand apart for most eyes. */
static const struct heat {
	double least;
	const char *colour;
	double width;
} heats[] = {
	{ 0, "#9ecae1", 1.4 }, { 0.2, "#4292c6", 2 }, { 0.4, "#fdae61", 2.6 }, { 0.6, "#f46d43", 3.2 }, { 0.8, "#a50026", 4 },
};

enum { HEATS = sizeof(heats) / sizeof(heats[0]) };

struct place {
	double x, y;
	uint32_t rank;		/* of a switch: links from the next switch with hosts */
	uint32_t home;		/* of a host: its first switch, or PORT_NONE */
	uint32_t hosts;		/* of a switch */
};

struct picture {
	const struct shown *s;
	const struct fabric *f;
	struct place *at;	/* owned: by node */
	uint32_t *queue;	/* owned: switches by rank */
	uint32_t switches, hosts, ranks;
	double width, height;
	uint64_t most;		/* bytes on the busiest link */
	FILE *to;
};

/* ---- who is where ---- */

static uint32_t peer_node(const struct fabric *f, uint32_t port)
{
	uint32_t peer = fabric_peer(f, port);

	return peer == PORT_NONE ? PORT_NONE : f->owner[peer];
}

static void find_homes(struct picture *p)
{
	const struct fabric *f = p->f;

	for (uint32_t port = 0; port < f->ports; port++) {
		uint32_t n = f->owner[port], peer = peer_node(f, port);

		if (fabric_is_switch(f, n) || p->at[n].home != PORT_NONE || peer == PORT_NONE || !fabric_is_switch(f, peer))
			continue;
		p->at[n].home = peer;
		p->at[peer].hosts++;
	}
}

/* Breadth first, from all switches with hosts. */
static void rank_switches(struct picture *p)
{
	const struct fabric *f = p->f;
	uint32_t end = 0;

	for (uint32_t n = 0; n < f->nodes; n++) {
		p->at[n].rank = fabric_is_switch(f, n) && p->at[n].hosts ? 0 : NO_RANK;
		if (!p->at[n].rank)
			p->queue[end++] = n;
	}
	for (uint32_t i = 0; i < end; i++) {
		uint32_t n = p->queue[i];

		p->ranks = p->at[n].rank + 1;
		for (unsigned k = 1; k <= f->place[n].ports; k++) {
			uint32_t peer = peer_node(f, fabric_port_index(f, n, k));

			if (peer == PORT_NONE || !fabric_is_switch(f, peer) || p->at[peer].rank != NO_RANK)
				continue;
			p->at[peer].rank = p->at[n].rank + 1;
			p->queue[end++] = peer;
		}
	}
	/* those that no host can reach stand with the last */
	for (uint32_t n = 0; n < f->nodes; n++) {
		if (fabric_is_switch(f, n) && p->at[n].rank == NO_RANK) {
			p->at[n].rank = p->ranks ? p->ranks - 1 : 0;
			p->queue[end++] = n;
		}
	}
	p->switches = end;
	p->ranks = end && !p->ranks ? 1 : p->ranks;
}

static uint32_t count_rank(const struct picture *p, uint32_t rank)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->switches; i++)
		n += p->at[p->queue[i]].rank == rank;
	return n;
}

static uint32_t most_hosts(const struct picture *p)
{
	uint32_t most = 1;

	for (uint32_t i = 0; i < p->switches; i++)
		most = p->at[p->queue[i]].hosts > most ? p->at[p->queue[i]].hosts : most;
	return most;
}

/* Rows of switches from the leaves upwards, each in the order of its numbers; hosts in blocks below their leaf. */
static void place_rows(struct picture *p)
{
	uint32_t most = most_hosts(p), columns = most < HOST_COLUMNS ? most : HOST_COLUMNS, leaves = count_rank(p, 0);
	uint32_t rows = (most + columns - 1) / columns;
	double cell = columns * HOST_STEP + HOST_STEP > SWITCH_WIDTH + 12 ? columns * HOST_STEP + HOST_STEP : SWITCH_WIDTH + 12;
	double row, bottom;

	p->width = leaves * cell + 2 * MARGIN;
	p->width = p->width < LEAST_WIDTH ? LEAST_WIDTH : p->width;
	row = p->width / 8 < ROW ? ROW : p->width / 8 > ROW_MOST ? ROW_MOST : p->width / 8;
	bottom = HEAD + p->ranks * row;
	p->height = bottom + rows * HOST_STEP + NAME_ROOM;
	for (uint32_t rank = 0; rank < p->ranks; rank++) {
		uint32_t all = count_rank(p, rank), i = 0;

		for (uint32_t n = 0; n < p->f->nodes; n++) {
			if (!fabric_is_switch(p->f, n) || p->at[n].rank != rank)
				continue;
			p->at[n].x = MARGIN + (p->width - 2 * MARGIN) * (i++ + 0.5) / all;
			p->at[n].y = bottom - rank * row - row * 0.6;
			p->at[n].hosts = 0;	/* counted again, as they find their places */
		}
	}
	for (uint32_t n = 0; n < p->f->nodes; n++) {
		struct place *home = p->at[n].home == PORT_NONE ? NULL : &p->at[p->at[n].home];
		uint32_t line;

		if (!home)
			continue;
		line = home->hosts / columns;
		p->at[n].x = home->x + (home->hosts % columns - (columns - 1) / 2.0) * HOST_STEP;
		p->at[n].y = bottom + line * HOST_STEP;
		home->hosts++;
	}
}

static void place_circle(struct picture *p)
{
	uint32_t most = most_hosts(p), rows = (most + 2) / 3, i = 0;
	double radius = p->switches * 3 * HOST_STEP / (2 * M_PI), across;

	radius = radius < 130 ? 130 : radius;
	across = 2 * (radius + 50 + rows * HOST_STEP + NAME_ROOM);
	p->width = across + 2 * MARGIN < LEAST_WIDTH ? LEAST_WIDTH : across + 2 * MARGIN;
	p->height = HEAD + across;
	for (uint32_t n = 0; n < p->f->nodes; n++) {
		double angle = 2 * M_PI * i / p->switches - M_PI / 2;

		if (!fabric_is_switch(p->f, n))
			continue;
		i++;
		p->at[n].x = p->width / 2 + radius * cos(angle);
		p->at[n].y = HEAD + across / 2 + radius * sin(angle);
		p->at[n].hosts = 0;
	}
	for (uint32_t n = 0; n < p->f->nodes; n++) {
		struct place *home = p->at[n].home == PORT_NONE ? NULL : &p->at[p->at[n].home];
		double angle, out, aside;
		uint32_t ring;

		if (!home)
			continue;
		angle = atan2(home->y - HEAD - across / 2, home->x - p->width / 2);
		ring = home->hosts / 3;
		out = 50 + ring * HOST_STEP;
		aside = most == 1 ? 0 : (home->hosts % 3 - 1.0) * HOST_STEP;
		p->at[n].x = home->x + out * cos(angle) - aside * sin(angle);
		p->at[n].y = home->y + out * sin(angle) + aside * cos(angle);
		home->hosts++;
	}
}

/* Hosts without a switch. */
static void place_rest(struct picture *p)
{
	uint32_t i = 0, row = 0, columns = (uint32_t)((p->width - 2 * MARGIN) / (3 * HOST_STEP));

	for (uint32_t n = 0; n < p->f->nodes; n++) {
		if (fabric_is_switch(p->f, n) || p->at[n].home != PORT_NONE)
			continue;
		p->at[n].x = MARGIN + HOST + i % columns * 3.0 * HOST_STEP;
		row = i / columns;
		p->at[n].y = p->height + row * 3.0 * HOST_STEP;
		i++;
	}
	if (i)
		p->height += (row + 1) * 3.0 * HOST_STEP;
}

/* ---- drawing ---- */

static const char *escape(const char *name, char to[ESCAPED])
{
	char plain[PORT_NAME];
	size_t n = 0;

	output_plain(name, plain, sizeof(plain));
	for (const char *c = plain; *c && n + 6 < ESCAPED; c++)
		n += (size_t)snprintf(to + n, ESCAPED - n, *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : *c == '&' ? "&amp;" :
				      *c == '"' ? "&quot;" : "%c", *c);
	to[n] = '\0';
	return to;
}

/* "12.3 MB" */
static const char *bytes_text(uint64_t bytes, char to[24])
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", "PB" };
	double value = (double)bytes;
	unsigned unit = 0;

	for (; value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		value /= 1000;
	snprintf(to, 24, value < 9.995 && unit ? "%.2f %s" : value < 99.95 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return to;
}

static const struct heat *heat_of(const struct picture *p, uint64_t load)
{
	double share = p->most ? (double)load / (double)p->most : 0;
	int i = HEATS - 1;

	while (i && share < heats[i].least)
		i--;
	return &heats[i];
}

/* How many links of this node to the same other one come before this. */
static unsigned parallel(const struct fabric *f, uint32_t port)
{
	unsigned n = 0;

	for (uint32_t other = f->place[f->owner[port]].first_port; other < port; other++)
		n += peer_node(f, other) == peer_node(f, port);
	return n;
}

static void draw_link(const struct picture *p, uint32_t port)
{
	const struct fabric *f = p->f;
	const struct fabric_port *end = &f->port[port];
	uint32_t peer = fabric_peer(f, port);
	const struct place *a = &p->at[f->owner[port]], *b = &p->at[f->owner[peer]];
	double dx = b->x - a->x, dy = b->y - a->y, length = hypot(dx, dy), aside = 4.0 * parallel(f, port);
	uint64_t load = fabric_show_load(p->s, port);
	const struct heat *h = heat_of(p, load);
	bool is_down = end->state == PORT_DOWN, is_bad = end->loss_ppm || end->rate_kbps;
	char from[PORT_NAME], to[PORT_NAME], from_escaped[ESCAPED], to_escaped[ESCAPED], there[24], back[24];

	dx = length > 0 ? dx / length : 0;
	dy = length > 0 ? dy / length : 0;
	fprintf(p->to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"%s><title>",
		a->x - dy * aside, a->y + dx * aside, b->x - dy * aside, b->y + dx * aside,
		is_down ? "#000000" : load ? h->colour : is_bad ? "#777777" : "#cccccc", load && !is_down ? h->width : 1,
		is_down ? " stroke-dasharray=\"2 4\"" : is_bad ? " stroke-dasharray=\"9 4\"" : "");
	fprintf(p->to, "%s - %s, %ux%s: %s there, %s back%s%s</title></line>\n",
		escape(fabric_port_name(f, port, from, sizeof(from)), from_escaped),
		escape(fabric_port_name(f, peer, to, sizeof(to)), to_escaped), width_lanes(end->width), speed_name(end->speed),
		bytes_text(4 * p->s->counts[port].words, there), bytes_text(4 * p->s->counts[peer].words, back),
		is_down ? ", down" : "", is_bad ? ", with a fault" : "");
}

/* Each link once; those that carried something above the others. */
static void draw_links(const struct picture *p)
{
	for (int busy = 0; busy < 2; busy++) {
		for (uint32_t port = 0; port < p->f->ports; port++) {
			uint32_t peer = fabric_peer(p->f, port);

			if (peer != PORT_NONE && port < peer && !fabric_show_load(p->s, port) == !busy)
				draw_link(p, port);
		}
	}
}

static void draw_switch(const struct picture *p, uint32_t n)
{
	char name[ESCAPED];

	fprintf(p->to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"#334155\"/>\n",
		p->at[n].x - SWITCH_WIDTH / 2.0, p->at[n].y - SWITCH_HEIGHT / 2.0, SWITCH_WIDTH, SWITCH_HEIGHT);
	fprintf(p->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#ffffff\">%s</text>\n", p->at[n].x,
		p->at[n].y + 4, escape(p->f->node[n].description, name));
}

static void draw_host(const struct picture *p, uint32_t n)
{
	char name[ESCAPED];

	escape(p->f->node[n].description, name);
	fprintf(p->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\"><title>%s</title></circle>\n", p->at[n].x,
		p->at[n].y, HOST / 2.0, p->f->place[n].type == NODE_ROUTER ? "#7c3aed" : "#0f766e", name);
	if (p->hosts <= NAMED_HOSTS)
		fprintf(p->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"7\">%s</text>\n", p->at[n].x,
			p->at[n].y + HOST / 2.0 + 7, name);
}

static void draw_head(const struct picture *p)
{
	char most[24];
	double x = MARGIN;

	fprintf(p->to, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
		"font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
		p->width, p->height, p->width, p->height);
	fprintf(p->to, "<text x=\"%d\" y=\"26\" font-size=\"15\">%u switches, %u hosts; the busiest link has carried %s</text>\n",
		MARGIN, p->switches, p->hosts, bytes_text(p->most, most));
	for (int i = -1; i < HEATS + 2; i++) {
		const char *dashes = i == HEATS ? " stroke-dasharray=\"2 4\"" : i > HEATS ? " stroke-dasharray=\"9 4\"" : "";
		const char *colour = i == HEATS ? "#000000" : i < 0 || i > HEATS ? "#999999" : heats[i].colour;
		char text[40] = "idle";

		if (i >= HEATS)
			snprintf(text, sizeof(text), i == HEATS ? "down" : "loses or is slow");
		else if (i >= 0)
			snprintf(text, sizeof(text), i ? "from %.0f %%" : "some", 100 * heats[i].least);
		fprintf(p->to, "<line x1=\"%.0f\" y1=\"46\" x2=\"%.0f\" y2=\"46\" stroke=\"%s\" stroke-width=\"%.1f\"%s/>"
			"<text x=\"%.0f\" y=\"50\">%s</text>\n", x, x + 24, colour,
			i < 0 || i >= HEATS ? 1.4 : heats[i].width, dashes, x + 30, text);
		x += 88;
	}
}

static void draw(struct picture *p)
{
	draw_head(p);
	draw_links(p);
	for (uint32_t n = 0; n < p->f->nodes; n++)
		(fabric_is_switch(p->f, n) ? draw_switch : draw_host)(p, n);
	fputs("</svg>\n", p->to);
}

static void count(struct picture *p)
{
	for (uint32_t n = 0; n < p->f->nodes; n++) {
		p->at[n] = (struct place){ .home = PORT_NONE };
		p->hosts += !fabric_is_switch(p->f, n);
	}
	for (uint32_t port = 0; port < p->f->ports; port++) {
		uint64_t load = fabric_show_load(p->s, port);

		if (fabric_peer(p->f, port) != PORT_NONE && load > p->most)
			p->most = load;
	}
}

static int write_picture(struct picture *p, const char *path)
{
	bool failed;

	p->to = strcmp(path, "-") ? fopen(path, "we") : stdout;
	if (!p->to)
		return cli_fail("name a file that can be written", "%s: %s", path, strerror(errno));
	draw(p);
	failed = ferror(p->to) || fflush(p->to);
	if (p->to != stdout)
		failed |= fclose(p->to) != 0;
	return failed ? cli_fail("make room", "%s is not whole: %s", path, strerror(errno)) : EXIT_OK;
}

int fabric_svg(const struct shown *s, const char *path)
{
	struct picture p = { .s = s, .f = &s->l.f };
	int status;

	p.at = calloc(p.f->nodes, sizeof(*p.at));
	p.queue = calloc(p.f->nodes, sizeof(*p.queue));
	if (p.at && p.queue) {
		count(&p);
		find_homes(&p);
		rank_switches(&p);
		(p.ranks > 1 || p.switches < 2 ? place_rows : place_circle)(&p);
		place_rest(&p);
		status = write_picture(&p, path);
	} else {
		status = fabric_no_memory();
	}
	free(p.at);
	free(p.queue);
	return status;
}
