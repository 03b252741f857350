#include "runtime/progress.h"

/* Our choices. A program that watches memory and polls only afterwards (ib_write_lat) takes every other frame at best, so
 * a short streak tells it from one that polls for messages. */
enum { NEEDED_LEAST = 8, NEEDED_MOST = 256, SKIPPED_MOST = 1000, AWAKE_POLLS = 8 };

static const wtime FORGIVEN_AFTER = 100 * WTIME_MS;
static const wtime PATIENCE = 200 * WTIME_US;	/* for frames that lie waiting: several of the scheduler's wakes */
static const wtime RECENT = 50 * WTIME_US;

enum event { TRUSTED, SILENT, ARMED, WAIT_BEGINS, WAIT_ENDS, WAIT_PAYS, FORKED, EVENTS };

/* The table of the header, by event and state. */
static const uint8_t next[EVENTS][PROGRESS_STATES] = {
	[TRUSTED] = { BY_POLLER, BY_POLLER, BY_POLLER_BESIDE_SLEEPER, BY_POLLER_BESIDE_SLEEPER },
	[SILENT] = { BY_HELPER, BY_HELPER, BY_SLEEPER, BY_SLEEPER },
	[ARMED] = { BY_HELPER, BY_HELPER, BY_SLEEPER, BY_SLEEPER },
	[WAIT_BEGINS] = { BY_SLEEPER, BY_SLEEPER, BY_SLEEPER, BY_SLEEPER },
	[WAIT_ENDS] = { BY_HELPER, BY_POLLER, BY_HELPER, BY_POLLER },
	[WAIT_PAYS] = { BY_HELPER, BY_POLLER, BY_POLLER, BY_POLLER },
	[FORKED] = { BY_HELPER, BY_HELPER, BY_HELPER, BY_HELPER },
};

static void enter_state(struct progress *p, enum event event)
{
	p->state = (enum progress_state)next[event][p->state];
}

void progress_init(struct progress *p)
{
	*p = (struct progress){ .needed = NEEDED_LEAST };
}

/* A loss of trust is forgotten after a while without another. */
static void forgive(struct progress *p, wtime now)
{
	if (now - p->trusted_since <= FORGIVEN_AFTER)
		return;
	p->trusted_since = now;
	p->needed = p->needed / 2 > NEEDED_LEAST ? p->needed / 2 : NEEDED_LEAST;
}

bool progress_polled(struct progress *p, wtime now, bool took)
{
	p->last_poll = now;
	/* who sleeps polls a few times at most after it armed the CQ */
	if (p->is_armed && ++p->armed_polls >= AWAKE_POLLS)
		p->is_armed = false;
	if (progress_is_polled(p)) {
		forgive(p, now);
		return false;
	}
	if (!took)
		return false;
	if (++p->streak < p->needed)
		return false;
	p->trusted_since = now;
	enter_state(p, TRUSTED);
	return true;
}

void progress_helped(struct progress *p)
{
	p->streak = 0;
}

void progress_seen(struct progress *p, wtime now)
{
	if (progress_is_polled(p))
		p->last_poll = now;
}

bool progress_is_recent(const struct progress *p, wtime now)
{
	return now - p->last_poll < RECENT;
}

bool progress_leaves(struct progress *p, wtime now)
{
	if (p->state != BY_HELPER || p->is_armed || !progress_is_recent(p, now) || p->wakes++ < p->skipped)
		return false;
	p->left_at = p->last_poll;
	return true;
}

bool progress_left(struct progress *p, bool pending)
{
	p->wakes = 0;
	if (!pending || p->last_poll != p->left_at) {
		p->skipped = 0;
		return true;
	}
	if (p->skipped < SKIPPED_MOST)
		p->skipped = 2 * p->skipped + 1;
	return false;
}

bool progress_ticked(struct progress *p, wtime now, bool pending)
{
	wtime quiet = now - p->last_poll;

	if (!progress_is_polled(p) || quiet < (pending ? PATIENCE : PROGRESS_TICK))
		return false;
	if (pending && p->needed < NEEDED_MOST)
		p->needed *= 2;
	p->streak = 0;
	enter_state(p, SILENT);
	return true;
}

void progress_armed(struct progress *p)
{
	p->streak = 0;
	enter_state(p, ARMED);
}

void progress_wait_begins(struct progress *p, uintptr_t thread, const struct list *events)
{
	if (progress_is_polled(p))
		p->streak = 0;
	p->sleeper = thread;
	p->events = events;
	p->sleeper_looks = true;
	enter_state(p, WAIT_BEGINS);
}

void progress_wait_ends(struct progress *p, wtime now, bool trust)
{
	p->sleeper = 0;
	p->events = NULL;
	p->sleeper_looks = false;
	if (trust)
		p->last_poll = p->trusted_since = now;
	enter_state(p, trust ? WAIT_PAYS : WAIT_ENDS);
}

void progress_sleeps(struct progress *p)
{
	p->sleeper_looks = false;
}

void progress_woke(struct progress *p, uintptr_t thread)
{
	if (p->sleeper == thread)
		p->sleeper_looks = true;
}

void progress_forget_events(struct progress *p, const struct list *events)
{
	if (p->events == events)
		p->events = NULL;
}

void progress_forked(struct progress *p)
{
	p->sleeper = 0;
	p->events = NULL;
	p->sleeper_looks = false;
	enter_state(p, FORKED);
}
