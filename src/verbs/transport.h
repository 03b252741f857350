/* What verbs asks of a transport (ib: packets; later direct and iwarp): one const table, every entry filled. */
#ifndef WEFT_VERBS_TRANSPORT_H
#define WEFT_VERBS_TRANSPORT_H

#include "verbs/ca.h"

struct qp_context;
struct direct_message;

struct transport_ops {
	const char *name;
	/* Allocates qp->engine for a QP just created (RESET). -ENOMEM. */
	int (*qp_init)(struct qp *qp);
	void (*qp_fini)(struct qp *qp);
	/* verbs has checked and stored the attributes of `mask`; qp->state is already the new state. On RESET and ERR the
	 * engine forgets all flights, timers and half-done messages; verbs itself flushes the queues afterwards. */
	void (*qp_modified)(struct qp *qp, wtime now, enum ibv_qp_state from, int mask);
	/* Send WQEs were announced (qp->sq.announced grew). */
	void (*qp_doorbell)(struct qp *qp, wtime now);
	/* Receive WQEs were announced on an own RQ (an RNR responder does nothing; a pending inbound may continue). */
	void (*qp_recv_doorbell)(struct qp *qp, wtime now);
	bool (*qp_output)(struct qp *qp, wtime now, struct packet_out *out);
	wtime (*qp_deadline)(const struct qp *qp);
	void (*qp_expire)(struct qp *qp, wtime now);
	void (*input)(struct ca *ca, struct ca_device *dev, wtime now, const struct packet *p);
	/* Its part of the context: window_out_bytes, retries, receives_awaiting_ack. */
	void (*qp_context)(const struct qp *qp, struct qp_context *context);
	/* What may be unacknowledged: -EINVAL for more than the window it was made with, -EBUSY for less than is. */
	int (*qp_set_window)(struct qp *qp, uint64_t bytes);
	/* A whole message that came over a channel: verbs/direct.h. */
	void (*message)(struct ca *ca, wtime now, const void *channel, const struct direct_message *m);
	/* Whole messages are under way: takes over what the peer has executed. Was there anything? The QP leaves its list when
	 * nothing is under way any more. */
	bool (*qp_collect)(struct qp *qp, wtime now);
	/* What was noted of the QP is settled, and it leaves ca.unsettled. Did anything get through? */
	bool (*qp_settle)(struct qp *qp);
	/* sq_psn, rq_psn and cur state for query_qp */
	void (*qp_query)(const struct qp *qp, struct ibv_qp_attr *attr);
};

#endif
