/* What agents have sent, until it is over: requests, and answers in segments. Their timers are told at the head of mad_clients.c.
 * Of this room alone. */
#ifndef WEFT_MGMT_MAD_REQUESTS_H
#define WEFT_MGMT_MAD_REQUESTS_H

#include "mgmt/mad_under_way.h"

/* 0, -EDQUOT or -ENOMEM. It is to be sent. */
int mad_request_make(struct mad_clients *c, struct mad_file *f, const struct mad_letter *l, struct request **made);
void mad_request_free(struct mad_clients *c, struct request *r);

/* As a response to the request with this id in its class; ACKs of its segments come by the same id. */
struct request *mad_request_find(const struct mad_file *f, const uint8_t *mad);
/* The datagram of which this is an ACK, STOP or ABORT, which goes the other way. So that of a request is a response, and is heard
 * from who was asked alone (mad_clients.c:take). An answer's ids are its asker's choice, and his alone. */
struct request *mad_request_find_sent(const struct mad_file *f, const struct mad_remote *sender, const uint8_t *mad);

/* All of it, for the first time or again. */
void mad_request_send(struct mad_clients *c, wtime now, struct request *r);
/* An ACK, STOP or ABORT of it, which may end it. */
void mad_request_input(struct mad_clients *c, wtime now, struct request *r, const struct mad_remote *sender,
		       const uint8_t mad[MAD_BYTES]);
/* More of the answer has come: so all of the request has, and its time begins anew. All goes of the request and one whole answer
 * bound it, whatever comes. */
void mad_request_hear_answer(struct mad_clients *c, wtime now, const struct mad_file *f, const uint8_t mad[MAD_BYTES]);
/* Its timer. */
void mad_request_expire(struct mad_clients *c, wtime now, struct request *r);

#endif
