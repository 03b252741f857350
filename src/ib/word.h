/* Words that atomic requests change, in memory that remote_check has found. Programs may use such a word with their CPU's own
 * atomics, so ours are those wherever the memory can be reached. */
#ifndef WEFT_IB_WORD_H
#define WEFT_IB_WORD_H

#include "verbs/mr.h"
#include "verbs/qp.h"
#include "wire/opcode.h"

/* OP_CMP_SWAP or OP_FETCH_ADD, whose operand is what is added. -EFAULT: the memory is not there. */
int word_change(struct qp *qp, struct mr *mr, uint64_t va, enum opcode_op op, uint64_t compare, uint64_t operand,
		uint64_t *original);
/* OP_ATOMIC_WRITE: ATOMIC_BYTES from `data` on. */
int word_write(struct qp *qp, struct mr *mr, uint64_t va, const void *data);

#endif
