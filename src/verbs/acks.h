/* Which QPs of an adapter await an ACK of direct messages, and which have put one off. Like ca.ready and ca.timers these lists
 * are of all transports of an adapter, whose owner asks once for all of them: the lists hold the order, and the transport
 * (message_ops) sends the ACK. */
#ifndef WEFT_VERBS_ACKS_H
#define WEFT_VERBS_ACKS_H

#include "base/list.h"

#include <stdbool.h>

struct ca;

struct message_acks {
	struct list unacked;	/* struct qp.unacked: direct messages without an ACK, their ACK timers run */
	struct list untimed;	/* struct qp.unacked: the same, their ACK timers do not run yet */
	struct list postponed;	/* struct qp.postponed: an ACK came with a peer's message */
	struct list withheld;	/* struct qp.withheld: an ACK of ours waits for the program's answer, or its next poll */
	bool starved;		/* the window of a QP with unacknowledged direct messages is full until an ACK is read */
	bool postpones;		/* the program polls: the ACKs in peers' messages take effect when it polls next, and ours
				 * wait for that */
};

void message_acks_init(struct message_acks *acks);

/* What is withheld is to be sent now. True: there was some. */
bool ca_release_acks(struct ca *ca);

#endif
