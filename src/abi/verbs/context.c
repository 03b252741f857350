/* Contexts: the tables of operations that the stock header's inline functions call through, and the objects made in each.
 * An operation left NULL is refused with EOPNOTSUPP by the header itself: tag matching, counters, ESP, rate limits, CQ
 * moderation. */
#include "abi/verbs/object.h"

#include "base/log.h"
#include "control/limits.h"
#include "runtime/entry.h"
#include "runtime/requests.h"
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMP_VECTORS = 1 };	/* one helper thread raises all events */

struct list contexts = { .head = { &contexts.head, &contexts.head } };

void context_enrol(struct abi_context *ctx, struct abi_object *o, int (*destroy)(struct abi_object *o))
{
	o->destroy = destroy;
	list_append(&ctx->objects, &o->node);
}

static void fill_ops(struct verbs_context *v)
{
	v->sz = sizeof(*v);
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->context.ops = (struct ibv_context_ops){
		._compat_query_device = ibv_query_device, ._compat_query_port = ibv_query_port,
		.alloc_mw = mw_alloc, .bind_mw = mw_bind_type1, .dealloc_mw = mw_dealloc,
		.poll_cq = poll_cq, .req_notify_cq = cq_req_notify,
		.post_srq_recv = srq_post_recv, .post_send = qp_send, .post_recv = qp_recv,
	};
	v->query_port = query_port_ex;
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
	v->advise_mr = mr_advise;
	v->alloc_null_mr = mr_alloc_null;
	v->reg_dm_mr = mr_reg_dm;
	v->alloc_dm = dm_alloc;
	v->free_dm = dm_free;
	v->alloc_td = td_alloc;
	v->dealloc_td = td_dealloc;
	v->alloc_parent_domain = parent_domain_alloc;
	v->create_cq_ex = cq_create_ex;
	v->create_srq_ex = srq_create_ex;
	v->get_srq_num = srq_number;
	v->open_xrcd = xrcd_open_attr;
	v->close_xrcd = xrcd_close_ibv;
	v->create_qp_ex = qp_create_ex;
	v->open_qp = qp_open_shared;
	v->create_wq = wq_create;
	v->modify_wq = wq_modify;
	v->destroy_wq = wq_destroy;
	v->create_rwq_ind_table = table_create;
	v->destroy_rwq_ind_table = table_destroy;
	/* programs built against libibverbs 1.1.8 look for the two in other places */
	v->ibv_create_flow = flow_create_ibv;
	v->ibv_destroy_flow = flow_destroy_ibv;
	v->ABI_placeholder1 = (void (*)(void))flow_create_ibv;
	v->ABI_placeholder2 = (void (*)(void))flow_destroy_ibv;
}

static void choose_posts(struct abi_context *ctx, bool may_fail)
{
	struct ibv_context_ops *ops = &ctx->vctx.context.ops;

	ops->post_send = may_fail ? qp_send_or_fail : qp_send;
	ops->post_recv = may_fail ? qp_recv_or_fail : qp_recv;
	ops->post_srq_recv = may_fail ? srq_post_recv_or_fail : srq_post_recv;
	list_for_each(o, &ctx->objects, struct abi_object, node)
		qp_choose_complete(o, may_fail);
}

void contexts_choose_posts(struct runtime *rt)
{
	list_for_each(ctx, &contexts, struct abi_context, all)
		if (ctx->rt == rt)
			choose_posts(ctx, runtime_calls_fail(rt));
}

/* cmd_fd is a file of our own that can be told apart: a duplicate of it names this context to ibv_import_device. */
static int set_cmd_fd(struct abi_context *ctx, int cmd_fd)
{
	struct stat st;

	if (fstat(cmd_fd, &st) < 0)
		return -errno;
	ctx->vctx.context.cmd_fd = cmd_fd;
	ctx->cmd_dev = st.st_dev;
	ctx->cmd_ino = st.st_ino;
	return 0;
}

/* Takes over cmd_fd, also on failure. */
static struct abi_context *create(struct runtime *rt, struct ibv_device *device, struct ca_device *dev, int cmd_fd)
{
	struct abi_context *ctx = calloc(1, sizeof(*ctx));
	struct ibv_context *c;
	int err = -ENOMEM;

	if (!ctx)
		goto close_cmd_fd;
	c = &ctx->vctx.context;
	fill_ops(&ctx->vctx);
	err = cmd_fd < 0 ? -errno : set_cmd_fd(ctx, cmd_fd);
	if (err < 0)
		goto free_ctx;
	c->async_fd = event_fd_create();
	if (c->async_fd < 0) {
		err = -errno;
		goto free_ctx;
	}
	c->device = device;
	c->num_comp_vectors = COMP_VECTORS;
	pthread_mutex_init(&c->mutex, NULL);
	ctx->rt = rt;
	ctx->ca = runtime_ca(rt);
	ctx->dev = dev;
	list_init(&ctx->objects);
	list_init(&ctx->async);
	runtime_set_events(rt, &abi_events);
	runtime_enter(rt);
	list_append(&contexts, &ctx->all);
	choose_posts(ctx, runtime_calls_fail(rt));
	runtime_leave(rt);
	return ctx;

free_ctx:
	free(ctx);
close_cmd_fd:
	log_line(LOG_ERROR, "%s cannot be opened: %s%s", dev->name, strerror(-err), limits_advice(-err));
	if (cmd_fd >= 0)
		close(cmd_fd);
	return fail(err);
}

struct abi_context *context_create(struct runtime *rt, struct ibv_device *device, struct ca_device *dev)
{
	return create(rt, device, dev, memfd_create("weft-context", MFD_CLOEXEC));
}

/* Closing takes all that the program did not destroy. What holds something was made after it, apart from windows and
 * regions: so newest first, again while anything goes. */
static void destroy_objects(struct abi_context *ctx)
{
	bool any = true;

	while (any) {
		struct list_node *n = list_last(&ctx->objects);

		any = false;
		while (n) {
			struct list_node *before = n->prev == &ctx->objects.head ? NULL : n->prev;
			struct abi_object *o = container_of(n, struct abi_object, node);

			if (o->destroy(o) == 0) {
				list_remove(&o->node);
				free(o);
				any = true;
			}
			n = before;
		}
	}
}

ABI_EXPORT int ibv_close_device(struct ibv_context *context)
{
	struct abi_context *ctx = to_context(context);

	runtime_run_engine(ctx->rt);
	runtime_enter(ctx->rt);
	destroy_objects(ctx);
	while (list_pop(&ctx->objects))
		;	/* what a peer that stands still uses: its list goes */
	list_remove(&ctx->all);
	events_free(ctx);
	runtime_leave(ctx->rt);
	close(context->async_fd);
	close(context->cmd_fd);
	pthread_mutex_destroy(&context->mutex);
	free(ctx);
	return 0;
}

static struct abi_context *find_by_cmd_fd(const struct stat *st)
{
	list_for_each(ctx, &contexts, struct abi_context, all)
		if (ctx->cmd_dev == st->st_dev && ctx->cmd_ino == st->st_ino)
			return ctx;
	return NULL;
}

/* Within a process: another process's objects are not in this one's adapter. */
ABI_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct runtime *rt = runtime_peek();
	struct abi_context *origin, *ctx;
	struct stat st;

	if (fstat(cmd_fd, &st) < 0)
		return fail(-EINVAL);
	if (!rt)
		return fail(-ENODEV);
	runtime_enter(rt);
	origin = find_by_cmd_fd(&st);
	runtime_leave(rt);
	if (!origin)
		return fail(-EOPNOTSUPP);
	ctx = create(origin->rt, origin->vctx.context.device, origin->dev, cmd_fd);
	return ctx ? &ctx->vctx.context : NULL;
}
