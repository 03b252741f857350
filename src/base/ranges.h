/* Ranges of numbers that may overlap, in the order of their starts: a treap whose nodes know how far those below them reach.
 * A node is embedded in its object; a zeroed one is in no set. Each call takes O(log n) and allocates nothing. */
#ifndef WEFT_BASE_RANGES_H
#define WEFT_BASE_RANGES_H

#include "base/rand.h"

#include <stdbool.h>
#include <stdint.h>

struct range {
	uint64_t start, end;	/* end: the first number behind it */
};

static inline bool range_overlaps(struct range a, struct range b)
{
	return a.start < b.end && b.start < a.end;
}

/* What both have; they overlap. */
static inline struct range range_common(struct range a, struct range b)
{
	return (struct range){ a.start > b.start ? a.start : b.start, a.end < b.end ? a.end : b.end };
}

struct range_node {
	struct range range;
	struct ranges *set;		/* borrowed; NULL: in none */
	struct range_node *left, *right;	/* borrowed */
	uint64_t reach;			/* the highest end of it and those below it */
	uint64_t weight;		/* no node has a heavier one below it */
};

struct ranges {
	struct range_node *root;	/* borrowed, as are all nodes */
	struct rand rand;		/* draws weights */
};

void ranges_init(struct ranges *s);
/* n must be in no set; r must not be empty. */
void ranges_insert(struct ranges *s, struct range_node *n, struct range r);
/* Nothing happens when n is in no set. */
void ranges_remove(struct range_node *n);

/* The highest end of the ranges that start at `at` or below; 0: none does. */
uint64_t ranges_reach(const struct ranges *s, uint64_t at);
/* The lowest start above `at`, or UINT64_MAX. */
uint64_t ranges_next(const struct ranges *s, uint64_t at);

/* Does one of them overlap r, which is not empty? */
static inline bool ranges_meet(const struct ranges *s, struct range r)
{
	return ranges_reach(s, r.end - 1) > r.start;
}

#endif
