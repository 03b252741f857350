/* Completion queues: creation, polling, arming, resizing. */
#include "abi/verbs/object.h"
#include "runtime/entry.h"
#include "runtime/requests.h"

#include <stdlib.h>
#include <string.h>

static int destroy_cq(struct abi_object *o)
{
	struct abi_cq *cq = container_of(o, struct abi_cq, object);
	int err = cq_destroy(cq->cq);

	if (err < 0)
		return err;
	events_forget_cq(cq);
	events_forget(to_context(cq->ibv.context), &cq->ibv);
	if (cq->ibv.channel)
		cq->ibv.channel->refcnt--;
	return 0;
}

/* The flags of IBV_CREATE_CQ_ATTR_*. */
static uint32_t flags_of(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
}

static int attr_check(const struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return -EINVAL;
	if (attr->wc_flags & ~wc_flags)
		return -EOPNOTSUPP;
	if (flags_of(attr) & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		return -EOPNOTSUPP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && (!attr->parent_domain || !to_pd(attr->parent_domain)->parent))
		return -EINVAL;
	if (attr->comp_vector >= (uint32_t)context->num_comp_vectors || attr->cqe > INT32_MAX)
		return -EINVAL;
	return attr->channel && attr->channel->context->device != context->device ? -EINVAL : 0;
}

static void fill(struct abi_cq *cq, struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
	cq->rt = to_context(context)->rt;
	cq->ibv.context = context;
	cq->ibv.channel = attr->channel;
	cq->ibv.cq_context = attr->cq_context;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	pthread_mutex_init(&cq->poller, NULL);
	cq->single_threaded = flags_of(attr) & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq_ex_setup(cq);
}

static void free_cq(struct abi_cq *cq)
{
	pthread_mutex_destroy(&cq->poller);
	pthread_cond_destroy(&cq->ibv.cond);
	pthread_mutex_destroy(&cq->ibv.mutex);
	free(cq);
}

/* Under the lock. */
static int attach(struct abi_cq *cq, const struct ibv_cq_init_attr_ex *attr)
{
	struct abi_context *ctx = to_context(cq->ibv.context);
	int err = cq_create(ctx->ca, ctx->dev, (int)attr->cqe, &cq->cq);

	if (err < 0)
		return err;
	cq->cq->user = cq;
	if (attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		ctx->ca->stamps = true;
	cq->cq->has_channel = attr->channel != NULL;
	cq->cq->ignore_overrun = flags_of(attr) & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	cq->ibv.handle = cq->cq->handle;
	cq->ibv.cqe = (int)cq->cq->requested;
	if (attr->channel)
		attr->channel->refcnt++;
	context_enrol(ctx, &cq->object, destroy_cq);
	return 0;
}

struct ibv_cq_ex *cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	int err = attr_check(context, attr);
	struct abi_cq *cq;

	if (err == 0)
		err = context_call(to_context(context), FAULT_create_cq);

	if (err < 0)
		return fail(err);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return fail(-ENOMEM);
	fill(cq, context, attr);
	runtime_enter(cq->rt);
	err = attach(cq, attr);
	runtime_leave(cq->rt);
	if (err == 0)
		return &cq->ibv;
	free_cq(cq);
	return fail(err);
}

ABI_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel,
					int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe, .cq_context = cq_context, .channel = channel, .comp_vector = (uint32_t)comp_vector,
	};

	return (struct ibv_cq *)cq_create_ex(context, &attr);
}

ABI_EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct abi_cq *cq = to_cq(ibv);
	int err = runtime_call(cq->rt, cq->cq->dev, FAULT_resize_cq, &(struct fault_objects){ .cq = cq->cq });

	if (err < 0)
		return answer(err);
	runtime_run_engine(cq->rt);
	runtime_enter_poll(cq->rt);
	err = cq_resize(cq->cq, cqe);
	if (err == 0)
		ibv->cqe = (int)cq->cq->requested;
	runtime_leave(cq->rt);
	return answer(err);
}

/* Whoever fetched an event may still be about to touch the CQ: wait until all are acknowledged. */
static void wait_for_acks(struct abi_cq *cq)
{
	pthread_mutex_lock(&cq->ibv.mutex);
	while (cq->ibv.comp_events_completed != cq->comp_events || cq->ibv.async_events_completed != cq->async_events)
		pthread_cond_wait(&cq->ibv.cond, &cq->ibv.mutex);
	pthread_mutex_unlock(&cq->ibv.mutex);
}

ABI_EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct abi_cq *cq = to_cq(ibv);
	int err;

	runtime_enter(cq->rt);
	err = destroy_cq(&cq->object);
	if (err == 0)
		list_remove(&cq->object.node);
	runtime_leave(cq->rt);
	if (err < 0)
		return answer(err);
	wait_for_acks(cq);
	free_cq(cq);
	return 0;
}

/* What comes while the CQ has nothing else is written once, into the program's list. How many are in it. Apart, so that a poll in
 * vain saves few registers. */
static __attribute__((noinline)) int take_some_in(struct abi_cq *cq, enum runtime_news news, int entries, struct ibv_wc *wc)
{
	bool awaits = cq_await(cq->cq, entries, wc);

	runtime_take_in(cq->rt, news, cq->cq);
	if (!cq_front(cq->cq) && (!awaits || cq->cq->awaiting == wc))
		runtime_look_again(cq->rt);
	return awaits ? cq_await_end(cq->cq, wc) : 0;
}

static int look_for_some(struct abi_cq *cq, int entries, struct ibv_wc *wc)
{
	enum runtime_news news = runtime_look(cq->rt);
	int n = 0;

	if (news != NEWS_NONE || runtime_has_put_off(cq->rt))
		n = take_some_in(cq, news, entries, wc);
	return n < entries && cq_front(cq->cq) ? n + cq_reap(cq->cq, entries - n, wc + n) : n;
}

int poll_cq(struct ibv_cq *ibv, int entries, struct ibv_wc *wc)
{
	struct abi_cq *cq = to_cq(ibv);
	enum runtime_poll how = runtime_poll_begin(cq->rt, cq->cq);
	int n;

	if (how == POLL_IN_VAIN)
		return 0;
	n = how == POLL_REAPS ? cq_reap(cq->cq, entries, wc) : look_for_some(cq, entries, wc);
	if (n > 0)
		runtime_poll_found();
	runtime_leave(cq->rt);
	return n;
}

int cq_req_notify(struct ibv_cq *ibv, int solicited_only)
{
	struct abi_cq *cq = to_cq(ibv);

	runtime_enter(cq->rt);
	cq_arm(cq->cq, solicited_only);
	runtime_will_sleep(cq->rt);
	runtime_leave(cq->rt);
	return 0;
}
