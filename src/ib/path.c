/* Addresses of connected QPs, out and in. */
#include "ib/path.h"

#include "ib/engine.h"
#include "wire/addr.h"
#include "wire/header.h"
#include "wire/pkey.h"

#include <string.h>

void path_address(const struct qp *qp, struct packet *p)
{
	*p = (struct packet){
		.form = qp->dev->protocol->form, .path = qp->path,
		.pkey = qp_pkey(qp), .dest_qpn = qp->attr.dest_qp_num,
		.resv.bth7 = engine_of(qp)->selective ? BTH_SELECTIVE : 0,
	};
}

bool path_pkey_matches(const struct qp *qp, const struct packet *p)
{
	const struct ca_ops *ops = qp->ca->ops;

	if (pkey_matches(qp_pkey(qp), p->pkey))
		return true;
	if (ops->bad_key && p->dest_qpn != MULTICAST_QPN)
		ops->bad_key(qp->ca->owner, qp, p, false);
	return false;
}

/* A local path is known by its LIDs, a global one by its GIDs. */
bool path_accepts(const struct qp *qp, const struct packet *p)
{
	const struct packet_path *ours = &qp->path;

	if (device_has(qp->dev, DEVICE_LIDS) && p->path.slid != ours->dlid)
		return false;
	if (!ours->has_grh)
		return true;
	return p->path.has_grh && memcmp(p->path.sgid, ours->dgid, 16) == 0 && memcmp(p->path.dgid, ours->sgid, 16) == 0;
}
