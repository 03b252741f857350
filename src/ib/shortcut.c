/* A request is executed at once only where nothing of the QP is on its way, so that order is the standard's: the peer
 * has executed everything before it, and what follows comes later. Whatever stands in the way makes it packets. */
#include "ib/shortcut.h"

#include "base/iov.h"
#include "ib/completer.h"
#include "ib/engine.h"
#include "ib/requester.h"
#include "ib/whole.h"
#include "verbs/direct.h"

enum {
	ATOMIC_BYTES = 8,
	/* Our choices: so long a request takes longer in packets than an acknowledgement does; and so many requests in a
	 * row are a stream, which is worth one wait to be rid of packets. */
	WORTH_WAITING = 16 << 10,
	DETOURS = 8,
};

/* UC does not say what arrived: after its first packet the order of things is not known any more. */
static bool may_pass(struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	if (!f->window)
		return f->psn == qp->attr.sq_psn;
	return flight_empty(f) || (completer_settle(qp) && flight_empty(f));
}

static void count(struct qp *qp, const struct direct_request *r)
{
	struct counters *c = &qp->ca->counters;

	if (r->kind == DIRECT_WRITE)
		c->direct_writes++;
	else if (r->kind == DIRECT_READ)
		c->direct_reads++;
	else
		c->direct_atomics++;
	c->direct_mapped += r->is_mapped;
	c->direct_bytes += r->bytes;
	qp->messages_sent++;
	if (r->kind == DIRECT_WRITE || r->kind == DIRECT_ATOMIC_WRITE)
		qp->bytes_sent += r->bytes;
	else
		qp->bytes_received += r->bytes;
}

/* Packets stand before the request. */
static enum shortcut follow(struct qp *qp, const struct send_wqe *wqe)
{
	struct engine *e = engine_of(qp);

	if (qp->type != IBV_QPT_RC || (wqe->length < WORTH_WAITING && ++e->detours < DETOURS))
		return SHORTCUT_NONE;
	if (qp->ca->direct->reaches(qp->ca->host, qp))
		return SHORTCUT_LATER;
	e->detours = 0;
	return SHORTCUT_NONE;
}

/* The next slice. What is left at the end is one of up to two, so that it has the tail. */
static enum shortcut execute_slice(struct qp *qp, struct direct_request *r)
{
	struct flight *f = &engine_of(qp)->flight;
	struct direct_request slice = *r;
	struct iovec iov[DIRECT_IOVS];

	slice.va += f->copied;
	slice.bytes -= f->copied;
	if (slice.bytes >= DIRECT_LONG)
		slice.bytes = DIRECT_SLICE;
	slice.iov = iov;
	slice.iovs = iov_part(r->iov, r->iovs, f->copied, slice.bytes, iov);
	if (!qp->ca->direct->execute(qp->ca->host, qp, &slice))
		return SHORTCUT_NONE;
	f->copied += slice.bytes;
	if (f->copied < r->bytes)
		return SHORTCUT_PART;
	f->copied = 0;
	r->is_mapped = slice.is_mapped;
	count(qp, r);
	return SHORTCUT_DONE;
}

/* The request itself, if it needs nothing of the target's program. */
static enum shortcut execute(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, enum direct_kind kind)
{
	int access = kind == DIRECT_WRITE ? 0 : IBV_ACCESS_LOCAL_WRITE;
	struct iovec iov[DIRECT_IOVS];
	int iovs = kind == DIRECT_ATOMIC_WRITE ? 0 : requester_borrow(qp, wqe, access, iov);
	struct direct_request r = {
		.kind = kind, .rkey = wqe->rkey, .va = wqe->remote_addr, .bytes = wqe->length, .iov = iov, .iovs = (unsigned)iovs,
		.compare = wqe->compare_add, .operand = row->op == OP_CMP_SWAP ? wqe->swap : wqe->compare_add,
	};
	bool has_result = kind == DIRECT_CMP_SWAP || kind == DIRECT_FETCH_ADD;

	if (iovs < 0 || (has_result && wqe->length != ATOMIC_BYTES))
		return SHORTCUT_NONE;
	if (r.bytes >= DIRECT_LONG)
		return execute_slice(qp, &r);
	if (!qp->ca->direct->execute(qp->ca->host, qp, &r))
		return SHORTCUT_NONE;
	if (has_result)
		(void)seg_scatter(qp->pd, wqe->seg, wqe->num_sge, 0, &r.original, sizeof(r.original));
	count(qp, &r);
	return SHORTCUT_DONE;
}

/* A long write with immediate data: a write, and then word of it. */
static enum shortcut write_and_tell(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	enum shortcut how;

	if (wqe->length >= DIRECT_LONG && request_packets(wqe->length, engine_mtu(qp)) > FLIGHT_SPAN_MOST)
		return SHORTCUT_NONE;
	if (!qp->ca->direct->connect(qp->ca->host, qp))
		return SHORTCUT_NONE;
	if (!may_pass(qp))
		return qp->type == IBV_QPT_RC ? SHORTCUT_LATER : SHORTCUT_NONE;
	how = execute(qp, wqe, row, DIRECT_WRITE);
	return how == SHORTCUT_DONE ? whole_send(qp, wqe, row, true) : how;
}

enum shortcut shortcut_take(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	enum shortcut how = SHORTCUT_NONE;

	if (!qp->ca->direct || (qp->type != IBV_QPT_RC && qp->type != IBV_QPT_UC))
		return SHORTCUT_NONE;
	if (wqe->bad_status || flight_repeats(&engine_of(qp)->flight))
		return SHORTCUT_NONE;
	if (row->needs == TARGET_PROGRAM) {
		engine_of(qp)->detours = 0;
		if (row->op == OP_WRITE && wqe->length > WHOLE_CARRIES)
			return write_and_tell(qp, wqe, row);
		return whole_send(qp, wqe, row, false);
	}
	if (row->direct != DIRECT_WRITE && qp->attr.max_rd_atomic == 0)
		return SHORTCUT_NONE;
	if (!may_pass(qp)) {
		if (row->direct == DIRECT_WRITE && wqe->length <= WHOLE_CARRIES)
			how = whole_send(qp, wqe, row, false);
		return how == SHORTCUT_NONE ? follow(qp, wqe) : how;
	}
	engine_of(qp)->detours = 0;
	return execute(qp, wqe, row, row->direct);
}
