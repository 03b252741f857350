/* A transport without packets, for tests: what is posted to a QP is executed at its peer at once, by a function call. Its QPs are
 * joined by loop_join, as a connection manager joins two ends of a stream. */
#ifndef WEFT_TESTS_UNIT_LOOP_H
#define WEFT_TESTS_UNIT_LOOP_H

#include "verbs/qp.h"
#include "verbs/qp_context.h"

#include <errno.h>
#include <stdlib.h>

enum { LOOP_IOVS = 4, LOOP_BYTES = 4096, LOOP_WINDOW = 12345 };

struct loop {
	struct qp *peer;	/* borrowed; NULL: not joined, or the peer is gone */
	unsigned executed;
};

static inline struct loop *loop_of(const struct qp *qp)
{
	return qp->engine;
}

static inline void loop_join(struct qp *a, struct qp *b)
{
	loop_of(a)->peer = b;
	loop_of(b)->peer = a;
}

static inline int loop_init(struct qp *qp)
{
	qp->engine = calloc(1, sizeof(struct loop));
	return qp->engine ? 0 : -ENOMEM;
}

static inline void loop_fini(struct qp *qp)
{
	if (loop_of(qp)->peer)
		loop_of(loop_of(qp)->peer)->peer = NULL;
	free(qp->engine);
}

/* The data of the WQE, at most LOOP_BYTES. */
static inline enum ibv_wc_status loop_gather(struct qp *qp, const struct send_wqe *wqe, struct iovec iov[LOOP_IOVS],
					     unsigned *iovs)
{
	static uint8_t bounce[LOOP_BYTES];

	return seg_gather(qp, wqe->seg, wqe->num_sge, 0, wqe->length, iov, LOOP_IOVS, iovs, bounce);
}

/* False: the peer has no receive, and the send waits. */
static inline bool loop_send(struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status *status)
{
	struct cqe cqe = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .byte_len = wqe->length };
	struct qp *peer = loop_of(qp)->peer;
	struct iovec iov[LOOP_IOVS];
	struct recv_ref ref;
	unsigned iovs = 0;
	uint64_t at = 0;

	if (!qp_recv_take(peer, NULL, &ref))
		return false;
	*status = loop_gather(qp, wqe, iov, &iovs);
	for (unsigned i = 0; i < iovs && *status == IBV_WC_SUCCESS; at += iov[i++].iov_len)
		if (seg_scatter(peer->pd, ref.seg, ref.num_sge, at, iov[i].iov_base, (uint32_t)iov[i].iov_len) != IBV_WC_SUCCESS)
			*status = IBV_WC_REM_INV_REQ_ERR;
	if (*status == IBV_WC_SUCCESS)
		qp_recv_complete(peer, &ref, &cqe, false);
	else
		qp_recv_untake(peer, &ref);
	return true;
}

static inline enum ibv_wc_status loop_write(struct qp *qp, const struct send_wqe *wqe)
{
	struct qp *peer = loop_of(qp)->peer;
	struct iovec iov[LOOP_IOVS];
	enum ibv_wc_status status;
	uint64_t at = wqe->remote_addr;
	unsigned iovs = 0;
	struct mr *mr;

	if (remote_check(peer, wqe->rkey, at, wqe->length, IBV_ACCESS_REMOTE_WRITE, &mr) != REMOTE_OK)
		return IBV_WC_REM_ACCESS_ERR;
	status = loop_gather(qp, wqe, iov, &iovs);
	for (unsigned i = 0; i < iovs && status == IBV_WC_SUCCESS; at += iov[i++].iov_len)
		mr_write(mr, at, iov[i].iov_base, (uint32_t)iov[i].iov_len);
	return status;
}

static inline enum ibv_wc_status loop_read(struct qp *qp, const struct send_wqe *wqe)
{
	struct mr *mr;

	if (remote_check(loop_of(qp)->peer, wqe->rkey, wqe->remote_addr, wqe->length, IBV_ACCESS_REMOTE_READ, &mr) != REMOTE_OK)
		return IBV_WC_REM_ACCESS_ERR;
	return seg_scatter(qp->pd, wqe->seg, wqe->num_sge, 0, mr_borrow(mr, wqe->remote_addr), wqe->length);
}

static inline void loop_doorbell(struct qp *qp, wtime now)
{
	while (qp->state == IBV_QPS_RTS && loop_of(qp)->peer && qp->sq.engine.started != qp->sq.engine.announced) {
		const struct send_wqe *wqe = qp_send_next(qp);
		enum ibv_wc_status status = IBV_WC_SUCCESS;

		if (wqe->opcode == IBV_WR_SEND && !loop_send(qp, wqe, &status))
			return;
		if (wqe->opcode == IBV_WR_RDMA_WRITE)
			status = loop_write(qp, wqe);
		if (wqe->opcode == IBV_WR_RDMA_READ)
			status = loop_read(qp, wqe);
		loop_of(qp)->executed++;
		qp_send_complete(qp, status);
		if (status != IBV_WC_SUCCESS)
			qp_error(qp, now, 0);
	}
}

/* What waits for a receive goes on with the next ca_output, as it would when the peer's side of a stream can be written. */
static inline void loop_recv_doorbell(struct qp *qp, wtime now)
{
	(void)now;
	if (loop_of(qp)->peer)
		qp_ready(loop_of(qp)->peer);
}

static inline void loop_modified(struct qp *qp, wtime now, enum ibv_qp_state from, int mask)
{
	(void)qp;
	(void)now;
	(void)from;
	(void)mask;
}

static inline wtime loop_deadline(const struct qp *qp)
{
	(void)qp;
	return WTIME_NEVER;
}

static inline void loop_expire(struct qp *qp, wtime now)
{
	(void)qp;
	(void)now;
}

static inline void loop_context(const struct qp *qp, struct qp_context *context)
{
	(void)qp;
	context->ulp.window_out_bytes = LOOP_WINDOW;
}

static inline int loop_set_window(struct qp *qp, uint64_t bytes)
{
	(void)qp;
	(void)bytes;
	return -EINVAL;
}

static inline void loop_query(const struct qp *qp, struct ibv_qp_attr *attr)
{
	(void)qp;
	(void)attr;
}

/* As iWARP's: no address, no PSNs and no half connected state. Who joins the QPs has the rest. */
static const struct qp_transition loop_rows[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, 1 << QP_KIND_RC, IBV_QP_ACCESS_FLAGS, IBV_QP_PORT },
	{ IBV_QPS_INIT, IBV_QPS_RTS, 1 << QP_KIND_RC, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC },
};

static const struct qp_transitions loop_transitions = { loop_rows, 2 };

static const struct transport_ops loop_transport = {
	.name = "loop", .qp_types = 1 << QP_KIND_RC, .transitions = &loop_transitions,
	.send_ops = 1 << IBV_WR_SEND | 1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_READ,
	.qp_init = loop_init, .qp_fini = loop_fini, .qp_modified = loop_modified, .qp_doorbell = loop_doorbell,
	.qp_recv_doorbell = loop_recv_doorbell, .qp_deadline = loop_deadline, .qp_expire = loop_expire,
	.qp_context = loop_context, .qp_set_window = loop_set_window, .qp_query = loop_query,
};

/* No LIDs, no GRH, no frames of any form. */
static const struct device_protocol loop_protocol = { .name = "loop", .link_layer = IBV_LINK_LAYER_ETHERNET };

static const struct ca_device loop_device = {
	.name = "weft2", .protocol = &loop_protocol, .transport = &loop_transport, .guid = 0x0277660000000003,
	.active_mtu = IBV_MTU_4096, .max_mtu = IBV_MTU_4096, .port_state = IBV_PORT_ACTIVE, .pkeys = 1,
	.pkey = { 0xffff },
};

#endif
