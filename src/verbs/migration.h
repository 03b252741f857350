/* Automatic path migration of a connected QP (IBA 17.2.8): its alternate path, and what happens when that takes the primary's
 * place. The states are those of ibv_qp_attr.path_mig_state:
 *   MIGRATED  the QP does not migrate. Its packets have MigReq set. Every QP begins so.
 *   REARM     the consumer has loaded an alternate path, and waits for the peer to say the same. MigReq is clear.
 *   ARMED     both have one. MigReq is clear. The QP migrates when its consumer wants it, its retries run out, or a packet with
 *             MigReq set comes by the alternate path.
 * The engine makes ARMED of REARM at the first packet with MigReq clear; which packets come by which path is its business
 * (ib/path.h). While a QP is not MIGRATED it sends packets alone: a direct message has no MigReq. */
#ifndef WEFT_VERBS_MIGRATION_H
#define WEFT_VERBS_MIGRATION_H

#include "wire/packet.h"

#include <infiniband/verbs.h>

struct qp;

struct migration {
	struct packet_path alternate;	/* as qp.path */
	struct packet_path left;	/* the path before this one, while the peer may still send by it */
	uint16_t left_pkey_index;	/* as qp.attr.pkey_index was then */
	bool has_left;
	bool refused;			/* PATH_MIG_ERR was raised since the QP was armed */
};

/* The values of IBV_QP_ALT_PATH and IBV_QP_PATH_MIG_STATE, the addresses apart: -EINVAL. Our choice where the standard says
 * nothing: without an alternate path there is no REARM, and no path is loaded that is narrower than the path MTU, which both
 * share. */
int migration_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask);
/* Memory for the attributes of that mask: -ENOMEM. */
int migration_reserve(struct qp *qp, int mask);
/* After the attributes were stored, but for path_mig_state: the new state, and the migration that the consumer asks for. */
void migration_enter(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* The alternate path takes the place of the primary, with its P_Key and its ACK timeout, and is still the alternate (IBA
 * 17.2.8.1.3); PATH_MIG is raised. The QP is ARMED. */
void qp_migrate(struct qp *qp);

#endif
