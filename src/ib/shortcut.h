/* Requests that need no packets, because their target is on this host: ca.direct executes them in send-queue order. */
#ifndef WEFT_IB_SHORTCUT_H
#define WEFT_IB_SHORTCUT_H

#include "ib/request.h"
#include "verbs/qp.h"

enum shortcut {
	SHORTCUT_NONE,	/* packets */
	SHORTCUT_LATER,	/* when what is in flight has been acknowledged */
	SHORTCUT_PART,	/* a part of it was executed: the rest in its next turn */
	SHORTCUT_DONE,	/* executed: the WQE has no PSN and completes now */
};

/* The WQE that would begin now. */
enum shortcut shortcut_take(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row);

#endif
