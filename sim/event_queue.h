/* What is to happen in virtual time: a heap by time, and of one time in the order in which it was put. O(log n) of n events. */
#ifndef WEFT_SIM_EVENT_QUEUE_H
#define WEFT_SIM_EVENT_QUEUE_H

#include "base/time.h"

#include <stddef.h>
#include <stdint.h>

struct event_queue {
	struct event {
		wtime at;
		uint64_t order;
		void *what;
	} *event;			/* owned: a heap */
	size_t events, room;
	uint64_t order;
};

/* A queue of zeros is empty. What is still in it is the caller's. */
void event_queue_fini(struct event_queue *q);
/* Aborts without memory. */
void event_queue_put(struct event_queue *q, wtime at, void *what);
/* When the next one is due, or WTIME_NEVER. */
wtime event_queue_next(const struct event_queue *q);
/* Takes that one out; NULL: there is none. */
void *event_queue_take(struct event_queue *q);

#endif
