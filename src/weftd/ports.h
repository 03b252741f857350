/* The port space of rdma_cm, which the kernel keeps for the whole host, and weftd for each port of a fabric: a service id is a
 * port space prefix and a 16-bit port, and a process reserves it before it listens or connects. */
#ifndef WEFT_WEFTD_PORTS_H
#define WEFT_WEFTD_PORTS_H

#include "weftd/hub.h"

void ports_add(struct hub *h, struct client *c, const struct control_msg *msg);
void ports_remove(struct hub *h, struct client *c, const struct control_msg *msg);
void ports_leave(struct hub *h, struct client *c);

/* Ports below 1024 of rdma_cm's port spaces are root's, as the kernel's rdma_cm asks for CAP_NET_BIND_SERVICE there. */
bool ports_may_use(struct hub *h, const struct client *c, uint64_t service);

/* Has somebody else reserved the port at an address that overlaps with this one? */
bool ports_others_hold(struct hub *h, const struct client *c, uint64_t service, const uint8_t gid[16]);

/* c begins to listen there: from now on nobody else may reserve it, reuse or not. 0; -EADDRINUSE when the port is reserved at
 * an overlapping address by somebody else, or by c once more. */
int ports_listen(struct hub *h, struct client *c, uint64_t service, const uint8_t gid[16]);
void ports_unlisten(struct hub *h, struct client *c, uint64_t service, const uint8_t gid[16]);

#endif
