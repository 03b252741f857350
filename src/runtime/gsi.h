/* QP1 of this process: general management packets for a port of this host go to weftd, the owner of its QP1 (mgmt/gmp.h), those
 * for other hosts' ports by their route's link; all that come, come from weftd. They are frames of slot 0: with impairment or a
 * trace they pass the stage as all others (faults.h), with 0 as destination or origin. What has come waits for the helper
 * thread, which hands it to the connection manager without the lock. */
#ifndef WEFT_RUNTIME_GSI_H
#define WEFT_RUNTIME_GSI_H

#include "mgmt/gmp.h"

struct runtime;

enum { GSI_ARRIVED = 64 };	/* our choice: what one look of the stage lets through at most; more is lost, and sent again */

struct gsi {
	struct gmp arrived[GSI_ARRIVED];
	uint32_t first, count;		/* a ring */
};

/* Not under the lock. Lost when weftd is away or does not read, and counted when no route leads to the address. */
void gsi_send(struct runtime *rt, const struct gmp *gmp);
/* A frame from weftd for this device, as it came: passes the stage. Not under the lock. */
void gsi_receive(struct runtime *rt, int device, const void *frame, size_t bytes);
/* What has come, oldest first. Not under the lock. */
bool gsi_take(struct runtime *rt, struct gmp *gmp);

/* The two ends of the stage, under the lock: a frame for weftd; one for QP1 here, which is checked as a UD QP checks it, or for
 * a UD QP. `kind` is a link_kind of a device that there is. */
void gsi_send_frame(struct runtime *rt, unsigned kind, const void *frame, size_t bytes);
void gsi_deliver(struct runtime *rt, unsigned kind, const void *frame, size_t bytes);
/* Is this packet of a UD QP, whose route is weftd's, one for QP1? Others are for nobody. */
bool gsi_is_for_qp1(const struct packet *p);
/* It is, and has no stage to pass. Under the lock. */
void gsi_send_packet(struct runtime *rt, unsigned kind, const struct packet *p);

#endif
