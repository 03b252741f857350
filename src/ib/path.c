/* Addresses of connected QPs, out and in. */
#include "ib/path.h"

#include "ib/direct_load.h"
#include "ib/engine.h"
#include "ib/multi.h"
#include "ib/pace.h"
#include "ib/reflect.h"
#include "ib/requester.h"
#include "ib/spread.h"

#include "wire/addr.h"
#include "wire/header.h"
#include "wire/pkey.h"

#include <string.h>

/* What is slowed down where it is marked says so: ECT(0), RFC 3168. */
static uint8_t traffic_class(const struct qp *qp)
{
	if (qp->route.kind != ROUTE_LINK || !pace_applies(qp))
		return qp->path.tclass;
	return (uint8_t)((qp->path.tclass & ~ECN_BITS) | ECN_ECT0);
}

void path_address(const struct qp *qp, struct packet *p)
{
	*p = (struct packet){
		.form = qp->dev->protocol->form, .path = qp->path, .migrated = qp->attr.path_mig_state == IBV_MIG_MIGRATED,
		.pkey = qp_pkey(qp), .dest_qpn = qp->attr.dest_qp_num,
		.resv.bth7 = engine_of(qp)->selective ? BTH_SELECTIVE : 0,
	};
	p->path.tclass = traffic_class(qp);
	if (qp->lid_paths) {
		const struct lid_pair *usual = &qp->lid_paths->path[qp->lid_paths->usual].lids;

		p->path.slid = usual->slid;
		p->path.dlid = usual->dlid;
	}
}

bool path_pkey_matches(const struct qp *qp, enum path path, const struct packet *p)
{
	const struct ca_ops *ops = qp->ca->ops;
	uint16_t index = path == PATH_ALTERNATE ? qp->attr.alt_pkey_index :
			 path == PATH_LEFT	? qp->migration->left_pkey_index :
						  qp->attr.pkey_index;

	if (pkey_matches(qp->dev->pkey[index], p->pkey))
		return true;
	if (ops->bad_key && p->dest_qpn != MULTICAST_QPN)
		ops->bad_key(qp->ca->owner, qp, p, false);
	return false;
}

static bool has_gids_of(const struct packet_path *ours, const struct packet *p)
{
	if (!ours->has_grh)
		return true;
	return p->path.has_grh && memcmp(p->path.sgid, ours->dgid, 16) == 0 && memcmp(p->path.dgid, ours->sgid, 16) == 0;
}

/* A local path is known by its LIDs, a global one by its GIDs. The peer's port may have several LIDs. */
static bool comes_by(const struct qp *qp, const struct packet_path *ours, const struct packet *p)
{
	if (device_has(qp->dev, DEVICE_LIDS) && p->path.slid != ours->dlid && !lid_paths_have_peer(qp->lid_paths, p->path.slid))
		return false;
	return has_gids_of(ours, p);
}

bool path_leads_back(const struct qp *qp, const struct packet_path *ours, const struct packet *p)
{
	return comes_by(qp, ours, p);
}

/* By a path of several, not the first, or a probe, by which there may be one. */
static bool comes_by_another(const struct qp *qp, const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	int path = bth_path(p->resv.bth7);

	if (device_has(qp->dev, DEVICE_LIDS) && !has_gids_of(&qp->path, p))
		return false;
	if (row->op == OP_PATH_PROBE)
		return reflect_expects(qp, &p->path);
	if (path <= 0)
		return false;
	return row->is_response ? spread_leads_to(qp, (unsigned)path, &p->path) : reflect_knows(qp, (unsigned)path, &p->path);
}

enum path path_of(const struct qp *qp, const struct packet *p)
{
	const struct migration *m = qp->migration;

	if (multi_of(qp))
		return multi_path_of(qp, p);
	if (!m && p->resv.bth7 && comes_by_another(qp, p))
		return PATH_PRIMARY;

	if (m && p->migrated && qp->attr.path_mig_state == IBV_MIG_ARMED && comes_by(qp, &m->alternate, p))
		return PATH_ALTERNATE;
	if (comes_by(qp, &qp->path, p))
		return PATH_PRIMARY;
	return m && m->has_left && !p->migrated && comes_by(qp, &m->left, p) ? PATH_LEFT : PATH_NONE;
}

/* By which of its paths a packet of the QP goes, or what answers one. Those without a number are the first one's. */
static unsigned number_of(const struct qp *qp, const struct packet *p)
{
	int path = multi_of(qp) ? p->resv.bth7 : bth_path(p->resv.bth7);

	return path > 0 && path < BTH_PATHS ? (unsigned)path : 0;
}

bool path_is_cut(const struct qp *qp, const struct packet *p, bool leaves)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	bool is_answer = row->is_response || row->op == OP_PATH_ANSWER || multi_is_answer(p);

	if (leaves == is_answer || row->op == OP_CNP)
		return false;
	for (unsigned i = 0; i < qp->ca->cuts; i++)
		if (qp->ca->cut[i].paths >> number_of(qp, p) & 1 && !memcmp(qp->ca->cut[i].dgid, qp->path.dgid, 16))
			return true;
	return false;
}

bool path_loses(struct ca *ca, const struct packet *p)
{
	const struct qp *qp = p->form == PACKET_ROCE ? qp_find(ca, p->dest_qpn) : NULL;

	return qp && !qp_is_datagram(qp) && path_is_cut(qp, p, false);
}

static void migrate(struct qp *qp, wtime now)
{
	qp_migrate(qp);
	origin_forget(&engine_of(qp)->origin);
	direct_load_forget(engine_of(qp));
	pace_forget(qp);	/* nothing is known of the new path */
	requester_migrated(qp, now);
}

void path_follow(struct qp *qp, wtime now, enum path path, const struct packet *p)
{
	struct migration *m = qp->migration;

	if (path == PATH_ALTERNATE) {
		migrate(qp, now);
		m->has_left = false;	/* the peer has left it before us */
	} else if (path == PATH_PRIMARY) {
		m->has_left = false;
		if (qp->attr.path_mig_state == IBV_MIG_REARM && !p->migrated) {
			qp->attr.path_mig_state = IBV_MIG_ARMED;
			m->refused = false;
		}
	}
}

/* IBA 11.6.3.1: a migration request that is not accepted. Once is enough: who sends such packets chooses how many. */
void path_refuse(struct qp *qp, const struct packet *p)
{
	struct migration *m = qp->migration;

	if (!m || !p->migrated || qp->attr.path_mig_state != IBV_MIG_ARMED || m->refused)
		return;
	m->refused = true;
	qp_event(qp, IBV_EVENT_PATH_MIG_ERR);
}

bool path_migrate(struct qp *qp, wtime now)
{
	if (qp->attr.path_mig_state != IBV_MIG_ARMED)
		return false;
	migrate(qp, now);
	return true;
}
