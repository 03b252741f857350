/* Completion queues: IPS-36..49. Standard profile: an overrun is a fatal CQ_ERR, and the QPs that complete into the dead queue
 * go to the error state. Seed profile: completions that find no room are kept, the ULP is told by the same event and may
 * enlarge (IPS-40..42). */
#ifndef WEFT_VERBS_CQ_H
#define WEFT_VERBS_CQ_H

#include "verbs/ca.h"

enum cq_arm { CQ_DISARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ANY };

/* One of the ring's two ends. */
struct cq_end {
	struct cqe *slot;
	uint32_t position;		/* of the slot */
	uint8_t phase;			/* 1 or 2: what `valid` says in a new entry there, IPS-43 */
};

/* The consumer's (ULP's) side. */
struct cq_ulp {
	struct queue_ring ring;		/* of struct cqe */
	uint32_t head;			/* cumulative: removed */
	uint32_t credit_count;		/* CQEs removed since the last CQ doorbell, IPS-44, IPS-45 */
	struct cq_end head_at;
};

/* The engine's side. It believes nothing that is in the ring or its doorbell. */
struct cq_engine {
	struct queue_ring ring;
	uint32_t free_space;		/* conservative, IPS-39, IPS-47 */
	uint32_t tail;			/* cumulative: written */
	struct cq_end tail_at;
	uint32_t returned;		/* credits taken over from the CQ doorbell */
	bool first_lap;			/* slots from the tail on were never written */
};

struct cq {
	struct ca *ca;			/* borrowed */
	struct ca_device *dev;		/* borrowed */
	struct cq_ulp ulp;
	struct cq_engine engine;
	uint32_t requested;		/* CQEs asked for; ring.capacity >= it */
	enum cq_arm arm;
	uint32_t solicited_tail;	/* tail after the last completion that fires either arming */
	uint32_t announced;		/* tail at the last event */
	bool overrun;			/* standard profile: dead; what was written before can still be removed */
	bool ignore_overrun;		/* IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN */
	struct ibv_wc *awaiting, *awaiting_end;	/* the rest of the list of a thread that polls; NULL: none does */
	struct cqe homeless;		/* the completion in the making, when there is no slot for it */
	struct list held;		/* seed profile: completions without room */
	struct list spare;		/* seed profile: one node for each completion that may come */
	bool asked;			/* seed profile: the ULP was told, room has not come yet; some may be held. The work
					 * queues that complete here stand still meanwhile, A-25 */
	uint32_t refs;			/* QPs */
	uint32_t handle;
	void *user;			/* the ABI's object */
	bool has_channel;
};

/* 1 <= cqe <= max_cqe, else -EINVAL. */
int cq_create(struct ca *ca, struct ca_device *dev, int cqe, struct cq **cq);
int cq_destroy(struct cq *cq);			/* -EBUSY while QPs use it */
/* -EINVAL when fewer than are waiting. -EIO: the CQ is dead, and no size would change that. */
int cq_resize(struct cq *cq, int cqe);
/* cq_next when there is no free space, as the engine knows. */
struct cqe *cq_make_room(struct cq *cq);
/* The engine's side: where the next completion is to be written, all of it, before cq_publish. It is not valid until then. */
static inline struct cqe *cq_next(struct cq *cq)
{
	return cq->engine.free_space && !cq->asked && !cq->overrun ? cq->engine.tail_at.slot : cq_make_room(cq);
}

/* What a program sees of a plain completion. */
static inline __attribute__((always_inline)) void cqe_fill(struct cqe *cqe, enum cqe_kind kind, uint64_t wr_id,
							    enum ibv_wc_status status, enum ibv_wc_opcode opcode,
							    uint32_t byte_len, uint32_t wqn, uint32_t src_qp)
{
	cqe->wr_id = wr_id;
	cqe->status = status;
	cqe->opcode = opcode;
	cqe->vendor_err = 0;
	cqe->byte_len = byte_len;
	cqe->imm = 0;
	cqe->wqn = wqn;
	cqe->src_qp = src_qp;
	cqe->wc_flags = 0;
	cqe->pkey_index = 0;
	cqe->slid = 0;
	cqe->sl = 0;
	cqe->dlid_path_bits = 0;
	cqe->kind = (uint8_t)kind;
}

/* One slot on. */
void cq_advance_any(const struct queue_ring *ring, struct cq_end *end);
static inline void cq_advance(const struct queue_ring *ring, struct cq_end *end)
{
	if (ring->pages > 1 || end->position + 1 == ring->capacity) {
		cq_advance_any(ring, end);
		return;
	}
	end->position++;
	end->slot = (struct cqe *)(void *)((uint8_t *)end->slot + ring->stride);
}

/* Time and phase are filled in. solicited: a receive whose packet asked for an event; errors always are. The WQE counts as
 * completed already. Without room, in the standard profile, its QP is in the error state afterwards, its queues flushed. */
void cq_publish_any(struct cq *cq, struct cqe *cqe, bool solicited);
static inline void cq_publish(struct cq *cq, struct cqe *cqe, bool solicited)
{
	struct cq_engine *e = &cq->engine;
	uint8_t phase = e->tail_at.phase;

	cqe->timestamp_ns = cq->ca->now;
	if (cqe != e->tail_at.slot || cq->arm != CQ_DISARMED || cqe->status != IBV_WC_SUCCESS || e->first_lap) {
		cq_publish_any(cq, cqe, solicited);
		return;
	}
	cq_advance(&e->ring, &e->tail_at);
	__atomic_store_n(&cqe->valid, phase, __ATOMIC_RELEASE);
	e->tail++;
	e->free_space--;
	if (solicited)
		cq->solicited_tail = e->tail;
}

/* From now on plain completions go straight to this list of the program, which polls and has found none: until cq_await_end,
 * which says how many did. False: another thread does so. */
static inline bool cq_await(struct cq *cq, int entries, struct ibv_wc *wc)
{
	if (cq->awaiting || entries < 0)
		return false;
	cq->awaiting = wc;
	cq->awaiting_end = wc + entries;
	return true;
}
static inline int cq_await_end(struct cq *cq, const struct ibv_wc *wc)
{
	int n = (int)(cq->awaiting - wc);

	cq->awaiting = cq->awaiting_end = NULL;
	return n;
}
/* The engine's side: may the next completion go there? Not past those in the ring, nor where it raises an event. */
static inline bool cq_is_awaited(const struct cq *cq)
{
	return cq->awaiting != cq->awaiting_end && cq->engine.tail == cq->ulp.head && cq->arm == CQ_DISARMED && !cq->overrun;
}

/* Both, for a completion that is somewhere else. */
void cq_push(struct cq *cq, const struct cqe *cqe, bool solicited);
/* The ULP's side: looks at or removes the oldest; returns credits to its WQ when removed. */
bool cq_peek(const struct cq *cq, struct cqe *cqe);
bool cq_poll(struct cq *cq, struct cqe *cqe);
/* The WQE that an entry names, with its fields (IPS-38), as long as the entry was not removed. NULL: a receive of an SRQ,
 * whose slots come free in another order. */
const void *cq_wqe(const struct cq *cq, const struct cqe *cqe);
/* cq_poll in two steps: removals count in credit_count until the doorbell returns them, IPS-44 and IPS-45. */
bool cq_take(struct cq *cq, struct cqe *cqe);
/* cq_take without a copy: the oldest where it lies, or NULL; it stays there until the doorbell. It is removed by cq_remove. */
static inline const struct cqe *cq_front(const struct cq *cq)
{
	const struct cq_end *head = &cq->ulp.head_at;

	return __atomic_load_n(&head->slot->valid, __ATOMIC_ACQUIRE) == head->phase ? head->slot : NULL;
}
void cq_remove(struct cq *cq, const struct cqe *front);
/* Takes up to `entries`, and gives their room back. How many. */
int cq_reap(struct cq *cq, int entries, struct ibv_wc *wc);
/* The engine's: free_space as the doorbell says; held completions and work queues that stood still go on. */
void cq_doorbell_read(struct cq *cq);
/* The ULP's: says how many were removed. An engine that runs apart reads it when it needs room, but for one that stands still
 * until there is some. */
static inline void cq_doorbell(struct cq *cq)
{
	uint32_t n = cq->ulp.credit_count;

	if (!n)
		return;
	cq->ulp.credit_count = 0;
	atomic_store_explicit(cq->ulp.ring.doorbell, cq->ulp.head, memory_order_release);
	if (cq->asked) {
		cq_doorbell_read(cq);
	} else if (!cq->ca->doorbells) {	/* what the engine would read it knows */
		cq->engine.returned += n;
		cq->engine.free_space += n;
	}
}
/* One event for the next completion, IBA 11.4.2.2. At once when one waits that came after the last event: it may have come
 * since the ULP's last poll, and adapters let no such completion go unnoticed. */
void cq_arm(struct cq *cq, bool solicited_only);
/* Removes the entries of a QP being destroyed or reset. */
void cq_clean(struct cq *cq, uint32_t qpn);
/* A work queue of that many WQEs uses the CQ, or no longer does. -ENOMEM. */
int cq_attach(struct cq *cq, uint32_t wqes);
void cq_detach(struct cq *cq, uint32_t wqes);
/* As after an overrun, on demand: the CQ is dead, and its QPs go to the error state. */
void cq_fail(struct cq *cq, wtime now);
/* Seed profile: completions that wait for room. */
uint32_t cq_kept(const struct cq *cq);
/* Asserts that free_space is never above the true room, and what else must hold. */
void cq_check(const struct cq *cq);

#endif
