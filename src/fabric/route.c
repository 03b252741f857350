/* Shortest paths by a breadth-first search from each switch, and among equally good ports the one with the fewest paths so far:
 * the switches choose from the farthest to the nearest, so that each knows how many hosts' paths it passes on. Who chose first
 * knew little of the others, so all choose again where a port carries more than by sharing out evenly.
 *
 * Up and down: every switch has a rank, that of the root is the lowest, and each link leads up at one end, down at the other.
 * A switch that can reach the destination by going down alone does so, even where another path is shorter; the others go up.
 * So a path that has gone down meets only switches that go down. Any order of ranks will do in which only one switch has none
 * above it: all go up to that one. */
#include "fabric/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FAR = 0xffff,			/* no path */
	KEPT_SHARE = 8,			/* route.h: an eighth */
	KNOWN_SHARE = 2,		/* our choice: ranks are kept where half of the switches have some */
	ROUNDS = 2,			/* our choice: so often all choose again; more gain little */
	SETTLE_ROUNDS = 4,		/* our choice: and so often, until those who would stay do */
	PARTS = 4096,			/* our choice: of a path that is shared out */
	OUTPUTS = LFT_NONE + 1,		/* that an entry can say */
};

/* Of a pass over all LIDs: what becomes of the loads. */
enum pass {
	PASS_CHOOSE,			/* they grow with each LID */
	PASS_COUNT,			/* they grow by what leads somewhere already, and nobody chooses */
	PASS_AGAIN,			/* they are known, and each LID is chosen anew with those of the others */
};

struct router {
	struct fabric *f;
	enum route_engine engine;
	bool keeps;			/* what leads somewhere already */
	bool may_move;			/* route.h */
	bool is_fresh;			/* nothing led anywhere, so that nothing need stay */
	uint32_t moved;			/* entries, by the last pass */
	enum pass pass;
	uint32_t switches;
	uint32_t *node;			/* of each switch */
	uint64_t *by_lid;		/* LIDs and nodes of switches, sorted */
	uint64_t *by_key;		/* old ranks and switches, sorted */
	uint32_t *number;		/* of each node that is a switch */
	uint32_t *next;			/* by port: the switch at the other end, or PORT_NONE */
	uint32_t *load;			/* by port: paths from hosts to hosts that leave by it */
	uint32_t *hosts;		/* of each switch: ports of hosts behind it */
	uint32_t *lids;			/* of each switch: their LIDs */
	uint32_t *carries;		/* of each switch: hosts whose path to the destination passes it */
	uint32_t *order;		/* switches with a path to the destination, the farthest first */
	uint32_t *places;		/* for each number of hops, where such switches go in the order */
	uint32_t reached;		/* length of the order */
	uint32_t *rank, *by_rank;	/* of UP_DOWN */
	uint32_t *ranks;		/* borrowed: route.h, by node; NULL: nobody keeps them */
	uint8_t *is_near;		/* each switch: one next to it has its rank */
	uint32_t *queue;
	uint16_t *hops;			/* of each switch to the destination */
	uint8_t *goes_down;		/* each switch: its paths to the destination only go down */
	uint8_t *is_routed;		/* each LID: it is some port's */
	uint64_t *even;			/* by port: the same as load, in PARTS, of paths that are shared out evenly */
	uint64_t *share;		/* of each switch: as carries, in PARTS */
	uint8_t (*good)[NODE_PORTS];	/* each switch: ports that lead to the destination */
	uint8_t *goods;
	uint8_t (*beside)[OUTPUTS];	/* each switch: LIDs of the port at hand by their outputs; 0 between ports */
};

const char *route_engine_name(enum route_engine engine)
{
	return engine == ROUTE_UP_DOWN ? "up-down" : "min-hop";
}

const char *route_choice_name(enum route_choice choice)
{
	return choice == ROUTE_AUTO ? "auto" : route_engine_name(choice == ROUTE_ALWAYS_UP_DOWN ? ROUTE_UP_DOWN : ROUTE_MIN_HOP);
}

static unsigned ports_of(const struct router *r, uint32_t s)
{
	return r->f->place[r->node[s]].ports;
}

static uint32_t next_of(const struct router *r, uint32_t s, unsigned port)
{
	return r->next[fabric_port_index(r->f, r->node[s], port)];
}

/* Hops of all switches to one; how many reach it, and the sum of their hops. */
static uint32_t search(const struct router *r, uint32_t from, uint64_t *sum)
{
	uint32_t head = 0, tail = 0;

	memset(r->hops, 0xff, r->switches * sizeof(*r->hops));
	r->hops[from] = 0;
	r->queue[tail++] = from;
	for (*sum = 0; head < tail; head++) {
		uint32_t s = r->queue[head];

		*sum += r->hops[s];
		for (unsigned i = 1; i <= ports_of(r, s); i++) {
			uint32_t other = next_of(r, s, i);

			if (other == PORT_NONE || r->hops[other] != FAR)
				continue;
			r->hops[other] = (uint16_t)(r->hops[s] + 1);
			r->queue[tail++] = other;
		}
	}
	return tail;
}

/* Among those that have paths to each other, the one whose paths are the shortest. */
static uint32_t find_middle(const struct router *r, const uint32_t *among, uint32_t count)
{
	uint64_t sum, best = UINT64_MAX;
	uint32_t middle = among[0];

	for (uint32_t i = 0; i < count; i++) {
		search(r, among[i], &sum);
		if (sum < best || (sum == best && among[i] < middle)) {
			best = sum;
			middle = among[i];
		}
	}
	return middle;
}

static bool is_above(const struct router *r, uint32_t a, uint32_t b)
{
	return r->rank[a] < r->rank[b];
}

/* Who reaches the destination by going down: those above it, those above them, and so on. */
static void search_down(const struct router *r, uint32_t to)
{
	uint32_t head = 0, tail = 0;

	memset(r->hops, 0xff, r->switches * sizeof(*r->hops));
	memset(r->goes_down, 0, r->switches);
	r->hops[to] = 0;
	r->goes_down[to] = 1;
	r->queue[tail++] = to;
	for (; head < tail; head++) {
		uint32_t s = r->queue[head];

		for (unsigned i = 1; i <= ports_of(r, s); i++) {
			uint32_t other = next_of(r, s, i);

			if (other == PORT_NONE || r->goes_down[other] || !is_above(r, other, s))
				continue;
			r->hops[other] = (uint16_t)(r->hops[s] + 1);
			r->goes_down[other] = 1;
			r->queue[tail++] = other;
		}
	}
}

/* The others, from above: what is above a switch has its hops already. */
static void search_up(const struct router *r)
{
	for (uint32_t i = 0; i < r->switches; i++) {
		uint32_t s = r->by_rank[i];

		for (unsigned port = 1; port <= ports_of(r, s) && !r->goes_down[s]; port++) {
			uint32_t other = next_of(r, s, port);

			if (other == PORT_NONE || !is_above(r, other, s) || r->hops[other] == FAR)
				continue;
			if (r->hops[other] + 1 < r->hops[s])
				r->hops[s] = (uint16_t)(r->hops[other] + 1);
		}
	}
}

static bool is_good(const struct router *r, uint32_t s, uint32_t other)
{
	if (other == PORT_NONE || r->hops[other] == FAR || r->hops[other] + 1 != r->hops[s])
		return false;
	if (r->engine == ROUTE_MIN_HOP)
		return true;
	return r->goes_down[s] ? r->goes_down[other] && is_above(r, s, other) : is_above(r, other, s);
}

/* By counting: hops are below the number of switches. */
static void sort_by_hops(struct router *r)
{
	uint32_t before = 0;

	memset(r->places, 0, (r->switches + 1) * sizeof(*r->places));
	for (uint32_t s = 0; s < r->switches; s++) {
		if (r->hops[s] != FAR)
			r->places[r->hops[s]]++;
	}
	for (uint32_t hops = r->switches; hops-- > 0;) {
		uint32_t count = r->places[hops];

		r->places[hops] = before;
		before += count;
	}
	r->reached = before;
	for (uint32_t s = 0; s < r->switches; s++) {
		if (r->hops[s] != FAR)
			r->order[r->places[r->hops[s]]++] = s;
	}
}

/* The ports of every switch that lead to this one. */
static void find_good(struct router *r, uint32_t to)
{
	uint64_t sum;

	if (r->engine == ROUTE_MIN_HOP) {
		search(r, to, &sum);
	} else {
		search_down(r, to);
		search_up(r);
	}
	for (uint32_t s = 0; s < r->switches; s++) {
		r->goods[s] = 0;
		for (unsigned i = 1; i <= ports_of(r, s) && s != to; i++) {
			if (is_good(r, s, next_of(r, s, i)))
				r->good[s][r->goods[s]++] = (uint8_t)i;
		}
	}
}

/* The paths to the hosts behind a switch, where each switch shares them out evenly among its good ports. Grows to the parts of
 * paths on the busiest port. */
static void share_out(struct router *r, uint32_t to, uint64_t *busiest)
{
	find_good(r, to);
	sort_by_hops(r);
	for (uint32_t s = 0; s < r->switches; s++)
		r->share[s] = (uint64_t)r->hosts[s] * PARTS;
	for (uint32_t i = 0; i < r->reached; i++) {
		uint32_t s = r->order[i];
		uint64_t each = r->goods[s] ? r->share[s] / r->goods[s] : 0;

		for (unsigned j = 0; j < r->goods[s]; j++) {
			uint32_t port = fabric_port_index(r->f, r->node[s], r->good[s][j]);

			r->share[r->next[port]] += each;
			r->even[port] += each * r->lids[to];
			*busiest = r->even[port] > *busiest ? r->even[port] : *busiest;
		}
	}
}

/* Parts of paths on the busiest port, of those to the hosts of some switches. */
static uint64_t share_out_all(struct router *r, const uint32_t *among, uint32_t count)
{
	uint64_t busiest = 0;

	memset(r->even, 0, r->f->ports * sizeof(*r->even));
	for (uint32_t i = 0; i < count; i++) {
		if (r->lids[among[i]])
			share_out(r, among[i], &busiest);
	}
	return busiest;
}

/* The switches that one reaches get ranks, and places in the order from here on. Their number. */
static uint32_t rank_from(const struct router *r, uint32_t root, uint32_t ranked)
{
	uint64_t sum;
	uint32_t reached = search(r, root, &sum);

	for (uint32_t i = 0; i < reached; i++) {
		r->by_rank[ranked + i] = r->queue[i];
		r->rank[r->queue[i]] = ranked + i + 1;
	}
	return reached;
}

/* The root of a part is its middle; or the switch farthest from that, where this makes the busiest port less busy, as in a mesh:
 * its middle is in the way of all paths between its sides. */
static uint32_t rank_part(struct router *r, uint32_t middle, uint32_t ranked)
{
	uint32_t *part = r->by_rank + ranked, count = rank_from(r, middle, ranked);
	uint64_t busiest = share_out_all(r, part, count);

	rank_from(r, part[count - 1], ranked);
	if (share_out_all(r, part, count) >= busiest)
		rank_from(r, middle, ranked);
	return count;
}

/* No two ranks are equal, so each link has an upper end. Parts of the fabric without a link between them have a root each. */
static void rank_anew(struct router *r)
{
	uint32_t ranked = 0;
	uint64_t sum;

	for (uint32_t s = 0; s < r->switches; s++) {
		uint32_t reached = r->rank[s] ? 0 : search(r, s, &sum);

		if (!reached)
			continue;
		/* the order is written later */
		memcpy(r->order, r->queue, reached * sizeof(*r->order));
		ranked += rank_part(r, find_middle(r, r->order, reached), ranked);
	}
}

static int by_number(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* The first in the old order, from *first on, that has one above it now; at the begin of a part the first of all. */
static uint32_t next_in_order(const struct router *r, uint32_t *first)
{
	while (r->rank[(uint32_t)r->by_key[*first]])
		++*first;
	for (uint32_t i = *first; i < r->switches; i++) {
		uint32_t s = (uint32_t)r->by_key[i];

		if (!r->rank[s] && r->is_near[s])
			return s;
	}
	return (uint32_t)r->by_key[*first];
}

/* The old order, as far as each but the first of a part has one above it. Those without an old rank come behind the others. */
static void rank_again(const struct router *r)
{
	uint32_t first = 0;

	for (uint32_t s = 0; s < r->switches; s++)
		r->by_key[s] = (uint64_t)(r->ranks[r->node[s]] - 1) << 32 | s;
	qsort(r->by_key, r->switches, sizeof(*r->by_key), by_number);
	for (uint32_t ranked = 0; ranked < r->switches;) {
		uint32_t s = next_in_order(r, &first);

		r->by_rank[ranked++] = s;
		r->rank[s] = ranked;
		for (unsigned i = 1; i <= ports_of(r, s); i++) {
			if (next_of(r, s, i) != PORT_NONE)
				r->is_near[next_of(r, s, i)] = true;
		}
	}
}

/* Who has an old rank keeps it, whatever its place is now: what comes back finds the order as it was. */
static void note_ranks(const struct router *r, bool are_new)
{
	uint32_t last = 0;

	for (uint32_t n = 0; n < r->f->nodes; n++) {
		r->ranks[n] = are_new ? 0 : r->ranks[n];
		last = r->ranks[n] > last ? r->ranks[n] : last;
	}
	for (uint32_t i = 0; i < r->switches; i++) {
		uint32_t *rank = &r->ranks[r->node[r->by_rank[i]]];

		if (!*rank)
			*rank = ++last;
	}
}

static void rank_switches(struct router *r)
{
	uint32_t known = 0;

	for (uint32_t s = 0; r->ranks && s < r->switches; s++)
		known += r->ranks[r->node[s]] != 0;
	if (known && known * KNOWN_SHARE >= r->switches)
		rank_again(r);
	else
		rank_anew(r);
	if (r->ranks)
		note_ranks(r, known * KNOWN_SHARE < r->switches);
}

/* A LID of a port, and all of the port's. */
struct lid_of_port {
	uint32_t lid, first, count;
};

/* LIDs of a port, which are for paths that have no link in common, are counted by the outputs of switches, or no longer. */
static void count_outputs(const struct router *r, const struct lid_of_port *l, bool adds)
{
	for (uint32_t i = 0; l->count > 1 && i < r->reached; i++) {
		const uint8_t *lft = fabric_lft(r->f, r->node[r->order[i]]);

		for (uint32_t lid = l->first; lid < l->first + l->count && lid < r->f->lids; lid++)
			r->beside[r->order[i]][lft[lid]] += adds ? 1 : -1;
	}
}

/* The one with the fewest other LIDs of the same port, and of those the least loaded. was: the port that led there before, or
 * LFT_NONE. */
static unsigned choose_port(const struct router *r, uint32_t s, const uint32_t *load, unsigned was)
{
	unsigned best = r->good[s][0], least = r->beside[s][best];
	uint32_t slack;
	bool stays = false;

	for (unsigned i = 0; i < r->goods[s]; i++) {
		unsigned out = r->good[s][i], beside = r->beside[s][out];

		stays |= out == was;
		if (beside > least || (beside == least && load[out] >= load[best]))
			continue;
		best = out;
		least = beside;
	}
	if (!stays || !r->may_move)
		return stays ? was : best;
	slack = r->is_fresh ? 0 : load[best] / KEPT_SHARE + r->carries[s];
	return r->beside[s][was] == least && load[was] <= load[best] + slack ? was : best;
}

static bool is_among_good(const struct router *r, uint32_t s, unsigned port)
{
	for (unsigned i = 0; i < r->goods[s]; i++) {
		if (r->good[s][i] == port)
			return true;
	}
	return false;
}

/* The paths to a LID of a host, as entries lead them, are counted, or no longer. */
static void count_lid(const struct router *r, uint32_t to, uint32_t lid, bool adds)
{
	memcpy(r->carries, r->hosts, r->switches * sizeof(*r->carries));
	for (uint32_t i = 0; i < r->reached; i++) {
		uint32_t s = r->order[i], *load = &r->load[r->f->place[r->node[s]].first_port];
		unsigned out = fabric_lft(r->f, r->node[s])[lid];

		if (s == to || !is_among_good(r, s, out))
			continue;
		load[out] += adds ? r->carries[s] : -r->carries[s];
		r->carries[next_of(r, s, out)] += r->carries[s];
	}
}

/* A LID behind a port of the switch `to`, or of the switch itself, whose LID is no load. */
static void route_lid(struct router *r, uint32_t to, unsigned port, const struct lid_of_port *l)
{
	memcpy(r->carries, r->hosts, r->switches * sizeof(*r->carries));
	for (uint32_t i = 0; i < r->reached; i++) {
		uint32_t s = r->order[i], *load = &r->load[r->f->place[r->node[s]].first_port];
		uint8_t *entry = &fabric_lft(r->f, r->node[s])[l->lid];
		bool chose = r->keeps || r->pass == PASS_AGAIN, has_others = l->count > 1;
		unsigned out;

		r->beside[s][*entry] -= has_others;
		out = s == to ? port : choose_port(r, s, load, chose ? *entry : LFT_NONE);
		r->beside[s][out] += has_others;
		r->moved += *entry != out;
		FABRIC_SET(*entry, (uint8_t)out);
		if (s == to || !port)
			continue;
		load[out] += r->carries[s];
		r->carries[next_of(r, s, out)] += r->carries[s];
	}
	for (uint32_t s = 0; r->keeps && r->reached < r->switches && s < r->switches; s++) {
		if (r->hops[s] == FAR)
			FABRIC_SET(fabric_lft(r->f, r->node[s])[l->lid], (uint8_t)LFT_NONE);
	}
}

/* All LIDs of a port. */
static void route_port(struct router *r, uint32_t to, unsigned port, const struct fabric_port *p)
{
	struct lid_of_port l = { .first = FABRIC_READ(p->lid), .count = 1u << (FABRIC_READ(p->lmc) & LMC_MOST) };

	if (!l.first)
		return;
	count_outputs(r, &l, true);
	for (l.lid = l.first; l.lid < l.first + l.count && l.lid < r->f->lids; l.lid++) {
		if (port && r->pass != PASS_CHOOSE)
			count_lid(r, to, l.lid, r->pass == PASS_COUNT);
		if (r->pass != PASS_COUNT)
			route_lid(r, to, port, &l);
	}
	count_outputs(r, &l, false);
}

static void route_switch(struct router *r, uint32_t to)
{
	const struct fabric *f = r->f;

	find_good(r, to);
	sort_by_hops(r);
	route_port(r, to, 0, &f->port[fabric_port_index(f, r->node[to], 0)]);
	for (unsigned i = 1; i <= ports_of(r, to); i++) {
		uint32_t peer = fabric_peer(f, fabric_port_index(f, r->node[to], i));

		if (peer != PORT_NONE && !fabric_is_switch(f, f->owner[peer]))
			route_port(r, to, i, &f->port[peer]);
	}
}

static bool is_up(const struct fabric *f, uint32_t port)
{
	return FABRIC_READ(f->port[port].state) != PORT_DOWN;
}

/* In the order of their LIDs: whoever knows the fabric's nodes in another order comes to the same ways. */
static void number_switches(struct router *r)
{
	const struct fabric *f = r->f;

	for (uint32_t n = 0; n < f->nodes; n++) {
		if (fabric_is_switch(f, n))
			r->by_lid[r->switches++] = (uint64_t)FABRIC_READ(f->port[f->place[n].first_port].lid) << 32 | n;
	}
	qsort(r->by_lid, r->switches, sizeof(*r->by_lid), by_number);
	for (uint32_t s = 0; s < r->switches; s++) {
		r->node[s] = (uint32_t)r->by_lid[s];
		r->number[r->node[s]] = s;
	}
}

static void collect(struct router *r)
{
	const struct fabric *f = r->f;

	number_switches(r);
	for (uint32_t port = 0; port < f->ports; port++) {
		uint32_t peer = fabric_peer(f, port);
		bool leads = peer != PORT_NONE && fabric_is_switch(f, f->owner[port]) && fabric_is_switch(f, f->owner[peer]) &&
			     is_up(f, port) && is_up(f, peer);

		r->next[port] = leads ? r->number[f->owner[peer]] : PORT_NONE;
		if (peer == PORT_NONE || !fabric_is_switch(f, f->owner[port]) || fabric_is_switch(f, f->owner[peer]))
			continue;
		r->hosts[r->number[f->owner[port]]]++;
		if (FABRIC_READ(f->port[peer].lid))
			r->lids[r->number[f->owner[port]]] += 1u << (FABRIC_READ(f->port[peer].lmc) & LMC_MOST);
	}
}

static void note_lids(const struct router *r)
{
	for (uint32_t port = 0; port < r->f->ports; port++) {
		uint32_t lid = FABRIC_READ(r->f->port[port].lid), count = 1u << (FABRIC_READ(r->f->port[port].lmc) & LMC_MOST);

		for (uint32_t i = lid; lid && i < lid + count && i < r->f->lids; i++)
			r->is_routed[i] = true;
	}
}

static void clear_tables(const struct router *r)
{
	for (uint32_t s = 0; s < r->switches; s++) {
		uint8_t *lft = fabric_lft(r->f, r->node[s]);

		for (uint32_t lid = 0; lid < r->f->lids; lid++) {
			if (!r->keeps || !r->is_routed[lid])
				FABRIC_SET(lft[lid], (uint8_t)LFT_NONE);
		}
	}
}

static bool leads_anywhere(const struct router *r)
{
	for (uint32_t s = 0; s < r->switches; s++) {
		const uint8_t *lft = fabric_lft(r->f, r->node[s]);

		for (uint32_t lid = 0; lid < r->f->lids; lid++) {
			if (lft[lid] != LFT_NONE)
				return true;
		}
	}
	return false;
}

static void pass_over(struct router *r, enum pass pass)
{
	r->pass = pass;
	r->moved = 0;
	for (uint32_t s = 0; s < r->switches; s++)
		route_switch(r, s);
}

/* Parts of paths on the busiest port. */
static uint64_t find_busiest(const struct router *r)
{
	uint32_t most = 0;

	for (uint32_t port = 0; port < r->f->ports; port++)
		most = r->next[port] != PORT_NONE && r->load[port] > most ? r->load[port] : most;
	return (uint64_t)most * PARTS;
}

/* As evenly as can be, as in a full fat tree. */
static bool is_shared_out(const struct router *r)
{
	for (uint32_t port = 0; port < r->f->ports; port++) {
		if (r->next[port] != PORT_NONE && (uint64_t)r->load[port] * PARTS != r->even[port])
			return false;
	}
	return true;
}

/* Nothing led anywhere. In the end all is as a later call leaves it, which moves only what has to. */
static void choose_first(struct router *r)
{
	uint64_t even = share_out_all(r, r->by_rank, r->switches);

	pass_over(r, PASS_CHOOSE);
	if (is_shared_out(r))
		return;
	for (unsigned i = 0; i < ROUNDS && find_busiest(r) > even; i++)
		pass_over(r, PASS_AGAIN);
	r->is_fresh = false;
	for (unsigned i = 0; i < SETTLE_ROUNDS && r->moved; i++)
		pass_over(r, PASS_AGAIN);
}

static void choose_all(struct router *r)
{
	if (r->is_fresh) {
		choose_first(r);
	} else if (r->may_move) {
		pass_over(r, PASS_COUNT);
		pass_over(r, PASS_AGAIN);
	} else {
		pass_over(r, PASS_CHOOSE);
	}
}

static void route_all(struct router *r)
{
	struct fabric *f = r->f;

	collect(r);
	note_lids(r);
	for (uint32_t s = 0; s < r->switches; s++)
		r->by_rank[s] = s;
	if (r->engine == ROUTE_UP_DOWN)
		rank_switches(r);
	for (uint32_t s = 0; s < r->switches; s++)
		fabric_write(f, r->node[s]);
	clear_tables(r);
	r->is_fresh = !leads_anywhere(r);
	r->may_move |= r->is_fresh;
	choose_all(r);
	for (uint32_t s = 0; s < r->switches; s++)
		fabric_written(f, r->node[s]);
}

/* What r does not say is made here. */
static int route(struct router r)
{
	const struct fabric *f = r.f;
	size_t nodes = f->nodes + 1, ports = f->ports + 1;
	struct {
		void *array;	/* a pointer member of r */
		size_t count, each;
	} owned[] = {
		{ &r.by_lid, nodes, sizeof(*r.by_lid) }, { &r.by_key, nodes, sizeof(*r.by_key) },
		{ &r.node, nodes, sizeof(*r.node) }, { &r.number, nodes, sizeof(*r.number) },
		{ &r.next, ports, sizeof(*r.next) }, { &r.load, ports, sizeof(*r.load) },
		{ &r.lids, nodes, sizeof(*r.lids) },
		{ &r.hosts, nodes, sizeof(*r.hosts) }, { &r.carries, nodes, sizeof(*r.carries) },
		{ &r.order, nodes, sizeof(*r.order) }, { &r.places, nodes, sizeof(*r.places) },
		{ &r.rank, nodes, sizeof(*r.rank) }, { &r.by_rank, nodes, sizeof(*r.by_rank) },
		{ &r.queue, nodes, sizeof(*r.queue) }, { &r.hops, nodes, sizeof(*r.hops) },
		{ &r.even, ports, sizeof(*r.even) }, { &r.share, nodes, sizeof(*r.share) },
		{ &r.goes_down, nodes, 1 }, { &r.is_routed, f->lids + 1u, 1 },
		{ &r.good, nodes, sizeof(*r.good) }, { &r.goods, nodes, 1 }, { &r.is_near, nodes, 1 },
		{ &r.beside, nodes, sizeof(*r.beside) },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
		void *array = calloc(owned[i].count, owned[i].each);

		memcpy(owned[i].array, &array, sizeof(array));
		err = array ? err : -ENOMEM;
	}
	if (!err)
		route_all(&r);
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
		void *array;

		memcpy(&array, owned[i].array, sizeof(array));
		free(array);
	}
	return err;
}

int fabric_route(struct fabric *f, enum route_engine engine)
{
	return route((struct router){ .f = f, .engine = engine, .may_move = true });
}

int fabric_route_again(struct fabric *f, enum route_engine engine, bool may_move, uint32_t *ranks)
{
	return route((struct router){ .f = f, .engine = engine, .keeps = true, .may_move = may_move, .ranks = ranks });
}
