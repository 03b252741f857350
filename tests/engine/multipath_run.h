/* A requester and a responder over FIFO paths that lose, are cut and stall, with a target that knows what it must see. */
#ifndef WEFT_TESTS_MULTIPATH_RUN_H
#define WEFT_TESTS_MULTIPATH_RUN_H

#include "multipath/requester.h"
#include "multipath/responder.h"
#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MTU_MOST = 32, FRAME = MP_HEADER + MTU_MOST + MP_CRC, HELD = 512, WINDOWS = 3, OPS = 400, MEMORY = 256 };
enum { EVENTS_MOST = 60000 };

struct frame {
	wtime at;
	size_t size;
	uint8_t bytes[FRAME];
};

struct window {
	wtime from, to;
};

struct way {				/* of a path, in one direction */
	struct frame frame[HELD];
	unsigned first, held;
	wtime last;
	struct window cut[WINDOWS], stall[WINDOWS];
};

struct op {
	struct mp_request request;
	uint8_t from[4 * MTU_MOST], into[4 * MTU_MOST];
	uint8_t before[MEMORY];		/* the target's memory when it begins, of an ordered one */
};

struct world {
	struct mp_config config;
	struct mp_requester requester;
	struct mp_responder responder;
	struct rand rand;
	struct way way[MP_PATHS][2];	/* to the responder; to the requester */
	wtime delay_ns[MP_PATHS];
	uint32_t loss_ppm, refusal_ppm;
	struct op op[OPS];
	unsigned ops, posted, done;
	enum mp_status error;
	wtime now;
	/* the target */
	uint8_t memory[MEMORY];
	unsigned next_ordered;		/* that has not executed whole */
	uint32_t next_offset;
	const char *violation;
};

static inline unsigned ordered_from(const struct world *w, unsigned i)
{
	while (i < w->ops && w->op[i].request.is_unordered)
		i++;
	return i;
}

static inline void violate(struct world *w, const char *what)
{
	if (!w->violation)
		w->violation = what;
}

/* Does it come in order, once, and with the earlier unordered ones in memory (MPT-16)? */
static inline void see_ordered(struct world *w, unsigned i, const struct mp_packet *p)
{
	const struct op *o = &w->op[i];
	uint64_t offset = p->code == MP_SEND ? p->address : p->address - o->request.address;

	if (i != w->next_ordered || (offset != w->next_offset && !o->request.ends_ordered))
		violate(w, "order");
	else if (o->request.ends_ordered && (!p->last || memcmp(w->memory + o->request.address, o->from, offset)))
		violate(w, "barrier: memory at the ordered end of a request");
	else if (!offset && memcmp(w->memory, o->before, MEMORY))
		violate(w, "barrier: memory at an ordered packet");
	w->next_offset += p->length;
	if (!p->last)
		return;
	w->next_ordered = ordered_from(w, i + 1);
	w->next_offset = 0;
}

static inline bool is_in_span(const struct world *w, unsigned i)
{
	return (i < w->next_ordered || w->op[i].request.ends_ordered) && ordered_from(w, i) == w->next_ordered;
}

/* key: which request it is */
static inline enum mp_status target_execute(void *arg, const struct mp_packet *p, uint8_t *answer)
{
	struct world *w = arg;
	uint8_t *at = w->memory + p->address % MEMORY;

	if (p->code == MP_NOP)
		return MP_OK;
	if (p->key >= w->ops || (p->code != MP_SEND && p->address + p->length > MEMORY))
		return MP_NAK_ACCESS;
	if (rand_chance(&w->rand, w->refusal_ppm))
		return rand_below(&w->rand, 2) ? MP_NAK_BUSY : MP_NAK_NO_BUFFER;
	if (p->order == MP_ORDERED)
		see_ordered(w, p->key, p);
	else if (!is_in_span(w, p->key))
		violate(w, "barrier: an unordered packet outside its span");
	if (p->code == MP_WRITE)
		memcpy(at, p->payload, p->length);
	else if (p->code == MP_READ)
		memcpy(answer, at, p->length);
	else if (p->code == MP_FETCH_ADD) {
		memcpy(answer, at, 8);
		wire_put(at, wire_get(at, 0, 0, 64) + wire_get(p->payload, 0, 0, 64), 0, 0, 64);
	}
	return MP_OK;
}

static inline bool is_within(const struct window *w, wtime t, wtime *end)
{
	for (int i = 0; i < WINDOWS; i++)
		if (t >= w[i].from && t < w[i].to)
			return *end = w[i].to, true;
	return false;
}

static inline void way_send(struct world *w, unsigned path, int to, const struct mp_packet *p)
{
	struct way *way = &w->way[path][to];
	struct frame *f = &way->frame[(way->first + way->held) % HELD];
	wtime at = w->now + w->delay_ns[path], end;

	if (rand_chance(&w->rand, w->loss_ppm) || is_within(way->cut, w->now, &end) || way->held == HELD)
		return;
	while (is_within(way->stall, at, &end))
		at = end;
	f->at = way->last = at > way->last ? at : way->last;
	f->size = mp_packet_build(p, f->bytes);
	way->held++;
}

/* The way whose next frame comes first. */
static inline struct way *next_way(struct world *w, unsigned *path, int *to)
{
	struct way *next = NULL;

	for (unsigned i = 0; i < 2u * w->config.paths; i++) {
		struct way *way = &w->way[i / 2][i % 2];

		if (!way->held || (next && next->frame[next->first].at <= way->frame[way->first].at))
			continue;
		next = way;
		*path = i / 2;
		*to = (int)(i % 2);
	}
	return next;
}

static inline void deliver(struct world *w, struct way *way, unsigned path, int to)
{
	const struct frame *f = &way->frame[way->first];
	struct mp_packet p, reply;

	way->first = (way->first + 1) % HELD;
	way->held--;
	if (!mp_packet_parse(&p, f->bytes, f->size))
		violate(w, "a packet of ours that is not taken");
	else if (to)
		mp_requester_input(&w->requester, w->now, path, &p);
	else if (mp_responder_input(&w->responder, path, &p, &reply))
		way_send(w, path, 1, &reply);
}

static inline void poll_all(struct world *w)
{
	struct mp_completion c;

	while (mp_requester_poll(&w->requester, &c)) {
		const struct op *o = &w->op[c.id];

		if (c.id != w->done++)
			violate(w, "completions out of order");
		if (c.status && !w->error)
			w->error = c.status;
		if (c.status || o->request.is_unordered)
			continue;
		if (c.id >= w->next_ordered)
			violate(w, "an ordered request is done that was not executed");
		if (o->request.into && memcmp(o->into, o->before + o->request.address, o->request.bytes))
			violate(w, "an answer");
	}
}

static inline void send_all(struct world *w)
{
	struct mp_packet p;
	unsigned path;

	while (w->posted < w->ops && !mp_requester_post(&w->requester, &w->op[w->posted].request))
		w->posted++;
	while (mp_requester_output(&w->requester, w->now, &path, &p))
		way_send(w, path, 0, &p);
}

/* Nothing is under way, nor will be. */
static inline bool is_quiet(const struct world *w)
{
	return w->error || w->requester.error || (w->done == w->ops && !w->requester.ordered && !w->requester.unordered);
}

/* Until all is done and accounted for, or the connection has ended; then what is still on its way arrives. */
static inline void go(struct world *w)
{
	unsigned path = 0;
	struct way *way;
	int to = 0;

	for (unsigned events = 0; !w->violation; events++) {
		wtime next;

		poll_all(w);
		send_all(w);
		way = next_way(w, &path, &to);
		next = way ? way->frame[way->first].at : WTIME_NEVER;
		if (is_quiet(w))
			break;
		if (events == EVENTS_MOST || (next == WTIME_NEVER && mp_requester_deadline(&w->requester) == WTIME_NEVER)) {
			violate(w, "no end");
			return;
		}
		if (mp_requester_deadline(&w->requester) < next) {
			next = mp_requester_deadline(&w->requester);
			w->now = next > w->now ? next : w->now;
			mp_requester_expire(&w->requester, w->now);
			continue;
		}
		w->now = next > w->now ? next : w->now;
		deliver(w, way, path, to);
	}
	while ((way = next_way(w, &path, &to)))
		deliver(w, way, path, to);
}

static inline void apply(uint8_t *memory, const struct mp_request *q)
{
	if (q->opcode == MP_WRITE)
		memcpy(memory + q->address, q->from, q->bytes);
	else if (q->opcode == MP_FETCH_ADD)
		wire_put(memory + q->address, wire_get(memory + q->address, 0, 0, 64) + q->operand[0], 0, 0, 64);
}

/* After world_begin, and before go. */
static inline void world_add(struct world *w, enum mp_opcode opcode, bool is_unordered, uint64_t address, uint32_t bytes)
{
	struct op *o = &w->op[w->ops];

	for (uint32_t i = 0; i < bytes; i++)
		o->from[i] = (uint8_t)(rand_u64(&w->rand));
	o->request = (struct mp_request){ .opcode = opcode, .is_unordered = is_unordered, .key = w->ops, .bytes = bytes,
					  .address = address, .from = o->from, .operand = { rand_u64(&w->rand) }, .id = w->ops };
	if (opcode == MP_READ || opcode == MP_FETCH_ADD)
		o->request.into = o->into;
	w->ops++;
}

/* What the target must have in the end, and before each ordered request. */
static inline void world_expect(struct world *w, uint8_t memory[MEMORY])
{
	memset(memory, 0, MEMORY);
	for (unsigned i = 0; i < w->ops; i++) {
		memcpy(w->op[i].before, memory, MEMORY);
		apply(memory, &w->op[i].request);
	}
	w->next_ordered = ordered_from(w, 0);
}

static inline void world_begin(struct world *w, const struct mp_config *c)
{
	const struct mp_target target = { target_execute, w };

	w->config = *c;
	assert_int_equal(mp_requester_init(&w->requester, c), 0);
	assert_int_equal(mp_responder_init(&w->responder, c, &target), 0);
}

static inline void world_end(struct world *w)
{
	mp_requester_fini(&w->requester);
	mp_responder_fini(&w->responder);
	free(w);
}

#endif
