/* READs over several paths. The answer to a READ request takes the time of all its responses, so a path is chosen by what it owes
 * and how fast it brings that: owed_by says of each response that is asked for which path was asked last, until the first one
 * comes. One that comes twice, or is asked for twice, counts once. */
#include "ib/spread.h"

#include "ib/answers.h"
#include "ib/loss.h"
#include "ib/pace.h"

#include "base/log.h"

#include <string.h>

/* ---- what paths owe ---- */

/* Nobody owes the response any more. Returns who did; -1: nobody. */
static int strike(struct spread *s, psn_t psn)
{
	uint8_t *by = &s->owed_by[psn % REORDER_SPAN];
	int path = *by - 1;

	*by = 0;
	if (path >= 0)
		s->path[path].awaited--;
	return path;
}

void spread_reads(struct qp *qp, wtime now, unsigned path, psn_t psn, uint32_t responses)
{
	struct spread *s = spread_of(qp);

	if (!s->path[path].awaited) {
		s->path[path].response_at = now;
		s->path[path].is_first = true;
	}
	for (uint32_t i = 0; i < responses && i < REORDER_SPAN; i++) {
		strike(s, psn_add(psn, i));
		s->owed_by[psn_add(psn, i) % REORDER_SPAN] = (uint8_t)(path + 1);
		s->path[path].awaited++;
	}
}

void spread_owes_nothing(struct qp *qp, unsigned path)
{
	struct spread *s = spread_of(qp);

	for (unsigned i = 0; i < REORDER_SPAN && s->path[path].awaited; i++)
		if (s->owed_by[i] == path + 1)
			strike(s, i);
}

/* Did nothing of what is in flight leave by it last? What the peer holds did, and is not under way. */
static bool is_unused(const struct flight *f, unsigned path)
{
	uint32_t i = f->oldest;

	while (i != f->newest && loss_path_of(f, i) != path)
		i++;
	return i == f->newest;
}

/* ---- how fast they bring it ---- */

/* From one response to the next by this path, as far as is known; 0: it is not. What was long ago is tried again. */
static wtime response_ns(struct qp *qp, wtime now, unsigned path)
{
	struct spread *s = spread_of(qp);
	struct spread_path *p = &s->path[path];

	if (p->awaited && !s->loss[path].under_way && is_unused(&engine_of(qp)->flight, path))	/* it was lost */
		spread_owes_nothing(qp, path);
	if (!p->awaited && now - s->loss[path].heard_at > SPREAD_PROBE_MOST)
		p->response_ns = 0;
	return p->response_ns;
}

/* How long the answer to a READ request may take: the others bring meanwhile what the requester can hold, and wait for it. Our
 * choice: three quarters of that, as some is under way already. */
static wtime read_bound(struct qp *qp, wtime now)
{
	struct spread *s = spread_of(qp);
	uint64_t per_ms = 0;

	for (unsigned i = 0; i < s->paths; i++)
		if (s->path[i].state == SPREAD_UP && response_ns(qp, now, i))
			per_ms += WTIME_MS / s->path[i].response_ns;
	return per_ms ? ANSWERS_REACH * 3 / 4 * WTIME_MS / per_ms : WTIME_NEVER;
}

/* How long the answer to a READ request takes that leaves now. */
static wtime brought_in(const struct spread_path *p)
{
	return (p->awaited + ANSWERS_LEAST) * p->response_ns;
}

/* How long the process did not look at what came, lately. */
static wtime away_ns(const struct spread_path *p, wtime now)
{
	return now - p->away_at > 2 * SPREAD_PROBE_MOST ? 0 : p->away_ns;
}

/* Are so few awaited that the path would be idle before the next request is answered? */
static bool runs_dry(const struct qp *qp, wtime now, unsigned path)
{
	const struct spread_path *p = &spread_of(qp)->path[path];
	wtime away = away_ns(p, now);

	return (p->awaited <= ANSWERS_MOST || away) &&
	       p->awaited * p->response_ns <= 2 * loss_least(&engine_of(qp)->flight) + away;
}

/* Those that are found at once, as the process looked, share the time since it looked last, or since the path began to owe any:
 * then a request's time is in it, and it is no first measure. After a loss it is the time until that was asked for again. RFC
 * 6298, 2.3, each with its weight. */
static void time_response(struct spread_path *by, wtime now)
{
	unsigned weight;
	wtime ns, took;

	if (now != by->response_at) {
		by->found = 0;
		by->found_since = by->response_at;
		by->found_ns = by->response_ns;
		by->found_first = by->is_first;
	}
	by->response_at = now;
	by->is_first = false;
	by->found++;
	weight = by->found < 8 ? by->found : 8;
	ns = by->found_ns;
	took = (now - by->found_since + by->found - 1) / by->found;
	if (ns)
		by->response_ns = (ns * (8 - weight) + wtime_min(took, 4 * ns) * weight) / 8;
	else
		by->response_ns = by->found_first ? 0 : took;
	if (by->found == 2 && now - by->found_since >= away_ns(by, now)) {
		by->away_ns = now - by->found_since;
		by->away_at = now;
	}
}

void spread_response_came(struct qp *qp, wtime now, unsigned path, psn_t psn)
{
	struct spread *s = spread_of(qp);
	int32_t ahead = psn_diff(psn, flight_first_psn(&engine_of(qp)->flight));

	if (ahead < 0 || ahead >= REORDER_SPAN || strike(s, psn) != (int)path)
		return;
	time_response(&s->path[path], now);
	if (runs_dry(qp, now, path) && qp->sq.engine.started != qp->sq.engine.announced)
		qp_ready(qp);
}

/* ---- which one a request takes ---- */

/* Of those that are up and not yet in `tried`, the one by which the answer to a READ request would be there first; -1: none. */
static int soonest(struct qp *qp, wtime now, unsigned tried)
{
	struct spread *s = spread_of(qp);
	wtime least = read_bound(qp, now);
	int best = -1;

	for (unsigned i = 0; i < s->paths; i++) {
		wtime ns = response_ns(qp, now, i), at = brought_in(&s->path[i]);

		if (s->path[i].state != SPREAD_UP || tried >> i & 1 || (!ns && s->path[i].awaited) || at >= least)
			continue;
		least = at;
		best = (int)i;
	}
	return best;
}

/* Windows are of requests, single packets that tell little of what they ask for. They count for those paths alone that are kept
 * busy by what was asked for. */
static int choose_for_fresh(struct qp *qp, wtime now)
{
	struct spread *s = spread_of(qp);
	unsigned tried = 0;
	int path;

	for (; (path = soonest(qp, now, tried)) >= 0; tried |= 1u << path) {
		struct congestion *c = pace_of(qp, (unsigned)path);

		if (!c || runs_dry(qp, now, (unsigned)path))
			return path;
		if (brought_in(&s->path[path]) <= CONGESTION_TARGET_NS &&
		    congestion_asks(c, now, s->loss[path].under_way) == CONGESTION_GOES)
			return path;
	}
	return -1;
}

/* What was lost asks for what is not under way, and whatever follows waits for it: no window holds it back. */
static int choose_for_lost(struct qp *qp, wtime now)
{
	int path = soonest(qp, now, 0);

	return path >= 0 ? path : (int)spread_usual(qp);
}

int spread_choose_for_read(struct qp *qp, wtime now, bool is_fresh)
{
	return is_fresh ? choose_for_fresh(qp, now) : choose_for_lost(qp, now);
}

void spread_check(const struct qp *qp)
{
	const struct spread *s = spread_of(qp);
	uint32_t owed[BTH_PATHS] = { 0 };

	if (!s)
		return;
	for (unsigned i = 0; i < REORDER_SPAN; i++) {
		weft_bug_on(s->owed_by[i] > s->paths);
		if (s->owed_by[i])
			owed[s->owed_by[i] - 1]++;
	}
	for (unsigned i = 0; i < s->paths; i++)
		weft_bug_on(owed[i] != s->path[i].awaited);
}
