/* Who takes in what arrives: the program, while it polls, or the helper thread. While the program is trusted to poll, its
 * peers need not wake anybody; the helper only looks in now and then. A program that lets frames lie loses that trust
 * for a while, longer each time. Times only: no thread and no clock in here. */
#ifndef WEFT_HOST_ATTENTION_H
#define WEFT_HOST_ATTENTION_H

#include "base/time.h"

#include <stdbool.h>

#define ATTENTION_TICK (1 * WTIME_MS)	/* how often the helper looks in on a program that polls */

struct attention {
	bool program_polls;
	wtime last_poll;	/* or 0 */
	wtime run_start;	/* first poll of an unbroken run of polls */
	wtime since;		/* trusted since, or since trust last grew */
	wtime trust_after;	/* a run of this length earns trust */
};

void attention_init(struct attention *a);

/* The program polls now. True when it has just earned trust: stop having yourself woken, start to tick. */
bool attention_poll(struct attention *a, wtime now);

/* A tick while program_polls. True when the helper must take over; `pending`: frames lie waiting. */
bool attention_tick(struct attention *a, wtime now, bool pending);

/* The program said that it will sleep. */
void attention_sleep(struct attention *a);

#endif
