/* All timers of the engine. There are four, all the requester's.
 *
 * The ACK timer (IBA 9.7.6.1.3) runs while packets are in flight. It starts when the first packet leaves, and again at
 * every sign of progress: an ACK or a response that covers something new, a NAK that makes us go back. When it runs out
 * everything in flight is sent again. IBA lets the wait be one to four times 4.096 us * 2^t; ours is once. t = 0: never.
 *
 * The probe timer is ours. An ACK or NAK that is lost, and packets lost at the end, would cost the whole ACK timeout. But a
 * responder answers duplicates with how far it is, also while it waits behind a NAK that it must not repeat (9.7.5.1.3,
 * 9.7.5.1.4). So when for some round-trip times (rtt.h) nothing new was sent or answered, the oldest packet is sent once
 * more. That is no retry, and the ACK timer runs on. Once the probe was answered, and it is quiet again while packets from
 * before the probe wait, these were lost, for the path keeps order: now they are sent again, which is a retry. Nothing is
 * probed where no retries are allowed or there is no ACK timer.
 *
 * Both wait while the link keeps what was sent and the peer's process, which lives, has not taken it: it is stopped, or has
 * no CPU. Nothing can be lost and nothing answered, so nothing is sent again and no retry is used up. Once all was taken the
 * answer has its whole time. The option timeout=standard does without: then a peer that stands still costs retries.
 *
 * A process that has no processor looks at its timers late, and what has arrived meanwhile waits to be taken in. So where the ACK
 * timer is found to have run out longer ago than an answer takes, it runs once more, for as long as an answer takes. Once: what
 * is late a second time counts. timeout=standard does without this too.
 *
 * The reordering timer is loss.c's and answers.c's: packets and responses that others have overtaken are taken for lost when it
 * runs out.
 *
 * The RNR timer (9.7.5.2.8) starts when an RNR NAK comes and takes the others' place; until it runs out nothing is
 * requested. Its length is the responder's: table 47.
 *
 * The responder has no timer: an ACK that is due leaves at the next output. */
#include "ib/timer.h"

#include "ib/answers.h"
#include "ib/engine.h"
#include "wire/aeth.h"

static wtime ack_timeout(const struct qp *qp)
{
	return ack_timeout_ns(qp->attr.timeout);
}

static wtime ack_deadline(const struct qp *qp, wtime now)
{
	return ack_timeout(qp) == WTIME_NEVER ? WTIME_NEVER : now + ack_timeout(qp);
}

/* A direct message cannot be lost, and neither can its ACK. Both only take their time. */
static bool awaits_direct_message(const struct flight *f)
{
	return !flight_empty(f) && flight_at(f, f->oldest)->is_direct;
}

/* When packets or responses may be taken for lost. */
static wtime reordered(const struct flight *f)
{
	return wtime_min(f->loss->deadline, f->answers ? f->answers->deadline : WTIME_NEVER);
}

/* The ACK timer runs, or none. */
static void arm(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;

	f->deadline = f->ack_deadline;
	if (f->deadline != WTIME_NEVER && qp->attr.retry_cnt && !awaits_direct_message(f))
		f->deadline = wtime_min(f->deadline, f->quiet_since + f->rtt.wait_ns);
	if (f->selective)
		f->deadline = wtime_min(f->deadline, reordered(f));
}

void timer_rearm(struct qp *qp)
{
	if (engine_of(qp)->flight.phase == FLIGHT_OPEN)
		arm(qp);
}

void timer_open(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;

	rtt_init(&f->rtt, f->psn, ack_timeout(qp));
}

/* Is it still on its way to the peer, or was it when this was asked last? Then its answer has its time from now on. */
static bool is_kept(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;
	enum flight_link was = f->link;

	if (was == FLIGHT_LINK_LEFT || engine_of(qp)->options.timeout_as_standard)
		return false;
	if (was == FLIGHT_LINK_UNKNOWN)
		f->link_mark = 0;
	if (qp->ca->ops->undelivered(qp->ca->owner, qp_route(qp), &f->link_mark)) {
		f->link = FLIGHT_UNDELIVERED;
		return true;
	}
	f->link = FLIGHT_LINK_LEFT;
	return was == FLIGHT_UNDELIVERED;
}

void timer_packet_sent(struct qp *qp, wtime now)
{
	/* that the probe waits longer now is found when it is due */
	engine_of(qp)->flight.quiet_since = now;
	timer_start(qp, now);
}

void timer_start(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->ack_deadline != WTIME_NEVER)
		return;
	f->link = FLIGHT_LINK_UNKNOWN;
	f->was_absent = false;
	f->quiet_since = now;
	f->ack_deadline = ack_deadline(qp, now);
	arm(qp);
}

static void start_again(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->phase == FLIGHT_RNR)
		return;
	f->link = FLIGHT_LINK_UNKNOWN;
	f->was_absent = false;
	f->quiet_since = now;
	f->ack_deadline = flight_empty(f) ? WTIME_NEVER : ack_deadline(qp, now);
	arm(qp);
}

void timer_progress(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	rtt_answered(&f->rtt, now, flight_first_psn(f), ack_timeout(qp));
	start_again(qp, now);
}

void timer_pause(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->phase != FLIGHT_RNR)
		f->deadline = f->ack_deadline = WTIME_NEVER;
}

void timer_went_back(struct qp *qp, wtime now)
{
	start_again(qp, now);
}

void timer_receiver_not_ready(struct qp *qp, wtime now, unsigned rnr_code)
{
	struct flight *f = &engine_of(qp)->flight;

	f->ack_deadline = WTIME_NEVER;
	f->deadline = now + rnr_timer_ns(rnr_code);
}

/* Did nobody look at the ACK timer for longer than an answer takes? */
static bool was_absent(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (f->was_absent || now < f->ack_deadline + f->rtt.wait_ns || engine_of(qp)->options.timeout_as_standard)
		return false;
	return f->was_absent = true;
}

enum timer_event timer_expired(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;

	if (now < f->deadline || f->phase == FLIGHT_CLOSED)
		return TIMER_NONE;
	if (f->phase == FLIGHT_RNR) {
		f->deadline = WTIME_NEVER;
		return TIMER_RNR_OVER;
	}
	arm(qp);
	if (now < f->deadline)
		return TIMER_NONE;
	if (f->selective && now >= reordered(f)) {
		if (now >= f->loss->deadline)
			f->loss->deadline = WTIME_NEVER;
		answers_expire(qp, now);
		arm(qp);
		return TIMER_REORDERED;
	}
	if (is_kept(qp)) {
		rtt_back_off(&f->rtt, ack_timeout(qp));
		f->quiet_since = now;
		f->ack_deadline = ack_deadline(qp, now);
		arm(qp);
		return TIMER_NONE;
	}
	if (now >= f->ack_deadline && was_absent(qp, now)) {
		f->quiet_since = now;
		f->ack_deadline = now + f->rtt.wait_ns;
		arm(qp);
		return TIMER_NONE;
	}
	if (now >= f->ack_deadline) {
		f->deadline = f->ack_deadline = WTIME_NEVER;
		return TIMER_ACK_TIMEOUT;
	}
	if (f->probe == PROBE_SENT)
		rtt_back_off(&f->rtt, ack_timeout(qp));
	f->quiet_since = now;
	arm(qp);
	return TIMER_PROBE;
}
