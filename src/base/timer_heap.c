/* The min-heap of timer_heap.h: node[k]'s children are node[2k] and node[2k + 1], and no child is earlier than its parent. */
#include "base/timer_heap.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

static void place(struct timer_heap *h, uint32_t k, struct timer_heap_node *n)
{
	h->node[k] = n;
	n->place = k;
}

static void sift_up(struct timer_heap *h, struct timer_heap_node *n)
{
	uint32_t k = n->place;

	for (; k > 1 && n->at < h->node[k / 2]->at; k /= 2)
		place(h, k, h->node[k / 2]);
	place(h, k, n);
}

static void sift_down(struct timer_heap *h, struct timer_heap_node *n)
{
	uint32_t k = n->place, child;

	for (; (child = 2 * k) <= h->count; k = child) {
		if (child < h->count && h->node[child + 1]->at < h->node[child]->at)
			child++;
		if (n->at <= h->node[child]->at)
			break;
		place(h, k, h->node[child]);
	}
	place(h, k, n);
}

void timer_heap_init(struct timer_heap *h)
{
	*h = (struct timer_heap){ 0 };
}

void timer_heap_fini(struct timer_heap *h)
{
	free(h->node);
	*h = (struct timer_heap){ 0 };
}

int timer_heap_reserve(struct timer_heap *h, uint32_t nodes)
{
	uint32_t room = h->room ? h->room : 15;
	struct timer_heap_node **node;

	if (nodes <= h->room)
		return 0;
	if (nodes > INT32_MAX)
		return -ENOMEM;
	while (room < nodes)
		room = 2 * room + 1;
	node = realloc(h->node, ((size_t)room + 1) * sizeof(*node));
	if (!node)
		return -ENOMEM;
	h->node = node;
	h->room = room;
	return 0;
}

void timer_heap_insert(struct timer_heap *h, struct timer_heap_node *n, wtime at)
{
	if (weft_bug_on(timer_heap_contains(n)) || weft_bug_on(h->count == h->room))
		return;
	n->at = at;
	n->place = ++h->count;
	sift_up(h, n);
}

void timer_heap_update(struct timer_heap *h, struct timer_heap_node *n, wtime at)
{
	bool earlier = at < n->at;

	if (weft_bug_on(!timer_heap_contains(n)))
		return;
	n->at = at;
	if (earlier)
		sift_up(h, n);
	else
		sift_down(h, n);
}

void timer_heap_remove(struct timer_heap *h, struct timer_heap_node *n)
{
	struct timer_heap_node *last;

	if (!timer_heap_contains(n))
		return;
	last = h->node[h->count--];
	if (last != n) {
		last->place = n->place;
		h->node[last->place] = last;
		sift_up(h, last);
		sift_down(h, last);
	}
	n->place = 0;
}
