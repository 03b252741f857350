/* What programs' data counts at the ports of a fabric: one block for each port, in a mapping beside the fabric's that every
 * process at a port writes by relaxed additions. A block has what its port sent; a port received what its peer sent, but errors.
 * Nothing in the mapping leads anywhere: who writes nonsense falsifies figures, and the turns at slow links
 * (fabric/passage.h). */
#ifndef WEFT_FABRIC_TRAFFIC_H
#define WEFT_FABRIC_TRAFFIC_H

#include "fabric/fabric.h"
#include "fabric/walk.h"
#include "wire/load.h"

enum traffic_count {
	TRAFFIC_WORDS,			/* of 4 bytes, from the LRH to the ICRC: PortXmitData (IBA 16.1.3.5) */
	TRAFFIC_PACKETS,
	TRAFFIC_MULTICAST,		/* packets among them */
	TRAFFIC_WAIT,			/* how often the port had a packet and its neighbour's process no room */
	TRAFFIC_INACTIVE,		/* dropped: the link is not active */
	TRAFFIC_NO_ROUTE,		/* the switch has no port for the LID */
	TRAFFIC_XMIT_CONSTRAINT,
	TRAFFIC_RCV_CONSTRAINT,
	TRAFFIC_ERRORS,			/* packets that a link with a fault has spoilt on their way to the port */
	TRAFFIC_ERROR_WORDS,		/* of these */
	TRAFFIC_MULTICAST_ERRORS,	/* packets among them */
	TRAFFIC_NO_LANE,		/* the switch has no lane for the service level */
	TRAFFIC_BACK,			/* the switch would send it back to where it came from */
	TRAFFIC_TOO_LONG,		/* for the neighbour's MTU */
	TRAFFIC_TOO_SLOW,		/* it waited too long, or passed too many switches */
	TRAFFIC_COUNTS,
};

enum { TRAFFIC_LANES = 8 };		/* data lanes of a port at most: VLCap of the agents */

struct traffic_block {
	_Atomic uint64_t count[TRAFFIC_COUNTS];
	/* of a slow link, of the monotonic clock: when all that has come is over, and the queue of each lane (passage.c) */
	_Atomic uint64_t busy_until, lane_until[TRAFFIC_LANES];
};

_Static_assert(sizeof(struct traffic_block) == 192, "three lines of cache");

/* A way as packets of programs go it. */
struct traffic_way {
	uint32_t at;			/* the port where it ends */
	enum traffic_count drop;	/* what that port counts there; TRAFFIC_COUNTS: nothing */
	uint32_t links;
	uint32_t out[WALK_NODES];	/* the port at the near end of each */
	uint8_t lane[WALK_NODES];	/* and the lane there */
};

/* Of the mapping for this fabric. */
static inline size_t traffic_bytes(const struct fabric *f)
{
	return (size_t)f->ports * sizeof(struct traffic_block);
}

/* What this port counts of a packet that ends there so; TRAFFIC_COUNTS: nothing. Any value of port. */
enum traffic_count traffic_drop(const struct fabric *f, uint32_t port, enum walk_verdict v);

/* Where packets of a lane wait for a slow link. Our choice: those of management with lane 0, as their own has no queue. */
static inline unsigned traffic_queue(unsigned lane)
{
	return lane < TRAFFIC_LANES ? lane : 0;
}

/* The lane by which packets of a service level leave a node from the port `in` by the port `out`; 0 where those are no ports of
 * one node. */
unsigned traffic_lane(const struct fabric *f, uint32_t in, uint32_t out, unsigned sl);

void traffic_way_set(struct traffic_way *way, const struct fabric *f, const struct walk_route *route);

static inline void traffic_add(struct traffic_block *block, enum traffic_count c, uint64_t n)
{
	atomic_fetch_add_explicit(&block->count[c], n, memory_order_relaxed);
}

/* The load goes the way. */
void traffic_pass(struct traffic_block *all, const struct traffic_way *way, const struct wire_load *load);

static inline uint64_t traffic_read(const struct traffic_block *all, uint32_t port, enum traffic_count c)
{
	return atomic_load_explicit(&all[port].count[c], memory_order_relaxed);
}

#endif
