/* Executing a request in a process's memory by whoever wants it: the checks that the packet engine's responder would
 * make, and the copy. A request that fails any check is left to the packets, so that the standard's NAK, event and
 * status follow. IBA 9.7.4.1. */
#ifndef WEFT_DIRECT_DIRECT_H
#define WEFT_DIRECT_DIRECT_H

#include "direct/export.h"
#include "verbs/direct.h"
#include "verbs/qp.h"

/* How bytes get into another process's memory and out of it. */
struct direct_mover {
	/* All `bytes` of the list to or from `address` on, ascending, the last line last. False: some did not arrive. */
	bool (*write)(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes);
	bool (*read)(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes);
	/* `bytes` of the peer's memory file from `offset` on, in our own address space and there to stay; NULL: no. */
	void *(*map)(void *peer, uint32_t file, uint64_t offset, uint64_t bytes);
};

/* What a request found and what of it was right: it holds as long as both entries and our own QPs are as they were. */
struct direct_hit {
	uint32_t qpn, dest_qpn, rkey;	/* whose request */
	uint32_t era;
	struct export_watch qp_watch, region_watch;
	struct export_qp remote;
	struct export_region region;
};

enum { DIRECT_HITS = 16 };	/* our choice */

/* Another process of this host. All borrowed. */
struct direct_peer {
	struct direct_hit *hits;	/* DIRECT_HITS of them, zero at first */
	const uint32_t *era;		/* changes whenever a QP of ours does; never 0 */
	struct export_memory *export;
	_Atomic uint64_t *access;	/* our word of access.h */
	const struct direct_mover *mover;
	void *arg;			/* the mover's */
	uint32_t self;			/* who we are to its lock */
	const struct atomic_lock_ops *lock_ops;
	void *host;			/* the lock's */
};

/* What others are shown of them; private memory. */
void direct_describe_region(const struct mr *mr, struct export_region *out);
void direct_describe_qp(const struct qp *qp, struct export_qp *out);
/* May it be shown at all? QPs: verbs knows. */
bool direct_shows_region(const struct mr *mr);

/* Would that process's QP take requests of ours? */
bool direct_is_connected(const struct qp *qp, const struct direct_peer *peer);
/* The same, to be asked again and again: of the process that shows `m`. */
bool direct_watch(const struct qp *qp, const struct export_memory *m, struct export_watch *watch);
/* True: executed. False: by packets. */
bool direct_execute(const struct qp *qp, const struct direct_peer *peer, struct direct_request *r);
/* The same for a QP whose peer is in this process. The caller has the lock around its atomics. */
bool direct_execute_own(const struct qp *qp, struct direct_request *r);

#endif
