/* Receive work queues and the tables that spread frames over them. */
#include "runtime/entry.h"
#include "runtime/requests.h"
#include "verbs/rss.h"

#include "abi/verbs/object.h"

#include <stdlib.h>

static struct abi_wq *to_wq(struct ibv_wq *wq)
{
	return container_of(wq, struct abi_wq, ibv);
}

static int destroy_wq(struct abi_object *o)
{
	return qp_destroy(container_of(o, struct abi_wq, object)->qp);
}

static int post_recv(struct ibv_wq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	wtime now = runtime_enter(rt);
	int err = qp_post_recv(to_wq(ibv)->qp, now, wr, (const struct ibv_recv_wr **)bad);

	runtime_leave(rt);
	return answer(err);
}

static int create_qp(struct abi_wq *wq, const struct ibv_wq_init_attr *attr)
{
	struct abi_context *ctx = to_context(wq->ibv.context);
	struct cq *cq = to_cq(attr->cq)->cq;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET, .cap = { .max_recv_wr = attr->max_wr, .max_recv_sge = attr->max_sge },
	};

	return qp_create(ctx->ca, ctx->dev, &init, to_pd(attr->pd)->pd, cq, cq, NULL, NULL, &wq->qp);
}

/* The header's inline function initialises what is the application's: context, mutex, condition. */
struct ibv_wq *wq_create(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	struct abi_context *ctx = to_context(context);
	struct abi_wq *wq;
	int err;

	if (attr->wq_type != IBV_WQT_RQ || !attr->pd || !attr->cq || attr->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS)
		return fail(-EINVAL);
	if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS && attr->create_flags)
		return fail(-EOPNOTSUPP);
	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return fail(-ENOMEM);
	wq->ibv = (struct ibv_wq){ .context = context, .pd = attr->pd, .cq = attr->cq, .wq_type = IBV_WQT_RQ,
				   .state = IBV_WQS_RESET, .post_recv = post_recv };
	runtime_reserve_numbers(ctx->rt);
	runtime_enter(ctx->rt);
	err = create_qp(wq, attr);
	if (err == 0) {
		wq->ibv.wq_num = wq->qp->qpn;
		wq->ibv.handle = wq->qp->handle;
		attr->max_wr = wq->qp->cap.max_recv_wr;
		attr->max_sge = wq->qp->cap.max_recv_sge;
		context_enrol(ctx, &wq->object, destroy_wq);
	}
	runtime_leave(ctx->rt);
	if (err == 0)
		return &wq->ibv;
	free(wq);
	return fail(err);
}

int wq_modify(struct ibv_wq *ibv, struct ibv_wq_attr *attr)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	wtime now;
	int err = 0;

	if (attr->attr_mask & ~(uint32_t)(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS))
		return EINVAL;
	if (attr->attr_mask & IBV_WQ_ATTR_FLAGS)
		return EOPNOTSUPP;
	now = runtime_enter(rt);
	if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE && attr->curr_wq_state != ibv->state)
		err = -EINVAL;
	if (err == 0 && attr->attr_mask & IBV_WQ_ATTR_STATE) {
		err = rss_wq_modify(to_wq(ibv)->qp, now, attr->wq_state);
		if (err == 0)
			ibv->state = attr->wq_state;
	}
	runtime_leave(rt);
	return answer(err);
}

int wq_destroy(struct ibv_wq *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	struct abi_wq *wq = to_wq(ibv);
	int err;

	runtime_enter(rt);
	err = destroy_wq(&wq->object);
	if (err == 0)
		list_remove(&wq->object.node);
	runtime_leave(rt);
	if (err == 0)
		free(wq);
	return answer(err);
}

/* ---- tables ---- */

static int destroy_table(struct abi_object *o)
{
	return rss_table_destroy(container_of(o, struct abi_table, object)->table);
}

static int fill(struct abi_table *table, const struct ibv_rwq_ind_table_init_attr *attr)
{
	struct qp *wq[1 << RSS_LOG_SIZE_MAX];

	for (uint32_t i = 0; i < 1u << attr->log_ind_tbl_size; i++) {
		if (!attr->ind_tbl[i] || attr->ind_tbl[i]->context->device != table->ibv.context->device)
			return -EINVAL;
		wq[i] = to_wq(attr->ind_tbl[i])->qp;
	}
	return rss_table_create(attr->log_ind_tbl_size, wq, &table->table);
}

struct ibv_rwq_ind_table *table_create(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr)
{
	static int last_number;
	struct abi_context *ctx = to_context(context);
	struct abi_table *table;
	int err;

	if (attr->comp_mask || attr->log_ind_tbl_size > RSS_LOG_SIZE_MAX || !attr->ind_tbl)
		return fail(-EINVAL);
	table = calloc(1, sizeof(*table));
	if (!table)
		return fail(-ENOMEM);
	table->ibv.context = context;
	runtime_enter(ctx->rt);
	err = fill(table, attr);
	if (err == 0) {
		table->ibv.ind_tbl_num = table->ibv.ind_tbl_handle = ++last_number;
		context_enrol(ctx, &table->object, destroy_table);
	}
	runtime_leave(ctx->rt);
	if (err == 0)
		return &table->ibv;
	free(table);
	return fail(err);
}

int table_destroy(struct ibv_rwq_ind_table *ibv)
{
	struct abi_table *table = container_of(ibv, struct abi_table, ibv);
	struct runtime *rt = to_context(ibv->context)->rt;
	int err;

	runtime_enter(rt);
	err = destroy_table(&table->object);
	if (err == 0)
		list_remove(&table->object.node);
	runtime_leave(rt);
	if (err == 0)
		free(table);
	return answer(err);
}
