/* What the responder says: responses to reads and atomics in PSN order, then the acknowledgement that is due. */
#ifndef WEFT_IB_ACK_H
#define WEFT_IB_ACK_H

#include "verbs/qp.h"

/* A request was executed: the packet, the ACK mode or nobody asks for an ACK. */
void ack_if_asked(struct qp *qp, const struct packet *p, bool message_ended);
/* A duplicate: say again how far we are. */
void ack_again(struct qp *qp);
/* A NAK or RNR NAK for this PSN takes the place of what was due. */
void ack_refuse(struct qp *qp, psn_t psn, uint8_t syndrome);

#endif
