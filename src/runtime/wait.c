/* One thread that waits for an event is the sleeper (progress.h): it listens in the helper's place, so that a message wakes one
 * thread and not two. Invariant: whenever the lock is free, each channel's sleeper word and the channel bells name who listens
 * and sleeps, or looks once more before it does: the sleeper from when it goes to the futex of the channel bells until it has
 * handed on, the helper otherwise. A peer that finds nobody on the futex, as the sleeper is leaving or was torn away, wakes the
 * helper too, which takes in what there is whoever listens. Timers, weftd's mail and what another thread leaves over are the
 * helper's throughout. A signal's handler that jumps out of the sleep in the very moment in which it ends takes that wake
 * along: then the next message or timer makes up for it. */
#include "link/calls.h"
#include "link/shm.h"
#include "runtime/entry.h"
#include "runtime/helper.h"
#include "runtime/pump.h"
#include "runtime/state.h"
#include "runtime/wait.h"

#include <errno.h>

/* Our choice: more are most likely others' messages, for which the helper is as good; and a signal that comes while this thread
 * is awake does not end its call. */
enum { WAKES_IN_VAIN = 4 };

static bool is_ours(const struct runtime *rt)
{
	return rt->progress.sleeper == lock_self();
}

/* Peers wake the helper again, or nobody where the program is trusted to poll. Events that this raises are announced. */
static void end(struct runtime *rt, bool trust)
{
	if (!is_ours(rt))
		return;
	progress_wait_ends(&rt->progress, rt->ca.now, trust);
	if (trust)
		pump_awake(rt);
	if (trust ? rt->helper_until > rt->ca.now + PROGRESS_TICK :
	    !rt->peers.in_forked_child && !progress_is_polled(&rt->progress) && !pump_may_sleep(rt))
		helper_kick(rt);
}

/* A thread that has waited ends: perhaps it was cancelled in its sleep, or left that by a jump out of a signal's handler. */
static void abandon(void *owner)
{
	struct runtime *rt = owner;

	runtime_enter(rt);
	end(rt, false);
	runtime_leave(rt);
}

int wait_init(struct runtime *rt)
{
	return -pthread_key_create(&rt->sleeper, abandon);
}

void wait_fini(struct runtime *rt)
{
	pthread_key_delete(rt->sleeper);
}

/* Outside the lock. Events of the time are announced, as this thread does not look. */
static int sleep_on(struct runtime *rt, _Atomic uint32_t *word, uint32_t value, int cancel_state)
{
	int err;

	progress_sleeps(&rt->progress);
	runtime_leave(rt);
	err = call_wait(word, FUTEX_WAIT, value, cancel_state);
	runtime_enter(rt);
	progress_woke(&rt->progress, lock_self());
	return err;
}

static void take_in(struct runtime *rt)
{
	uint64_t frames = rt->frames;

	pump_all(rt, rt->ca.now);
	if (rt->frames != frames)
		progress_helped(&rt->progress);
}

/* Still for nothing? */
static bool waits(const struct runtime *rt)
{
	return rt->progress.events && list_empty(rt->progress.events);
}

/* As runtime_wait. */
static int wait_for_events(struct runtime *rt, int cancel_state)
{
	struct channel_bells *bells = rt->peers.channels.bells;

	for (unsigned n = 0; waits(rt); take_in(rt)) {
		uint32_t wakes = atomic_load(&bells->wakes);
		int err;

		if (!progress_is_polled(&rt->progress) && !pump_may_sleep(rt)) {
			runtime_yield_lock(rt);
			continue;
		}
		if (n++ == WAKES_IN_VAIN)
			return -EAGAIN;
		err = sleep_on(rt, &bells->wakes, wakes, cancel_state);
		if (rt->peers.in_forked_child || !is_ours(rt) || (rt->progress.events && !waits(rt)))
			return -EAGAIN;		/* who raised events while nobody looked has announced them */
		if (err)
			return err;
	}
	/* a signal's handler that waited too has ended this wait */
	if (!is_ours(rt))
		return -EAGAIN;
	return rt->progress.events ? 0 : -ECANCELED;
}

/* A thread that is the sleeper already is in a signal's handler, or has left by a jump out of one. */
static bool may_wait(const struct runtime *rt, const struct list *events)
{
	if (rt->peers.in_forked_child || ca_is_apart(&rt->ca))	/* the helper's, which takes in */
		return false;
	return rt->peers.channels.bells && list_empty(events) && (!rt->progress.sleeper || is_ours(rt));
}

int runtime_wait(struct runtime *rt, const struct list *events, int cancel_state)
{
	bool polled = progress_is_polled(&rt->progress);
	int err;

	if (!may_wait(rt, events))
		return -EAGAIN;
	if (pthread_setspecific(rt->sleeper, rt))
		return -EAGAIN;
	if (rt->progress.sleeper)	/* this one, in a signal's handler: what that interrupted shall read the descriptor */
		atomic_fetch_add(&rt->peers.channels.bells->wakes, 1);
	progress_wait_begins(&rt->progress, lock_self(), events);
	rt->ca.acks.postpones = false;
	ca_ack_postponed(&rt->ca, rt->ca.now);
	err = wait_for_events(rt, cancel_state);
	/* who polled until it slept most likely polls again: it is trusted as before, for a tick */
	end(rt, polled && err == 0);
	return err;
}

bool runtime_wake_sleeper(struct runtime *rt, const struct list *events)
{
	if (rt->progress.events != events)
		return false;
	if (!rt->progress.sleeper_looks) {
		rt->wakes_sleeper = true;
		if (rt->leaving != LEAVE_HERE)
			rt->leaving = LEAVE_FULLY;
	}
	return rt->progress.sleeper_looks;
}

void runtime_forget_events(struct runtime *rt, const struct list *events)
{
	progress_forget_events(&rt->progress, events);
}
