/* Local access through segment lists. The lists are the engine's copies, already bounded; keys are looked up anew for
 * every piece, as a region may have gone since the last. IBA 10.6.3.2, IPS-34. */
#include "verbs/mr.h"
#include "verbs/qp.h"

#include <string.h>

/* The region behind a segment, or NULL when key, PD, rights or bounds say no. Windows have no local key. */
static inline struct mr *seg_region(const struct pd *pd, const struct wqe_seg *seg, int access)
{
	struct mr *mr = mr_find(pd->ca, seg->lkey);

	if (!mr || mr->kind == MR_WINDOW || mr->pd != pd || (mr->access & access) != access)
		return NULL;
	return mr->kind == MR_NULL || mr_covers(mr, seg->addr, seg->length) ? mr : NULL;
}

/* How much of `bytes` lies in the segment from `offset` on. */
static uint32_t part_of(const struct wqe_seg *seg, uint64_t offset, uint32_t bytes)
{
	uint32_t left = seg->length - (uint32_t)offset;

	return left < bytes ? left : bytes;
}

enum ibv_wc_status seg_gather(struct qp *qp, const struct wqe_seg *seg, unsigned segs, uint64_t offset, uint32_t bytes,
			      struct iovec *iov, unsigned room, unsigned *iovs, uint8_t *bounce)
{
	unsigned n = 0;

	for (; bytes && segs; seg++, segs--) {
		uint32_t part;
		struct mr *mr;

		if (offset >= seg->length) {
			offset -= seg->length;
			continue;
		}
		mr = seg_region(qp->pd, seg, 0);
		if (!mr)
			return IBV_WC_LOC_PROT_ERR;
		if (n == room)
			return IBV_WC_LOC_LEN_ERR;
		part = part_of(seg, offset, bytes);
		iov[n] = (struct iovec){ mr_borrow(mr, seg->addr + offset), part };
		if (!iov[n].iov_base) {
			if (mr_read(mr, seg->addr + offset, bounce, part) < 0)
				return IBV_WC_LOC_PROT_ERR;
			iov[n].iov_base = bounce;
			bounce += part;
		}
		n++;
		bytes -= part;
		offset = 0;
	}
	if (bytes)
		return IBV_WC_LOC_LEN_ERR;
	*iovs = n;
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status seg_scatter(struct pd *pd, const struct wqe_seg *seg, unsigned segs, uint64_t offset,
			       const void *data, uint32_t bytes)
{
	for (; bytes && segs; seg++, segs--) {
		uint32_t part;
		struct mr *mr;

		if (offset >= seg->length) {
			offset -= seg->length;
			continue;
		}
		mr = seg_region(pd, seg, IBV_ACCESS_LOCAL_WRITE);
		part = part_of(seg, offset, bytes);
		if (!mr || mr_write(mr, seg->addr + offset, data, part) < 0)
			return IBV_WC_LOC_PROT_ERR;
		data = (const uint8_t *)data + part;
		bytes -= part;
		offset = 0;
	}
	return bytes ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

bool seg_fill(const struct pd *pd, const struct wqe_seg *seg, const void *data, uint32_t bytes)
{
	struct mr *mr = seg_region(pd, seg, IBV_ACCESS_LOCAL_WRITE);

	return mr && mr_write(mr, seg->addr, data, bytes) == 0;
}

enum ibv_wc_status seg_check(struct pd *pd, const struct wqe_seg *seg, unsigned segs, int access)
{
	for (unsigned i = 0; i < segs; i++)
		if (seg[i].length && !seg_region(pd, &seg[i], access))
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
		memory = seg_memory(pd, seg, access);
		if (!memory || n == DIRECT_IOVS)
			return -1;
		iov[n++] = (struct iovec){ memory, length };
		bytes -= length;
	}
	return bytes ? -1 : n;
}
