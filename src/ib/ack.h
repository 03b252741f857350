/* What the responder says: responses to reads and atomics in PSN order, then the acknowledgement that is due. */
#ifndef WEFT_IB_ACK_H
#define WEFT_IB_ACK_H

#include "verbs/qp.h"

/* A request was executed: its packet asks for an ACK, the ACK mode does, or nobody. */
void ack_if_asked(struct qp *qp, bool asked, bool message_ended);
/* A duplicate: say again how far we are. */
void ack_again(struct qp *qp);
/* A NAK or RNR NAK for this PSN takes the place of what was due. */
void ack_refuse(struct qp *qp, psn_t psn, uint8_t syndrome);

#endif
