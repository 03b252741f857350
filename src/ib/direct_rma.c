/* RDMA writes, reads and atomics of an RC QP, and writes of a UC QP, whose target is a process of this host, user and
 * container. The initiator executes them itself (ca.direct: peers/direct_target.c, direct/rma.c): the target runs nothing, and
 * the request takes no PSN.
 *
 * A request is executed so only when nothing of the QP is in flight, so that order is the standard's: the peer has executed
 * everything before it, and what follows comes later. A request behind packets of its own QP goes as packets too, or waits for
 * the ACK when it is long or when many follow each other. Any obstacle turns the request into packets, so that NAKs, events
 * and statuses come from one engine.
 *
 * A long request is done in slices of 2 MB. Each slice is looked up and checked again: a region that goes in the middle is
 * missed by the next slice, and the packets find that out. Between slices the QP is in ca.slices. One thread takes the slices
 * of all QPs (by ca_resume); after each slice it lets waiting threads into the adapter and runs the pump.
 *
 * The alternative, a thread in the target, costs a wake of some 35 us, or a CPU for a thread that polls. */
#include "ib/direct_rma.h"

#include "base/iov.h"
#include "ib/completer.h"
#include "ib/direct_load.h"
#include "ib/direct_send.h"
#include "ib/engine.h"
#include "ib/requester.h"
#include "ib/ud.h"
#include "verbs/direct.h"

#include <string.h>

enum {
	/* Our choices: so long a request takes longer in packets than an acknowledgement does; and so many requests in a
	 * row are a stream, which is worth one wait to be rid of packets. */
	WORTH_WAITING = 16 << 10,
	DETOURS = 8,
};

/* UC does not say what arrived: after its first packet the order of things is not known any more. */
static bool has_settled(struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	if (!f->window)
		return !f->has_sent;
	return flight_empty(f) || (completer_ack_postponed(qp) && flight_empty(f));
}

static inline __attribute__((always_inline)) void count(struct qp *qp, enum opcode_op op, uint32_t bytes, bool is_mapped)
{
	struct counters *c = &qp->ca->counters;

	if (op == OP_WRITE)
		c->direct_writes++;
	else if (op == OP_READ_REQUEST)
		c->direct_reads++;
	else
		c->direct_atomics++;
	c->direct_mapped += is_mapped;
	c->direct_bytes += bytes;
	qp->messages_sent++;
	direct_load_count(qp, op, 0, bytes);
	if (op == OP_WRITE || op == OP_ATOMIC_WRITE)
		qp->bytes_sent += bytes;
	else
		qp->bytes_received += bytes;
}

/* Nor may it pass messages that were completed before they are known to be executed. */
static bool may_pass(struct qp *qp)
{
	return has_settled(qp) && direct_send_is_executed(qp);
}

/* Packets stand before the request; or messages that nobody acknowledges any more, for which there is no use in waiting. */
static enum direct_outcome follow(struct qp *qp, const struct send_wqe *wqe)
{
	struct engine *e = engine_of(qp);

	if (qp->type != IBV_QPT_RC || flight_empty(&e->flight) || (wqe->length < WORTH_WAITING && ++e->detours < DETOURS))
		return DIRECT_NONE;
	if (qp->ca->direct->reaches(qp->ca->direct_arg, qp))
		return DIRECT_LATER;
	e->detours = 0;
	return DIRECT_NONE;
}

/* The next slice. What is left at the end is one of up to two, so that it has the tail. */
static enum direct_outcome execute_slice(struct qp *qp, struct direct_request *r)
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
	if (!qp->ca->direct->execute(qp->ca->direct_arg, qp, &slice))
		return DIRECT_NONE;
	f->copied += slice.bytes;
	if (f->copied < r->bytes)
		return DIRECT_PART;
	f->copied = 0;
	count(qp, r->op, r->bytes, slice.is_mapped);
	return DIRECT_DONE;
}

/* The request itself, if it needs nothing of the target's program. */
static enum direct_outcome execute_any(struct qp *qp, const struct send_wqe *wqe, enum opcode_op op)
{
	int access = op == OP_WRITE ? 0 : IBV_ACCESS_LOCAL_WRITE;
	struct iovec iov[DIRECT_IOVS];
	int iovs = op == OP_ATOMIC_WRITE ? 0 : requester_borrow(qp, wqe, access, iov);
	struct direct_request r = {
		.op = op, .rkey = wqe->rkey, .va = wqe->remote_addr, .bytes = wqe->length,
		.iov = iov, .iovs = (unsigned)iovs, .compare = wqe->compare_add,
		.operand = op == OP_CMP_SWAP ? wqe->swap : wqe->compare_add,
	};
	bool has_result = op == OP_CMP_SWAP || op == OP_FETCH_ADD;

	if (iovs < 0 || (has_result && wqe->length != ATOMIC_BYTES))
		return DIRECT_NONE;
	if (r.bytes >= DIRECT_LONG)
		return execute_slice(qp, &r);
	if (!qp->ca->direct->execute(qp->ca->direct_arg, qp, &r))
		return DIRECT_NONE;
	if (has_result)
		(void)seg_scatter(qp->pd, wqe->seg, wqe->num_sge, 0, &r.original, sizeof(r.original));
	count(qp, op, r.bytes, r.is_mapped);
	return DIRECT_DONE;
}

/* The bytes of a write that are in one piece and done at once, as of most. NULL: they are not, or must be copied with care. */
static inline const void *one_piece(const struct qp *qp, const struct send_wqe *wqe)
{
	if (wqe->length - 1 >= DIRECT_LONG - 1 || qp->ca->memory_may_go)
		return NULL;
	if (wqe->flags & IBV_SEND_INLINE)
		return wqe->seg;
	return wqe->num_sge == 1 && wqe->seg->length == wqe->length ? seg_memory(qp->pd, wqe->seg, wqe->length, 0) : NULL;
}

static inline enum direct_outcome execute(struct qp *qp, const struct send_wqe *wqe, enum opcode_op op)
{
	const void *data = op == OP_WRITE ? one_piece(qp, wqe) : NULL;
	enum direct_write how;

	if (!data)
		return execute_any(qp, wqe, op);
	how = qp->ca->direct->write(qp->ca->direct_arg, qp, wqe->rkey, wqe->remote_addr, data, wqe->length);
	if (how == WRITE_REFUSED)
		return DIRECT_NONE;
	count(qp, OP_WRITE, wqe->length, how == WRITE_MAPPED);
	return DIRECT_DONE;
}

/* A long write with immediate data: a write, and then word of it. */
static enum direct_outcome write_and_tell(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	enum direct_outcome how;

	if (wqe->length >= DIRECT_LONG && request_packets(wqe->length, engine_mtu(qp)) > FLIGHT_SPAN_MOST)
		return DIRECT_NONE;
	if (!qp->ca->direct->connect(qp->ca->direct_arg, qp))
		return DIRECT_NONE;
	if (!may_pass(qp))
		return qp->type == IBV_QPT_RC && !flight_empty(&engine_of(qp)->flight) ? DIRECT_LATER : DIRECT_NONE;
	how = execute(qp, wqe, row->op);
	return how == DIRECT_DONE ? direct_send_take(qp, wqe, row, true) : how;
}

enum direct_outcome direct_take(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row)
{
	enum direct_outcome how = DIRECT_NONE;

	if (qp->type == IBV_QPT_UD)
		return ud_take_directly(qp, wqe);
	if (!engine_may_go_directly(qp))
		return DIRECT_NONE;
	if (wqe->bad_status || flight_repeats(&engine_of(qp)->flight))
		return DIRECT_NONE;
	if (row->needs == TARGET_PROGRAM) {
		engine_of(qp)->detours = 0;
		if (row->op == OP_WRITE && wqe->length > DIRECT_EAGER_MAX)
			return write_and_tell(qp, wqe, row);
		return direct_send_take(qp, wqe, row, false);
	}
	if (row->op != OP_WRITE && qp->attr.max_rd_atomic == 0)
		return DIRECT_NONE;
	if (!may_pass(qp)) {
		if (row->op == OP_WRITE && wqe->length <= DIRECT_EAGER_MAX)
			how = direct_send_take(qp, wqe, row, false);
		return how == DIRECT_NONE ? follow(qp, wqe) : how;
	}
	engine_of(qp)->detours = 0;
	return execute(qp, wqe, row->op);
}

/* What requester_run_direct and direct_take ask of such a request, where none stands before it. */
static inline bool executes_short(const struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	return f->phase == FLIGHT_OPEN && flight_empty(f) && !flight_repeats(f) && !engine_of(qp)->is_ahead &&
	       !qp->send_cq->asked && engine_may_go_directly(qp);
}

bool direct_rma_post(struct qp *qp, const struct wqe_seg *seg, bool is_inline, uint32_t rkey, uint64_t va)
{
	enum direct_write how = WRITE_REFUSED;
	const void *data;

	if (seg->length - 1 >= DIRECT_LONG - 1 || !executes_short(qp))
		return false;
	data = is_inline ? (const void *)(uintptr_t)seg->addr : qp_send_memory(qp, seg);
	if (data)
		how = qp->ca->direct->write(qp->ca->direct_arg, qp, rkey, va, data, seg->length);
	if (how == WRITE_REFUSED)
		return false;
	count(qp, OP_WRITE, seg->length, how == WRITE_MAPPED);
	engine_of(qp)->detours = 0;
	return true;
}

/* Where the result goes is looked up first: an atomic whose result cannot be stored is not executed. */
bool direct_rma_post_fetch(struct qp *qp, const struct wqe_seg *seg, const struct ibv_send_wr *wr)
{
	bool is_read = wr->opcode == IBV_WR_RDMA_READ;
	struct iovec iov = { .iov_len = seg->length };
	struct direct_request r = { .op = request_rows[wr->opcode].op, .bytes = seg->length, .iov = &iov, .iovs = is_read };

	if (is_read ? seg->length - 1 >= DIRECT_LONG - 1 : seg->length != ATOMIC_BYTES)
		return false;
	if (qp->attr.max_rd_atomic == 0 || !executes_short(qp))
		return false;
	iov.iov_base = seg_memory(qp->pd, seg, seg->length, IBV_ACCESS_LOCAL_WRITE);
	if (!iov.iov_base)
		return false;
	if (is_read) {
		r.rkey = wr->wr.rdma.rkey;
		r.va = wr->wr.rdma.remote_addr;
	} else {
		r.rkey = wr->wr.atomic.rkey;
		r.va = wr->wr.atomic.remote_addr;
		r.compare = wr->wr.atomic.compare_add;
		r.operand = r.op == OP_CMP_SWAP ? wr->wr.atomic.swap : wr->wr.atomic.compare_add;
	}
	if (!qp->ca->direct->execute(qp->ca->direct_arg, qp, &r))
		return false;
	if (!is_read)
		memcpy(iov.iov_base, &r.original, sizeof(r.original));
	count(qp, r.op, r.bytes, r.is_mapped);
	engine_of(qp)->detours = 0;
	return true;
}
