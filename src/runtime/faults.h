/* Impairment and tracing (weft run --impair, --trace), between the pump and the links. There is one when the user asked for
 * either (WEFT_IMPAIR, WEFT_TRACE), otherwise rt->faults is NULL and frames pass by: one test of a pointer. Under the lock.
 *
 * A frame that leaves is built into memory and passes a lane of impair/impair.h, one for each device and direction, before the
 * link takes it; a frame that arrives passes the lane of the other direction before the parser. So do the frames of QP1, which
 * are weftd's: slot 0, origin 0 (runtime/gsi.h). With either, nothing goes directly: all is packets, with a wire's timeouts. So
 * it is with faults that weft impair gives to a process that runs: the fabric page tells all who deal with it (slot_packets).
 *
 * A capture (weft capture) has the frames that pass, of a process that runs; there too all is packets while it lasts.
 *
 * A trace also has each other entry into the engine: attributes, requests, receives, timers (runtime/recorder.h stands in its
 * table of operations). weft replay runs the same engine on it again and compares what it sends. */
#ifndef WEFT_RUNTIME_FAULTS_H
#define WEFT_RUNTIME_FAULTS_H

#include "impair/impair.h"

struct runtime;
struct recorder;
struct route;

/* Sets rt->faults as the environment says. 0 or -errno, then the reason was logged. */
int faults_create(struct runtime *rt);
void faults_destroy(struct runtime *rt);

/* From now on frames meet the faults of this text, which is impair/impair.h's, in place of what they met before; empty: none.
 * What waits in the stage is lost. A text that cannot be used is logged, and nothing changes. */
void faults_change(struct runtime *rt, const char *text);
/* The fabric has other links with faults, or we came to a host. */
void faults_look_at_links(struct runtime *rt);
/* What is in force, with its seed; empty: nothing. */
const char *faults_text(const struct runtime *rt);

/* The engine's packet of this device goes through the stage instead of to the link, to a port as in pump_index. What the stage
 * holds back takes the route that there is when it leaves. due: when it has passed slow links, of a group's packet, whose losses
 * were drawn before. */
void faults_send(struct runtime *rt, const struct route *r, const struct ca_device *dev, const struct packet *p, unsigned number,
		 wtime due);
/* As faults_send, a frame of a link_kind for QP1 where the route leads: to weftd, or another host. */
void faults_send_frame(struct runtime *rt, const struct route *r, unsigned kind, const void *frame, size_t bytes);
/* A frame from a link, of a link_kind, goes through the stage instead of to the parser. From weftd: origin 0. */
void faults_receive(struct runtime *rt, uint32_t origin, unsigned kind, const void *frame, size_t bytes);
/* Passes on what is due in this direction. How many. */
unsigned faults_run(struct runtime *rt, enum impair_direction direction);
/* When something will be due, or WTIME_NEVER. */
wtime faults_deadline(const struct runtime *rt);

/* From now on each frame that passes is written into this pipe too (runtime/tracer.h), which is the stage's; -1: no more. */
void faults_capture(struct runtime *rt, int pipe);

/* Do all frames meet the stage: for faults of this process, a trace or a capture? */
bool faults_meet_all(const struct runtime *rt);

/* What runtime/recorder.c writes with. */
struct recorder *faults_recorder(struct runtime *rt);
/* Those of devices, or NULL. */
struct device_faults *faults_of_devices(struct runtime *rt);
/* Writes the trace out, and what is captured. Where nobody reads that any more the stage may go (rt->faults). */
void faults_flush(struct runtime *rt);
/* The process ends, other threads may be inside: unless one stays there for a second, sends what is on its way, at once, and
 * writes the trace out. */
void faults_leave(struct runtime *rt);

#endif
