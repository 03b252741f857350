/* Responder resources: the reads and atomics of a QP, kept until the peer can ask for them no more. Their responses are made from
 * here, the first time and for duplicates. */
#ifndef WEFT_IB_RESPONDER_RESOURCES_H
#define WEFT_IB_RESPONDER_RESOURCES_H

#include "ib/responder.h"
#include "ib/verdict.h"
#include "verbs/qp.h"
#include "wire/opcode.h"

/* The request was executed: its response is due. There is room (9.7.4.1.4). */
void resources_record(struct qp *qp, const struct packet *p, const struct opcode_row *row, uint64_t original);

/* A request that came before: sends and writes are acknowledged again, reads read again from the PSN asked for, atomics
 * answered from what is kept, never executed twice. IBA 9.7.5.1.4, 9.7.5.1.5. */
enum verdict resources_answer_again(struct qp *qp, const struct packet *p, const struct opcode_row *row);

/* The oldest part of a READ that is to be sent again, and the number of its next response within the READ; NULL: none. Parts of
 * READs that are forgotten go. */
struct resource *resources_part(struct qp *qp, uint32_t *packet);
/* That response has left. */
void resources_part_sent(struct qp *qp);
/* Of all parts nothing is sent. */
void resources_drop_parts(struct qp *qp);

#endif
