/* The files of ports/1/counters and ports/1/hw_counters in the trees of device files, written when somebody is about to read
 * them. A port of a fabric has what its performance management agent has, and no hw_counters; other devices have what programs
 * have sent, received and counted (weftd/loads.h). */
#ifndef WEFT_WEFTD_PORT_COUNTS_H
#define WEFT_WEFTD_PORT_COUNTS_H

#include "weftd/hub.h"

/* Into the tree of programs at this place of the fabric, PORT_NONE: of those that are nowhere in one. Of all devices (which = 0)
 * or of those of these bits, and the tree is there. 0 or -errno. */
int port_counts_write(const struct hub *h, uint32_t place, uint32_t which);

/* CTL_PORT_COUNTS. */
void port_counts_input(struct hub *h, struct client *c, const struct control_msg *msg);

#endif
