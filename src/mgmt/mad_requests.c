#include "mgmt/mad_requests.h"

#include "mgmt/mad_agents.h"
#include "mgmt/mad_hops.h"
#include "wire/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOONEST_NS (WTIME_MS / 2)	/* our choice: within weftd an ACK comes after microseconds, in the same round */

void mad_request_free(struct mad_clients *c, struct request *r)
{
	list_remove(&r->node);
	timer_heap_remove(&c->requests, &r->timer);
	r->file->requests--;
	r->file->bytes -= sizeof(*r) + r->bytes;
	mad_flow_end(&r->flow);
	if (r->data != r->copy)
		free(r->data);
	free(r);
}

static wtime due(wtime now, uint32_t timeout_ms)
{
	return timeout_ms ? now + timeout_ms * WTIME_MS : WTIME_NEVER;
}

struct request *mad_request_find(const struct mad_file *f, const uint8_t *mad)
{
	uint64_t tid = wire_get(mad, TID);

	list_for_each(r, &f->request_list, struct request, node) {
		if (r->tid == tid && mad_class(r->data) == mad_class(mad) && !is_response(r->data))
			return r;
	}
	return NULL;
}

struct request *mad_request_find_sent(const struct mad_file *f, const struct mad_remote *sender, const uint8_t *mad)
{
	uint64_t tid = wire_get(mad, TID);

	if (is_response(mad))
		return mad_request_find(f, mad);
	list_for_each(r, &f->request_list, struct request, node) {
		if (r->tid == tid && mad_class(r->data) == mad_class(mad) && is_response(r->data) &&
		    r->remote.lid == sender->lid)
			return r;
	}
	return NULL;
}

/* What is made while it is sent moves in memory. */
static bool take_data(struct request *r, const struct mad_letter *l)
{
	r->data = l->gift ? *l->gift : l->source ? malloc(l->bytes) : r->copy;
	if (!r->data)
		return false;
	if (l->gift)
		*l->gift = NULL;
	else
		memcpy(r->data, l->data, l->bytes);
	if (l->source) {
		r->flow = (struct mad_flow){ .source = *l->source, .room = l->bytes };
		*l->source = NULL;
	}
	return true;
}

int mad_request_make(struct mad_clients *c, struct mad_file *f, const struct mad_letter *l, struct request **made)
{
	size_t bytes = sizeof(struct request) + l->bytes, copied = l->gift || l->source ? 0 : l->bytes;
	struct request *r;

	if (f->requests >= MAD_REQUESTS || f->bytes + bytes > mad_file_bytes(c) || !mad_leaves_room(c, f, l) ||
	    !c->ops->may_hold(c->arg, f, bytes))
		return -EDQUOT;
	r = timer_heap_reserve(&c->requests, c->requests.count + 1) ? NULL : calloc(1, sizeof(*r) + copied);
	if (!r)
		return -ENOMEM;
	*r = (struct request){ .file = f, .agent = l->agent, .remote = l->remote, .bytes = l->bytes,
			       .ends = WTIME_NEVER,
			       .timeout_ms = l->timeout_ms < MAD_TIMEOUT_MOST ? l->timeout_ms : MAD_TIMEOUT_MOST,
			       .retries = l->retries < MAD_RETRIES_MOST ? l->retries : MAD_RETRIES_MOST };
	if (!take_data(r, l)) {
		free(r);
		return -ENOMEM;
	}
	f->requests++;
	f->bytes += bytes;
	list_append(&f->request_list, &r->node);
	timer_heap_insert(&c->requests, &r->timer, WTIME_NEVER);
	*made = r;
	return 0;
}

/* What follows, of one that is made while it is sent. What is at hand counts. */
static void go_on(struct request *r)
{
	if (!r->flow.source)
		return;
	mad_flow_fill(&r->flow, &r->rmpp, &r->data);
	r->file->bytes += r->flow.room;
	r->file->bytes -= r->bytes;
	r->bytes = r->flow.room;
}

/* 13.6.6.3: who has asked in segments may have said already how many of the answer's may go. */
static uint32_t first_window(const struct request *r)
{
	if (!is_response(r->data))
		return 1;
	list_for_each(t, &r->file->transfer_list, struct transfer, node) {
		if (t->answer_window && t->tid == r->tid && t->mgmt_class == mad_class(r->data) &&
		    t->sender.lid == r->remote.lid)
			return t->answer_window;
	}
	return 1;
}

/* The segments that may go, as many as one call carries: whatever windows receivers open, no more wait before what others send,
 * and in memory that is on no account. What remains, and what has yet to be made, follows when others have had their turn; the
 * last ACK is awaited. Of what cannot be gone on with the end is said. */
static void send_segments(struct mad_clients *c, wtime now, struct request *r)
{
	uint8_t mad[MAD_BYTES];
	bool remains = true, is_due;

	go_on(r);
	while (c->waiting < MAD_CARRIED_MOST && (remains = rmpp_send_output(&r->rmpp, now, mad)))
		mad_hop_put(c, r->file->port, &r->remote, mad);
	is_due = remains || r->flow.gave_up || rmpp_send_is_starved(&r->rmpp);
	timer_heap_update(&c->requests, &r->timer, is_due ? now + 1 : r->rmpp.deadline);
}

void mad_request_send(struct mad_clients *c, wtime now, struct request *r)
{
	uint8_t mad[MAD_BYTES] = { 0 };

	if (r->is_segmented) {
		r->is_sending = true;
		rmpp_send_init(&r->rmpp, &(struct rmpp_config){ .soonest_ns = SOONEST_NS }, r->data, r->bytes);
		if (r->flow.source)
			rmpp_send_more(&r->rmpp, r->data, r->bytes, true);
		r->rmpp.is_two_sided = r->timeout_ms && !is_response(r->data);
		r->rmpp.window_last = first_window(r);
		/* who has them all acknowledges the last one at once */
		if (r->has_come)
			r->rmpp.sent = r->rmpp.segments;
		send_segments(c, now, r);
		return;
	}
	memcpy(mad, r->data, r->bytes);
	timer_heap_update(&c->requests, &r->timer, due(now, r->timeout_ms));
	mad_hop_put(c, r->file->port, &r->remote, mad);
}

/* Its time is up, or it cannot be sent. Linux shows the program the header alone. */
static void fail(struct mad_clients *c, struct request *r)
{
	struct mad_letter letter = { .agent = r->agent, .status = ETIMEDOUT, .timeout_ms = r->timeout_ms, .remote = r->remote,
				     .data = r->data, .bytes = r->bytes < MAD_HEADER_BYTES ? r->bytes : MAD_HEADER_BYTES };

	wire_put(r->data, r->own_tid, TID);
	if (r->timeout_ms)
		c->ops->deliver(c->arg, r->file, &letter);
	mad_request_free(c, r);
}

/* All segments were acknowledged: of a request an answer is awaited now. */
static void sent_all(struct mad_clients *c, wtime now, struct request *r)
{
	r->is_sending = false;
	r->has_come = true;
	timer_heap_update(&c->requests, &r->timer, wtime_min(due(now, r->timeout_ms), r->ends));
	if (!r->timeout_ms || is_response(r->data))
		mad_request_free(c, r);
}

/* The last ACK once more: the other side has not heard that it may answer. */
static void take_late_ack(struct mad_clients *c, const struct request *r, const struct mad_remote *sender,
			  const uint8_t mad[MAD_BYTES])
{
	uint8_t reply[MAD_BYTES];

	if (!r->is_segmented || !r->rmpp.is_two_sided || wire_get(mad, RMPP_TYPE) != RMPP_ACK ||
	    wire_get(mad, RMPP_DATA1) != r->rmpp.segments)
		return;
	rmpp_ack(mad, 0, 1, reply);
	mad_hop_put(c, r->file->port, sender, reply);
}

void mad_request_input(struct mad_clients *c, wtime now, struct request *r, const struct mad_remote *sender,
		       const uint8_t mad[MAD_BYTES])
{
	uint8_t reply[MAD_BYTES];
	enum rmpp_verdict verdict;
	bool answers;

	if (!r->is_sending) {
		take_late_ack(c, r, sender, mad);
		return;
	}
	verdict = rmpp_send_input(&r->rmpp, now, mad, &answers, reply);
	if (answers)
		mad_hop_put(c, r->file->port, &r->remote, reply);
	if (verdict == RMPP_GOES_ON)
		send_segments(c, now, r);
	else if (verdict == RMPP_DONE)
		sent_all(c, now, r);
	else
		fail(c, r);
}

void mad_request_hear_answer(struct mad_clients *c, wtime now, const struct mad_file *f, const uint8_t mad[MAD_BYTES])
{
	struct request *r = is_response(mad) ? mad_request_find(f, mad) : NULL;

	if (!r)
		return;
	r->is_sending = false;
	r->has_come = true;
	if (r->ends == WTIME_NEVER)
		r->ends = now + RMPP_TOTAL_NS + (mad_longest(c, mad) >> 20) * RMPP_TOTAL_EACH_NS +
			  (r->retries + 1ull) * r->timeout_ms * WTIME_MS;
	timer_heap_update(&c->requests, &r->timer, wtime_min(due(now, r->timeout_ms), r->ends));
}

void mad_request_expire(struct mad_clients *c, wtime now, struct request *r)
{
	enum rmpp_verdict verdict = RMPP_FAILED;
	uint8_t last[MAD_BYTES];

	if (r->is_sending && r->flow.gave_up) {
		rmpp_send_abort(&r->rmpp, RMPP_UNSPECIFIED, last);
		mad_hop_put(c, r->file->port, &r->remote, last);
	} else if (r->is_sending) {
		verdict = rmpp_send_expire(&r->rmpp, now, last);
		if (verdict == RMPP_FAILED)
			mad_hop_put(c, r->file->port, &r->remote, last);
	}
	if (verdict == RMPP_GOES_ON)
		send_segments(c, now, r);
	else if (r->is_sending || !r->retries || r->ends <= now)
		fail(c, r);
	else {
		r->retries--;
		mad_request_send(c, now, r);
	}
}
