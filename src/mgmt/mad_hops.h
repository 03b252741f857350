/* MADs that are to be sent, in turn. Of this room alone. */
#ifndef WEFT_MGMT_MAD_HOPS_H
#define WEFT_MGMT_MAD_HOPS_H

#include "mgmt/mad_clients.h"

enum { MAD_CARRIED_MOST = 1024 };	/* of one call: our choice */

struct mad_hop {
	struct list_node node;		/* mad_clients.hops */
	uint32_t from;
	struct mad_remote to;
	uint8_t mad[MAD_BYTES];
};

/* Lost when there is no memory, as on any network. */
void mad_hop_put(struct mad_clients *c, uint32_t from, const struct mad_remote *to, const uint8_t mad[MAD_BYTES]);
/* The first one; it is the caller's. NULL: there is none. */
struct mad_hop *mad_hop_take(struct mad_clients *c);

#endif
