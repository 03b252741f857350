/* The path of a connected QP: where its packets go, and which packets may come. */
#ifndef WEFT_IB_PATH_H
#define WEFT_IB_PATH_H

#include "verbs/qp.h"

/* Which of its paths a packet came by. The alternate one counts once the peer has migrated to it; the one before the last
 * migration until the peer has migrated too (IBA 17.2.8.1.3 leaves it to us). */
enum path { PATH_NONE, PATH_PRIMARY, PATH_ALTERNATE, PATH_LEFT };

/* Fills what every packet of a connected QP has in common: addresses, P_Key, destination, and whether we
 * repeat selectively. The rest is zero. */
void path_address(const struct qp *qp, struct packet *p);

/* IBA 9.6.1.4: does this packet say that it comes from the peer? */
enum path path_of(const struct qp *qp, const struct packet *p);

/* Does it come along this path, out of whose packets' addresses it has the reverse? */
bool path_leads_back(const struct qp *qp, const struct packet_path *ours, const struct packet *p);

/* IBA 10.9.3: equal partitions, and not both limited members. Of a packet for the QP by that path, of which the origin is known
 * to be the one that it names: the host is told of one that does not match. */
bool path_pkey_matches(const struct qp *qp, enum path path, const struct packet *p);

/* Does the adapter's owner want it lost: a request of the QP, or an answer to one, by a path that fails (ca.cut)? What answers
 * the peer is by a path of the peer's, and is not. */
bool path_is_cut(const struct qp *qp, const struct packet *p, bool leaves);
/* The same of a packet that arrives. */
bool path_loses(struct ca *ca, const struct packet *p);

/* IBA 17.2.8: what an accepted packet's path and MigReq mean for the state of migration, of a QP that has one. */
void path_follow(struct qp *qp, wtime now, enum path path, const struct packet *p);
/* A packet by no path of the QP, which is the peer's all the same. */
void path_refuse(struct qp *qp, const struct packet *p);
/* Retries have run out. True: the QP goes on by the alternate path, with all its retries. */
bool path_migrate(struct qp *qp, wtime now);

#endif
