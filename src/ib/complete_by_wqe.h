/* The option complete=wqe: the adapter does not remember where messages end and reads the send WQE at each ACK instead. It
 * serves comparison only: MSN-18. */
#ifndef WEFT_IB_COMPLETE_BY_WQE_H
#define WEFT_IB_COMPLETE_BY_WQE_H

#include "verbs/qp.h"

/* Packets were struck out of the flight: advances flight.wqe_completed. Counts the WQEs that it reads in ack_wqe_reads. */
void complete_by_wqe_advance(struct qp *qp);

#endif
