/* Local access through segment lists. The lists are the engine's copies, already bounded; keys are looked up anew for
 * every piece, as a region may have gone since the last. IBA 10.6.3.2, IPS-34. What is moved must lie in the region; a
 * receive may offer more than that, as it may to other adapters (perftest 25 rounds its receives of an SRQ up to the MTU). */
#include "verbs/mr.h"

#include "base/copy_few.h"
#include "verbs/qp.h"

#include <string.h>

/* The region behind `bytes` of a segment from `offset` on, or NULL when key, PD, rights or bounds say no. Windows have no
 * local key. */
static inline struct mr *seg_region(const struct pd *pd, const struct wqe_seg *seg, uint64_t offset, uint32_t bytes, int access)
{
	struct mr *mr = mr_find(pd->ca, seg->lkey);

	if (!mr || mr->kind == MR_WINDOW || mr->pd != pd || (mr->access & access) != access)
		return NULL;
	return mr->kind == MR_NULL || mr_covers(mr, seg->addr + offset, bytes) ? mr : NULL;
}

/* How much of `bytes` lies in the segment from `offset` on. */
static uint32_t part_of(const struct wqe_seg *seg, uint64_t offset, uint32_t bytes)
{
	uint32_t left = seg->length - (uint32_t)offset;

	return left < bytes ? left : bytes;
}

/* What is left of a list of segments. */
struct walk {
	const struct wqe_seg *seg;
	unsigned segs;
	uint64_t offset;	/* in the list that is left */
	uint32_t bytes;		/* wanted, from there on */
};

/* The next piece, which lies in walk->seg from walk->offset on. False: there is none. */
static inline bool walk_find(struct walk *w, uint32_t *part)
{
	for (; w->bytes && w->segs; w->seg++, w->segs--) {
		if (w->offset < w->seg->length) {
			*part = part_of(w->seg, w->offset, w->bytes);
			return true;
		}
		w->offset -= w->seg->length;
	}
	return false;
}

static inline void walk_on(struct walk *w, uint32_t part)
{
	w->bytes -= part;
	w->offset = 0;
	w->seg++;
	w->segs--;
}

enum ibv_wc_status seg_gather(struct qp *qp, const struct wqe_seg *seg, unsigned segs, uint64_t offset, uint32_t bytes,
			      struct iovec *iov, unsigned room, unsigned *iovs, uint8_t *bounce)
{
	struct walk w = { seg, segs, offset, bytes };
	unsigned n = 0;
	uint32_t part;

	for (; walk_find(&w, &part); walk_on(&w, part)) {
		uint64_t address = w.seg->addr + w.offset;
		struct mr *mr = seg_region(qp->pd, w.seg, w.offset, part, 0);

		if (!mr)
			return IBV_WC_LOC_PROT_ERR;
		if (n == room)
			return IBV_WC_LOC_LEN_ERR;
		iov[n] = (struct iovec){ mr_borrow_to_copy(mr, address), part };
		if (!iov[n].iov_base) {
			if (mr_read(mr, address, bounce, part) < 0)
				return IBV_WC_LOC_PROT_ERR;
			iov[n].iov_base = bounce;
			bounce += part;
		}
		n++;
	}
	if (w.bytes)
		return IBV_WC_LOC_LEN_ERR;
	*iovs = n;
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status seg_scatter(struct pd *pd, const struct wqe_seg *seg, unsigned segs, uint64_t offset,
			       const void *data, uint32_t bytes)
{
	struct walk w = { seg, segs, offset, bytes };
	uint32_t part;

	for (; walk_find(&w, &part); walk_on(&w, part)) {
		struct mr *mr = seg_region(pd, w.seg, w.offset, part, IBV_ACCESS_LOCAL_WRITE);

		if (!mr || mr_write(mr, w.seg->addr + w.offset, data, part) < 0)
			return IBV_WC_LOC_PROT_ERR;
		data = (const uint8_t *)data + part;
	}
	return w.bytes ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

bool seg_fill(const struct pd *pd, const struct wqe_seg *seg, const void *data, uint32_t bytes)
{
	struct mr *mr = seg_region(pd, seg, 0, bytes, IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		return false;
	if (mr->kind != MR_MEMORY || pd->ca->memory_may_go)
		return mr_write(mr, seg->addr, data, bytes) == 0;
	copy_few(mr_address(mr, seg->addr), data, bytes);
	return true;
}

enum ibv_wc_status seg_check(struct pd *pd, const struct wqe_seg *seg, unsigned segs, int access)
{
	for (unsigned i = 0; i < segs; i++)
		if (seg[i].length && !seg_region(pd, &seg[i], 0, seg[i].length, access))
			return IBV_WC_LOC_PROT_ERR;
	return IBV_WC_SUCCESS;
}

int seg_borrow(const struct pd *pd, const struct wqe_seg *seg, unsigned segs, int access, uint32_t bytes,
	       struct iovec iov[DIRECT_IOVS])
{
	int n = 0;

	for (; segs && bytes; segs--, seg++) {
		uint32_t length = seg->length < bytes ? seg->length : bytes;
		void *memory;

		if (length == 0)
			continue;
		memory = seg_memory(pd, seg, length, access);
		if (!memory || n == DIRECT_IOVS)
			return -1;
		iov[n++] = (struct iovec){ memory, length };
		bytes -= length;
	}
	return bytes ? -1 : n;
}
