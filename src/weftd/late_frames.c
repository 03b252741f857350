#include "weftd/late_frames.h"

#include "weftd/qp1.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct late_frame {
	struct timer_heap_node timer;	/* hub.late_frames */
	struct list_node lost;		/* while its receiver leaves */
	struct client *from;		/* borrowed; NULL: it has left */
	struct client *to;		/* borrowed */
	uint32_t device;
	size_t bytes;
	uint8_t frame[];
};

static int hold(struct hub *h, struct client *from, struct client *to, uint32_t device, wtime due, const void *frame,
		size_t bytes)
{
	struct late_frame *l;

	if (from->late_frames >= LATE_FRAMES)
		return 0;
	l = timer_heap_reserve(&h->late_frames, h->late_frames.count + 1) ? NULL : calloc(1, sizeof(*l) + bytes);
	if (!l)
		return -ENOMEM;
	l->from = from;
	l->to = to;
	l->device = device;
	l->bytes = bytes;
	memcpy(l->frame, frame, bytes);
	timer_heap_insert(&h->late_frames, &l->timer, due);
	from->late_frames++;
	return 0;
}

int late_frames_send(struct hub *h, struct client *from, struct client *to, uint32_t device, wtime due, const void *frame,
		     size_t bytes)
{
	return due > h->now ? hold(h, from, to, device, due, frame, bytes) : qp1_send(h, to, device, frame, bytes);
}

static void end(struct hub *h, struct late_frame *l)
{
	timer_heap_remove(&h->late_frames, &l->timer);
	if (l->from)
		l->from->late_frames--;
	free(l);
}

void late_frames_leave(struct hub *h, struct client *c)
{
	struct list lost;
	struct list_node *n;

	list_init(&lost);
	for (uint32_t i = h->late_frames.count; i > 0; i--) {
		struct late_frame *l = container_of(h->late_frames.node[i], struct late_frame, timer);

		if (l->from == c)
			l->from = NULL;
		if (l->to == c)
			list_append(&lost, &l->lost);
	}
	/* afterwards, as the heap moves what stays */
	while ((n = list_pop(&lost)))
		end(h, container_of(n, struct late_frame, lost));
	if (!h->late_frames.count)
		timer_heap_fini(&h->late_frames);
}

void late_frames_expire(struct hub *h)
{
	while (timer_heap_first(&h->late_frames) <= h->now) {
		struct late_frame *l = container_of(timer_heap_min(&h->late_frames), struct late_frame, timer);

		if (h->ops->has_room(h, l->to))
			qp1_send(h, l->to, l->device, l->frame, l->bytes);
		end(h, l);
	}
}

wtime late_frames_deadline(const struct hub *h)
{
	return timer_heap_first(&h->late_frames);
}
