/* What goes directly counts at the ports of a fabric as the packets that it would have been at the path MTU, and with one
 * acknowledgement or response a request. Nothing is counted, and one word is read, where the QP's route has no way. */
#ifndef WEFT_IB_DIRECT_LOAD_H
#define WEFT_IB_DIRECT_LOAD_H

#include "verbs/qp.h"
#include "wire/opcode.h"

void direct_load_tell(struct qp *qp, enum opcode_op op, unsigned trailer, uint64_t bytes);
void direct_load_tell_immediate(struct qp *qp);

/* The QP's request was executed, or its message sent. */
static inline void direct_load_count(struct qp *qp, enum opcode_op op, unsigned trailer, uint64_t bytes)
{
	if (__builtin_expect(qp->route.way != 0, 0))
		direct_load_tell(qp, op, trailer, bytes);
}

/* Its write, which was counted, had immediate data. */
static inline void direct_load_count_immediate(struct qp *qp)
{
	if (__builtin_expect(qp->route.way != 0, 0))
		direct_load_tell_immediate(qp);
}

#endif
