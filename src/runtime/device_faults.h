/* Faults of devices on demand (impair/device_faults.h): which calls of the program fail, and events with what they report: QPs in
 * the error state, a dead CQ. A trace has each call that a fault is for, and each event. */
#ifndef WEFT_RUNTIME_DEVICE_FAULTS_H
#define WEFT_RUNTIME_DEVICE_FAULTS_H

#include "impair/device_faults.h"
#include "verbs/cq.h"

struct runtime;

/* What a call is about, borrowed; events for a kind that it does not name are for all objects of the device. */
struct fault_objects {
	struct qp *qp;
	struct cq *cq;
	struct srq *srq;
};

/* A call of the program, outside the lock: 0, or -errno with which it ends, undone. One load where no call fails. */
int runtime_call(struct runtime *rt, const struct ca_device *dev, enum fault_verb verb, const struct fault_objects *objects);
/* Can any call of the program end so? */
bool runtime_calls_fail(const struct runtime *rt);

/* Under the lock: events whose time has come happen, once there is an object of their kind. */
void device_faults_expire(struct runtime *rt, wtime now);
/* When that is to be done, or WTIME_NEVER. Under the lock. */
wtime device_faults_next(const struct runtime *rt);

#endif
