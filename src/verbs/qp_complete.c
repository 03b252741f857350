/* Completions of the send queue, flushing, and what a QP tells its owner. */
#include "verbs/qp.h"

static enum ibv_wc_opcode wc_opcode_of(const struct send_wqe *wqe)
{
	return wqe->opcode < SEND_OPS ? send_ops[wqe->opcode].wc_opcode : IBV_WC_SEND;
}

/* IPS-29: the WQE is finished before its completion can be seen, so that pending is never too high. `status` is a constant where
 * all succeed. */
static inline __attribute__((always_inline)) void complete(struct qp *qp, enum ibv_wc_status status)
{
	struct wq_engine *sq = &qp->sq.engine;
	uint32_t index = sq->completed;
	enum ibv_wc_opcode opcode;
	const struct send_wqe *wqe;
	struct cqe *cqe;

	wqe = qp_send_oldest(qp);
	opcode = wc_opcode_of(wqe);
	wq_completed(sq);
	if (sq->started == index)
		sq->started++;
	if (status == IBV_WC_SUCCESS && opcode == IBV_WC_SEND)
		QP_COUNT(qp, rdma_sends, 1);
	if (!qp->sq_sig_all && !(wqe->flags & IBV_SEND_SIGNALED) && status == IBV_WC_SUCCESS)
		return;
	cqe = qp_completion_place(qp, qp->send_cq, status == IBV_WC_SUCCESS);
	cqe_fill(cqe, CQE_SEND, wqe->wr_id, status, opcode, status == IBV_WC_SUCCESS ? wqe->length : 0, qp->qpn, qp->qpn);
	qp_completed(qp->send_cq, cqe, &qp->sq.ulp, index, 0, false);
}

void qp_send_complete(struct qp *qp, enum ibv_wc_status status)
{
	complete(qp, status);
}

void qp_send_complete_until(struct qp *qp, uint32_t index)
{
	while ((int32_t)(index - qp->sq.engine.completed) > 0)
		complete(qp, IBV_WC_SUCCESS);
}

void qp_flush_send(struct qp *qp)
{
	while (wq_pending(&qp->sq.engine))
		qp_send_complete(qp, IBV_WC_WR_FLUSH_ERR);
	qp->sq.engine.started = qp->sq.engine.completed;
}

void qp_event(struct qp *qp, enum ibv_event_type event)
{
	qp->ca->ops->async_event(qp->ca->owner, event, qp);
}

void qp_ready(struct qp *qp)
{
	if (!list_linked(&qp->ready))
		list_append(&qp->ca->ready, &qp->ready);
}

void qp_next_slice(struct qp *qp)
{
	list_remove(&qp->ready);
	list_append(&qp->ca->slices, &qp->ready);
}

void qp_rearm(struct qp *qp)
{
	struct timer_heap *timers = &qp->ca->timers;
	wtime at = qp->dev->transport->qp_deadline(qp);

	if (at == WTIME_NEVER)
		timer_heap_remove(timers, &qp->timer);
	else if (!timer_heap_contains(&qp->timer))
		timer_heap_insert(timers, &qp->timer, at);
	else if (qp->timer.at != at)
		timer_heap_update(timers, &qp->timer, at);
}
