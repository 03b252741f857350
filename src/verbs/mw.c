/* Memory windows: a narrower key on a part of a region. Bound by a WQE in send-queue order (type 1 and 2), unbound by a
 * bind of length 0 (type 1) or by an invalidate (type 2). IBA 10.6.7. */
#include "verbs/mr.h"
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>

enum {
	/* local write means nothing in a window; consumers give it all the same */
	BIND_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		     IBV_ACCESS_ZERO_BASED,
	BIND_WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	VARIANT_BITS = 8,
};

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mr **out)
{
	struct mr *mw;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return -EINVAL;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	*mw = (struct mr){ .kind = MR_WINDOW, .pd = pd, .mw_type = type };
	if (table_insert(&pd->ca->keys, mw, &mw->key) < 0) {
		free(mw);
		return -ENOMEM;
	}
	mw->handle = mw->key;
	pd_get(pd);
	*out = mw;
	return 0;
}

static void detach(struct mr *mw)
{
	if (mw->bound_to)
		mw->bound_to->windows--;
	if (mw->mw_qp)
		mw->mw_qp->windows--;
	mw->bound_to = NULL;
	mw->mw_qp = NULL;
}

int mw_destroy(struct mr *mw)
{
	if (mr_unpublish(mw) < 0)
		return -EBUSY;
	detach(mw);
	table_remove(&mw->pd->ca->keys, mw->key);
	pd_put(mw->pd);
	free(mw);
	return 0;
}

/* The region must allow windows, cover the range and grant what the window grants. IBA 10.6.7.2.2, 10.6.7.2.6. */
static bool region_allows(const struct mr *mr, const struct qp *qp, const struct send_wqe *wqe)
{
	if (!mr || mr->kind == MR_WINDOW || mr->kind == MR_NULL || mr->pd != qp->pd)
		return false;
	if (!(mr->access & IBV_ACCESS_MW_BIND) || mr->access & IBV_ACCESS_ZERO_BASED)
		return false;
	if (wqe->bind_access & ~(uint32_t)BIND_KNOWN ||
	    (wqe->bind_access & BIND_WRITES && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return false;
	return mr_covers(mr, wqe->bind_addr, wqe->bind_length);
}

/* Type 2: only a free window can be bound, and the consumer chooses the variant. */
static bool window_allows(const struct mr *mw, const struct qp *qp, const struct send_wqe *wqe)
{
	if (!mw || mw->kind != MR_WINDOW || mw->pd != qp->pd)
		return false;
	if (mw->mw_type == IBV_MW_TYPE_2 && (mw->bound_to || wqe->bind_length == 0 || qp->type == IBV_QPT_UD))
		return false;
	return wqe->bind_new_rkey >> VARIANT_BITS == mw->key >> VARIANT_BITS && wqe->bind_new_rkey != 0;
}

enum ibv_wc_status mw_bind(struct qp *qp, const struct send_wqe *wqe)
{
	struct mr *mw = table_get_any(&qp->ca->keys, wqe->bind_mw_rkey), *mr = NULL;

	if (!window_allows(mw, qp, wqe))
		return IBV_WC_MW_BIND_ERR;
	if (wqe->bind_length) {
		mr = mr_find(qp->ca, wqe->bind_mr_lkey);
		if (!region_allows(mr, qp, wqe))
			return IBV_WC_MW_BIND_ERR;
	}
	if (mr_unpublish(mw) < 0)
		return IBV_WC_MW_BIND_ERR;
	if (table_rekey(&qp->ca->keys, mw->key, wqe->bind_new_rkey) < 0) {
		if (mw->bound_to)
			mr_publish(mw);
		return IBV_WC_MW_BIND_ERR;
	}
	detach(mw);
	mw->key = wqe->bind_new_rkey;
	if (!mr)
		return IBV_WC_SUCCESS;
	mw->bound_to = mr;
	mr->windows++;
	if (mw->mw_type == IBV_MW_TYPE_2) {
		mw->mw_qp = qp;
		qp->windows++;
	}
	mw->access = (int)wqe->bind_access;
	mw->length = wqe->bind_length;
	mw->memory = (uint8_t *)((uintptr_t)mr->memory + (wqe->bind_addr - mr->iova));
	mw->iova = wqe->bind_access & IBV_ACCESS_ZERO_BASED ? 0 : wqe->bind_addr;
	mr_publish(mw);
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status mr_invalidate(struct qp *qp, uint32_t rkey, bool remote)
{
	struct mr *mw = mr_find(qp->ca, rkey);

	if (!mw || mw->kind != MR_WINDOW || mw->mw_type != IBV_MW_TYPE_2 || !mw->bound_to || mw->pd != qp->pd || mw->mw_qp != qp)
		return remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_MW_BIND_ERR;
	if (mr_unpublish(mw) < 0)
		return remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_MW_BIND_ERR;
	detach(mw);
	return IBV_WC_SUCCESS;
}

/* A window that a stopped process is in the midst of using stays shown, for a QP that nobody finds any more. */
void mw_forget_qp(struct qp *qp)
{
	uint32_t cursor = 0;
	struct mr *mr;

	while (qp->windows && (mr = table_next(&qp->ca->keys, &cursor)))
		if (mr->mw_qp == qp) {
			(void)mr_unpublish(mr);
			detach(mr);
		}
}
