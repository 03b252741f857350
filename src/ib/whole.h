/* Whole messages: sends and writes that go to a peer of this host in one piece, over ca.direct. Such a message takes the
 * PSNs and the MSN of the packets it stands for, so the flight and the responder treat it as those, arrived together. */
#ifndef WEFT_IB_WHOLE_H
#define WEFT_IB_WHOLE_H

#include "ib/shortcut.h"
#include "verbs/direct.h"

/* The WQE that would begin now. `placed`: a write's bytes are at the target already. */
enum shortcut whole_send(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed);

/* So many bytes a message carries; more are pulled, of RC's sends alone. */
enum { WHOLE_CARRIES = 8128 };

/* For the table of transport operations. */
bool whole_collect(struct qp *qp, wtime now);

/* IBA 9.6.1.1 to 9.6.1.4, as for a packet; that the channel leads to the QP's peer stands for the addresses. */
bool whole_is_for(struct qp *qp, const void *channel, const struct direct_message *m);
void whole_input(struct qp *qp, wtime now, const struct direct_message *m);

#endif
