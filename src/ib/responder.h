/* The responder: requests are checked in order, executed in PSN order, each once, and answered. IBA 9.7.4, 9.7.5. */
#ifndef WEFT_IB_RESPONDER_H
#define WEFT_IB_RESPONDER_H

#include "ib/reorder.h"
#include "verbs/qp.h"
#include "wire/opcode.h"

enum responder_phase {
	RESPONDER_CLOSED,
	RESPONDER_WAITING,	/* open; no packet has come yet */
	RESPONDER_READY,
	RESPONDER_GAP,		/* a sequence NAK was sent: what is not the expected packet is discarded */
	RESPONDER_HOLDING,	/* packets beyond the expected one wait for it */
	RESPONDER_RNR,		/* an RNR NAK was sent: the same */
	RESPONDER_STOPPING,	/* the QP is in error: what is due is still said */
};

enum responder_message {
	MESSAGE_NONE,		/* the next packet is a first or only one */
	MESSAGE_SEND,
	MESSAGE_WRITE,
	MESSAGE_LOST,		/* UC: the rest of it is dropped */
};

/* A read or atomic: executed or being answered, and kept for replay until `depth` newer ones came (IBA 9.7.5.1.5). */
struct resource {
	psn_t psn;
	uint32_t span;		/* PSNs it takes: its responses */
	uint32_t asked, next, end;	/* responses asked for: asked..end-1, counted from psn; sent: those before next */
	uint32_t msn;
	enum opcode_op op;
	uint32_t rkey, length;
	uint64_t va;
	uint64_t original;	/* an atomic's result */
	uint32_t srqn;		/* XRC */
	bool answered;		/* in full once; later responses are replays */
	uint8_t path;		/* it came by: reflect.h */
};

/* Responses to a part of a READ that its requester asks for again: answers.h. */
struct read_part {
	psn_t psn;		/* of the next */
	uint32_t count;
};

enum { READ_PARTS = 32 };	/* our choice: more are asked for again later */

enum reply_due { DUE_NOTHING, DUE_ACK, DUE_NAK, DUE_HEARD };

struct responder {
	enum responder_phase phase;
	psn_t psn;			/* expected */
	uint32_t msn;			/* as AETHs show it */
	uint32_t newest;		/* of resources: those that no send or write was executed after */
	uint32_t start_msn;		/* seed profile: of the first message */
	uint32_t unacked;		/* packets accepted since the last ACK */
	uint32_t unacked_receives;	/* receives completed since then */
	enum reply_due due;
	uint8_t syndrome;		/* DUE_NAK */
	bool has_receive;		/* `receive` was taken */
	bool selective;			/* the peer's last packet said that it repeats selectively */
	psn_t nak_psn;			/* DUE_NAK */
	enum responder_message message;
	uint32_t offset;		/* bytes of the message placed */
	uint32_t resources;		/* how many were recorded; kept below 2 * depth, the ring's place is its remainder */
	uint64_t va;			/* MESSAGE_WRITE */
	uint32_t rkey, length;
	struct recv_ref receive;
	struct reorder *reorder;	/* owned, made when it opens first; NULL: nothing is held */
	struct resource *resource;	/* owned; ring of depth */
	uint32_t depth;
	uint32_t owing;			/* resources with responses still to be sent, and parts */
	uint32_t parts, first_part;
	struct read_part part[READ_PARTS];	/* a ring */
};

/* The last PSN executed: an ACK, where it goes with a direct message. */
static inline psn_t responder_received(const struct responder *r)
{
	return psn_add(r->psn, -1);
}

void responder_fini(struct qp *qp);
void responder_open(struct qp *qp);	/* to RTR */
/* The attribute max_dest_rd_atomic was given: the ring of resources is made, the engine's one allocation after creation.
 * Without memory there is none, and reads are refused. */
void responder_resize(struct qp *qp);
/* On RESET and ERR. */
void responder_close(struct qp *qp, enum ibv_qp_state to);

/* A request packet for this QP; path and state were checked. */
void responder_input(struct qp *qp, wtime now, const struct packet *p);
/* The same for a direct message. */
void responder_direct(struct qp *qp, wtime now, const struct direct_message *m);
/* Executes a short message that was judged but for its receive. False: that is not a plain one; responder_direct tells why. */
bool responder_short(struct qp *qp, const void *data, uint32_t bytes, bool solicited);
/* The next response or acknowledgement that is due. */
bool responder_output(struct qp *qp, wtime now, struct packet_out *out);

/* For responder.c and ack.c. */
struct resource *responder_resource(const struct responder *r, uint32_t index);
/* The PD whose memory a request may use: of the SRQ it names for XRC (IBA A14.4.2). False: no such SRQ. */
bool responder_pd(struct qp *qp, uint32_t srqn, const struct pd **pd);
/* The message under way is given up, its receive given back. */
void responder_drop(struct qp *qp, enum responder_message now);
/* The QP stops: `syndrome` for `psn` are its last words. */
void responder_stop(struct qp *qp, wtime now, psn_t psn, uint8_t syndrome, int event);
void responder_check(const struct qp *qp);

#endif
