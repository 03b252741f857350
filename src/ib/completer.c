/* What comes back. A response acknowledges every packet before it; one that skips a response owed says that it was lost
 * (IBA 9.7.5.1.1), and the rest of that read is asked for again: once, until something new comes. IBA 9.7.7.1, 9.7.8. */
#include "ib/completer.h"

#include "ib/answers.h"
#include "ib/complete_by_wqe.h"
#include "ib/engine.h"
#include "ib/pace.h"
#include "ib/request.h"
#include "ib/requester.h"
#include "ib/spread.h"
#include "ib/timer.h"
#include "wire/aeth.h"
#include "wire/header.h"
#include "wire/packet.h"

enum { RNR_FOREVER = 7 };	/* IBA 11.2.5.2 */

static struct flight_entry *oldest(const struct flight *f)
{
	return flight_empty(f) ? NULL : flight_at(f, f->oldest);
}

/* Something got through. */
static void progress(struct qp *qp, wtime now)
{
	struct engine *e = engine_of(qp);

	requester_reset_retries(qp);
	if (now == WTIME_NEVER)
		timer_pause(qp);
	else
		timer_progress(qp, now);
	flight_probe_answered(&e->flight);
	if (e->options.completion == IB_COMPLETE_BY_WQE)
		complete_by_wqe_advance(qp);
	if (flight_empty(&e->flight))
		list_remove(&qp->unacked);
	else if (now == WTIME_NEVER)
		qp_await_ack(qp);
	requester_complete(qp);
	if (now != WTIME_NEVER)
		requester_find_lost(qp, now);
	if (e->flight.resend != e->flight.newest || qp->sq.engine.started != qp->sq.engine.announced)
		qp_ready(qp);
}

/* The entries from `from` on went; what is left may turn out to be lost. Before progress(), which may end the flight. */
static inline void settled(struct qp *qp, wtime now, uint32_t from)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->selective && f->oldest != from)
		loss_settled(f, from, now);
}

/* The oldest packet's response was skipped: the peer has sent all before `before`. Is only what is missing asked for? */
static bool response_lost(struct qp *qp, wtime now, struct flight_entry *e, psn_t before)
{
	if (answers_are_selective(qp) && answers_sent(qp, now, before)) {
		timer_rearm(qp);
		qp_ready(qp);
		return true;
	}
	if (e->asked_again)
		return false;
	e->asked_again = true;
	requester_go_back(qp, now, e->psn);
	return false;
}

/* All packets up to and including `through` arrived. Returns what stands in the way: an entry within them that is owed
 * a response, or NULL. */
static struct flight_entry *acknowledge(struct qp *qp, wtime now, psn_t through, uint32_t msn)
{
	struct engine *engine = engine_of(qp);
	struct flight *f = &engine->flight;
	uint32_t from = f->oldest;
	struct flight_entry *e;

	if (flight_ack(f, through, engine_completes_by_msn(engine), msn)) {
		settled(qp, now, from);
		progress(qp, now);
	}
	e = oldest(f);
	return e && e->answer != ANSWER_ACK && psn_cmp(e->psn, through) <= 0 ? e : NULL;
}

static void receiver_not_ready(struct qp *qp, wtime now, psn_t psn, unsigned code)
{
	struct flight *f = &engine_of(qp)->flight;

	QP_COUNT(qp, rcvd_rnr_err, 1);
	if (f->phase == FLIGHT_RNR)
		return;
	if (f->rnr_retries == 0) {
		QP_COUNT(qp, retry_rnr_exceeded_err, 1);
		requester_fail(qp, now, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	if (f->rnr_retries != RNR_FOREVER)
		f->rnr_retries--;
	/* The peer is heard, so nothing is wrong with the path. rdma_rxe has a sequence NAK follow, before which a long flight
	 * goes out again: each such round must not take one of the path's retries. */
	f->retries = qp->attr.retry_cnt;
	flight_rewind(f, psn);
	rtt_lost(&f->rtt, psn);
	f->phase = FLIGHT_RNR;
	timer_receiver_not_ready(qp, now, code);
}

/* IBA 9.7.5.2, table 46. Everything before `psn` has been acknowledged. */
static void negative(struct qp *qp, wtime now, psn_t psn, unsigned code)
{
	static const enum ibv_wc_status status[NAK_CODES] = {
		[NAK_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
		[NAK_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[NAK_REMOTE_OPERATIONAL] = IBV_WC_REM_OP_ERR,
		[NAK_INVALID_RD_REQUEST] = IBV_WC_REM_INV_RD_REQ_ERR,
	};

	if (code == NAK_PSN_SEQUENCE) {
		QP_COUNT(qp, rcvd_seq_err, 1);
		requester_go_back(qp, now, psn);
	} else if (code < NAK_CODES) {
		requester_fail(qp, now, status[code]);
	}
}

/* A request that is to be sent again may have been executed before. */
static bool in_flight(const struct flight *f, psn_t psn)
{
	return psn_cmp(psn, flight_at(f, f->oldest)->psn) >= 0 && psn_cmp(psn, f->fresh) < 0;
}

/* Is it of the flight, or the last one before it, which a peer names that expects the first? */
static bool concerns(const struct flight *f, psn_t psn)
{
	return in_flight(f, psn) || psn_add(psn, 1) == flight_at(f, f->oldest)->psn;
}

/* Has nothing happened but that direct messages were sent, since all before them was acknowledged? No timer runs, nothing was
 * lost, and no WQE waits for room. */
static inline bool is_calm(const struct qp *qp)
{
	const struct engine *e = engine_of(qp);
	const struct flight *f = &e->flight;

	return f->phase == FLIGHT_OPEN && f->resend == f->newest && f->psn == f->fresh && !f->unanswered && !f->selective &&
	       f->probe == PROBE_NONE && (f->deadline & f->ack_deadline) == WTIME_NEVER && e->acks_as_usual &&
	       qp->sq.engine.started == qp->sq.engine.announced;
}

/* progress() after all of a calm flight was acknowledged: of its questions none but these has another answer than no. */
static void acknowledge_all(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	flight_ack_all(f);
	f->rtt.measuring = false;	/* of a packet: these answers are of messages */
	requester_reset_retries(qp);
	list_remove(&qp->unacked);
	if (engine_of(qp)->options.report_last_only || qp->state == IBV_QPS_SQD)
		requester_complete(qp);
	else
		qp_send_complete_until(qp, qp->sq.engine.started);
	if (f->loss && now != WTIME_NEVER)
		requester_find_lost(qp, now);
}

bool completer_acknowledge(struct qp *qp, wtime now, psn_t through)
{
	struct engine *e = engine_of(qp);
	struct flight *f = &e->flight;
	uint32_t from = f->oldest;

	if (psn_add(through, 1) == f->psn && !flight_empty(f) && is_calm(qp)) {
		acknowledge_all(qp, now);
		return true;
	}
	if (f->phase == FLIGHT_CLOSED || flight_empty(f) || !in_flight(f, through) ||
	    !flight_ack(f, through, engine_completes_by_msn(e), f->msn))
		return false;
	settled(qp, now, from);
	progress(qp, now);
	return true;
}

void completer_postpone_ack(struct qp *qp, psn_t through)
{
	engine_of(qp)->postponed_psn = through;
	if (!list_linked(&qp->postponed))
		list_append(&qp->ca->acks.postponed, &qp->postponed);
}

void completer_trust(struct qp *qp, psn_t through)
{
	struct engine *e = engine_of(qp);

	if (!list_linked(&qp->postponed))
		completer_postpone_ack(qp, psn_add(flight_first_psn(&e->flight), -1));
	e->trusts = true;
	e->trusted_psn = through;
	e->trusted_path = qp->direct_path.sequence;
}

/* Up to where the sends are complete now. */
static psn_t postponed_through(struct qp *qp)
{
	struct engine *e = engine_of(qp);

	if (!e->trusts)
		return e->postponed_psn;
	e->trusts = false;
	if (psn_cmp(e->trusted_psn, e->postponed_psn) <= 0 || e->trusted_path != qp->direct_path.sequence ||
	    !qp->ca->direct || !qp->ca->direct->stands(qp->ca->direct_arg, qp))
		return e->postponed_psn;
	e->is_ahead = true;
	return e->sure_psn = e->trusted_psn;
}

bool completer_ack_postponed(struct qp *qp)
{
	if (!list_linked(&qp->postponed))
		return false;
	list_remove(&qp->postponed);
	return completer_acknowledge(qp, WTIME_NEVER, postponed_through(qp)) && engine_of(qp)->flight.phase == FLIGHT_OPEN;
}

/* A pure acknowledgement. In the seed profile a sequence NAK names the last good PSN (MSN-25). */
static void input_ack(struct qp *qp, wtime now, const struct packet *p)
{
	struct engine *engine = engine_of(qp);
	struct flight *f = &engine->flight;
	enum aeth_kind kind = aeth_kind(p->aeth.syndrome);
	unsigned value = aeth_value(p->aeth.syndrome);
	bool names_last_good = engine->options.profile == IB_SEED && kind == AETH_NAK && value == NAK_PSN_SEQUENCE;
	psn_t psn = names_last_good ? psn_add(p->psn, 1) : p->psn;
	struct flight_entry *blocked;

	if (kind == AETH_RESERVED || !in_flight(f, psn))
		return;
	blocked = acknowledge(qp, now, kind == AETH_ACK ? psn : psn_add(psn, -1), p->aeth.msn);
	if (f->phase == FLIGHT_CLOSED || flight_empty(f))
		return;
	if (kind == AETH_NAK && value != NAK_PSN_SEQUENCE)
		negative(qp, now, psn, value);	/* no more answers are expected: what it owes will not come */
	else if (blocked && !blocked->asked_again && !response_lost(qp, now, blocked, psn_add(p->psn, kind == AETH_ACK)))
		return;
	else if (kind == AETH_RNR_NAK)
		receiver_not_ready(qp, now, psn, value);
	else if (kind == AETH_NAK)
		negative(qp, now, psn, value);
}

/* The highest bit; -1: none is set. */
static int last_held(const uint64_t held[HELD_WORDS])
{
	for (int i = HELD_WORDS - 1; i >= 0; i--)
		if (held[i])
			return 64 * i + 63 - __builtin_clzll(held[i]);
	return -1;
}

/* May the peer have said this, which expects no packet before the flight? What it holds has left, and is not what it expects. */
static bool is_sound(const struct flight *f, psn_t expected, const uint64_t held[HELD_WORDS])
{
	int last = last_held(held);

	if (psn_cmp(expected, f->fresh) > 0)
		return false;
	return last < 0 || (!(held[0] & 1) && psn_cmp(psn_add(expected, last), f->fresh) < 0);
}

/* Marks what the peer holds. How many packets is that more than it said before? */
static unsigned mark_held(struct qp *qp, wtime now, psn_t expected, const uint64_t held[HELD_WORDS])
{
	struct flight *f = &engine_of(qp)->flight;
	int last = last_held(held);
	unsigned marked = 0;

	for (uint32_t i = f->oldest; i != f->newest; i++) {
		int32_t ahead = psn_diff(flight_at(f, i)->psn, expected);

		if (ahead > last)
			break;
		if (ahead <= 0 || !(held[ahead / 64] >> ahead % 64 & 1) || loss_is_held(f, i))
			continue;
		rtt_held(&f->rtt, now, flight_at(f, i)->psn, ack_timeout_ns(qp->attr.timeout));
		loss_held(f, i, now);
		marked++;
	}
	return marked;
}

/* An acknowledgement that says besides what the peer holds. It comes again with each packet that the peer takes in before its
 * turn; one that was overtaken says nothing new. */
static void input_selective(struct qp *qp, wtime now, const struct packet *p)
{
	struct flight *f = &engine_of(qp)->flight;
	psn_t expected = psn_add(p->psn, 1);
	struct flight_entry *blocked;

	if (psn_cmp(expected, flight_at(f, f->oldest)->psn) < 0)
		return;
	if (!f->selective || !is_sound(f, expected, p->heldeth.held)) {
		qp->ca->counters.bad_selective_acks++;
		return;
	}
	qp->ca->counters.spurious_repeats += loss_repeated(f, p->heldeth.repeats, p->heldeth.repeated);
	blocked = acknowledge(qp, now, p->psn, p->aeth.msn);
	if (f->phase == FLIGHT_CLOSED || flight_empty(f))
		return;
	if (blocked && !blocked->asked_again && !response_lost(qp, now, blocked, expected))
		return;
	f->loss->until = f->newest;
	if (mark_held(qp, now, expected, p->heldeth.held)) {
		loss_widen(f);
		timer_progress(qp, now);	/* retries are given back for what is acknowledged alone */
		flight_probe_answered(f);
		qp_ready(qp);	/* what the peer holds makes room */
	}
	requester_find_lost(qp, now);
}

/* Each response to a part of a READ stands alone: ack.c. */
static bool is_repeated_part(const struct qp *qp, const struct opcode_row *row)
{
	return row->position == POS_ONLY && engine_of(qp)->flight.selective;
}

/* Places one response for the oldest entry. */
static enum ibv_wc_status place(struct qp *qp, const struct opcode_row *row, const struct flight_entry *e, const struct packet *p)
{
	const struct send_wqe *wqe = qp_send_wqe(qp, e->wqe);
	uint32_t mtu = engine_mtu(qp);

	switch (e->answer) {
	case ANSWER_READ:
		if (row->op != OP_READ_RESPONSE || p->payload_bytes != request_bytes(wqe->length, mtu, e->packet))
			return IBV_WC_BAD_RESP_ERR;
		if (!is_repeated_part(qp, row) && (row->position == POS_LAST || row->position == POS_ONLY) != (e->span == 1))
			return IBV_WC_BAD_RESP_ERR;
		return seg_scatter(qp->pd, wqe->seg, wqe->num_sge, (uint64_t)e->packet * mtu,
				   p->payload->iov_base, p->payload_bytes);
	case ANSWER_ATOMIC:
		if (row->op != OP_ATOMIC_ACK)
			return IBV_WC_BAD_RESP_ERR;
		return seg_scatter(qp->pd, wqe->seg, wqe->num_sge, 0, &p->atomicack, sizeof(p->atomicack));
	case ANSWER_EMPTY:
		return row->op == OP_READ_RESPONSE && p->payload_bytes == 0 ? IBV_WC_SUCCESS : IBV_WC_BAD_RESP_ERR;
	default:
		return IBV_WC_BAD_RESP_ERR;
	}
}

/* A response that comes before the one that `e` awaits. */
static void input_early(struct qp *qp, wtime now, struct flight_entry *e, const struct packet *p)
{
	if (!response_lost(qp, now, e, psn_add(p->psn, 1)) || !answers_keep(qp, now, p))
		return;
	qp->ca->counters.held_response++;
	timer_progress(qp, now);	/* retries are given back for what is taken alone */
	flight_probe_answered(&engine_of(qp)->flight);
}

/* The response that `e` awaits. */
static void take_response(struct qp *qp, wtime now, struct flight_entry *e, const struct packet *p)
{
	struct flight *f = &engine_of(qp)->flight;
	enum ibv_wc_status status = place(qp, opcode_row(p->opcode), e, p);
	uint32_t from = f->oldest;

	if (status != IBV_WC_SUCCESS) {
		requester_fail(qp, now, status);
		return;
	}
	qp->bytes_received += p->payload_bytes;
	if (e->answer == ANSWER_READ) {
		const struct send_wqe *wqe = qp_send_wqe(qp, e->wqe);

		wq_transferred(&qp->sq.engine, wqe->seg, wqe->num_sge, (uint64_t)e->packet * engine_mtu(qp) + p->payload_bytes);
	}
	if (f->selective)
		answers_came(qp, now, p->psn);
	flight_answered(f);
	settled(qp, now, from);
	progress(qp, now);
}

/* Those that waited for it. Every request before the last response that came was executed, whether one waits or not. */
static void take_early(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	while (f->selective && !flight_empty(f)) {
		struct flight_entry *e = acknowledge(qp, now, psn_add(f->loss->known, -1), f->msn);
		struct packet *p = e && answers_keep_any(qp) ? answers_next(qp) : NULL;

		if (!p)
			return;
		take_response(qp, now, e, p);
		reorder_release(qp->ca, p);
	}
}

/* A read response or an atomic's result. A middle one carries no AETH: it says nothing of the MSN. */
static void input_response(struct qp *qp, wtime now, const struct opcode_row *row, const struct packet *p)
{
	struct flight *f = &engine_of(qp)->flight;
	uint32_t msn = row->headers & HDR_AETH ? p->aeth.msn : f->msn;
	struct flight_entry *e;

	if (!in_flight(f, p->psn))
		return;
	e = acknowledge(qp, now, psn_add(p->psn, -1), msn);
	if (f->phase == FLIGHT_CLOSED)
		return;
	if (e) {
		input_early(qp, now, e, p);
		return;
	}
	e = oldest(f);
	if (!e || e->psn != p->psn)
		return;
	take_response(qp, now, e, p);
	take_early(qp, now);
}

void completer_input(struct qp *qp, wtime now, const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	struct flight *f = &engine_of(qp)->flight;
	uint32_t arrived = pace_arrived(qp);

	if (f->phase == FLIGHT_CLOSED || flight_empty(f))
		return;
	if (!f->selective && concerns(f, p->psn)) {
		f->heard = true;
		if (bth_is_selective(p->resv.bth7) && f->loss) {
			loss_select(f);
			spread_open(qp, now);
		}
	}
	if (spread_of(qp))
		spread_heard(qp, now, p);
	if (row->op == OP_ACK)
		input_ack(qp, now, p);
	else if (row->op == OP_SELECTIVE_ACK)
		input_selective(qp, now, p);
	else
		input_response(qp, now, row, p);
	pace_heard(qp, now, p, arrived);
}
