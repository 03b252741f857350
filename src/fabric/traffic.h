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
	TRAFFIC_XMIT_DISCARDS,
	TRAFFIC_RCV_RELAY,
	TRAFFIC_XMIT_CONSTRAINT,
	TRAFFIC_RCV_CONSTRAINT,
	TRAFFIC_ERRORS,			/* packets that a link with a fault has spoilt on their way to the port */
	TRAFFIC_ERROR_WORDS,		/* of these */
	TRAFFIC_MULTICAST_ERRORS,	/* packets among them */
	TRAFFIC_COUNTS,
};

struct traffic_block {
	_Atomic uint64_t count[TRAFFIC_COUNTS];
	_Atomic uint64_t busy_until;	/* of a slow link, of the monotonic clock: passage.c */
	uint64_t rsvd[4];		/* two lines of cache */
};

/* A way as packets of programs go it. */
struct traffic_way {
	uint32_t at;			/* the port where it ends */
	enum traffic_count drop;	/* what that port counts there; TRAFFIC_COUNTS: nothing */
	uint32_t links;
	uint32_t out[WALK_NODES];	/* the port at the near end of each */
};

/* Of the mapping for this fabric. */
static inline size_t traffic_bytes(const struct fabric *f)
{
	return (size_t)f->ports * sizeof(struct traffic_block);
}

/* What the port at its end counts of a packet that ends so; TRAFFIC_COUNTS: nothing. */
enum traffic_count traffic_drop(enum walk_verdict v);

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
