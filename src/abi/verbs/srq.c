/* Shared receive queues and XRC domains. */
#include "abi/verbs/object.h"
#include "runtime/entry.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static int destroy_srq(struct abi_object *o)
{
	struct abi_srq *srq = container_of(o, struct abi_srq, object);
	int err = srq_destroy(srq->srq);

	if (err == 0)
		events_forget(to_context(srq->ibv.context), &srq->ibv);
	return err;
}

static int attr_check(const struct ibv_srq_init_attr_ex *attr)
{
	enum { KNOWN = IBV_SRQ_INIT_ATTR_RESERVED - 1 };

	if (attr->comp_mask & ~(uint32_t)KNOWN)
		return -EINVAL;
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TM || (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_TM))
		return -EOPNOTSUPP;
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && attr->pd ? 0 : -EINVAL;
}

/* Under the lock. */
static int attach(struct abi_srq *srq, struct ibv_srq_init_attr_ex *attr)
{
	bool is_xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_XRC;
	struct ibv_srq_init_attr_ex wanted = *attr;
	struct ibv_xrcd *xrcd = is_xrc && attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD ? attr->xrcd : NULL;
	struct ibv_cq *cq = is_xrc && attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ ? attr->cq : NULL;
	int err;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		wanted.srq_type = IBV_SRQT_BASIC;
	err = srq_create(to_pd(attr->pd)->pd, &wanted, behind(xrcd, to_xrcd, xrcd), behind(cq, to_cq, cq), &srq->srq);
	if (err < 0)
		return err;
	srq->srq->user = srq;
	srq->ibv.handle = srq->srq->handle;
	srq_query(srq->srq, &attr->attr);
	context_enrol(to_context(srq->ibv.context), &srq->object, destroy_srq);
	return 0;
}

static void free_srq(struct abi_srq *srq)
{
	pthread_cond_destroy(&srq->ibv.cond);
	pthread_mutex_destroy(&srq->ibv.mutex);
	free(srq);
}

struct ibv_srq *srq_create_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	int err = attr_check(attr);
	struct abi_srq *srq;

	if (err == 0)
		err = context_call(to_context(context), FAULT_create_srq);

	if (err < 0)
		return fail(err);
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return fail(-ENOMEM);
	srq->rt = to_context(context)->rt;
	srq->ibv.context = context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = attr->pd;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	runtime_enter(srq->rt);
	err = attach(srq, attr);
	runtime_leave(srq->rt);
	if (err == 0)
		return &srq->ibv;
	free_srq(srq);
	return fail(err);
}

ABI_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex attr = {
		.srq_context = init->srq_context, .attr = init->attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_srq *srq = srq_create_ex(pd->context, &attr);

	if (srq)
		init->attr = attr.attr;
	return srq;
}

/* 0, or -errno with which this call for the queue shall end. */
static int call_for(struct abi_srq *srq, enum fault_verb verb)
{
	return runtime_call(srq->rt, to_context(srq->ibv.context)->dev, verb, &(struct fault_objects){ .srq = srq->srq });
}

ABI_EXPORT int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct abi_srq *srq = to_srq(ibv);
	int err = call_for(srq, FAULT_modify_srq);

	if (err < 0)
		return answer(err);
	runtime_enter(srq->rt);
	err = srq_modify(srq->srq, attr, mask);
	runtime_leave(srq->rt);
	return answer(err);
}

ABI_EXPORT int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct abi_srq *srq = to_srq(ibv);

	runtime_enter(srq->rt);
	srq_query(srq->srq, attr);
	runtime_leave(srq->rt);
	return 0;
}

ABI_EXPORT int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct abi_srq *srq = to_srq(ibv);
	int err;

	runtime_enter(srq->rt);
	err = destroy_srq(&srq->object);
	if (err == 0)
		list_remove(&srq->object.node);
	runtime_leave(srq->rt);
	if (err < 0)
		return answer(err);
	pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != srq->async_events)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	free_srq(srq);
	return 0;
}

int srq_number(struct ibv_srq *ibv, uint32_t *srqn)
{
	*srqn = to_srq(ibv)->srq->srqn;
	return 0;
}

int srq_post_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct abi_srq *srq = to_srq(ibv);
	int err;

	runtime_enter_receive(srq->rt);
	err = srq_post(srq->srq, wr, (const struct ibv_recv_wr **)bad);
	runtime_leave(srq->rt);
	return answer(err);
}

int srq_post_recv_or_fail(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = call_for(to_srq(ibv), FAULT_post_srq_recv);

	if (err == 0)
		return srq_post_recv(ibv, wr, bad);
	*bad = wr;
	return answer(err);
}

static int destroy_xrcd(struct abi_object *o)
{
	return xrcd_close(container_of(o, struct abi_xrcd, object)->xrcd);
}

/* Domains are shared by the file that names them; descriptor -1 makes a private one. */
static int file_of(const struct ibv_xrcd_init_attr *attr, struct stat *st)
{
	enum { NEEDED = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };

	if (attr->comp_mask != NEEDED || attr->oflags & ~(O_CREAT | O_EXCL))
		return -EINVAL;
	memset(st, 0, sizeof(*st));
	if (attr->fd == -1)
		return attr->oflags & O_CREAT ? 0 : -EINVAL;
	return fstat(attr->fd, st) < 0 ? -errno : 0;
}

struct ibv_xrcd *xrcd_open_attr(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct abi_context *ctx = to_context(context);
	struct abi_xrcd *xrcd;
	struct stat st;
	int err = file_of(attr, &st);

	if (err < 0)
		return fail(err);
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return fail(-ENOMEM);
	xrcd->ibv.context = context;
	runtime_enter(ctx->rt);
	err = xrcd_open(ctx->ca, ctx->dev, st.st_dev, st.st_ino, attr->oflags, &xrcd->xrcd);
	if (err == 0)
		context_enrol(ctx, &xrcd->object, destroy_xrcd);
	runtime_leave(ctx->rt);
	if (err == 0)
		return &xrcd->ibv;
	free(xrcd);
	return fail(err);
}

int xrcd_close_ibv(struct ibv_xrcd *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	struct abi_xrcd *xrcd = to_xrcd(ibv);
	int err;

	runtime_enter(rt);
	err = destroy_xrcd(&xrcd->object);
	if (err == 0)
		list_remove(&xrcd->object.node);
	runtime_leave(rt);
	if (err == 0)
		free(xrcd);
	return answer(err);
}
