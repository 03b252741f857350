/* RMA in another process's memory, or our own, by the initiator: the checks that the packet engine's responder would make,
 * and the copy. A request that fails any check is left to the packets, so that the standard's NAK, event and
 * status follow. IBA 9.7.4.1. */
#ifndef WEFT_DIRECT_RMA_H
#define WEFT_DIRECT_RMA_H

#include "direct/share.h"
#include "verbs/direct.h"
#include "verbs/qp.h"

/* How bytes get into another process's memory and out of it. */
struct rma_mover {
	/* All `bytes` of the list to or from `address` on, ascending, the last line last. False: some did not arrive. */
	bool (*write)(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes);
	bool (*read)(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes);
	/* `bytes` of the peer's memory file from `offset` on, in our own address space and there to stay; NULL: no. */
	void *(*map)(void *peer, uint32_t file, uint64_t offset, uint64_t bytes);
};

/* What a request found and what of it was right: it holds as long as both entries and our own QPs are as they were. */
struct rma_hit {
	uint32_t qpn, dest_qpn, rkey;	/* whose request */
	uint32_t era;
	struct share_watch qp_watch, region_watch;
	struct share_qp remote;
	struct share_region region;
	uint8_t *mapped;	/* the whole region in our address space, when that was seen; NULL: ask the mover */
};

enum { RMA_HITS = 16 };	/* our choice */

/* Another process of this host. All borrowed. */
struct rma_peer {
	struct rma_hit *hits;	/* RMA_HITS of them, zero at first */
	const uint32_t *era;		/* changes whenever a QP of ours does; never 0 */
	struct share_memory *share;
	_Atomic uint64_t *hazard;	/* our word of hazard.h */
	const struct rma_mover *mover;
	void *arg;			/* the mover's */
	uint32_t self;			/* who we are to its lock */
	const struct atomic_lock_ops *lock_ops;
	void *lock_arg;			/* the lock's */
};

/* What others are shown of them; private memory. */
void rma_describe_region(const struct mr *mr, struct share_region *out);
/* received is the caller's to fill. */
void rma_describe_qp(const struct qp *qp, struct share_qp *out);
/* May it be shown at all? QPs: verbs knows. */
bool rma_shows_region(const struct mr *mr);

/* Would that process's QP take requests of ours? */
bool rma_is_connected(const struct qp *qp, const struct rma_peer *peer);
/* The same, to be asked again and again: of the process that shows `m`. */
bool rma_watch(const struct qp *qp, const struct share_memory *m, struct share_watch *watch);
/* True: executed. False: by packets. */
bool rma_execute(const struct qp *qp, const struct rma_peer *peer, struct direct_request *r);
/* The same for a QP whose peer is in this process. The caller has the lock around its atomics. */
bool rma_execute_own(const struct qp *qp, struct direct_request *r);
/* Both for a write of one piece: bytes > 0. */
enum direct_write rma_write(const struct qp *qp, const struct rma_peer *peer, uint32_t rkey, uint64_t va, const void *data,
			    uint32_t bytes);
bool rma_write_own(const struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes);

#endif
