/* What verbs asks of a device's transport: one table, whose base operations are all filled. All of verbs works over them; what
 * else a transport can do stands in tables beside them, NULL where it cannot:
 *   packet_ops   it makes and takes packets (ib), which the adapter pulls and gives: ca_output, ca_input
 *   message_ops  its QPs take direct messages (verbs/direct.h)
 * A transport without packet_ops sends when its doorbell rings, and ca_output rings the doorbell of its QPs that are ready
 * (qp_ready). */
#ifndef WEFT_VERBS_TRANSPORT_H
#define WEFT_VERBS_TRANSPORT_H

#include "verbs/ca.h"

struct qp_context;
struct direct_message;
struct ibv_send_wr;
struct wqe_seg;

struct packet_ops {
	/* The QP's next packet. False: it has none to send now. */
	bool (*qp_output)(struct qp *qp, wtime now, struct packet_out *out);
	/* A packet that arrived for a device of this transport. */
	void (*input)(struct ca *ca, struct ca_device *dev, wtime now, origin_t origin, const struct packet *p);
};

struct message_ops {
	/* A direct message that came over a channel for this QP. */
	void (*qp_message)(struct qp *qp, wtime now, const void *channel, const struct direct_message *m);
	/* A short one, RC's SEND ONLY with its bytes, that came over the QP's direct path from its peer. False: nothing happened
	 * that qp_message with the same message would not do again, and that is to be called. */
	bool (*qp_short)(struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited);
	/* A send of one segment, or of its bytes (IBV_SEND_INLINE in its flags), not fenced, is posted to an RC QP in RTS, before
	 * which no request is. True: it was sent at once, as a short message of the send WQE that starts next, which verbs writes
	 * now. False: nothing happened, and it is to be posted as any. */
	bool (*qp_send_short)(struct qp *qp, const struct wqe_seg *seg, unsigned flags);
	/* The same for an RDMA write, of its bytes or not, while nothing is in flight: it was executed, and verbs completes its
	 * WQE. */
	bool (*qp_write_short)(struct qp *qp, const struct wqe_seg *seg, bool is_inline, uint32_t rkey, uint64_t va);
	/* The same for an RDMA read, an atomic add or swap of `wr` into that segment. */
	bool (*qp_fetch_short)(struct qp *qp, const struct wqe_seg *seg, const struct ibv_send_wr *wr);
	/* Reads the ACK of the QP's direct messages. Was it new? The QP leaves its list when nothing is unacknowledged any
	 * more. */
	bool (*qp_reap_acks)(struct qp *qp, wtime now);
	/* The QP's postponed ACK takes effect, and the QP leaves ca.acks.postponed; its timer is set anew. Did anything get
	 * through? */
	bool (*qp_ack_postponed)(struct qp *qp);
};

/* What may be modified in a change of state, as a row of the standard's table. */
struct qp_transition {
	uint8_t from, to;		/* enum ibv_qp_state */
	uint8_t types;			/* 1 << qp_kind of each QP type */
	int required, optional;		/* enum ibv_qp_attr_mask, without IBV_QP_STATE */
};

struct qp_transitions {
	const struct qp_transition *row;
	unsigned rows;
};

/* IBA 11.2.5.2, tables 91 to 96: of InfiniBand and RoCE (qp_state.c). */
extern const struct qp_transitions qp_iba_transitions;

struct transport_ops {
	const char *name;
	uint8_t qp_types;			/* 1 << qp_kind of those that its QPs may have */
	uint32_t send_ops;			/* 1 << IBV_WR_* of what may be posted to them, where their type has it too */
	const struct qp_transitions *transitions;
	const struct packet_ops *packets;	/* or NULL */
	const struct message_ops *messages;	/* or NULL: its QPs never stand in a list of ca.acks */
	/* Allocates qp->engine for a QP just created (RESET). -ENOMEM. */
	int (*qp_init)(struct qp *qp);
	void (*qp_fini)(struct qp *qp);
	/* verbs has checked and stored the attributes of `mask`; qp->state is already the new state. On RESET and ERR the
	 * engine forgets all flights, timers and half-done messages; verbs itself flushes the queues afterwards. */
	void (*qp_modified)(struct qp *qp, wtime now, enum ibv_qp_state from, int mask);
	/* Send WQEs were announced (qp->sq.engine.announced grew); without packet_ops also: the QP was ready. */
	void (*qp_doorbell)(struct qp *qp, wtime now);
	/* Receive WQEs were announced on an own RQ (an RNR responder does nothing; a pending inbound may continue). */
	void (*qp_recv_doorbell)(struct qp *qp, wtime now);
	wtime (*qp_deadline)(const struct qp *qp);
	void (*qp_expire)(struct qp *qp, wtime now);
	/* Its part of the context: window_out_bytes, retries, receives_awaiting_ack. */
	void (*qp_context)(const struct qp *qp, struct qp_context *context);
	/* What may be unacknowledged: -EINVAL for more than the window it was made with, -EBUSY for less than is. */
	int (*qp_set_window)(struct qp *qp, uint64_t bytes);
	/* sq_psn, rq_psn and cur state for query_qp */
	void (*qp_query)(const struct qp *qp, struct ibv_qp_attr *attr);
};

#endif
