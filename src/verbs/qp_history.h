/* Why QPs of an adapter have stopped: the last of them, for people. */
#ifndef WEFT_VERBS_QP_HISTORY_H
#define WEFT_VERBS_QP_HISTORY_H

#include "base/time.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { QP_HISTORY = 4 };	/* our choice: an adapter is small */

struct qp_stop {
	wtime at;
	uint32_t qpn, dest_qpn;
	uint8_t device;
	bool is_request;		/* one of its own requests failed; otherwise it could not serve one of its peer */
	uint8_t opcode;			/* enum ibv_wr_opcode, of a request */
	enum ibv_wc_status status;
	uint64_t wr_id;			/* of a request */
	const char *cause, *next;	/* constant; next may be NULL */
};

struct qp_history {
	uint64_t stops;			/* that there were */
	struct qp_stop stop[QP_HISTORY];	/* the last ones, each at its number % QP_HISTORY */
};

static inline void qp_history_add(struct qp_history *h, const struct qp_stop *s)
{
	h->stop[h->stops++ % QP_HISTORY] = *s;
}

#endif
