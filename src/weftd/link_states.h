/* Links that go down and come up when a command says so: of a device's port, for processes that are nowhere in a fabric, and of
 * a port of the fabric. One that is down for a time comes up by itself, also when another weftd has followed meanwhile. And paths
 * to other hosts that fail, and heal. */
#ifndef WEFT_WEFTD_LINK_STATES_H
#define WEFT_WEFTD_LINK_STATES_H

#include "weftd/hub.h"

/* CTL_LINK, CTL_LINK_FAULT, CTL_LINK_ERROR, CTL_PATH_CUT. */
void link_states_input(struct hub *h, struct client *c, const struct control_msg *msg);
void link_states_fault(struct hub *h, struct client *c, const struct control_msg *msg);
void link_states_error(struct hub *h, struct client *c, const struct control_msg *msg);
void link_states_cut(struct hub *h, struct client *c, const struct control_msg *msg);
/* What is due by now comes up. */
void link_states_expire(struct hub *h);
wtime link_states_deadline(const struct hub *h);

#endif
