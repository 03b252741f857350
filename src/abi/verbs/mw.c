/* Memory windows. A type 1 bind is a send request that the library writes for the program. */
#include "abi/verbs/object.h"
#include "runtime/entry.h"

#include <stdlib.h>

static int destroy_mw(struct abi_object *o)
{
	return mw_destroy(container_of(o, struct abi_mw, object)->mw);
}

struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct abi_context *ctx = to_context(pd->context);
	int err = context_call(ctx, FAULT_alloc_mw);
	struct abi_mw *mw = err < 0 ? NULL : calloc(1, sizeof(*mw));

	if (!mw)
		return fail(err < 0 ? err : -ENOMEM);
	mw->ibv = (struct ibv_mw){ .context = pd->context, .pd = pd, .type = type };
	runtime_enter(ctx->rt);
	err = mw_create(to_pd(pd)->pd, type, &mw->mw);
	if (err == 0) {
		mw->mw->user = mw;
		mw->ibv.rkey = mw->mw->key;
		mw->ibv.handle = mw->mw->handle;
		context_enrol(ctx, &mw->object, destroy_mw);
	}
	runtime_leave(ctx->rt);
	if (err == 0)
		return &mw->ibv;
	free(mw);
	return fail(err);
}

int mw_dealloc(struct ibv_mw *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	struct abi_mw *mw = to_mw(ibv);
	int err;

	runtime_enter(rt);
	err = destroy_mw(&mw->object);
	if (err == 0)
		list_remove(&mw->object.node);
	runtime_leave(rt);
	if (err == 0)
		free(mw);
	return answer(err);
}

int mw_bind_type1(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags,
		.bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info },
	};
	int err;

	if (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED)
		return EINVAL;
	err = qp_send(qp, &wr, &bad);
	if (err == 0)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}
