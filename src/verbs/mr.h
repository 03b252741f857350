/* Memory regions and windows, and the checks through which packets reach memory: key, PD, rights, bounds. A peer of this host
 * that executes its requests itself makes the same checks on what is published of them: direct/rma.c.
 * IBA 10.6; SAN-25, IPS-34, IPS-123. Keys: 24-bit index, 8-bit variant, indices drawn at random. */
#ifndef WEFT_VERBS_MR_H
#define WEFT_VERBS_MR_H

#include "verbs/direct.h"
#include "verbs/pd.h"

enum {
	MR_ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
			  IBV_ACCESS_OPTIONAL_RANGE,
};

enum mr_kind { MR_MEMORY, MR_ON_DEMAND, MR_IMPLICIT, MR_NULL, MR_DEVICE, MR_WINDOW };

struct mr {
	enum mr_kind kind;
	struct pd *pd;		/* ref */
	uint32_t key;		/* lkey == rkey */
	uint64_t iova;
	uint64_t length;
	uint8_t *memory;	/* the byte at iova; borrowed from the application */
	int access;		/* IBV_ACCESS_* */
	uint32_t windows;	/* bound to it */
	bool is_known;		/* a QP may have it as a struct known_region */
	/* MR_WINDOW */
	enum ibv_mw_type mw_type;
	struct mr *bound_to;	/* ref, NULL when unbound */
	struct qp *mw_qp;	/* type 2, bound: the QP it was bound on; borrowed, unbound before it goes */
	uint32_t handle;
	void *direct;		/* owned by the same-host path (verbs/direct.h), or NULL: others never could use it */
	void *user;		/* the ABI's object */
};

/* access as IBV_ACCESS_*. REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, or unknown bits: -EINVAL.
 * addr + length wrapping: -EINVAL. Whether memory is mapped is the owner's to check before. */
int mr_create(struct pd *pd, void *memory, uint64_t length, uint64_t iova, int access, struct mr **mr);
int mr_create_kind(struct pd *pd, enum mr_kind kind, void *memory, uint64_t length, uint64_t iova, int access, struct mr **mr);
int mr_rereg(struct mr *mr, int flags, struct pd *pd, void *memory, uint64_t length, int access);
int mr_destroy(struct mr *mr);	/* -EBUSY while windows are bound, or a stopped process is in the midst of using it */

int mw_create(struct pd *pd, enum ibv_mw_type type, struct mr **mw);
int mw_destroy(struct mr *mw);	/* allowed while bound */
/* The QP is going: windows bound on it are unbound. */
void mw_forget_qp(struct qp *qp);
/* Executes a bind WQE (or unbind: length 0) in send-queue order. Returns an ibv_wc_status. The window is known by the
 * index of bind_mw_rkey: consumers need not follow its variant. */
enum ibv_wc_status mw_bind(struct qp *qp, const struct send_wqe *wqe);
/* Local or remote invalidate of a type-2 window key (or a key of an MR: refused). Returns IBV_WC_SUCCESS or the error
 * status; `remote` selects the rules of send-with-invalidate. */
enum ibv_wc_status mr_invalidate(struct qp *qp, uint32_t rkey, bool remote);

/* Local access: the piece [offset, offset + bytes) of a segment list becomes at most `room` iovecs; on-demand and null
 * regions are copied through `bounce` (of PACKET_MAX_ETHERNET bytes). IBV_WC_SUCCESS, LOC_PROT_ERR or LOC_LEN_ERR. */
enum ibv_wc_status seg_gather(struct qp *qp, const struct wqe_seg *seg, unsigned segs, uint64_t offset, uint32_t bytes,
			      struct iovec *iov, unsigned room, unsigned *iovs, uint8_t *bounce);
/* Copies into the segment list at offset; checks keys, PD, LOCAL_WRITE and that what is copied into is in the regions. */
enum ibv_wc_status seg_scatter(struct pd *pd, const struct wqe_seg *seg, unsigned segs, uint64_t offset,
			       const void *data, uint32_t bytes);
/* The same into the beginning of one segment, which has room for it. False: refused. */
bool seg_fill(const struct pd *pd, const struct wqe_seg *seg, const void *data, uint32_t bytes);
/* Checks that the whole list is accessible without touching it (post-time or start-of-message checks). */
enum ibv_wc_status seg_check(struct pd *pd, const struct wqe_seg *seg, unsigned segs, int access);

/* The first `bytes` of the list as so many iovecs into the program's memory. -1: it is shorter, no access, too many, or memory
 * that cannot be borrowed. */
int seg_borrow(const struct pd *pd, const struct wqe_seg *seg, unsigned segs, int access, uint32_t bytes,
	       struct iovec iov[DIRECT_IOVS]);

/* What an operation needs of the target's QP and of the region, as IBV_ACCESS_*. 0: nothing. IBA 9.7.4.1.3, 9.7.4.1.5. */
static inline uint32_t remote_rights(enum opcode_op op)
{
	switch (op) {
	case OP_WRITE:
	case OP_ATOMIC_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case OP_READ_REQUEST:
		return IBV_ACCESS_REMOTE_READ;
	case OP_CMP_SWAP:
	case OP_FETCH_ADD:
		return IBV_ACCESS_REMOTE_ATOMIC;
	case OP_SEND: case OP_READ_RESPONSE: case OP_ACK: case OP_ATOMIC_ACK: case OP_CNP: case OP_SELECTIVE_ACK:
	case OP_PATH_PROBE: case OP_PATH_ANSWER: case OP_MULTIPATH:
		return 0;
	case OP_FLUSH:		/* no responder executes it: more than any region has */
		return UINT32_MAX;
	}
	return 0;
}

enum remote_verdict { REMOTE_OK, REMOTE_ACCESS_ERROR };
/* Remote access by rkey; a zero-length access passes without a key check (IBA 9.7.4.1.5 exempts it from R_Key checks).
 * need: IBV_ACCESS_REMOTE_READ, _WRITE, _ATOMIC, _FLUSH_*. On OK *mr is set (NULL for zero length). */
enum remote_verdict remote_check(struct qp *qp, uint32_t rkey, uint64_t va, uint64_t bytes, int need, struct mr **mr);
/* The same against another PD: of the SRQ that an XRC request names, as XRC_RECV QPs have none. NULL: any of the device. */
enum remote_verdict remote_check_pd(struct qp *qp, const struct pd *pd, uint32_t rkey, uint64_t va, uint64_t bytes, int need,
				    struct mr **mr);
/* Moves bytes; -EFAULT only for on-demand regions whose memory is not there. The range was checked by remote_check for
 * this very packet (never remembered across packets: the region may be gone). A program may unmap the memory of a region before
 * it deregisters it; an adapter has pinned the pages and uses them on. While ca.memory_may_go, what is written to such memory is
 * lost, and zeros are read. */
int mr_write(struct mr *mr, uint64_t va, const void *data, uint32_t bytes);
int mr_read(struct mr *mr, uint64_t va, void *data, uint32_t bytes);
/* Is there memory? No: what is written is lost, and zeros are read. */
bool mr_is_there(const struct mr *mr, uint64_t va, uint32_t bytes);
/* Whatever was written is there. Before memory that was borrowed is looked at or changed. */
void mr_settle(const struct mr *mr);
/* Of a window: its region's. */
static inline enum mr_kind mr_memory_kind(const struct mr *mr)
{
	return mr->kind == MR_WINDOW ? mr->bound_to->kind : mr->kind;
}

/* An implicit region starts at address 0, so the sum is made of integers. */
static inline void *mr_address(const struct mr *mr, uint64_t va)
{
	return (void *)((uintptr_t)mr->memory + (va - mr->iova));
}

/* The address of va when it can be borrowed (plain and device memory), or NULL. */
static inline void *mr_borrow(const struct mr *mr, uint64_t va)
{
	enum mr_kind kind = mr_memory_kind(mr);

	return kind == MR_MEMORY || kind == MR_DEVICE ? mr_address(mr, va) : NULL;
}

/* As mr_borrow, to copy from at once or later in the same entry: NULL also while the program may unmap the memory. */
static inline void *mr_borrow_to_copy(const struct mr *mr, uint64_t va)
{
	return mr->pd->ca->memory_may_go && mr_memory_kind(mr) == MR_MEMORY ? NULL : mr_borrow(mr, va);
}

/* For this room: mr_publish publishes the region to the peers of this host, mr_unpublish takes it back. -EBUSY: a stopped peer
 * uses it still. */
void mr_publish(struct mr *mr);
int mr_unpublish(struct mr *mr);

static inline struct mr *mr_find(struct ca *ca, uint32_t key)
{
	return table_get(&ca->keys, key);
}

/* Is [va, va + bytes) inside? */
static inline bool mr_covers(const struct mr *mr, uint64_t va, uint64_t bytes)
{
	uint64_t offset = va - mr->iova;

	return va >= mr->iova && offset <= mr->length && bytes <= mr->length - offset;
}

/* The first `bytes` of the segment's memory, if they can be borrowed and allow `access`; NULL otherwise. */
static inline void *seg_memory(const struct pd *pd, const struct wqe_seg *seg, uint32_t bytes, int access)
{
	const struct mr *mr = mr_find(pd->ca, seg->lkey);

	if (!mr || (mr->kind != MR_MEMORY && mr->kind != MR_DEVICE) || mr->pd != pd || (mr->access & access) != access ||
	    !mr_covers(mr, seg->addr, bytes))
		return NULL;
	return mr_address(mr, seg->addr);
}

/* A region in which a QP found the memory of its last segment: it stays so until the region changes (qps_forget_region). */
struct known_region {
	uint32_t lkey;
	uint64_t start, bytes;		/* 0 bytes: none is known */
	uintptr_t away;			/* what memory is, beside the address in the region */
};

static inline void known_region_note(struct known_region *k, struct mr *mr)
{
	mr->is_known = true;
	*k = (struct known_region){ mr->key, mr->iova, mr->length, (uintptr_t)mr->memory - (uintptr_t)mr->iova };
}

/* These bytes > 0 in it, or NULL. */
static inline void *known_region_at(const struct known_region *k, uint64_t addr, uint32_t bytes, uint32_t lkey)
{
	uint64_t offset = addr - k->start;

	return lkey == k->lkey && offset < k->bytes && bytes <= k->bytes - offset ? (void *)((uintptr_t)addr + k->away) : NULL;
}

#endif
