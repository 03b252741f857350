/* The connection manager of the process (ucm), as the runtime knows it. */
#ifndef WEFT_RUNTIME_CM_H
#define WEFT_RUNTIME_CM_H

#include "base/time.h"
#include "mgmt/gmp.h"

struct runtime;

/* To QP1 of a port. May be lost, as a datagram. */
void runtime_send_gmp(struct runtime *rt, const struct gmp *gmp);
/* Nobody listens where a connection was asked for: says once which other weftds its listener may be at. */
void runtime_tell_missing(struct runtime *rt);
/* What comes to QP1 and CTL_PEER_GONE go here, from the helper thread, without the lock. */
struct runtime_cm {
	void (*mad)(void *cm, wtime now, const struct gmp *gmp);
	void (*peer_gone)(void *cm, wtime now, uint32_t slot);
	wtime (*expire)(void *cm, wtime now);	/* runs what is due; returns the next deadline */
	void *cm;
};
void runtime_set_cm(struct runtime *rt, const struct runtime_cm *cm);
void runtime_cm_kick(struct runtime *rt);	/* the deadline became earlier */

#endif
