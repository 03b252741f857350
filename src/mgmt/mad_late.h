/* MADs that slow links have not let through yet, until they are due. Of this room alone. */
#ifndef WEFT_MGMT_MAD_LATE_H
#define WEFT_MGMT_MAD_LATE_H

#include "mgmt/mad_clients.h"

struct mad_late {
	struct timer_heap_node timer;	/* mad_clients.late */
	enum mad_fate fate;
	uint32_t from;			/* whose place in late_from it has */
	struct mad_coming at;
	uint8_t mad[MAD_BYTES];
};

/* fate: what has become of what the port `from` has sent, if that is known. Lost where there is no room. */
void mad_late_put(struct mad_clients *c, enum mad_fate fate, uint32_t from, const struct mad_coming *at,
		  const uint8_t mad[MAD_BYTES]);
/* One that is there; it is the caller's. NULL: none is. */
struct mad_late *mad_late_take(struct mad_clients *c, wtime now);
void mad_late_fini(struct mad_clients *c);

#endif
