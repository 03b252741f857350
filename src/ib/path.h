/* The path of a connected QP: where its packets go, and which packets may come. */
#ifndef WEFT_IB_PATH_H
#define WEFT_IB_PATH_H

#include "verbs/qp.h"

/* Fills what every packet of a connected QP has in common: addresses, P_Key, destination, and whether we
 * repeat selectively. The rest is zero. */
void path_address(const struct qp *qp, struct packet *p);

/* IBA 9.6.1.4: does this packet say that it comes from the peer? */
bool path_accepts(const struct qp *qp, const struct packet *p);

/* IBA 10.9.3: equal partitions, and not both limited members. */
/* Of a packet for the QP, of which the origin is known to be the one that it names: the host is told of one that does not. */
bool path_pkey_matches(const struct qp *qp, const struct packet *p);

#endif
