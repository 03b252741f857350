#include "ib/reflect.h"

#include "ib/path.h"
#include "ib/reorder.h"
#include "ib/spread.h"
#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

void reflect_close(struct qp *qp)
{
	free(engine_of(qp)->reflect);
	engine_of(qp)->reflect = NULL;
}

bool reflect_knows(const struct qp *qp, unsigned path, const struct packet_path *from)
{
	const struct reflect *r = reflect_of(qp);
	const struct reflect_path *p = r ? &r->path[path] : NULL;

	if (p && device_has(qp->dev, DEVICE_LIDS))
		return p->is_known && p->lids.dlid == from->slid && p->lids.slid == from->dlid;
	return p && p->is_known && !memcmp(p->dgid, from->sgid, 16) && !memcmp(p->sgid, from->dgid, 16);
}

bool reflect_expects(const struct qp *qp, const struct packet_path *from)
{
	const struct reflect *r = reflect_of(qp);

	if (device_has(qp->dev, DEVICE_LIDS))	/* whose the LID is, the origin tells */
		return device_has_lid(qp->dev, from->dlid);
	if (device_gid_index(qp->dev, from->dgid) < 0)
		return false;
	if (!memcmp(qp->path.dgid, from->sgid, 16))
		return true;
	for (unsigned i = 0; r && i < r->addresses; i++)
		if (!memcmp(r->address[i], from->sgid, 16))
			return true;
	return false;
}

/* The first one is there whatever probes say. */
static unsigned count_known(const struct reflect *r)
{
	unsigned known = 1;

	for (unsigned i = 1; i < BTH_PATHS; i++)
		known += r->path[i].is_known;
	return known;
}

void reflect_turn(struct qp *qp)
{
	if (reflect_of(qp))
		reflect_of(qp)->turn = (uint8_t)(count_known(reflect_of(qp)) - 1);
}

unsigned reflect_choose(const struct qp *qp, unsigned path)
{
	const struct reflect *r = reflect_of(qp);
	unsigned skip;

	if (!r->path[path].is_known)	/* of addresses that the peer had before */
		path = 0;
	for (skip = r->turn % count_known(r); skip; skip--)
		do
			path = (path + 1) % BTH_PATHS;
		while (path && !r->path[path].is_known);
	return path;
}

void reflect_address(const struct qp *qp, unsigned path, struct packet *p)
{
	const struct reflect_path *by = &reflect_of(qp)->path[path];

	if (by->is_known && device_has(qp->dev, DEVICE_LIDS)) {
		p->path.slid = by->lids.slid;
		p->path.dlid = by->lids.dlid;
	}
	if (!path)
		return;
	memcpy(p->path.sgid, by->sgid, 16);
	memcpy(p->path.dgid, by->dgid, 16);
	p->path.udp_sport ^= by->variant;
	p->resv.bth7 = bth_by_path(path);
	p->resv.bth6 = by->marks & BTH_MARKS;
}

/* The requester's oldest PSN is one that we have executed, or await. */
static bool is_recent(const struct qp *qp, psn_t psn)
{
	int32_t ago = psn_diff(engine_of(qp)->responder.psn, psn);

	return ago >= 0 && ago <= REORDER_SPAN;
}

static bool is_by_own_path(const struct qp *qp, const struct packet *p)
{
	return !memcmp(qp->path.dgid, p->path.sgid, 16) && !memcmp(qp->path.sgid, p->path.dgid, 16);
}

void reflect_probe(struct qp *qp, const struct packet *p)
{
	struct engine *e = engine_of(qp);
	int path = bth_path(p->resv.bth7);
	const uint8_t *payload = p->payload->iov_base;
	unsigned addresses = (unsigned)wire_get(payload, PATH_PROBE_ADDRESSES);
	struct reflect_path *by;

	if (path < 0 || addresses > PATH_ADDRESSES || !is_recent(qp, p->psn) || qp->migration ||
	    e->responder.phase == RESPONDER_CLOSED || e->responder.phase == RESPONDER_STOPPING) {
		qp->ca->counters.bad_path_probes++;
		return;
	}
	if (!e->reflect)
		e->reflect = calloc(1, sizeof(*e->reflect));
	if (!e->reflect)
		return;
	if (is_by_own_path(qp, p)) {
		e->reflect->addresses = (uint8_t)addresses;
		memcpy(e->reflect->address, payload + PATH_PROBE_ADDRESS, sizeof(e->reflect->address));
	}
	by = &e->reflect->path[path];
	by->is_known = true;
	memcpy(by->sgid, p->path.dgid, 16);
	memcpy(by->dgid, p->path.sgid, 16);
	by->lids = (struct lid_pair){ p->path.dlid, p->path.slid };
	by->variant = (uint8_t)(wire_get(payload, PATH_PROBE_VARIANT) & (SPREAD_VARIANTS - 1));
	by->is_due = true;
	by->number = (uint32_t)wire_get(payload, PATH_PROBE_NUMBER);
	by->psn = p->psn;
	qp_ready(qp);
}

bool reflect_output(struct qp *qp, struct packet_out *out)
{
	struct reflect *r = reflect_of(qp);
	struct packet *p = &out->packet;
	unsigned i = 0;

	while (r && i < BTH_PATHS && !r->path[i].is_due)
		i++;
	if (!r || i == BTH_PATHS)
		return false;
	r->path[i].is_due = false;
	path_address(qp, p);
	p->opcode = OPCODE_WEFT_PATH_ANSWER;
	p->psn = r->path[i].psn;
	reflect_address(qp, i, p);
	spread_write(qp, r->path[i].number, r->path[i].variant, out);
	QP_COUNT(qp, sent_pkts, 1);
	return true;
}
