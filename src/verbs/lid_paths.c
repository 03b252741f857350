#include "verbs/lid_paths.h"

#include "verbs/ca.h"
#include "verbs/qp.h"

#include <stdlib.h>

void lid_paths_forget(struct qp *qp)
{
	free(qp->lid_paths);
	qp->lid_paths = NULL;
}

static bool is_same(struct lid_pair a, struct lid_pair b)
{
	return a.slid == b.slid && a.dlid == b.dlid;
}

static bool has(const struct lid_pair *pair, unsigned pairs, struct lid_pair which)
{
	unsigned i = 0;

	while (i < pairs && !is_same(pair[i], which))
		i++;
	return i < pairs;
}

/* ---- which pairs there are ---- */

static bool is_reliable(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND || qp->type == IBV_QPT_XRC_RECV;
}

/* IBA 11.2.2.1: source path bits and another LID than the first are the program's choice of a path. */
static bool may_have_several(const struct qp *qp)
{
	return qp->ca->ops->lid_paths && device_has(qp->dev, DEVICE_LIDS) && qp->dev->lmc && qp->paths_most > 1 &&
	       is_reliable(qp) && !qp->migration && qp->path.slid == qp->dev->lid;
}

/* The QP's own pair comes first whatever is named. */
static struct lid_paths *open_paths(struct qp *qp)
{
	if (qp->lid_paths)
		return qp->lid_paths;
	qp->lid_paths = calloc(1, sizeof(*qp->lid_paths));
	if (!qp->lid_paths)
		return NULL;
	qp->lid_paths->paths = 1;
	qp->lid_paths->path[0].lids = (struct lid_pair){ qp->path.slid, qp->path.dlid };
	return qp->lid_paths;
}

/* The place of a new pair: one whose pair is not named any more, or behind the others. NULL: there is none. */
static struct lid_path *place_for(const struct qp *qp, struct lid_paths *l, const struct lid_pair *named, unsigned n)
{
	for (unsigned i = 1; i < l->paths; i++)
		if (!has(named, n, l->path[i].lids))
			return &l->path[i];
	return l->paths < LID_PATHS && l->paths < qp->paths_most ? &l->path[l->paths++] : NULL;
}

static void learn(const struct qp *qp, struct lid_paths *l, const struct lid_pair *named, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct lid_path *p;
		unsigned k = 0;

		while (k < l->paths && !is_same(l->path[k].lids, named[i]))
			k++;
		p = k < l->paths ? NULL : place_for(qp, l, named, n);
		if (!p)
			continue;
		p->lids = named[i];
		p->epoch++;
	}
}

/* ---- where they lead ---- */

static void ask_for(const struct qp *qp, struct lid_path *p)
{
	struct packet_path path = qp->path;

	path.slid = p->lids.slid;
	path.dlid = p->lids.dlid;
	route_ask(qp->ca, qp->dev, qp_pkey(qp), &path, qp->attr.dest_qp_num, &p->route);
}

void lid_paths_ask(struct qp *qp)
{
	struct lid_pair named[LID_PATHS];
	struct lid_paths *l;
	unsigned n;

	route_ask(qp->ca, qp->dev, qp_pkey(qp), &qp->path, qp->attr.dest_qp_num, &qp->route);
	if (!may_have_several(qp)) {
		lid_paths_forget(qp);
		return;
	}
	n = qp->ca->ops->lid_paths(qp->ca->owner, qp->dev, qp_pkey(qp), &qp->path, &qp->route, named);
	l = n > 1 ? open_paths(qp) : qp->lid_paths;
	if (!l)
		return;
	learn(qp, l, named, n);
	l->usual = 0;
	for (unsigned i = 0; i < l->paths; i++) {
		ask_for(qp, &l->path[i]);
		if (l->path[i].route.kind > l->path[l->usual].route.kind)
			l->usual = (uint8_t)i;
	}
	qp->route = l->path[l->usual].route;
}

const struct route *lid_paths_route(struct qp *qp, uint16_t slid, uint16_t dlid)
{
	const struct lid_pair lids = { slid, dlid };
	const struct route *usual = qp_route(qp);
	struct lid_paths *l = qp->lid_paths;

	if (!l)
		return usual;
	for (unsigned i = 0; i < l->paths; i++)
		if (is_same(l->path[i].lids, lids))
			return &l->path[i].route;
	if (!is_same(l->other.lids, lids) || l->other.route.generation != usual->generation) {
		l->other.lids = lids;
		ask_for(qp, &l->other);
	}
	return &l->other.route;
}

const struct route *lid_paths_next(struct qp *qp)
{
	const struct route *usual = qp_route(qp);
	struct lid_paths *l = qp->lid_paths;

	for (unsigned i = 0; l && i < l->paths; i++) {
		l->turn = (uint8_t)((l->turn + 1) % l->paths);
		if (!route_goes_both_ways(l->path[l->turn].route.kind))
			continue;
		l->path[l->turn].messages++;
		return &l->path[l->turn].route;
	}
	return usual;
}

const struct route *lid_paths_last(struct qp *qp)
{
	const struct route *usual = qp_route(qp);
	const struct lid_paths *l = qp->lid_paths;

	return l && route_goes_both_ways(l->path[l->turn].route.kind) ? &l->path[l->turn].route : usual;
}

bool lid_paths_have_peer(const struct lid_paths *l, uint16_t lid)
{
	for (unsigned i = 0; l && i < l->paths; i++)
		if (l->path[i].lids.dlid == lid)
			return true;
	return false;
}
