/* Where a QP's direct requests go: to the memory of the process behind a channel, or to our own. */
#ifndef WEFT_PEERS_DIRECT_TARGET_H
#define WEFT_PEERS_DIRECT_TARGET_H

#include "verbs/direct.h"

struct channel;
struct peers;

/* The operations of ca.direct; their first argument is a struct peers. */
extern const struct direct_ops peers_direct_ops;

/* The channel to the process of the QP's peer, if it is open. */
struct channel *direct_target_channel(const struct peers *ps, struct qp *qp);
/* How this QP's requests go: for people. */
const char *direct_tier_name(struct peers *ps, struct qp *qp);

#endif
