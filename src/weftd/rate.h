/* How much weftd does for others in a second. */
#ifndef WEFT_WEFTD_RATE_H
#define WEFT_WEFTD_RATE_H

#include "base/time.h"

#include <stdbool.h>

/* All zero at first. */
struct rate {
	wtime from;		/* when this second began */
	uint32_t taken;		/* since then */
};

/* Takes one more, unless this second has had the most that it may. */
static inline bool rate_allows(struct rate *r, wtime now, uint32_t most)
{
	if (now - r->from >= WTIME_S)
		*r = (struct rate){ .from = now };
	return r->taken++ < most;
}

#endif
