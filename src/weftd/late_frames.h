/* Packets of QP1 between processes that slow links of the fabric have not let through yet (subnet_carry), until they are due. */
#ifndef WEFT_WEFTD_LATE_FRAMES_H
#define WEFT_WEFTD_LATE_FRAMES_H

#include "weftd/hub.h"

/* Our choice: of one process; what it sends beyond that is lost. */
enum { LATE_FRAMES = 256 };

/* As qp1_send, at `due`. */
int late_frames_send(struct hub *h, struct client *from, struct client *to, uint32_t device, wtime due, const void *frame,
		     size_t bytes);
/* What is for a client that leaves is lost; what it has sent is on its way. */
void late_frames_leave(struct hub *h, struct client *c);

void late_frames_expire(struct hub *h);
wtime late_frames_deadline(const struct hub *h);

#endif
