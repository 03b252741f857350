/* Work and completion queues in memory that another process can map (docs/spec-map.md, IPS-16): rings of pages chained
 * by their last slots, holding offsets into the arena, never pointers; doorbells, credits and free-space counts.
 * The consumer of verbs (ULP) writes at the head; the engine sees only what a doorbell announced. */
#ifndef WEFT_VERBS_QUEUE_H
#define WEFT_VERBS_QUEUE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ARENA_PAGE = 4096,
	ARENA_UNIT = 256,	/* our choice: small queues share pages, and the book weighs a twentieth at most */
	ARENA_CLASSES = 32,
};

struct arena_run;

/* The memory all queues of one process live in; base is this process's mapping of it. */
struct arena {
	uint8_t *base;	/* borrowed from the owner */
	uint64_t pinned;	/* bytes given away, IPS-18 */
	uint32_t units, top;	/* in all; ever given away */
	struct arena_run *run;	/* owned, by unit: the allocator's own book, outside the shared memory */
	uint32_t room;		/* elements of run */
	uint32_t free[ARENA_CLASSES];	/* the first free run of 2^i to 2^(i+1) - 1 units */
};

/* base: page-aligned memory. -EINVAL, -ENOMEM. */
int arena_init(struct arena *a, void *base, uint64_t bytes);
void arena_fini(struct arena *a);
/* Memory of at least `bytes`, aligned to a unit, with whatever was in it; *offset is set. -ENOMEM. */
int arena_alloc(struct arena *a, uint64_t bytes, uint64_t *offset);
void arena_free(struct arena *a, uint64_t offset);

struct wqe_seg {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* Address vector: where a UD packet goes; copied into the WQE so that the AH may go. */
struct av {
	uint8_t dgid[16];
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t port_num;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t tclass;
	uint8_t is_global;	/* as a flag: other processes may write it */
	uint32_t flow_label;
};

/* Send WQE: a fixed head, then `num_sge` segments, or `length` inline bytes. The stride is fixed per queue. */
struct send_wqe {
	uint64_t wr_id;
	uint8_t opcode;		/* enum ibv_wr_opcode */
	uint8_t num_sge;
	uint8_t flags;		/* IBV_SEND_SIGNALED, _FENCE, _SOLICITED, _INLINE */
	uint8_t bad_status;	/* enum ibv_wc_status with which it completes in its turn, when posted with a fault; or 0 */
	uint32_t imm;		/* as posted (big-endian value in memory) or the rkey to invalidate */
	uint32_t length;	/* sum of the segments; at most 2^31 */
	uint32_t remote_qpn;	/* UD; XRC: remote SRQ number */
	union {
		struct {	/* RDMA and atomics */
			uint64_t remote_addr;
			uint32_t rkey;
			uint64_t compare_add, swap;	/* atomic write: the bytes to write are compare_add's */
		};
		struct {	/* UD */
			struct av av;
			uint32_t qkey;
		};
		struct {	/* bind: window rkey (old), the new one, and its region */
			uint32_t bind_mw_rkey, bind_new_rkey, bind_mr_lkey, bind_access;
			uint64_t bind_addr, bind_length;
		};
	};
	struct wqe_seg seg[];	/* or inline bytes */
};

_Static_assert(sizeof(struct send_wqe) == 64, "the head is a cache line");

struct recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length;	/* sum of the segments */
	struct wqe_seg seg[];
};

enum cqe_kind { CQE_SEND, CQE_RECV };

/* One completion, IPS-38 and X-04: the same format for every engine. */
struct cqe {
	uint64_t wr_id;
	uint32_t status;	/* enum ibv_wc_status */
	uint32_t opcode;	/* enum ibv_wc_opcode */
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm;		/* big-endian in memory, or invalidated rkey */
	uint32_t wqn;		/* QP number */
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint8_t kind;		/* enum cqe_kind */
	uint8_t valid;		/* the phase, IPS-43; 0: never */
	uint64_t timestamp_ns;
	uint32_t wqe_index;
	uint32_t srqn;		/* of the SRQ whose WQE it was; 0: a WQE of the QP's own */
};

/* The first bytes are a struct ibv_wc, which polling copies as one piece. */
enum { CQE_WC_BYTES = offsetof(struct cqe, kind) };
#define CQE_HAS(field, name) \
	_Static_assert(offsetof(struct cqe, field) == offsetof(struct ibv_wc, name) && \
		       sizeof(((struct cqe *)0)->field) == sizeof(((struct ibv_wc *)0)->name), "as in struct ibv_wc: " #name)
CQE_HAS(wr_id, wr_id);
CQE_HAS(status, status);
CQE_HAS(opcode, opcode);
CQE_HAS(vendor_err, vendor_err);
CQE_HAS(byte_len, byte_len);
CQE_HAS(imm, imm_data);
CQE_HAS(wqn, qp_num);
CQE_HAS(src_qp, src_qp);
CQE_HAS(wc_flags, wc_flags);
CQE_HAS(pkey_index, pkey_index);
CQE_HAS(slid, slid);
CQE_HAS(sl, sl);
CQE_HAS(dlid_path_bits, dlid_path_bits);
#undef CQE_HAS
_Static_assert(sizeof(struct cqe) == 64, "a cache line");

/* A ring as one process has it mapped: pages of slots, chained by their last slots. What lies in the shared memory is the slots
 * and the doorbell. */
struct queue_ring {
	struct arena *arena;	/* borrowed */
	uint64_t offset;	/* of the first page in the arena */
	uint8_t *first;		/* the first page: most rings have no other */
	uint8_t **page;		/* owned: the addresses of all pages, so that an index is found in O(1); NULL when there is one */
	_Atomic uint32_t *doorbell;	/* cumulative; of a completion queue what was removed */
	uint32_t pages, slots_per_page, stride;
	uint32_t capacity;	/* slots for WQEs or CQEs: pages * (slots_per_page - 1) */
};

/* Slots of `stride` bytes at least (rounded up to 64) for `most` entries, in one page unless the arena has no room for it in one
 * piece. No page for 0 entries. -ENOMEM, -EINVAL. Touches one slot of each page. */
int queue_ring_init(struct queue_ring *r, struct arena *a, uint32_t most, uint32_t stride);
/* The same with the geometry given. */
int queue_ring_init_pages(struct queue_ring *r, struct arena *a, uint32_t pages, uint32_t slots_per_page, uint32_t stride);
/* The same ring for the other side. -ENOMEM. */
int queue_ring_map(struct queue_ring *r, const struct queue_ring *other);
void queue_ring_unmap(struct queue_ring *r);
/* Gives the memory back. All other mappings are gone. */
void queue_ring_fini(struct queue_ring *r);

/* The slot at a position < capacity. */
static inline void *queue_ring_at(const struct queue_ring *r, uint32_t position)
{
	uint32_t per_page;

	if (r->pages <= 1)	/* as nearly all: no division */
		return r->first + (uint64_t)position * r->stride;
	per_page = r->slots_per_page - 1;
	return r->page[position / per_page] + (uint64_t)(position % per_page) * r->stride;
}

/* The position after one. */
static inline uint32_t queue_ring_next(const struct queue_ring *r, uint32_t position)
{
	return position + 1 == r->capacity ? 0 : position + 1;
}

/* Where that cumulative index lies, lap <= index < lap + 2 * capacity (modular); `lap` is an index at position 0. */
static inline uint32_t queue_ring_position(const struct queue_ring *r, uint32_t lap, uint32_t index)
{
	uint32_t position = index - lap;

	return position < r->capacity ? position : position - r->capacity;
}

/* The consumer's (ULP's) side of a work queue. All counts are cumulative modulo 2^32. */
struct wq_ulp {
	struct queue_ring ring;
	uint32_t written;	/* WQEs written at the head, announced or not */
	uint32_t rung;		/* what the doorbell says */
	uint32_t credits;	/* IPS-23, IPS-27 */
	uint32_t reaped;	/* done, and their credits have come back */
	uint32_t lap;		/* the index at ring position 0: reaped - lap < capacity */
};

/* The engine's side. It believes nothing that is in the ring or its doorbell. */
struct wq_engine {
	struct queue_ring ring;
	uint8_t *copies;	/* owned, send queues: WQEs as they were judged, by ring position */
	uint32_t announced;	/* doorbells consumed */
	uint32_t fetched;	/* send queues: copied; not less than started */
	uint32_t started;	/* handed to the transport */
	uint32_t completed;	/* finished in order: announced - completed = pending, IPS-26 */
	uint32_t lap;		/* the index at ring position 0: completed - lap < capacity */
	uint32_t cq;		/* index of its CQ, IPS-37 */
	uint64_t after;		/* the address right after the last byte transferred, and its region: IPS-16 */
	uint32_t after_lkey;
};

/* Both sides, where one process has both. */
struct wq {
	struct wq_ulp ulp;
	struct wq_engine engine;
};

/* max_wr WQEs of `stride` bytes at least. Credits = capacity >= max_wr. As queue_ring_init. */
int wq_init(struct wq *wq, struct arena *a, uint32_t max_wr, uint32_t stride);
/* The same with the geometry given. */
int wq_init_pages(struct wq *wq, struct arena *a, uint32_t pages, uint32_t slots_per_page, uint32_t stride);
void wq_fini(struct wq *wq);
/* Memory of the engine's own for a copy of each WQE: wq_copy_at. -ENOMEM. */
int wq_init_copies(struct wq_engine *e);
/* Moves the WQEs of a queue without copies to a ring of at least max_wr; indices stay. -EINVAL when more are outstanding,
 * -ENOMEM: unchanged. */
int wq_resize(struct wq *wq, uint32_t max_wr);
/* Empty again, all credits back; the memory stays. */
void wq_reset(struct wq *wq);
/* Asserts credits + written-not-announced + pending + completed-not-reaped == capacity (IPS-28). */
void wq_check(const struct wq *wq);

/* ---- the consumer's ---- */

/* The WQE of that cumulative index; reaped <= index < reaped + capacity (modular). */
static inline void *wq_ulp_at(const struct wq_ulp *u, uint32_t index)
{
	return queue_ring_at(&u->ring, queue_ring_position(&u->ring, u->lap, index));
}

/* The slot for the next WQE, or NULL when no credit is left (IPS-24). It is not the engine's before wq_ring_doorbell. */
static inline void *wq_slot(const struct wq_ulp *u)
{
	return u->credits ? wq_ulp_at(u, u->written) : NULL;
}

/* The slot just filled counts as written. */
static inline void wq_written(struct wq_ulp *u)
{
	u->written++;
	u->credits--;
}

/* Takes back the last n written, not yet announced (wr_abort). */
void wq_unwrite(struct wq_ulp *u, uint32_t n);

/* Announces everything written: IPS-25, IPS-27. False: nothing new was. */
static inline bool wq_ring_doorbell(struct wq_ulp *u)
{
	if (u->rung == u->written)
		return false;
	u->rung = u->written;
	atomic_store_explicit(u->ring.doorbell, u->rung, memory_order_release);
	return true;
}

/* Credits come back: every WQE up to and including index has been reaped (IPS-30, IPS-31). An index of no WQE that was announced
 * is ignored: it was read from shared memory. */
static inline void wq_reaped(struct wq_ulp *u, uint32_t index)
{
	uint32_t n = index + 1 - u->reaped;

	if (n > u->rung - u->reaped)
		return;
	u->reaped += n;
	u->credits += n;
	if (u->reaped - u->lap >= u->ring.capacity)
		u->lap += u->ring.capacity;
}

/* ---- the engine's ---- */

/* The ring position of that cumulative index; completed <= index < completed + capacity (modular). */
static inline uint32_t wq_position(const struct wq_engine *e, uint32_t index)
{
	return queue_ring_position(&e->ring, e->lap, index);
}

/* The WQE of that index in the ring. */
static inline void *wq_engine_at(const struct wq_engine *e, uint32_t index)
{
	return queue_ring_at(&e->ring, wq_position(e, index));
}

/* The engine's copy of the WQE at a ring position. */
static inline void *wq_copy_at(const struct wq_engine *e, uint32_t position)
{
	return e->copies + (uint64_t)position * e->ring.stride;
}

/* Takes over the announced count. The doorbell can hold anything when another process maps it: it is not believed that the ring
 * has more WQEs than slots, nor that any were taken back. */
static inline void wq_doorbell_read(struct wq_engine *e)
{
	uint32_t announced;

	if (!e->ring.capacity)
		return;
	announced = atomic_load_explicit(e->ring.doorbell, memory_order_acquire);
	if (announced - e->completed <= e->ring.capacity && announced - e->completed >= e->announced - e->completed)
		e->announced = announced;
}

/* Consumer and engine are one: the doorbell says what the consumer knows. */
static inline void wq_announced(struct wq *wq)
{
	wq->engine.announced = wq->ulp.rung;
}

/* One more is finished: its slot may be the consumer's again. */
static inline void wq_completed(struct wq_engine *e)
{
	e->completed++;
	if (e->completed - e->lap == e->ring.capacity)
		e->lap = e->completed;
}

/* The first `bytes` of a segment have been transferred. */
static inline void wq_transferred_one(struct wq_engine *e, const struct wqe_seg *seg, uint64_t bytes)
{
	e->after = seg->addr + bytes;
	e->after_lkey = seg->lkey;
}

/* The first `bytes` of a WQE's data have been transferred. */
static inline void wq_transferred(struct wq_engine *e, const struct wqe_seg *seg, uint32_t segs, uint64_t bytes)
{
	for (; segs; segs--, seg++) {
		if (bytes <= seg->length) {
			wq_transferred_one(e, seg, bytes);
			return;
		}
		bytes -= seg->length;
	}
}

static inline uint32_t wq_pending(const struct wq_engine *e)
{
	return e->announced - e->completed;
}

#endif
