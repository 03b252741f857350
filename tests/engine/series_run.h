/* A transaction of the seed's subnet administration over a path of the simulator: end 0 asks, end 1 is the SA. */
#ifndef WEFT_TESTS_SERIES_RUN_H
#define WEFT_TESTS_SERIES_RUN_H

#include "mad_path.h"
#include "mgmt/transaction.h"
#include "wire/field.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS_MOST = 4000000, LINES = 400 };

struct line {			/* of what was sent */
	int from;
	uint32_t segment, length;
	unsigned flags, window;
};

struct run {
	struct mad_path path;
	struct series_config config;
	struct transaction end[2];
	bool serves;
	uint8_t *records, *answer;	/* of a Config; of the SA */
	uint32_t record_bytes, answer_bytes;
	wtime prepares_ns, ready_at;	/* how long the SA takes for its answer */
	wtime gathers_ns;		/* from then on for each segment of it; 0: it has all at once */
	uint32_t gathered;
	unsigned applied;		/* Configs that the SA had whole */
	uint32_t acked[2];		/* what an end has heard the Ack of */
	bool is_asked_late[2];		/* for that, by a Resend that came behind the Ack (RMP-44) */
	uint32_t change_to;		/* after change_at segments the answer has so many bytes; 0: it stays */
	uint32_t change_at, last_bytes;
	bool is_paced;			/* a packet leaves when the one before it has left, not into a queue */
	struct line drop;		/* what has its origin, segment and flags is lost, so often: */
	unsigned drops;
	wtime now;
	struct line line[LINES];
	wtime sent_at[LINES];
	unsigned lines;
};

static inline void series_fill(uint8_t *data, uint32_t bytes, unsigned salt)
{
	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(i * 7 + i / 251 + salt);
}

static inline void begin(struct run *r, const struct mad_path_config *path, const struct series_config *config, unsigned method,
			 uint16_t window, uint32_t record_bytes, uint32_t answer_bytes)
{
	uint8_t head[SERIES_HEAD] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, (uint8_t)method };

	*r = (struct run){ .config = *config, .record_bytes = record_bytes, .answer_bytes = answer_bytes, .ready_at = WTIME_NEVER,
			   .records = malloc(record_bytes + 1), .answer = malloc(2 * answer_bytes + 1) };
	series_fill(r->records, record_bytes, 1);
	series_fill(r->answer, 2 * answer_bytes, 2);
	r->last_bytes = answer_bytes;
	mad_path_init(&r->path, path);
	wire_put(head, 0x1234, 8, 0, 64);
	if (method == TXN_CONFIG)
		transaction_configure(&r->end[0], config, 0, head, r->records, record_bytes);
	else
		transaction_ask(&r->end[0], config, 0, head, window);
}

static inline void end(struct run *r)
{
	mad_path_fini(&r->path);
	transaction_fini(&r->end[0]);
	if (r->serves)
		transaction_fini(&r->end[1]);
	free(r->records);
	free(r->answer);
}

static inline void note_late(struct run *r, int to, const uint8_t mad[MAD_BYTES])
{
	struct series_header h;

	series_parse(&h, &r->config, mad);
	if (r->end[to].phase != TXN_SENDING)
		return;
	if (h.flags == SERIES_ACK && h.segment > r->acked[to])
		r->acked[to] = h.segment;
	r->is_asked_late[to] |= h.flags == SERIES_RESEND && h.segment <= r->acked[to];
}

static inline void hear(struct run *r, int to, const uint8_t mad[MAD_BYTES])
{
	if (to && !r->serves)
		r->serves = transaction_serve(&r->end[1], &r->config, r->now, mad);
	note_late(r, to, mad);
	if (!to || r->serves)
		transaction_input(&r->end[to], r->now, mad);
}

/* One segment more. */
static inline void gather(struct run *r)
{
	uint32_t left = r->answer_bytes - r->gathered;

	r->gathered += left < SERIES_DATA ? left : SERIES_DATA;
	r->ready_at = r->now + r->gathers_ns;
	transaction_answer(&r->end[1], r->now, 0, r->answer, r->gathered, r->gathered == r->answer_bytes);
	if (r->gathered == r->answer_bytes)
		r->gathers_ns = 0;
}

/* What the SA's program does: it takes a Config once, and answers in its time. */
static inline void serve(struct run *r)
{
	struct transaction *t = &r->end[1];

	if (!r->serves)
		return;
	if (t->phase == TXN_PREPARING && r->ready_at == WTIME_NEVER) {
		r->applied += t->method == TXN_CONFIG;
		r->ready_at = r->now + r->prepares_ns;
	}
	if (r->gathers_ns && r->ready_at <= r->now)
		gather(r);
	else if (t->phase == TXN_PREPARING && r->ready_at <= r->now)
		transaction_answer(t, r->now, 0, r->answer, r->answer_bytes, !r->change_to);
	if (t->phase == TXN_SENDING && r->change_to && t->out.sent >= r->change_at) {
		uint32_t kept = t->out.sent * SERIES_DATA;

		/* what went stays */
		r->last_bytes = r->change_to > kept ? r->change_to : kept;
		transaction_answer(t, r->now, 0, r->answer, r->last_bytes, true);
		r->change_to = 0;
	}
}

/* Is it one of those that are to be lost? */
static inline bool is_dropped(struct run *r, int from, const struct series_header *h)
{
	bool is = r->drops && r->drop.from == from && r->drop.segment == h->segment && r->drop.flags == h->flags;

	r->drops -= is;
	return is;
}

static inline void send_all(struct run *r)
{
	uint8_t mad[MAD_BYTES];

	for (int i = 0; i < 1 + r->serves; i++) {
		while ((!r->is_paced || r->path.free_at[i] <= r->now) && transaction_output(&r->end[i], r->now, mad)) {
			struct series_header h;

			series_parse(&h, &r->config, mad);
			if (r->lines < LINES) {
				r->sent_at[r->lines] = r->now;
				r->line[r->lines++] = (struct line){ i, h.segment, h.length, h.flags, h.window };
			}
			if (!is_dropped(r, i, &h))
				mad_path_send(&r->path, r->now, i, mad);
			if (i)
				serve(r);
		}
	}
}

/* Until nobody waits for anything, or the requester has its answer. */
static inline void go_on(struct run *r, long steps, bool until_answered)
{
	uint8_t mad[MAD_BYTES];

	while (steps--) {
		wtime next;

		serve(r);
		send_all(r);
		if (until_answered && r->end[0].phase >= TXN_DONE)
			return;
		next = wtime_min(mad_path_next(&r->path), r->ready_at > r->now ? r->ready_at : WTIME_NEVER);
		for (int i = 0; r->is_paced && i < 2; i++)
			next = wtime_min(next, r->path.free_at[i] > r->now ? r->path.free_at[i] : WTIME_NEVER);
		for (int i = 0; i < 1 + r->serves; i++)
			if (!transaction_is_over(&r->end[i], r->now))
				next = wtime_min(next, transaction_deadline(&r->end[i]));
		if (next == WTIME_NEVER)
			return;
		r->now = next > r->now ? next : r->now;
		if (mad_path_next(&r->path) <= r->now) {
			int to = mad_path_take(&r->path, mad);

			hear(r, to, mad);
		}
		for (int i = 0; i < 1 + r->serves; i++)
			transaction_expire(&r->end[i], r->now);
	}
	fail_msg("a transaction without end");
}

static inline void go(struct run *r)
{
	go_on(r, STEPS_MOST, false);
}

/* When the requester has its answer. */
static inline wtime go_until_answered(struct run *r)
{
	r->is_paced = true;
	go_on(r, LONG_MAX, true);
	return r->now;
}

static inline bool has_answer(const struct run *r)
{
	const struct series_in *in = &r->end[0].in;

	return in->bytes == r->last_bytes && (!in->bytes || !memcmp(in->data, r->answer, in->bytes));
}

static inline bool has_records(const struct run *r)
{
	const struct series_in *in = &r->end[1].in;

	return in->bytes == r->record_bytes && !memcmp(in->data, r->records, in->bytes);
}

#endif
