#include "host/numbers.h"

#include "fabric/page.h"

#include <errno.h>
#include <stdlib.h>

enum {
	SLOT_INDICES = 4096,
	SLOT_NUMBERS = SLOT_INDICES - 1,	/* index 0 is never used: so 0 and 1 are no QP numbers of slot 0's like */
	RESTING = 256,				/* our choice: a number rests for at least as many allocations */
	MULTICAST_QPN = 0xffffff,		/* IBA 3.5.3, 9.2.2 */
};

void numbers_init(struct numbers *n)
{
	*n = (struct numbers){ 0 };
}

void numbers_fini(struct numbers *n)
{
	free(n->line);
}

static int make_room(struct numbers *n, uint32_t more)
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

int numbers_add_slot(struct numbers *n, struct rand *rand, uint32_t slot)
{
	uint32_t *fresh;

	if (make_room(n, SLOT_NUMBERS))
		return -ENOMEM;
	fresh = n->line + n->count;
	for (uint32_t i = 0; i < SLOT_NUMBERS; i++) {
		uint32_t other = (uint32_t)rand_below(rand, i + 1);

		fresh[i] = fresh[other];
		fresh[other] = slot * SLOT_INDICES + i + 1;
	}
	n->count += SLOT_NUMBERS;
	return 0;
}

bool numbers_low(const struct numbers *n)
{
	return n->count <= RESTING;
}

int numbers_take(struct numbers *n, uint32_t *qpn)
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

void numbers_give(struct numbers *n, uint32_t qpn)
{
	n->line[(n->first + n->count++) % n->room] = qpn;
}
