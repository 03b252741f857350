/* One thread that waits for an event is the watcher: it listens in the helper's place, so that a message wakes one thread and
 * not two. Invariant: whenever the lock is free, each channel's sleeper word and the news name who listens and sleeps, or looks
 * once more before it does: the watcher from when it goes to the futex of the news until it has handed on, the helper otherwise.
 * A peer that finds nobody on the futex, as the watcher is leaving or was torn away, wakes the helper too, who takes in what
 * there is whoever listens. Timers, weftd's mail and what another thread leaves over are the helper's throughout. A signal's
 * handler that jumps out of the sleep in the very moment in which it ends takes that wake along: then the next message or timer
 * makes up for it. */
#include "host/internal.h"

#include "link/shm.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Our choice: more are most likely others' messages, for which the helper is as good; and a signal that comes while this thread
 * is awake does not end its call. */
enum { WAKES_IN_VAIN = 4 };

static bool is_ours(const struct host *h)
{
	return h->watch.thread == lock_self();
}

/* Peers wake the helper again, unless the program is trusted. Events that this raises are announced. */
static void end(struct host *h)
{
	if (!is_ours(h))
		return;
	h->watch = (struct watch){ 0 };
	if (!h->forgotten && !h->attention.program_polls && !pump_may_sleep(h))
		helper_kick(h);
}

/* A thread that has watched ends: perhaps it was cancelled in its sleep, or left that by a jump out of a signal's handler. */
static void abandon(void *host)
{
	struct host *h = host;

	host_enter(h);
	end(h);
	host_leave(h);
}

static pthread_key_t watched;

static void make_key(void)
{
	pthread_key_create(&watched, abandon);
}

static void hand_on_at_end(struct host *h)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	pthread_setspecific(watched, h);
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

	h->watch.looks = false;
	host_leave(h);
	err = wait_on(word, value, cancel_state);
	host_enter(h);
	h->watch.looks |= is_ours(h);
	return err;
}

static void take_in(struct host *h)
{
	uint64_t frames = h->frames;

	pump_all(h, h->now);
	if (h->frames != frames)
		attention_helped(&h->attention);
}

/* Still for nothing? */
static bool waits(const struct host *h)
{
	return h->watch.events && list_empty(h->watch.events);
}

/* As host_watch. */
static int watch(struct host *h, int cancel_state)
{
	struct news *news = h->channels.news;

	for (unsigned n = 0; waits(h); take_in(h)) {
		uint32_t wakes = atomic_load(&news->wakes);
		int err;

		if (!h->attention.program_polls && !pump_may_sleep(h)) {
			host_give_way(h);
			continue;
		}
		if (n++ == WAKES_IN_VAIN)
			return -EAGAIN;
		err = sleep_on(h, &news->wakes, wakes, cancel_state);
		if (h->forgotten || !is_ours(h) || (h->watch.events && !waits(h)))
			return -EAGAIN;		/* who raised events while nobody looked has announced them */
		if (err)
			return err;
	}
	return h->watch.events ? 0 : -ECANCELED;
}

/* A thread that is the watcher already is in a signal's handler, or has left by a jump out of one. */
static bool may_watch(const struct host *h, const struct list *events)
{
	return !h->forgotten && h->channels.news && list_empty(events) && (!h->watch.thread || h->watch.thread == lock_self());
}

/* Who polled until it slept most likely polls again: it is trusted as before, for a tick. */
static void trust_again(struct host *h)
{
	attention_return(&h->attention, h->now);
	pump_awake(h);
	if (h->helper_until > h->now + ATTENTION_TICK)
		helper_kick(h);
}

int host_watch(struct host *h, const struct list *events, int cancel_state)
{
	bool polled = h->attention.program_polls;
	int err;

	if (!may_watch(h, events))
		return -EAGAIN;
	hand_on_at_end(h);
	if (h->watch.thread)	/* this one, in a signal's handler: what that interrupted shall read the descriptor */
		atomic_fetch_add(&h->channels.news->wakes, 1);
	if (polled)
		attention_sleep(&h->attention);
	h->ca.defers = false;
	ca_settle(&h->ca, h->now);
	h->watch = (struct watch){ .events = events, .thread = lock_self(), .listens = true, .looks = true };
	err = watch(h, cancel_state);
	if (polled && err == 0)
		trust_again(h);
	end(h);
	return err;
}

bool host_tell_watcher(struct host *h, const struct list *events)
{
	if (h->watch.events != events)
		return false;
	if (!h->watch.looks)
		shm_wake(h->channels.news);
	return h->watch.looks;
}

void host_forget_events(struct host *h, const struct list *events)
{
	if (h->watch.events == events)
		h->watch.events = NULL;
}
