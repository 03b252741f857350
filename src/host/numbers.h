/* The QP numbers of this process: 4095 indices of each slot it owns, given out in an order that cannot be guessed and
 * taken back at the far end of the line, so that a number comes back as late as possible. */
#ifndef WEFT_HOST_NUMBERS_H
#define WEFT_HOST_NUMBERS_H

#include "base/rand.h"

#include <stdint.h>

struct numbers {
	uint32_t *line;			/* owned: free QP numbers, a ring of `room` */
	uint32_t room, first, count;
};

void numbers_init(struct numbers *n);
void numbers_fini(struct numbers *n);

/* The slot's numbers join the line, shuffled. 0 or -ENOMEM. */
int numbers_add_slot(struct numbers *n, struct rand *rand, uint32_t slot);

/* Too few are left for numbers to rest before they are used again: ask for a slot. */
bool numbers_low(const struct numbers *n);

/* 0 and *qpn, or -ENOMEM. */
int numbers_take(struct numbers *n, uint32_t *qpn);
void numbers_give(struct numbers *n, uint32_t qpn);

#endif
