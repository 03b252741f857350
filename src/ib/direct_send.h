/* Direct messages: sends, writes with immediate data and short writes to a peer of this host, over ca.direct: in one record, or
 * in parts of 2 MB when they are long. A message takes the PSNs and the MSN of the packets it stands for. The flight and the
 * responder treat it as those packets. */
#ifndef WEFT_IB_DIRECT_SEND_H
#define WEFT_IB_DIRECT_SEND_H

#include "ib/direct_rma.h"
#include "verbs/direct.h"

/* Sends the WQE that is next to begin. `placed`: a write's bytes are at the target already. */
enum direct_outcome direct_send_take(struct qp *qp, const struct send_wqe *wqe, const struct request_row *row, bool placed);

enum { DIRECT_EAGER_MAX = 8128 };	/* bytes; an RC send of more goes by rendezvous */

/* Is all executed that was completed since the peer had promised to take it? Asks the peer's word if need be. */
bool direct_send_is_executed(struct qp *qp);

/* message_ops.qp_send_short */
bool direct_send_post(struct qp *qp, const struct wqe_seg *seg, unsigned flags);

/* For the table of transport operations. */
bool direct_send_reap_acks(struct qp *qp, wtime now);

/* IBA 9.6.1.1 to 9.6.1.4, as for a packet: the QP takes such messages now; the channel leads to its peer, which stands for
 * the addresses. */
bool direct_send_is_for(const struct qp *qp, const struct direct_message *m);
bool direct_send_is_of_peer(struct qp *qp, const void *channel, const struct direct_message *m);
void direct_send_input(struct qp *qp, wtime now, const struct direct_message *m);
/* message_ops.qp_short */
bool direct_send_short_input(struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited);

#endif
