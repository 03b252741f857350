/* Unreliable datagrams: one packet a message, to any QP or to all members of a group. IBA 9.8.3. */
#ifndef WEFT_IB_UD_H
#define WEFT_IB_UD_H

#include "ib/direct_rma.h"
#include "verbs/ca.h"
#include "verbs/qp.h"

/* The WQE at the cursor as a packet, of raw packet QPs too. It is complete as soon as it left. */
bool ud_output(struct qp *qp, wtime now, const struct send_wqe *wqe, struct packet_out *out);

/* The WQE at the cursor as one direct message, to a process of this host; then it is complete. */
enum direct_outcome ud_take_directly(struct qp *qp, const struct send_wqe *wqe);
/* A datagram for this QP that came as one; its state was checked. */
void ud_message(struct qp *qp, const struct direct_message *m);

/* A datagram for this QP; its state was checked. What does not fit is dropped; what finds no receive may wait for one; a receive
 * whose memory is refused fails, and stops the QP. */
void ud_input(struct qp *qp, origin_t origin, const struct packet *p);

static inline void ud_count_drop(struct qp *qp)
{
	qp->ca->counters.dropped_datagrams++;
	qp->datagrams_dropped++;
}

/* The same of one that was accepted and does not wait. */
void ud_receive(struct qp *qp, const struct packet *p);

/* The receive that was taken fails by its own fault, and stops the QP: IBA 9.9.3. */
void ud_fail_receive(struct qp *qp, const struct recv_ref *ref, enum ibv_wc_status status);

/* A datagram for a group: every member of this device gets it, save the QP that sent it. */
void ud_multicast(struct ca *ca, const struct ca_device *dev, origin_t origin, const struct packet *p);

#endif
