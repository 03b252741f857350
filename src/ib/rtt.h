/* How long an answer takes on a connection: the estimate of RFC 6298, from one packet at a time, until the next answer
 * that covers it. A packet that may have arrived twice is no measure (Karn); one that is sent again because it was lost
 * is. What follows from it is how long to wait before a probe (timer.h).
 * longest_ns is the connection's ACK timeout, WTIME_NEVER for none. */
#ifndef WEFT_IB_RTT_H
#define WEFT_IB_RTT_H

#include "base/psn.h"
#include "base/time.h"

#include <stdbool.h>

struct rtt {
	wtime smooth_ns, variation_ns;	/* smooth_ns 0: nothing was measured yet */
	wtime wait_ns;			/* until a probe */
	bool measuring;
	psn_t psn;			/* measuring: the packet, and when it left */
	wtime since;
	psn_t doubtful;			/* packets before this one may have left twice */
};

/* How long an answer takes at most, as a rule: what is asked for again in vain costs little. wait_ns, if none was timed. */
wtime rtt_expected(const struct rtt *r);

void rtt_init(struct rtt *r, psn_t psn, wtime longest_ns);
/* A packet left. */
void rtt_sent(struct rtt *r, wtime now, psn_t psn);
/* Packets up to this one leave once more, perhaps in vain. */
void rtt_doubt(struct rtt *r, psn_t through);
/* Everything from this PSN on was lost. */
void rtt_lost(struct rtt *r, psn_t from);
/* A probe was in vain: the next one waits twice as long. */
void rtt_back_off(struct rtt *r, wtime longest_ns);
/* The peer says that it has this packet, though not all before it. */
void rtt_held(struct rtt *r, wtime now, psn_t psn, wtime longest_ns);
/* Everything before this PSN was answered, for the first time. */
void rtt_answered(struct rtt *r, wtime now, psn_t before, wtime longest_ns);

#endif
