/* Completion queues. `tail` is the engine's, `head` the ULP's; the valid phase in an entry tells the ULP that it is new,
 * free_space tells the engine that there is room. Credits of work queues come back when an entry is removed. */
#include "verbs/cq.h"

#include "base/log.h"
#include "verbs/qp.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Seed profile: a completion that waits for room, A-25. */
struct held {
	struct list_node node;
	struct cqe cqe;
};

/* The seed profile counts in what was asked for, so that an overflow can be seen where it was expected. */
static uint32_t usable(const struct cq *cq)
{
	return cq->ca->seed_cq_profile ? cq->requested : cq->engine.ring.capacity;
}

/* In memory never written the phase may say anything: on the first lap each slot is made invalid before its turn. */
static void start_lap(struct cq *cq)
{
	cq->engine.tail_at = cq->ulp.head_at = (struct cq_end){ .slot = queue_ring_at(&cq->engine.ring, 0), .phase = 1 };
	cq->engine.first_lap = true;
	cq->engine.tail_at.slot->valid = 0;
}

static int rings_init(struct cq *cq, uint32_t cqes)
{
	int err = queue_ring_init(&cq->ulp.ring, &cq->ca->arena, cqes, sizeof(struct cqe));

	if (err < 0)
		return err;
	err = queue_ring_map(&cq->engine.ring, &cq->ulp.ring);
	if (err < 0)
		queue_ring_fini(&cq->ulp.ring);
	return err;
}

static void rings_fini(struct cq *cq)
{
	queue_ring_unmap(&cq->engine.ring);
	queue_ring_fini(&cq->ulp.ring);
}

int cq_create(struct ca *ca, struct ca_device *dev, int cqe, struct cq **out)
{
	struct cq *cq;
	int err;

	if (cqe < 1 || cqe > dev->attr.orig_attr.max_cqe)
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->ca = ca;
	cq->dev = dev;
	cq->requested = (uint32_t)cqe;
	err = rings_init(cq, cq->requested);
	if (err < 0)
		goto free_cq;
	err = table_insert(&ca->cqs, cq, &cq->handle);
	if (err < 0)
		goto fini_ring;
	cq->engine.free_space = usable(cq);
	start_lap(cq);
	list_init(&cq->held);
	list_init(&cq->spare);
	*out = cq;
	return 0;

fini_ring:
	rings_fini(cq);
free_cq:
	free(cq);
	return err;
}

static void free_nodes(struct list *list, uint32_t most)
{
	struct list_node *node;

	while (most-- && (node = list_pop(list)))
		free(container_of(node, struct held, node));
}

int cq_destroy(struct cq *cq)
{
	if (cq->refs)
		return -EBUSY;
	free_nodes(&cq->held, UINT32_MAX);
	free_nodes(&cq->spare, UINT32_MAX);
	table_remove(&cq->ca->cqs, cq->handle);
	rings_fini(cq);
	free(cq);
	return 0;
}

int cq_attach(struct cq *cq, uint32_t wqes)
{
	for (uint32_t i = 0; cq->ca->seed_cq_profile && i < wqes; i++) {
		struct held *held = malloc(sizeof(*held));

		if (!held) {
			free_nodes(&cq->spare, i);
			return -ENOMEM;
		}
		held->node = (struct list_node){ 0 };
		list_append(&cq->spare, &held->node);
	}
	cq->refs++;
	return 0;
}

void cq_detach(struct cq *cq, uint32_t wqes)
{
	free_nodes(&cq->spare, wqes);
	cq->refs--;
}

void cq_advance_any(const struct queue_ring *ring, struct cq_end *end)
{
	if (++end->position == ring->capacity) {
		end->position = 0;
		end->phase ^= 3;
	}
	end->slot = queue_ring_at(ring, end->position);
}

/* The entry in the tail's slot is whole before its phase says so: the reader may be another process. */
static void validate(struct cq *cq)
{
	struct cqe *slot = cq->engine.tail_at.slot;
	uint8_t phase = cq->engine.tail_at.phase;

	cq_advance(&cq->engine.ring, &cq->engine.tail_at);
	if (cq->engine.tail_at.position == 0)
		cq->engine.first_lap = false;
	if (cq->engine.first_lap)
		cq->engine.tail_at.slot->valid = 0;
	__atomic_store_n(&slot->valid, phase, __ATOMIC_RELEASE);
	cq->engine.tail++;
	cq->engine.free_space--;
}

static void write_entry(struct cq *cq, const struct cqe *cqe)
{
	struct cqe entry = *cqe;

	entry.valid = 0;
	*cq->engine.tail_at.slot = entry;
	validate(cq);
}

/* The doorbell as the engine sees it: what it says beyond the entries there are is not believed. */
static void doorbell_read(struct cq *cq)
{
	uint32_t n = atomic_load_explicit(cq->engine.ring.doorbell, memory_order_acquire) - cq->engine.returned;

	if (n > cq->engine.tail - cq->engine.returned)
		return;
	cq->engine.returned += n;
	cq->engine.free_space += n;
}

/* send queues that stopped when a completion found no room go on. Receive queues do with the next message. */
static void restart_queues(struct cq *cq)
{
	list_for_each(qp, &cq->ca->all_qps, struct qp, all)
		if (qp->send_cq == cq && qp->sq.engine.started != qp->sq.engine.announced)
			qp_ready(qp);
}

static void drain_held(struct cq *cq)
{
	while (cq->engine.free_space && !list_empty(&cq->held)) {
		struct held *held = container_of(list_pop(&cq->held), struct held, node);

		write_entry(cq, &held->cqe);
		list_append(&cq->spare, &held->node);
	}
	if (cq->asked && cq->engine.free_space) {
		cq->asked = false;
		restart_queues(cq);
	}
}

static void return_shared_credit(struct cq *cq, uint32_t srqn)
{
	struct srq *srq = srq_find(cq->ca, srqn);

	if (srq)
		srq_reaped(srq);
}

/* IPS-30, IPS-31: a send completion returns the credits of all before it, a receive completion its own. */
static inline __attribute__((always_inline)) void return_credits(struct cq *cq, const struct cqe *cqe)
{
	struct qp *qp;

	if (cqe->srqn) {
		return_shared_credit(cq, cqe->srqn);
		return;
	}
	qp = qp_find(cq->ca, cqe->wqn);
	if (!qp)
		return;
	if (cqe->kind == CQE_SEND && qp->send_cq == cq)
		wq_reaped(&qp->sq.ulp, cqe->wqe_index);
	else if (cqe->kind == CQE_RECV && qp->recv_cq == cq)
		wq_reaped(&qp->rq.ulp, cqe->wqe_index);
	if (qp->held_by_consumer)
		qp_ready(qp);
}

static void tell(struct cq *cq)
{
	cq->ca->ops->async_event(cq->ca->owner, IBV_EVENT_CQ_ERR, cq);
}

/* Seed profile, IPS-40, IPS-42, A-25: the completion is kept, and the ULP is interrupted once. */
static void keep(struct cq *cq)
{
	struct list_node *node = list_pop(&cq->spare);
	struct held *held = node ? container_of(node, struct held, node) : NULL;

	if (weft_bug_on(!held))
		return;
	held->cqe = cq->homeless;
	list_append(&cq->held, &held->node);
	if (cq->asked)
		return;
	cq->asked = true;
	tell(cq);
}

/* Standard profile, IBA 10.10.2.3, 11.6.3.2: the CQ is dead from its first overrun on, and each QP that completes into it goes to
 * the error state. Nobody will remove the completion, so its credit comes back now. */
static void lose(struct cq *cq)
{
	struct cqe lost = cq->homeless;
	struct qp *qp = qp_find(cq->ca, lost.wqn);

	if (!cq->overrun) {
		cq->overrun = true;
		tell(cq);
	}
	return_credits(cq, &lost);
	if (qp && qp->state != IBV_QPS_ERR && qp->state != IBV_QPS_RESET)
		qp_error(qp, cq->ca->now, IBV_EVENT_QP_FATAL);
}

void cq_fail(struct cq *cq, wtime now)
{
	cq->overrun = true;
	tell(cq);
	list_for_each(qp, &cq->ca->all_qps, struct qp, all)
		if (qp->send_cq == cq || qp->recv_cq == cq)
			qp_error(qp, now, IBV_EVENT_QP_FATAL);
}

/* IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: the oldest entry gives way to the new one. */
static void drop_oldest(struct cq *cq)
{
	struct cqe lost;

	cq_take(cq, &lost);
	cq_doorbell(cq);	/* also of what was taken, but not given back yet */
	doorbell_read(cq);
}

static void fire(struct cq *cq)
{
	cq->arm = CQ_DISARMED;
	cq->announced = cq->engine.tail;
	cq->ca->ops->cq_event(cq->ca->owner, cq);
}

struct cqe *cq_make_room(struct cq *cq)
{
	if (!cq->engine.free_space)
		doorbell_read(cq);
	if (!cq->engine.free_space && cq->ignore_overrun)
		drop_oldest(cq);
	return cq->engine.free_space && !cq->overrun && list_empty(&cq->held) ? cq->engine.tail_at.slot : &cq->homeless;
}

void cq_publish_any(struct cq *cq, struct cqe *cqe, bool solicited)
{
	if (cqe == &cq->homeless) {
		if (cq->ca->seed_cq_profile)
			keep(cq);
		else
			lose(cq);
		return;
	}
	solicited |= cqe->status != IBV_WC_SUCCESS;
	validate(cq);
	if (solicited)
		cq->solicited_tail = cq->engine.tail;
	if (cq->arm == CQ_ARMED_ANY || (cq->arm == CQ_ARMED_SOLICITED && solicited))
		fire(cq);
}

void cq_push(struct cq *cq, const struct cqe *cqe, bool solicited)
{
	struct cqe *next = cq_next(cq);

	*next = *cqe;
	cq_publish(cq, next, solicited);
}

bool cq_peek(const struct cq *cq, struct cqe *cqe)
{
	const struct cqe *front = cq_front(cq);

	if (front)
		*cqe = *front;
	return front;
}

const void *cq_wqe(const struct cq *cq, const struct cqe *cqe)
{
	const struct qp *qp = cqe->srqn ? NULL : qp_find(cq->ca, cqe->wqn);
	const struct wq *wq = qp && cqe->kind == CQE_SEND ? &qp->sq : qp ? &qp->rq : NULL;

	if (!wq || wq->engine.cq != cq->handle || cqe->wqe_index - wq->ulp.reaped >= wq->engine.completed - wq->ulp.reaped)
		return NULL;
	/* a short send was written nowhere else */
	return cqe->kind == CQE_SEND ? wq_copy_at(&wq->engine, queue_ring_position(&wq->ulp.ring, wq->ulp.lap, cqe->wqe_index)) :
				       wq_ulp_at(&wq->ulp, cqe->wqe_index);
}

void cq_remove(struct cq *cq, const struct cqe *front)
{
	cq_advance(&cq->ulp.ring, &cq->ulp.head_at);
	cq->ulp.head++;
	cq->ulp.credit_count++;
	return_credits(cq, front);
}

int cq_reap(struct cq *cq, int entries, struct ibv_wc *wc)
{
	const struct cqe *front = cq_front(cq);
	int n = 0;

	if (!front || entries <= 0)
		return 0;
	do {
		memcpy(&wc[n++], front, CQE_WC_BYTES);
		cq_advance(&cq->ulp.ring, &cq->ulp.head_at);
		return_credits(cq, front);
	} while (n < entries && (front = cq_front(cq)));
	cq->ulp.head += (uint32_t)n;
	cq->ulp.credit_count += (uint32_t)n;
	cq_doorbell(cq);
	return n;
}

bool cq_take(struct cq *cq, struct cqe *cqe)
{
	const struct cqe *front = cq_front(cq);

	if (!front)
		return false;
	*cqe = *front;
	cq_remove(cq, front);
	return true;
}

void cq_doorbell_read(struct cq *cq)
{
	doorbell_read(cq);
	if (cq->asked)
		drain_held(cq);
}

bool cq_poll(struct cq *cq, struct cqe *cqe)
{
	bool found = cq_take(cq, cqe);

	cq_doorbell(cq);
	return found;
}

void cq_arm(struct cq *cq, bool solicited_only)
{
	uint32_t waiting = cq->engine.tail - cq->ulp.head, unannounced = cq->engine.tail - cq->announced;
	uint32_t fresh = unannounced < waiting ? unannounced : waiting;

	/* IBA 11.4.2.2: a request for the next completion is not weakened by one for solicited completions */
	if (!solicited_only)
		cq->arm = CQ_ARMED_ANY;
	else if (cq->arm == CQ_DISARMED)
		cq->arm = CQ_ARMED_SOLICITED;
	if (cq->arm == CQ_ARMED_ANY ? fresh > 0 : cq->engine.tail - cq->solicited_tail < fresh)
		fire(cq);
}

int cq_resize(struct cq *cq, int cqe)
{
	uint32_t waiting = cq->engine.tail - cq->ulp.head;
	struct cq next = *cq;
	int err;

	if (cq->overrun)
		return -EIO;
	if (cqe < 1 || cqe > cq->dev->attr.orig_attr.max_cqe || (uint32_t)cqe < waiting)
		return -EINVAL;
	err = rings_init(&next, (uint32_t)cqe);
	if (err < 0)
		return err;
	next.requested = (uint32_t)cqe;
	next.engine.tail = next.ulp.head = next.engine.returned = next.ulp.credit_count = 0;
	next.solicited_tail = cq->solicited_tail - cq->ulp.head;
	next.announced = cq->announced - cq->ulp.head;
	start_lap(&next);
	next.engine.free_space = usable(&next);
	for (uint32_t i = 0, at = cq->ulp.head_at.position; i < waiting; i++) {
		write_entry(&next, queue_ring_at(&cq->ulp.ring, at));
		at = queue_ring_next(&cq->ulp.ring, at);
	}
	rings_fini(cq);
	*cq = next;	/* the lists' heads keep their links: they did not change meanwhile */
	drain_held(cq);
	return 0;
}

/* Keeps what is not the QP's, in order; an SRQ gets the credit of what is thrown away. */
static bool is_thrown_away(struct cq *cq, const struct cqe *cqe, uint32_t qpn)
{
	struct srq *srq;

	if (cqe->wqn != qpn)
		return false;
	srq = cqe->srqn ? srq_find(cq->ca, cqe->srqn) : NULL;
	if (srq)
		srq_reaped(srq);
	return true;
}

void cq_clean(struct cq *cq, uint32_t qpn)
{
	uint32_t waiting = cq->engine.tail - cq->ulp.head, at = cq->ulp.head_at.position;
	uint32_t free_space = cq->engine.free_space;

	/* Write the kept ones again from the head on: the tail can only fall behind where we read. */
	cq->engine.tail = cq->ulp.head;
	cq->engine.tail_at = cq->ulp.head_at;
	for (uint32_t i = 0; i < waiting; i++) {
		struct cqe cqe = *(struct cqe *)queue_ring_at(&cq->engine.ring, at);

		if (!is_thrown_away(cq, &cqe, qpn))
			write_entry(cq, &cqe);
		at = queue_ring_next(&cq->engine.ring, at);
	}
	cq->solicited_tail = cq->engine.tail;	/* perhaps gone: better one event too many */
	cq->engine.free_space = free_space + waiting - (cq->engine.tail - cq->ulp.head);
	for (uint32_t i = cq->engine.tail - cq->ulp.head, gone_at = cq->engine.tail_at.position; i < waiting; i++) {
		((struct cqe *)queue_ring_at(&cq->engine.ring, gone_at))->valid = 0;
		gone_at = queue_ring_next(&cq->engine.ring, gone_at);
	}
	list_for_each_safe(held, &cq->held, struct held, node)
		if (is_thrown_away(cq, &held->cqe, qpn)) {
			list_remove(&held->node);
			list_append(&cq->spare, &held->node);
		}
	drain_held(cq);
}

uint32_t cq_kept(const struct cq *cq)
{
	uint32_t n = 0;

	list_for_each(held, &cq->held, struct held, node)
		n++;
	return n;
}

void cq_check(const struct cq *cq)
{
	uint32_t waiting = cq->engine.tail - cq->ulp.head;

	weft_bug_on(waiting > usable(cq) || cq->engine.free_space > usable(cq) - waiting);
	weft_bug_on(cq->engine.free_space + waiting + cq->ulp.credit_count != usable(cq));
	weft_bug_on(!list_empty(&cq->held) && cq->engine.free_space);
}
