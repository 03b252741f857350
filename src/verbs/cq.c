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
	return cq->ca->seed_cq_profile ? cq->requested : cq->ring.capacity;
}

/* In memory never written the phase may say anything: on the first lap each slot is made invalid before its turn. */
static void start_lap(struct cq *cq)
{
	cq->tail_at = cq->head_at = (struct cq_end){ .slot = wq_slot_at(&cq->ring, 0), .phase = 1 };
	cq->first_lap = true;
	cq->tail_at.slot->valid = 0;
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
	err = wq_init(&cq->ring, &ca->arena, cq->requested, sizeof(struct cqe));
	if (err < 0)
		goto free_cq;
	err = table_insert(&ca->cqs, cq, &cq->handle);
	if (err < 0)
		goto fini_ring;
	cq->free_space = usable(cq);
	start_lap(cq);
	list_init(&cq->held);
	list_init(&cq->spare);
	*out = cq;
	return 0;

fini_ring:
	wq_fini(&cq->ring);
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
	wq_fini(&cq->ring);
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

static void advance(const struct wq *ring, struct cq_end *end)
{
	if (++end->position == ring->capacity) {
		end->position = 0;
		end->phase ^= 3;
	}
	end->slot = wq_slot_at(ring, end->position);
}

/* The entry in the tail's slot is whole before its phase says so: the reader may be another process. */
static void validate(struct cq *cq)
{
	struct cqe *slot = cq->tail_at.slot;
	uint8_t phase = cq->tail_at.phase;

	advance(&cq->ring, &cq->tail_at);
	if (cq->tail_at.position == 0)
		cq->first_lap = false;
	if (cq->first_lap)
		cq->tail_at.slot->valid = 0;
	__atomic_store_n(&slot->valid, phase, __ATOMIC_RELEASE);
	cq->tail++;
	cq->free_space--;
}

static void write_entry(struct cq *cq, const struct cqe *cqe)
{
	struct cqe entry = *cqe;

	entry.valid = 0;
	*cq->tail_at.slot = entry;
	validate(cq);
}

/* The doorbell as the engine sees it: what it says beyond the entries there are is not believed. */
static void doorbell_read(struct cq *cq)
{
	uint32_t n = atomic_load_explicit(wq_doorbell(&cq->ring), memory_order_acquire) - cq->returned;

	if (n > cq->tail - cq->returned)
		return;
	cq->returned += n;
	cq->free_space += n;
}

static void drain_held(struct cq *cq)
{
	while (cq->free_space && !list_empty(&cq->held)) {
		struct held *held = container_of(list_pop(&cq->held), struct held, node);

		write_entry(cq, &held->cqe);
		list_append(&cq->spare, &held->node);
	}
	if (cq->free_space)
		cq->asked = false;
}

/* IPS-40, IPS-42, A-25: keep the completion and interrupt once; or, standard profile, IBA 11.6.3.1: the CQ is dead. */
static void overflow(struct cq *cq)
{
	struct list_node *node = cq->ca->seed_cq_profile ? list_pop(&cq->spare) : NULL;
	struct held *held = node ? container_of(node, struct held, node) : NULL;

	weft_bug_on(cq->ca->seed_cq_profile && !held);
	if (held) {
		held->cqe = cq->homeless;
		list_append(&cq->held, &held->node);
		if (cq->asked)
			return;
		cq->asked = true;
	} else if (cq->overrun) {
		return;
	} else {
		cq->overrun = true;
	}
	cq->ca->host_ops->async_event(cq->ca->host, IBV_EVENT_CQ_ERR, cq);
}

/* IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: the oldest entry gives way to the new one. */
static void drop_oldest(struct cq *cq)
{
	struct cqe lost;

	cq_take(cq, &lost);
	cq_doorbell(cq);	/* also of what was taken, but not given back yet */
}

static void fire(struct cq *cq)
{
	cq->arm = CQ_DISARMED;
	cq->announced = cq->tail;
	cq->ca->host_ops->cq_event(cq->ca->host, cq);
}

struct cqe *cq_make_room(struct cq *cq)
{
	if (!cq->free_space)
		doorbell_read(cq);
	if (!cq->free_space && cq->ignore_overrun)
		drop_oldest(cq);
	return cq->free_space && !cq->overrun && list_empty(&cq->held) ? cq->tail_at.slot : &cq->homeless;
}

void cq_publish(struct cq *cq, struct cqe *cqe, bool solicited)
{
	cqe->timestamp_ns = cq->ca->now;
	if (cqe == &cq->homeless) {
		overflow(cq);
		return;
	}
	solicited |= cqe->status != IBV_WC_SUCCESS;
	validate(cq);
	if (solicited)
		cq->solicited_tail = cq->tail;
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

/* IPS-30, IPS-31: a send completion returns the credits of all before it, a receive completion its own. */
static void return_credits(struct cq *cq, const struct cqe *cqe)
{
	struct srq *srq = cqe->is_srq ? srq_find(cq->ca, cqe->srqn) : NULL;
	struct qp *qp = cqe->is_srq ? NULL : qp_find(cq->ca, cqe->wqn);

	if (srq)
		srq_reaped(srq);
	if (!qp)
		return;
	if (cqe->kind == CQE_SEND && qp->send_cq == cq)
		wq_reaped(&qp->sq, cqe->wqe_index);
	else if (cqe->kind == CQE_RECV && qp->recv_cq == cq)
		wq_reaped(&qp->rq, cqe->wqe_index);
	if (qp->held_by_consumer)
		qp_ready(qp);
}

const void *cq_wqe(const struct cq *cq, const struct cqe *cqe)
{
	const struct qp *qp = cqe->is_srq ? NULL : qp_find(cq->ca, cqe->wqn);
	const struct wq *wq = qp && cqe->kind == CQE_SEND ? &qp->sq : qp ? &qp->rq : NULL;

	if (!wq || wq->cq != cq->handle || cqe->wqe_index - wq->reaped >= wq->completed - wq->reaped)
		return NULL;
	return wq_at(wq, cqe->wqe_index);
}

void cq_remove(struct cq *cq, const struct cqe *front)
{
	advance(&cq->ring, &cq->head_at);
	cq->head++;
	cq->credit_count++;
	return_credits(cq, front);
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

void cq_doorbell(struct cq *cq)
{
	if (!cq->credit_count)
		return;
	cq->credit_count = 0;
	atomic_store_explicit(wq_doorbell(&cq->ring), cq->head, memory_order_release);
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
	uint32_t waiting = cq->tail - cq->head, unannounced = cq->tail - cq->announced;
	uint32_t fresh = unannounced < waiting ? unannounced : waiting;

	/* IBA 11.4.2.2: a request for the next completion is not weakened by one for solicited completions */
	if (!solicited_only)
		cq->arm = CQ_ARMED_ANY;
	else if (cq->arm == CQ_DISARMED)
		cq->arm = CQ_ARMED_SOLICITED;
	if (cq->arm == CQ_ARMED_ANY ? fresh > 0 : cq->tail - cq->solicited_tail < fresh)
		fire(cq);
}

int cq_resize(struct cq *cq, int cqe)
{
	uint32_t waiting = cq->tail - cq->head;
	struct cq next = *cq;
	int err;

	if (cqe < 1 || cqe > cq->dev->attr.orig_attr.max_cqe || (uint32_t)cqe < waiting)
		return -EINVAL;
	err = wq_init(&next.ring, &cq->ca->arena, (uint32_t)cqe, sizeof(struct cqe));
	if (err < 0)
		return err;
	next.requested = (uint32_t)cqe;
	next.tail = next.head = next.returned = next.credit_count = 0;
	next.solicited_tail = cq->solicited_tail - cq->head;
	next.announced = cq->announced - cq->head;
	start_lap(&next);
	next.free_space = usable(&next);
	for (uint32_t i = 0, at = cq->head_at.position; i < waiting; i++) {
		write_entry(&next, wq_slot_at(&cq->ring, at));
		at = at + 1 == cq->ring.capacity ? 0 : at + 1;
	}
	wq_fini(&cq->ring);
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
	srq = cqe->is_srq ? srq_find(cq->ca, cqe->srqn) : NULL;
	if (srq)
		srq_reaped(srq);
	return true;
}

void cq_clean(struct cq *cq, uint32_t qpn)
{
	uint32_t waiting = cq->tail - cq->head, at = cq->head_at.position;
	uint32_t free_space = cq->free_space;

	/* Write the kept ones again from the head on: the tail can only fall behind where we read. */
	cq->tail = cq->head;
	cq->tail_at = cq->head_at;
	for (uint32_t i = 0; i < waiting; i++) {
		struct cqe cqe = *(struct cqe *)wq_slot_at(&cq->ring, at);

		if (!is_thrown_away(cq, &cqe, qpn))
			write_entry(cq, &cqe);
		at = at + 1 == cq->ring.capacity ? 0 : at + 1;
	}
	cq->solicited_tail = cq->tail;	/* perhaps gone: better one event too many */
	cq->free_space = free_space + waiting - (cq->tail - cq->head);
	for (uint32_t i = cq->tail - cq->head, gone_at = cq->tail_at.position; i < waiting; i++) {
		((struct cqe *)wq_slot_at(&cq->ring, gone_at))->valid = 0;
		gone_at = gone_at + 1 == cq->ring.capacity ? 0 : gone_at + 1;
	}
	list_for_each_safe(held, &cq->held, struct held, node)
		if (is_thrown_away(cq, &held->cqe, qpn)) {
			list_remove(&held->node);
			list_append(&cq->spare, &held->node);
		}
	drain_held(cq);
}

void cq_check(const struct cq *cq)
{
	uint32_t waiting = cq->tail - cq->head;

	weft_bug_on(waiting > usable(cq) || cq->free_space > usable(cq) - waiting);
	weft_bug_on(cq->free_space + waiting + cq->credit_count != usable(cq));
	weft_bug_on(!list_empty(&cq->held) && cq->free_space);
}
