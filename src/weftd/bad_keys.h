/* What processes tell of packets with a bad key (CTL_BAD_KEY): ports of the fabric count it, and the subnet manager gets
 * a trap. */
#ifndef WEFT_WEFTD_BAD_KEYS_H
#define WEFT_WEFTD_BAD_KEYS_H

#include "weftd/hub.h"

void bad_keys_input(struct hub *h, struct client *c, const struct control_msg *msg);

#endif
