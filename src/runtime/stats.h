/* What this process counted, for weft run --stats: written when the process leaves its network. */
#ifndef WEFT_RUNTIME_STATS_H
#define WEFT_RUNTIME_STATS_H

#include "runtime/state.h"

/* Appends a line to the file of WEFT_STATS, if there is one: a JSON object with "pid", "program" and each counter. Nothing is
 * written when another thread keeps the lock. */
void stats_leave(struct runtime *rt);

#endif
