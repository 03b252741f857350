/* Whose datagrams an agent has: how many of each LID were delivered to it and not given back, so that one sender does not fill
 * what the agent's program has not read. Programs read in order: what they give back is the oldest. Of this room alone. */
#ifndef WEFT_MGMT_MAD_SOURCES_H
#define WEFT_MGMT_MAD_SOURCES_H

#include <stdint.h>

enum { MAD_SOURCES = 256 };	/* our choice: LIDs that are alike modulo so many count as one */

struct mad_sources {
	uint16_t *lid;		/* owned: a ring of so many places, a power of 2 */
	uint32_t places, first, count;
	uint32_t of[MAD_SOURCES];
};

/* s may be NULL: it has none. */
uint32_t mad_sources_of(const struct mad_sources *s, uint16_t lid);
/* *s is made with the first one. Without memory a datagram is not counted. */
void mad_sources_add(struct mad_sources **s, uint16_t lid);
/* The oldest one was given back; s may be NULL, or have none. */
void mad_sources_take(struct mad_sources *s);
void mad_sources_free(struct mad_sources *s);

#endif
