/* Flow steering rules of raw packet QPs. */
#include "runtime/entry.h"
#include "runtime/requests.h"
#include "verbs/flow.h"

#include "abi/verbs/object.h"

#include <stdlib.h>

static int destroy_flow(struct abi_object *o)
{
	flow_destroy(container_of(o, struct abi_flow, object)->flow);
	return 0;
}

struct ibv_flow *flow_create_ibv(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct abi_context *ctx = to_context(qp->context);
	struct abi_flow *flow = calloc(1, sizeof(*flow));
	int err;

	if (!flow)
		return fail(-ENOMEM);
	flow->ibv.context = qp->context;
	runtime_join_begin(ctx->rt);
	do {
		runtime_enter(ctx->rt);
		err = flow_create(to_qp(qp)->qp, attr, &flow->flow);
		if (err == 0)
			context_enrol(ctx, &flow->object, destroy_flow);
		runtime_leave(ctx->rt);
	} while (runtime_join(ctx->rt, &err));
	runtime_join_end(ctx->rt);
	if (err == 0)
		return &flow->ibv;
	free(flow);
	return fail(err);
}

int flow_destroy_ibv(struct ibv_flow *ibv)
{
	struct abi_flow *flow = container_of(ibv, struct abi_flow, ibv);
	struct runtime *rt = to_context(ibv->context)->rt;

	runtime_enter(rt);
	destroy_flow(&flow->object);
	list_remove(&flow->object.node);
	runtime_leave(rt);
	free(flow);
	return 0;
}
