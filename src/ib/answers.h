/* Responses that come before others which are missing, at a requester whose peer repeats selectively (loss.h). They wait, unread,
 * in the adapter's frames (reorder.h) and are taken when their turn comes, so data, completions and errors have the standard's
 * order. Only what is missing is asked for again: of a READ the part that is missing, as a READ request for that part (IBA
 * 9.7.5.1.5), of anything else the whole request. A response is missing when one behind it, or an ACK, has come and the
 * reordering window of loss.h has passed, by several paths one behind it of the same path; one that was asked for again, when
 * rtt.h's wait has, doubled each time. None of this uses up a retry: while nothing comes the ACK timer runs on, and what is held
 * gives no retries back.
 *
 * A long READ is asked for in pieces. Each is a READ request of its own with its own PSNs, which no responder can tell from other
 * READs, and takes one of max_rd_atomic. So no more responses are under way than the requester can hold, and the responder's link
 * is not filled with a whole READ before the first question. A piece always begins and ends at the same packets of its READ: what
 * is repeated is what was asked for. */
#ifndef WEFT_IB_ANSWERS_H
#define WEFT_IB_ANSWERS_H

#include "ib/ib.h"
#include "ib/reorder.h"
#include "verbs/qp.h"

/* Our choice: so many responses are asked for by one request, and so many PSNs may be in flight then: what fills a window besides
 * is held by the peer as well if a request is lost. */
enum { ANSWERS_LEAST = 16, ANSWERS_MOST = 32, ANSWERS_REACH = REORDER_SPAN - IB_WINDOW };

/* Made with the first response that is missing. PSNs from `dated` on have no entry in `missing` yet; one entry is used by PSNs
 * that differ by a multiple of REORDER_SPAN, of which one at most is in reach. */
struct answers {
	struct reorder early;
	psn_t dated;
	wtime deadline;			/* when the next missing response may be asked for; WTIME_NEVER: none is */
	bool is_due;			/* that time has come */
	wtime answered;			/* what was asked for before this time and has not come is lost */
	struct answers_missing {
		wtime due;		/* it may be asked for again */
		wtime since;		/* others have overtaken it; 0: it came, or was asked for twice */
		wtime asked;		/* it was asked for again last; 0: not yet */
		bool passed;		/* by its path, of several, a later one has come: `since` is of those of its path */
		uint8_t times;		/* so often its wait was doubled */
	} missing[REORDER_SPAN];
};

/* Some responses in a row that may be asked for now. */
struct answers_gap {
	uint32_t index;			/* the flight's entry that awaits them */
	uint32_t skipped, count;	/* so many of its PSNs stand before them; so many they are */
};

/* Does the QP ask for single responses? Not where no retries are allowed, or where MSNs tell what is complete: responses in the
 * middle of a READ have none. */
bool answers_are_selective(const struct qp *qp);

/* A READ has `rest` responses to be asked for yet: so many by the next request. 0: it has to wait for others. All, of a peer that
 * does not repeat selectively; before the peer says anything nobody knows, and to a stranger pieces are READs like others. */
uint32_t answers_piece(const struct qp *qp, uint32_t rest);

/* The peer has sent the responses to all PSNs before this one. False: there is no memory to note it. */
bool answers_sent(struct qp *qp, wtime now, psn_t before);
/* Keeps a response whose turn has not come; after answers_sent. False: it was kept before, or there is no room. */
bool answers_keep(struct qp *qp, wtime now, const struct packet *p);
/* This response is taken, in its turn; before the flight knows. */
void answers_came(struct qp *qp, wtime now, psn_t psn);
/* The response whose turn it is, if it was kept. It is the caller's until reorder_release. */
struct packet *answers_next(struct qp *qp);
bool answers_keep_any(const struct qp *qp);

/* Is there something to ask for, now or later? */
bool answers_are_missing(const struct qp *qp);
/* The deadline has come. */
void answers_expire(struct qp *qp, wtime now);
/* Some are kept, and nothing has come for the whole ACK timeout: the first row that is missing may be asked for again now. */
void answers_doubt(struct qp *qp, wtime now);
/* What may be asked for now, the oldest first: it counts as asked. False: nothing more; the deadline is that of the next. */
bool answers_gap(struct qp *qp, wtime now, struct answers_gap *gap);
/* So many responses of the oldest entry are missing in a row, `most` of them at most: what a repeated request asks for. */
uint32_t answers_missing(const struct qp *qp, uint32_t index, uint32_t most);

/* The flight ends: frames are given back. */
void answers_forget(struct qp *qp);
void answers_fini(struct qp *qp);
void answers_check(const struct qp *qp);

#endif
