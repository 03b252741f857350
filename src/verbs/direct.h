/* The shortcut to memory of this host: RDMA writes, reads and atomics that their initiator executes itself. What verbs and
 * the packet engine ask of it; ca.direct is NULL where there is none (simulator, packet path forced). */
#ifndef WEFT_VERBS_DIRECT_H
#define WEFT_VERBS_DIRECT_H

#include "base/psn.h"
#include "verbs/ca.h"

struct mr;
struct qp;

/* From the third on they are atomic. */
enum direct_kind { DIRECT_WRITE, DIRECT_READ, DIRECT_CMP_SWAP, DIRECT_FETCH_ADD, DIRECT_ATOMIC_WRITE };

struct direct_request {
	enum direct_kind kind;
	uint32_t rkey;
	uint64_t va;
	uint32_t bytes;			/* of the whole list; 8 for atomics */
	const struct iovec *iov;	/* local memory, already checked, no empty piece; atomics: none */
	unsigned iovs;
	uint64_t compare, operand;	/* atomics: operand is what is swapped in, added or written */
	uint64_t original;		/* result of atomics */
	bool is_mapped;			/* result: in memory that both processes map */
};

static inline bool direct_is_atomic(const struct direct_request *r)
{
	return r->kind >= DIRECT_CMP_SWAP;
}

/* Where a whole message's bytes are. */
enum direct_payload {
	PAYLOAD_CARRIED,	/* in it */
	PAYLOAD_PULLED,		/* in the sender's memory, where the receiver gets them */
	PAYLOAD_PLACED,		/* a write's: already where they belong */
};

/* A send or write that travels whole: what its packets' headers would say, once. It takes their PSNs, so it keeps its place
 * among packets and can be sent again as packets. */
struct direct_message {
	uint8_t opcode;			/* of the wire: the ONLY packet of its kind, or the first, middle or last part */
	bool solicited;
	enum direct_payload payload;
	uint32_t dest_qpn, src_qpn;
	psn_t psn;			/* its first */
	psn_t received;			/* the last PSN that the sending QP has executed itself: an ACK */
	uint32_t trailer;		/* the immediate, host order, or the key to invalidate */
	uint32_t rkey;			/* writes */
	uint64_t va;
	uint32_t bytes;
	const struct iovec *iov;	/* the payload; of PAYLOAD_PULLED the addresses are the sender's */
	unsigned iovs;
};

enum {
	DIRECT_IOVS = 32,		/* at most, of any list here */
	/* So much of a long transfer at a time: some 100 us, in which nobody else gets the process's lock. To the whole, all
	 * sizes from 64 KB to 64 MB are the same where nobody waits for it. The last is what remains, less than LONG. */
	DIRECT_SLICE = 2 << 20,
	DIRECT_LONG = 2 * DIRECT_SLICE,
};

struct direct_ops {
	/* Others may use the region or bound window; and: none uses it any more, nor will. mr->shown says which. False: one
	 * that stands still is in the midst of it, and it is shown as before. */
	void (*show_mr)(void *host, struct mr *mr);
	bool (*hide_mr)(void *host, struct mr *mr);
	/* The same for the peer of a connected QP; qp->shown. */
	void (*show_qp)(void *host, struct qp *qp);
	void (*hide_qp)(void *host, struct qp *qp);
	/* Executes the request now, wholly. False: use packets, whatever the reason; memory that the request would change may
	 * be changed. The QP has nothing in flight. */
	bool (*execute)(void *host, struct qp *qp, struct direct_request *r);
	/* Would execute find the QP's peer now? */
	bool (*reaches)(void *host, struct qp *qp);
	/* Can a whole message go to the QP's peer? Fills qp->lane. */
	bool (*connect)(void *host, struct qp *qp);
	/* Sends it over qp->lane. False: not this one, use packets. The order among messages and packets is kept. */
	bool (*send)(void *host, struct qp *qp, const struct direct_message *m);
	/* The same for a plain message: RC's SEND ONLY, neither solicited nor empty, carried, in one piece. */
	bool (*send_plain)(void *host, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes);
	/* Fetches the bytes from `offset` on of a PAYLOAD_PULLED message that came over qp->lane, as many as the list holds. */
	bool (*pull)(void *host, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to,
		     unsigned tos);
	/* Tells the peer that qp->received has changed; and what the peer's is now. False: the lane is gone. */
	void (*publish)(void *host, struct qp *qp);
	bool (*received)(void *host, struct qp *qp, psn_t *psn);
	/* Around an atomic that the packet engine executes on this process's memory. */
	void (*atomic_begin)(void *host);
	void (*atomic_end)(void *host);
};

#endif
