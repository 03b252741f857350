/* What tests that send frames by themselves do before: the product asks for a channel when a QP has something to send. */
#ifndef WEFT_TESTS_E2E_CHANNEL_H
#define WEFT_TESTS_E2E_CHANNEL_H

#include "runtime/runtime.h"

#include <sched.h>

/* The channel to a slot's process, which is asked for and waited for. NULL: it is refused. Between host_enter and host_leave; the
 * host is left while it waits. */
static inline struct channel *channel_await(struct host *h, uint32_t slot)
{
	struct channel *ch;

	while (!(ch = channel_to(&h->peers.channels, slot)) && channel_comes(&h->peers, slot)) {
		host_leave(h);
		sched_yield();
		host_enter(h);
	}
	return ch;
}

#endif
