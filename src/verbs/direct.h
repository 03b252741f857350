/* Direct paths: RDMA writes, reads and atomics on this host's memory that their initiator executes, and messages without packets.
 * What verbs and the packet engine ask of them; ca.direct is NULL where there are none (simulator, packet path forced). */
#ifndef WEFT_VERBS_DIRECT_H
#define WEFT_VERBS_DIRECT_H

#include "base/psn.h"
#include "verbs/ca.h"

struct mr;
struct qp;

struct direct_request {
	enum opcode_op op;		/* that remote_rights knows */
	uint32_t rkey;
	uint64_t va;
	uint32_t bytes;			/* of the whole list; 8 for atomics */
	const struct iovec *iov;	/* local memory, already checked, no empty piece; atomics: none */
	unsigned iovs;
	uint64_t compare, operand;	/* atomics: operand is what is swapped in, added or written */
	uint64_t original;		/* result of atomics */
	bool is_mapped;			/* result: in memory that both processes map */
	bool by_system_call;		/* that memory too: the processor's copy does not survive that ours is unmapped */
};

static inline bool direct_is_atomic(const struct direct_request *r)
{
	return r->op == OP_CMP_SWAP || r->op == OP_FETCH_ADD || r->op == OP_ATOMIC_WRITE;
}

/* How direct messages reach the QP's peer: filled by direct_ops.connect, all borrowed. */
struct direct_path {
	void *channel;		/* NULL: none known */
	const void *entry;	/* the peer's QP as shown, current while its first word is `sequence`; NULL: unknown */
	uint64_t sequence;
	psn_t limit;		/* by the peer's last promise: of the PSNs before this one each finds a receive ... */
	uint32_t promised;	/* ... of so many bytes; 0: there is none */
};

/* What a message says of the receives that wait at its sender: so many of them, one after the other and each of 2^size bytes at
 * least, can refuse nothing that fits. A send that they cover is as good as executed when it is in the ring: ib/direct_send.c. */
struct direct_promise {
	uint8_t receives;	/* 0: nothing is promised */
	uint8_t size;
};

enum { PROMISE_RECEIVES = 255, PROMISE_SIZE = 31 };	/* at most: what a record has room for */

/* Is the peer as it was when it was found? Otherwise direct_ops.connect looks for it. */
static inline bool direct_path_is_current(const struct direct_path *p)
{
	return p->entry && atomic_load_explicit((const _Atomic uint64_t *)p->entry, memory_order_acquire) == p->sequence;
}

/* Where a direct message's bytes are. */
enum direct_payload {
	PAYLOAD_EAGER,		/* in the message */
	PAYLOAD_RENDEZVOUS,	/* in the sender's memory, from which the receiver pulls them */
	PAYLOAD_PLACED,		/* a write's: already at the target */
};

/* Of a datagram: what its packet would say beside, which has LIDs and no GRH. */
struct direct_datagram {
	origin_t origin;		/* received: of the channel that it came over */
	uint32_t qkey;
	uint16_t slid, dlid, pkey;
	uint8_t sl;
	uint8_t network;		/* as in struct ca_device, of the sender's device */
};

/* A direct message: a send or a write, or a part of 2 MB of a long one, with the fields of its packets' headers. It takes the
 * packets' PSNs, so it keeps its place among packets and can be sent again as packets. */
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
	const struct iovec *iov;	/* the payload; of PAYLOAD_RENDEZVOUS the addresses are the sender's */
	unsigned iovs;
	struct direct_datagram datagram;
};

enum {
	DIRECT_IOVS = 32,		/* at most, of any list here */
	/* So much of a long transfer at a time: some 100 us, in which nobody else gets the process's lock. To the whole, all
	 * sizes from 64 KB to 64 MB are the same where nobody waits for it. The last is what remains, less than LONG. */
	DIRECT_SLICE = 2 << 20,
	DIRECT_LONG = 2 * DIRECT_SLICE,
};

/* What became of a write: packets are to be used, it was executed, and that in memory that both processes map. */
enum direct_write { WRITE_REFUSED, WRITE_DONE, WRITE_MAPPED };

struct direct_ops {
	/* publish_mr publishes a region or bound window to the peers of this host. unpublish_mr, where mr->direct is not NULL,
	 * takes it back and waits until no peer uses it. False: a stopped peer uses it still, and it stays published. */
	void (*publish_mr)(void *arg, struct mr *mr);
	bool (*unpublish_mr)(void *arg, struct mr *mr);
	/* The same for the peer of a connected QP; qp->published. */
	void (*publish_qp)(void *arg, struct qp *qp);
	void (*unpublish_qp)(void *arg, struct qp *qp);
	/* Takes it back and publishes it as it is now. *give_up: until when stopped peers are waited for at most. WTIME_NEVER at
	 * first, it is set when there is one, so that many QPs wait for it once. */
	void (*republish_qp)(void *arg, struct qp *qp, wtime *give_up);
	/* Executes the request now, wholly. False: use packets, whatever the reason; memory that the request would change may
	 * be changed. The QP has nothing in flight. */
	bool (*execute)(void *arg, struct qp *qp, struct direct_request *r);
	/* The same for a write of one piece, bytes > 0. */
	enum direct_write (*write)(void *arg, struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes);
	/* Would execute find the QP's peer now? */
	bool (*reaches)(void *arg, struct qp *qp);
	/* Can a direct message go to the QP's peer? Fills qp->direct_path. */
	bool (*connect)(void *arg, struct qp *qp);
	/* Sends it over qp->direct_path. False: not this one, use packets. The order among messages and packets is kept. */
	bool (*send)(void *arg, struct qp *qp, const struct direct_message *m);
	/* The same for a short message: RC's SEND ONLY, not empty, eager, of one segment. */
	bool (*send_short)(void *arg, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited);
	/* Sends a datagram, eager, to the process of this host to which the route leads. False: use a packet. */
	bool (*send_datagram)(void *arg, const struct route *r, const struct direct_message *m);
	/* After all that was sent to it until now: is the QP's peer alive, and as it was when it was found? Then it keeps its
	 * promises. */
	bool (*stands)(void *arg, struct qp *qp);
	/* The QP, which its peer no longer finds, is about to break a promise. Executes what the peer had sent before that: short
	 * messages which nothing stands before. They stay in the ring, where they are repeats. */
	void (*keep_promise)(void *arg, struct qp *qp);
	/* Pulls the bytes from `offset` on of a rendezvous message that came over qp->direct_path, as many as the list holds. */
	bool (*pull)(void *arg, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to,
		     unsigned tos);
	/* Tells the peer the last PSN that the QP has executed, which it reads instead of ACKs; and what the peer's is now.
	 * False: the direct path is gone. */
	void (*publish)(void *arg, struct qp *qp, psn_t received);
	bool (*received)(void *arg, struct qp *qp, psn_t *psn);
	/* Around an atomic that the packet engine executes on this process's memory. */
	void (*atomic_begin)(void *arg);
	void (*atomic_end)(void *arg);
};

#endif
