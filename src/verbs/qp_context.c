#include "verbs/qp_context.h"

#include "wire/aeth.h"
#include "wire/mtu.h"

#include <errno.h>
#include <string.h>

enum { ACK_CODES = 32 };

static uint64_t offset_of(const struct wq *wq, const void *slot)
{
	return (uint64_t)((const uint8_t *)slot - wq->engine.ring.arena->base);
}

static void wq_context_get(const struct qp *qp, const struct wq *wq, struct wq_context *c)
{
	struct mr *mr = wq->engine.after_lkey ? mr_find(qp->ca, wq->engine.after_lkey) : NULL;

	if (!wq->engine.ring.capacity)
		return;
	c->head = offset_of(wq, wq_ulp_at(&wq->ulp, wq->ulp.written));
	c->next_wqe = offset_of(wq, wq_engine_at(&wq->engine, wq->engine.started));
	c->cq = wq->engine.cq;
	c->pending_wqes = wq_pending(&wq->engine);
	c->pending_transfers = wq->engine.started - wq->engine.completed;
	c->after_logical = wq->engine.after;
	if (mr && mr->kind != MR_WINDOW && mr_covers(mr, wq->engine.after, 0))
		c->after_memory = (uintptr_t)mr_borrow(mr, wq->engine.after);
}

static uint64_t receive_bytes(const struct wq *wq)
{
	uint64_t bytes = 0;

	for (uint32_t i = wq->engine.started; i != wq->engine.announced; i++)
		bytes += ((const struct recv_wqe *)wq_engine_at(&wq->engine, i))->length;
	return bytes;
}

void qp_context_get(const struct qp *qp, struct qp_context *c)
{
	const struct wq *receives = qp->srq ? &qp->srq->wq : &qp->rq;

	memset(c, 0, sizeof(*c));	/* padding too: parts are compared as memory */
	c->ulp.ip_version = qp->ip_version;
	c->ulp.port = qp->attr.port_num;
	c->ulp.pmtu_bytes = qp->attr.path_mtu ? mtu_bytes(qp->attr.path_mtu) : 0;
	c->ulp.retry_limit = qp->attr.retry_cnt;
	c->ulp.max_reads = qp->attr.max_rd_atomic;
	c->ulp.ack_wait_ns = ack_timeout_ns(qp->attr.timeout);
	c->engine.state = qp->state;
	c->engine.window_in_bytes = receive_bytes(receives);
	c->fixed.type = qp->type;
	c->fixed.data_segments = qp->cap.max_send_sge;
	c->fixed.pd = qp->pd ? qp->pd->handle : 0;
	wq_context_get(qp, &qp->sq, &c->send);
	wq_context_get(qp, receives, &c->recv);
	qp->dev->transport->qp_context(qp, c);
}

static uint8_t ack_code(uint64_t wait_ns)
{
	for (unsigned code = 1; code < ACK_CODES; code++)
		if (ack_timeout_ns(code) >= wait_ns)
			return (uint8_t)code;
	return 0;
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	unsigned code = IBV_MTU_256;

	while (code <= IBV_MTU_4096 && mtu_bytes(code) != bytes)
		code++;
	return (enum ibv_mtu)code;	/* one too many is refused with the other attributes */
}

static int ip_version_check(const struct qp *qp, uint32_t version)
{
	if (version != 0 && version != 4 && version != 6)
		return -EINVAL;
	if (version && !device_has(qp->dev, DEVICE_IP_GIDS))
		return -EINVAL;
	return version != qp->ip_version && qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT ? -EBUSY : 0;
}

/* What differs, as attributes. */
static int to_attributes(const struct qp_context_ulp *now, const struct qp_context_ulp *then, struct ibv_qp_attr *attr)
{
	int mask = 0;

	if (then->port != now->port)
		mask |= IBV_QP_PORT;
	if (then->pmtu_bytes != now->pmtu_bytes)
		mask |= IBV_QP_PATH_MTU;
	if (then->max_reads != now->max_reads)
		mask |= IBV_QP_MAX_QP_RD_ATOMIC;
	if (then->retry_limit != now->retry_limit)
		mask |= IBV_QP_RETRY_CNT;
	if (then->ack_wait_ns != now->ack_wait_ns)
		mask |= IBV_QP_TIMEOUT;
	*attr = (struct ibv_qp_attr){
		.port_num = then->port <= UINT8_MAX ? (uint8_t)then->port : 0, .path_mtu = mtu_code(then->pmtu_bytes),
		.max_rd_atomic = then->max_reads <= UINT8_MAX ? (uint8_t)then->max_reads : UINT8_MAX,
		.retry_cnt = then->retry_limit <= UINT8_MAX ? (uint8_t)then->retry_limit : UINT8_MAX,
		.timeout = ack_code(then->ack_wait_ns),
	};
	return mask;
}

int qp_context_set(struct qp *qp, const struct qp_context *context)
{
	static const int settled = IBV_QP_PORT | IBV_QP_PATH_MTU | IBV_QP_MAX_QP_RD_ATOMIC;
	struct qp_context now;
	struct ibv_qp_attr attr;
	int mask, err;

	qp_context_get(qp, &now);
	/* NOLINTBEGIN(bugprone-suspicious-memory-comparison) ; see qp_context_get */
	if (memcmp(&context->engine, &now.engine, sizeof(now.engine)) || memcmp(&context->fixed, &now.fixed, sizeof(now.fixed)) ||
	    memcmp(&context->send, &now.send, sizeof(now.send)) || memcmp(&context->recv, &now.recv, sizeof(now.recv)))
		return -EPERM;
	/* NOLINTEND(bugprone-suspicious-memory-comparison) */
	mask = to_attributes(&now.ulp, &context->ulp, &attr);
	if (mask & settled && qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_INIT)
		return -EBUSY;
	err = ip_version_check(qp, context->ulp.ip_version);
	if (err == 0)
		err = qp_attr_check(qp, &attr, mask);
	if (err == 0 && context->ulp.window_out_bytes != now.ulp.window_out_bytes)
		err = qp->dev->transport->qp_set_window(qp, context->ulp.window_out_bytes);
	if (err < 0)
		return err;
	qp->ip_version = (uint8_t)context->ulp.ip_version;
	qp_attr_store(qp, &attr, mask);
	return 0;
}
