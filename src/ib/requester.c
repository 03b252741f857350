/* From WQEs to packets. A failing WQE is found when its packet is made, and completes when those before it have: until
 * then making the packet is tried again, which costs nothing and remembers nothing. IBA 9.7.3.1, 10.7.2.1. */
#include "ib/explain.h"
#include "ib/requester.h"

#include "ib/answers.h"
#include "ib/completer.h"
#include "ib/direct_rma.h"
#include "ib/engine.h"
#include "ib/msn_exchange.h"
#include "ib/pace.h"
#include "ib/path.h"
#include "ib/request.h"
#include "ib/spread.h"
#include "ib/timer.h"
#include "ib/ud.h"

#include "base/log.h"
#include "wire/packet.h"

#include <endian.h>

void requester_reset_retries(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;

	f->retries = f->retries_granted = qp->attr.retry_cnt;
	f->rnr_retries = qp->attr.rnr_retry;
}

void requester_close(struct qp *qp)
{
	flight_close(&engine_of(qp)->flight);
	answers_forget(qp);
	pace_stop(qp);
	spread_close(qp);
}

void requester_open(struct qp *qp, psn_t psn)
{
	const struct ib_options *options = &engine_of(qp)->options;

	requester_close(qp);
	pace_forget(qp);
	engine_of(qp)->trusts = engine_of(qp)->is_ahead = false;
	flight_open(&engine_of(qp)->flight, psn, options->profile == IB_SEED ? psn_add(options->start_msn, -1) : 0);
	answers_forget(qp);	/* they are dated by the flight's PSNs */
	engine_of(qp)->flight.start_msn = options->start_msn;
	if (engine_exchanges_start(qp))
		msn_exchange_open(qp);
	qp->sq.engine.started = qp->sq.engine.completed;
	requester_reset_retries(qp);
	timer_open(qp);
}

/* What is in flight may have been lost with the old path, and waits no longer for its answer than what is sent anew. */
void requester_migrated(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->phase != FLIGHT_OPEN || !f->window)
		return;
	requester_reset_retries(qp);
	timer_open(qp);
	if (flight_empty(f))
		return;
	timer_went_back(qp, now);
	if (f->deadline != WTIME_NEVER && qp->attr.retry_cnt && f->probe == PROBE_NONE && !flight_has_lost(f) &&
	    !flight_at(f, f->oldest)->is_direct)
		f->probe = PROBE_DUE;
	qp_ready(qp);
}

/* IBA 10.3.1.5: in SQD the WQEs begun are finished, then the consumer is told. */
static void tell_drained(struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	if (!qp->attr.sq_draining || f->packet || f->copied || flight_repeats(f) || !flight_empty(f))
		return;
	qp->attr.sq_draining = 0;
	if (qp->sqd_async)
		qp_event(qp, IBV_EVENT_SQ_DRAINED);
}

static uint32_t settled_up_to(const struct qp *qp)
{
	const struct engine *e = engine_of(qp);
	const struct flight *f = &e->flight;

	if (flight_empty(f))
		return qp->sq.engine.started;
	return e->options.completion == IB_COMPLETE_BY_WQE ? f->wqe_completed : flight_at(f, f->oldest)->wqe;
}

/* qp_send_complete may find the CQ in error, and flush the rest. */
static bool completes(const struct qp *qp, uint32_t up_to)
{
	return (int32_t)(up_to - qp->sq.engine.completed) > 0;
}

/* MSN-32: the newest completion speaks for those before it too. */
static void complete_quietly(struct qp *qp, uint32_t newest)
{
	bool all = qp->sq_sig_all;

	qp->sq_sig_all = false;
	while (completes(qp, newest)) {
		qp_send_wqe(qp, qp->sq.engine.completed)->flags &= (uint8_t)~IBV_SEND_SIGNALED;
		qp_send_complete(qp, IBV_WC_SUCCESS);
	}
	qp->sq_sig_all = all;
}

void requester_complete(struct qp *qp)
{
	const struct engine *e = engine_of(qp);
	uint32_t settled = e->flight.phase == FLIGHT_CLOSED ? qp->sq.engine.completed : settled_up_to(qp);

	if (e->options.report_last_only && qp->sq.engine.completed != settled)
		complete_quietly(qp, settled - 1);
	qp_send_complete_until(qp, settled);
	if (qp->state == IBV_QPS_SQD)
		tell_drained(qp);
}

void requester_fail(struct qp *qp, wtime now, enum ibv_wc_status status)
{
	explain_request(qp, now, status);
	if (qp->sq.engine.started == qp->sq.engine.completed)
		qp->sq.engine.started++;
	requester_close(qp);
	qp_send_complete(qp, status);
	if (engine_is_reliable(qp))
		qp_error(qp, now, -1);
	else
		qp_send_error(qp, now, -1);
}

/* The WQE at `index` cannot be sent: it fails in its turn. */
static void fail_in_turn(struct qp *qp, wtime now, uint32_t index, enum ibv_wc_status status)
{
	if (qp->sq.engine.completed == index)
		requester_fail(qp, now, status);
}

enum ibv_wc_status requester_gather(struct qp *qp, const struct send_wqe *wqe, uint32_t offset, struct packet_out *out)
{
	struct packet *p = &out->packet;

	p->payload = out->iov;
	if (wqe->flags & IBV_SEND_INLINE) {
		out->iov[0] = (struct iovec){ (uint8_t *)wqe->seg + offset, p->payload_bytes };
		p->payload_iovs = 1;
		return IBV_WC_SUCCESS;
	}
	return seg_gather(qp, wqe->seg, wqe->num_sge, offset, p->payload_bytes, out->iov, PACKET_OUT_IOVS, &p->payload_iovs,
			  out->bounce);
}

static enum ibv_wc_status build_data(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, uint32_t packet,
				     struct packet_out *out)
{
	struct packet *p = &out->packet;
	uint32_t mtu = engine_mtu(qp), packets = request_packets(wqe->length, mtu);
	enum opcode_position position = request_position(packets, packet);
	bool ends = packet == packets - 1;
	int opcode = opcode_find(engine_service(qp), row->op, position, ends ? row->trailer : 0);

	if (opcode < 0)
		return IBV_WC_LOC_QP_OP_ERR;
	p->opcode = (uint8_t)opcode;
	p->solicited = ends && (wqe->flags & IBV_SEND_SOLICITED) && (row->op == OP_SEND || row->trailer == HDR_IMM);
	p->reth.va = wqe->remote_addr;
	p->reth.rkey = wqe->rkey;
	p->reth.length = wqe->length;
	p->imm = be32toh(wqe->imm);
	p->ieth_rkey = wqe->imm;
	p->payload_bytes = request_bytes(wqe->length, mtu, packet);
	return p->payload_bytes ? requester_gather(qp, wqe, packet * mtu, out) : IBV_WC_SUCCESS;
}

/* The whole sink is checked before anything is asked for; each response is checked again when it is placed. */
static enum ibv_wc_status build_read(struct qp *qp, const struct send_wqe *wqe, uint32_t packet, struct packet *p)
{
	uint32_t offset = packet * engine_mtu(qp);

	p->reth.va = wqe->remote_addr + offset;
	p->reth.rkey = wqe->rkey;
	p->reth.length = wqe->length - offset;
	return seg_check(qp->pd, wqe->seg, wqe->num_sge, IBV_ACCESS_LOCAL_WRITE);
}

static enum ibv_wc_status build_atomic(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, struct packet *p)
{
	p->atomiceth.va = wqe->remote_addr;
	p->atomiceth.rkey = wqe->rkey;
	p->atomiceth.compare = wqe->compare_add;
	p->atomiceth.swap_add = row->op == OP_CMP_SWAP ? wqe->swap : wqe->compare_add;
	if (row->op == OP_FETCH_ADD)
		p->atomiceth.compare = 0;
	if (wqe->length < ATOMIC_BYTES)
		return IBV_WC_LOC_LEN_ERR;
	return seg_check(qp->pd, wqe->seg, wqe->num_sge, IBV_ACCESS_LOCAL_WRITE);
}

static void build_atomic_write(const struct send_wqe *wqe, struct packet_out *out)
{
	struct packet *p = &out->packet;

	p->reth.va = wqe->remote_addr;
	p->reth.rkey = wqe->rkey;
	p->reth.length = p->payload_bytes = sizeof(wqe->compare_add);
	out->iov[0] = (struct iovec){ (uint8_t *)&wqe->compare_add, sizeof(wqe->compare_add) };
	p->payload = out->iov;
	p->payload_iovs = 1;
}

/* Packet number `packet` of the WQE, PSN and AckReq left open. */
static enum ibv_wc_status build(struct qp *qp, const struct send_wqe *wqe, uint32_t packet, struct packet_out *out)
{
	const struct request_row *row = request_row(wqe);
	struct packet *p = &out->packet;
	int opcode;

	if (wqe->bad_status)
		return wqe->bad_status;
	if (wqe->length > MESSAGE_MAX_BYTES)
		return IBV_WC_LOC_LEN_ERR;
	path_address(qp, p);
	p->xrceth.srqn = wqe->remote_qpn;
	if (row->kind == REQUEST_DATA)
		return build_data(qp, wqe, row, packet, out);
	opcode = row->kind == REQUEST_NONE ? -1 : opcode_find(engine_service(qp), row->op, POS_ONLY, 0);
	if (opcode < 0 || qp->attr.max_rd_atomic == 0)
		return IBV_WC_LOC_QP_OP_ERR;
	p->opcode = (uint8_t)opcode;
	switch (row->kind) {
	case REQUEST_READ:
		return build_read(qp, wqe, packet, p);
	case REQUEST_ATOMIC:
		return build_atomic(qp, wqe, row, p);
	case REQUEST_ATOMIC_WRITE:
		build_atomic_write(wqe, out);
		return IBV_WC_SUCCESS;
	case REQUEST_NONE: case REQUEST_DATA: case REQUEST_BIND: case REQUEST_INVALIDATE:
		break;
	}
	return IBV_WC_LOC_QP_OP_ERR;
}

/* AckReq: at the end of a message, at least twice a window, and on the last packet for now. */
static bool ask(struct flight *f, const struct flight_entry *e, uint32_t window, bool last_for_now)
{
	f->unasked++;
	if (!e->is_last && e->answer == ANSWER_ACK && !last_for_now && f->unasked < (window + 1) / 2)
		return false;
	f->unasked = 0;
	return true;
}

static uint32_t window_now(const struct qp *qp)
{
	uint32_t window = engine_of(qp)->flight.window, packets = pace_packets(qp);

	return packets < window ? packets : window;
}

static bool ask_fresh(struct qp *qp, const struct flight_entry *e, unsigned path)
{
	struct flight *f = &engine_of(qp)->flight;
	uint32_t under_way = flight_under_way(f) + 1;

	if (spread_of(qp))
		return spread_asks(qp, path, e->is_last || e->answer != ANSWER_ACK || under_way == flight_most(f));
	return ask(f, e, window_now(qp), under_way == flight_most(f) || under_way >= pace_packets(qp));
}

static void count_sent(struct qp *qp, const struct packet *p)
{
	QP_COUNT(qp, sent_pkts, 1);
	qp->bytes_sent += p->payload_bytes;
}

static inline void transferred(struct qp *qp, const struct send_wqe *wqe, uint64_t bytes)
{
	if (!(wqe->flags & IBV_SEND_INLINE))
		wq_transferred(&qp->sq.engine, wqe->seg, wqe->num_sge, bytes);
}

/* Of a READ, `count` responses are asked for, or the rest. */
static void ask_for(const struct qp *qp, uint32_t count, struct packet *p)
{
	uint64_t bytes = (uint64_t)count * engine_mtu(qp);

	if (bytes < p->reth.length)
		p->reth.length = (uint32_t)bytes;
}

/* Packet `skipped` of the entry at `index` left before. Of a READ, `count` responses are asked for. */
static bool repeat_part(struct qp *qp, wtime now, uint32_t index, uint32_t skipped, uint32_t count, unsigned path,
			struct packet_out *out)
{
	const struct flight_entry *e = flight_at(&engine_of(qp)->flight, index);
	enum ibv_wc_status status = build(qp, qp_send_wqe(qp, e->wqe), e->packet + skipped, out);

	if (status != IBV_WC_SUCCESS) {
		fail_in_turn(qp, now, e->wqe, status);
		return false;
	}
	if (e->answer == ANSWER_READ)
		ask_for(qp, count, &out->packet);
	out->packet.psn = psn_add(e->psn, skipped);
	if (spread_of(qp)) {
		spread_address(qp, path, &out->packet);
		if (e->answer == ANSWER_READ)
			spread_reads(qp, now, path, out->packet.psn, count);
	}
	timer_packet_sent(qp, now);
	count_sent(qp, &out->packet);
	return true;
}

/* What is held of a READ's responses is not asked for again. */
static bool repeat(struct qp *qp, wtime now, uint32_t index, unsigned path, struct packet_out *out)
{
	const struct flight_entry *e = flight_at(&engine_of(qp)->flight, index);

	return repeat_part(qp, now, index, 0, answers_missing(qp, index, e->span), path, out);
}

/* In the book of single packets, where one is kept: from the first packet on, as most QPs of a host send none. */
static inline void note_sent(struct qp *qp, uint32_t index, wtime now, bool fresh, unsigned path)
{
	struct flight *f = &engine_of(qp)->flight;

	if (engine_of(qp)->selective && !f->loss)
		loss_open(f);
	if (f->loss)
		loss_sent(f, index, now, fresh, path);
	if (spread_of(qp))
		spread_sent(qp, now, path);
}

/* What is to be sent again begins with a direct message: from there on it is as if nothing had been sent. */
static void take_back(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;

	for (uint32_t i = f->resend; i != f->newest; i++)
		qp->messages_sent -= flight_at(f, i)->is_last;
	qp->sq.engine.started = flight_take_back(f);
}

static bool send_again(struct qp *qp, wtime now, unsigned path, struct packet_out *out)
{
	struct flight *f = &engine_of(qp)->flight;
	struct flight_entry *e = flight_at(f, f->resend);

	if (e->is_direct && e->span > 1) {
		take_back(qp);
		return requester_output(qp, now, out);
	}
	if (!repeat(qp, now, f->resend, path, out))
		return false;
	out->packet.ack_requested = ask(f, e, window_now(qp), f->selective || f->resend + 1 == f->newest);
	pace_sent(qp, now, &out->packet, false, path);
	if (f->selective)
		rtt_lost(&f->rtt, e->psn);
	rtt_sent(&f->rtt, now, e->psn);
	note_sent(qp, f->resend, now, false, path);
	qp->ca->counters.selective_repeats += f->selective;
	f->resend++;
	return true;
}

static bool send_probe(struct qp *qp, wtime now, struct packet_out *out)
{
	struct flight *f = &engine_of(qp)->flight;
	struct flight_entry *e = flight_at(f, f->oldest);
	unsigned path = spread_of(qp) ? spread_instead(qp, loss_path_of(f, f->oldest)) : 0;

	f->probe = PROBE_NONE;
	if (!repeat(qp, now, f->oldest, path, out))
		return false;
	out->packet.ack_requested = true;
	e->asked_again = false;
	pace_sent(qp, now, &out->packet, false, path);
	rtt_doubt(&f->rtt, flight_last_psn(e));
	note_sent(qp, f->oldest, now, false, path);
	f->probe = PROBE_SENT;
	f->probed = f->newest;
	qp->ca->counters.probes++;
	return true;
}

/* Asks for responses that are missing. */
static bool ask_for_answers(struct qp *qp, wtime now, struct packet_out *out)
{
	struct flight *f = &engine_of(qp)->flight;
	struct answers_gap gap;
	bool asked;

	if (!f->answers || !f->answers->is_due)
		return false;
	asked = answers_gap(qp, now, &gap) && repeat_part(qp, now, gap.index, gap.skipped, gap.count,
							  spread_of(qp) ? spread_usual(qp) : 0, out);
	timer_rearm(qp);
	if (!asked)
		return false;
	out->packet.ack_requested = true;
	rtt_doubt(&f->rtt, flight_last_psn(flight_at(f, gap.index)));
	qp->ca->counters.answer_repeats++;
	return true;
}

/* Does the local work of a WQE in its turn (memory windows): once, even if requests before it are sent again. */
static enum ibv_wc_status work_locally(struct qp *qp, struct send_wqe *wqe, enum request_kind kind)
{
	enum ibv_wc_status status = wqe->bad_status;

	if (status != IBV_WC_SUCCESS || wqe->flags & WQE_WORKED)
		return status;
	status = kind == REQUEST_BIND ? mw_bind(qp, wqe) : mr_invalidate(qp, wqe->imm, false);
	if (status == IBV_WC_SUCCESS)
		wqe->flags |= WQE_WORKED;
	return status;
}

/* May the WQE at the cursor begin, or take its next turn? SQD begins none, nor does a queue whose CQ awaits room; a fenced
 * one waits for the answers to earlier reads and atomics (IBA 10.8.3.3), and these for the initiator depth. */
static inline bool may_begin(const struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	const struct flight *f = &engine_of(qp)->flight;

	/* what was begun, or begun and taken back, goes on */
	if ((qp->state == IBV_QPS_SQD || qp->send_cq->asked) && !f->copied && !flight_repeats(f))
		return false;
	if ((wqe->flags & IBV_SEND_FENCE) && f->unanswered)
		return false;
	return row->answer == ANSWER_ACK || f->unanswered == 0 || f->unanswered < qp->attr.max_rd_atomic;
}

/* A fresh packet left: on to the next. */
static void advance(struct qp *qp, const struct flight_entry *e)
{
	struct flight *f = &engine_of(qp)->flight;

	qp->direct_path.promised = 0;	/* these PSNs are of packets */
	if (f->window)
		flight_record(f, e);
	else
		flight_left(f, 1);
	f->packet += e->span;
	f->copied = 0;
	if (e->is_last) {
		f->packet = 0;
		qp->sq.engine.started++;
		qp->messages_sent++;
	}
	if (!f->window)
		requester_complete(qp);
}

/* A burst costs hardly more than a packet. So what could fill one does not leave in pieces as small as the answers make room for
 * (the silly window of RFC 1122, 4.2.3.4), while one is under way that makes more. `rest`: packets of the message. */
static bool waits_for_room(const struct qp *qp, uint32_t rest)
{
	const struct flight *f = &engine_of(qp)->flight;
	uint32_t most = window_now(qp), under_way = flight_under_way(f), room = most - under_way;

	if (qp->route.kind != ROUTE_LINK || f->limit || under_way >= most || f->unasked >= under_way || flight_repeats(f) ||
	    (f->loss && f->loss->held))
		return false;
	return room < rest && room < BURST_LONG && room < most / 4;
}

static bool send_fresh(struct qp *qp, wtime now, const struct send_wqe *wqe, const struct request_row *row,
		       struct packet_out *out)
{
	struct flight *f = &engine_of(qp)->flight;
	uint32_t rest = request_packets(wqe->length, engine_mtu(qp)) - f->packet;
	struct flight_entry e = {
		.psn = f->psn, .span = row->answer == ANSWER_READ ? answers_piece(qp, rest) : 1, .wqe = qp->sq.engine.started,
		.packet = f->packet, .answer = row->answer,
	};
	enum ibv_wc_status status;
	int path;

	e.is_last = e.span == rest || (row->kind != REQUEST_DATA && row->kind != REQUEST_READ);
	if ((f->window && (!e.span || !flight_has_room(f, e.span))) || (path = pace_allows(qp, now, true)) < 0)
		return false;
	if (!out->follows && row->kind == REQUEST_DATA && !spread_of(qp) && waits_for_room(qp, rest))
		return false;
	status = build(qp, wqe, e.packet, out);
	if (status != IBV_WC_SUCCESS) {
		fail_in_turn(qp, now, e.wqe, status);
		return false;
	}
	if (e.answer == ANSWER_READ)
		ask_for(qp, e.span, &out->packet);
	out->packet.psn = e.psn;
	if (spread_of(qp)) {
		spread_address(qp, (unsigned)path, &out->packet);
		if (e.answer == ANSWER_READ)
			spread_reads(qp, now, (unsigned)path, e.psn, e.span);
	}
	if (f->window) {
		out->packet.ack_requested = ask_fresh(qp, &e, (unsigned)path);
		timer_packet_sent(qp, now);
		rtt_sent(&f->rtt, now, e.psn);
		note_sent(qp, f->newest, now, true, (unsigned)path);
	}
	pace_sent(qp, now, &out->packet, true, (unsigned)path);
	count_sent(qp, &out->packet);
	if (row->kind == REQUEST_DATA)
		transferred(qp, wqe, (uint64_t)e.packet * engine_mtu(qp) + out->packet.payload_bytes);
	advance(qp, &e);
	return true;
}

bool requester_run_direct(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;

	while (qp->sq.engine.started != qp->sq.engine.announced && f->phase == FLIGHT_OPEN) {
		const struct send_wqe *wqe = qp_send_next(qp);
		const struct request_row *row = request_row(wqe);

		if (f->packet || !may_begin(qp, wqe, row) || direct_take(qp, wqe, row) != DIRECT_DONE)
			return false;
		transferred(qp, wqe, wqe->length);
		qp->sq.engine.started++;
		if (flight_empty(f))	/* otherwise it completes when its answer comes */
			requester_complete(qp);
	}
	return true;
}

/* Would the QP's next WQE go directly, before packets that have not left yet? */
static bool passes(struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	return (f->packet == 0 || f->copied) && engine_may_go_directly(qp) &&
	       qp->ca->direct->connect(qp->ca->direct_arg, qp);
}

/* A datagram does not pass those before it that are in the burst. */
static inline bool may_go_directly(const struct qp *qp, const struct packet_out *out)
{
	const struct flight *f = &engine_of(qp)->flight;

	return (f->packet == 0 || f->copied) && !(out->follows && qp_is_datagram(qp));
}

bool requester_output(struct qp *qp, wtime now, struct packet_out *out)
{
	struct flight *f = &engine_of(qp)->flight;
	bool moved = false;	/* something took of the room that the link had */
	int path;

	if (f->phase == FLIGHT_SENDING_MSN)
		return msn_exchange_output(qp, now, out);
	if (f->phase == FLIGHT_OPEN && flight_has_lost(f))
		return (path = pace_allows(qp, now, false)) >= 0 && send_again(qp, now, (unsigned)path, out);
	if (f->phase == FLIGHT_OPEN && f->probe == PROBE_DUE)
		return send_probe(qp, now, out);
	if (f->phase == FLIGHT_OPEN && ask_for_answers(qp, now, out))
		return true;
	if (loss_restarts(f))
		return false;
	while (f->phase == FLIGHT_OPEN && qp->sq.engine.started != qp->sq.engine.announced) {
		struct send_wqe *wqe = qp_send_next(qp);
		const struct request_row *row = request_row(wqe);
		uint32_t index = qp->sq.engine.started;
		enum ibv_wc_status status;

		if (f->packet == 0 && !may_begin(qp, wqe, row))
			return false;
		if (out->follows && passes(qp)) {
			qp_ready(qp);
			return false;
		}
		switch (may_go_directly(qp, out) ? direct_take(qp, wqe, row) : DIRECT_NONE) {
		case DIRECT_NONE:
			if (f->phase != FLIGHT_OPEN)
				return false;	/* a completion on the way found its CQ overrun */
			if (!moved)
				break;
			qp_ready(qp);
			return false;
		case DIRECT_LATER:
			return false;
		case DIRECT_PART:
			qp_next_slice(qp);
			return false;
		case DIRECT_DONE:
			transferred(qp, wqe, wqe->length);
			qp->sq.engine.started++;
			requester_complete(qp);
			moved = true;
			continue;
		}
		if (row->kind != REQUEST_BIND && row->kind != REQUEST_INVALIDATE)
			return qp_is_datagram(qp) ? ud_output(qp, now, wqe, out) : send_fresh(qp, now, wqe, row, out);
		status = work_locally(qp, wqe, row->kind);
		if (status != IBV_WC_SUCCESS) {
			fail_in_turn(qp, now, index, status);
			return false;
		}
		qp->sq.engine.started++;
		requester_complete(qp);
	}
	return false;
}

/* False: none is left, and the QP failed. */
static bool use_retry(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	f->probe = PROBE_NONE;
	if (f->retries == 0 && path_migrate(qp, now))
		return true;
	if (f->retries == 0) {
		QP_COUNT(qp, retry_exceeded_err, 1);
		requester_fail(qp, now, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	f->retries--;
	QP_COUNT(qp, completer_retry_err, 1);
	return true;
}

void requester_go_back(struct qp *qp, wtime now, psn_t psn)
{
	struct flight *f = &engine_of(qp)->flight;

	if (!flight_rewind(f, psn))
		return;
	pace_lost(qp, 1);
	rtt_lost(&f->rtt, psn);
	if (!use_retry(qp, now))
		return;
	timer_went_back(qp, now);
	qp_ready(qp);
}

void requester_find_lost(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	unsigned lost;

	if (f->loss && (!loss_is_open(f, f->oldest) || !qp->attr.retry_cnt)) {
		f->loss->deadline = WTIME_NEVER;
		return;
	}
	if (f->phase != FLIGHT_OPEN || !f->loss)
		return;
	lost = loss_detect(f, now, f->rtt.wait_ns);
	pace_lost(qp, lost);
	if (lost)
		qp_ready(qp);
	timer_rearm(qp);
}

/* It has been quiet. What waits for room in the link is not lost, and who asks for responses needs no probe. */
static void probe(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->phase != FLIGHT_OPEN || flight_empty(f) || flight_has_lost(f) || answers_are_missing(qp))
		return;
	if (f->probe == PROBE_ANSWERED)
		requester_go_back(qp, now, flight_first_psn(f));
	else
		f->probe = PROBE_DUE;
}

/* That responses are kept proves that the peer has executed all before them. */
static void rewind_all(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;
	psn_t known = answers_keep_any(qp) ? f->loss->known : flight_first_psn(f);

	flight_rewind_all(f);
	if (f->selective)
		loss_known(f, known, now);
	if (answers_keep_any(qp))
		answers_doubt(qp, now);
}

void requester_expire(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	completer_ack_postponed(qp);
	switch (timer_expired(qp, now)) {
	case TIMER_NONE:
		return;
	case TIMER_RNR_OVER:
		f->phase = FLIGHT_OPEN;
		if (f->selective)	/* an older RNR NAK may have been obeyed, and this one not */
			flight_rewind(f, flight_first_psn(f));
		if (!flight_empty(f))	/* what is left may have been executed meanwhile, and only its response be missing */
			timer_start(qp, now);
		break;
	case TIMER_ACK_TIMEOUT:
		if (!use_retry(qp, now))
			return;
		pace_timeout(qp);
		if (spread_of(qp))
			spread_timeout(qp);
		rtt_doubt(&f->rtt, psn_add(f->psn, -1));
		rewind_all(qp, now);
		if (f->phase == FLIGHT_AWAITING_MSN)
			f->phase = FLIGHT_SENDING_MSN;
		timer_went_back(qp, now);	/* a link without room is no excuse */
		break;
	case TIMER_PROBE:
		probe(qp, now);
		break;
	case TIMER_REORDERED:
		requester_find_lost(qp, now);
		break;
	}
	qp_ready(qp);
}
