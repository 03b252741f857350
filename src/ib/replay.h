/* Reads and atomics, kept until nobody can ask for them again: their responses are made from here, the first time and
 * every other time. */
#ifndef WEFT_IB_REPLAY_H
#define WEFT_IB_REPLAY_H

#include "ib/verdict.h"
#include "verbs/qp.h"
#include "wire/opcode.h"

/* The request was executed: its response is due. There is room (9.7.4.1.4). */
void replay_record(struct qp *qp, const struct packet *p, const struct opcode_row *row, uint64_t original);

/* A request that came before: sends and writes are acknowledged again, reads read again from the PSN asked for, atomics
 * answered from what is kept, never executed twice. IBA 9.7.5.1.4, 9.7.5.1.5. */
enum verdict replay_duplicate(struct qp *qp, const struct packet *p, const struct opcode_row *row);

#endif
