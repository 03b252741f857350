/* Posting sends: a work request becomes a WQE. One row per opcode says who may post it and what data it has. */
#include "base/copy_few.h"
#include "base/qpn.h"
#include "verbs/qp.h"

#include <errno.h>
#include <string.h>

enum {
	RC = 1 << QP_KIND_RC, UC = 1 << QP_KIND_UC, UD = 1 << QP_KIND_UD, XRC = 1 << QP_KIND_XRC_SEND,
	RAW = 1 << QP_KIND_RAW,
	RELIABLE = RC | XRC,
	MAY_POST = 1 << IBV_QPS_RTS | 1 << IBV_QPS_SQD | 1 << IBV_QPS_SQE | 1 << IBV_QPS_ERR,	/* IBA 10.3.1 */
};

/* IBA table 99: which operations each service type has; send with invalidate and windows: 10.6, 11.4.1.1. */
const struct send_op send_ops[SEND_OPS] = {
	[IBV_WR_RDMA_WRITE]		= { RELIABLE | UC, IBV_WC_RDMA_WRITE, DATA_OUT, IBV_QP_EX_WITH_RDMA_WRITE },
	[IBV_WR_RDMA_WRITE_WITH_IMM]	= { RELIABLE | UC, IBV_WC_RDMA_WRITE, DATA_OUT, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM },
	[IBV_WR_SEND]			= { RELIABLE | UC | UD | RAW, IBV_WC_SEND, DATA_OUT, IBV_QP_EX_WITH_SEND },
	[IBV_WR_SEND_WITH_IMM]		= { RELIABLE | UC | UD, IBV_WC_SEND, DATA_OUT, IBV_QP_EX_WITH_SEND_WITH_IMM },
	[IBV_WR_RDMA_READ]		= { RELIABLE, IBV_WC_RDMA_READ, DATA_IN, IBV_QP_EX_WITH_RDMA_READ },
	[IBV_WR_ATOMIC_CMP_AND_SWP]	= { RELIABLE, IBV_WC_COMP_SWAP, DATA_ATOMIC, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP },
	[IBV_WR_ATOMIC_FETCH_AND_ADD]	= { RELIABLE, IBV_WC_FETCH_ADD, DATA_ATOMIC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD },
	[IBV_WR_LOCAL_INV]		= { RELIABLE | UC, IBV_WC_LOCAL_INV, DATA_NONE, IBV_QP_EX_WITH_LOCAL_INV },
	[IBV_WR_BIND_MW]		= { RELIABLE | UC, IBV_WC_BIND_MW, DATA_NONE, IBV_QP_EX_WITH_BIND_MW },
	[IBV_WR_SEND_WITH_INV]		= { RELIABLE, IBV_WC_SEND, DATA_OUT, IBV_QP_EX_WITH_SEND_WITH_INV },
	[IBV_WR_ATOMIC_WRITE]		= { RC, IBV_WC_ATOMIC_WRITE, DATA_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE },
};

static void copy_inline(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint8_t *to = (uint8_t *)wqe->seg;

	for (int i = 0; i < wr->num_sge; to += wr->sg_list[i++].length)
		if (wr->sg_list[i].length)	/* an empty one's address may be NULL */
			memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
}

/* The data is taken at once, as for inline: 8 bytes of payload. */
static int fill_atomic_write(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (wr->num_sge != 1 || wr->sg_list[0].length != ATOMIC_BYTES)
		return -EINVAL;
	memcpy(&wqe->compare_add, (const void *)(uintptr_t)wr->sg_list[0].addr, ATOMIC_BYTES);
	wqe->length = ATOMIC_BYTES;
	return 0;
}

static int fill_inline(const struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > qp->cap.max_inline_data)
		return -EINVAL;
	wqe->length = (uint32_t)length;
	copy_inline(wqe, wr);
	return 0;
}

static inline int fill_data(const struct qp *qp, const struct send_op *op, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (op->data == DATA_NONE)
		return 0;
	if ((uint32_t)wr->num_sge > qp->cap.max_send_sge)	/* or negative */
		return -EINVAL;
	if (op->data == DATA_ATOMIC_WRITE)
		return fill_atomic_write(wqe, wr);
	if (wqe->flags & IBV_SEND_INLINE)
		return fill_inline(qp, wqe, wr);
	qp_send_data(wqe, wr->sg_list, (uint32_t)wr->num_sge);
	return 0;
}

static int fill_datagram(const struct qp *qp, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	const struct ah *ah = (const struct ah *)wr->wr.ud.ah;

	if (!ah)
		return -EINVAL;
	wqe->av = ah->av;
	wqe->remote_qpn = wr->wr.ud.remote_qpn & QPN_MASK;
	wqe->qkey = wr->wr.ud.remote_qkey;
	if (ah->pd != qp->pd)	/* it completes with that when its turn comes */
		wqe->bad_status = IBV_WC_LOC_QP_OP_ERR;
	return 0;
}

static int fill_bind(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;

	if (!wr->bind_mw.mw || (info->length && !info->mr))
		return -EINVAL;
	wqe->bind_mw_rkey = wr->bind_mw.mw->rkey;
	wqe->bind_new_rkey = wr->bind_mw.rkey;
	wqe->bind_mr_lkey = info->mr ? info->mr->lkey : 0;
	wqe->bind_access = info->mw_access_flags;
	wqe->bind_addr = info->addr;
	wqe->bind_length = info->length;
	return 0;
}

static inline bool has_target(const struct qp *qp, const struct send_op *op)
{
	return op->wc_opcode != IBV_WC_SEND || qp->kind > QP_KIND_UC;
}

static inline bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static inline void write_target(struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (is_atomic(wr->opcode)) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
}

/* What the operation addresses at the other side. */
static int fill_target(const struct qp *qp, const struct send_op *op, struct send_wqe *wqe, const struct ibv_send_wr *wr)
{
	if (qp->type == IBV_QPT_UD)
		return fill_datagram(qp, wqe, wr);
	if (qp->type == IBV_QPT_XRC_SEND)
		wqe->remote_qpn = wr->qp_type.xrc.remote_srqn & QPN_MASK;
	if (op->wc_opcode == IBV_WC_SEND)
		return 0;
	if (wr->opcode == IBV_WR_BIND_MW)
		return fill_bind(wqe, wr);
	if (op->data != DATA_NONE)
		write_target(wqe, wr);
	return 0;
}

/* The checks that both ways of posting share. Faults that an adapter finds when it executes are found then: wqe_fetch.c. */
static inline int check(const struct qp *qp, const struct send_op *op, const struct send_wqe *wqe)
{
	if (wqe->flags & ~SEND_FLAGS_KNOWN)
		return -EINVAL;
	if (wqe->flags & IBV_SEND_INLINE &&
	    ((op->data != DATA_OUT && op->data != DATA_ATOMIC_WRITE) || wqe->length > qp->cap.max_inline_data))
		return -EINVAL;
	return 0;
}

static inline struct send_wqe *slot(struct qp *qp)
{
	struct send_wqe *wqe = wq_slot(&qp->sq.ulp);

	if (wqe)
		*wqe = (struct send_wqe){ 0 };
	return wqe;
}

struct send_wqe *qp_send_slot(struct qp *qp)
{
	return slot(qp);
}

static inline bool may_post(const struct qp *qp)
{
	return 1u << qp->state & MAY_POST;
}

/* Where the engine does not run apart the ring is nobody else's: a plain WQE is copied as it was just written. */
static inline void hand_over(struct qp *qp, const struct send_op *op, const struct send_wqe *posted)
{
	struct wq_engine *e = &qp->sq.engine;
	struct send_wqe *copy;

	if (qp->ca->doorbells || e->fetched != qp->sq.ulp.written || !send_is_plain(qp, op, posted))
		return;
	copy = wq_copy_at(e, wq_position(e, e->fetched++));
	*copy = *posted;
	copy->seg[0] = posted->seg[0];
}

/* Apart, as most requests are short. */
static __attribute__((noinline)) int post_one(struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct send_op *op = send_op_of(qp, wr->opcode);
	struct send_wqe *wqe;
	int err = 0;

	if (!op)
		return -EINVAL;
	wqe = slot(qp);
	if (!wqe)
		return -ENOMEM;
	wqe->wr_id = wr->wr_id;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->flags = qp_send_flags(wr->send_flags);
	wqe->imm = wr->imm_data;
	if (has_target(qp, op))
		err = fill_target(qp, op, wqe, wr);
	if (err == 0)
		err = fill_data(qp, op, wqe, wr);
	if (err == 0)
		err = check(qp, op, wqe);
	if (err < 0)
		return err;
	hand_over(qp, op, wqe);
	wq_written(&qp->sq.ulp);
	return 0;
}

__attribute__((noinline)) const void *qp_find_send_memory(struct qp *qp, const struct wqe_seg *seg)
{
	const void *memory = seg_memory(qp->pd, seg, seg->length, 0);

	if (memory)
		known_region_note(&qp->sends_from, mr_find(qp->ca, seg->lkey));
	return memory;
}

/* No flag that other requests are asked about, as most have none, on a QP whose send queue has nothing to do. */
static inline bool may_be_short(const struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct wq *sq = &qp->sq;

	return !(wr->send_flags & ~(IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED)) &&
	       qp->kind == QP_KIND_RC && qp->state == IBV_QPS_RTS && sq->engine.started == sq->ulp.written && sq->ulp.credits &&
	       !qp->ca->doorbells && qp->cap.max_send_sge;
}

/* The engine's copy of the next WQE. */
static inline struct send_wqe *next_copy(const struct qp *qp)
{
	const struct wq_engine *e = &qp->sq.engine;

	return wq_copy_at(e, wq_position(e, e->fetched));
}

/* Several inline pieces, as of a program that puts a header before its data, become one where the WQE keeps it. False: they are
 * too many or too long, or fewer than one. */
static inline bool join(const struct qp *qp, const struct ibv_send_wr *wr, struct wqe_seg *joined)
{
	uint8_t *to = (uint8_t *)next_copy(qp)->seg;
	uint32_t bytes = 0;

	if (wr->num_sge < 1 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return false;
	for (const struct ibv_sge *sge = wr->sg_list; sge < wr->sg_list + wr->num_sge; bytes += sge++->length) {
		if (sge->length > qp->cap.max_inline_data - bytes)
			return false;
		if (sge->length)	/* an empty one's address may be NULL */
			copy_few(to + bytes, (const void *)(uintptr_t)sge->addr, sge->length);
	}
	*joined = (struct wqe_seg){ (uintptr_t)to, bytes, 0 };
	return true;
}

/* The data of a request that may be short. is_joined: it has not one piece. */
static inline bool find_data(const struct qp *qp, const struct ibv_send_wr *wr, struct wqe_seg *seg, bool is_joined)
{
	if (is_joined)
		return join(qp, wr, seg);
	*seg = (struct wqe_seg){ wr->sg_list->addr, wr->sg_list->length, wr->sg_list->lkey };
	return !(wr->send_flags & IBV_SEND_INLINE) || seg->length <= qp->cap.max_inline_data;
}

/* The WQE of a short request that was taken: only the engine's copy, as the ring is nobody else's. */
static inline void write_short(struct qp *qp, const struct ibv_send_wr *wr, const struct wqe_seg *seg, bool is_joined)
{
	struct send_wqe *wqe = next_copy(qp);

	wqe->wr_id = wr->wr_id;
	wqe->opcode = (uint8_t)wr->opcode;
	wqe->flags = (uint8_t)wr->send_flags;
	wqe->bad_status = 0;
	wqe->imm = wr->imm_data;
	wqe->length = seg->length;
	wqe->remote_qpn = 0;
	if (wr->opcode != IBV_WR_SEND)
		write_target(wqe, wr);
	if (wqe->flags & IBV_SEND_INLINE) {
		wqe->num_sge = 0;
		if (!is_joined)		/* else it is there */
			copy_few(wqe->seg, (const void *)(uintptr_t)seg->addr, seg->length);
	} else {
		wqe->num_sge = 1;
		*wqe->seg = *seg;
		wq_transferred_one(&qp->sq.engine, seg, seg->length);
	}
}

static inline bool take_short(struct qp *qp, const struct message_ops *messages, const struct ibv_send_wr *wr,
			      const struct wqe_seg *seg)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;

	if (wr->opcode == IBV_WR_SEND)
		return messages->qp_send_short(qp, seg, wr->send_flags);
	if (wr->opcode != IBV_WR_RDMA_WRITE)
		return !is_inline && messages->qp_fetch_short(qp, seg, wr);
	return messages->qp_write_short(qp, seg, is_inline, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
}

static inline bool has_short_way(enum ibv_wr_opcode opcode)
{
	enum { SHORT_WAYS = 1 << IBV_WR_SEND | 1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_READ |
			    1 << IBV_WR_ATOMIC_CMP_AND_SWP | 1 << IBV_WR_ATOMIC_FETCH_AND_ADD };

	return (unsigned)opcode < SEND_OPS && SHORT_WAYS >> opcode & 1;
}

/* A request that can be done at once. False: nothing happened. is_joined is a constant. */
static inline __attribute__((always_inline)) bool post_short_as(struct qp *qp, const struct ibv_send_wr *wr, bool is_joined)
{
	const struct message_ops *messages = qp->dev->transport->messages;
	struct wq *sq = &qp->sq;
	struct wqe_seg seg;

	if (!has_short_way(wr->opcode) || !may_be_short(qp, wr) || !messages)
		return false;
	if (!find_data(qp, wr, &seg, is_joined) || !take_short(qp, messages, wr, &seg))
		return false;
	write_short(qp, wr, &seg, is_joined);
	wq_written(&sq->ulp);
	wq_ring_doorbell(&sq->ulp);
	wq_announced(sq);
	sq->engine.fetched = sq->engine.started = sq->engine.announced;
	if (wr->opcode != IBV_WR_SEND)
		qp_send_complete_until(qp, sq->engine.started);
	return true;
}

/* Inline, in several pieces. */
static __attribute__((noinline)) bool post_joined(struct qp *qp, const struct ibv_send_wr *wr)
{
	return post_short_as(qp, wr, true);
}

static inline bool post_short(struct qp *qp, const struct ibv_send_wr *wr)
{
	if (wr->num_sge == 1)
		return post_short_as(qp, wr, false);
	return wr->send_flags & IBV_SEND_INLINE && post_joined(qp, wr);
}

static inline void ring(struct qp *qp, wtime now)
{
	if (!wq_ring_doorbell(&qp->sq.ulp))
		return;
	if (qp->ca->doorbells) {
		doorbells_ring(qp->ca->doorbells, qp->handle);
		return;
	}
	wq_announced(&qp->sq);
	qp_send_announced(qp, now);
}

int qp_post_send(struct qp *qp, wtime now, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = 0;

	if (!may_post(qp)) {
		*bad = wr;
		return -EINVAL;
	}
	qp->ca->now = now;
	for (; wr; wr = wr->next) {
		if (post_short(qp, wr))
			continue;
		err = post_one(qp, wr);
		if (err < 0) {
			*bad = wr;
			break;
		}
	}
	ring(qp, now);
	return err;
}

int qp_send_written(struct qp *qp, struct send_wqe *wqe)
{
	const struct send_op *op = send_op_of(qp, wqe->opcode);
	int err = may_post(qp) && op && wqe->num_sge <= qp->cap.max_send_sge ? check(qp, op, wqe) : -EINVAL;

	if (err == 0)
		wq_written(&qp->sq.ulp);
	return err;
}

void qp_send_abort(struct qp *qp, uint32_t n)
{
	wq_unwrite(&qp->sq.ulp, n);
}

void qp_send_ring(struct qp *qp, wtime now)
{
	ring(qp, now);
}
