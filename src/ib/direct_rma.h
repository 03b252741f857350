/* Direct RMA: writes, reads and atomics with a target on this host. ca.direct executes them, in order and without packets. */
#ifndef WEFT_IB_DIRECT_RMA_H
#define WEFT_IB_DIRECT_RMA_H

#include "ib/request.h"
#include "verbs/qp.h"

enum direct_outcome {
	DIRECT_NONE,	/* the WQE goes by packets */
	DIRECT_LATER,	/* again when the packets in flight have been acknowledged, or the link has room */
	DIRECT_PART,	/* a slice was executed: the rest in the QP's next turn */
	DIRECT_DONE,	/* executed: no PSN, the WQE completes now; or sent as a direct message */
};

/* Executes or sends the WQE that is next to begin. */
enum direct_outcome direct_take(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row);

/* message_ops.qp_write_short */
bool direct_rma_post(struct qp *qp, const struct wqe_seg *seg, bool is_inline, uint32_t rkey, uint64_t va);
/* message_ops.qp_fetch_short */
bool direct_rma_post_fetch(struct qp *qp, const struct wqe_seg *seg, const struct ibv_send_wr *wr);

#endif
