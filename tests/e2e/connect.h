/* How programs of several processes that stand on the object model connect their QPs. */
#ifndef WEFT_TESTS_E2E_CONNECT_H
#define WEFT_TESTS_E2E_CONNECT_H

#include "../rc_steps.h"
#include "fail.h"
#include "verbs/qp.h"

static inline void rc_connect(struct qp *qp, wtime now, struct ibv_qp_attr attr)
{
	for (unsigned i = 0; i < RC_STEPS; i++) {
		attr.qp_state = rc_step[i].to;
		check(qp_modify(qp, now, &attr, rc_step[i].mask), "connect");
	}
}

#endif
