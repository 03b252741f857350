#include "runtime/recorder.h"

#include "ib/ib.h"
#include "impair/trace_engine.h"
#include "runtime/faults.h"
#include "runtime/state.h"

#include <stdlib.h>

/* What the trace has of a queue so far, at qp->observer and srq->observer. */
struct observed {
	uint32_t wqes;		/* send WQEs or an SRQ's receives, as their announced count was */
	bool is_over;		/* the trace leaves out the rest */
};

/* is_new: nothing of it is in the trace. NULL: there is no memory. */
static struct observed *observed(void **observer, bool *is_new)
{
	*is_new = !*observer;
	if (!*observer)
		*observer = calloc(1, sizeof(struct observed));
	return *observer;
}

static struct recorder *recorder_of(const struct qp *qp)
{
	return faults_recorder(qp->ca->owner);
}

static void record_as(const struct qp *qp, enum trace_kind kind, uint32_t to, wtime now, const void *numbers, uint32_t bytes)
{
	uint8_t data[sizeof(struct trace_qp)];
	struct trace_record r = { .kind = kind, .device = qp->dev->index, .form = qp->dev->protocol->form, .to = to, .time = now,
				  .data = data, .bytes = bytes };
	const struct runtime *rt = qp->ca->owner;

	if (rt->peers.in_forked_child)
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
	bool is_new;
	struct observed *o = observed(&srq->observer, &is_new);
	struct trace_srq t = { srq->type == IBV_SRQT_XRC, srq->max_wr, is_new, srq->wq.engine.announced };

	if (!o || (!is_new && o->wqes == srq->wq.engine.announced))
		return;
	o->wqes = srq->wq.engine.announced;
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

/* The trace does not know when the program removes completions, and a QP whose CQ found no room waits for that: the trace
 * follows it up to then. */
static bool is_followed(struct qp *qp, wtime now)
{
	bool awaits_room = (qp->send_cq && qp->send_cq->asked) || (qp->recv_cq && qp->recv_cq->asked), is_new;
	struct observed *o = observed(&qp->observer, &is_new);

	if (o && awaits_room && !o->is_over) {
		record(qp, TRACE_QP_GONE, now, NULL, 0);
		o->is_over = true;
	}
	return o && !o->is_over;
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
	} else if (is_followed(qp, now)) {
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
	bool followed = is_followed(qp, now);
	struct observed *o = qp->observer;

	if (o && o->wqes - qp->sq.engine.completed > qp->sq.engine.announced - qp->sq.engine.completed)
		o->wqes = qp->sq.engine.completed;	/* the queue was reset */
	for (; followed && o->wqes != qp->sq.engine.announced; o->wqes++) {
		struct trace_send t;

		trace_send_of(qp, wq_engine_at(&qp->sq.engine, o->wqes), &t);
		record(qp, TRACE_SEND, now, &t, sizeof(t));
	}
	enter(r);
	ib_transport.qp_doorbell(qp, now);
	r->depth--;
}

static void recv_doorbell(struct qp *qp, wtime now)
{
	struct trace_receives t = { .announced = qp->rq.engine.announced };

	if (is_followed(qp, now))
		record(qp, TRACE_RECEIVES, now, &t, sizeof(t));
	ib_transport.qp_recv_doorbell(qp, now);
}

static bool output(struct qp *qp, wtime now, struct packet_out *out)
{
	struct recorder *r = recorder_of(qp);
	bool made;

	(void)is_followed(qp, now);
	enter(r);
	made = ib_transport.packets->qp_output(qp, now, out);
	r->depth--;
	return made;
}

static void expire(struct qp *qp, wtime now)
{
	struct recorder *r = recorder_of(qp);

	if (is_followed(qp, now))
		record(qp, TRACE_EXPIRE, now, NULL, 0);
	enter(r);
	ib_transport.qp_expire(qp, now);
	r->depth--;
}

static void input(struct ca *ca, struct ca_device *dev, wtime now, origin_t origin, const struct packet *p)
{
	uint64_t refused = ca->counters.dropped_source;
	struct recorder *r = faults_recorder(ca->owner);
	struct qp *qp = p->form == PACKET_ETHERNET ? NULL : qp_find(ca, p->dest_qpn);

	if (qp)
		(void)is_followed(qp, now);
	if (qp && qp->srq)
		record_srq(qp, now, qp->srq);
	else if (qp && qp->type == IBV_QPT_XRC_RECV)
		record_named_srq(qp, now, p->xrceth.srqn);
	enter(r);
	ib_transport.packets->input(ca, dev, now, origin, p);
	r->refused = ca->counters.dropped_source != refused;
	r->depth--;
}

const struct transport_ops *recorder_transport(struct recorder *r)
{
	static const struct packet_ops packets = { .qp_output = output, .input = input };

	r->ops = ib_transport;
	r->ops.packets = &packets;
	r->ops.qp_fini = fini;
	r->ops.qp_modified = modified;
	r->ops.qp_doorbell = doorbell;
	r->ops.qp_recv_doorbell = recv_doorbell;
	r->ops.qp_expire = expire;
	return &r->ops;
}
