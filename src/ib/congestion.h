/* How fast a QP may send on a path that others share: a window of packets under way, and the pace at which they leave. Once a
 * round trip what came back is judged. Marks of switches lessen the window by their share (DCTCP, RFC 8257), a round trip beyond
 * the target in proportion (Swift: Kumar et al., SIGCOMM 2020), a notification of a stranger as a round that was marked as a
 * whole (DCQCN: Zhu et al., SIGCOMM 2015). A loss counts where a queue stands, or where there are many: by itself it is chance.
 * Windows below one packet are a pace alone, so that any number of senders can share a short queue.
 *
 * Pure arithmetic on one struct; who calls what is in pace.c. Why so: docs/decisions.md. */
#ifndef WEFT_IB_CONGESTION_H
#define WEFT_IB_CONGESTION_H

#include "base/psn.h"
#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	CONGESTION_ONE = 1024,			/* one packet, and a share of all */
	CONGESTION_LEAST = CONGESTION_ONE / 64,	/* our choice: what is left to a QP whatever it is told */
	/* our choice, half a window: no delay takes more from who sends to a stranger, whose answers are late for other
	 * reasons, too; losses and notifications do */
	CONGESTION_STRANGERS = 32 * CONGESTION_ONE,
	CONGESTION_ASKED = 8,			/* our choice: packets that ask for an answer in a round trip, and are timed */
};

/* Our choices. The target is Swift's of a rack with its scaling for many flows; what processes that sleep take to answer is of
 * the same order. */
#define CONGESTION_TARGET_NS (150 * WTIME_US)
#define CONGESTION_BURST_NS (32 * WTIME_US)	/* so much of the pace leaves at once, for UDP_SEGMENT */
#define CONGESTION_MEMORY_NS (10 * WTIME_S)	/* as BBR's: a round trip without queue is believed one to two times so long */

enum congestion_wait { CONGESTION_GOES, CONGESTION_FULL, CONGESTION_PACED };

struct congestion {
	uint32_t window;		/* packets under way, of CONGESTION_ONE */
	uint32_t most;			/* packets: with so many nothing is held back */
	uint32_t share, loss_share;	/* of packets marked and lost, smoothed, of CONGESTION_ONE */
	uint32_t random;
	bool starts;			/* the window doubles every round until the first sign of a queue */
	bool is_timed;			/* no answers tell of its packets: a round is CONGESTION_TARGET_NS */
	bool echoes;			/* the peer is no stranger: it tells of marks */
	uint8_t echo;			/* marks as the peer told last, modulo 64 */
	/* this round */
	bool is_limited;		/* something waited */
	bool notified;
	bool has_cut;			/* the window was lessened for the round before, and what left since tells of that next */
	bool was_delayed, stood;	/* in the round before a queue was longer than the target allows, or stood */
	uint32_t arrived, marked, lost;	/* packets */
	wtime round_since;
	wtime took_ns, all_took_ns;	/* sum of the round trips that were timed, long ones in part and in full ... */
	uint32_t trips;			/* ... which were so many */
	psn_t round_end;		/* it ends with the arrival of this packet */
	wtime before_ns, before_at;	/* the mean of the round before, and when it ended; 0: none */
	wtime good_since;		/* no sign of a queue since then */
	wtime relief_ns;		/* the round trip when the window began to be lessened for it; WTIME_NEVER: it does not */
	uint32_t relief_window;		/* and the window */
	/* the path */
	wtime smooth_ns;		/* round trip; 0: not known */
	wtime base_ns, base_before_ns, base_since;	/* the shortest since then, and before */
	/* the pace */
	wtime next_at;			/* when the next packet is due */
	wtime deadline;			/* somebody waits for that; WTIME_NEVER: nobody */
	/* packets that are timed, the oldest first */
	uint8_t asked;
	struct { psn_t psn; wtime at; } timed[CONGESTION_ASKED];
	/* since the first packet, for people */
	uint64_t marks, losses, notifications;
};

/* A QP begins to send packets of so many bytes, at most so many at once, from this PSN on. */
void congestion_init(struct congestion *c, wtime now, uint32_t mtu_bytes, uint32_t most, psn_t psn, uint32_t seed);
/* Or it sends packets that nobody acknowledges: notifications alone tell of congestion. */
void congestion_init_timed(struct congestion *c, wtime now, uint32_t seed);

/* May a packet leave, of which so many are under way? A packet that repeats one does not add to them. Where not, the window was
 * used to the full; CONGESTION_PACED: until c->deadline. */
enum congestion_wait congestion_asks(struct congestion *c, wtime now, uint32_t under_way);
/* How many packets the window holds. */
static inline uint32_t congestion_packets(const struct congestion *c)
{
	return (c->window + CONGESTION_ONE - 1) / CONGESTION_ONE;
}
/* The packet leaves; `asks`: its answer comes at once. */
void congestion_sent(struct congestion *c, wtime now, psn_t psn, bool asks);
/* A packet leaves again, alone or with all after it: when it arrived is no measure any more. */
void congestion_repeats(struct congestion *c, psn_t psn, bool alone);

/* The peer told that so many packets have arrived that it did not tell of before, this one the last; its count of marks is
 * `echo`, if it counts them. `next`: the PSN that leaves next. */
void congestion_heard(struct congestion *c, wtime now, uint32_t arrived, psn_t last, bool echoes, uint8_t echo, psn_t next);
void congestion_lost(struct congestion *c, uint32_t packets);
/* Nothing came for an ACK timeout. */
void congestion_timeout(struct congestion *c);
/* A congestion notification packet. */
void congestion_notified(struct congestion *c);

/* Bytes in a second that may leave, of packets of so many bytes; 0: any number. */
uint64_t congestion_rate(const struct congestion *c, uint32_t mtu_bytes);
/* The shortest round trip that is believed; 0: none was timed. */
wtime congestion_shortest(const struct congestion *c);
void congestion_check(const struct congestion *c);

#endif
