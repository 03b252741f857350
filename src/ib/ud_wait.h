/* Datagrams of other processes of this host that find no receive wait for one. Their sender is as fast as memory: a program
 * whose turn on the CPU comes late would find its receives used up, the rest lost. Meanwhile the sender is asked to send the QP
 * no more (ca_ops.hold): what waits is at most what was on the way, and what is for other QPs passes.
 *
 * The wait has a bound, as datagrams are unreliable and their sender has others to send to. A QP has some patience. Waiting uses
 * it up, and each datagram that the QP receives gives back a little: a receiver that is always slow holds its sender up for a
 * small part of the time. Without patience a datagram that finds no receive is dropped at once, as is any of another host, of a
 * group, or for an SRQ. */
#ifndef WEFT_IB_UD_WAIT_H
#define WEFT_IB_UD_WAIT_H

#include "ib/engine.h"

struct ud_wait {
	struct list waiting;	/* of datagrams, the oldest first: the QP has no receive */
	wtime since, until;	/* until WTIME_NEVER: none waits */
	wtime patience;		/* what is left of it */
	uint64_t received;	/* qp.messages_received, when patience was reckoned last */
};

/* The datagram was accepted. True: it waits; false: it is to be received, or dropped, now. */
bool ud_wait_keep(struct qp *qp, origin_t origin, const struct packet *p);
/* Receives were announced, or the QP has some. */
void ud_wait_serve(struct qp *qp, wtime now);
/* The wait is over when ud_wait_deadline has come. */
void ud_wait_expire(struct qp *qp, wtime now);
static inline wtime ud_wait_deadline(const struct qp *qp)
{
	const struct ud_wait *w = engine_of(qp)->waiting;

	return w ? w->until : WTIME_NEVER;
}
/* What waits is dropped. */
void ud_wait_drop(struct qp *qp);
void ud_wait_fini(struct qp *qp);

#endif
