/* The values of QP attributes: what is allowed, and where they are kept. Whether an attribute may be given at all is
 * decided by the table in qp_state.c. */
#include "base/qpn.h"
#include "verbs/qp.h"

#include "wire/addr.h"

#include <errno.h>
#include <string.h>

enum {
	/* IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT, which older headers have not. A QP may have them, as newer programs give
	 * them to every QP; no request uses them, and no region grants them. */
	ACCESS_FLUSH = 1 << 8 | 1 << 9,
	ACCESS_KNOWN = MR_ACCESS_KNOWN | ACCESS_FLUSH,
	TIMEOUT_MAX = 31, RETRY_MAX = 7, RNR_TIMER_MAX = 31,	/* 5, 3 and 5 bits: IBA 9.7.5.2.8, 9.7.6.1.3 */
};

/* A connection has one peer, so its path leads to no group. The QP's port sends by it, whichever port of the device it names. */
static int path_check(const struct qp *qp, const struct ibv_ah_attr *attr)
{
	struct av av;
	int err = device_port(qp->dev, attr->port_num) ? av_from_attr(qp->dev, attr, &av) : -EINVAL;

	if (err < 0)
		return err;
	if (device_has(qp->dev, DEVICE_LIDS) && av.dlid >= MLID_FIRST)
		return -EINVAL;
	if (qp->ip_version && qp->ip_version != (av_is_ipv4(&av) ? 4 : 6))
		return -EINVAL;
	return av.is_global && gid_is_multicast(av.dgid) ? -EINVAL : 0;
}

/* Only what the mask names is looked at: the rest of *attr may not even be initialised. */
#define RULE(bit, fact) (!(mask & IBV_QP_##bit) || (fact))

int qp_attr_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_device_attr *limit = &qp->dev->attr.orig_attr;
	const bool good[] = {
		RULE(PKEY_INDEX, attr->pkey_index < limit->max_pkeys),
		RULE(PORT, attr->port_num >= 1 && attr->port_num <= limit->phys_port_cnt),
		RULE(ACCESS_FLAGS, !(attr->qp_access_flags & ~(unsigned)ACCESS_KNOWN)),
		RULE(PATH_MTU, attr->path_mtu >= IBV_MTU_256 && attr->path_mtu <= qp->dev->active_mtu),
		RULE(TIMEOUT, attr->timeout <= TIMEOUT_MAX),
		RULE(RETRY_CNT, attr->retry_cnt <= RETRY_MAX),
		RULE(RNR_RETRY, attr->rnr_retry <= RETRY_MAX),
		RULE(MIN_RNR_TIMER, attr->min_rnr_timer <= RNR_TIMER_MAX),
		RULE(MAX_QP_RD_ATOMIC, attr->max_rd_atomic <= limit->max_qp_init_rd_atom),
		RULE(MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic <= limit->max_qp_rd_atom),
		RULE(DEST_QPN, attr->dest_qp_num <= QPN_MASK),
		RULE(AV, path_check(qp, &attr->ah_attr) == 0),
		RULE(ALT_PATH, path_check(qp, &attr->alt_ah_attr) == 0),
	};

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!good[i])
			return -EINVAL;
	return migration_check(qp, attr, mask);
}

/* Both ends find the same UDP source port, whichever of path and peer was given last. */
static void derive_path(const struct qp *qp, const struct ibv_ah_attr *attr, struct packet_path *path)
{
	struct av av;

	if (av_from_attr(qp->dev, attr, &av) == 0)
		(void)av_path(qp->dev, &av, av_flow_label(qp->qpn, qp->attr.dest_qp_num), path);
}

int qp_path_mtu(const struct qp *qp, const struct packet_path *path)
{
	const struct ca_ops *ops = qp->ca->ops;
	struct route r;

	if (!ops->path_mtu)
		return 0;
	route_ask(qp->ca, qp->dev, qp_pkey(qp), path, qp->attr.dest_qp_num, &r);
	return ops->path_mtu(qp->ca->owner, &r, path);
}

bool qp_path_fits(const struct qp *qp, const struct ibv_ah_attr *attr)
{
	struct packet_path path = { 0 };
	int mtu;

	if (qp->state < IBV_QPS_RTR)
		return true;
	derive_path(qp, attr, &path);
	mtu = qp_path_mtu(qp, &path);
	return !mtu || mtu >= (int)qp->attr.path_mtu;
}

void qp_attr_store(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->attr;

#define STORE(bit, member) do { if (mask & (bit)) own->member = attr->member; } while (0)
	STORE(IBV_QP_PKEY_INDEX, pkey_index);
	STORE(IBV_QP_PORT, port_num);
	STORE(IBV_QP_QKEY, qkey);
	STORE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	STORE(IBV_QP_AV, ah_attr);
	STORE(IBV_QP_PATH_MTU, path_mtu);
	STORE(IBV_QP_TIMEOUT, timeout);
	STORE(IBV_QP_RETRY_CNT, retry_cnt);
	STORE(IBV_QP_RNR_RETRY, rnr_retry);
	STORE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	STORE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	STORE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	STORE(IBV_QP_DEST_QPN, dest_qp_num);
	STORE(IBV_QP_ALT_PATH, alt_ah_attr);
	STORE(IBV_QP_ALT_PATH, alt_pkey_index);
	STORE(IBV_QP_ALT_PATH, alt_port_num);
	STORE(IBV_QP_ALT_PATH, alt_timeout);
#undef STORE
	if (mask & IBV_QP_PORT)
		qp->dev = device_port(qp->dev, own->port_num);
	/* IBA 11.2.5.2: asked for this time */
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_SQD)
		own->en_sqd_async_notify = mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify;
	/* PSNs have 24 bits; consumers pass random 32-bit numbers, which the kernel masks too */
	if (mask & IBV_QP_RQ_PSN)
		own->rq_psn = attr->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		own->sq_psn = attr->sq_psn & PSN_MASK;
	qp->sqd_async = own->en_sqd_async_notify;
	if (mask & (IBV_QP_AV | IBV_QP_DEST_QPN))
		derive_path(qp, &own->ah_attr, &qp->path);
	if (qp->migration && mask & (IBV_QP_ALT_PATH | IBV_QP_DEST_QPN))
		derive_path(qp, &own->alt_ah_attr, &qp->migration->alternate);
}
