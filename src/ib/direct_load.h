/* What goes directly counts as the packets that it would have been at the path MTU, and with one acknowledgement or response a
 * request: at the ports of a fabric on the way of the QP's route, or at our own port, which it does not leave. As most requests
 * of a QP are like the one before, what that weighed is kept. */
#ifndef WEFT_IB_DIRECT_LOAD_H
#define WEFT_IB_DIRECT_LOAD_H

#include "ib/engine.h"
#include "wire/opcode.h"

void direct_load_tell(struct qp *qp, enum opcode_op op, unsigned trailer, uint64_t bytes);
/* Its write, which was counted, had immediate data. */
void direct_load_count_immediate(struct qp *qp);

/* The path or its MTU may be another one. */
static inline void direct_load_forget(struct engine *e)
{
	e->load.bytes = UINT64_MAX;
}

/* The QP's request was executed, or its message sent. */
static inline void direct_load_count(struct qp *qp, enum opcode_op op, unsigned trailer, uint64_t bytes)
{
	const struct direct_load *last = &engine_of(qp)->load;

	if (__builtin_expect(qp->route.way || last->bytes != bytes || last->op != op || last->trailer != trailer, 0))
		direct_load_tell(qp, op, trailer, bytes);
	else
		port_load_pass(qp->dev->load, PORT_LOAD_LOOP, last->words, last->packets, false);
}

#endif
