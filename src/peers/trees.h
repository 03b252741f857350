/* The trees by which this process's datagrams to multicast groups go through a fabric: which ports they reach, and which ports
 * count them on their way. Kept by port, LID, service level and P_Key as long as routes hold (verbs/route.h). */
#ifndef WEFT_PEERS_TREES_H
#define WEFT_PEERS_TREES_H

#include "fabric/passage.h"
#include "fabric/traffic.h"

struct tree {
	uint32_t from;			/* our port */
	uint16_t dlid, pkey;
	uint8_t sl;
	uint64_t *reached;		/* owned: a bit for each port whose partitions let the P_Key in */
	uint32_t links, drops;
	uint32_t *out;			/* owned: the port at the near end of each link */
	struct tree_drop {
		uint32_t at;
		enum traffic_count count;
	} *drop;			/* owned: where copies end early, and what that port counts */
	uint32_t *parent;		/* owned: by link, the one before it, or TREE_ROOT; NULL: no link has a fault */
	bool *is_lost;			/* owned, with parent: by link, of the last packet that was drawn */
	wtime *passed;			/* owned, with parent: by link, when that packet has passed it */
	uint64_t *got;			/* owned, with parent: of `reached`, who got that packet */
};

enum { TREE_ROOT = UINT32_MAX };

enum { TREES_MOST = 64 };	/* our choice: a program that sends to more groups walks them more often */

struct trees {
	uint64_t generation;		/* of the routes that the trees are kept for */
	struct walk_group walk;		/* owned: memory for walks; without any: none was made */
	struct tree tree[TREES_MOST];
	uint32_t trees;
	struct passage passage;		/* of copies over links that lose packets */
};

static inline bool tree_reaches(const struct tree *t, uint32_t port)
{
	return t->reached[port / 64] >> port % 64 & 1;
}

/* Did the port get the packet that was drawn last, or, of a tree without faults, each? */
static inline bool tree_got(const struct tree *t, uint32_t port)
{
	return (t->parent ? t->got : t->reached)[port / 64] >> port % 64 & 1;
}

/* Do links of the tree lose packets, or slow them down? Then each packet is drawn by itself. */
static inline bool tree_has_faults(const struct tree *t)
{
	return t->parent;
}

/* The tree of a packet; it is there until another generation or LID is asked for. NULL: no memory. */
const struct tree *trees_find(struct trees *t, uint64_t generation, const struct fabric *f, const struct walk_packet *p);
void trees_fini(struct trees *t);

/* A load goes the way of all its copies. */
void tree_pass(struct traffic_block *all, const struct tree *t, const struct wire_load *load);
/* One packet of so many words goes through a tree that has faults: what is lost on a link, or finds too long a queue there, gets
 * to nobody behind it. Ports count. process: its number, as for passage_take(). */
void tree_draw(struct trees *t, const struct tree *tree, const struct fabric *f, struct traffic_block *all, uint32_t process,
	       wtime now, uint64_t words);
/* When that packet gets to this port, which it reaches: at least now. */
wtime tree_arrival(const struct tree *t, const struct fabric *f, uint32_t port, wtime now);

#endif
