/* The longest packets that pass between this host and another one. What the kernel knows of a path is what routers tell, and many
 * a tunnel drops long packets without a word. So who connects asks first (CTL_PATH_MTU): weftd asks the weftd there, by pings
 * (pings.h) of each length that a path MTU may have, and says after a round trip which is the longest that came back. Who is no
 * weftd answers none of them, and then what was asked for stands. An answer holds for some seconds, and processes that ask at
 * once are one question. */
#ifndef WEFT_WEFTD_PROBES_H
#define WEFT_WEFTD_PROBES_H

#include "mgmt/ping.h"
#include "weftd/hub.h"

/* CTL_PATH_MTU. */
void probes_input(struct hub *h, struct client *c, const struct control_msg *msg);
void probes_leave(struct hub *h, const struct client *c);
/* An answer to a ping. False: it answers no probe. */
bool probes_answered(struct hub *h, const struct ping *ping);
void probes_expire(struct hub *h);
wtime probes_deadline(const struct hub *h);
void probes_free(struct hub *h);

#endif
