/* The QP numbers of this process: 4095 indices of each slot it owns, given out in an order that cannot be guessed and
 * taken back at the far end of the line, so that a number comes back as late as possible. */
#ifndef WEFT_RUNTIME_QPN_POOL_H
#define WEFT_RUNTIME_QPN_POOL_H

#include "base/rand.h"

#include <stdint.h>

struct qpn_pool {
	uint32_t *line;			/* owned: free QP numbers, a ring of `room` */
	uint32_t room, first, count;
};

void qpn_pool_init(struct qpn_pool *n);
void qpn_pool_fini(struct qpn_pool *n);

/* The slot's numbers join the line, shuffled. 0 or -ENOMEM. */
int qpn_pool_add_slot(struct qpn_pool *n, struct rand *rand, uint32_t slot);

/* Too few are left for numbers to rest before they are used again: ask for a slot. */
bool qpn_pool_low(const struct qpn_pool *n);

/* 0 and *qpn, or -ENOMEM. */
int qpn_pool_take(struct qpn_pool *n, uint32_t *qpn);
void qpn_pool_give(struct qpn_pool *n, uint32_t qpn);

#endif
