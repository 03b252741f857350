/* Who takes in what arrives: the program, while it polls, or the helper thread. A program that takes frame after frame
 * itself is trusted to: then its peers need not wake anybody, and the helper only looks in now and then. One that lets
 * frames lie loses that trust, and must take more frames each time to win it back. Times only: no thread, no clock. */
#ifndef WEFT_HOST_ATTENTION_H
#define WEFT_HOST_ATTENTION_H

#include "base/time.h"

#include <stdbool.h>

#define ATTENTION_TICK (1 * WTIME_MS)	/* how often the helper looks in on a program that polls */

struct attention {
	bool program_polls;	/* it is trusted */
	wtime last_poll;	/* or 0 */
	wtime since;		/* trusted since, or since a fault was last forgotten */
	unsigned streak;	/* times in a row that the program took frames in, not the helper */
	unsigned needed;	/* a streak of this length earns trust */
};

void attention_init(struct attention *a);

/* The program polled, and took frames in or found none. True when it has just earned trust: peers need not wake us any
 * more, and the helper must tick. */
bool attention_poll(struct attention *a, wtime now, bool took);

/* The helper took frames in. */
void attention_helped(struct attention *a);

/* Did it poll just now? */
bool attention_is_recent(const struct attention *a, wtime now);

/* A tick while program_polls. True when the helper must take over; `pending`: frames lie waiting. */
bool attention_tick(struct attention *a, wtime now, bool pending);

/* The program said that it will sleep. */
void attention_sleep(struct attention *a);

/* It polled until it slept, and is awake again: it is trusted as before. */
void attention_return(struct attention *a, wtime now);

#endif
