/* Who takes in what arrives for this process. One state says it; what follows from the state stands in this table:
 *
 *   state                      takes in               peers wake           ACKs of messages       helper wakes by itself
 *   BY_HELPER                  the helper thread      the helper           are sent at once       at the next timer
 *   BY_POLLER                  the program's polls    nobody               wait for a poll        at each tick
 *   BY_SLEEPER                 the sleeping thread    that thread          are sent at once       at the next timer
 *   BY_POLLER_BESIDE_SLEEPER   the program's polls    nobody               wait for a poll        at each tick
 *
 * The sleeper is the one thread that is in runtime_wait; all others that wait for events read a descriptor, to which the helper
 * writes. The transitions:
 *
 *   event                               BY_HELPER    BY_POLLER   BY_SLEEPER                 BY_POLLER_BESIDE_SLEEPER
 *   polls took frames often enough      BY_POLLER    -           BY_POLLER_BESIDE_SLEEPER   -
 *   a tick: no poll, or frames lie      -            BY_HELPER   -                          BY_SLEEPER
 *   a CQ is armed, to sleep             -            BY_HELPER   -                          BY_SLEEPER
 *   a wait begins                       BY_SLEEPER   BY_SLEEPER  BY_SLEEPER                 BY_SLEEPER
 *   a wait ends, or is cancelled        -            -           BY_HELPER                  BY_POLLER
 *   a poller's wait ends with events    -            -           BY_POLLER                  BY_POLLER
 *   the process forked: in the child    BY_HELPER    BY_HELPER   BY_HELPER                  BY_HELPER
 *
 * A program that takes frame after frame itself is trusted to: its peers need wake nobody, and the helper looks in now and then.
 * One that lets frames lie loses that trust, and must take more frames each time to win it back. Frames that the helper takes in
 * break the row. Pure: no thread, no clock. */
#ifndef WEFT_RUNTIME_PROGRESS_H
#define WEFT_RUNTIME_PROGRESS_H

#include "base/list.h"
#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_TICK (1 * WTIME_MS)	/* how often the helper looks in on a program that polls */

enum progress_state { BY_HELPER, BY_POLLER, BY_SLEEPER, BY_POLLER_BESIDE_SLEEPER, PROGRESS_STATES };

struct progress {
	enum progress_state state;

	/* polls */
	wtime last_poll;	/* or 0 */
	wtime trusted_since;	/* or since a loss of trust was last forgotten */
	unsigned streak;	/* times in a row that the program took frames in, not the helper */
	unsigned needed;	/* a streak of this length earns trust */
	bool is_armed;		/* a CQ was armed, and few polls followed: it may sleep */
	unsigned armed_polls;	/* polls since then */
	wtime left_at;		/* last_poll, when the helper left frames to the program */
	unsigned wakes, skipped;	/* wakes since it left frames in vain; so many pass before it leaves some again */

	/* the sleeper */
	uintptr_t sleeper;	/* lock_self() of it; 0: there is none */
	const struct list *events;	/* borrowed: what it waits for; NULL: it is gone */
	bool sleeper_looks;	/* it is awake, and looks at its events before it sleeps or leaves */
};

void progress_init(struct progress *p);

/* Does the program take frames in by its polls? */
static inline bool progress_is_polled(const struct progress *p)
{
	return p->state == BY_POLLER || p->state == BY_POLLER_BESIDE_SLEEPER;
}

/* True: peers that wake anybody wake the sleeper, not the helper. */
static inline bool progress_has_sleeper(const struct progress *p)
{
	return p->state == BY_SLEEPER || p->state == BY_POLLER_BESIDE_SLEEPER;
}

/* The program polled, and took frames in or found none. True: it is trusted from now on, so peers wake nobody any more, and the
 * helper must tick. */
bool progress_polled(struct progress *p, wtime now, bool took);
/* The program has polled often since somebody looked last: not every poll tells. */
void progress_seen(struct progress *p, wtime now);
/* The helper or the sleeper took frames in. */
void progress_helped(struct progress *p);
/* Did the program poll just now? */
bool progress_is_recent(const struct progress *p, wtime now);
/* Frames have woken the helper. True: the program polls, and most likely takes them if the helper sleeps a little. A helper that
 * shares the program's CPU would otherwise always be first, and the program would never earn trust. progress_left follows. */
bool progress_leaves(struct progress *p, wtime now);
/* The helper has slept; `pending`: frames lie waiting still. False: the program does not poll, and the helper takes them.
 * Then it leaves none for some wakes, twice as many each time. */
bool progress_left(struct progress *p, bool pending);
/* A tick of the helper while the program polls. True: the helper, or the sleeper, takes over; `pending`: frames lie waiting. */
bool progress_ticked(struct progress *p, wtime now, bool pending);
/* The program armed a CQ: it sleeps soon, most likely. */
static inline void progress_may_sleep(struct progress *p)
{
	p->is_armed = true;
	p->armed_polls = 0;
}

/* The same of a program that polls. */
void progress_armed(struct progress *p);
/* This thread begins to wait for these events. */
void progress_wait_begins(struct progress *p, uintptr_t thread, const struct list *events);
/* Its wait ends, or was cancelled. trust: it polled until it slept and got its events, so most likely it polls again. */
void progress_wait_ends(struct progress *p, wtime now, bool trust);
/* The sleeper goes to sleep: until progress_woke it looks at no event. */
void progress_sleeps(struct progress *p);
/* This thread has slept; another one may be the sleeper by now. */
void progress_woke(struct progress *p, uintptr_t thread);
/* The list of events is about to be destroyed. */
void progress_forget_events(struct progress *p, const struct list *events);
/* In the child. */
void progress_forked(struct progress *p);

#endif
