/* Completion the old way: the adapter does not remember where messages end and reads the descriptor (the send WQE) at each
 * ACK instead. Only to compare with: MSN-18. */
#ifndef WEFT_IB_DESCRIPTOR_H
#define WEFT_IB_DESCRIPTOR_H

#include "verbs/qp.h"

/* Packets were struck out of the flight: takes flight.settled on. Counts what it reads in ack_wqe_reads. */
void descriptor_settle(struct qp *qp);

#endif
