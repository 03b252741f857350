/* What a peer that repeats selectively is sent again: single packets, each when one that left later arrived and the reordering
 * window has passed since (RFC 8985, sections 5 and 6). The window follows what the path does: a quarter of the least round trip,
 * or as much later as a packet came that others had overtaken; the peer tells what came twice. What the peer holds is not under
 * way: as much leaves instead, LOSS_SPAN ahead at most, so a loss stops nothing. Beside the flight's book, entry by entry;
 * flight.h has the rest.
 *
 * Both ends say in each packet that they know this, in bits that the standard reserves (BTH_SELECTIVE in wire/header.h): a
 * stranger sends 0 and ignores what it receives (IBA 9.2). So nothing is asked and no packet is spent, a restarted peer cannot
 * be remembered wrongly, and selective acknowledgements go to those alone who have said so. */
#ifndef WEFT_IB_LOSS_H
#define WEFT_IB_LOSS_H

#include "base/psn.h"
#include "base/time.h"
#include "wire/packet.h"

#include <stdbool.h>
#include <stdint.h>

struct flight;

enum { LOSS_SPAN = HELD_BITS };	/* PSNs in flight while the peer holds some: as many as it can name */

/* After an ACK timeout nothing is known of the path: two packets leave, and two more for each that arrives (RFC 5681, 3.1). */
enum { LOSS_RESTART = 2, LOSS_PER_ARRIVAL = 2 };
#define LOSS_UNBOUND UINT32_MAX

enum loss_state {
	LOSS_SENT,
	LOSS_HELD,	/* the peer has it and waits for those before it */
	LOSS_LOST,	/* is to be sent again */
};

enum loss_left {
	LEFT_ONCE,
	LEFT_TO_ASK,	/* again, as a probe */
	LEFT_AGAIN,	/* as it was thought lost */
	LEFT_HEARD,	/* however often: that it arrived was told by a response, and is no measure any more */
};

/* One packet of the flight. */
struct loss_packet {
	wtime at;		/* it left last */
	uint32_t order;		/* the same, among all that left */
	uint16_t waited_us;	/* between its first leaving and its last */
	uint8_t state;		/* enum loss_state; LOSS_SENT for what is not in flight */
	uint8_t left : 4;	/* enum loss_left */
	uint8_t path : 4;	/* it left by last */
};

/* What is known of one path. Packets overtake each other on one path alone: what left by another says nothing of it. */
struct loss_path {
	uint32_t arrived;	/* order of the latest that is known to have arrived by it, and its round trip */
	wtime took_ns;
	wtime least_ns;		/* of all round trips; WTIME_NEVER: none was timed */
	wtime late_ns;		/* how much later than others an overtaken packet came */
	/* where there are several, of flight.paths: */
	uint32_t under_way;	/* packets that are LOSS_SENT by it */
	uint32_t heard, lost;	/* packets that arrived by it, and that were taken for lost, modulo 2^32 */
	psn_t last;		/* of those that arrived the last PSN */
	wtime heard_at;		/* one arrived last ... */
	wtime since;		/* ... or the first of those under way left */
};

/* A packet that was sent again arrived, the first or the second: if the first, it was this late. */
struct loss_doubt {
	psn_t psn;
	uint8_t path;
	wtime late_ns;
};

enum { LOSS_DOUBTS = 16 };	/* our choice: what is repeated in a few round trips */

struct loss {
	uint32_t order;			/* of the next packet that leaves */
	struct loss_path path;		/* where there is one */
	struct loss_doubt doubt[LOSS_DOUBTS];	/* the latest, in turn */
	uint32_t doubts;
	uint8_t repeats;		/* as the peer told last how many packets came twice */
	uint32_t held;			/* packets that are LOSS_HELD */
	uint32_t until;			/* entries before this one are looked at for losses */
	psn_t known;			/* the peer has executed all before this one, as a response tells: answers.h */
	uint32_t allowance;		/* so many may leave again before something arrives; LOSS_UNBOUND */
	wtime deadline;			/* when the next may be taken for lost */
	struct loss_packet packet[];	/* by the flight's entries */
};

/* From now on packets leave by several paths (flight.paths), those under way by the first. */
void loss_spread(struct flight *f, struct loss_path *path, unsigned paths);
/* A path is there, or again: what left by it before is not waited for. */
void loss_path_begin(struct flight *f, unsigned path, wtime round_trip_ns);
/* What left by this path and has not arrived is to be sent again; returns how many packets. */
unsigned loss_path_gone(struct flight *f, unsigned path);
/* By which path the entry left last. */
unsigned loss_path_of(const struct flight *f, uint32_t index);

/* Makes the book, if there is none: with the first packet, so that QPs whose messages all go directly have none. Without memory
 * the flight only goes back. */
void loss_open(struct flight *f);
void loss_fini(struct flight *f);
/* A flight begins or ends. */
void loss_reset(struct flight *f);

/* The shortest round trip of all. */
wtime loss_least(const struct flight *f);
/* The peer has said that it holds what comes early. */
void loss_select(struct flight *f);

/* The peer holds something: there may be LOSS_SPAN packets in flight from now on, those that it holds besides those under way. */
void loss_widen(struct flight *f);
/* May one of `span` PSNs leave, as the peer holds some of those before it? */
bool loss_has_room(const struct flight *f, uint32_t span);

/* The entry at `index` leaves by this path. */
void loss_sent(struct flight *f, uint32_t index, wtime now, bool fresh, unsigned path);
/* The entry at `index`, not known to have arrived before, is held by the peer. */
void loss_held(struct flight *f, uint32_t index, wtime now);
bool loss_is_held(const struct flight *f, uint32_t index);
/* So many packets came twice, modulo 256, and this one last. True: one more than before, which was sent again too soon. */
bool loss_repeated(struct flight *f, uint8_t repeats, psn_t psn);
/* Entries from `from` up to the oldest were settled; WTIME_NEVER: nobody knows when. */
void loss_settled(struct flight *f, uint32_t from, wtime now);
/* Marks what is lost by now; returns how many, and sets the deadline of the next. `longest_ns` bounds the window. */
unsigned loss_detect(struct flight *f, wtime now, wtime longest_ns);
/* Everything from the entry at `index` on that the peer does not hold is to be sent again; what it holds too if it is all. */
bool loss_rewind(struct flight *f, uint32_t index, bool all);
/* Entries from this one on were never sent. */
void loss_take_back(struct flight *f, uint32_t from);
/* Moves `resend` on to what is lost. False: nothing is, or it must not leave yet. */
bool loss_next(struct flight *f);
/* Does something that is lost wait until what left after an ACK timeout arrives? Nothing fresh leaves meanwhile. */
bool loss_restarts(const struct flight *f);
/* All before this PSN were executed by the peer. */
void loss_known(struct flight *f, psn_t before, wtime now);
/* How much later than others a packet may come before it is taken for lost. */
wtime loss_window(const struct flight *f, wtime longest_ns);
/* The same of those that come by this path, of several. */
wtime loss_path_window(const struct flight *f, unsigned path, wtime longest_ns);
/* One that was not sent again came so much later than others, by several paths than others of this one. */
void loss_late(struct flight *f, unsigned path, wtime late_ns);

void loss_check(const struct flight *f);

/* May an entry after this one be lost, or was one sent again? */
bool loss_is_open(const struct flight *f, uint32_t index);

#endif
