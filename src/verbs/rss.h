/* Receive side scaling: a raw packet QP without queues of its own, whose frames a hash spreads over receive work queues. Such
 * a work queue is a raw packet QP that only receives. */
#ifndef WEFT_VERBS_RSS_H
#define WEFT_VERBS_RSS_H

#include "verbs/flow.h"

enum { RSS_KEY_BYTES = 40, RSS_LOG_SIZE_MAX = 10 };

struct rss_table {
	uint32_t size;		/* power of two */
	uint32_t refs;		/* QPs */
	struct qp *wq[];	/* borrowed: they outlive the table (qp.flows) */
};

int rss_table_create(unsigned log_size, struct qp *const *wq, struct rss_table **table);
int rss_table_destroy(struct rss_table *table);		/* -EBUSY while QPs use it */

/* Makes a fresh QP, created with IBV_QP_INIT_ATTR_IND_TABLE, spread its frames: -EINVAL, -EOPNOTSUPP, -ENOMEM. */
int rss_attach(struct qp *qp, struct rss_table *table, const struct ibv_rx_hash_conf *conf);
void rss_detach(struct qp *qp);

/* Which of the table's queues the frame is for. */
struct qp *rss_pick(const struct qp *qp, const void *frame, size_t bytes);

/* A receive work queue's states by those of its QP: -EINVAL for a transition that does not exist. */
int rss_wq_modify(struct qp *wq, wtime now, enum ibv_wq_state state);

#endif
