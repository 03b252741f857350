/* Impairment and tracing, between the pump and the links. There is one when the user asked for either (WEFT_IMPAIR,
 * WEFT_TRACE), otherwise h->faults is NULL and frames pass by. Under the lock. */
#ifndef WEFT_HOST_FAULTS_H
#define WEFT_HOST_FAULTS_H

#include "host/control.h"
#include "link/impair.h"

struct host;
struct recorder;

/* Sets h->faults as the environment says. 0 or -errno, then the reason was logged. */
int faults_create(struct host *h);
void faults_destroy(struct host *h);

/* The engine's packet for the process that owns the slot: goes through the stage instead of to the link. */
void faults_send(struct host *h, uint32_t slot, const struct packet *p);
/* A frame from a link goes through the stage instead of to the parser. */
void faults_receive(struct host *h, enum packet_form form, const void *frame, size_t bytes);
/* CM messages go through the stage too (mads.h): one for weftd, and one from it, that faults_next_mad gives back. */
void faults_send_mad(struct host *h, const struct control_msg *msg);
void faults_receive_mad(struct host *h, const struct control_msg *msg);
bool faults_next_mad(struct host *h, struct control_msg *msg);
/* Passes on what is due in this direction. How many. */
unsigned faults_run(struct host *h, enum impair_direction direction);
/* When something will be due, or WTIME_NEVER. */
wtime faults_deadline(const struct host *h);

/* What host/recorder.c writes with. */
struct recorder *faults_recorder(struct host *h);
/* Writes the trace out. */
void faults_flush(struct host *h);
/* The process ends, other threads may be inside: if it is safe, sends what is on its way, at once, and writes the trace out. */
void faults_leave(struct host *h);

#endif
