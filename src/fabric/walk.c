/* A unicast walk reads each node under its sequence word: when the word is odd, or another one after the reading, the walk begins
 * again. A multicast walk may meet some tables before a change and some after it, as packets do. The fabric may be written by
 * another user, who may leave a word odd for ever: a walk begins at most so many times, and every index that is read from the
 * mapping is bounded. */
#include "fabric/walk.h"

#include "fabric/host.h"
#include "wire/pkey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 100 };

static const struct {
	const char *text, *clause;
} rows[WALK_VERDICTS] = {
#define WALK(name, text, clause) [WALK_##name] = { text, clause },
#include "fabric/walk.def"
#undef WALK
};

const char *walk_text(enum walk_verdict v)
{
	return v < WALK_VERDICTS ? rows[v].text : "";
}

const char *walk_clause(enum walk_verdict v)
{
	return v < WALK_VERDICTS ? rows[v].clause : "";
}

/* ---- checks, one question each ---- */

static enum walk_verdict check_sends(const struct fabric *f, uint32_t port, bool is_smp)
{
	unsigned state = FABRIC_READ(f->port[port].state);

	return state == PORT_ACTIVE || (is_smp && state != PORT_DOWN) ? WALK_ONWARD : WALK_NOT_ACTIVE;
}

static enum walk_verdict check_receives(const struct fabric *f, uint32_t port, bool is_smp)
{
	unsigned state = FABRIC_READ(f->port[port].state);

	return state == PORT_ACTIVE || state == PORT_ARMED || (is_smp && state != PORT_DOWN) ? WALK_ONWARD : WALK_NOT_RECEIVING;
}

int fabric_find_pkey(const struct fabric *f, uint32_t port, uint16_t pkey)
{
	const uint16_t *table = fabric_pkeys(f, port);

	for (int i = 0; i < PORT_PKEYS; i++)
		if (pkey_matches(FABRIC_READ(table[i]), pkey))
			return i;
	return -1;
}

bool fabric_has_pkey(const struct fabric *f, uint32_t port, uint16_t pkey)
{
	const uint16_t *table = fabric_pkeys(f, port);

	for (int i = 0; i < PORT_PKEYS; i++)
		if (FABRIC_READ(table[i]) == pkey)
			return true;
	return false;
}

uint16_t fabric_answer_pkey(const struct fabric *f, uint32_t port, uint16_t pkey)
{
	int i = fabric_find_pkey(f, port, pkey);

	return i < 0 ? 0 : FABRIC_READ(fabric_pkeys(f, port)[i]);
}

static bool has_partition(const struct fabric *f, uint32_t port, uint16_t pkey)
{
	const uint16_t *table = fabric_pkeys(f, port);

	for (int i = 0; i < PORT_PKEYS; i++)
		if (pkey_is_same_partition(FABRIC_READ(table[i]), pkey))
			return true;
	return false;
}

/* At the ports of switches, where the subnet manager asked for it. They look for the partition; who is a full member of it is the
 * destination's to judge, as OpenSM gives a port the P_Keys of the host behind it, and a limited member could send nothing. */
static enum walk_verdict check_pkey(const struct fabric *f, uint32_t port, uint16_t pkey, enum port_enforce where)
{
	if (!(FABRIC_READ(f->port[port].enforce) & where) || has_partition(f, port, pkey))
		return WALK_ONWARD;
	return where == ENFORCE_IN ? WALK_PKEY_IN : WALK_PKEY_OUT;
}

unsigned walk_lane(const struct fabric *f, uint32_t in, uint32_t out, unsigned sl)
{
	uint32_t node = f->owner[out], first = f->place[node].first_port;
	uint8_t two = FABRIC_READ(fabric_sl2vl(f, node, in - first, out - first)[(sl & 15) / 2]);

	return sl & 1 ? two & 15 : two >> 4;
}

/* The lane by which a packet leaves a node; `in` and `out` are ports of it. */
static enum walk_verdict choose_lane(const struct fabric *f, uint32_t in, uint32_t out, unsigned sl, uint8_t *vl)
{
	unsigned lane = walk_lane(f, in, out, sl);

	if (lane == VL_MANAGEMENT || lane >= FABRIC_READ(f->port[out].vls))
		return WALK_NO_LANE;
	*vl = (uint8_t)lane;
	return WALK_ONWARD;
}

/* ---- one node ---- */

/* Where a switch sends a LID: its own port 0, or an output port. */
static enum walk_verdict look_up(const struct fabric *f, uint32_t node, unsigned dlid, uint32_t *out)
{
	bool is_within = dlid < f->lids && dlid <= FABRIC_READ(f->node[node].lft_top);
	unsigned number = is_within ? FABRIC_READ(fabric_lft(f, node)[dlid]) : LFT_NONE;

	if (number == LFT_NONE)
		return WALK_NO_ROUTE;
	if (number > f->place[node].ports)
		return WALK_NO_PORT;
	*out = fabric_port_index(f, node, number);
	return WALK_ONWARD;
}

/* Nothing is sent to a port that could not take it. */
static enum walk_verdict check_length(const struct fabric *f, uint32_t out, unsigned mtu)
{
	return mtu <= FABRIC_READ(f->port[out].mtu) ? WALK_ONWARD : WALK_TOO_LONG;
}

/* What a port of a node does with a packet that leaves by it. */
static enum walk_verdict leave(const struct fabric *f, const struct walk_packet *p, uint32_t in, uint32_t out, uint8_t *vl)
{
	uint32_t node = f->owner[out];
	enum walk_verdict v = fabric_peer(f, out) == PORT_NONE ? WALK_NO_LINK : check_sends(f, out, p->is_smp);

	if (p->is_smp) {
		*vl = VL_MANAGEMENT;
		return v;
	}
	if (v == WALK_ONWARD && fabric_is_switch(f, node))
		v = check_pkey(f, out, p->pkey, ENFORCE_OUT);
	if (v == WALK_ONWARD)
		v = check_length(f, out, p->mtu);
	return v == WALK_ONWARD ? choose_lane(f, in, out, p->sl, vl) : v;
}

/* What an input port does. */
static enum walk_verdict enter(const struct fabric *f, const struct walk_packet *p, uint32_t in)
{
	enum walk_verdict v = check_receives(f, in, p->is_smp);

	return v == WALK_ONWARD && !p->is_smp && fabric_is_switch(f, f->owner[in]) ? check_pkey(f, in, p->pkey, ENFORCE_IN) : v;
}

/* The node that has the packet at the port `in`, where it arrived, or begins: `at` is where it leaves, or who drops it: the input
 * port where the switch cannot relay it (16.1.3.5, PortRcvSwitchRelayErrors). What an adapter sends to its own port does not
 * come to the link. */
static enum walk_verdict pass_node(const struct fabric *f, const struct walk_packet *p, bool begins, uint32_t in, uint32_t *at,
				   uint8_t *vl)
{
	uint32_t node = f->owner[in], out;
	enum walk_verdict v = begins ? WALK_ONWARD : enter(f, p, in);

	*at = in;
	if (v != WALK_ONWARD)
		return v;
	if (!fabric_is_switch(f, node)) {
		if (host_has_lid(f, in, p->dlid))
			return WALK_DELIVERED;
		return begins ? leave(f, p, in, in, vl) : WALK_NOT_ITS_LID;
	}
	v = look_up(f, node, p->dlid, &out);
	if (v != WALK_ONWARD)
		return v;
	if (out == in && !begins)
		return WALK_BACK;
	*at = out;
	if (out == f->place[node].first_port)
		return host_has_lid(f, out, p->dlid) ? WALK_DELIVERED : WALK_NOT_ITS_LID;
	v = leave(f, p, in, out, vl);
	if (v == WALK_NO_LANE)
		*at = in;
	return v;
}

/* ---- the whole way ---- */

static uint32_t sequence_of(const struct fabric *f, uint32_t node)
{
	return atomic_load_explicit(&f->node[node].sequence, memory_order_acquire);
}

static bool is_unchanged(const struct fabric *f, uint32_t node, uint32_t sequence)
{
	atomic_thread_fence(memory_order_acquire);
	return !(sequence & 1) && atomic_load_explicit(&f->node[node].sequence, memory_order_relaxed) == sequence;
}

static enum walk_verdict walk_once(const struct fabric *f, const struct walk_packet *p, struct walk_route *r)
{
	unsigned switches = 0, most = p->switches < SWITCHES_MOST ? p->switches : SWITCHES_MOST;
	uint32_t in = p->from;

	r->nodes = 0;
	r->links = 0;
	for (;;) {
		uint32_t node = f->owner[in], sequence = sequence_of(f, node);
		enum walk_verdict v;

		r->at = in;
		if (fabric_is_switch(f, node) && switches++ == most)
			return WALK_TOO_FAR;
		v = pass_node(f, p, !r->links, in, &r->at, &r->vl);
		in = v == WALK_ONWARD ? fabric_peer(f, r->at) : in;
		if (!is_unchanged(f, node, sequence))
			return WALK_CHANGING;
		r->node[r->nodes] = node;
		r->sequence[r->nodes++] = sequence;
		if (v != WALK_ONWARD)
			return v;
		if (in == PORT_NONE)
			return WALK_NO_LINK;
		r->lane[r->links] = r->vl;
		r->out[r->links++] = r->at;
	}
}

enum walk_verdict fabric_walk(const struct fabric *f, const struct walk_packet *p, struct walk_route *r)
{
	r->packet = *p;
	r->vl = 0;
	r->at = p->from;
	r->nodes = 0;
	r->links = 0;
	if (p->from >= f->ports)
		return r->verdict = WALK_NO_LINK;
	if (!p->dlid || p->dlid >= LIDS)
		return r->verdict = WALK_BAD_LID;
	for (int i = 0; i < ATTEMPTS; i++) {
		r->verdict = walk_once(f, p, r);
		if (r->verdict != WALK_CHANGING)
			return r->verdict;
	}
	r->nodes = 0;
	return r->verdict;
}

uint32_t fabric_destination(const struct fabric *f, const struct walk_packet *p)
{
	struct walk_route r;
	bool is_let_in;

	if (fabric_walk(f, p, &r) != WALK_DELIVERED)
		return PORT_NONE;
	is_let_in = p->is_smp || fabric_find_pkey(f, r.at, p->pkey) >= 0;
	return is_let_in ? r.at : PORT_NONE;
}

/* ---- multicast ---- */

int walk_group_init(struct walk_group *g, const struct fabric *f)
{
	*g = (struct walk_group){ 0 };
	g->port = calloc(f->ports + 1, sizeof(*g->port));
	g->queue = calloc(f->nodes + 1, sizeof(*g->queue));
	g->seen = calloc(f->nodes + 1, 1);
	g->out = calloc(f->ports + 1, sizeof(*g->out));
	g->drop = calloc(f->ports + 1, sizeof(*g->drop));
	return g->port && g->queue && g->seen && g->out && g->drop ? 0 : -ENOMEM;
}

void walk_group_fini(struct walk_group *g)
{
	free(g->port);
	free(g->queue);
	free(g->seen);
	free(g->out);
	free(g->drop);
	*g = (struct walk_group){ 0 };
}

static void drop(struct walk_group *g, uint32_t at, enum walk_verdict why)
{
	g->drop[g->dropped++] = (struct walk_drop){ at, why };
	g->why = why;
}

/* The packet leaves by `out` and is at its peer. */
static void send_copy(const struct fabric *f, const struct walk_packet *p, uint32_t in, uint32_t out, struct walk_group *g,
		      uint32_t *queued)
{
	enum walk_verdict v;
	uint32_t peer;
	uint8_t vl;

	v = leave(f, p, in, out, &vl);
	peer = v == WALK_ONWARD ? fabric_peer(f, out) : PORT_NONE;
	if (v == WALK_ONWARD && peer == PORT_NONE)
		v = WALK_NO_LINK;
	if (v != WALK_ONWARD) {
		drop(g, v == WALK_NO_LANE ? in : out, v);
		return;
	}
	g->out[g->links++] = out;
	v = peer == p->from ? WALK_ONWARD : enter(f, p, peer);
	if (v != WALK_ONWARD) {
		drop(g, peer, v);
	} else if (fabric_is_switch(f, f->owner[peer])) {
		g->loops |= g->seen[f->owner[peer]];
		if (!g->seen[f->owner[peer]])
			g->queue[(*queued)++] = peer;
		g->seen[f->owner[peer]] = 1;
	} else if (peer != p->from) {
		g->port[g->ports++] = peer;
	}
}

/* Copies for every port in the switch's mask, but for the one by which the packet came (18.2.4.3.3). */
static void send_copies(const struct fabric *f, const struct walk_packet *p, uint32_t in, struct walk_group *g, uint32_t *queued)
{
	uint32_t node = f->owner[in];
	const uint16_t *mask = fabric_mft(f, node, p->dlid);

	for (unsigned i = 0; i <= f->place[node].ports; i++) {
		uint32_t out = fabric_port_index(f, node, i);

		if (!(FABRIC_READ(mask[i / MFT_BITS]) >> i % MFT_BITS & 1) || out == in)
			continue;
		if (i)
			send_copy(f, p, in, out, g, queued);
		else
			g->port[g->ports++] = out;
	}
}

void fabric_walk_group(const struct fabric *f, const struct walk_packet *p, struct walk_group *g)
{
	uint32_t queued = 0;

	g->ports = g->links = g->dropped = 0;
	g->loops = false;
	g->why = WALK_DELIVERED;
	memset(g->seen, 0, f->nodes);
	if (p->from >= f->ports || p->dlid < MLID_FIRST || p->dlid - MLID_FIRST >= (int)f->mlids) {
		drop(g, p->from, p->from >= f->ports ? WALK_NO_LINK : WALK_BAD_LID);
		return;
	}
	if (fabric_is_switch(f, f->owner[p->from])) {
		g->seen[f->owner[p->from]] = 1;
		g->queue[queued++] = p->from;
	} else {
		send_copy(f, p, p->from, p->from, g, &queued);
	}
	for (uint32_t i = 0; i < queued; i++)
		send_copies(f, p, g->queue[i], g, &queued);
}
