/* Requests that came before those they follow. The responder keeps them, unread, until their turn comes, and then takes them as
 * if they came now: so messages, completions, events and errors have the standard's order, atomics and reads are executed once,
 * and a receive is taken when its message begins. Kept is what a peer that repeats selectively sends (ib/loss.h), up to
 * REORDER_SPAN PSNs ahead. The frames are the adapter's, a fixed number for all QPs, in memory that is touched when it is used.
 * No QP takes more than it leaves for others (dynamic thresholds, Choudhury and Hahne 1998): so there is always one for a QP that
 * holds none, and those that hold many share what there is. A packet that gets none is dropped, as if lost. */
#ifndef WEFT_IB_REORDER_H
#define WEFT_IB_REORDER_H

#include "base/psn.h"
#include "wire/packet.h"

#include <stdbool.h>
#include <stdint.h>

struct ca;

/* Our choice: frames for some QPs whose losses are not repaired yet after four windows, or many that lost one (4 MB). */
enum { REORDER_SPAN = HELD_BITS, REORDER_FRAMES = 1024 };

/* Of one responder. */
struct reorder {
	uint64_t held[HELD_WORDS];	/* by PSN modulo REORDER_SPAN */
	uint16_t count;			/* so many are */
	uint16_t frame[REORDER_SPAN];	/* of the adapter's, where held */
	psn_t passed;			/* where count: nothing before it is held */
	psn_t repeated;			/* the last packet that came twice */
	uint8_t repeats;		/* so many did, modulo 256 */
	bool must_say;			/* its sender was not told yet */
};

/* Disputed: another packet of this PSN was held. Somebody forged one of them and nobody knows which, so neither is held. */
enum reorder_result { REORDER_HELD, REORDER_HAD, REORDER_FULL, REORDER_DISPUTED };

/* Makes what is not there, the adapter's frames too; without memory nothing is ever held, and *r may be NULL. */
void reorder_open(struct ca *ca, struct reorder **r);

/* Does an ACK have to say more than usual? */
static inline bool reorder_has_news(const struct reorder *r)
{
	return r && (r->count || r->must_say);
}

static inline bool reorder_holds(const struct reorder *r)
{
	return r && r->count;
}

/* The packet comes before `expected`. */
enum reorder_result reorder_hold(struct ca *ca, struct reorder *r, psn_t expected, const struct packet *p);
/* The packet whose turn it is, or NULL; what stands before it will not have one. It is the caller's until reorder_release. */
struct packet *reorder_next(struct ca *ca, struct reorder *r, psn_t expected);
void reorder_release(struct ca *ca, const struct packet *p);
/* So many of the adapter's frames are not taken. */
unsigned reorder_spare(const struct ca *ca);
void reorder_forget(struct ca *ca, struct reorder *r);
/* Bit i: expected + i is held. */
void reorder_bits(const struct reorder *r, psn_t expected, uint64_t bits[HELD_WORDS]);
void reorder_check(const struct ca *ca, const struct reorder *r, psn_t expected);

#endif
