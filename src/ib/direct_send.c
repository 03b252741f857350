/* A send, or a write with immediate data, needs the receive queue of the target's program. Between two processes of a host it
 * crosses the ring as one record (direct/record.h): no frame, no ICRC, no packets of the size of the MTU.
 *
 * The sender books the message in its flight as one entry, which takes the PSNs of all the packets that it stands for. So
 * messages and packets of a QP may follow each other in any order: the ring keeps it, and the responder checks it. The
 * receiver judges the message as it judges packets, and draws the same NAK; what is sent again is packets. Timers, retries,
 * statuses, events and MSNs are one engine's. A book of messages apart from PSNs would be a second transport.
 *
 * Up to DIRECT_EAGER_MAX bytes are in the record (eager); more are read from the sender's memory straight into the receive
 * (rendezvous). The initiator places the bytes of a longer write with immediate data first, as for any write. A long send is
 * cut into FIRST, MIDDLE and LAST parts of 2 MB, each of which is acknowledged by itself and refused by itself.
 *
 * A message may promise that its sender has receives that can refuse nothing: so many, of so many bytes (verbs/qp.h). What they
 * cover is complete when it is in the ring and the peer is seen to be as it was, after that. The ring delivers it, as an adapter
 * that has acknowledged it would, also of a sender that has ended. Whatever would break a promise first executes what is in the
 * ring (direct_ops.keep_promise). Requests that would overtake the ring go as messages or packets behind it.
 *
 * No ACK is sent. The receiver keeps the last PSN that its QP executed in a word of its share, and each message carries the
 * same of the other direction. The sender reads the word when it polls in vain or goes to sleep; in a ping-pong nobody reads
 * it. Sending starts no ACK timer, as that costs a look at the clock: direct_send_reap_acks starts it. */
#include "ib/direct_send.h"

#include "base/iov.h"
#include "ib/completer.h"
#include "ib/direct_load.h"
#include "ib/engine.h"
#include "ib/requester.h"
#include "ib/timer.h"

#include <endian.h>

enum {
	PARTS_MOST = 4,		/* of a long send in flight: our choice, as other messages wait behind them */
};

static enum direct_payload payload_of(const struct send_wqe *wqe)
{
	return wqe->length > DIRECT_EAGER_MAX ? PAYLOAD_RENDEZVOUS : PAYLOAD_EAGER;
}

static inline bool has_direct_path(struct qp *qp)
{
	return direct_path_is_current(&qp->direct_path) || qp->ca->direct->connect(qp->ca->direct_arg, qp);
}

/* A rendezvous message borrows its buffer until the peer has acknowledged it; UC's peer never does. */
static uint32_t most_bytes(const struct qp *qp, const struct request_row *row, bool placed)
{
	bool may_rendezvous = row->op == OP_SEND && engine_is_reliable(qp);

	return placed ? MESSAGE_MAX_BYTES : may_rendezvous ? DIRECT_LONG - 1 : DIRECT_EAGER_MAX;
}

static inline bool describe(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed,
		     struct direct_message *m, struct iovec iov[DIRECT_IOVS])
{
	const struct engine *e = engine_of(qp);
	int opcode = opcode_find(engine_service(qp), row->op, POS_ONLY, row->trailer), iovs;

	if (opcode < 0 || wqe->bad_status || (wqe->length > DIRECT_EAGER_MAX && wqe->length > most_bytes(qp, row, placed)))
		return false;
	*m = (struct direct_message){
		.opcode = (uint8_t)opcode, .payload = placed ? PAYLOAD_PLACED : payload_of(wqe),
		.solicited = wqe->flags & IBV_SEND_SOLICITED && (row->op == OP_SEND || row->trailer == HDR_IMM),
		.dest_qpn = qp->attr.dest_qp_num, .src_qpn = qp->qpn, .psn = e->flight.psn,
		.received = responder_received(&e->responder), .trailer = row->trailer == HDR_IMM ? be32toh(wqe->imm) : wqe->imm,
		.va = wqe->remote_addr, .rkey = wqe->rkey, .bytes = wqe->length, .iov = iov,
	};
	if (placed)
		return true;
	iovs = requester_borrow(qp, wqe, 0, iov);
	m->iovs = (unsigned)iovs;
	return iovs >= 0;
}

/* is_short is a constant: of a message that was sent when flight_recorded_short holds. */
static inline __attribute__((always_inline)) void book(struct qp *qp, uint32_t packets, bool is_short)
{
	struct flight *f = &engine_of(qp)->flight;

	*flight_at(f, f->newest) = (struct flight_entry){
		.psn = f->psn, .span = packets, .wqe = qp->sq.engine.started, .answer = ANSWER_ACK, .is_last = true,
		.is_direct = true,
	};
	if (is_short) {
		flight_recorded_short(f);
	} else {
		flight_recorded(f);
		qp->direct_path.promised = 0;
	}
	if (!list_linked(&qp->unacked))
		qp_await_ack(qp);
}

static inline void count(struct qp *qp, uint32_t bytes)
{
	qp->messages_sent++;
	qp->ca->counters.direct_sends++;
	qp->ca->counters.direct_bytes += bytes;
	qp->bytes_sent += bytes;
}

/* A QP whose options choose when ACKs are made uses packets. */
static bool may_send(const struct engine *e)
{
	return e->acks_as_usual && e->flight.phase == FLIGHT_OPEN && e->flight.resend == e->flight.newest;
}

/* The next part of a long send. False: use packets for the rest. */
static bool send_part(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, const struct iovec *iov,
		      unsigned iovs, uint32_t bytes)
{
	struct engine *e = engine_of(qp);
	struct flight *f = &e->flight;
	uint32_t span = request_packets(bytes, engine_mtu(qp));
	bool ends = f->copied + bytes == wqe->length;
	enum opcode_position position = ends ? POS_LAST : f->copied ? POS_MIDDLE : POS_FIRST;
	struct flight_entry entry = {
		.psn = f->psn, .span = span, .wqe = qp->sq.engine.started, .packet = f->packet, .answer = ANSWER_ACK,
		.is_last = ends, .is_direct = true,
	};
	struct iovec part[DIRECT_IOVS];
	struct direct_message m = {
		.opcode = (uint8_t)opcode_find(engine_service(qp), row->op, position, ends ? row->trailer : 0),
		.payload = PAYLOAD_RENDEZVOUS, .solicited = ends && wqe->flags & IBV_SEND_SOLICITED,
		.dest_qpn = qp->attr.dest_qp_num, .src_qpn = qp->qpn, .psn = f->psn,
		.received = responder_received(&e->responder),
		.trailer = row->trailer == HDR_IMM ? be32toh(wqe->imm) : wqe->imm, .bytes = bytes, .iov = part,
		.iovs = iov_part(iov, iovs, f->copied, bytes, part),
	};

	if (!qp->ca->direct->send(qp->ca->direct_arg, qp, &m))
		return false;
	flight_record(f, &entry);
	qp->direct_path.promised = 0;
	if (!list_linked(&qp->unacked))
		qp_await_ack(qp);
	direct_load_count(qp, OP_SEND, ends ? row->trailer : 0, bytes);
	qp->ca->counters.direct_sends += ends;
	qp->ca->counters.direct_bytes += bytes;
	qp->messages_sent += ends;
	qp->bytes_sent += bytes;
	f->copied += bytes;
	f->packet += span;
	return true;
}

/* Of the window: an ACK that a message of the peer brought makes some. */
static bool has_room(struct qp *qp, uint32_t packets)
{
	const struct flight *f = &engine_of(qp)->flight;

	return flight_has_room(f, packets) || (completer_ack_postponed(qp) && flight_has_room(f, packets));
}

static bool has_place_for_part(struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	return f->newest - f->oldest < PARTS_MOST || (completer_ack_postponed(qp) && f->newest - f->oldest < PARTS_MOST);
}

static enum direct_outcome no_room(struct qp *qp)
{
	qp->ca->acks.starved = true;
	return DIRECT_LATER;
}

static bool link_has_room(struct qp *qp)
{
	return qp->ca->ops->space(qp->ca->owner, qp->dev, qp_route(qp), NULL);
}

/* The QP is blocked until the link has room. */
static enum direct_outcome no_room_in_link(struct qp *qp)
{
	qp_ready(qp);
	return DIRECT_LATER;
}

static bool goes_in_parts(const struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	return row->op == OP_SEND && engine_is_reliable(qp) && wqe->length >= DIRECT_LONG;
}

/* A long send crosses in parts of many packets each, as shorter ones do in packets: the receiver does not pull all at once, and
 * each part is acknowledged for itself. */
static enum direct_outcome send_parts(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	struct flight *f = &engine_of(qp)->flight;
	struct iovec iov[DIRECT_IOVS];
	int iovs = requester_borrow(qp, wqe, 0, iov);

	if (iovs < 0)
		return DIRECT_NONE;
	while (f->copied < wqe->length) {
		uint32_t left = wqe->length - f->copied, bytes = left < DIRECT_LONG ? left : DIRECT_SLICE;

		if (!has_place_for_part(qp) || !has_room(qp, request_packets(bytes, engine_mtu(qp))))
			return no_room(qp);
		if (!send_part(qp, wqe, row, iov, (unsigned)iovs, bytes))
			return link_has_room(qp) ? DIRECT_NONE : no_room_in_link(qp);
	}
	f->packet = f->copied = 0;
	return DIRECT_DONE;
}

/* Would it be one packet? */
static inline bool is_short(const struct qp *qp, uint32_t bytes)
{
	return bytes - 1 < MTU_LEAST_BYTES || bytes - 1 < engine_mtu(qp);
}

/* The bytes of a short send, as most sends are: one packet, one segment. NULL: the send is not short. */
static inline const void *short_data(const struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->opcode != IBV_WR_SEND || !is_short(qp, wqe->length) || qp->type != IBV_QPT_RC)
		return NULL;
	if (wqe->flags & IBV_SEND_INLINE)
		return wqe->seg;
	return wqe->num_sge == 1 && wqe->seg->length == wqe->length ? seg_memory(qp->pd, wqe->seg, wqe->length, 0) : NULL;
}

/* May this message be taken for executed, and is all before it? It is not beyond the promise, whose PSNs are few; once one is,
 * the promise is used up, and its PSNs, when they come again, promise nothing. Whoever sleeps until the send completes gets an
 * ACK. */
static inline bool is_promised(struct qp *qp, psn_t psn, uint32_t bytes)
{
	struct direct_path *path = &qp->direct_path;
	const struct engine *e = engine_of(qp);

	if ((uint32_t)psn_diff(path->limit, psn) - 1 >= PROMISE_RECEIVES)
		path->promised = 0;
	if (bytes > path->promised || !qp->ca->acks.postpones || qp->send_cq->arm != CQ_DISARMED)
		return false;
	return flight_empty(&e->flight) || (list_linked(&qp->postponed) &&
					    psn_add(e->trusts ? e->trusted_psn : e->postponed_psn, 1) == psn);
}

/* Sends these bytes as a short message, which takes one PSN. There is room for it in the window. The record goes first, as the
 * peer waits for it, and the books follow. False: not this way. */
static inline __attribute__((always_inline)) bool send_short(struct qp *qp, const void *data, uint32_t bytes,
								     bool solicited)
{
	struct engine *e = engine_of(qp);
	psn_t psn = e->flight.psn;
	bool is_sure;

	if (!qp->ca->direct->send_short(qp->ca->direct_arg, qp, psn, responder_received(&e->responder), data, bytes,
				     solicited))
		return false;
	is_sure = is_promised(qp, psn, bytes);
	book(qp, 1, true);
	if (is_sure)
		completer_trust(qp, psn);
	count(qp, bytes);
	direct_load_count(qp, OP_SEND, 0, bytes);
	return true;
}

static enum direct_outcome take_short(struct qp *qp, const void *data, const struct send_wqe *wqe)
{
	if (!has_room(qp, 1))
		return no_room(qp);
	return send_short(qp, data, wqe->length, wqe->flags & IBV_SEND_SOLICITED) ? DIRECT_DONE : DIRECT_NONE;
}

static enum direct_outcome take_any(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed)
{
	struct engine *e = engine_of(qp);
	uint32_t packets = request_packets(wqe->length, engine_mtu(qp)), bytes = wqe->length;
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;

	if (e->flight.window && !has_room(qp, packets))
		return no_room(qp);
	if (!describe(qp, wqe, row, placed, &m, iov))
		return goes_in_parts(qp, wqe, row) ? send_parts(qp, wqe, row) : DIRECT_NONE;
	if (!qp->ca->direct->send(qp->ca->direct_arg, qp, &m))
		return DIRECT_NONE;
	if (e->flight.window)
		book(qp, packets, false);
	else
		flight_left(&e->flight, packets);
	if (placed) {	/* the write was counted */
		qp->ca->counters.direct_sends++;
		direct_load_count_immediate(qp);
	} else {
		count(qp, bytes);
		direct_load_count(qp, row->op, row->trailer, bytes);
	}
	return DIRECT_DONE;
}

enum direct_outcome direct_send_take(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed)
{
	const void *data;

	if (row->kind != REQUEST_DATA || !may_send(engine_of(qp)) || !has_direct_path(qp))
		return DIRECT_NONE;
	data = short_data(qp, wqe);
	return data ? take_short(qp, data, wqe) : take_any(qp, wqe, row, placed);
}

/* What direct_take and direct_send_take ask of a short send, where no request stands before it. */
static inline bool sends_short(const struct qp *qp)
{
	const struct engine *e = engine_of(qp);
	const struct flight *f = &e->flight;

	return e->takes_short && f->phase == FLIGHT_OPEN && f->resend == f->newest && f->psn == f->fresh && !qp->send_cq->asked &&
	       engine_may_go_directly(qp) && direct_path_is_current(&qp->direct_path) && flight_has_room(f, 1);
}

bool direct_send_post(struct qp *qp, const struct wqe_seg *seg, unsigned flags)
{
	const void *data;

	if (!is_short(qp, seg->length) || !sends_short(qp))
		return false;
	data = flags & IBV_SEND_INLINE ? (const void *)(uintptr_t)seg->addr : qp_send_memory(qp, seg);
	if (!data || !send_short(qp, data, seg->length, flags & IBV_SEND_SOLICITED))
		return false;
	engine_of(qp)->detours = 0;
	return true;
}

/* The peer says what it has executed. */
static inline void note_executed(struct qp *qp, psn_t received)
{
	struct engine *e = engine_of(qp);

	e->is_ahead = e->is_ahead && psn_cmp(received, e->sure_psn) < 0;
}

bool direct_send_reap_acks(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;
	bool moved = false;
	psn_t psn;

	if (qp->ca->direct && qp->ca->direct->received(qp->ca->direct_arg, qp, &psn)) {
		note_executed(qp, psn);
		moved = completer_acknowledge(qp, now, psn);
	}
	if (f->phase == FLIGHT_CLOSED || flight_empty(f))
		list_remove(&qp->unacked);
	else if (f->phase == FLIGHT_OPEN)
		timer_start(qp, now);
	engine_rearm(qp);
	return moved;
}

bool direct_send_is_for(const struct qp *qp, const struct direct_message *m)
{
	return qp->kind <= QP_KIND_UD && opcode_row(m->opcode)->service == engine_service(qp) && engine_receives(qp);
}

bool direct_send_is_of_peer(struct qp *qp, const void *channel, const struct direct_message *m)
{
	if (qp->attr.dest_qp_num != m->src_qpn)
		return false;
	return qp->direct_path.channel == channel ||
	       (qp->ca->direct->connect(qp->ca->direct_arg, qp) && qp->direct_path.channel == channel);
}

bool direct_send_is_executed(struct qp *qp)
{
	psn_t psn;

	if (engine_of(qp)->is_ahead && qp->ca->direct->received(qp->ca->direct_arg, qp, &psn))
		note_executed(qp, psn);
	return !engine_of(qp)->is_ahead;
}

/* Before a message of the peer is executed, which acknowledges ours. Does it? */
static inline bool note_ack(struct qp *qp, psn_t received)
{
	if (!engine_is_reliable(qp))
		return false;
	note_executed(qp, received);
	if (flight_empty(&engine_of(qp)->flight))
		return false;
	completer_postpone_ack(qp, received);
	return true;
}

/* Whoever sleeps until a send completes is not made to wait for a poll. */
static inline bool is_awaited(const struct qp *qp)
{
	return !qp->ca->acks.postpones || qp->send_cq->arm != CQ_DISARMED;
}

void direct_send_input(struct qp *qp, wtime now, const struct direct_message *m)
{
	bool acknowledges = note_ack(qp, m->received);

	responder_direct(qp, now, m);
	if (acknowledges && is_awaited(qp))
		completer_ack_postponed(qp);
}

/* A short message, as most are: an eager send with the PSN expected, while no other message is half arrived and no answer is
 * due. Judging one asks besides only about the receive; responder_short asks that. The phase says that the QP's state receives.
 * A second way beside responder_direct, with which engine/short_test compares it: it takes half the instructions, as a receive is
 * not held, filled and completed by calls into verbs. */
static inline bool expects_short(const struct qp *qp, psn_t psn)
{
	const struct engine *e = engine_of(qp);
	const struct responder *r = &e->responder;

	return psn == r->psn && e->takes_short && r->phase == RESPONDER_READY && r->message == MESSAGE_NONE &&
	       r->due == DUE_NOTHING && !r->owing;
}

/* The peer is in this process, and its message is executed. Nobody reads our word or waits for a message of ours to tell it. */
static void acknowledge_own(const struct qp *qp, psn_t psn)
{
	struct qp *peer = qp_find(qp->ca, qp->attr.dest_qp_num);

	if (!peer || peer->attr.dest_qp_num != qp->qpn)
		return;
	completer_acknowledge(peer, WTIME_NEVER, psn);
	engine_rearm(peer);
}

bool direct_send_short_input(struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited)
{
	const struct responder *r = &engine_of(qp)->responder;
	bool acknowledges;

	if (!expects_short(qp, psn))
		return false;
	acknowledges = note_ack(qp, received);
	if (!responder_short(qp, data, bytes, solicited))
		return false;
	if (qp->route.kind == ROUTE_LOOP && r->phase == RESPONDER_READY)	/* or the completion found its CQ overrun */
		acknowledge_own(qp, psn);
	if (acknowledges && is_awaited(qp))
		completer_ack_postponed(qp);
	else if (r->phase == RESPONDER_READY)
		return true;	/* no timer has changed */
	qp_rearm(qp);
	return true;
}
