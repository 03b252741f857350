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

/* One contiguous part of a segment list. */
struct piece {
	struct mr *mr;
	uint64_t va;
	uint32_t bytes;
};

/* Visits the pieces of [offset, offset + bytes). */
struct walk {
	const struct pd *pd;
	const struct wqe_seg *seg;
	unsigned segs;
	uint64_t offset;
	uint32_t bytes;
	int access;
};

/* SUCCESS with the next piece; bytes left must be > 0. */
static inline enum ibv_wc_status walk_next(struct walk *w, struct piece *piece)
{
	while (w->segs && w->offset >= w->seg->length) {
		w->offset -= w->seg->length;
		w->seg++;
		w->segs--;
	}
	if (!w->segs)
		return IBV_WC_LOC_LEN_ERR;
	piece->mr = seg_region(w->pd, w->seg, w->access);
	if (!piece->mr)
		return IBV_WC_LOC_PROT_ERR;
	piece->va = w->seg->addr + w->offset;
	piece->bytes = w->seg->length - (uint32_t)w->offset;
	if (piece->bytes > w->bytes)
		piece->bytes = w->bytes;
	w->bytes -= piece->bytes;
	w->offset += piece->bytes;
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status seg_gather(struct qp *qp, const struct wqe_seg *seg, unsigned segs, uint64_t offset, uint32_t bytes,
			      struct iovec *iov, unsigned room, unsigned *iovs, uint8_t *bounce)
{
	struct walk walk = { qp->pd, seg, segs, offset, bytes, 0 };
	struct piece piece;
	unsigned n = 0;

	while (walk.bytes) {
		enum ibv_wc_status status = walk_next(&walk, &piece);

		if (status != IBV_WC_SUCCESS)
			return status;
		if (n == room)
			return IBV_WC_LOC_LEN_ERR;
		iov[n].iov_len = piece.bytes;
		iov[n].iov_base = mr_borrow(piece.mr, piece.va);
		if (!iov[n].iov_base) {
			if (mr_read(piece.mr, piece.va, bounce, piece.bytes) < 0)
				return IBV_WC_LOC_PROT_ERR;
			iov[n].iov_base = bounce;
			bounce += piece.bytes;
		}
		n++;
	}
	*iovs = n;
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status seg_scatter(struct pd *pd, const struct wqe_seg *seg, unsigned segs, uint64_t offset, const void *data, uint32_t bytes)
{
	struct walk walk = { pd, seg, segs, offset, bytes, IBV_ACCESS_LOCAL_WRITE };
	struct piece piece;

	while (walk.bytes) {
		enum ibv_wc_status status = walk_next(&walk, &piece);

		if (status != IBV_WC_SUCCESS)
			return status;
		if (mr_write(piece.mr, piece.va, data, piece.bytes) < 0)
			return IBV_WC_LOC_PROT_ERR;
		data = (const uint8_t *)data + piece.bytes;
	}
	return IBV_WC_SUCCESS;
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
		const struct mr *mr;
		void *memory;

		if (length == 0)
			continue;
		mr = seg_region(pd, seg, access);
		memory = mr ? mr_borrow(mr, seg->addr) : NULL;
		if (!memory || n == DIRECT_IOVS)
			return -1;
		iov[n++] = (struct iovec){ memory, length };
		bytes -= length;
	}
	return bytes ? -1 : n;
}
