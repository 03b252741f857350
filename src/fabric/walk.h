/* The way of one packet through a fabric: the tables that a subnet manager wrote, hop by hop, read as hardware would. Unicast
 * packets have one way; a multicast packet reaches a set of ports. Nothing blocks, allocates or counts. */
#ifndef WEFT_FABRIC_WALK_H
#define WEFT_FABRIC_WALK_H

#include "fabric/fabric.h"

enum {
	SWITCHES_MOST = 64,	/* on a way: as many as a directed route has (IBA 14.2.1.2), and a bound for loops */
	WALK_NODES = SWITCHES_MOST + 2,
	VL_MANAGEMENT = 15,	/* the lane of SMPs */
};

enum walk_verdict {
#define WALK(name, ...) WALK_##name,
#include "fabric/walk.def"
#undef WALK
	WALK_VERDICTS,
	WALK_ONWARD = WALK_VERDICTS,	/* inside a walk: nothing ended it yet */
};

/* What the verdict says of the port where the way ended; and its clause. */
const char *walk_text(enum walk_verdict v);
const char *walk_clause(enum walk_verdict v);

/* A packet, by what switches look at. */
struct walk_packet {
	uint32_t from;			/* port: of a host, or port 0 of a switch */
	uint16_t dlid, pkey;
	uint8_t sl;			/* 0 to 15 */
	uint8_t switches;		/* it may pass at most so many, and never more than SWITCHES_MOST */
	uint8_t mtu;			/* enum ibv_mtu: its payload is at most so long; 0: none */
	bool is_smp;			/* of QP0: lane 15, in no partition, over links that are not armed yet */
};

/* A way, as long as no node on it changes. */
struct walk_route {
	struct walk_packet packet;
	enum walk_verdict verdict;
	uint32_t at;			/* the port where it ended: the destination's, or who dropped the packet */
	uint8_t vl;			/* on the last link that it passed */
	uint8_t nodes;			/* looked at: 0, when the route must not be used again */
	uint32_t node[WALK_NODES], sequence[WALK_NODES];
	uint32_t links;			/* passed */
	uint32_t out[WALK_NODES];	/* the port at the near end of each */
	uint8_t lane[WALK_NODES];	/* and the lane there */
};

/* What the tables say: the lane by which packets of a service level leave a node, whose ports `in` and `out` are. */
unsigned walk_lane(const struct fabric *f, uint32_t in, uint32_t out, unsigned sl);

enum walk_verdict fabric_walk(const struct fabric *f, const struct walk_packet *p, struct walk_route *route);

/* The index in the port's table of the P_Key that lets a packet with this one in, or -1. */
int fabric_find_pkey(const struct fabric *f, uint32_t port, uint16_t pkey);

/* Is the P_Key one of the port's own, as what it sends carries? */
bool fabric_has_pkey(const struct fabric *f, uint32_t port, uint16_t pkey);

/* The P_Key by which a port answers a packet with this one: the one of its table that let it in, or 0. */
uint16_t fabric_answer_pkey(const struct fabric *f, uint32_t port, uint16_t pkey);

/* The port that the packet is delivered to, and that lets its P_Key in (10.9.3), or PORT_NONE. */
uint32_t fabric_destination(const struct fabric *f, const struct walk_packet *p);

/* The same way again: walked anew only when a node on it has changed since. */
static inline enum walk_verdict fabric_walk_again(const struct fabric *f, struct walk_route *route)
{
	const struct walk_packet packet = route->packet;
	unsigned i = 0;

	while (i < route->nodes && atomic_load_explicit(&f->node[route->node[i]].sequence, memory_order_acquire) ==
	       route->sequence[i])
		i++;
	if (i == route->nodes && i)
		return route->verdict;
	return fabric_walk(f, &packet, route);
}

/* A copy that was dropped. */
struct walk_drop {
	uint32_t at;			/* the port that dropped it */
	enum walk_verdict why;
};

/* Memory for multicast, of one thread. */
struct walk_group {
	uint32_t *port;			/* owned: those of hosts, and ports 0 of switches, that a packet reached; each once */
	uint32_t ports;
	uint32_t *queue;		/* owned: input ports of switches */
	uint8_t *seen;			/* owned: by node: a switch that has the packet */
	uint32_t *out;			/* owned: the port at the near end of each link that a copy passed */
	uint32_t links;
	struct walk_drop *drop;		/* owned */
	bool loops;			/* the packet came to a switch twice; there hardware would multiply it */
	uint32_t dropped;		/* copies that a port dropped */
	enum walk_verdict why;		/* the last of them, or WALK_DELIVERED */
};

/* 0 or -ENOMEM; in both cases it is released by walk_group_fini(). */
int walk_group_init(struct walk_group *g, const struct fabric *f);
void walk_group_fini(struct walk_group *g);

/* Fills the set for a packet to an MLID. A packet does not come back to the port that sent it. */
void fabric_walk_group(const struct fabric *f, const struct walk_packet *p, struct walk_group *g);

#endif
