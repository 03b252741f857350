/* Receives: posting, and being taken by inbound messages. A WQE is copied and bounded when it is taken: its memory may
 * be mapped by another process. At most one message per QP is half arrived, so a QP holds at most one receive. */
#include "verbs/qp.h"

#include "base/copy_few.h"
#include "base/log.h"
#include "wire/opcode.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* Apart, as most have one segment. */
static __attribute__((noinline)) int fill_segments(struct recv_wqe *wqe, const struct ibv_recv_wr *wr)
{
	uint64_t length = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		wqe->seg[i] = (struct wqe_seg){ wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey };
		length += wr->sg_list[i].length;
	}
	if (length > UINT32_MAX)
		return -EINVAL;
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	wqe->length = (uint32_t)length;
	return 0;
}

static inline int fill(struct recv_wqe *wqe, uint32_t max_sge, const struct ibv_recv_wr *wr)
{
	if ((uint32_t)wr->num_sge > max_sge)	/* or negative */
		return -EINVAL;
	if (wr->num_sge != 1)
		return fill_segments(wqe, wr);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = 1;
	wqe->length = wr->sg_list->length;
	*wqe->seg = (struct wqe_seg){ wr->sg_list->addr, wr->sg_list->length, wr->sg_list->lkey };
	return 0;
}

static inline int post(struct wq *wq, uint32_t max_sge, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad)
{
	int err = 0;

	for (; wr; wr = wr->next) {
		struct recv_wqe *wqe = wq_slot(&wq->ulp);

		err = wqe ? fill(wqe, max_sge, wr) : -ENOMEM;
		if (err < 0) {
			*bad = wr;
			break;
		}
		wq_written(&wq->ulp);
	}
	wq_ring_doorbell(&wq->ulp);
	return err;
}

int recv_post(struct wq *wq, uint32_t max_sge, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad)
{
	return post(wq, max_sge, wr, bad);
}

static __attribute__((noinline)) bool find_region(struct qp *qp, const struct ibv_sge *sge)
{
	struct mr *mr = mr_find(qp->ca, sge->lkey);

	if (!mr || mr->kind != MR_MEMORY || mr->pd != qp->pd || !(mr->access & IBV_ACCESS_LOCAL_WRITE) ||
	    !mr_covers(mr, sge->addr, sge->length))
		return false;
	known_region_note(&qp->receives.region, mr);
	return true;
}

/* Can nothing refuse what fits into it, as long as its region stays as it is? */
static inline bool is_sure(struct qp *qp, const struct ibv_recv_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;

	return wr->num_sge == 1 && sge->length &&
	       (known_region_at(&qp->receives.region, sge->addr, sge->length, sge->lkey) || find_region(qp, sge));
}

/* Those from index `from` on were posted. What follows one that is not sure is not promised before the queue was empty. */
static inline void note_receives(struct qp *qp, uint32_t from, const struct ibv_recv_wr *wr)
{
	struct qp_receives *r = &qp->receives;

	if (qp->rq.engine.started == from) {
		r->until = from;
		r->size = PROMISE_SIZE;
	}
	for (; r->until == from && from != qp->rq.ulp.written && is_sure(qp, wr); wr = wr->next) {
		uint8_t size = (uint8_t)(31 - __builtin_clz(wr->sg_list->length));

		if (size < r->size)
			r->size = size;
		r->until = ++from;
	}
}

int qp_post_recv(struct qp *qp, wtime now, const struct ibv_recv_wr *wr, const struct ibv_recv_wr **bad)
{
	uint32_t from = qp->rq.ulp.written;
	int err;

	if (qp->state == IBV_QPS_RESET || qp->srq || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV) {
		*bad = wr;
		return -EINVAL;
	}
	err = post(&qp->rq, qp->cap.max_recv_sge, wr, bad);
	if (qp->ca->doorbells) {
		doorbells_ring(qp->ca->doorbells, qp->handle);
		return err;
	}
	if (qp->kind == QP_KIND_RC && qp->route.kind != ROUTE_LOOP)	/* to ourselves nothing waits in a ring */
		note_receives(qp, from, wr);
	wq_announced(&qp->rq);
	qp_recv_announced(qp, now);
	return err;
}

static void copy_out(struct recv_ref *ref, const volatile struct recv_wqe *wqe, uint32_t max_sge)
{
	uint32_t num_sge = wqe->num_sge;
	uint64_t length = 0;

	ref->wr_id = wqe->wr_id;
	ref->num_sge = num_sge < max_sge ? num_sge : max_sge;
	for (uint32_t i = 0; i < ref->num_sge; i++) {
		ref->seg[i] = wqe->seg[i];
		length += ref->seg[i].length;
	}
	ref->length = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
}

/* Where receives of the QP, or of that SRQ, complete. */
static struct cq *completes_into(struct qp *qp, struct srq *srq)
{
	return srq && srq->type == IBV_SRQT_XRC ? srq->cq : qp->recv_cq;
}

/* Is there one? A consumer whose engine runs apart may have announced some since its doorbell was read. */
static inline bool has_receive(struct wq_engine *wq)
{
	if (wq->started == wq->announced)
		wq_doorbell_read(wq);
	return wq->started != wq->announced;
}

bool qp_recv_is_dry(struct qp *qp)
{
	return !qp->srq && !has_receive(&qp->rq.engine);
}

bool qp_recv_take(struct qp *qp, struct srq *xrc_srq, struct recv_ref *ref)
{
	struct srq *srq = xrc_srq ? xrc_srq : qp->srq;
	struct wq_engine *wq = srq ? &srq->wq.engine : &qp->rq.engine;

	if (!has_receive(wq) || completes_into(qp, srq)->asked || weft_bug_on(qp->taken.own || qp->taken.srq))
		return false;
	ref->index = wq->started;
	ref->is_srq = srq;
	ref->srq = srq;
	copy_out(ref, wq_engine_at(wq, wq->started), srq ? srq->max_sge : qp->cap.max_recv_sge);
	wq->started++;
	qp->taken.srq = srq;
	qp->taken.own = !srq;
	qp->taken.wr_id = ref->wr_id;
	qp->taken.index = ref->index;
	if (srq)
		srq_limit_check(srq);
	return true;
}

/* Whence a message came, and what else a completion says of it. */
struct recv_source {
	uint32_t qpn, wc_flags, imm;
	uint16_t slid;
	uint8_t sl, dlid_path_bits;
};

static __attribute__((noinline)) bool fill_any(struct qp *qp, const struct pd *pd, const struct wqe_seg *seg, const void *data,
					       uint32_t bytes)
{
	struct mr *mr = mr_find(pd->ca, seg->lkey);

	if (!seg_fill(pd, seg, data, bytes))
		return false;
	if (mr && mr->kind == MR_MEMORY && pd == qp->pd)
		known_region_note(&qp->receives.region, mr);
	return true;
}

/* Copies the bytes into memory that is judged by key, but for the region that is known. */
static inline bool fill_segment(struct qp *qp, const struct pd *pd, const struct wqe_seg *seg, const void *data,
				uint32_t bytes)
{
	void *memory = known_region_at(&qp->receives.region, seg->addr, bytes, seg->lkey);

	if (!memory || qp->ca->memory_may_go)
		return fill_any(qp, pd, seg, data, bytes);
	copy_few(memory, data, bytes);
	return true;
}

/* The first `before` bytes of the receive are left as they are. */
static inline __attribute__((always_inline)) bool take_short(struct qp *qp, uint32_t before, const void *data, uint32_t bytes,
							      const struct recv_source *from, bool solicited)
{
	struct srq *srq = qp->srq;
	struct wq *queue = srq ? &srq->wq : &qp->rq;
	struct wq_engine *wq = &queue->engine;
	const volatile struct recv_wqe *wqe;
	struct wqe_seg seg;
	struct cqe *cqe;
	uint32_t index;

	if (!has_receive(wq) || qp->recv_cq->asked)
		return false;
	wqe = wq_engine_at(wq, wq->started);
	if (wqe->num_sge != 1 || (srq ? srq->max_sge : qp->cap.max_recv_sge) == 0)
		return false;
	seg = wqe->seg[0];
	if ((uint64_t)before + bytes > seg.length)
		return false;
	seg.addr += before;
	if (!fill_segment(qp, srq ? srq->pd : qp->pd, &seg, data, bytes))
		return false;
	index = wq->started++;
	wq_completed(wq);
	wq_transferred_one(wq, &seg, bytes);
	if (srq)
		srq_limit_check(srq);
	cqe = qp_completion_place(qp, qp->recv_cq, true);
	cqe_fill(cqe, CQE_RECV, wqe->wr_id, IBV_WC_SUCCESS, IBV_WC_RECV, before + bytes, qp->qpn, from->qpn);
	cqe->imm = from->imm;
	cqe->wc_flags = from->wc_flags;
	cqe->slid = from->slid;
	cqe->sl = from->sl;
	cqe->dlid_path_bits = from->dlid_path_bits;
	cqe->pkey_index = qp->attr.pkey_index;
	qp_completed(qp->recv_cq, cqe, &queue->ulp, index, srq ? srq->srqn : 0, solicited);
	return true;
}

bool qp_recv_short(struct qp *qp, const void *data, uint32_t bytes, bool solicited)
{
	const struct recv_source from = { .qpn = qp->attr.dest_qp_num, .slid = qp->path.dlid, .sl = qp->path.sl };

	return take_short(qp, 0, data, bytes, &from, solicited);
}

bool qp_recv_datagram(struct qp *qp, uint32_t before, const struct direct_message *m)
{
	const struct opcode_row *row = opcode_row(m->opcode);
	const bool has_imm = row->headers & HDR_IMM;
	const struct recv_source from = {
		.qpn = m->src_qpn, .slid = m->datagram.slid, .sl = m->datagram.sl,
		.dlid_path_bits = device_path_bits(qp->dev, m->datagram.dlid),
		.wc_flags = has_imm ? IBV_WC_WITH_IMM : 0, .imm = has_imm ? htobe32(m->trailer) : 0,
	};

	return take_short(qp, before, m->iov->iov_base, m->bytes, &from, m->solicited);
}

/* The end of the receive the QP holds: false when its SRQ went meanwhile. */
static bool release(struct qp *qp)
{
	bool held = qp->taken.own || qp->taken.srq;

	qp->taken.own = false;
	qp->taken.srq = NULL;
	return held;
}

static void complete(struct qp *qp, struct srq *srq, struct cqe *cqe, bool solicited)
{
	cqe->wqn = qp->qpn;
	cqe->kind = CQE_RECV;
	cqe->srqn = srq ? srq->srqn : 0;
	if (srq)
		srq_done(srq);
	else
		wq_completed(&qp->rq.engine);
	cq_push(completes_into(qp, srq), cqe, solicited);
}

void qp_recv_complete(struct qp *qp, const struct recv_ref *ref, struct cqe *cqe, bool solicited)
{
	if (!release(qp))
		return;
	cqe->wr_id = ref->wr_id;
	cqe->wqe_index = ref->index;
	complete(qp, ref->srq, cqe, solicited);
}

void qp_recv_untake(struct qp *qp, const struct recv_ref *ref)
{
	struct wq_engine *wq = ref->is_srq ? &ref->srq->wq.engine : &qp->rq.engine;
	struct recv_wqe *wqe;

	if (!release(qp))
		return;
	/* Others may have taken from the SRQ since; the slot before the next is free as long as our credit is out. */
	wqe = wq_engine_at(wq, --wq->started);
	wqe->wr_id = ref->wr_id;
	wqe->num_sge = ref->num_sge;
	wqe->length = ref->length;
	memcpy(wqe->seg, ref->seg, ref->num_sge * sizeof(ref->seg[0]));
	qp->receives.until = qp->rq.engine.started;	/* what is next again was not promised */
}

void qp_recv_forget(struct qp *qp)
{
	struct srq *srq = qp->taken.srq;

	if (!release(qp) || !srq)
		return;
	srq_done(srq);
	srq_reaped(srq);
}

void qp_flush_recv(struct qp *qp)
{
	struct srq *srq = qp->taken.srq;
	struct cqe cqe = {
		.wr_id = qp->taken.wr_id, .wqe_index = qp->taken.index, .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV,
	};

	release(qp);
	if (srq)
		complete(qp, srq, &cqe, false);
	while (wq_pending(&qp->rq.engine)) {
		cqe.wr_id = ((struct recv_wqe *)wq_engine_at(&qp->rq.engine, qp->rq.engine.completed))->wr_id;
		cqe.wqe_index = qp->rq.engine.completed;
		complete(qp, NULL, &cqe, false);
	}
	qp->rq.engine.started = qp->rq.engine.completed;
}
