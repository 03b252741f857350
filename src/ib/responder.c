/* Requests, in. The checks stand in the order of IBA 9.7.4.1, one question each; the first objection is the verdict, and
 * its row in verdict.def says what follows. Duplicates are responder_resources.c's, what goes out ack.c's. */
#include "ib/explain.h"
#include "ib/responder.h"

#include "ib/ack.h"
#include "ib/engine.h"
#include "ib/reflect.h"
#include "ib/request.h"
#include "ib/responder_resources.h"
#include "ib/verdict.h"
#include "ib/word.h"

#include "base/iov.h"
#include "base/log.h"
#include "verbs/direct.h"
#include "wire/header.h"
#include "wire/packet.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>

/* One request on its way through the checks. */
struct inbound {
	struct qp *qp;
	struct responder *r;
	const struct opcode_row *row;
	const struct packet *packet;	/* NULL: a direct message ... */
	const struct direct_message *direct;	/* ... which stands for all its packets, or NULL */
	bool begins, ends;		/* first packet of its message, last one */
	bool solicited;
	psn_t psn;
	struct { uint64_t va; uint32_t rkey, length; } reth;	/* of an atomic: its word */
	uint32_t trailer;		/* the immediate, or the key to invalidate */
	uint32_t srqn;			/* XRC */
	uint16_t slid;
	uint8_t sl;
	const void *payload;
	uint32_t bytes;			/* of it */
	const struct pd *pd;		/* whose memory it may use */
	struct mr *mr;			/* write and atomics: what it found; NULL for no bytes */
	uint64_t va;			/* of this packet's bytes */
};

enum { BOUNCE_BYTES = 4096 };

/* Of what is supported: reads and atomics. */
static bool needs_resource(enum opcode_op op)
{
	return op != OP_SEND && op != OP_WRITE;
}

/* A receive is used up by a send at its first packet, by a write with immediate at its last. */
static bool needs_receive(const struct inbound *in)
{
	if (in->row->op == OP_SEND)
		return in->begins;
	return in->row->op == OP_WRITE && in->row->headers & HDR_IMM;
}

static bool is_selective(const struct inbound *in)
{
	return in->packet && bth_is_selective(in->packet->resv.bth7) && engine_of(in->qp)->selective;
}

/* It came twice. Its sender wants to know, for it may have sent it again too soon; but what it awaits a response for may come
 * again for the response's sake. */
static void note_repeated(struct inbound *in)
{
	struct reorder *r = in->r->reorder;

	if (!r || !is_selective(in) || needs_resource(in->row->op))
		return;
	reflect_turn(in->qp);
	r->must_say = true;
	r->repeats++;
	r->repeated = in->psn;
}

/* A packet from beyond the expected one, of a peer that repeats selectively. Not direct messages: their bytes do not stay. */
static enum verdict hold(struct inbound *in)
{
	struct responder *r = in->r;

	if (!is_selective(in))
		return VERDICT_NEXT;
	switch (reorder_hold(in->qp->ca, r->reorder, r->psn, in->packet)) {
	case REORDER_HELD:
		if (r->phase == RESPONDER_READY)
			r->phase = RESPONDER_HOLDING;
		return VERDICT_HELD;
	case REORDER_HAD:
		note_repeated(in);
		return VERDICT_DUPLICATE;
	case REORDER_DISPUTED:
		return VERDICT_BEHIND_GAP;
	case REORDER_FULL:	/* its sender learns that from what is held: a NAK would have it send more again */
		return r->phase == RESPONDER_HOLDING ? VERDICT_BEHIND_GAP : VERDICT_NEXT;
	}
	return VERDICT_NEXT;
}

/* 9.7.4.1.1. UC: a gap loses the message under way, and what begins a new one is welcome (9.8.2.2). */
static enum verdict check_psn(struct inbound *in)
{
	struct responder *r = in->r;
	int order = psn_cmp(in->psn, r->psn);
	enum verdict v;

	if (in->qp->type == IBV_QPT_UC) {
		if (order && r->message != MESSAGE_NONE)
			responder_drop(in->qp, MESSAGE_LOST);
		return VERDICT_NEXT;
	}
	if (order == 0)
		return VERDICT_NEXT;
	if (order < 0) {
		note_repeated(in);
		return resources_answer_again(in->qp, in->packet, in->row);
	}
	v = hold(in);
	if (v)
		return v;
	return r->phase == RESPONDER_GAP || r->phase == RESPONDER_RNR ? VERDICT_BEHIND_GAP : VERDICT_OUT_OF_SEQUENCE;
}

/* 9.7.4.1.2, 9.8.2.2 */
static enum verdict check_sequence(struct inbound *in)
{
	struct responder *r = in->r;

	if (!in->begins) {
		enum responder_message begun = in->row->op == OP_SEND ? MESSAGE_SEND : MESSAGE_WRITE;

		return r->message == begun ? VERDICT_NEXT : VERDICT_BAD_SEQUENCE;
	}
	if (in->qp->type == IBV_QPT_UC && r->message != MESSAGE_NONE)
		responder_drop(in->qp, MESSAGE_NONE);
	return r->message == MESSAGE_NONE ? VERDICT_NEXT : VERDICT_BAD_SEQUENCE;
}

/* 9.7.4.1.3. FLUSH needs regions that grant it, which stock verbs cannot register. */
static enum verdict check_supported(struct inbound *in)
{
	return in->row->op == OP_FLUSH || in->row->op == OP_CNP ? VERDICT_UNSUPPORTED : VERDICT_NEXT;
}

static enum verdict check_enabled(struct inbound *in)
{
	uint32_t need = remote_rights(in->row->op);

	return (in->qp->attr.qp_access_flags & need) == need ? VERDICT_NEXT : VERDICT_NOT_ENABLED;
}

static enum verdict check_domain(struct inbound *in)
{
	return responder_pd(in->qp, in->srqn, &in->pd) ? VERDICT_NEXT : VERDICT_NO_SRQ;
}

/* 9.7.4.1.4: the oldest must have been answered before its place is taken. Once is enough: whoever asks for more has
 * the answer, and a replay still unsent is for a duplicate on the way. */
static enum verdict check_resource(struct inbound *in)
{
	struct responder *r = in->r;

	if (!needs_resource(in->row->op))
		return VERDICT_NEXT;
	if (r->depth == 0)
		return VERDICT_TOO_MANY;
	if (r->resources >= r->depth) {
		const struct resource *reused = responder_resource(r, r->resources - r->depth);

		if (!reused->answered)
			return VERDICT_TOO_MANY;
	}
	return VERDICT_NEXT;
}

/* Of what does not end its message. */
static bool fills_packets(const struct inbound *in)
{
	uint32_t mtu = engine_mtu(in->qp);

	return in->direct ? in->bytes && in->bytes % mtu == 0 : in->bytes == mtu;
}

/* The geometry of packets: 9.7.4.1.6. What a message may hold in all is checked before anything is taken for it. */
static enum verdict check_length(struct inbound *in)
{
	struct responder *r = in->r;
	uint32_t mtu = in->direct ? MESSAGE_MAX_BYTES : engine_mtu(in->qp), length;

	if (needs_resource(in->row->op)) {
		if (in->row->op == OP_CMP_SWAP || in->row->op == OP_FETCH_ADD)
			return VERDICT_NEXT;
		if (in->row->op == OP_ATOMIC_WRITE)
			return in->reth.length == ATOMIC_BYTES ? VERDICT_NEXT : VERDICT_BAD_LENGTH;
		return in->reth.length <= MESSAGE_MAX_BYTES ? VERDICT_NEXT : VERDICT_BAD_LENGTH;
	}
	if (in->bytes > mtu || (!in->ends && !fills_packets(in)) || (!in->begins && in->bytes == 0))
		return VERDICT_BAD_LENGTH;
	if (in->row->op == OP_SEND)
		return (uint64_t)r->offset * !in->begins + in->bytes <= MESSAGE_MAX_BYTES ? VERDICT_NEXT : VERDICT_BAD_LENGTH;
	length = in->begins ? in->reth.length : r->length - r->offset;
	if (length > MESSAGE_MAX_BYTES || (in->ends ? in->bytes != length : in->bytes >= length))
		return VERDICT_BAD_LENGTH;
	return VERDICT_NEXT;
}

static enum verdict check_alignment(struct inbound *in)
{
	if (in->row->op != OP_CMP_SWAP && in->row->op != OP_FETCH_ADD && in->row->op != OP_ATOMIC_WRITE)
		return VERDICT_NEXT;
	return in->reth.va % ATOMIC_BYTES ? VERDICT_MISALIGNED : VERDICT_NEXT;
}

/* 9.7.4.1.5: the first packet answers for the whole range, and every packet again for its own bytes. */
static enum verdict check_memory(struct inbound *in)
{
	int need = (int)remote_rights(in->row->op);
	uint64_t bytes = in->bytes;
	uint32_t rkey = in->begins ? in->reth.rkey : in->r->rkey;

	if (!need)
		return VERDICT_NEXT;
	in->va = in->begins ? in->reth.va : in->r->va + in->r->offset;
	if (in->begins)
		bytes = in->reth.length;
	return remote_check_pd(in->qp, in->pd, rkey, in->va, bytes, need, &in->mr) == REMOTE_OK ? VERDICT_NEXT : VERDICT_REFUSED;
}

/* 9.7.5.2.8. For XRC the packet says which SRQ gives the receive. */
static enum verdict check_receive(struct inbound *in)
{
	struct responder *r = in->r;
	struct srq *srq;

	if (!needs_receive(in))
		return VERDICT_NEXT;
	srq = in->qp->type == IBV_QPT_XRC_RECV ? srq_find(in->qp->ca, in->srqn) : NULL;
	if (!qp_recv_take(in->qp, srq, &r->receive))
		return VERDICT_NOT_READY;
	r->has_receive = true;
	return VERDICT_NEXT;
}

/* ---- execution: nothing after this objects to the request's form ---- */

/* The sender repeats the message as packets; the receive is given back, unless it has earlier parts. */
static enum verdict out_of_reach(struct inbound *in)
{
	if (in->begins)
		responder_drop(in->qp, MESSAGE_NONE);
	return VERDICT_OUT_OF_REACH;
}

/* Memory that cannot be borrowed is filled through ours. */
static enum verdict pull_in_pieces(struct inbound *in, struct pd *pd, uint32_t offset)
{
	const struct direct_message *m = in->direct;
	struct recv_ref *ref = &in->r->receive;
	uint8_t bounce[BOUNCE_BYTES];

	for (uint32_t at = 0, n; at < m->bytes; at += n) {
		struct iovec to = { bounce, n = m->bytes - at < sizeof(bounce) ? m->bytes - at : sizeof(bounce) };

		if (!in->qp->ca->direct->pull(in->qp->ca->direct_arg, in->qp, m, at, &to, 1))
			return out_of_reach(in);
		if (seg_scatter(pd, ref->seg, ref->num_sge, (uint64_t)offset + at, bounce, n) != IBV_WC_SUCCESS)
			return VERDICT_RECEIVE_PROTECTED;
	}
	return VERDICT_EXECUTED;
}

static enum verdict pull_send(struct inbound *in, struct pd *pd, uint32_t offset)
{
	const struct recv_ref *ref = &in->r->receive;
	const struct direct_ops *direct = in->qp->ca->direct;
	struct iovec all[DIRECT_IOVS], to[DIRECT_IOVS];
	int alls = seg_borrow(pd, ref->seg, ref->num_sge, IBV_ACCESS_LOCAL_WRITE, offset + in->bytes, all);
	unsigned tos;

	if (alls < 0)
		return pull_in_pieces(in, pd, offset);
	tos = iov_part(all, (unsigned)alls, offset, in->bytes, to);
	return direct->pull(in->qp->ca->direct_arg, in->qp, in->direct, 0, to, tos) ? VERDICT_EXECUTED : out_of_reach(in);
}

/* To its place in the receive. */
static enum verdict scatter_send(struct inbound *in, uint32_t offset)
{
	const struct recv_ref *ref = &in->r->receive;
	struct pd *pd = ref->is_srq ? ref->srq->pd : in->qp->pd;

	if (in->direct && in->direct->payload == PAYLOAD_RENDEZVOUS)
		return pull_send(in, pd, offset);
	if (seg_scatter(pd, ref->seg, ref->num_sge, offset, in->payload, in->bytes) != IBV_WC_SUCCESS)
		return VERDICT_RECEIVE_PROTECTED;
	return VERDICT_EXECUTED;
}

static enum verdict place_send(struct inbound *in)
{
	struct qp *qp = in->qp;
	struct responder *r = in->r;
	uint32_t offset = in->begins ? 0 : r->offset;
	enum verdict v;

	if (!qp->taken.own && !qp->taken.srq)
		return VERDICT_NO_SRQ;	/* destroyed while the message was under way */
	if ((uint64_t)offset + in->bytes > r->receive.length)
		return VERDICT_TOO_LONG;
	v = scatter_send(in, offset);
	if (v != VERDICT_EXECUTED)
		return v;
	wq_transferred(r->receive.is_srq ? &r->receive.srq->wq.engine : &qp->rq.engine, r->receive.seg, r->receive.num_sge,
		       (uint64_t)offset + in->bytes);
	if (in->row->headers & HDR_IETH && mr_invalidate(qp, in->trailer, true) != IBV_WC_SUCCESS)
		return VERDICT_NOT_INVALIDATED;
	return VERDICT_EXECUTED;
}

static enum verdict place_write(struct inbound *in)
{
	if (in->direct && in->direct->payload == PAYLOAD_PLACED)
		return VERDICT_EXECUTED;
	if (in->bytes && mr_write(in->mr, in->va, in->payload, in->bytes) < 0)
		return VERDICT_MEMORY_GONE;
	return VERDICT_EXECUTED;
}

static enum verdict answer_later(struct inbound *in)
{
	uint64_t original = 0;

	if (in->row->headers & HDR_ATOMICETH && word_change(in->qp, in->mr, in->va, in->row->op, in->packet->atomiceth.compare,
							    in->packet->atomiceth.swap_add, &original) < 0)
		return VERDICT_MEMORY_GONE;
	if (in->row->op == OP_ATOMIC_WRITE && word_write(in->qp, in->mr, in->va, in->payload) < 0)
		return VERDICT_MEMORY_GONE;
	resources_record(in->qp, in->packet, in->row, original);
	return VERDICT_ANSWERED;
}

static enum verdict execute(struct inbound *in)
{
	if (needs_resource(in->row->op))
		return answer_later(in);
	return in->row->op == OP_SEND ? place_send(in) : place_write(in);
}

static void complete_receive(struct inbound *in)
{
	struct responder *r = in->r;
	struct qp *qp = in->qp;
	struct cqe cqe = {
		.status = IBV_WC_SUCCESS, .byte_len = r->offset,
		.opcode = in->row->op == OP_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
		.src_qp = qp->attr.dest_qp_num, .slid = in->slid, .sl = in->sl, .pkey_index = qp->attr.pkey_index,
	};

	if (in->row->headers & HDR_IMM) {
		cqe.wc_flags = IBV_WC_WITH_IMM;
		cqe.imm = htobe32(in->trailer);
	} else if (in->row->headers & HDR_IETH) {
		cqe.wc_flags = IBV_WC_WITH_INV;
		cqe.imm = in->trailer;
	}
	r->has_receive = false;
	r->unacked_receives++;
	QP_COUNT(qp, rdma_recvs, 1);
	qp_recv_complete(qp, &r->receive, &cqe, in->solicited);
}

static uint32_t packets_of(const struct inbound *in)
{
	return in->direct ? request_packets(in->bytes, engine_mtu(in->qp)) : 1;
}

/* The packet was executed: what is expected next. */
static void advance(struct inbound *in)
{
	struct responder *r = in->r;
	struct qp *qp = in->qp;
	uint32_t span = packets_of(in);

	if (needs_resource(in->row->op))
		span = responder_resource(r, r->resources - 1)->span;
	else
		r->newest = 0;
	if (in->begins) {
		r->offset = 0;
		r->va = in->reth.va;
		r->rkey = in->reth.rkey;
		r->length = in->reth.length;
	}
	r->psn = psn_add(in->psn, span);
	r->offset += in->bytes;
	r->phase = RESPONDER_READY;
	if (r->due == DUE_NAK)
		r->due = DUE_ACK;	/* still unsent, and out of date: its packet has come */
	qp->bytes_received += in->bytes;
	if (!in->ends) {
		r->message = in->row->op == OP_SEND ? MESSAGE_SEND : MESSAGE_WRITE;
		return;
	}
	r->message = MESSAGE_NONE;
	r->msn = psn_add(r->msn, 1);
	qp->messages_received++;
	if (r->has_receive)
		complete_receive(in);
}

static enum verdict judge(struct inbound *in)
{
	enum verdict v;

	if ((v = check_psn(in)) || (v = check_sequence(in)) || (v = check_supported(in)) || (v = check_enabled(in)) ||
	    (v = check_domain(in)) || (v = check_resource(in)) || (v = check_length(in)) || (v = check_alignment(in)) ||
	    (v = check_memory(in)) || (v = check_receive(in)))
		return v;
	return execute(in);
}

void responder_drop(struct qp *qp, enum responder_message now)
{
	struct responder *r = &engine_of(qp)->responder;

	if (r->has_receive)
		qp_recv_untake(qp, &r->receive);
	r->has_receive = false;
	r->message = now;
}

static void fail_receive(struct qp *qp, enum ibv_wc_status status)
{
	struct responder *r = &engine_of(qp)->responder;
	struct cqe cqe = { .status = status, .opcode = IBV_WC_RECV, .src_qp = qp->attr.dest_qp_num };

	if (!r->has_receive)
		return;
	if (status == IBV_WC_SUCCESS) {
		responder_drop(qp, MESSAGE_NONE);
		return;
	}
	r->has_receive = false;
	qp_recv_complete(qp, &r->receive, &cqe, true);
}

/* 9.8.3: UC is silent. The rest of a broken message is dropped; a bad receive buffer is the receiver's own fault. */
static void follow_unreliable(struct inbound *in, enum verdict v, wtime now)
{
	const struct verdict_row *row = verdict_row(v);

	if (row->reply != REPLY_FATAL_NAK && v != VERDICT_NOT_READY)
		return;
	in->r->psn = psn_add(in->psn, packets_of(in));
	if (v != VERDICT_RECEIVE_PROTECTED) {
		responder_drop(in->qp, in->ends ? MESSAGE_NONE : MESSAGE_LOST);
		return;
	}
	explain_receive(in->qp, now, row->status);
	fail_receive(in->qp, row->status);
	qp_error(in->qp, now, row->event);
}

static void follow(struct inbound *in, enum verdict v, wtime now)
{
	const struct verdict_row *row = verdict_row(v);

	switch (row->reply) {
	case REPLY_NONE:
		break;
	case REPLY_IF_ASKED:
		ack_if_asked(in->qp, in->packet && in->packet->ack_requested, in->ends);
		break;
	case REPLY_ACK:
		ack_again(in->qp);
		break;
	case REPLY_NAK:
		in->r->phase = RESPONDER_GAP;
		ack_refuse(in->qp, in->r->psn, row->syndrome);
		break;
	case REPLY_RNR:
		in->r->phase = RESPONDER_RNR;
		ack_refuse(in->qp, in->r->psn, aeth_syndrome(AETH_RNR_NAK, in->qp->attr.min_rnr_timer));
		break;
	case REPLY_FATAL_NAK:
		log_line(LOG_INFO, "QP 0x%06x stops: %s of PSN 0x%06x is %s (IBA %s)", in->qp->qpn, in->row->name, in->psn,
			 row->name, row->clause);
		explain_verdict(in->qp, now, row);
		fail_receive(in->qp, row->status);
		responder_stop(in->qp, now, in->r->psn, row->syndrome, row->event);
		break;
	}
}

/* Our choice: a burst. Beside the sender's window it is little. */
enum { WITHHELD_MOST = 16 };

/* A program that polls has a receive to react to, and most likely answers. The ACK leaves with that, in one datagram and behind
 * it, and meanwhile the program is not made to wait for a packet that nobody waits for. */
static bool may_withhold(const struct inbound *in, enum verdict v)
{
	const struct responder *r = in->r;

	return in->qp->ca->acks.postpones && v == VERDICT_EXECUTED && r->due == DUE_ACK && !r->owing && in->ends && in->packet &&
	       (in->row->op == OP_SEND || in->row->headers & HDR_IMM) && engine_of(in->qp)->acks_as_usual &&
	       !reorder_has_news(r->reorder) && r->unacked < WITHHELD_MOST;
}

static void take(struct inbound *in, wtime now)
{
	struct qp *qp = in->qp;
	struct responder *r = in->r;
	enum verdict v;

	if (r->phase == RESPONDER_CLOSED || r->phase == RESPONDER_STOPPING)
		return;
	if (r->phase == RESPONDER_WAITING) {
		r->phase = RESPONDER_READY;
		qp_established(qp);
	}
	v = judge(in);
	if (verdict_row(v)->counter >= 0)
		ca_count(qp->ca, qp->dev, (unsigned)verdict_row(v)->counter, 1);
	if (v == VERDICT_EXECUTED || v == VERDICT_ANSWERED)
		advance(in);
	if (r->phase == RESPONDER_CLOSED)
		return;		/* the completion found its CQ overrun */
	if (qp->ca->direct && qp->published)
		qp->ca->direct->publish(qp->ca->direct_arg, qp, responder_received(r));
	if (!engine_is_reliable(qp)) {
		follow_unreliable(in, v, now);
		return;
	}
	follow(in, v, now);
	if (may_withhold(in, v))
		qp_withhold_ack(qp);
	else if (r->due != DUE_NOTHING || r->owing)
		qp_ready(qp);
}

static void take_packet(struct qp *qp, wtime now, const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	struct inbound in = {
		.qp = qp, .r = &engine_of(qp)->responder, .row = row, .packet = p,
		.begins = row->position == POS_FIRST || row->position == POS_ONLY,
		.ends = row->position == POS_LAST || row->position == POS_ONLY,
		.solicited = p->solicited, .psn = p->psn, .reth = { p->reth.va, p->reth.rkey, p->reth.length },
		.trailer = row->headers & HDR_IETH ? p->ieth_rkey : p->imm, .srqn = p->xrceth.srqn,
		.slid = p->path.slid, .sl = p->path.sl,
		.payload = p->payload_iovs ? p->payload->iov_base : NULL, .bytes = p->payload_bytes,
	};

	if (row->headers & HDR_ATOMICETH) {
		in.reth.va = p->atomiceth.va;
		in.reth.rkey = p->atomiceth.rkey;
		in.reth.length = ATOMIC_BYTES;
	}
	in.r->selective = is_selective(&in);
	take(&in, now);
}

/* Executes held packets up to the next gap. A packet for which nothing was ready comes again. */
static void take_held(struct qp *qp, wtime now)
{
	struct responder *r = &engine_of(qp)->responder;
	struct packet *p;

	while ((p = reorder_next(qp->ca, r->reorder, r->psn))) {
		take_packet(qp, now, p);
		reorder_release(qp->ca, p);
	}
	if (r->reorder->count && r->phase == RESPONDER_READY)
		r->phase = RESPONDER_HOLDING;
}

void responder_input(struct qp *qp, wtime now, const struct packet *p)
{
	reflect_follow(qp, p);
	take_packet(qp, now, p);
	if (reorder_holds(engine_of(qp)->responder.reorder))
		take_held(qp, now);
}

static void take_direct(struct qp *qp, wtime now, const struct direct_message *m)
{
	const struct opcode_row *row = opcode_row(m->opcode);
	struct inbound in = {
		.qp = qp, .r = &engine_of(qp)->responder, .row = row, .direct = m,
		.begins = row->position == POS_FIRST || row->position == POS_ONLY,
		.ends = row->position == POS_LAST || row->position == POS_ONLY,
		.solicited = m->solicited, .psn = m->psn, .reth = { m->va, m->rkey, m->bytes }, .trailer = m->trailer,
		.slid = qp->path.dlid, .sl = qp->path.sl, .payload = m->iovs ? m->iov->iov_base : NULL, .bytes = m->bytes,
	};

	take(&in, now);
}

bool responder_short(struct qp *qp, const void *data, uint32_t bytes, bool solicited)
{
	struct responder *r = &engine_of(qp)->responder;
	psn_t psn = r->psn;

	/* first: a completion that overruns its CQ stops the QP, which executes what else was promised, and this only once */
	r->psn = psn_add(psn, bytes <= MTU_LEAST_BYTES ? 1 : request_packets(bytes, engine_mtu(qp)));
	if (!qp_recv_short(qp, data, bytes, solicited)) {
		r->psn = psn;
		return false;
	}
	r->msn = psn_add(r->msn, 1);
	r->newest = 0;
	r->unacked_receives++;
	qp->bytes_received += bytes;
	qp->messages_received++;
	QP_COUNT(qp, rdma_recvs, 1);
	if (r->phase == RESPONDER_CLOSED)
		return true;		/* the completion found its CQ overrun */
	r->unacked++;
	if (qp->published)
		qp->ca->direct->publish(qp->ca->direct_arg, qp, responder_received(r));
	return true;
}

void responder_direct(struct qp *qp, wtime now, const struct direct_message *m)
{
	take_direct(qp, now, m);
	if (reorder_holds(engine_of(qp)->responder.reorder))
		take_held(qp, now);
}

/* ---- the responder's life ---- */

void responder_fini(struct qp *qp)
{
	struct responder *r = &engine_of(qp)->responder;

	reorder_forget(qp->ca, r->reorder);
	free(r->resource);
	free(r->reorder);
	r->resource = NULL;
	r->reorder = NULL;
}

void responder_resize(struct qp *qp)
{
	struct responder *r = &engine_of(qp)->responder;
	uint32_t depth = engine_is_reliable(qp) ? qp->attr.max_dest_rd_atomic : 0;

	if (depth == r->depth)
		return;
	free(r->resource);
	r->resource = depth ? calloc(depth, sizeof(*r->resource)) : NULL;
	r->depth = r->resource ? depth : 0;
	r->resources = r->newest = r->owing = r->parts = 0;
}

void responder_open(struct qp *qp)
{
	const struct ib_options *options = &engine_of(qp)->options;
	struct responder *r = &engine_of(qp)->responder;

	reflect_close(qp);
	r->phase = RESPONDER_WAITING;
	r->psn = qp->attr.rq_psn;
	r->msn = options->profile == IB_SEED ? psn_add(options->start_msn, -1) : 0;	/* MSN-12, MSN-47 */
	r->start_msn = options->start_msn;
	r->due = DUE_NOTHING;
	r->message = MESSAGE_NONE;
	r->unacked = r->unacked_receives = 0;
	r->resources = r->newest = r->owing = r->parts = 0;
	if (engine_of(qp)->selective)
		reorder_open(qp->ca, &r->reorder);
}

/* verbs completes or forgets a receive in hand with the rest of the queue. */
void responder_close(struct qp *qp, enum ibv_qp_state to)
{
	struct responder *r = &engine_of(qp)->responder;

	r->has_receive = false;
	r->message = MESSAGE_NONE;
	reorder_forget(qp->ca, r->reorder);
	if (to == IBV_QPS_ERR && r->phase == RESPONDER_STOPPING)
		return;
	r->phase = RESPONDER_CLOSED;
	r->due = DUE_NOTHING;
}

void responder_stop(struct qp *qp, wtime now, psn_t psn, uint8_t syndrome, int event)
{
	ack_refuse(qp, psn, syndrome);
	engine_of(qp)->responder.phase = RESPONDER_STOPPING;
	qp_error(qp, now, event);
	qp_ready(qp);
}

struct resource *responder_resource(const struct responder *r, uint32_t index)
{
	return &r->resource[index % r->depth];
}

bool responder_pd(struct qp *qp, uint32_t srqn, const struct pd **pd)
{
	const struct srq *srq;

	*pd = qp->pd;
	if (qp->type != IBV_QPT_XRC_RECV)
		return true;
	srq = srq_find(qp->ca, srqn);
	if (!srq || srq->type != IBV_SRQT_XRC || srq->xrcd != qp->xrcd)
		return false;
	*pd = srq->pd;
	return true;
}

void responder_check(const struct qp *qp)
{
	const struct responder *r = &engine_of(qp)->responder;
	uint32_t owing = 0;

	weft_bug_on(r->psn > PSN_MASK || r->msn > PSN_MASK);
	weft_bug_on(r->has_receive && !(r->message == MESSAGE_SEND));
	weft_bug_on(reorder_holds(r->reorder) && r->phase < RESPONDER_GAP);
	reorder_check(qp->ca, r->reorder, r->psn);
	weft_bug_on(r->phase == RESPONDER_CLOSED && (r->due != DUE_NOTHING || r->message != MESSAGE_NONE));
	for (uint32_t i = r->resources > r->depth ? r->resources - r->depth : 0; i < r->resources; i++) {
		const struct resource *res = responder_resource(r, i);

		weft_bug_on(res->next > res->end || res->end > res->span);
		owing += res->next != res->end;
	}
	weft_bug_on(owing + r->parts != r->owing);
	weft_bug_on(r->newest > r->depth || r->newest > r->resources);
}
