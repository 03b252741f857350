/* Multicast groups: who has joined, published in the fabric page for senders to read. */
#ifndef WEFT_WEFTD_MCAST_H
#define WEFT_WEFTD_MCAST_H

#include "weftd/hub.h"

void mcast_input(struct hub *h, struct client *c, const struct control_msg *msg);
void mcast_leave(struct hub *h, struct client *c);
/* For joins.c: what the process joined last by its port is taken back, false: it has left; the LID of a group is this one. */
bool mcast_take_back(struct hub *h, struct client *c, int i, bool sends);
void mcast_set_lid(struct fabric_page *p, int i, uint16_t mlid);
/* The process whose first slot this is has joined nothing, whatever the page says. */
void mcast_forget(struct hub *h, uint32_t slot);
/* At the start: groups of the last weftd that are without members are over. */
void mcast_inherit(struct hub *h);

#endif
