/* The shortcut to memory of this host: RDMA writes, reads and atomics that their initiator executes itself. What verbs and
 * the packet engine ask of it; ca.direct is NULL where there is none (simulator, packet path forced). */
#ifndef WEFT_VERBS_DIRECT_H
#define WEFT_VERBS_DIRECT_H

#include "verbs/ca.h"

struct mr;

enum direct_kind { DIRECT_WRITE, DIRECT_READ, DIRECT_CMP_SWAP, DIRECT_FETCH_ADD };

struct direct_request {
	enum direct_kind kind;
	uint32_t rkey;
	uint64_t va;
	uint32_t bytes;			/* of the whole list; 8 for atomics */
	const struct iovec *iov;	/* local memory, already checked, no empty piece; atomics: none */
	unsigned iovs;
	uint64_t compare, operand;	/* atomics: operand is what is swapped in, or added */
	uint64_t original;		/* result of atomics */
	bool is_mapped;			/* result: in memory that both processes map */
};

static inline bool direct_is_atomic(const struct direct_request *r)
{
	return r->kind == DIRECT_CMP_SWAP || r->kind == DIRECT_FETCH_ADD;
}

struct direct_ops {
	/* Others may use the region or bound window; and: none uses it any more, nor will. mr->shown says which. */
	void (*show_mr)(void *host, struct mr *mr);
	void (*hide_mr)(void *host, struct mr *mr);
	/* The same for the peer of a connected QP; qp->shown. */
	void (*show_qp)(void *host, struct qp *qp);
	void (*hide_qp)(void *host, struct qp *qp);
	/* Executes the request now, wholly. False: use packets, whatever the reason; memory that the request would change may
	 * be changed. The QP has nothing in flight. */
	bool (*execute)(void *host, struct qp *qp, struct direct_request *r);
	/* Would execute find the QP's peer now? */
	bool (*reaches)(void *host, struct qp *qp);
	/* Around an atomic that the packet engine executes on this process's memory. */
	void (*atomic_begin)(void *host);
	void (*atomic_end)(void *host);
};

#endif
