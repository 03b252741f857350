#include "runtime/entry.h"

#include "control/clock.h"
#include "link/shm.h"
#include "runtime/faults.h"
#include "runtime/helper.h"
#include "runtime/pump.h"
#include "runtime/state.h"
#include "runtime/turns.h"
#include "verbs/doorbells.h"
#include "verbs/qp.h"

#include <sched.h>

/* Our choices: who has polled in vain for some microseconds is most likely waiting for somebody who wants this CPU; of so many
 * QPs one poll reads what their peers have executed. */
enum { REAP_POLLS = 8, YIELD_AFTER = 128, YIELD_EVERY = 32, COLLECT_QPS = 32 };

wtime runtime_read_clock(struct runtime *rt)
{
	wtime now = clock_now();

	if (now > rt->ca.now)
		rt->ca.now = now;
	rt->now_is_old = false;
	return rt->ca.now;
}

void runtime_yield_lock(struct runtime *rt)
{
	if (rt->wakes_sleeper) {
		rt->wakes_sleeper = false;
		shm_wake(rt->peers.channels.bells);
	}
	lock_give_way(&rt->lock);
	/* others came and went */
	rt->leaving = LEAVE_HERE;
	runtime_read_clock(rt);
}

/* What the program does is no answer: it may sleep, or destroy the QP. */
static __attribute__((noinline)) void send_withheld(struct runtime *rt)
{
	if (!rt->peers.in_forked_child && ca_release_acks(&rt->ca))
		pump_out(rt);
}

wtime runtime_enter(struct runtime *rt)
{
	wtime now;

	lock_enter(&rt->lock);
	rt->leaving = LEAVE_FULLY;
	now = runtime_read_clock(rt);
	if (!list_empty(&rt->ca.acks.withheld))
		send_withheld(rt);
	return now;
}

static wtime enter_without_clock(struct runtime *rt, enum runtime_leaving leaving)
{
	lock_enter(&rt->lock);
	rt->leaving = leaving;
	rt->now_is_old = true;
	return rt->ca.stamps ? runtime_read_clock(rt) : rt->ca.now;
}

wtime runtime_enter_post(struct runtime *rt)
{
	return enter_without_clock(rt, LEAVE_POSTED);
}

wtime runtime_enter_receive(struct runtime *rt)
{
	return enter_without_clock(rt, ca_is_apart(&rt->ca) ? LEAVE_FULLY : LEAVE_IF_READY);
}

void runtime_enter_briefly(struct runtime *rt)
{
	lock_enter(&rt->lock);
	rt->leaving = LEAVE_AT_ONCE;
}

static void reap_untimed(struct runtime *rt)
{
	if (rt->now_is_old)
		runtime_read_clock(rt);
	ca_reap_untimed(&rt->ca, rt->ca.now);
}

/* The helper sleeps until the first timer that it knows of, unless it looks in anyway. moved: QPs may have become ready since
 * the pump was asked. */
static inline void watch_timers(struct runtime *rt, bool moved)
{
	wtime deadline;

	if (progress_is_polled(&rt->progress))
		return;
	if (!list_empty(&rt->ca.acks.untimed)) {
		reap_untimed(rt);
		moved = true;
	}
	deadline = pump_deadline(rt);
	if (deadline < rt->helper_until) {
		rt->helper_until = deadline;
		helper_kick(rt);
	} else if (moved && pump_has_output(rt)) {
		helper_kick(rt);		/* what was seen lets QPs send; where we are the peer, nobody else wakes us */
	}
}

/* The engine runs apart. The helper wakes by itself for what it knew of when it went to sleep. */
static void leave_to_helper(struct runtime *rt)
{
	bool news = doorbells_any(rt->ca.doorbells) || pump_has_output(rt) || !list_empty(&rt->peers.links.dirty) ||
		    pump_deadline(rt) < rt->helper_until;

	if (!rt->helper_rests || !news)
		return;
	rt->helper_rests = false;
	helper_kick(rt);
}

/* One short packet to another host, while some are under way to it. */
static bool is_short(struct qp *qp)
{
	return qp->route.kind == ROUTE_LINK && !qp_is_datagram(qp) && qp->sq.engine.started != qp->sq.engine.completed &&
	       qp->sq.engine.announced - qp->sq.engine.started - 1 < POSTS_KEPT && qp_send_next(qp)->length <= PACKET_MAX_PAYLOAD;
}

static bool keeps_posts(struct runtime *rt)
{
	struct qp *qp = list_first_entry(&rt->ca.ready, struct qp, ready);

	if (qp && posts_are_many(&rt->posts, rt->polls) && progress_is_polled(&rt->progress) && !rt->faults &&
	    !ca_is_apart(&rt->ca) && is_short(qp))
		return posts_keep(&rt->posts, clock_now());
	rt->posts.kept = 0;
	return false;
}

/* Sends what became ready, and wakes who waits for it. */
static void finish(struct runtime *rt)
{
	const struct links *ls = &rt->peers.links;
	bool moved = false;

	if (ca_is_apart(&rt->ca) && rt->leaving != LEAVE_HERE) {
		leave_to_helper(rt);
		return;
	}
	if (pump_has_output(rt)) {
		pump_out(rt);
		moved = true;
	}
	/* a program that polls comes back soon, and what it sends then tells of what it executed */
	if (!list_empty(&ls->dirty) || (!list_empty(&ls->acks_owed) && !progress_is_polled(&rt->progress))) {
		pump_flush(rt);
		moved = true;
	}
	watch_timers(rt, moved);
}

/* An event was raised. On one CPU the sleeper would run as soon as it is woken, and find the lock taken. */
static __attribute__((noinline)) void leave_and_wake(struct runtime *rt)
{
	rt->wakes_sleeper = false;
	lock_leave(&rt->lock);
	shm_wake(rt->peers.channels.bells);
}

static inline void leave(struct runtime *rt)
{
	if (rt->wakes_sleeper)
		leave_and_wake(rt);
	else
		lock_leave(&rt->lock);
}

void runtime_leave(struct runtime *rt)
{
	bool nothing = rt->leaving == LEAVE_IF_READY ? list_empty(&rt->ca.ready) :
		       rt->leaving == LEAVE_AT_ONCE || (rt->leaving == LEAVE_POSTED && keeps_posts(rt));

	if (nothing) {
		lock_leave(&rt->lock);
		return;
	}
	if (!rt->peers.in_forked_child)
		finish(rt);
	leave(rt);
}

void runtime_leave_helper(struct runtime *rt)
{
	if (!rt->peers.in_forked_child)
		finish(rt);
	rt->ca.memory_may_go = false;
	leave(rt);
}

/* Messages need no clock, packets see to it themselves (pump.c). */
static wtime poll_time(struct runtime *rt, bool idle)
{
	rt->now_is_old = !idle && progress_is_polled(&rt->progress) && !rt->ca.stamps && !rt->faults && rt->polls % TURNS_IDLE;
	return rt->now_is_old ? rt->ca.now : runtime_read_clock(rt);
}

/* This thread's polls in a row for which nothing came and that found nothing. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned in_vain;

/* May what peers executed be seen later? */
static bool collects_later(const struct runtime *rt)
{
	return progress_is_polled(&rt->progress) && !rt->ca.acks.starved &&
	       !turns_reads_acks(rt->polls - rt->collected, in_vain);
}

/* How many QPs had something executed. */
static unsigned collect(struct runtime *rt, wtime now)
{
	if (!ca_awaits_acks(&rt->ca) || collects_later(rt))
		return 0;
	rt->collected = rt->polls;
	return ca_read_acks(&rt->ca, now, COLLECT_QPS);
}

static void poll(struct runtime *rt, bool idle)
{
	wtime now = poll_time(rt, idle);
	uint64_t frames = rt->frames;
	unsigned collected;

	if (!list_empty(&rt->peers.links.acks_owed))
		pump_flush(rt);
	ca_release_acks(&rt->ca);
	ca_ack_postponed(&rt->ca, now);
	collected = collect(rt, now);
	/* frames with faults leave alone, and traces are replayed in the order that the engine has by itself */
	rt->ca.acks.postpones = progress_is_polled(&rt->progress) && !rt->faults;
	pump(rt, now);
	if (progress_polled(&rt->progress, rt->ca.now, collected || rt->frames != frames)) {
		pump_awake(rt);
		helper_kick(rt);		/* it begins to tick */
	}
}

static inline void enter_poll(struct runtime *rt)
{
	if (in_vain > YIELD_AFTER && in_vain % YIELD_EVERY == 0)
		sched_yield();
	lock_enter(&rt->lock);
	rt->polls++;
}

bool runtime_has_put_off(const struct runtime *rt)
{
	return !list_empty(&rt->ca.acks.postponed);
}

/* Links that must be asked say nothing by themselves, and faults have their time: they are asked oftener. */
static inline bool is_asked_often(const struct runtime *rt)
{
	return rt->peers.links.looked_at || rt->faults || rt->ca.stamps || !progress_is_polled(&rt->progress);
}

/* So many in vain, this one included. */
static inline bool is_idle_poll(const struct runtime *rt, unsigned vain)
{
	if (rt->polls % TURNS_ASKED && vain % TURNS_IDLE)	/* as most, whatever is asked */
		return true;
	return turns_is_idle(rt->polls, vain, is_asked_often(rt), rt->peers.links.looked_at);
}

/* Most polls find nothing: then the clock is read, and timers and senders looked after, only now and then. Such a poll ends here,
 * without more calls. */
enum runtime_poll runtime_poll_begin(struct runtime *rt, const struct cq *cq)
{
	bool has_some;

	enter_poll(rt);
	has_some = cq_front(cq);
	if (!has_some && !pump_pending(rt) && list_empty(&rt->ca.ready) && !runtime_has_put_off(rt) &&
	    is_idle_poll(rt, in_vain + 1)) {
		in_vain++;
		lock_leave(&rt->lock);
		return POLL_IN_VAIN;
	}
	rt->leaving = LEAVE_IF_READY;
	rt->now_is_old = true;
	return has_some && rt->polls % REAP_POLLS && !rt->ca.stamps ? POLL_REAPS : POLL_LOOKS;	/* what has come is stamped now */
}

enum runtime_news runtime_look(struct runtime *rt)
{
	bool idle = !pump_pending(rt);

	rt->waited = in_vain;
	in_vain = idle ? in_vain + 1 : 0;
	if (rt->peers.in_forked_child || (idle && list_empty(&rt->ca.ready) && is_idle_poll(rt, in_vain)) ||
	    ca_is_apart(&rt->ca))
		return NEWS_NONE;
	return idle ? NEWS_PERHAPS : NEWS_ARRIVED;
}

/* Is all as it is most often for a program that polls for messages, so that what else a poll does may wait for another one? */
static bool is_brief(const struct runtime *rt)
{
	const struct message_acks *acks = &rt->ca.acks;

	return progress_is_polled(&rt->progress) && acks->postpones && rt->polls % TURNS_IDLE && !rt->faults && !rt->ca.stamps &&
	       !acks->starved && list_empty(&acks->withheld) && list_empty(&rt->ca.ready);
}

/* Apart, so that a poll in vain saves no registers. */
static __attribute__((noinline)) bool ack_postponed(struct runtime *rt)
{
	return !rt->peers.in_forked_child && ca_ack_postponed(&rt->ca, rt->ca.stamps ? runtime_read_clock(rt) : rt->ca.now);
}

/* What the last message acknowledged comes before the next one: the program saw that message, and may post as much again. */
void runtime_take_in(struct runtime *rt, enum runtime_news news, const struct cq *cq)
{
	if (news == NEWS_ARRIVED && runtime_has_put_off(rt))
		ack_postponed(rt);
	if (news == NEWS_NONE || (news == NEWS_ARRIVED && is_brief(rt) && pump_take_short(rt, cq)))
		return;
	rt->leaving = LEAVE_HERE;	/* an ACK may wait for what is reaped */
	poll(rt, news == NEWS_PERHAPS);
}

wtime runtime_enter_poll(struct runtime *rt)
{
	enum runtime_news news;

	enter_poll(rt);
	rt->leaving = LEAVE_IF_READY;
	rt->now_is_old = true;
	news = runtime_look(rt);
	if (news != NEWS_NONE) {
		rt->leaving = LEAVE_HERE;
		poll(rt, news == NEWS_PERHAPS);
	}
	return rt->ca.now;
}

bool runtime_look_again(struct runtime *rt)
{
	return runtime_has_put_off(rt) && ack_postponed(rt);
}

void runtime_poll_found(void)
{
	in_vain = 0;
}

void runtime_take_in_all(struct runtime *rt)
{
	if (rt->peers.in_forked_child)
		return;
	links_take_events(&rt->peers.links);
	pump_all(rt, rt->ca.now);
}

void runtime_will_sleep(struct runtime *rt)
{
	if (rt->peers.in_forked_child)
		return;
	progress_may_sleep(&rt->progress);
	ca_ack_postponed(&rt->ca, rt->ca.now);
	if (!progress_is_polled(&rt->progress))
		return;
	progress_armed(&rt->progress);
	rt->leaving = LEAVE_HERE;
	pump_all(rt, rt->ca.now);
	if (!pump_may_sleep(rt) || pump_deadline(rt) < rt->helper_until)
		helper_kick(rt);
}
