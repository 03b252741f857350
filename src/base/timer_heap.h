/* Intrusive binary min-heap of times: the timers. A node is embedded in its object and knows its place, so that it can be
 * moved or removed in O(log n). A zeroed node is in no heap. Room is reserved when objects are created; nothing else
 * allocates. */
#ifndef WEFT_BASE_TIMER_HEAP_H
#define WEFT_BASE_TIMER_HEAP_H

#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer_heap_node {
	wtime at;
	uint32_t place;		/* 1 is the root; 0: in no heap */
};

struct timer_heap {
	struct timer_heap_node **node;	/* owned; node[0] is not used */
	uint32_t count;
	uint32_t room;			/* nodes that fit */
};

void timer_heap_init(struct timer_heap *h);
void timer_heap_fini(struct timer_heap *h);		/* the nodes are the caller's */

/* Makes room for `nodes` nodes in all. 0 or -ENOMEM. */
int timer_heap_reserve(struct timer_heap *h, uint32_t nodes);

static inline bool timer_heap_contains(const struct timer_heap_node *n)
{
	return n->place != 0;
}

/* n must be in no heap and room must be reserved. */
void timer_heap_insert(struct timer_heap *h, struct timer_heap_node *n, wtime at);
/* n must be in the heap: it now fires at `at`. */
void timer_heap_update(struct timer_heap *h, struct timer_heap_node *n, wtime at);
/* Nothing happens when n is in no heap. */
void timer_heap_remove(struct timer_heap *h, struct timer_heap_node *n);

/* The earliest time, or WTIME_NEVER. */
static inline wtime timer_heap_first(const struct timer_heap *h)
{
	return h->count ? h->node[1]->at : WTIME_NEVER;
}

/* The earliest node, or NULL. Which of several equal ones is not said. */
static inline struct timer_heap_node *timer_heap_min(const struct timer_heap *h)
{
	return h->count ? h->node[1] : NULL;
}

#endif
