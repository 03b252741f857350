/* The send window: what a send queue has on the wire. The requester appends, the completer removes. One entry per packet that is
 * not acknowledged, oldest first, with the PSNs it takes. Lost packets stay: going back moves `resend`, so an acknowledgement
 * that arrives after all still counts. Towards a peer that repeats selectively only those leave again that loss.h says are lost,
 * and none before `resend` is. IBA 9.7.5, 9.7.8. */
#ifndef WEFT_IB_FLIGHT_H
#define WEFT_IB_FLIGHT_H

#include "base/psn.h"
#include "base/time.h"
#include "ib/loss.h"
#include "ib/rtt.h"

#include <stdbool.h>
#include <stdint.h>

enum { FLIGHT_SPAN_MOST = (1 << 23) - 1 };	/* PSNs in flight, fewer than half of all: MSN-46, IBA 9.7.1 */

enum flight_phase {
	FLIGHT_CLOSED,	/* nothing leaves: not RTS, or in error */
	FLIGHT_SENDING_MSN,	/* open, but first the peer must hear our starting MSN: msn_exchange.h */
	FLIGHT_AWAITING_MSN,	/* waiting for its answer */
	FLIGHT_OPEN,
	FLIGHT_RNR,	/* the peer had no receive: waiting out its timer (IBA 9.7.5.2.8) */
};

/* The oldest packet, sent once more to hear how far the responder is. */
enum flight_probe {
	PROBE_NONE,
	PROBE_DUE,
	PROBE_SENT,	/* nothing was answered since */
	PROBE_ANSWERED,	/* but not yet for all that left before the probe */
};

/* What the peer owes for a packet. */
enum flight_answer {
	ANSWER_ACK,
	ANSWER_READ,	/* read responses, one for each PSN of the span */
	ANSWER_ATOMIC,	/* the original value */
	ANSWER_EMPTY,	/* a read response without payload: atomic write */
};

/* Where what is in flight is, as far as its link says: ca_ops.undelivered. */
enum flight_link {
	FLIGHT_LINK_UNKNOWN,	/* nobody asked since something was answered or sent again */
	FLIGHT_UNDELIVERED,	/* the peer's process had not taken all of it */
	FLIGHT_LINK_LEFT,	/* all of it was taken, or the link does not know */
};

struct flight_entry {
	psn_t psn;		/* the first PSN still owed */
	uint32_t span;		/* PSNs still owed: 1, or as many as responses are to come */
	uint32_t wqe;		/* cumulative index in the send queue */
	uint32_t packet;	/* number of its first packet within the message */
	uint8_t answer;		/* enum flight_answer */
	bool is_last;		/* ends its message */
	bool is_direct;		/* went as one direct message: it is sent again as packets, made afresh */
	bool asked_again;	/* re-requested after a gap in the responses; nothing came since */
};

/* Counts are cumulative modulo 2^32: oldest <= resend <= newest. What comes fresh is WQE sq.engine.started, packet `packet`. */
struct flight {
	enum flight_phase phase;
	uint32_t window;		/* packets that may be under way, a power of two; 0: not reliable, no book is kept */
	struct flight_entry *entry;	/* owned */
	uint32_t oldest, resend, newest;
	uint32_t limit;			/* packets that may be under way, where that is less than the window; 0: not */
	uint32_t packet;
	uint32_t copied;		/* bytes of the fresh WQE that direct_rma or direct_send has dealt with, in slices */
	psn_t psn;			/* of the next fresh packet */
	psn_t fresh;			/* PSNs before it were given once already, so the same requests must have them again */
	uint32_t unanswered;		/* entries that await more than an ACK: the initiator depth in use */
	uint32_t unasked;		/* packets since the last AckReq */
	uint32_t msn;			/* of the last message struck out, counted as the profile counts */
	uint32_t start_msn;		/* seed profile: of the first message */
	uint32_t wqe_completed;	/* complete=wqe: WQEs before it are complete, as their descriptors say ... */
	psn_t wqe_completed_psn;	/* ... and the PSN at which it begins */
	uint8_t retries, rnr_retries;	/* left ... */
	uint8_t retries_granted;	/* ... of so many */
	bool selective;			/* the peer is known to hold what comes early */
	bool heard;			/* it has answered: one that is not selective is a stranger */
	bool was_absent;		/* of timer.c: nobody looked as the ACK timer ran out */
	bool has_sent;			/* window 0: since RTR something left, of which nobody says whether it arrived */
	uint8_t probe;			/* enum flight_probe */
	uint8_t path_count, heard_by;	/* of paths: how many, and by which the last answer came */
	uint16_t entries;		/* of entry, a power of two: the window, or more: loss_widen */
	uint32_t probed;		/* entries before this one left before the last probe */
	enum flight_link link;		/* of timer.c, as those below */
	struct rtt rtt;
	/* timer.c owns these */
	wtime deadline;			/* the next of all timers */
	wtime ack_deadline;
	wtime quiet_since;		/* the last packet left, or something new was answered */
	uint64_t link_mark;		/* FLIGHT_UNDELIVERED: up to where, as ca_ops.undelivered counts */
	struct loss *loss;		/* owned, made when the send queue opens first; NULL: go-back only */
	struct answers *answers;	/* owned, of answers.c; NULL: no response was missing yet */
	struct loss_path *paths;	/* borrowed of spread.c; NULL: there is one */
};

int flight_init(struct flight *f, uint32_t window);	/* -ENOMEM */
void flight_fini(struct flight *f);
void flight_open(struct flight *f, psn_t psn, uint32_t msn);
void flight_close(struct flight *f);

static inline bool flight_empty(const struct flight *f)
{
	return f->oldest == f->newest;
}

static inline struct flight_entry *flight_at(const struct flight *f, uint32_t index)
{
	return &f->entry[index & (f->entries - 1u)];
}

/* The first PSN that is not settled. */
static inline psn_t flight_first_psn(const struct flight *f)
{
	return flight_empty(f) ? f->psn : flight_at(f, f->oldest)->psn;
}

static inline psn_t flight_last_psn(const struct flight_entry *e)
{
	return psn_add(e->psn, (int64_t)e->span - 1);
}

/* Were the PSNs that come next taken back? What has them now goes as packets. */
static inline bool flight_repeats(const struct flight *f)
{
	return f->window && f->psn != f->fresh;
}

/* So many packets may be under way. What the peer holds is not, where it may hold more (loss_widen): a packet that is lost stops
 * nothing that follows, until it is repaired. Each of several paths may have a window of them. */
static inline uint32_t flight_most(const struct flight *f)
{
	uint32_t all = f->paths ? f->window * f->path_count : f->window;

	return f->limit ? f->limit : all < f->entries ? all : f->entries;
}

static inline uint32_t flight_under_way(const struct flight *f)
{
	return f->newest - f->oldest - (f->selective ? f->loss->held : 0);
}

/* Is there room for a fresh packet of `span` PSNs? */
static inline bool flight_has_room(const struct flight *f, uint32_t span)
{
	if (flight_empty(f))
		return true;
	return (f->newest - f->oldest < flight_most(f) || loss_has_room(f, span)) &&
	       (uint32_t)psn_diff(f->psn, flight_at(f, f->oldest)->psn) + span <= FLIGHT_SPAN_MOST;
}

/* The fresh packet that flight_at(f, f->newest) describes was sent; takes f->psn on. Whoever can fills that in place: a copy of
 * what was just written waits for all stores before it, and the last one may be into a line that the peer has. */
static inline void flight_recorded(struct flight *f)
{
	const struct flight_entry *e = flight_at(f, f->newest);

	if (flight_empty(f) && e->packet == 0) {
		f->wqe_completed = e->wqe;
		f->wqe_completed_psn = e->psn;
	}
	if (f->resend == f->newest)
		f->resend++;
	f->newest++;
	f->unanswered += e->answer != ANSWER_ACK;
	f->psn = psn_add(f->psn, e->span);
	if (psn_cmp(f->psn, f->fresh) > 0)
		f->fresh = f->psn;
}

/* The same of one PSN that an ACK settles, when nothing is to be sent again and no PSN was taken back. */
static inline void flight_recorded_short(struct flight *f)
{
	const struct flight_entry *e = flight_at(f, f->newest);

	if (flight_empty(f)) {
		f->wqe_completed = e->wqe;
		f->wqe_completed_psn = e->psn;
	}
	f->resend = ++f->newest;
	f->psn = f->fresh = psn_add(f->psn, 1);
}

static inline void flight_record(struct flight *f, const struct flight_entry *e)
{
	*flight_at(f, f->newest) = *e;
	flight_recorded(f);
}

/* Window 0: these packets left, and nothing more will be heard of them. */
static inline void flight_left(struct flight *f, uint32_t packets)
{
	f->psn = psn_add(f->psn, packets);
	f->has_sent = true;
}

/* Everything up to and including PSN `through` arrived: strikes out the entries that an ACK alone settles. With
 * by_message the ends of messages go only as far as `msn` allows (seed profile), whatever their PSN. Returns how many
 * went; stops at the first entry that is owed a response. */
unsigned flight_ack(struct flight *f, psn_t through, bool by_message, uint32_t msn);
/* The same when all did, nothing is to be sent again, and no entry is owed a response. */
static inline void flight_ack_all(struct flight *f)
{
	for (; f->oldest != f->newest; f->oldest++)
		f->msn += flight_at(f, f->oldest)->is_last;
	f->msn = psn_add(f->msn, 0);
}
/* The oldest entry got one of its responses. */
void flight_answered(struct flight *f);
/* Something was answered for the first time. */
static inline void flight_probe_answered(struct flight *f)
{
	bool some_wait = (int32_t)(f->probed - f->oldest) > 0;

	if (f->probe != PROBE_NONE)
		f->probe = some_wait && f->probe != PROBE_DUE ? PROBE_ANSWERED : PROBE_NONE;
}
/* Everything from this PSN on is to be sent again, but for what the peer holds. False when that was already so. */
bool flight_rewind(struct flight *f, psn_t psn);
/* Everything is to be sent again, whatever the peer said that it held. */
void flight_rewind_all(struct flight *f);

/* Is something to be sent again? Then `resend` is there. */
static inline bool flight_has_lost(struct flight *f)
{
	return f->resend != f->newest && (!f->selective || loss_next(f));
}

/* The entry at `resend` and all after it were never sent: fresh packets begin there, in the WQE whose index is returned. */
uint32_t flight_take_back(struct flight *f);

void flight_check(const struct flight *f);

#endif
