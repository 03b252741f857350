/* Leases: connections that `weft run` leaves open across exec, so that weftd stays while the program lives. They end with
 * weftd, so the next one waits for their programs instead. */
#ifndef WEFT_WEFTD_LEASES_H
#define WEFT_WEFTD_LEASES_H

#include "weftd/hub.h"

void leases_add(struct hub *h, struct client *c);
void leases_remove(struct hub *h, struct client *c);
/* The lease's program is at this port of the fabric from now on. */
void leases_place(struct hub *h, struct client *c, uint32_t port);
/* Leases of programs at ports of the fabric, awaited ones too, but for those whose process is at a port by itself. */
uint32_t leases_count_placed(const struct hub *h);

/* Those of the last weftd whose program lives are awaited, until leases_expire finds that it has ended. */
void leases_inherit(struct hub *h);
void leases_expire(struct hub *h);

#endif
