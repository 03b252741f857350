/* One thread that waits for an event is the sleeper (progress.h): it listens in the helper's place, so that a message wakes one
 * thread and not two. Invariant: whenever the lock is free, each channel's sleeper word and the channel bells name who listens
 * and sleeps, or looks once more before it does: the sleeper from when it goes to the futex of the channel bells until it has
 * handed on, the helper otherwise. A peer that finds nobody on the futex, as the sleeper is leaving or was torn away, wakes the
 * helper too, which takes in what there is whoever listens. Timers, weftd's mail and what another thread leaves over are the
 * helper's throughout. A signal's handler that jumps out of the sleep in the very moment in which it ends takes that wake
 * along: then the next message or timer makes up for it. */
#include "link/shm.h"
#include "runtime/helper.h"
#include "runtime/pump.h"
#include "runtime/runtime.h"
#include "runtime/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Our choice: more are most likely others' messages, for which the helper is as good; and a signal that comes while this thread
 * is awake does not end its call. */
enum { WAKES_IN_VAIN = 4 };

static bool is_ours(const struct host *h)
{
	return h->progress.sleeper == lock_self();
}

/* Peers wake the helper again, or nobody where the program is trusted to poll. Events that this raises are announced. */
static void end(struct host *h, bool trust)
{
	if (!is_ours(h))
		return;
	progress_wait_ends(&h->progress, h->ca.now, trust);
	if (trust)
		pump_awake(h);
	if (trust ? h->helper_until > h->ca.now + PROGRESS_TICK :
	    !h->peers.forgotten && !progress_is_polled(&h->progress) && !pump_may_sleep(h))
		helper_kick(h);
}

/* A thread that has waited ends: perhaps it was cancelled in its sleep, or left that by a jump out of a signal's handler. */
static void abandon(void *host)
{
	struct host *h = host;

	host_enter(h);
	end(h, false);
	host_leave(h);
}

int wait_init(struct host *h)
{
	return -pthread_key_create(&h->sleeper, abandon);
}

void wait_fini(struct host *h)
{
	pthread_key_delete(h->sleeper);
}

/* As read(2): a cancellation point, and after a signal started again if its handler wants that. */
static int wait_on(_Atomic uint32_t *word, uint32_t value, int cancel_state)
{
	int type, err;

	pthread_setcancelstate(cancel_state, NULL);
	/* NOLINTNEXTLINE(cert-pos47-c) ; around one system call, which holds nothing */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	err = syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0) < 0 ? errno : 0;
	pthread_setcanceltype(type, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return err == EINTR ? -EINTR : 0;
}

/* Outside the lock. Events of the time are announced, as this thread does not look. */
static int sleep_on(struct host *h, _Atomic uint32_t *word, uint32_t value, int cancel_state)
{
	int err;

	h->progress.sleeper_looks = false;
	host_leave(h);
	err = wait_on(word, value, cancel_state);
	host_enter(h);
	h->progress.sleeper_looks |= is_ours(h);
	return err;
}

static void take_in(struct host *h)
{
	uint64_t frames = h->frames;

	pump_all(h, h->ca.now);
	if (h->frames != frames)
		progress_helped(&h->progress);
}

/* Still for nothing? */
static bool waits(const struct host *h)
{
	return h->progress.events && list_empty(h->progress.events);
}

/* As host_wait. */
static int wait_for_events(struct host *h, int cancel_state)
{
	struct channel_bells *bells = h->peers.channels.bells;

	for (unsigned n = 0; waits(h); take_in(h)) {
		uint32_t wakes = atomic_load(&bells->wakes);
		int err;

		if (!progress_is_polled(&h->progress) && !pump_may_sleep(h)) {
			host_yield_lock(h);
			continue;
		}
		if (n++ == WAKES_IN_VAIN)
			return -EAGAIN;
		err = sleep_on(h, &bells->wakes, wakes, cancel_state);
		if (h->peers.forgotten || !is_ours(h) || (h->progress.events && !waits(h)))
			return -EAGAIN;		/* who raised events while nobody looked has announced them */
		if (err)
			return err;
	}
	/* a signal's handler that waited too has ended this wait */
	if (!is_ours(h))
		return -EAGAIN;
	return h->progress.events ? 0 : -ECANCELED;
}

/* A thread that is the sleeper already is in a signal's handler, or has left by a jump out of one. */
static bool may_wait(const struct host *h, const struct list *events)
{
	if (h->peers.forgotten || h->ca.doorbells)	/* an engine apart is the helper's: this thread takes nothing in */
		return false;
	return h->peers.channels.bells && list_empty(events) && (!h->progress.sleeper || is_ours(h));
}

int host_wait(struct host *h, const struct list *events, int cancel_state)
{
	bool polled = progress_is_polled(&h->progress);
	int err;

	if (!may_wait(h, events))
		return -EAGAIN;
	if (pthread_setspecific(h->sleeper, h))
		return -EAGAIN;
	if (h->progress.sleeper)	/* this one, in a signal's handler: what that interrupted shall read the descriptor */
		atomic_fetch_add(&h->peers.channels.bells->wakes, 1);
	progress_wait_begins(&h->progress, lock_self(), events);
	h->ca.acks.defers = false;
	ca_ack_deferred(&h->ca, h->ca.now);
	err = wait_for_events(h, cancel_state);
	/* who polled until it slept most likely polls again: it is trusted as before, for a tick */
	end(h, polled && err == 0);
	return err;
}

bool host_wake_sleeper(struct host *h, const struct list *events)
{
	if (h->progress.events != events)
		return false;
	if (!h->progress.sleeper_looks)
		shm_wake(h->peers.channels.bells);
	return h->progress.sleeper_looks;
}

void host_forget_events(struct host *h, const struct list *events)
{
	if (h->progress.events == events)
		h->progress.events = NULL;
}
