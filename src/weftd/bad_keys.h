/* What processes tell of packets with a bad key (CTL_BAD_KEY): ports of the fabric count it, and the subnet manager gets
 * a trap. */
#ifndef WEFT_WEFTD_BAD_KEYS_H
#define WEFT_WEFTD_BAD_KEYS_H

#include "weftd/hub.h"

/* Our choice: messages of a process in a second of which the manager hears; a process that sends by one way tells 600 times. Of
 * those beyond, ports count the packets. */
enum { BAD_KEYS_TOLD = 1024 };

void bad_keys_input(struct hub *h, struct client *c, const struct control_msg *msg);

#endif
