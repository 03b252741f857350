/* The QPs of an adapter by their numbers: open addressing. A QP stands at the place that the hash of its number names or, where
 * that is taken, at the first free place behind it; no free place lies between the two. Numbers come from slots of 4095, in
 * random order, so the hash spreads both whole slots and a few numbers of each. */
#ifndef WEFT_VERBS_QP_TABLE_H
#define WEFT_VERBS_QP_TABLE_H

#include <stdint.h>

struct qp;

struct qp_table {
	struct qp **place;	/* owned; NULL: free */
	uint32_t count;		/* QPs: at most one for eight places */
	uint32_t shift;		/* there are 1 << (32 - shift) places */
};

/* 0 or -ENOMEM. */
int qp_table_init(struct qp_table *t);
void qp_table_fini(struct qp_table *t);		/* the QPs are the caller's */

/* The QP's number must not be in yet. 0, or -ENOMEM: nothing changed. May allocate; nothing else here does. */
int qp_table_insert(struct qp_table *t, struct qp *qp);
/* Nothing happens when the QP is not in. */
void qp_table_remove(struct qp_table *t, const struct qp *qp);

/* The place that the hash names. 2^32 divided by the golden ratio (Knuth, volume 3, 6.4): neighbours land far apart. */
static inline uint32_t qp_table_home(const struct qp_table *t, uint32_t qpn)
{
	return qpn * 0x9e3779b1u >> t->shift;
}

static inline uint32_t qp_table_after(const struct qp_table *t, uint32_t place)
{
	return (place + 1) & (UINT32_MAX >> t->shift);
}

#endif
