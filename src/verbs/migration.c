#include "verbs/migration.h"

#include "base/log.h"
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>

enum { TIMEOUT_MAX = 31 };	/* 5 bits: IBA 12.6.5 */

static bool alternate_is_sound(const struct qp *qp, const struct ibv_qp_attr *attr)
{
	return attr->alt_port_num == qp->dev->port_num && attr->alt_pkey_index < qp->dev->attr.orig_attr.max_pkeys &&
	       attr->alt_timeout <= TIMEOUT_MAX;
}

/* Consumers cannot command ARMED, nor MIGRATED before it. */
static bool may_become(const struct qp *qp, enum ibv_mig_state to, bool loads)
{
	switch (to) {
	case IBV_MIG_MIGRATED:
		return qp->attr.path_mig_state != IBV_MIG_REARM;
	case IBV_MIG_REARM:
		return qp->attr.path_mig_state != IBV_MIG_ARMED && (qp->migration || loads);
	default:
		return false;
	}
}

int migration_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	bool loads = mask & IBV_QP_ALT_PATH;

	if (loads && (!alternate_is_sound(qp, attr) || !qp_path_fits(qp, &attr->alt_ah_attr)))
		return -EINVAL;
	return !(mask & IBV_QP_PATH_MIG_STATE) || may_become(qp, attr->path_mig_state, loads) ? 0 : -EINVAL;
}

int migration_reserve(struct qp *qp, int mask)
{
	if (!(mask & IBV_QP_ALT_PATH) || qp->migration)
		return 0;
	qp->migration = calloc(1, sizeof(*qp->migration));
	return qp->migration ? 0 : -ENOMEM;
}

void migration_enter(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	bool migrates = qp->attr.path_mig_state == IBV_MIG_ARMED && attr->path_mig_state == IBV_MIG_MIGRATED;

	if (!(mask & IBV_QP_PATH_MIG_STATE))
		return;
	if (migrates) {
		qp_migrate(qp);
		return;
	}
	qp->attr.path_mig_state = attr->path_mig_state;
	if (attr->path_mig_state == IBV_MIG_REARM)
		qp->migration->has_left = false;
}

void qp_migrate(struct qp *qp)
{
	struct migration *m = qp->migration;
	struct ibv_qp_attr *a = &qp->attr;

	m->left = qp->path;
	m->left_pkey_index = a->pkey_index;
	m->has_left = true;
	qp->path = m->alternate;
	a->ah_attr = a->alt_ah_attr;
	a->pkey_index = a->alt_pkey_index;
	a->port_num = a->alt_port_num;
	a->timeout = a->alt_timeout;
	a->path_mig_state = IBV_MIG_MIGRATED;
	qp_path_changed(qp);
	log_line(LOG_INFO, "QP 0x%06x goes over to its alternate path (IBA 17.2.8)", qp->qpn);
	QP_COUNT(qp, path_migrations, 1);
	qp_event(qp, IBV_EVENT_PATH_MIG);
}
