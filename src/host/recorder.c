#include "host/recorder.h"

#include "host/faults.h"
#include "host/internal.h"
#include "ib/ib.h"
#include "link/trace_engine.h"

static struct recorder *recorder_of(const struct qp *qp)
{
	return faults_recorder(qp->ca->host);
}

static void record_as(const struct qp *qp, enum trace_kind kind, uint32_t to, wtime now, const void *numbers, uint32_t bytes)
{
	uint8_t data[sizeof(struct trace_qp)];
	struct trace_record r = { .kind = kind, .form = qp->dev->form, .to = to, .time = now, .data = data, .bytes = bytes };
	const struct host *h = qp->ca->host;

	if (h->forgotten)
		return;		/* the trace is the parent's */
	trace_put_numbers(numbers, bytes, data);
	tracer_add(recorder_of(qp)->tracer, &r);
}

static void record(const struct qp *qp, enum trace_kind kind, wtime now, const void *numbers, uint32_t bytes)
{
	record_as(qp, kind, qp->qpn, now, numbers, bytes);
}

/* What the program has posted to the queue since it was recorded last; a frame may need it. */
static void record_srq(const struct qp *qp, wtime now, struct srq *srq)
{
	struct trace_srq t = { srq->type == IBV_SRQT_XRC, srq->max_wr, !srq->is_recorded, srq->wq.announced };

	if (srq->is_recorded && srq->recorded == srq->wq.announced)
		return;
	srq->is_recorded = true;
	srq->recorded = srq->wq.announced;
	record_as(qp, TRACE_SRQ, srq->srqn, now, &t, sizeof(t));
}

/* XRC: each packet says which queue it needs. */
static void record_named_srq(const struct qp *qp, wtime now, uint32_t number)
{
	struct srq *srq = srq_find(qp->ca, number);

	if (srq)
		record_srq(qp, now, srq);
	else
		record_as(qp, TRACE_SRQ, number, now, &(struct trace_srq){ 0 }, sizeof(struct trace_srq));
}

static void enter(struct recorder *r)
{
	if (r->depth++ == 0)
		r->stopped = false;
}

static void fini(struct qp *qp)
{
	record(qp, TRACE_QP_GONE, qp->ca->now, NULL, 0);
	ib_transport.qp_fini(qp);
}

static void modified(struct qp *qp, wtime now, enum ibv_qp_state from, int mask)
{
	struct recorder *r = recorder_of(qp);
	struct trace_qp t;

	if (r->depth) {
		r->stopped |= qp->state == IBV_QPS_ERR;
	} else {
		if (qp->srq)
			record_srq(qp, now, qp->srq);
		trace_qp_of(qp, mask, &t);
		record(qp, TRACE_QP, now, &t, sizeof(t));
	}
	enter(r);
	ib_transport.qp_modified(qp, now, from, mask);
	r->depth--;
}

static void doorbell(struct qp *qp, wtime now)
{
	struct recorder *r = recorder_of(qp);

	if (qp->recorded - qp->sq.completed > qp->sq.announced - qp->sq.completed)
		qp->recorded = qp->sq.completed;	/* the queue was reset */
	for (; qp->recorded != qp->sq.announced; qp->recorded++) {
		struct trace_send t;

		trace_send_of(qp, qp_send_wqe(qp, qp->recorded), &t);
		record(qp, TRACE_SEND, now, &t, sizeof(t));
	}
	enter(r);
	ib_transport.qp_doorbell(qp, now);
	r->depth--;
}

static void recv_doorbell(struct qp *qp, wtime now)
{
	struct trace_receives t = { .announced = qp->rq.announced };

	record(qp, TRACE_RECEIVES, now, &t, sizeof(t));
	ib_transport.qp_recv_doorbell(qp, now);
}

static bool output(struct qp *qp, wtime now, struct packet_out *out)
{
	struct recorder *r = recorder_of(qp);
	bool made;

	enter(r);
	made = ib_transport.qp_output(qp, now, out);
	r->depth--;
	return made;
}

static void expire(struct qp *qp, wtime now)
{
	struct recorder *r = recorder_of(qp);

	record(qp, TRACE_EXPIRE, now, NULL, 0);
	enter(r);
	ib_transport.qp_expire(qp, now);
	r->depth--;
}

static void input(struct ca *ca, struct ca_device *dev, wtime now, const struct packet *p)
{
	struct recorder *r = faults_recorder(ca->host);
	const struct qp *qp = p->form == PACKET_ETHERNET ? NULL : qp_find(ca, p->dest_qpn);

	if (qp && qp->srq)
		record_srq(qp, now, qp->srq);
	else if (qp && qp->type == IBV_QPT_XRC_RECV)
		record_named_srq(qp, now, p->xrceth.srqn);
	enter(r);
	ib_transport.input(ca, dev, now, p);
	r->depth--;
}

const struct transport_ops *recorder_transport(void)
{
	static struct transport_ops ops;

	ops = ib_transport;
	ops.qp_fini = fini;
	ops.qp_modified = modified;
	ops.qp_doorbell = doorbell;
	ops.qp_recv_doorbell = recv_doorbell;
	ops.qp_output = output;
	ops.qp_expire = expire;
	ops.input = input;
	return &ops;
}
