/* What the peer executed is read from memory, a PSN that covers all before it; the receiver of a message refuses it as it
 * would refuse its packets, and then they are sent. No ACK timer is started by sending: whole_collect does, soon after. */
#include "ib/whole.h"

#include "base/iov.h"
#include "ib/completer.h"
#include "ib/engine.h"
#include "ib/path.h"
#include "ib/requester.h"
#include "ib/timer.h"

#include <endian.h>

enum {
	PARTS_MOST = 4,		/* of a long send in flight: our choice, as other messages wait behind them */
	PLAIN_MOST = 256,	/* bytes: the least MTU, IBA 9.4 */
};

static enum direct_payload payload_of(const struct send_wqe *wqe)
{
	return wqe->length > WHOLE_CARRIES ? PAYLOAD_PULLED : PAYLOAD_CARRIED;
}

static inline bool has_lane(struct qp *qp)
{
	return lane_is_good(&qp->lane) || qp->ca->direct->connect(qp->ca->host, qp);
}

/* A pulled message borrows its buffer until the peer has told; UC's peer never tells. */
static uint32_t most_bytes(const struct qp *qp, const struct request_row *row, bool placed)
{
	bool may_be_pulled = row->op == OP_SEND && engine_is_reliable(qp);

	return placed ? REQUEST_MAX_BYTES : may_be_pulled ? DIRECT_LONG - 1 : WHOLE_CARRIES;
}

static inline bool describe(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed,
		     struct direct_message *m, struct iovec iov[DIRECT_IOVS])
{
	const struct engine *e = engine_of(qp);
	int opcode = opcode_find(engine_service(qp), row->op, POS_ONLY, row->trailer), iovs;

	if (opcode < 0 || wqe->bad_status || (wqe->length > WHOLE_CARRIES && wqe->length > most_bytes(qp, row, placed)))
		return false;
	*m = (struct direct_message){
		.opcode = (uint8_t)opcode, .payload = placed ? PAYLOAD_PLACED : payload_of(wqe),
		.solicited = wqe->flags & IBV_SEND_SOLICITED && (row->op == OP_SEND || row->trailer == HDR_IMM),
		.dest_qpn = qp->attr.dest_qp_num, .src_qpn = qp->qpn, .psn = e->flight.psn,
		.received = psn_add(e->responder.psn, -1), .trailer = row->trailer == HDR_IMM ? be32toh(wqe->imm) : wqe->imm,
		.va = wqe->remote_addr, .rkey = wqe->rkey, .bytes = wqe->length, .iov = iov,
	};
	if (placed)
		return true;
	iovs = requester_borrow(qp, wqe, 0, iov);
	m->iovs = (unsigned)iovs;
	return iovs >= 0;
}

static inline void book(struct qp *qp, uint32_t packets)
{
	struct flight *f = &engine_of(qp)->flight;

	*flight_at(f, f->newest) = (struct flight_entry){
		.psn = f->psn, .span = packets, .wqe = qp->sq.started, .answer = ANSWER_ACK, .path = path_choose(qp),
		.is_last = true, .is_whole = true,
	};
	flight_recorded(f);
	if (!list_linked(&qp->awaiting))
		qp_await(qp);
}

static inline void count(struct qp *qp, uint32_t bytes)
{
	qp->messages_sent++;
	qp->ca->counters.direct_sends++;
	qp->ca->counters.direct_bytes += bytes;
	qp->bytes_sent += bytes;
}

/* Whoever chose how ACKs are made wants packets. */
static bool may_send(const struct engine *e)
{
	return e->acks_as_usual && e->flight.resend == e->flight.newest;
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
		.psn = f->psn, .span = span, .wqe = qp->sq.started, .packet = f->packet, .answer = ANSWER_ACK,
		.path = path_choose(qp), .is_last = ends, .is_whole = true,
	};
	struct iovec part[DIRECT_IOVS];
	struct direct_message m = {
		.opcode = (uint8_t)opcode_find(engine_service(qp), row->op, position, ends ? row->trailer : 0),
		.payload = PAYLOAD_PULLED, .solicited = ends && wqe->flags & IBV_SEND_SOLICITED, .dest_qpn = qp->attr.dest_qp_num,
		.src_qpn = qp->qpn, .psn = f->psn, .received = psn_add(e->responder.psn, -1),
		.trailer = row->trailer == HDR_IMM ? be32toh(wqe->imm) : wqe->imm, .bytes = bytes, .iov = part,
		.iovs = iov_part(iov, iovs, f->copied, bytes, part),
	};

	if (!qp->ca->direct->send(qp->ca->host, qp, &m))
		return false;
	flight_record(f, &entry);
	if (!list_linked(&qp->awaiting))
		qp_await(qp);
	qp->ca->counters.direct_sends += ends;
	qp->ca->counters.direct_bytes += bytes;
	qp->messages_sent += ends;
	qp->bytes_sent += bytes;
	f->copied += bytes;
	f->packet += span;
	return true;
}

/* In the window; what a message of the peer has acknowledged already makes some. */
static bool has_room(struct qp *qp, uint32_t packets)
{
	const struct flight *f = &engine_of(qp)->flight;

	return flight_has_room(f, packets) || (completer_settle(qp) && flight_has_room(f, packets));
}

static bool has_place_for_part(struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	return f->newest - f->oldest < PARTS_MOST || (completer_settle(qp) && f->newest - f->oldest < PARTS_MOST);
}

static enum shortcut no_room(struct qp *qp)
{
	qp->ca->starved = true;
	return SHORTCUT_LATER;
}

static bool goes_in_parts(const struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	return row->op == OP_SEND && engine_is_reliable(qp) && wqe->length >= DIRECT_LONG;
}

/* A long send crosses in parts of many packets each, as shorter ones do in packets: the receiver does not pull all at once, and
 * each part is acknowledged for itself. */
static enum shortcut send_parts(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	struct flight *f = &engine_of(qp)->flight;
	struct iovec iov[DIRECT_IOVS];
	int iovs = requester_borrow(qp, wqe, 0, iov);

	if (iovs < 0)
		return SHORTCUT_NONE;
	while (f->copied < wqe->length) {
		uint32_t left = wqe->length - f->copied, bytes = left < DIRECT_LONG ? left : DIRECT_SLICE;

		if (!has_place_for_part(qp) || !has_room(qp, request_packets(bytes, engine_mtu(qp))))
			return no_room(qp);
		if (!send_part(qp, wqe, row, iov, (unsigned)iovs, bytes))
			return SHORTCUT_NONE;
	}
	f->packet = f->copied = 0;
	return SHORTCUT_DONE;
}

static enum shortcut send_any(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed)
{
	struct flight *f = &engine_of(qp)->flight;
	uint32_t packets = request_packets(wqe->length, engine_mtu(qp));
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;

	if (f->window && !has_room(qp, packets))
		return no_room(qp);
	if (!describe(qp, wqe, row, placed, &m, iov))
		return goes_in_parts(qp, wqe, row) ? send_parts(qp, wqe, row) : SHORTCUT_NONE;
	if (!qp->ca->direct->send(qp->ca->host, qp, &m))
		return SHORTCUT_NONE;
	if (f->window)
		book(qp, packets);
	else
		f->psn = psn_add(f->psn, packets);
	if (placed)	/* the write was counted */
		qp->ca->counters.direct_sends++;
	else
		count(qp, m.bytes);
	return SHORTCUT_DONE;
}

/* As most messages are: of one packet whatever the MTU, and of one segment. Then what describe() says of them is known but for
 * where the bytes are; NULL: it must say. */
static inline const void *plain_data(const struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->opcode != IBV_WR_SEND || wqe->length - 1 >= PLAIN_MOST || qp->type != IBV_QPT_RC ||
	    wqe->flags & IBV_SEND_SOLICITED)
		return NULL;
	if (wqe->flags & IBV_SEND_INLINE)
		return wqe->seg;
	return wqe->num_sge == 1 && wqe->seg->length == wqe->length ? seg_memory(qp->pd, wqe->seg, 0) : NULL;
}

static inline enum shortcut send_plain(struct qp *qp, const void *data, uint32_t bytes)
{
	const struct engine *e = engine_of(qp);
	psn_t received = psn_add(e->responder.psn, -1);

	if (!has_room(qp, 1))
		return no_room(qp);
	if (!qp->ca->direct->send_plain(qp->ca->host, qp, e->flight.psn, received, data, bytes))
		return SHORTCUT_NONE;
	book(qp, 1);
	count(qp, bytes);
	return SHORTCUT_DONE;
}

enum shortcut whole_send(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed)
{
	const void *data;

	if (row->kind != REQUEST_DATA || !may_send(engine_of(qp)) || !has_lane(qp))
		return SHORTCUT_NONE;
	data = plain_data(qp, wqe);
	return data ? send_plain(qp, data, wqe->length) : send_any(qp, wqe, row, placed);
}

bool whole_collect(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;
	bool moved = false;
	psn_t psn;

	if (qp->ca->direct && qp->ca->direct->received(qp->ca->host, qp, &psn))
		moved = completer_acknowledge(qp, now, psn);
	if (f->phase == FLIGHT_CLOSED || flight_empty(f))
		list_remove(&qp->awaiting);
	else if (f->phase == FLIGHT_OPEN)
		timer_packet_sent(qp, now);
	qp_rearm(qp);
	return moved;
}

bool whole_is_for(struct qp *qp, const void *channel, const struct direct_message *m)
{
	if (qp->attr.dest_qp_num != m->src_qpn || opcode_row(m->opcode)->service != engine_service(qp) || !engine_receives(qp))
		return false;
	if (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_UC)
		return false;
	return qp->lane.channel == channel ||
	       (qp->ca->direct->connect(qp->ca->host, qp) && qp->lane.channel == channel);
}

void whole_input(struct qp *qp, wtime now, const struct direct_message *m)
{
	bool acknowledges = engine_is_reliable(qp) && !flight_empty(&engine_of(qp)->flight);

	if (acknowledges)
		completer_note(qp, m->received);
	responder_whole(qp, now, m);
	/* whoever sleeps until a send completes is not made to wait for a poll */
	if (acknowledges && (!qp->ca->defers || qp->send_cq->arm != CQ_DISARMED))
		completer_settle(qp);
}
