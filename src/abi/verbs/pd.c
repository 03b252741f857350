/* Protection domains, thread domains, and the parent domains that bring the two together. The adapter has one lock, so a
 * thread domain changes nothing; allocators of a parent domain are for providers that let the program place their queues. */
#include "abi/verbs/object.h"
#include "runtime/entry.h"

#include <stdlib.h>

static int destroy_pd(struct abi_object *o)
{
	struct abi_pd *pd = container_of(o, struct abi_pd, object);
	int err = 0;

	if (pd->imported)
		pd_put(pd->pd);
	else if (!pd->parent)
		err = pd_destroy(pd->pd);
	return err;
}

static int destroy_td(struct abi_object *o)
{
	return 0;
}

static void enrol(struct abi_context *ctx, struct abi_pd *pd)
{
	pd->ibv.context = &ctx->vctx.context;
	pd->ibv.handle = pd->pd->handle;
	context_enrol(ctx, &pd->object, destroy_pd);
}

ABI_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct abi_context *ctx = to_context(context);
	int err = context_call(ctx, FAULT_alloc_pd);
	struct abi_pd *pd = err < 0 ? NULL : calloc(1, sizeof(*pd));

	if (!pd)
		return fail(err < 0 ? err : -ENOMEM);
	runtime_enter(ctx->rt);
	err = pd_create(ctx->ca, ctx->dev, &pd->pd);
	if (err == 0)
		enrol(ctx, pd);
	runtime_leave(ctx->rt);
	if (err == 0)
		return &pd->ibv;
	free(pd);
	return fail(err);
}

static int dealloc(struct abi_pd *pd)
{
	int err = pd->refs ? -EBUSY : destroy_pd(&pd->object);

	if (err < 0)
		return err;
	if (pd->parent)
		pd->parent->refs--;
	if (pd->td)
		pd->td->refs--;
	list_remove(&pd->object.node);
	return 0;
}

ABI_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	int err;

	runtime_enter(rt);
	err = dealloc(to_pd(ibv));
	runtime_leave(rt);
	if (err == 0)
		free(to_pd(ibv));
	return answer(err);
}

ABI_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct abi_context *ctx = to_context(context);
	struct abi_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return fail(-ENOMEM);
	runtime_enter(ctx->rt);
	pd->pd = table_get(&ctx->ca->pds, pd_handle);
	if (pd->pd && pd->pd->dev == ctx->dev) {
		pd->imported = true;
		pd_get(pd->pd);
		enrol(ctx, pd);
	}
	runtime_leave(ctx->rt);
	if (pd->imported)
		return &pd->ibv;
	free(pd);
	return fail(-ENOENT);
}

ABI_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	ibv_dealloc_pd(pd);
}

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct abi_context *ctx = to_context(context);
	struct abi_td *td;

	if (attr->comp_mask)
		return fail(-EINVAL);
	td = calloc(1, sizeof(*td));
	if (!td)
		return fail(-ENOMEM);
	td->ibv.context = context;
	runtime_enter(ctx->rt);
	context_enrol(ctx, &td->object, destroy_td);
	runtime_leave(ctx->rt);
	return &td->ibv;
}

int td_dealloc(struct ibv_td *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	struct abi_td *td = to_td(ibv);
	bool busy;

	runtime_enter(rt);
	busy = td->refs > 0;
	if (!busy)
		list_remove(&td->object.node);
	runtime_leave(rt);
	if (!busy)
		free(td);
	return busy ? EBUSY : 0;
}

struct ibv_pd *parent_domain_alloc(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	enum { KNOWN = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT };
	struct abi_context *ctx = to_context(context);
	struct abi_pd *pd;

	if (!attr->pd || attr->comp_mask & ~(uint32_t)KNOWN)
		return fail(-EINVAL);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return fail(-ENOMEM);
	runtime_enter(ctx->rt);
	pd->parent = to_pd(attr->pd);
	pd->pd = pd->parent->pd;
	pd->parent->refs++;
	pd->td = attr->td ? to_td(attr->td) : NULL;
	if (pd->td)
		pd->td->refs++;
	enrol(ctx, pd);
	runtime_leave(ctx->rt);
	return &pd->ibv;
}
