/* Multicast groups: who has joined, published in the fabric page for senders to read. */
#ifndef WEFT_WEFTD_MCAST_H
#define WEFT_WEFTD_MCAST_H

#include "weftd/hub.h"

void mcast_input(struct hub *h, struct client *c, const struct control_msg *msg);
void mcast_leave(struct hub *h, struct client *c);
/* The process whose first slot this is has joined nothing, whatever the page says. */
void mcast_forget(struct fabric_page *p, uint32_t slot);

#endif
