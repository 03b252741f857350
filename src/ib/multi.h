/* An RC QP of the profile `multipath`: the seed's protocol for several paths (multipath/) in place of flight and responder. It
 * sends and takes packets alone, each the payload of one WEFT_MULTIPATH. A QP of another profile drops these; it drops others.
 *
 * What verbs promise decides what is ordered. A SEND, an atomic, an atomic WRITE and the last packet of a WRITE with immediate
 * data are: by IBA 9.5 and 10.8 these are what tells a consumer that earlier WRITEs are in its memory. WRITEs and READs are
 * unordered, but not past an earlier WRITE to the same memory. Requests complete in the order of posting.
 *
 * Both ends derive a connection's name and first number from the PSN and the QP numbers that verbs exchange. A path has a number:
 * in the BTH's reserved byte, and in the address, as source port (RoCE) or as the pair of LIDs of that number (lid_paths.h); what
 * answers goes back by the pair that the path's last request came by. The BTH's PSN counts the packets of a path; one that others
 * have overtaken is dropped, so that each path keeps order over any network (MPT-18), also when its pair is another one. Each
 * BARRIER and its answer say which PSN their sender awaits, and the other end counts on from there: a number that somebody made
 * up holds up a path until its next BARRIER, and no longer. */
#ifndef WEFT_IB_MULTI_H
#define WEFT_IB_MULTI_H

#include "ib/engine.h"
#include "ib/path.h"
#include "ib/verdict.h"
#include "multipath/requester.h"
#include "multipath/responder.h"
#include "wire/field.h"

enum {
	MULTI_OVERHEAD = 64,		/* of the path MTU: MP_HEADER and MP_CRC, and what makes the rest a multiple of 64 */
	MULTI_REPLAY = 64,		/* R, and the most that W is: both ends have the same */
	MULTI_REPLIES = 128,		/* our choice: two default windows. What comes while so many wait counts as lost */
};

struct multi_reply {
	struct mp_packet packet;	/* its payload in multi.answers */
	uint8_t path;
};

struct multi {
	bool sends, takes;		/* the requester is open; the responder is */
	struct mp_requester requester;
	struct mp_responder responder;
	psn_t sent[MP_PATHS], heard[MP_PATHS];	/* packets of a path: the next; the last one */
	uint8_t has_heard;		/* one bit for each path */
	struct lid_pair back[MP_PATHS];	/* of what answers by a path, where ports have LIDs; 0: no request came by it */
	bool is_established;
	uint64_t packets[MP_PATHS], repeats[MP_PATHS];	/* that left; requests, not for the first time */
	uint32_t unanswered;		/* READs and atomics that are not complete */
	enum flight_link link;		/* has the peer taken what was sent? As timer.c asks */
	uint64_t link_mark;
	wtime paused;			/* until then no timer of the requester counts, as the peer has not */
	enum ibv_wc_status local;	/* MP_FAILED_HERE: why */
	struct multi_reply *reply;	/* owned; a ring */
	uint8_t *answers;		/* owned; a place of reply_bytes for each */
	uint32_t reply_bytes;
	unsigned first_reply, replies;
	/* the target */
	struct recv_ref receive;
	bool has_receive;
	uint32_t placed;		/* bytes of the SEND under way */
	enum verdict verdict;		/* of the request under way */
	uint8_t bounce[PACKET_MAX_ETHERNET];
};

static inline struct multi *multi_of(const struct qp *qp)
{
	return engine_of(qp)->multi;
}

/* Makes qp->engine->multi when the QP is of the profile. -ENOMEM. */
int multi_init(struct qp *qp);
void multi_fini(struct qp *qp);

/* Of QPs that have one: */
void multi_open_requester(struct qp *qp);	/* to RTS */
void multi_take_limits(struct qp *qp);		/* the attributes timeout, retry_cnt or rnr_retry were given */
void multi_open_responder(struct qp *qp);	/* to RTR */
void multi_close(struct qp *qp, enum ibv_qp_state to);	/* to RESET or ERR; in ERR replies that wait still leave */
enum path multi_path_of(const struct qp *qp, const struct packet *p);
/* Does the packet answer a request, as its payload says, which is whole or begins at least? */
bool multi_is_answer(const struct packet *p);
void multi_input(struct qp *qp, wtime now, const struct packet *p);
bool multi_output(struct qp *qp, wtime now, struct packet_out *out);
wtime multi_deadline(const struct qp *qp);
void multi_expire(struct qp *qp, wtime now);
void multi_describe(const struct qp *qp, struct qp_context *c);
void multi_check(const struct qp *qp);

/* ---- multi_send.c ---- */

uint16_t multi_mtu(const struct qp *qp);
/* Posts the next WQE, when all before it have left and it may begin. */
void multi_feed(struct qp *qp, wtime now);
/* The payload of a REQ from `out` on. False: it cannot be read, and the requester has ended. */
bool multi_gather(struct qp *qp, struct mp_packet *p, uint8_t *out);
enum mp_status multi_place(void *qp, const struct mp_request *request, uint32_t offset, const void *data, uint32_t bytes);
/* Completes what is done, and fails the QP when the requester has ended. */
void multi_complete(struct qp *qp, wtime now);

/* ---- multi_target.c ---- */

enum mp_status multi_execute(void *qp, const struct mp_packet *request, uint8_t *answer);
/* What follows from the verdict of the last one, for which nothing was executed. */
void multi_refused(struct qp *qp, wtime now, struct mp_packet *reply);

#endif
