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

/* For other hosts, by the addresses that they are from. */
enum { RATE_SOURCES = 256 };	/* our choice: those that have the same place share what is theirs */

struct rates {
	struct rate source[RATE_SOURCES], all;
};

/* The same for each source, whose secret hash this is, and for all: who asks too much takes nothing from others. */
static inline bool rates_allow(struct rates *r, wtime now, uint64_t hash, uint32_t each, uint32_t all)
{
	return rate_allows(&r->source[hash % RATE_SOURCES], now, each) && rate_allows(&r->all, now, all);
}

#endif
