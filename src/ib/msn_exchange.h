/* The starting MSN, exchanged by the adapters (MSN-42): before its first request a requester tells the number it drew, in an
 * acknowledge packet with the AETH's reserved syndrome, and waits until its peer has answered with the same. Both are sent
 * again like any packet: by the ACK timer, within the retries. Adapters that know nothing of it ignore that syndrome. */
#ifndef WEFT_IB_MSN_EXCHANGE_H
#define WEFT_IB_MSN_EXCHANGE_H

#include "verbs/qp.h"

/* The send queue opens: draws the number. */
void msn_exchange_open(struct qp *qp);
/* Tells it, once there is something to send. */
bool msn_exchange_output(struct qp *qp, wtime now, struct packet_out *out);
/* Is this packet part of an exchange? Then it is for msn_exchange_input alone. */
bool msn_exchange_is_for(const struct qp *qp, const struct packet *p);
void msn_exchange_input(struct qp *qp, wtime now, const struct packet *p);
/* Makes the responder's acknowledgement say what was heard. */
void msn_exchange_say_heard(const struct qp *qp, struct packet *p);

#endif
