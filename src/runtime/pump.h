/* The pump: packets from the engines to the links, and frames from the links to the engines. It drives links (link/links.h),
 * and of channels knows the messages that their links carry besides. All under the lock. */
#ifndef WEFT_RUNTIME_PUMP_H
#define WEFT_RUNTIME_PUMP_H

#include "runtime/faults.h"
#include "runtime/state.h"

enum { PUMP_FRAMES = 1024 };	/* at most per entry, so that the lock is free again within a millisecond */
/* Sends what is ready, and takes in what comes back through the loop. */
void pump_out(struct runtime *rt);
/* Would it find anything to do? */
static inline bool pump_has_output(const struct runtime *rt)
{
	return !list_empty(&rt->ca.ready) || link_pending(rt->peers.channels.loop->link);
}
/* Takes in what arrived on all links and runs timers, then as pump_out. True: more may be there. */
bool pump(struct runtime *rt, wtime now);
/* As pump, and sees what peers have executed. */
bool pump_all(struct runtime *rt, wtime now);
/* Takes in short messages of the first channel that has some, until the CQ, which is polled, has what it waits for. False: there
 * is something else, and it is pump's. */
bool pump_take_short(struct runtime *rt, const struct cq *cq);
/* When pump has something to do even if nothing arrives. */
static inline wtime pump_deadline(const struct runtime *rt)
{
	wtime engine = wtime_min(ca_deadline(&rt->ca), rt->peers.links.waiting ? rt->peers.channels.give_up_at : WTIME_NEVER);

	return rt->faults ? wtime_min(engine, faults_deadline(rt)) : engine;
}

/* Did anything arrive? Costs a load or two for each watched link; links that must be asked are not. */
static inline bool pump_pending(const struct runtime *rt)
{
	const struct channel_bells *bells = rt->peers.channels.bells;

	return (bells && bells_any(bells)) || links_pending(&rt->peers.links);
}
/* The same, and asks those. */
bool pump_look(struct runtime *rt);
/* From now on peers wake whoever listens. False: something arrived, pump first. */
bool pump_may_sleep(struct runtime *rt);
void pump_awake(struct runtime *rt);

/* The index (fabric/page.h) that a frame from this port says to its receiver: of its device, as the address tells which port it
 * is for; of a group's member's port its own, by its number. */
unsigned pump_index(const struct runtime *rt, const struct ca_device *dev, unsigned number);
/* A built frame, of the kind of the port that sends it, leaves by the link, NULL: is dropped, to a port as in pump_index; a
 * received one goes to the parser and the engine. */
void pump_send_frame(struct runtime *rt, struct link *l, unsigned kind, unsigned number, const void *frame, size_t bytes);
void pump_deliver(struct runtime *rt, origin_t origin, unsigned kind, const void *frame, size_t bytes);
/* Wakes the processes to which something was sent, or that may wait for what we executed. */
void pump_flush(struct runtime *rt);

#endif
