/* Why a QP stops, in words: what failed, what the likely cause is, and what to do next. In the log, and in the adapter's
 * history. */
#ifndef WEFT_IB_EXPLAIN_H
#define WEFT_IB_EXPLAIN_H

#include "ib/verdict.h"
#include "verbs/qp.h"

/* The oldest request that is not complete fails with this status. Before the QP leaves its state. */
void explain_request(struct qp *qp, wtime now, enum ibv_wc_status status);
/* A receive of the QP fails with this status. */
void explain_receive(struct qp *qp, wtime now, enum ibv_wc_status status);
/* The responder cannot serve a request of the peer. */
void explain_verdict(struct qp *qp, wtime now, const struct verdict_row *row);

#endif
