/* Growing, and removing so that the QPs behind are still found: the hole is filled with one of them until the next free place. */
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>

enum {
	/* Our choice: then the first place is nearly always the right one, and who looks for a QP need not guess. 64 to 128 bytes
	 * are little beside a QP. With two places a lookup among 1000 QPs takes 4 ns instead of 1. */
	PLACES_PER_QP = 8,
	FIRST_SHIFT = 32 - 6,		/* places for the few QPs that most adapters have */
};

static struct qp **places_new(uint32_t shift)
{
	return calloc((size_t)1 << (32 - shift), sizeof(struct qp *));
}

int qp_table_init(struct qp_table *t)
{
	*t = (struct qp_table){ .place = places_new(FIRST_SHIFT), .shift = FIRST_SHIFT };
	return t->place ? 0 : -ENOMEM;
}

void qp_table_fini(struct qp_table *t)
{
	free(t->place);
	t->place = NULL;
}

static void put(struct qp_table *t, struct qp *qp)
{
	uint32_t at = qp_table_home(t, qp->qpn);

	while (t->place[at])
		at = qp_table_after(t, at);
	t->place[at] = qp;
}

static int grow(struct qp_table *t)
{
	struct qp_table next = { .place = places_new(t->shift - 1), .count = t->count, .shift = t->shift - 1 };

	if (!next.place)
		return -ENOMEM;
	for (uint32_t i = 0; i <= UINT32_MAX >> t->shift; i++)
		if (t->place[i])
			put(&next, t->place[i]);
	free(t->place);
	*t = next;
	return 0;
}

int qp_table_insert(struct qp_table *t, struct qp *qp)
{
	if (t->count >= (1u << (32 - t->shift)) / PLACES_PER_QP && grow(t) < 0)
		return -ENOMEM;
	put(t, qp);
	t->count++;
	return 0;
}

/* May the QP at `at` stand at `hole`, which is before it? Only when its home is not between the two. */
static bool may_move(const struct qp_table *t, uint32_t at, uint32_t hole)
{
	uint32_t mask = UINT32_MAX >> t->shift, home = qp_table_home(t, t->place[at]->qpn);

	return ((at - home) & mask) >= ((at - hole) & mask);
}

void qp_table_remove(struct qp_table *t, const struct qp *qp)
{
	uint32_t hole = qp_table_home(t, qp->qpn);

	while (t->place[hole] != qp) {
		if (!t->place[hole])
			return;
		hole = qp_table_after(t, hole);
	}
	for (uint32_t at = qp_table_after(t, hole); t->place[at]; at = qp_table_after(t, at))
		if (may_move(t, at, hole)) {
			t->place[hole] = t->place[at];
			hole = at;
		}
	t->place[hole] = NULL;
	t->count--;
}
