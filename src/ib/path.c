/* Addresses of connected QPs, out and in. */
#include "ib/path.h"

#include <string.h>

enum { PKEY_FULL = 0x8000, PKEY_BASE = 0x7fff };

void path_address(const struct qp *qp, uint8_t path, struct packet *p)
{
	*p = (struct packet){
		.form = qp->dev->form, .path = qp->path,
		.pkey = qp->dev->pkey[qp->attr.pkey_index], .dest_qpn = qp->attr.dest_qp_num,
	};
}

bool path_pkey_matches(const struct qp *qp, uint16_t pkey)
{
	uint16_t ours = qp->dev->pkey[qp->attr.pkey_index];

	return ((ours ^ pkey) & PKEY_BASE) == 0 && ((ours | pkey) & PKEY_FULL);
}

/* A local path is known by its LIDs, a global one by its GIDs. */
bool path_accepts(const struct qp *qp, const struct packet *p)
{
	const struct packet_path *ours = &qp->path;

	if (!path_pkey_matches(qp, p->pkey))
		return false;
	if (qp->dev->form == PACKET_IB && p->path.slid != ours->dlid)
		return false;
	if (!ours->has_grh)
		return true;
	return p->path.has_grh && memcmp(p->path.sgid, ours->dgid, 16) == 0 && memcmp(p->path.dgid, ours->sgid, 16) == 0;
}
