#include "ib/origin.h"

static bool ask(const struct qp *qp, origin_t from, uint32_t qpn, const struct packet *p)
{
	if (qp->ca->ops->origin_matches(qp->ca->owner, from, route_back(qp, &p->path, qpn)))
		return true;
	qp->ca->counters.dropped_source++;
	return false;
}

bool origin_ask_peer(struct origin *o, const struct qp *qp, origin_t from, const struct packet *p)
{
	if (!ask(qp, from, qp->attr.dest_qp_num, p))
		return false;
	o->from = from;
	return true;
}

bool origin_ask_source(struct origin *o, const struct qp *qp, origin_t from, const struct packet *p)
{
	if (!ask(qp, from, p->deth.src_qpn, p))
		return false;
	*o = (struct origin){ .from = from, .src_qpn = p->deth.src_qpn, .slid = p->path.slid };
	memcpy(o->sgid, p->path.sgid, sizeof(o->sgid));
	return true;
}
