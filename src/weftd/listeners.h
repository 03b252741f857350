/* Who answers CM requests for which service id. */
#ifndef WEFT_WEFTD_LISTENERS_H
#define WEFT_WEFTD_LISTENERS_H

#include "weftd/hub.h"

void listeners_add(struct hub *h, struct client *c, const struct control_msg *msg);
void listeners_remove(struct hub *h, struct client *c, const struct control_msg *msg);
void listeners_leave(struct hub *h, struct client *c);

/* Does somebody else listen where a listener at this triple would, be it at a wildcard? device as in CTL_LISTEN. */
bool listeners_others_hear(struct hub *h, const struct client *c, uint64_t service, uint32_t device, const uint8_t gid[16]);

/* The process that answers a request for this service arriving at the port of this index for this destination: the listener that
 * names most of them exactly, of those at this place in the fabric, at none (PORT_NONE), or LISTENERS_ANYWHERE. NULL: nobody. */
enum { LISTENERS_ANYWHERE = 1u << 31 };	/* no fabric has so many ports */
struct client *listeners_find(struct hub *h, uint64_t service, uint32_t place, uint32_t device, const uint8_t dgid[16]);

#endif
