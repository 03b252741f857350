#include "runtime/device_faults.h"

#include "impair/trace_engine.h"
#include "runtime/entry.h"
#include "runtime/faults.h"
#include "runtime/recorder.h"
#include "runtime/state.h"
#include "runtime/tracer.h"

/* Our choice: how often a due event looks for an object. */
static const wtime LOOK_EVERY = 10 * WTIME_MS;

static const struct fault_objects all_objects;

static void record(struct runtime *rt, enum trace_kind kind, unsigned device, uint32_t to, uint64_t error, uint64_t bits)
{
	const struct trace_call call = { error, bits };
	struct tracer *tracer = faults_recorder(rt)->tracer;
	uint8_t data[sizeof(call)];
	struct trace_record r = { .kind = kind, .device = device, .to = to, .time = rt->ca.now, .data = data,
				  .bytes = sizeof(data) };

	if (!tracer)
		return;
	trace_put_numbers(&call, sizeof(call), data);
	tracer_add(tracer, &r);
}

static bool of_device(struct runtime *rt, const struct ca_device *dev, const struct fault_event *e)
{
	if (!rt->events || !rt->events->is_open(dev))
		return false;
	rt->events->async_event(e->type, (void *)(uintptr_t)dev);
	if (e->kills)
		list_for_each(qp, &rt->ca.all_qps, struct qp, all)
			if (device_first(qp->dev) == dev)
				qp_error(qp, rt->ca.now, 0);
	return true;
}

static bool of_qp(struct runtime *rt, const struct ca_device *dev, const struct fault_event *e, const struct qp *one)
{
	bool any = false;

	list_for_each(qp, &rt->ca.all_qps, struct qp, all) {
		if (device_first(qp->dev) != dev || !qp->user || (one && qp != one))
			continue;
		if (e->kills)
			qp_error(qp, rt->ca.now, (int)e->type);
		else
			rt->events->async_event(e->type, qp);
		any = true;
	}
	return any;
}

static bool of_cq(struct runtime *rt, const struct ca_device *dev, struct cq *one)
{
	bool any = false;
	struct cq *cq;

	for (uint32_t at = 0; (cq = table_next(&rt->ca.cqs, &at));) {
		if (cq->dev != dev || !cq->user || (one && cq != one))
			continue;
		cq_fail(cq, rt->ca.now);
		any = true;
	}
	return any;
}

static bool of_srq(struct runtime *rt, const struct ca_device *dev, const struct fault_event *e, struct srq *one)
{
	bool any = false;
	struct srq *srq;

	for (uint32_t at = 0; (srq = table_next(&rt->ca.srqs, &at));) {
		if (srq->dev != dev || !srq->user || (one && srq != one))
			continue;
		rt->events->async_event(e->type, srq);
		if (e->kills)
			list_for_each(qp, &rt->ca.all_qps, struct qp, all)
				if (qp->srq == srq)
					qp_error(qp, rt->ca.now, IBV_EVENT_QP_FATAL);
		any = true;
	}
	return any;
}

/* False: there is no object that it could happen to. */
static bool happen(struct runtime *rt, const struct ca_device *dev, const struct fault_event *e, const struct fault_objects *o)
{
	switch (e->target) {
	case FAULT_OF_DEVICE:
		return of_device(rt, dev, e);
	case FAULT_OF_CQ:
		return (!o->qp || o->cq) && of_cq(rt, dev, o->cq);
	case FAULT_OF_QP:
		return of_qp(rt, dev, e, o->qp);
	case FAULT_OF_SRQ:
		return (!o->qp || o->srq) && of_srq(rt, dev, e, o->srq);
	}
	return false;
}

/* Under the lock. */
static int call(struct runtime *rt, const struct ca_device *dev, enum fault_verb verb, const struct fault_objects *o)
{
	struct device_faults *df = faults_of_devices(rt);
	unsigned events;
	int error;

	if (!df || !device_faults_concern(df, dev->index, verb))
		return 0;
	error = device_faults_call(df, dev->index, verb, &events);
	record(rt, TRACE_CALL, dev->index, (uint32_t)verb, (uint64_t)error, events);
	for (unsigned i = 0; i < df->count; i++) {
		if (!(events >> i & 1))
			continue;
		device_faults_happen(df, i, dev->index);
		rt->ca.counters.impaired_events += happen(rt, dev, df->fault[i].event, o ? o : &all_objects);
	}
	rt->ca.counters.impaired_calls += error != 0;
	return -error;
}

bool runtime_calls_fail(const struct runtime *rt)
{
	return atomic_load_explicit(&rt->calls_fail, memory_order_relaxed);
}

int runtime_call(struct runtime *rt, const struct ca_device *dev, enum fault_verb verb, const struct fault_objects *objects)
{
	int err;

	if (!runtime_calls_fail(rt))
		return 0;
	runtime_enter(rt);
	err = call(rt, dev, verb, objects);
	runtime_leave(rt);
	return err;
}

void device_faults_expire(struct runtime *rt, wtime now)
{
	struct device_faults *df = faults_of_devices(rt);
	unsigned due = df ? device_faults_due(df, now) : 0;

	for (unsigned i = 0; due >> i; i++) {
		unsigned happened = 0;

		for (int d = 0; due >> i & 1 && d < rt->ca.devices; d++)
			if (df->fault[i].devices >> d & 1 && rt->ca.dev[d].port_num == CA_PORT &&
			    happen(rt, &rt->ca.dev[d], df->fault[i].event, &all_objects))
				happened |= 1u << d;
		if (!happened)
			continue;
		for (unsigned d = 0; happened >> d; d++)
			if (happened >> d & 1)
				device_faults_happen(df, i, d);
		record(rt, TRACE_EVENT, 0, i, 0, happened);
		rt->ca.counters.impaired_events++;
	}
}

wtime device_faults_next(const struct runtime *rt)
{
	struct device_faults *df = faults_of_devices((struct runtime *)(uintptr_t)rt);

	if (!df)
		return WTIME_NEVER;
	return device_faults_due(df, rt->ca.now) ? rt->ca.now + LOOK_EVERY : device_faults_deadline(df, rt->ca.now);
}
