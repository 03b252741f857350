/* A transfer of the reliable multi-packet protocol over a path of the simulator. */
#ifndef WEFT_TESTS_RMPP_RUN_H
#define WEFT_TESTS_RMPP_RUN_H

#include "base/list.h"
#include "mad_path.h"
#include "mgmt/mad_source.h"
#include "mgmt/rmpp.h"
#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OFFSET = 56, ROOM = 200, STEPS_MOST = 4000000 };

/* End 0 sends, end 1 receives, and keeps the whole one to acknowledge it again. */
struct run {
	struct mad_path path;
	struct rmpp_send send;
	struct rmpp_recv recv;
	uint8_t *data;
	uint32_t bytes;
	wtime now;
	enum rmpp_verdict out, in;
	uint64_t answers;
	/* Of one that is made while it is sent: */
	struct mad_source source;
	struct mad_flow flow;
	uint8_t *at_hand;		/* NULL: data is there */
	uint32_t given, piece;		/* bytes; how many at most at a time */
	unsigned ends;
};

static inline enum mad_given run_give(struct mad_source *s, uint8_t *to, uint32_t room, uint32_t *bytes)
{
	struct run *r = container_of(s, struct run, source);
	uint32_t left = r->bytes - r->given;

	*bytes = room < r->piece ? room : r->piece;
	*bytes = *bytes < left ? *bytes : left;
	memcpy(to, r->data + r->given, *bytes);
	r->given += *bytes;
	return r->given < r->bytes ? MAD_GIVES_MORE : MAD_GAVE_ALL;
}

static inline void run_end_source(struct mad_source *s)
{
	container_of(s, struct run, source)->ends++;
}

/* After begin(): what is behind the first bytes is made while it is sent, so many bytes at a time. */
static inline void make_it(struct run *r, const struct rmpp_config *config, uint32_t first, uint32_t piece)
{
	r->source = (struct mad_source){ run_give, run_end_source };
	r->flow = (struct mad_flow){ .source = &r->source, .room = first };
	r->given = first;
	r->piece = piece;
	r->at_hand = malloc(first);
	memcpy(r->at_hand, r->data, first);
	rmpp_send_init(&r->send, config, r->at_hand, first);
	rmpp_send_more(&r->send, r->at_hand, first, true);
}

static inline void begin(struct run *r, const struct mad_path_config *path, const struct rmpp_config *config,
			 uint32_t bytes)
{
	*r = (struct run){ .data = malloc(bytes), .bytes = bytes };
	for (uint32_t i = 0; i < bytes; i++)
		r->data[i] = (uint8_t)(i * 7 + i / 251);
	memset(r->data, 0, 24);
	r->data[1] = MAD_CLASS_SA;
	r->data[3] = 0x92;
	mad_path_init(&r->path, path);
	rmpp_send_init(&r->send, config, r->data, bytes);
	rmpp_recv_init(&r->recv, config);
}

static inline void end(struct run *r)
{
	mad_path_fini(&r->path);
	rmpp_recv_fini(&r->recv);
	mad_flow_end(&r->flow);
	free(r->at_hand);
	free(r->data);
}

static inline void hear(struct run *r, int to, uint8_t mad[MAD_BYTES])
{
	uint8_t reply[MAD_BYTES];
	bool answers = false;

	if (!to) {
		if (r->out == RMPP_GOES_ON)
			r->out = rmpp_send_input(&r->send, r->now, mad, &answers, reply);
	} else if (r->in == RMPP_GOES_ON) {
		r->in = rmpp_recv_input(&r->recv, r->now, mad, &answers, reply);
	} else if (r->in == RMPP_DONE && wire_get(mad, 25, 0, 8) == RMPP_DATA) {
		rmpp_ack(mad, r->recv.last, r->recv.window_last, reply);
		answers = true;
	}
	r->answers += answers;
	if (answers)
		mad_path_send(&r->path, r->now, to, reply);
}

static inline void expire(struct run *r)
{
	uint8_t mad[MAD_BYTES];

	if (r->out == RMPP_GOES_ON && r->send.deadline <= r->now) {
		r->out = rmpp_send_expire(&r->send, r->now, mad);
		if (r->out == RMPP_FAILED)
			mad_path_send(&r->path, r->now, 0, mad);
	}
	if (r->in == RMPP_GOES_ON && r->recv.deadline <= r->now) {
		r->in = rmpp_recv_expire(&r->recv, r->now, mad);
		if (r->in == RMPP_FAILED)
			mad_path_send(&r->path, r->now, 1, mad);
	}
}

/* Until nothing moves any more. */
static inline void go(struct run *r)
{
	uint8_t mad[MAD_BYTES];

	for (long steps = 0; steps < STEPS_MOST; steps++) {
		wtime next;

		if (r->at_hand && r->out == RMPP_GOES_ON)
			mad_flow_fill(&r->flow, &r->send, &r->at_hand);
		while (r->out == RMPP_GOES_ON && rmpp_send_output(&r->send, r->now, mad))
			mad_path_send(&r->path, r->now, 0, mad);
		next = mad_path_next(&r->path);
		if (r->out == RMPP_GOES_ON)
			next = wtime_min(next, rmpp_send_is_starved(&r->send) ? r->now + 1 : r->send.deadline);
		if (r->in == RMPP_GOES_ON)
			next = wtime_min(next, r->recv.deadline);
		if (next == WTIME_NEVER)
			return;
		r->now = next;
		if (mad_path_next(&r->path) <= r->now)
			hear(r, mad_path_take(&r->path, mad), mad);
		expire(r);
	}
	fail_msg("a transfer without end");
}

static inline bool is_exact(const struct run *r)
{
	return r->recv.bytes == r->bytes && !memcmp(r->recv.data + OFFSET, r->data + OFFSET, r->bytes - OFFSET);
}

#endif
