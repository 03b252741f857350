#include "mad_storm.h"

#include "event_queue.h"

#include <stdlib.h>
#include <string.h>

/* 256 bytes and headers at 10 Gbit/s; what an interrupt takes; a query, our choice; as a program that asks again. */
const struct mad_storm_config mad_storm_usual = {
	.nodes = 512, .seed = 1, .jitter_ns = 20 * WTIME_US, .delay_ns = 5 * WTIME_US, .each_ns = 250, .wake_ns = 20 * WTIME_US,
	.serve_ns = 10 * WTIME_US, .retry_ns = 100 * WTIME_MS,
};

const char *const mad_storm_modes[STORM_MODES] = { "1, fixed", "16, fixed", "adaptive", "adaptive, announced" };
const char *const mad_storm_floods[STORM_FLOODS] = { "none", "adaptive", "16, fixed" };

void mad_storm_configure(struct mad_storm_config *c, unsigned mode, uint32_t nodes, uint64_t seed)
{
	*c = mad_storm_usual;
	c->nodes = nodes;
	c->seed = seed;
	c->tunables = gsa_defaults;
	c->tunables.fixed = mode == 0 ? 1 : mode == 1 ? 16 : 0;
	c->hint = mode == 3 ? nodes : 0;
}

void mad_storm_flood(struct mad_storm_config *c, unsigned flood, uint64_t seed)
{
	mad_storm_configure(c, 2, 32, seed);
	c->jitter_ns = 50 * WTIME_MS;
	c->tunables.most = 256;
	c->ends = 200 * WTIME_MS;
	c->flood_ns = flood ? WTIME_US : 0;
	c->flood_serve_ns = flood ? WTIME_MS : 0;
	c->tunables.fixed = flood == 2 ? 16 : 0;
}

enum {
	FLOOD = UINT32_MAX, CLASS_SA = 3, CLASS_OTHER = 9,
	IDLE = 5,		/* further clients, to which nothing comes: seven share QP1 (GSA-03) */
};

enum what { ARRIVES = 1, WAKES, SERVED, FLOOD_SERVED, ASKS_AGAIN };

struct storm {
	const struct mad_storm_config *c;
	struct mad_storm_result *r;
	struct gsa gsa;
	struct rand rand;
	uint32_t sa, other;
	struct event_queue events;	/* of enum what and a node */
	uint32_t *pending;		/* owned: has come, and the driver did not look yet */
	uint32_t pendings, pending_room;
	uint32_t *queue;		/* owned: of the administration */
	uint32_t queued, queue_at, queue_room;
	uint32_t flood_queued;
	wtime link_free;
	wtime asked[STORM_NODES_MOST];
	wtime took[STORM_NODES_MOST];
	bool has_answer[STORM_NODES_MOST];
	uint32_t answers;
	bool is_waking;
};

static void *grow(void *memory, size_t each, size_t n)
{
	void *more = realloc(memory, each * n);

	if (!more)
		abort();
	return more;
}

static void put(struct storm *s, wtime at, enum what what, uint32_t node)
{
	event_queue_put(&s->events, at, (void *)(uintptr_t)((uint64_t)what << 32 | node));
}

/* Onto the last link, which carries one after the other. */
static void send(struct storm *s, wtime now, uint32_t node)
{
	wtime at = now + s->c->delay_ns;

	s->link_free = at > s->link_free ? at : s->link_free;
	put(s, s->link_free, ARRIVES, node);
	s->link_free += s->c->each_ns;
}

static void ask(struct storm *s, wtime now, uint32_t node)
{
	s->r->queries++;
	send(s, now, node);
	/* not all at the same time again */
	put(s, now + s->c->retry_ns + rand_below(&s->rand, s->c->retry_ns / 10), ASKS_AGAIN, node);
}

/* What the hardware has is what gsa has posted, but for what has come and was not looked at. */
static void arrive(struct storm *s, wtime now, uint32_t node)
{
	if (s->pendings >= s->gsa.posted) {
		*(node == FLOOD ? &s->r->flood_lost : &s->r->drops) += 1;
		return;
	}
	if (s->pendings == s->pending_room)
		s->pending = grow(s->pending, sizeof(*s->pending), s->pending_room = s->pending_room ? 2 * s->pending_room : 64);
	s->pending[s->pendings++] = node;
	if (!s->is_waking)
		put(s, now + s->c->wake_ns, WAKES, 0);
	s->is_waking = true;
}

static void serve_next(struct storm *s, wtime now)
{
	put(s, now + s->c->serve_ns, SERVED, s->queue[s->queue_at]);
}

static void give(struct storm *s, wtime now, uint32_t node)
{
	if (node == FLOOD) {
		s->r->flood_taken++;
		if (!s->flood_queued++)
			put(s, now + s->c->flood_serve_ns, FLOOD_SERVED, 0);
		return;
	}
	if (s->queued == s->queue_room)
		s->queue = grow(s->queue, sizeof(*s->queue), s->queue_room = s->queue_room ? 2 * s->queue_room : 64);
	s->queue[s->queued++] = node;
	if (s->queued - s->queue_at == 1)
		serve_next(s, now);
}

static void wake(struct storm *s, wtime now)
{
	for (uint32_t i = 0; i < s->pendings; i++) {
		uint32_t node = s->pending[i];

		if (gsa_arrive_at(&s->gsa, now, node == FLOOD ? s->other : s->sa))
			give(s, now, node);
		else
			*(node == FLOOD ? &s->r->flood_lost : &s->r->discards) += 1;
	}
	s->pendings = 0;
	s->is_waking = false;
	s->r->most_posted = s->gsa.posted > s->r->most_posted ? s->gsa.posted : s->r->most_posted;
}

static void served(struct storm *s, wtime now, uint32_t node)
{
	gsa_release(&s->gsa, s->sa);
	s->queue_at++;
	if (s->queue_at < s->queued)
		serve_next(s, now);
	if (s->has_answer[node])
		return;
	s->has_answer[node] = true;
	s->took[node] = now + s->c->delay_ns - s->asked[node];
	s->r->answered[s->answers++] = s->r->last = now + s->c->delay_ns;
}

static void flood_served(struct storm *s, wtime now)
{
	gsa_release(&s->gsa, s->other);
	if (--s->flood_queued)
		put(s, now + s->c->flood_serve_ns, FLOOD_SERVED, 0);
}

static void step(struct storm *s)
{
	wtime at = event_queue_next(&s->events);
	uint64_t event = (uintptr_t)event_queue_take(&s->events);
	uint32_t node = (uint32_t)event;

	switch ((enum what)(event >> 32)) {
	case ARRIVES:
		arrive(s, at, node);
		break;
	case WAKES:
		wake(s, at);
		break;
	case SERVED:
		served(s, at, node);
		break;
	case FLOOD_SERVED:
		flood_served(s, at);
		break;
	case ASKS_AGAIN:
		if (!s->has_answer[node])
			ask(s, at, node);
	}
}

static int compare(const void *a, const void *b)
{
	const wtime *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void begin(struct storm *s)
{
	const struct mad_storm_config *c = s->c;
	uint32_t idle;

	rand_seed(&s->rand, c->seed);
	if (gsa_init(&s->gsa, 0, &c->tunables, NULL, NULL) || gsa_register(&s->gsa, CLASS_SA, GSA_NONE, &s->sa) ||
	    gsa_register(&s->gsa, CLASS_OTHER, GSA_NONE, &s->other) ||
	    (c->hint && gsa_change(&s->gsa, s->sa, (int32_t)c->hint)))
		abort();
	for (int i = 0; i < IDLE; i++) {
		if (gsa_register(&s->gsa, GSA_ANY_CLASS, GSA_NONE, &idle))
			abort();
	}
	/* datagrams of the flood are there before anybody asks, so that buffers are as a flood leaves them */
	for (wtime at = 0; c->flood_ns && at < c->ends; at += c->flood_ns)
		put(s, at, ARRIVES, FLOOD);
	for (uint32_t i = 0; i < c->nodes; i++) {
		s->asked[i] = c->flood_ns ? c->ends / 2 : 0;
		s->asked[i] += rand_below(&s->rand, c->jitter_ns + 1);
		put(s, s->asked[i], ASKS_AGAIN, i);
	}
}

void mad_storm_run(const struct mad_storm_config *c, struct mad_storm_result *r)
{
	struct storm *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	*r = (struct mad_storm_result){ 0 };
	s->c = c;
	s->r = r;
	begin(s);
	while (s->events.events && s->answers < c->nodes)
		step(s);
	qsort(s->took, c->nodes, sizeof(s->took[0]), compare);
	r->median = s->took[c->nodes / 2];
	r->most_of_all = s->took[c->nodes * 99 / 100];
	gsa_fini(&s->gsa);
	event_queue_fini(&s->events);
	free(s->pending);
	free(s->queue);
	free(s);
}
