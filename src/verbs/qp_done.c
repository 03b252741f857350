/* Completions of the send queue, flushing, and what a QP tells its owner. */
#include "verbs/qp.h"

/* IPS-29: the WQE is finished before its completion can be seen, so that pending is never too high. */
void qp_send_done(struct qp *qp, enum ibv_wc_status status)
{
	uint32_t index = qp->sq.completed;
	const struct send_wqe *wqe = wq_at(&qp->sq, index);
	struct cqe *cqe;

	qp->sq.completed++;
	if (qp->sq.started == index)
		qp->sq.started++;
	if (!qp->sq_sig_all && !(wqe->flags & IBV_SEND_SIGNALED) && status == IBV_WC_SUCCESS)
		return;
	cqe = cq_next(qp->send_cq);
	*cqe = (struct cqe){
		.wr_id = wqe->wr_id, .wqn = qp->qpn, .wqe_index = index, .kind = CQE_SEND, .status = (uint8_t)status,
		.opcode = wqe->opcode < SEND_OPS ? send_ops[wqe->opcode].wc_opcode : IBV_WC_SEND,
		.byte_len = status == IBV_WC_SUCCESS ? wqe->length : 0, .src_qp = qp->qpn,
	};
	cq_publish(qp->send_cq, cqe, false);
}

void qp_flush_send(struct qp *qp)
{
	while (wq_pending(&qp->sq))
		qp_send_done(qp, IBV_WC_WR_FLUSH_ERR);
	qp->sq.started = qp->sq.completed;
}

void qp_event(struct qp *qp, enum ibv_event_type event)
{
	qp->ca->host_ops->async_event(qp->ca->host, event, qp);
}

void qp_ready(struct qp *qp)
{
	if (!list_linked(&qp->ready))
		list_append(&qp->ca->ready, &qp->ready);
}

void qp_later(struct qp *qp)
{
	list_remove(&qp->ready);
	list_append(&qp->ca->later, &qp->ready);
}

void qp_rearm(struct qp *qp)
{
	struct heap *timers = &qp->ca->timers;
	wtime at = qp->ca->transport->qp_deadline(qp);

	if (at == WTIME_NEVER)
		heap_remove(timers, &qp->timer);
	else if (!heap_contains(&qp->timer))
		heap_insert(timers, &qp->timer, at);
	else if (qp->timer.at != at)
		heap_update(timers, &qp->timer, at);
}
