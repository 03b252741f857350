/* All hosts behind one switch have the same path to a LID, so that it is followed once. A path through a switch makes its output
 * buffer depend on the one before; a circle of such dependencies is a credit loop (Dally, Seitz 1987). */
#include "fabric/survey.h"

#include "fabric/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct surveyor {
	struct survey *s;
	const struct fabric *f;
	uint32_t *hosts;	/* owned: by node, host ports behind a switch */
	uint8_t *waits;		/* owned: a bit for each pair of an input and an output port of a switch */
	size_t *first_bit;	/* owned: by node */
	uint8_t *colour;	/* owned: by port, of the search for circles */
	uint32_t *path;		/* owned: of the search, ports */
	uint8_t *tried;		/* owned: by depth of the search */
};

static bool is_up(const struct fabric *f, uint32_t port)
{
	return FABRIC_READ(f->port[port].state) != PORT_DOWN;
}

/* A port that sends and receives, with a LID: of no switch, and its link is up. */
static bool is_host(const struct fabric *f, uint32_t port)
{
	return !fabric_is_switch(f, f->owner[port]) && fabric_peer(f, port) != PORT_NONE && is_up(f, port) &&
	       FABRIC_READ(f->port[port].lid);
}

static size_t bit_of(const struct surveyor *v, uint32_t node, unsigned in, unsigned out)
{
	return v->first_bit[node] + in * (v->f->place[node].ports + 1u) + out;
}

/* The port by which a switch sends a LID, or PORT_NONE. */
static uint32_t output_of(const struct fabric *f, uint32_t node, uint32_t lid)
{
	unsigned out = lid < f->lids ? FABRIC_READ(fabric_lft(f, node)[lid]) : LFT_NONE;
	uint32_t port;

	if (!out || out > f->place[node].ports)
		return PORT_NONE;
	port = fabric_port_index(f, node, out);
	return is_up(f, port) ? port : PORT_NONE;
}

/* Follows a LID from an input port of a switch; the ports by which it leaves go to `out`. How many; 0: `looping` tells why. */
static unsigned follow(const struct surveyor *v, uint32_t in, uint32_t lid, uint32_t out[SWITCHES_MOST], bool *looping)
{
	const struct fabric *f = v->f;

	*looping = false;
	for (unsigned n = 0; n < SWITCHES_MOST; n++) {
		uint32_t peer;

		out[n] = output_of(f, f->owner[in], lid);
		peer = out[n] == PORT_NONE ? PORT_NONE : fabric_peer(f, out[n]);
		if (peer == PORT_NONE || !is_up(f, peer) || out[n] == in)
			return 0;
		if (!fabric_is_switch(f, f->owner[peer]))
			return host_has_lid(f, peer, lid) ? n + 1 : 0;
		in = peer;
	}
	*looping = true;
	return 0;
}

static void note_bad(struct survey *s, uint32_t port, uint32_t lid)
{
	if (s->bad_port != PORT_NONE)
		return;
	s->bad_port = port;
	s->bad_lid = (uint16_t)lid;
}

static void note_waits(const struct surveyor *v, const uint32_t *out, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		uint32_t in = fabric_peer(v->f, out[i - 1]);
		size_t bit = bit_of(v, v->f->owner[in], fabric_port_number(v->f, in), fabric_port_number(v->f, out[i]));

		v->waits[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
}

/* The paths of so many hosts, all behind the switch of the port `in`, to one LID. */
static void survey_switch(const struct surveyor *v, uint32_t in, uint32_t hosts, uint32_t lid)
{
	struct survey *s = v->s;
	uint32_t out[SWITCHES_MOST];
	bool looping;
	unsigned n = follow(v, in, lid, out, &looping);

	if (!n) {
		*(looping ? &s->looping : &s->lost) += hosts;
		note_bad(s, in, lid);
		return;
	}
	s->reached += hosts;
	s->links += (uint64_t)hosts * (n + 1);
	s->longest = n + 1 > s->longest ? n + 1 : s->longest;
	for (unsigned i = 0; i < n; i++)
		s->load[out[i]] += hosts;
	note_waits(v, out, n);
}

/* Everybody's paths to one LID of the host port `to`. */
static void survey_lid(const struct surveyor *v, uint32_t to, uint32_t lid)
{
	const struct fabric *f = v->f;
	uint32_t peer = fabric_peer(f, to);

	for (uint32_t n = 0; n < f->nodes; n++) {
		uint32_t hosts = v->hosts[n] - (f->owner[peer] == n && fabric_is_switch(f, n));

		if (!fabric_is_switch(f, n) || !v->hosts[n] || !hosts)
			continue;
		v->s->paths += hosts;
		survey_switch(v, fabric_port_index(f, n, 0), hosts, lid);
	}
}

/* Hosts that are linked with each other reach nobody else. */
static void survey_pair(const struct surveyor *v, uint32_t port, uint32_t lids)
{
	struct survey *s = v->s;
	uint32_t peer = fabric_peer(v->f, port), there = 0;

	if (is_host(v->f, peer))
		there = 1u << (FABRIC_READ(v->f->port[peer].lmc) & LMC_MOST);
	lids -= 1u << (FABRIC_READ(v->f->port[port].lmc) & LMC_MOST);
	s->paths += lids;
	s->reached += there;
	s->links += there;
	s->load[port] += there;
	s->lost += lids - there;
	if (there && !s->longest)
		s->longest = 1;
	if (lids > there)
		note_bad(s, port, 0);
}

static void survey_paths(const struct surveyor *v)
{
	const struct fabric *f = v->f;
	uint32_t lids = 0;

	for (uint32_t port = 0; port < f->ports; port++) {
		if (!is_host(f, port))
			continue;
		lids += 1u << (FABRIC_READ(f->port[port].lmc) & LMC_MOST);
		v->hosts[f->owner[fabric_peer(f, port)]]++;
	}
	for (uint32_t port = 0; port < f->ports; port++) {
		uint32_t lid = FABRIC_READ(f->port[port].lid);

		if (!is_host(f, port))
			continue;
		for (uint32_t i = lid; host_has_lid(f, port, i); i++)
			survey_lid(v, port, i);
		if (!fabric_is_switch(f, f->owner[fabric_peer(f, port)]))
			survey_pair(v, port, lids);
		else
			v->s->load[port] = lids - (1u << (FABRIC_READ(f->port[port].lmc) & LMC_MOST));
	}
}

/* ---- circles ---- */

enum { WHITE, GREY, BLACK };	/* not seen, on the path of the search, done */

/* The next buffer that the one of `port` waits for: an output port of the switch behind it, or PORT_NONE. */
static uint32_t next_wait(const struct surveyor *v, uint32_t port, uint8_t *tried)
{
	const struct fabric *f = v->f;
	uint32_t in = fabric_peer(f, port), node = in == PORT_NONE ? PORT_NONE : f->owner[in];

	while (node != PORT_NONE && fabric_is_switch(f, node) && *tried < f->place[node].ports) {
		size_t bit = bit_of(v, node, fabric_port_number(f, in), ++*tried);

		if (v->waits[bit / 8] >> bit % 8 & 1)
			return fabric_port_index(f, node, *tried);
	}
	return PORT_NONE;
}

/* Depth first from one port. True: a circle. */
static bool finds_circle(const struct surveyor *v, uint32_t from)
{
	uint32_t depth = 0;

	v->path[0] = from;
	v->tried[0] = 0;
	v->colour[from] = GREY;
	for (;;) {
		uint32_t next = next_wait(v, v->path[depth], &v->tried[depth]);

		if (next == PORT_NONE) {
			v->colour[v->path[depth]] = BLACK;
			if (!depth--)
				return false;
		} else if (v->colour[next] == GREY) {
			return true;
		} else if (v->colour[next] == WHITE) {
			v->path[++depth] = next;
			v->tried[depth] = 0;
			v->colour[next] = GREY;
		}
	}
}

static bool has_circle(const struct surveyor *v)
{
	for (uint32_t port = 0; port < v->f->ports; port++) {
		if (v->colour[port] == WHITE && fabric_is_switch(v->f, v->f->owner[port]) && finds_circle(v, port))
			return true;
	}
	return false;
}

static size_t place_bits(const struct surveyor *v)
{
	size_t bits = 0;

	for (uint32_t n = 0; n < v->f->nodes; n++) {
		v->first_bit[n] = bits;
		if (fabric_is_switch(v->f, n))
			bits += (v->f->place[n].ports + 1u) * (v->f->place[n].ports + 1u);
	}
	return bits;
}

int survey(struct survey *s, const struct fabric *f)
{
	struct surveyor v = { .s = s, .f = f };
	size_t nodes = f->nodes + 1, ports = f->ports + 1;
	int err = -ENOMEM;

	*s = (struct survey){ .bad_port = PORT_NONE, .load = calloc(ports, sizeof(*s->load)) };
	v.hosts = calloc(nodes, sizeof(*v.hosts));
	v.first_bit = calloc(nodes, sizeof(*v.first_bit));
	v.waits = v.first_bit ? calloc(place_bits(&v) / 8 + 1, 1) : NULL;
	v.colour = calloc(ports, 1);
	v.path = calloc(ports, sizeof(*v.path));
	v.tried = calloc(ports, 1);
	if (s->load && v.hosts && v.waits && v.colour && v.path && v.tried) {
		survey_paths(&v);
		s->has_credit_loop = has_circle(&v);
		err = 0;
	}
	free(v.tried);
	free(v.path);
	free(v.colour);
	free(v.waits);
	free(v.first_bit);
	free(v.hosts);
	return err;
}

void survey_fini(struct survey *s)
{
	free(s->load);
	memset(s, 0, sizeof(*s));
}
