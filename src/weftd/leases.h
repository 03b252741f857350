/* Leases: connections that `weft run` leaves open across exec, so that weftd stays while the program lives. They end with
 * weftd, so the next one waits for their programs instead. */
#ifndef WEFT_WEFTD_LEASES_H
#define WEFT_WEFTD_LEASES_H

#include "weftd/hub.h"

void leases_add(struct hub *h, struct client *c);
void leases_remove(struct hub *h, struct client *c);

/* Those of the last weftd whose program lives are awaited, until leases_expire finds that it has ended. */
void leases_inherit(struct hub *h);
void leases_expire(struct hub *h);

#endif
