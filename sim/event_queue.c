#include "event_queue.h"

#include <stdbool.h>
#include <stdlib.h>

void event_queue_fini(struct event_queue *q)
{
	free(q->event);
	*q = (struct event_queue){ 0 };
}

static bool is_before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void event_queue_put(struct event_queue *q, wtime at, void *what)
{
	struct event e = { at, q->order++, what };
	size_t i = q->events++;

	if (i == q->room) {
		q->room = q->room ? 2 * q->room : 64;
		q->event = realloc(q->event, q->room * sizeof(*q->event));
		if (!q->event)
			abort();
	}
	for (; i && is_before(&e, &q->event[(i - 1) / 2]); i = (i - 1) / 2)
		q->event[i] = q->event[(i - 1) / 2];
	q->event[i] = e;
}

wtime event_queue_next(const struct event_queue *q)
{
	return q->events ? q->event[0].at : WTIME_NEVER;
}

void *event_queue_take(struct event_queue *q)
{
	struct event last;
	size_t i = 0;
	void *what;

	if (!q->events)
		return NULL;
	what = q->event[0].what;
	last = q->event[--q->events];
	for (size_t child = 1; child < q->events; child = 2 * i + 1) {
		if (child + 1 < q->events && is_before(&q->event[child + 1], &q->event[child]))
			child++;
		if (!is_before(&q->event[child], &last))
			break;
		q->event[i] = q->event[child];
		i = child;
	}
	if (q->events)
		q->event[i] = last;
	return what;
}
