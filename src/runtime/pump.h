/* The pump: packets from the engines to the links, and frames from the links to the engines. It drives links (link/links.h),
 * and of channels knows the messages that their links carry besides. All under the lock. */
#ifndef WEFT_RUNTIME_PUMP_H
#define WEFT_RUNTIME_PUMP_H

#include "runtime/runtime.h"

enum { PUMP_FRAMES = 1024 };	/* at most per entry, so that the lock is free again within a millisecond */
/* Sends what is ready, and takes in what comes back through the loop. */
void pump_out(struct host *h);
/* Would it find anything to do? */
static inline bool pump_has_output(const struct host *h)
{
	return !list_empty(&h->ca.ready) || link_pending(h->peers.channels.loop->link);
}
/* Takes in what arrived on all links and runs timers, then as pump_out. True: more may be there. */
bool pump(struct host *h, wtime now);
/* As pump, and sees what peers have executed. */
bool pump_all(struct host *h, wtime now);
/* When pump has something to do even if nothing arrives. */
wtime pump_deadline(const struct host *h);
/* Did anything arrive? Costs a load or two for each watched link; links that must be asked are not. */
bool pump_pending(const struct host *h);
/* The same, and asks those. */
bool pump_look(struct host *h);
/* From now on peers wake whoever listens. False: something arrived, pump first. */
bool pump_may_sleep(struct host *h);
void pump_awake(struct host *h);

/* A built frame leaves by the link, NULL: is dropped; a received one goes to the parser and the engine. */
void pump_send_frame(struct host *h, struct link *l, unsigned kind, const void *frame, size_t bytes);
void pump_deliver(struct host *h, origin_t origin, unsigned kind, const void *frame, size_t bytes);
/* Wakes the processes to which something was sent, or that may wait for what we executed. */
void pump_flush(struct host *h);

#endif
