/* The completer: takes ACKs, NAKs and responses, strikes packets out of the flight, places what was read. */
#ifndef WEFT_IB_COMPLETER_H
#define WEFT_IB_COMPLETER_H

#include "verbs/qp.h"

/* A response packet for this QP; path and state were checked. */
void completer_input(struct qp *qp, wtime now, const struct packet *p);

/* An ACK: all up to PSN `through` were executed, if that can be true. Did something get through? `now` may be WTIME_NEVER, for a
 * time that was not asked: then the rest of the flight has no timer before direct_send_reap_acks starts it. */
bool completer_acknowledge(struct qp *qp, wtime now, psn_t through);

/* The same ACK, postponed: it takes effect in completer_ack_postponed. */
void completer_postpone_ack(struct qp *qp, psn_t through);
/* The postponed ACK, if there is one, takes effect. Did something get through, and the send queue did not stop at a completion
 * that overran its CQ? */
bool completer_ack_postponed(struct qp *qp);
/* The peer has promised to execute all up to this PSN, which is in flight: that ACK is postponed too. It takes effect only if the
 * peer keeps the promise, as far as can be seen then. */
void completer_trust(struct qp *qp, psn_t through);

#endif
