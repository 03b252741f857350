/* What tests that send frames by themselves do before: the product asks for a channel when a QP has something to send. */
#ifndef WEFT_TESTS_E2E_CHANNEL_H
#define WEFT_TESTS_E2E_CHANNEL_H

#include "runtime/entry.h"
#include "runtime/state.h"

#include <sched.h>

/* The channel to a slot's process, which is asked for and waited for. NULL: it is refused. Between runtime_enter and
 * runtime_leave; the runtime is left while it waits. */
static inline struct channel *channel_await(struct runtime *rt, uint32_t slot)
{
	struct channel *ch;

	while (!(ch = channel_to(&rt->peers.channels, slot)) && channel_comes(&rt->peers, slot)) {
		runtime_leave(rt);
		sched_yield();
		runtime_enter(rt);
	}
	return ch;
}

#endif
