/* All timers of the engine. There are two, both the requester's, and never both at once.
 *
 * The ACK timer (IBA 9.7.6.1.3) runs while packets are in flight. It starts when the first packet leaves, and again at
 * every sign of progress: an ACK or a response that covers something new, a NAK that makes us go back. When it runs out
 * everything in flight is sent again. IBA lets the wait be one to four times 4.096 us * 2^t; ours is once. t = 0: never.
 *
 * The RNR timer (9.7.5.2.8) starts when an RNR NAK comes and takes the ACK timer's place; until it runs out nothing is
 * requested. Its length is the responder's: table 47.
 *
 * The responder has no timer: an ACK that is due leaves at the next output. */
#include "ib/timer.h"

#include "ib/engine.h"
#include "wire/aeth.h"

static wtime ack_deadline(const struct qp *qp, wtime now)
{
	wtime wait = ack_timeout_ns(qp->attr.timeout);

	return wait == WTIME_NEVER ? WTIME_NEVER : now + wait;
}

void timer_packet_sent(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->deadline == WTIME_NEVER)
		f->deadline = ack_deadline(qp, now);
}

void timer_progress(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->phase == FLIGHT_RNR)
		return;
	f->deadline = flight_empty(f) ? WTIME_NEVER : ack_deadline(qp, now);
}

void timer_went_back(struct qp *qp, wtime now)
{
	timer_progress(qp, now);
}

void timer_receiver_not_ready(struct qp *qp, wtime now, unsigned rnr_code)
{
	engine_of(qp)->flight.deadline = now + rnr_timer_ns(rnr_code);
}

enum timer_event timer_expired(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (now < f->deadline || f->phase == FLIGHT_CLOSED)
		return TIMER_NONE;
	f->deadline = WTIME_NEVER;
	return f->phase == FLIGHT_RNR ? TIMER_RNR_OVER : TIMER_ACK_TIMEOUT;
}
