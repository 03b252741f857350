/* A requester's four timers: of ACKs, of probes, of reordered packets and of RNR NAKs. Others report what happened, and timer.c
 * sets the deadlines; requester_expire acts on them and counts retries. flight.c takes back those of a flight that ends. */
#ifndef WEFT_IB_TIMER_H
#define WEFT_IB_TIMER_H

#include "verbs/qp.h"

void timer_open(struct qp *qp);				/* nothing was sent yet */
void timer_packet_sent(struct qp *qp, wtime now);
void timer_start(struct qp *qp, wtime now);		/* something is under way; nothing happens if the timer runs */
/* Something got through, and what is still under way has no timer until timer_packet_sent or timer_start. */
void timer_pause(struct qp *qp);
void timer_progress(struct qp *qp, wtime now);		/* the peer got something it had not */
void timer_went_back(struct qp *qp, wtime now);		/* a NAK: packets are to be sent again */
void timer_receiver_not_ready(struct qp *qp, wtime now, unsigned rnr_code);

void timer_rearm(struct qp *qp);			/* packets may be lost at another time than before */

enum timer_event { TIMER_NONE, TIMER_ACK_TIMEOUT, TIMER_RNR_OVER, TIMER_PROBE, TIMER_REORDERED };
/* Which timer is due? It is disarmed; the probe's runs again. */
enum timer_event timer_expired(struct qp *qp, wtime now);

#endif
