/* The trees by which this process's datagrams to multicast groups go through a fabric: which ports they reach, and which ports
 * count them on their way. Kept by LID, service level and P_Key as long as routes hold (verbs/route.h). */
#ifndef WEFT_PEERS_TREES_H
#define WEFT_PEERS_TREES_H

#include "fabric/traffic.h"

struct tree {
	uint16_t dlid, pkey;
	uint8_t sl;
	uint64_t *reached;		/* owned: a bit for each port whose partitions let the P_Key in */
	uint32_t links, drops;
	uint32_t *out;			/* owned: the port at the near end of each link */
	struct tree_drop {
		uint32_t at;
		enum traffic_count count;
	} *drop;			/* owned: where copies end early, and what that port counts */
};

enum { TREES_MOST = 64 };	/* our choice: a program that sends to more groups walks them more often */

struct trees {
	uint64_t generation;		/* of the routes that the trees are kept for */
	struct walk_group walk;		/* owned: memory for walks; without any: none was made */
	struct tree tree[TREES_MOST];
	uint32_t trees;
};

static inline bool tree_reaches(const struct tree *t, uint32_t port)
{
	return t->reached[port / 64] >> port % 64 & 1;
}

/* The tree of a packet; it is there until another generation or LID is asked for. NULL: no memory. */
const struct tree *trees_find(struct trees *t, uint64_t generation, const struct fabric *f, const struct walk_packet *p);
void trees_fini(struct trees *t);

/* A load goes the way of all its copies. */
void tree_pass(struct traffic_block *all, const struct tree *t, const struct wire_load *load);

#endif
