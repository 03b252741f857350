/* The helper thread, which takes in what arrives while no thread of the program does, and runs timers. */
#ifndef WEFT_RUNTIME_HELPER_H
#define WEFT_RUNTIME_HELPER_H

#include "runtime/state.h"

/* 0 or -errno. */
int helper_start(struct runtime *rt);
/* Waits for its end. */
void helper_stop(struct runtime *rt);
/* Has the helper look now. Any thread. */
void helper_kick(struct runtime *rt);

#endif
