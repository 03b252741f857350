/* Queue pairs: creation, numbers, destruction. States are in qp_state.c, attributes in qp_attr.c. */
#include "base/qpn.h"
#include "verbs/direct.h"
#include "verbs/rss.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_INLINE = 1024,		/* our choice: UCX and perftest ask for some 220 */
	MIN_INLINE = 64,		/* our choice: adapters give some unasked, and programs (rdma_xclient) count on it */
	INIT_KNOWN = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
		     IBV_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH |
		     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	SPREAD = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
};

int qp_kind(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return QP_KIND_RC;
	case IBV_QPT_UC:
		return QP_KIND_UC;
	case IBV_QPT_UD:
		return QP_KIND_UD;
	case IBV_QPT_XRC_SEND:
		return QP_KIND_XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return QP_KIND_XRC_RECV;
	case IBV_QPT_RAW_PACKET:
		return QP_KIND_RAW;
	default:
		return -1;
	}
}

/* The bits of those operations that both have. */
static uint32_t ops_of(const struct transport_ops *transport, int kind)
{
	uint32_t ops = 0;

	for (unsigned opcode = 0; opcode < SEND_OPS; opcode++)
		if (send_ops[opcode].types & 1 << kind)
			ops |= transport->send_ops & 1u << opcode;
	return ops;
}

static int ops_check(uint32_t ops, uint64_t wanted_flags)
{
	for (unsigned opcode = 0; opcode < SEND_OPS; opcode++)
		if (ops & 1u << opcode)
			wanted_flags &= ~(uint64_t)send_ops[opcode].ops_flag;
	return wanted_flags ? -EOPNOTSUPP : 0;
}

static int extras_check(const struct transport_ops *transport, const struct ibv_qp_init_attr_ex *attr, int kind)
{
	uint32_t mask = attr->comp_mask;

	if (mask & ~(uint32_t)INIT_KNOWN)
		return -EINVAL;
	/* only frames are spread, and only with both attributes */
	if (mask & SPREAD && (kind != QP_KIND_RAW || (mask & SPREAD) != SPREAD))
		return -EOPNOTSUPP;
	if ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags) ||
	    (mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER && attr->max_tso_header))
		return -EOPNOTSUPP;
	return mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? ops_check(ops_of(transport, kind), attr->send_ops_flags) : 0;
}

static int cap_check(const struct ibv_device_attr *limit, const struct ibv_qp_cap *cap)
{
	bool bad = cap->max_send_wr > (uint32_t)limit->max_qp_wr || cap->max_recv_wr > (uint32_t)limit->max_qp_wr ||
		   cap->max_send_sge > (uint32_t)limit->max_sge || cap->max_recv_sge > (uint32_t)limit->max_sge ||
		   cap->max_inline_data > MAX_INLINE;

	return bad ? -EINVAL : 0;
}

/* Which objects each type needs, all of the QP's device. IBA 11.2.5.1, A14. */
static int objects_check(const struct qp *qp, bool spreads)
{
	bool has_pd = qp->type != IBV_QPT_XRC_RECV, sends = has_pd && !spreads, receives = sends && qp->type != IBV_QPT_XRC_SEND;

	if (has_pd != !!qp->pd || sends != !!qp->send_cq || receives != !!qp->recv_cq || has_pd == !!qp->xrcd)
		return -EINVAL;
	if (qp->srq && (!receives || qp->srq->type != IBV_SRQT_BASIC || qp->srq->dev != qp->dev))
		return -EINVAL;
	if ((qp->pd && qp->pd->dev != qp->dev) || (qp->send_cq && qp->send_cq->dev != qp->dev) ||
	    (qp->recv_cq && qp->recv_cq->dev != qp->dev) || (qp->xrcd && qp->xrcd->dev != qp->dev))
		return -EINVAL;
	return 0;
}

/* Queues that the type does not have get no WQEs; the others what their rings hold. */
static void cap_adjust(const struct qp *qp, struct ibv_qp_cap *cap)
{
	if (!qp->send_cq)
		cap->max_send_wr = cap->max_send_sge = cap->max_inline_data = 0;
	else if (cap->max_inline_data < MIN_INLINE)
		cap->max_inline_data = MIN_INLINE;
	if (!qp->recv_cq || qp->srq)
		cap->max_recv_wr = cap->max_recv_sge = 0;
}

static int queues_init(struct qp *qp)
{
	size_t data = qp->cap.max_send_sge * sizeof(struct wqe_seg);
	int err;

	if (data < qp->cap.max_inline_data)
		data = qp->cap.max_inline_data;
	err = wq_init(&qp->sq, &qp->ca->arena, qp->cap.max_send_wr, (uint32_t)(sizeof(struct send_wqe) + data));
	if (err == 0)
		err = wq_init_copies(&qp->sq.engine);
	if (err < 0)
		goto fini_sq;
	err = wq_init(&qp->rq, &qp->ca->arena, qp->cap.max_recv_wr,
		      (uint32_t)(sizeof(struct recv_wqe) + qp->cap.max_recv_sge * sizeof(struct wqe_seg)));
	if (err < 0)
		goto fini_sq;
	qp->cap.max_send_wr = qp->sq.engine.ring.capacity;
	qp->cap.max_recv_wr = qp->rq.engine.ring.capacity;
	qp->sq.engine.cq = qp->send_cq ? qp->send_cq->handle : 0;
	qp->rq.engine.cq = qp->recv_cq ? qp->recv_cq->handle : 0;
	return 0;

fini_sq:
	wq_fini(&qp->sq);
	return err;
}

static uint32_t receives_at_most(const struct qp *qp)
{
	return qp->srq ? qp->srq->wq.engine.ring.capacity : qp->rq.engine.ring.capacity;
}

static int cqs_attach(struct qp *qp)
{
	int err = qp->send_cq ? cq_attach(qp->send_cq, qp->sq.engine.ring.capacity) : 0;

	if (err < 0 || !qp->recv_cq)
		return err;
	err = cq_attach(qp->recv_cq, receives_at_most(qp));
	if (err < 0)
		cq_detach(qp->send_cq, qp->sq.engine.ring.capacity);
	return err;
}

static void cqs_detach(struct qp *qp)
{
	if (qp->recv_cq)
		cq_detach(qp->recv_cq, receives_at_most(qp));
	if (qp->send_cq)
		cq_detach(qp->send_cq, qp->sq.engine.ring.capacity);
}

static int number_init(struct qp *qp)
{
	struct ca *ca = qp->ca;
	int err = ca->ops->qpn_alloc(ca->owner, &qp->qpn);

	if (err < 0)
		return err;
	if (weft_bug_on(qp->qpn > QPN_MASK || qp_find(ca, qp->qpn)))
		return -EINVAL;
	err = qp_table_insert(&ca->by_number, qp);
	if (err < 0)
		goto free_number;
	err = table_insert(&ca->qps, qp, &qp->handle);
	if (err == 0)
		return 0;
	qp_table_remove(&ca->by_number, qp);
free_number:
	ca->ops->qpn_free(ca->owner, qp->qpn);
	return err;
}

static void number_fini(struct qp *qp)
{
	table_remove(&qp->ca->qps, qp->handle);
	qp_table_remove(&qp->ca->by_number, qp);
	qp->ca->ops->qpn_free(qp->ca->owner, qp->qpn);
}

static void hold_objects(struct qp *qp)
{
	if (qp->pd)
		pd_get(qp->pd);
	if (qp->srq)
		qp->srq->refs++;
	if (qp->xrcd)
		qp->xrcd->users++;
	list_append(&qp->ca->all_qps, &qp->all);
}

static void release_objects(struct qp *qp)
{
	list_remove(&qp->all);
	if (qp->xrcd)
		qp->xrcd->users--;
	if (qp->srq)
		qp->srq->refs--;
	if (qp->pd)
		pd_put(qp->pd);
}

/* Everything that can fail, in order; the ladder is what free_qp does. */
static int setup(struct qp *qp)
{
	int err = queues_init(qp);

	if (err < 0)
		return err;
	err = cqs_attach(qp);
	if (err < 0)
		goto fini_queues;
	err = timer_heap_reserve(&qp->ca->timers, qp->ca->qps.count + 1);
	if (err < 0)
		goto detach_cqs;
	err = number_init(qp);
	if (err < 0)
		goto detach_cqs;
	err = qp->dev->transport->qp_init(qp);
	if (err < 0)
		goto fini_number;
	hold_objects(qp);
	return 0;

fini_number:
	number_fini(qp);
detach_cqs:
	cqs_detach(qp);
fini_queues:
	wq_fini(&qp->rq);
	wq_fini(&qp->sq);
	return err;
}

int qp_create(struct ca *ca, struct ca_device *dev, struct ibv_qp_init_attr_ex *attr, struct pd *pd, struct cq *send_cq,
	      struct cq *recv_cq, struct srq *srq, struct xrcd *xrcd, struct qp **out)
{
	bool spreads = attr->comp_mask & SPREAD;
	int kind = qp_kind(attr->qp_type), err;
	struct qp *qp;

	/* raw packets are Ethernet frames */
	if (kind < 0 || !(dev->transport->qp_types & 1 << kind) || (kind == QP_KIND_RAW && !device_has(dev, DEVICE_RAW_ETHERNET)))
		return -EOPNOTSUPP;
	err = extras_check(dev->transport, attr, kind);
	if (err < 0)
		return err;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	*qp = (struct qp){
		.ca = ca, .dev = dev, .type = attr->qp_type, .kind = (uint8_t)kind, .state = IBV_QPS_RESET,
		.refs = 1, .cap = attr->cap,
		.pd = kind == QP_KIND_XRC_RECV ? NULL : pd,
		.send_cq = kind == QP_KIND_XRC_RECV || spreads ? NULL : send_cq,
		.recv_cq = kind == QP_KIND_XRC_RECV || kind == QP_KIND_XRC_SEND || spreads ? NULL : recv_cq,
		.srq = srq, .xrcd = kind == QP_KIND_XRC_RECV ? xrcd : NULL,
		.sq_sig_all = attr->sq_sig_all, .send_ops = ops_of(dev->transport, kind),
		.send_ops_flags = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0,
	};
	cap_adjust(qp, &qp->cap);
	err = objects_check(qp, spreads);
	if (err == 0)
		err = cap_check(&dev->attr.orig_attr, &qp->cap);
	if (err == 0)
		err = setup(qp);
	if (err < 0) {
		free(qp);
		return err;
	}
	attr->cap = qp->cap;
	*out = qp;
	return 0;
}

int qp_open(struct xrcd *xrcd, uint32_t qpn, struct qp **out)
{
	struct qp *qp = qp_find(xrcd->ca, qpn);

	if (!qp)
		return -ENOENT;
	if (qp->type != IBV_QPT_XRC_RECV || qp->xrcd != xrcd)
		return -EINVAL;
	qp->refs++;
	*out = qp;
	return 0;
}

void qp_queues_reset(struct qp *qp)
{
	qp_recv_forget(qp);
	if (qp->send_cq)
		cq_clean(qp->send_cq, qp->qpn);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		cq_clean(qp->recv_cq, qp->qpn);
	wq_reset(&qp->sq);
	wq_reset(&qp->rq);
	qp->receives = (struct qp_receives){ 0 };
	memset(&qp->attr, 0, sizeof(qp->attr));
	memset(&qp->path, 0, sizeof(qp->path));
	free(qp->migration);
	qp->migration = NULL;
	lid_paths_forget(qp);
	qp->sqd_async = false;
}

int qp_destroy(struct qp *qp)
{
	if (qp->mcasts || qp->flows)
		return -EBUSY;
	if (--qp->refs)
		return 0;
	list_remove(&qp->ready);
	list_remove(&qp->unacked);
	list_remove(&qp->postponed);
	list_remove(&qp->withheld);
	timer_heap_remove(&qp->ca->timers, &qp->timer);
	if (qp->ca->direct && qp->published)
		qp->ca->direct->unpublish_qp(qp->ca->direct_arg, qp);
	mw_forget_qp(qp);
	rss_detach(qp);
	release_objects(qp);
	qp->dev->transport->qp_fini(qp);
	qp_queues_reset(qp);
	number_fini(qp);
	cqs_detach(qp);
	wq_fini(&qp->rq);
	wq_fini(&qp->sq);
	free(qp->observer);
	free(qp);
	return 0;
}

int qp_query(struct qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	qp->dev->transport->qp_query(qp, attr);
	memset(init, 0, sizeof(*init));
	init->cap = qp->cap;
	init->qp_type = qp->type;
	init->sq_sig_all = qp->sq_sig_all;
	return 0;
}
