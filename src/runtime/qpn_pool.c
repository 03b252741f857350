#include "runtime/qpn_pool.h"

#include "base/qpn.h"
#include "wire/addr.h"

#include <errno.h>
#include <stdlib.h>

enum {
	SLOT_NUMBERS = QPN_INDICES - 1,	/* index 0 is never used: slot 0 has no QP0 and no QP1 */
	RESTING = 256,				/* our choice: a number rests for at least as many allocations */
};

void qpn_pool_init(struct qpn_pool *n)
{
	*n = (struct qpn_pool){ 0 };
}

void qpn_pool_fini(struct qpn_pool *n)
{
	free(n->line);
}

static int make_room(struct qpn_pool *n, uint32_t more)
{
	uint32_t room = n->room + more;
	uint32_t *line = malloc(room * sizeof(*line));

	if (!line)
		return -ENOMEM;
	for (uint32_t i = 0; i < n->count; i++)
		line[i] = n->line[(n->first + i) % n->room];
	free(n->line);
	n->line = line;
	n->room = room;
	n->first = 0;
	return 0;
}

int qpn_pool_add_slot(struct qpn_pool *n, struct rand *rand, uint32_t slot)
{
	uint32_t *fresh;

	if (make_room(n, SLOT_NUMBERS))
		return -ENOMEM;
	fresh = n->line + n->count;
	for (uint32_t i = 0; i < SLOT_NUMBERS; i++) {
		uint32_t other = (uint32_t)rand_below(rand, i + 1);

		fresh[i] = fresh[other];
		fresh[other] = qpn_make(slot, i + 1);
	}
	n->count += SLOT_NUMBERS;
	return 0;
}

bool qpn_pool_low(const struct qpn_pool *n)
{
	return n->count <= RESTING;
}

int qpn_pool_take(struct qpn_pool *n, uint32_t *qpn)
{
	uint32_t next;

	do {
		if (n->count == 0)
			return -ENOMEM;
		next = n->line[n->first];
		n->first = (n->first + 1) % n->room;
		n->count--;
	} while (next == MULTICAST_QPN);
	*qpn = next;
	return 0;
}

void qpn_pool_give(struct qpn_pool *n, uint32_t qpn)
{
	n->line[(n->first + n->count++) % n->room] = qpn;
}
