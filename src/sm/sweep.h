/* The steps of a sweep, one after the other (sm.h). */
#ifndef WEFT_SM_SWEEP_H
#define WEFT_SM_SWEEP_H

#include "sm/sm.h"

/* The next step, if the last one is over and something is due. */
void sweep_go_on(struct sm *s, wtime now);
wtime sweep_deadline(const struct sm *s);
/* What is under way is none of this manager's business any more. */
void sweep_stop(struct sm *s);
/* Members of groups have changed: trees are to be written, at once where they grow. */
void sweep_trees(struct sm *s, bool shrinks);

/* A trap has come (14.2.5.1): its notice. */
void sweep_trap(struct sm *s, wtime now, const uint8_t notice[SMP_DATA_BYTES]);

#endif
