/* Completion and asynchronous events. A channel's descriptor is an eventfd that is not 0 while events wait: every event adds
 * to it, and who fetches one takes all of it and puts some back when more wait. So poll, epoll and O_NONBLOCK work as on the
 * kernel's own, and a blocked read restarts or ends with EINTR by the program's own choice. */
#include "abi/verbs/object.h"

#include "base/log.h"
#include "link/calls.h"
#include "runtime/entry.h"
#include "runtime/runtime.h"
#include "runtime/wait.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct async_event {
	struct list_node node;
	struct ibv_async_event event;
	uint32_t *fetched;	/* borrowed: the object's count, NULL for a port's event */
};

int event_fd_create(void)
{
	return eventfd(0, EFD_CLOEXEC);
}

static void announce(int fd)
{
	if (call_wake(fd) < 0)
		log_line(LOG_WARNING, "an event descriptor cannot be written: %s", strerror(errno));
}

/* Nothing waits any more. Must not block: another thread may have taken the count already, or may be reading. */
static void hush(int fd)
{
	uint64_t count;
	struct iovec iov = { &count, sizeof(count) };

	if (call_read_now(fd, &iov) < 0 && errno != EAGAIN)
		log_line(LOG_DEBUG, "an event descriptor keeps one wake-up too many: %s", strerror(errno));
}

/* ---- completion events ---- */

static void cq_event(struct cq *verbs_cq)
{
	struct abi_cq *cq = verbs_cq->user;
	struct abi_channel *channel;

	if (!cq || !cq->ibv.channel)
		return;
	channel = to_channel(cq->ibv.channel);
	if (cq->waiting++ == 0)
		list_append(&channel->ready, &cq->ready);
	if (!runtime_wake_sleeper(cq->rt, &channel->ready))
		announce(channel->ibv.fd);
}

void events_forget_cq(struct abi_cq *cq)
{
	if (cq->waiting == 0)
		return;
	cq->waiting = 0;
	list_remove(&cq->ready);
	if (list_empty(&to_channel(cq->ibv.channel)->ready))
		hush(cq->ibv.channel->fd);
}

/* The oldest CQ with events; the next one of the same CQ queues up behind the others'. */
static struct abi_cq *fetch(struct abi_channel *channel)
{
	struct abi_cq *cq = list_first_entry(&channel->ready, struct abi_cq, ready);

	if (!cq)
		return NULL;
	list_remove(&cq->ready);
	if (--cq->waiting > 0)
		list_append(&channel->ready, &cq->ready);
	cq->comp_events++;
	if (!list_empty(&channel->ready))
		announce(channel->ibv.fd);
	return cq;
}

/* May a read of it sleep? The program says so by fcntl, at any time. */
static bool blocks(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/* Sleeps for an event. -EAGAIN: read the descriptor. */
static int watch(struct abi_channel *channel, struct abi_cq **got)
{
	struct runtime *rt = to_context(channel->ibv.context)->rt;
	bool may = blocks(channel->ibv.fd);
	int err, cancel_state;

	/* what is written under the lock is no cancellation point */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	runtime_enter(rt);
	err = may ? runtime_wait(rt, &channel->ready, cancel_state) : -EAGAIN;
	if (err == 0)
		*got = fetch(channel);
	else if (err == -EAGAIN)
		runtime_will_sleep(rt);
	runtime_leave(rt);
	pthread_setcancelstate(cancel_state, NULL);
	return err;
}

static int read_event(struct abi_channel *channel, struct abi_cq **got)
{
	struct runtime *rt = to_context(channel->ibv.context)->rt;
	uint64_t count;

	if (read(channel->ibv.fd, &count, sizeof(count)) != sizeof(count))
		return -errno;
	runtime_enter(rt);
	*got = fetch(channel);
	runtime_leave(rt);
	return 0;
}

ABI_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct abi_channel *channel = to_channel(ibv);
	struct abi_cq *got = NULL;
	int err;

	pthread_testcancel();
	while (!got) {
		err = watch(channel, &got);
		if (err == -ECANCELED)
			return pause();		/* the channel was destroyed: a read would not end either */
		if (err == -EAGAIN)
			err = read_event(channel, &got);
		if (err) {
			errno = -err;
			return -1;
		}
	}
	*cq = (struct ibv_cq *)&got->ibv;
	*cq_context = got->ibv.cq_context;
	return 0;
}

ABI_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

ABI_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	int err = context_call(to_context(context), FAULT_create_comp_channel);
	struct abi_channel *channel = err < 0 ? NULL : calloc(1, sizeof(*channel));

	if (!channel)
		return fail(err < 0 ? err : -ENOMEM);
	channel->ibv.context = context;
	channel->ibv.fd = event_fd_create();
	if (channel->ibv.fd < 0) {
		free(channel);
		return NULL;
	}
	list_init(&channel->ready);
	return &channel->ibv;
}

ABI_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct runtime *rt = to_context(ibv->context)->rt;
	int users;

	runtime_enter(rt);
	users = ibv->refcnt;
	if (!users)
		runtime_forget_events(rt, &to_channel(ibv)->ready);
	runtime_leave(rt);
	if (users)
		return answer(-EBUSY);
	close(ibv->fd);
	free(to_channel(ibv));
	return 0;
}

/* ---- asynchronous events ---- */

enum owner { OWNER_DEVICE, OWNER_CQ, OWNER_SRQ, OWNER_QP };

/* Whose event it is; what is not here is the device's. */
static enum owner owner_of(enum ibv_event_type type)
{
	static const uint8_t owners[] = {
		[IBV_EVENT_CQ_ERR] = OWNER_CQ,
		[IBV_EVENT_SRQ_ERR] = OWNER_SRQ, [IBV_EVENT_SRQ_LIMIT_REACHED] = OWNER_SRQ,
		[IBV_EVENT_QP_FATAL] = OWNER_QP, [IBV_EVENT_QP_REQ_ERR] = OWNER_QP, [IBV_EVENT_QP_ACCESS_ERR] = OWNER_QP,
		[IBV_EVENT_COMM_EST] = OWNER_QP, [IBV_EVENT_SQ_DRAINED] = OWNER_QP, [IBV_EVENT_PATH_MIG] = OWNER_QP,
		[IBV_EVENT_PATH_MIG_ERR] = OWNER_QP, [IBV_EVENT_QP_LAST_WQE_REACHED] = OWNER_QP,
	};

	return (size_t)type < sizeof(owners) / sizeof(owners[0]) ? (enum owner)owners[type] : OWNER_DEVICE;
}

static void queue_async(struct abi_context *ctx, const struct ibv_async_event *event, uint32_t *fetched)
{
	struct async_event *a = malloc(sizeof(*a));

	if (!a) {
		log_line(LOG_ERROR, "no memory for the event \"%s\": it is lost", ibv_event_type_str(event->event_type));
		return;
	}
	*a = (struct async_event){ .event = *event, .fetched = fetched };
	list_append(&ctx->async, &a->node);
	announce(ctx->vctx.context.async_fd);
}

/* As the kernel does: each handle of a shared QP has an event of its own. */
static void qp_async(struct ibv_async_event *event, const struct qp *qp)
{
	for (struct abi_qp *handle = qp->user; handle; handle = handle->next) {
		event->element.qp = &handle->ibv.qp_base;
		queue_async(to_context(handle->ibv.qp_base.context), event, &handle->async_events);
	}
}

static void device_async(struct ibv_async_event *event, const struct ca_device *dev)
{
	event->element.port_num = dev->port_num;
	list_for_each(ctx, &contexts, struct abi_context, all)
		if (ctx->dev == device_first(dev))
			queue_async(ctx, event, NULL);
}

static void async_event(enum ibv_event_type type, void *object)
{
	struct ibv_async_event event = { .event_type = type };
	struct abi_cq *cq;
	struct abi_srq *srq;

	switch (owner_of(type)) {
	case OWNER_CQ:
		cq = ((struct cq *)object)->user;
		event.element.cq = (struct ibv_cq *)&cq->ibv;
		queue_async(to_context(cq->ibv.context), &event, &cq->async_events);
		return;
	case OWNER_SRQ:
		srq = ((struct srq *)object)->user;
		event.element.srq = &srq->ibv;
		queue_async(to_context(srq->ibv.context), &event, &srq->async_events);
		return;
	case OWNER_QP:
		qp_async(&event, object);
		return;
	case OWNER_DEVICE:
		device_async(&event, object);
	}
}

static bool is_open(const struct ca_device *dev)
{
	list_for_each(ctx, &contexts, struct abi_context, all)
		if (ctx->dev == device_first(dev))
			return true;
	return false;
}

const struct runtime_events abi_events = {
	.cq_event = cq_event, .async_event = async_event, .is_open = is_open, .calls_changed = contexts_choose_posts,
};

void events_forget(struct abi_context *ctx, const void *element)
{
	bool any = false;

	list_for_each_safe(a, &ctx->async, struct async_event, node) {
		if (!a->fetched || (const void *)a->event.element.qp != element)
			continue;
		list_remove(&a->node);
		free(a);
		any = true;
	}
	if (any && list_empty(&ctx->async))
		hush(ctx->vctx.context.async_fd);
}

void events_free(struct abi_context *ctx)
{
	list_for_each_safe(a, &ctx->async, struct async_event, node) {
		list_remove(&a->node);
		free(a);
	}
}

static struct async_event *fetch_async(struct abi_context *ctx)
{
	struct list_node *first = list_pop(&ctx->async);
	struct async_event *a = first ? container_of(first, struct async_event, node) : NULL;

	if (a && a->fetched)
		++*a->fetched;
	if (!list_empty(&ctx->async))
		announce(ctx->vctx.context.async_fd);
	return a;
}

ABI_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct abi_context *ctx = to_context(context);
	struct async_event *a = NULL;
	uint64_t count;

	while (!a) {
		if (read(context->async_fd, &count, sizeof(count)) != sizeof(count))
			return -1;
		runtime_enter(ctx->rt);
		a = fetch_async(ctx);
		runtime_leave(ctx->rt);
	}
	*event = a->event;
	free(a);
	return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

ABI_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_qp *qp = event->element.qp;

	switch (owner_of(event->event_type)) {
	case OWNER_CQ:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		return;
	case OWNER_SRQ:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		return;
	case OWNER_QP:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		return;
	case OWNER_DEVICE:
		return;
	}
}
