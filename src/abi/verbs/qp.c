/* Queue pairs: creation, attributes, posting, multicast, ECE. The builders of extended ones are in qp_ex.c. */
#include "runtime/entry.h"
#include "runtime/requests.h"
#include "verbs/rss.h"

#include "abi/verbs/object.h"

#include <stdlib.h>

/* The events of a QP are told to all its handles. Under the lock. */
static void enter_handle(struct abi_qp *qp)
{
	qp->next = qp->qp->user;
	qp->qp->user = qp;
}

static void leave_handle(struct abi_qp *qp)
{
	struct abi_qp *before = qp->qp->user;

	if (before == qp) {
		qp->qp->user = qp->next;
		return;
	}
	while (before->next != qp)
		before = before->next;
	before->next = qp->next;
}

static int destroy_qp(struct abi_object *o)
{
	struct abi_qp *qp = container_of(o, struct abi_qp, object);
	bool shared = qp->qp->refs > 1;
	int err = qp_destroy(qp->qp);

	if (err < 0)
		return err;
	if (shared)
		leave_handle(qp);
	events_forget(to_context(qp->ibv.qp_base.context), &qp->ibv.qp_base);
	return 0;
}

/* With its device: it leaves its groups. */
static int destroy_closed_qp(struct abi_object *o)
{
	mcast_detach_all(container_of(o, struct abi_qp, object)->qp);
	return destroy_qp(o);
}

static struct abi_qp *create(struct ibv_context *context)
{
	struct abi_qp *qp = calloc(1, sizeof(*qp));

	if (qp) {
		qp->rt = to_context(context)->rt;
		qp->ibv.qp_base.context = context;
		pthread_mutex_init(&qp->ibv.qp_base.mutex, NULL);
		pthread_cond_init(&qp->ibv.qp_base.cond, NULL);
		pthread_mutex_init(&qp->builder, NULL);
	}
	return qp;
}

static void free_qp(struct abi_qp *qp)
{
	pthread_mutex_destroy(&qp->builder);
	pthread_cond_destroy(&qp->ibv.qp_base.cond);
	pthread_mutex_destroy(&qp->ibv.qp_base.mutex);
	free(qp);
}

/* Under the lock. */
static void enrol(struct abi_qp *qp)
{
	struct ibv_qp *base = &qp->ibv.qp_base;

	base->handle = qp->qp->handle;
	base->qp_num = qp->qp->qpn;
	base->qp_type = qp->qp->type;
	base->state = qp->qp->state;
	context_enrol(to_context(base->context), &qp->object, destroy_closed_qp);
}

/* Under the lock. */
static int attach(struct abi_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
	struct abi_context *ctx = to_context(qp->ibv.qp_base.context);
	struct ibv_pd *pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	struct ibv_xrcd *xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD ? attr->xrcd : NULL;
	int err = qp_create(ctx->ca, ctx->dev, attr, behind(pd, to_pd, pd), behind(attr->send_cq, to_cq, cq),
			    behind(attr->recv_cq, to_cq, cq), behind(attr->srq, to_srq, srq), behind(xrcd, to_xrcd, xrcd),
			    &qp->qp);

	if (err == 0 && attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) {
		err = attr->rwq_ind_tbl ? rss_attach(qp->qp, container_of(attr->rwq_ind_tbl, struct abi_table, ibv)->table,
						     &attr->rx_hash_conf) : -EINVAL;
		if (err < 0)
			qp_destroy(qp->qp);
	}
	if (err < 0)
		return err;
	enter_handle(qp);
	qp->qp->ece.vendor_id = ctx->dev->attr.orig_attr.vendor_id;
	attr->cap = qp->qp->cap;
	enrol(qp);
	if (qp->is_ex)
		qp_ex_choose_complete(qp, runtime_calls_fail(qp->rt));
	return 0;
}

struct ibv_qp *qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	int err = context_call(to_context(context), FAULT_create_qp);
	struct abi_qp *qp = err < 0 ? NULL : create(context);
	struct ibv_qp *base;

	if (!qp)
		return fail(err < 0 ? err : -ENOMEM);
	base = &qp->ibv.qp_base;
	base->qp_context = attr->qp_context;
	base->pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->srq = attr->srq;
	qp->is_ex = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (qp->is_ex)
		qp_ex_setup(qp);
	runtime_reserve_numbers(qp->rt);
	if (attr->qp_type == IBV_QPT_UD)
		runtime_await_wire(qp->rt, to_context(context)->dev);
	runtime_enter(qp->rt);
	err = attach(qp, attr);
	runtime_leave(qp->rt);
	if (err == 0)
		return base;
	free_qp(qp);
	return fail(err);
}

ABI_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = init->qp_context, .send_cq = init->send_cq, .recv_cq = init->recv_cq, .srq = init->srq,
		.cap = init->cap, .qp_type = init->qp_type, .sq_sig_all = init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_qp *qp = qp_create_ex(pd->context, &attr);

	if (qp)
		init->cap = attr.cap;
	return qp;
}

/* Another handle for an XRC receive QP, which has neither PD nor CQs. */
struct ibv_qp *qp_open_shared(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	enum { NEEDED = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE };
	struct abi_qp *qp;
	int err;

	if (attr->comp_mask & ~(uint32_t)(IBV_QP_OPEN_ATTR_RESERVED - 1) || (attr->comp_mask & NEEDED) != NEEDED ||
	    attr->qp_type != IBV_QPT_XRC_RECV || !attr->xrcd)
		return fail(-EINVAL);
	qp = create(context);
	if (!qp)
		return fail(-ENOMEM);
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		qp->ibv.qp_base.qp_context = attr->qp_context;
	runtime_enter(qp->rt);
	err = qp_open(to_xrcd(attr->xrcd)->xrcd, attr->qp_num, &qp->qp);
	if (err == 0) {
		enter_handle(qp);
		enrol(qp);
	}
	runtime_leave(qp->rt);
	if (err == 0)
		return &qp->ibv.qp_base;
	free_qp(qp);
	return fail(err);
}

ABI_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return to_qp(qp)->is_ex ? &to_qp(qp)->ibv : NULL;
}

struct fault_objects qp_objects(const struct abi_qp *qp, bool is_receive)
{
	return (struct fault_objects){ qp->qp, is_receive ? qp->qp->recv_cq : qp->qp->send_cq, qp->qp->srq };
}

void qp_choose_complete(struct abi_object *o, bool may_fail)
{
	struct abi_qp *qp = container_of(o, struct abi_qp, object);

	if (o->destroy == destroy_closed_qp && qp->is_ex)
		qp_ex_choose_complete(qp, may_fail);
}

/* 0, or -errno with which this call for the QP shall end. */
static int call_for(struct abi_qp *qp, enum fault_verb verb, bool is_receive)
{
	struct fault_objects objects = qp_objects(qp, is_receive);

	return runtime_call(qp->rt, to_context(qp->ibv.qp_base.context)->dev, verb, &objects);
}

/* Attributes of the direction that an XRC QP does not have: the kernel's interface ignores them, and programs pass them. */
static int meant_attributes(enum ibv_qp_type type, int mask)
{
	if (type == IBV_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (type == IBV_QPT_XRC_RECV)
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

ABI_EXPORT int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct abi_qp *qp = to_qp(ibv);
	int err = call_for(qp, FAULT_modify_qp, false);
	wtime now;

	if (err < 0)
		return answer(err);
	now = runtime_enter(qp->rt);
	/* who disconnects has heard of all that its peer acknowledged before; IBA 10.3.1.7: what is complete is not flushed */
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		runtime_take_in_all(qp->rt);
	err = qp_modify(qp->qp, now, attr, meant_attributes(qp->qp->type, mask));

	if (err == 0)
		ibv->state = qp->qp->state;
	runtime_leave(qp->rt);
	/* the peer may send as soon as it hears that we are ready */
	if (err == 0 && ibv->state == IBV_QPS_RTR)
		runtime_await_wire(qp->rt, NULL);
	return answer(err);
}

ABI_EXPORT int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct abi_qp *qp = to_qp(ibv);
	int err = call_for(qp, FAULT_query_qp, false);

	if (err < 0)
		return answer(err);
	runtime_enter(qp->rt);
	err = qp_query(qp->qp, attr, mask, init);
	if (err == 0)
		ibv->state = qp->qp->state;
	runtime_leave(qp->rt);
	if (err < 0)
		return answer(err);
	init->qp_context = ibv->qp_context;
	init->send_cq = ibv->send_cq;
	init->recv_cq = ibv->recv_cq;
	init->srq = ibv->srq;
	return 0;
}

/* Messages are placed packet by packet, but a later one may be seen before an earlier one on another path: no promise. */
ABI_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

ABI_EXPORT int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct abi_qp *qp;
	int err;

	if (!ibv)	/* qperf's server destroys its rdma_cm_id's QP twice */
		return answer(-EINVAL);
	qp = to_qp(ibv);
	runtime_flush_qp(qp->rt, qp->qp);
	runtime_enter(qp->rt);
	err = destroy_qp(&qp->object);
	if (err == 0)
		list_remove(&qp->object.node);
	runtime_leave(qp->rt);
	if (err < 0)
		return answer(err);
	pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != qp->async_events)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	free_qp(qp);
	return 0;
}

int qp_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct abi_qp *qp = to_qp(ibv);
	wtime now;
	int err;

	if (qp->is_ex)
		pthread_mutex_lock(&qp->builder);
	now = runtime_enter_post(qp->rt);
	err = qp_post_send(qp->qp, now, wr, bad);
	runtime_leave(qp->rt);
	if (qp->is_ex)
		pthread_mutex_unlock(&qp->builder);
	return answer(err);
}

int qp_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct abi_qp *qp = to_qp(ibv);
	wtime now = runtime_enter_receive(qp->rt);
	int err = qp_post_recv(qp->qp, now, wr, (const struct ibv_recv_wr **)bad);

	runtime_leave(qp->rt);
	return answer(err);
}

int qp_send_or_fail(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = call_for(to_qp(ibv), FAULT_post_send, false);

	if (err == 0)
		return qp_send(ibv, wr, bad);
	*bad = wr;
	return answer(err);
}

int qp_recv_or_fail(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = call_for(to_qp(ibv), FAULT_post_recv, true);

	if (err == 0)
		return qp_recv(ibv, wr, bad);
	*bad = wr;
	return answer(err);
}

ABI_EXPORT int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct abi_qp *qp = to_qp(ibv);
	int err = call_for(qp, FAULT_attach_mcast, false);

	if (err < 0)
		return answer(err);
	runtime_join_begin(qp->rt);
	do {
		runtime_enter(qp->rt);
		err = mcast_attach(qp->qp, gid->raw, lid);
		runtime_leave(qp->rt);
	} while (runtime_join(qp->rt, &err));
	runtime_join_end(qp->rt);
	return answer(err);
}

ABI_EXPORT int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct abi_qp *qp = to_qp(ibv);
	int err;

	runtime_enter(qp->rt);
	err = mcast_detach(qp->qp, gid->raw, lid);
	runtime_leave(qp->rt);
	return answer(err);
}

/* Enhanced connection establishment: both ends name the vendor, and the options that both know; there are none yet. */
ABI_EXPORT int ibv_set_ece(struct ibv_qp *ibv, struct ibv_ece *ece)
{
	struct abi_qp *qp = to_qp(ibv);

	if (!ece->vendor_id)
		return answer(-EOPNOTSUPP);
	if (ece->comp_mask || ece->vendor_id != qp->qp->ece.vendor_id)
		return answer(-EINVAL);
	return 0;
}

ABI_EXPORT int ibv_query_ece(struct ibv_qp *ibv, struct ibv_ece *ece)
{
	*ece = to_qp(ibv)->qp->ece;
	return 0;
}
