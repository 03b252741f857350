/* Work and completion queues in memory that another process can map (REQUIREMENTS 4.2 to 4.4): rings of pages chained
 * by their last slots, holding offsets into the arena, never pointers; doorbells, credits and free-space counts.
 * The consumer of verbs (ULP) writes at the head; the engine sees only what a doorbell announced. */
#ifndef WEFT_VERBS_QUEUE_H
#define WEFT_VERBS_QUEUE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	ARENA_PAGE = 4096,
	ARENA_UNIT = 256,	/* our choice: small queues share pages, and the book weighs a twentieth at most */
	ARENA_CLASSES = 32,
};

struct arena_run;

/* The memory all queues of one process live in; base is this process's mapping of it. */
struct arena {
	uint8_t *base;	/* borrowed from the host */
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
	bool is_global;
	uint32_t flow_label;
};

enum { WQE_WORKED = 1 << 7 };	/* in a send WQE's flags, the engine's: its local work is done */

/* Send WQE: a fixed head, then `num_sge` segments, or `length` inline bytes. The stride is fixed per queue. */
struct send_wqe {
	uint64_t wr_id;
	uint8_t opcode;		/* enum ibv_wr_opcode */
	uint8_t num_sge;
	uint8_t flags;		/* IBV_SEND_SIGNALED, _FENCE, _SOLICITED, _INLINE, WQE_WORKED */
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
	uint64_t timestamp_ns;
	uint32_t wqn;		/* QP number */
	uint32_t wqe_index;
	uint8_t kind;		/* enum cqe_kind */
	uint8_t status;		/* enum ibv_wc_status */
	uint8_t opcode;		/* enum ibv_wc_opcode */
	uint8_t valid;		/* the phase, IPS-43; 0: never */
	uint32_t byte_len;
	uint32_t imm;		/* big-endian in memory, or invalidated rkey */
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint16_t pkey_index;
	uint8_t is_srq;
	uint8_t rsvd;
	uint32_t vendor_err;
	uint32_t srqn;		/* is_srq: whose WQE it was */
};

/* One work queue: the ring, the ULP's side and the engine's side of it. All counts are cumulative modulo 2^32. */
struct wq {
	struct arena *arena;	/* borrowed */
	uint64_t ring;		/* offset of the first page */
	uint8_t **page;		/* owned: this process's addresses of the pages, so that an index is found in O(1) */
	uint8_t *first;		/* page[0]: most queues have one page */
	uint32_t pages, slots_per_page, stride;
	uint32_t capacity;	/* WQEs: pages * (slots_per_page - 1) */
	/* ULP */
	uint32_t written;	/* WQEs written at the head, announced or not */
	uint32_t credits;	/* IPS-23, IPS-27 */
	/* shared word the doorbell is: offset in the arena of a _Atomic uint32_t, cumulative */
	uint64_t doorbell;
	/* engine */
	uint32_t announced;	/* doorbells consumed */
	uint32_t started;	/* handed to the transport */
	uint32_t completed;	/* finished in order: announced - completed = pending, IPS-26 */
	/* reaping: completed - reaped are done but their credits have not come back */
	uint32_t reaped;
	uint32_t lap;		/* the index at ring position 0: reaped - lap < capacity */
	uint32_t cq;		/* index of its CQ, IPS-37 */
	uint64_t after;		/* the address right after the last byte transferred, and its region: IPS-16 */
	uint32_t after_lkey;
};

/* max_wr WQEs of `stride` bytes at least (rounded up to 64). Credits = capacity >= max_wr. -ENOMEM, -EINVAL. Touches one slot of
 * each page, and there is one page unless the arena has no room for it in one piece. */
int wq_init(struct wq *wq, struct arena *a, uint32_t max_wr, uint32_t stride);
/* The same with the geometry given: capacity is pages * (slots_per_page - 1). */
int wq_init_pages(struct wq *wq, struct arena *a, uint32_t pages, uint32_t slots_per_page, uint32_t stride);
void wq_fini(struct wq *wq);
/* Moves the WQEs to a ring of at least max_wr; indices stay. -EINVAL when more are outstanding, -ENOMEM: unchanged. */
int wq_resize(struct wq *wq, uint32_t max_wr);
/* Empty again, all credits back; the memory stays. */
void wq_reset(struct wq *wq);
/* The slot at a ring position < capacity. */
static inline void *wq_slot_at(const struct wq *wq, uint32_t position)
{
	uint32_t per_page;

	if (wq->pages <= 1)	/* as nearly all queues: no division */
		return wq->first + (uint64_t)position * wq->stride;
	per_page = wq->slots_per_page - 1;
	return wq->page[position / per_page] + (uint64_t)(position % per_page) * wq->stride;
}

/* The WQE of that cumulative index; reaped <= index < reaped + capacity (modular). */
static inline void *wq_at(const struct wq *wq, uint32_t index)
{
	uint32_t position = index - wq->lap;

	return wq_slot_at(wq, position < wq->capacity ? position : position - wq->capacity);
}

/* The slot for the next WQE, or NULL when no credit is left (IPS-24). It is not the engine's before wq_ring. */
static inline void *wq_slot(const struct wq *wq)
{
	return wq->credits ? wq_at(wq, wq->written) : NULL;
}

/* The slot just filled counts as written. */
static inline void wq_written(struct wq *wq)
{
	wq->written++;
	wq->credits--;
}

/* Takes back the last n written, not yet announced (wr_abort). */
void wq_unwrite(struct wq *wq, uint32_t n);

static inline _Atomic uint32_t *wq_doorbell(const struct wq *wq)
{
	return (_Atomic uint32_t *)(wq->arena->base + wq->doorbell);
}

/* Announces everything written: IPS-25, IPS-27. */
static inline void wq_ring(struct wq *wq)
{
	if (wq->capacity)
		atomic_store_explicit(wq_doorbell(wq), wq->written, memory_order_release);
}

/* Engine: takes over the announced count. The word can hold anything when another process maps it; more WQEs than the ring
 * has are not believed. */
static inline void wq_doorbell_read(struct wq *wq)
{
	uint32_t announced;

	if (!wq->capacity)
		return;
	announced = atomic_load_explicit(wq_doorbell(wq), memory_order_acquire);
	if (announced - wq->reaped <= wq->capacity && announced - wq->reaped >= wq->announced - wq->reaped)
		wq->announced = announced;
}

/* Both at once, when something was written and the engine is the ULP's process: what was just rung need not be read back. */
static inline void wq_announce(struct wq *wq)
{
	atomic_store_explicit(wq_doorbell(wq), wq->written, memory_order_release);
	wq->announced = wq->written;
}

/* The first `bytes` of a WQE's data have been transferred. */
static inline void wq_transferred(struct wq *wq, const struct wqe_seg *seg, uint32_t segs, uint64_t bytes)
{
	for (; segs; segs--, seg++) {
		if (bytes <= seg->length) {
			wq->after = seg->addr + bytes;
			wq->after_lkey = seg->lkey;
			return;
		}
		bytes -= seg->length;
	}
}

static inline uint32_t wq_pending(const struct wq *wq)
{
	return wq->announced - wq->completed;
}

/* Credits come back: every WQE up to and including index has been reaped (IPS-30, IPS-31). An index that is not of a
 * completed WQE is ignored: it was read from shared memory. */
static inline void wq_reaped(struct wq *wq, uint32_t index)
{
	uint32_t n = index + 1 - wq->reaped;

	if (n > wq->completed - wq->reaped)
		return;
	wq->reaped += n;
	wq->credits += n;
	if (wq->reaped - wq->lap >= wq->capacity)
		wq->lap += wq->capacity;
}

/* Asserts credits + written-not-announced + pending + completed-not-reaped == capacity (IPS-28). */
void wq_check(const struct wq *wq);

#endif
