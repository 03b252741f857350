/* Threads that sleep until events come, and take in meanwhile what peers send: one at a time is the sleeper
 * (runtime/progress.h). */
#ifndef WEFT_RUNTIME_WAIT_H
#define WEFT_RUNTIME_WAIT_H

#include "base/list.h"

#include <stdbool.h>

struct runtime;

/* What each runtime needs for it. 0, or -errno: EAGAIN, as the program has all keys of thread-specific data. */
int wait_init(struct runtime *rt);
void wait_fini(struct runtime *rt);

/* Between runtime_enter and runtime_leave: sleeps until `events` is not empty, with the lock given back, and takes in by itself
 * what peers send meanwhile, without the helper thread's help. 0: there are some, none of them announced (below); -EINTR: a
 * signal's handler ended it; -EAGAIN: they are announced, or this thread cannot be the sleeper now: it shall sleep on what
 * announces them; -ECANCELED: forgotten. The caller has cancellation disabled, and cancel_state is what it was: in its sleep the
 * thread can be cancelled then. */
int runtime_wait(struct runtime *rt, const struct list *events, int cancel_state);
/* An event was raised. False: it must be announced. True: the sleeper looks at once. Under the lock. */
bool runtime_wake_sleeper(struct runtime *rt, const struct list *events);
/* The list of events is about to be destroyed: its sleeper ends with -ECANCELED. Under the lock. */
void runtime_forget_events(struct runtime *rt, const struct list *events);

#endif
