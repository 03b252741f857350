/* The way of direct messages between a QP and its peer in another process, or in this one: our ring to that process, and its word
 * of what it executed. These are operations of ca.direct; their first argument is a struct peers. */
#ifndef WEFT_PEERS_DIRECT_MESSAGES_H
#define WEFT_PEERS_DIRECT_MESSAGES_H

#include "verbs/direct.h"

#include <sys/uio.h>

struct channel;
struct peers;

bool direct_messages_connect(void *peers, struct qp *qp);
bool direct_messages_send(void *peers, struct qp *qp, const struct direct_message *m);
bool direct_messages_send_short(void *peers, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes,
				bool solicited);
bool direct_messages_send_datagram(void *peers, const struct route *r, const struct direct_message *m);
bool direct_messages_stands(void *peers, struct qp *qp);
void direct_messages_keep_promise(void *peers, struct qp *qp);
bool direct_messages_pull(void *peers, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to,
			  unsigned tos);
void direct_messages_publish(void *peers, struct qp *qp, psn_t received);
bool direct_messages_received(void *peers, struct qp *qp, psn_t *psn);

/* Takes in the oldest message of the channel at once, if that is short and all about it is as usual. False: nothing happened, and
 * it waits to be received as any. */
bool direct_messages_take_short(struct peers *ps, struct channel *ch);
/* A message arrived on the channel. True: it was a long one. */
bool direct_messages_deliver(struct peers *ps, struct channel *ch, const void *record, size_t bytes);
/* The channel is going. */
void direct_messages_forget(struct peers *ps, const struct channel *ch);

#endif
