/* Who holds a QP back, and what tells it to. */
#include "ib/pace.h"

#include "ib/path.h"
#include "ib/reflect.h"
#include "ib/spread.h"
#include "verbs/qp_context.h"
#include "wire/header.h"
#include "wire/packet.h"

#include <stdlib.h>

/* Without memory nothing is held back. */
static struct pace *open_pace(struct qp *qp)
{
	struct engine *e = engine_of(qp);

	if (!e->pace)
		e->pace = calloc(1, sizeof(*e->pace));
	return e->pace;
}

static struct congestion *open_out(struct qp *qp, wtime now)
{
	const struct flight *f = &engine_of(qp)->flight;
	struct pace *pace = open_pace(qp);

	if (!pace || pace->has_out)
		return pace ? &pace->out : NULL;
	if (f->window)
		congestion_init(&pace->out, now, engine_mtu(qp), f->window, f->psn, qp->qpn);
	else
		congestion_init_timed(&pace->out, now, qp->qpn);
	pace->has_out = true;
	return &pace->out;
}

static struct congestion *open_back(struct qp *qp, wtime now)
{
	struct pace *pace = open_pace(qp);

	if (!pace || pace->has_back)
		return pace ? &pace->back : NULL;
	congestion_init_timed(&pace->back, now, ~qp->qpn);
	pace->has_back = true;
	return &pace->back;
}

/* While nothing that is under way asks for an answer, one that does may follow: nothing else would make room. */
bool pace_allows_request(struct qp *qp, wtime now, bool is_fresh)
{
	struct congestion *c = open_out(qp, now);
	const struct flight *f = &engine_of(qp)->flight;

	return !c || congestion_asks(c, now, is_fresh && !f->unasked ? flight_under_way(f) : 0) == CONGESTION_GOES;
}

struct congestion *pace_of(const struct qp *qp, unsigned path)
{
	return path ? &spread_of(qp)->path[path].congestion : pace_out(qp);
}

void pace_path_begin(struct qp *qp, wtime now, unsigned path)
{
	const struct flight *f = &engine_of(qp)->flight;
	struct congestion *c = pace_of(qp, path);

	if (c)
		congestion_init(c, now, engine_mtu(qp), f->window, f->psn, qp->qpn + path);
}

/* What was routed elsewhere meanwhile is not held back. */
int pace_choose_path(struct qp *qp, wtime now, bool is_fresh)
{
	if (!pace_applies(qp))
		return (int)spread_usual(qp);
	open_out(qp, now);
	return spread_choose(qp, now, is_fresh);
}

bool pace_allows_response(struct qp *qp, wtime now)
{
	struct congestion *c = pace_applies(qp) ? open_back(qp, now) : NULL;

	return !c || congestion_asks(c, now, 0) == CONGESTION_GOES;
}

void pace_response_sent(struct qp *qp, wtime now)
{
	if (pace_back(qp) && pace_applies(qp))
		congestion_sent(pace_back(qp), now, 0, false);
}

void pace_sent(struct qp *qp, wtime now, const struct packet *p, bool is_fresh, unsigned path)
{
	struct congestion *c = pace_of(qp, path);

	if (!c || !pace_applies(qp))
		return;
	if (!is_fresh)
		congestion_repeats(c, p->psn, engine_of(qp)->flight.selective);
	congestion_sent(c, now, p->psn, is_fresh && p->ack_requested);
}

uint32_t pace_arrived(const struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	return f->oldest + (f->selective ? f->loss->held : 0);
}

/* The last packet of which that is known. */
static psn_t last_arrived(const struct flight *f, const struct packet *p)
{
	psn_t last = psn_add(flight_first_psn(f), -1);

	if (opcode_row(p->opcode)->op != OP_SELECTIVE_ACK || !f->selective)
		return last;
	for (unsigned i = HELD_BITS; --i;) {
		psn_t held = psn_add(p->psn, 1 + (int64_t)i);

		if (p->heldeth.held[i / 64] >> i % 64 & 1 && psn_cmp(held, f->psn) < 0)
			return psn_cmp(held, last) > 0 ? held : last;
	}
	return last;
}

/* What arrived by each path. The response tells of marks of the one that it came by. */
static void heard_by_paths(struct qp *qp, wtime now, const struct packet *p)
{
	const struct flight *f = &engine_of(qp)->flight;
	struct spread *s = spread_of(qp);
	bool any = false;

	for (unsigned i = 0; i < s->paths; i++) {
		struct congestion *c = pace_of(qp, i);
		uint32_t arrived = s->loss[i].heard - s->path[i].heard;

		s->path[i].heard = s->loss[i].heard;
		if (c && arrived)
			congestion_heard(c, now, arrived, s->loss[i].last, bth_path(p->resv.bth7) == (int)i, p->resv.bth6,
					 f->psn);
		any |= arrived;
	}
	if (any && qp->sq.engine.started != qp->sq.engine.announced)
		qp_ready(qp);
}

void pace_heard(struct qp *qp, wtime now, const struct packet *p, uint32_t before)
{
	const struct flight *f = &engine_of(qp)->flight;
	struct congestion *c = pace_out(qp);
	int32_t more = (int32_t)(pace_arrived(qp) - before);
	uint32_t arrived = more > 0 ? (uint32_t)more : 0;	/* fewer, where the peer has lost what it held */

	if (!c || f->phase == FLIGHT_CLOSED)
		return;
	if (spread_of(qp)) {
		heard_by_paths(qp, now, p);
		return;
	}
	congestion_heard(c, now, arrived, last_arrived(f, p), bth_is_selective(p->resv.bth7), p->resv.bth6, f->psn);
	if (arrived && qp->sq.engine.started != qp->sq.engine.announced)
		qp_ready(qp);
}

static void lost_by_paths(struct qp *qp)
{
	struct spread *s = spread_of(qp);

	for (unsigned i = 0; i < s->paths; i++) {
		struct congestion *c = pace_of(qp, i);
		uint32_t lost = s->loss[i].lost - s->path[i].lost;

		s->path[i].lost = s->loss[i].lost;
		s->path[i].losses += lost;
		if (c && lost)
			congestion_lost(c, lost);
	}
}

void pace_lost(struct qp *qp, unsigned packets)
{
	if (spread_of(qp))
		lost_by_paths(qp);
	else if (pace_out(qp))
		congestion_lost(pace_out(qp), packets);
}

void pace_timeout(struct qp *qp)
{
	unsigned paths = spread_of(qp) ? spread_of(qp)->paths : 1;

	for (unsigned i = 0; i < paths; i++)
		if (pace_of(qp, i) && (!spread_of(qp) || spread_of(qp)->path[i].state == SPREAD_UP))
			congestion_timeout(pace_of(qp, i));
}

static bool is_marked(const struct packet *p)
{
	return p->form == PACKET_ROCE && (p->path.tclass & ECN_BITS) == ECN_CE;
}

/* What acknowledges is no load, and is not slowed down. */
static bool can_be_slowed(const struct opcode_row *row)
{
	return !row->is_response || row->op == OP_READ_RESPONSE;
}

void pace_input(struct qp *qp, wtime now, const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	struct pace *pace;

	if (!engine_of(qp)->paces || !is_marked(p))
		return;
	QP_COUNT(qp, np_ecn_marked_roce_packets, 1);
	pace = can_be_slowed(row) ? open_pace(qp) : NULL;
	if (!pace)
		return;
	if (engine_of(qp)->selective && bth_is_selective(p->resv.bth7) && !row->is_response) {
		if (bth_path(p->resv.bth7) && reflect_of(qp))
			reflect_of(qp)->path[bth_path(p->resv.bth7)].marks++;
		else
			pace->marks++;
	} else if (now >= pace->notify_at) {
		pace->notify_at = now + PACE_NOTIFY_NS;
		pace->notifies = true;
		qp_ready(qp);
	}
}

void pace_notified(struct qp *qp)
{
	if (!pace_out(qp) && !pace_back(qp)) {
		QP_COUNT(qp, rp_cnp_ignored, 1);
		return;
	}
	QP_COUNT(qp, rp_cnp_handled, 1);
	if (pace_out(qp))
		congestion_notified(pace_out(qp));
	if (pace_back(qp))
		congestion_notified(pace_back(qp));
}

/* A17.9.3: BECN, and 16 reserved bytes. */
bool pace_output(struct qp *qp, struct packet_out *out)
{
	static const uint8_t reserved[16];
	struct pace *pace = engine_of(qp)->pace;
	struct packet *p = &out->packet;

	if (!pace || !pace->notifies)
		return false;
	pace->notifies = false;
	path_address(qp, p);
	p->opcode = OPCODE_CNP;
	p->becn = true;
	p->resv.bth7 = 0;
	out->iov[0] = (struct iovec){ (void *)(uintptr_t)reserved, sizeof(reserved) };
	p->payload = out->iov;
	p->payload_iovs = 1;
	p->payload_bytes = sizeof(reserved);
	QP_COUNT(qp, sent_pkts, 1);
	QP_COUNT(qp, np_cnp_sent, 1);
	return true;
}

void pace_forget(struct qp *qp)
{
	free(engine_of(qp)->pace);
	engine_of(qp)->pace = NULL;
}

static void end_wait(struct qp *qp, wtime now, struct congestion *c)
{
	if (!c || now < c->deadline)
		return;
	c->deadline = WTIME_NEVER;
	qp_ready(qp);
}

void pace_expire(struct qp *qp, wtime now)
{
	end_wait(qp, now, pace_out(qp));
	end_wait(qp, now, pace_back(qp));
	for (unsigned i = 1; spread_of(qp) && i < spread_of(qp)->paths; i++)
		end_wait(qp, now, pace_of(qp, i));
}

wtime pace_deadline_by_paths(const struct qp *qp)
{
	wtime first = WTIME_NEVER;

	for (unsigned i = 1; i < spread_of(qp)->paths; i++)
		if (spread_of(qp)->path[i].state != SPREAD_UNPROVEN)
			first = wtime_min(first, pace_of(qp, i)->deadline);
	return first;
}

void pace_stop(struct qp *qp)
{
	for (unsigned i = 1; spread_of(qp) && i < spread_of(qp)->paths; i++)
		pace_of(qp, i)->deadline = WTIME_NEVER;
	if (pace_out(qp))
		pace_out(qp)->deadline = WTIME_NEVER;
	if (pace_back(qp))
		pace_back(qp)->deadline = WTIME_NEVER;
}

void pace_describe(const struct qp *qp, struct qp_context_path *path)
{
	const struct congestion *out = pace_out(qp), *back = pace_back(qp);

	path->is_known = out || back;
	if (out) {
		path->bytes_per_s = congestion_rate(out, engine_mtu(qp));
		path->round_trip_ns = out->smooth_ns;
		path->shortest_ns = congestion_shortest(out);
		path->lost = out->losses;
		path->marked = out->marks;
		path->notified = out->notifications;
	} else if (back) {
		path->bytes_per_s = congestion_rate(back, engine_mtu(qp));
		path->notified = back->notifications;
	}
}

void pace_check(const struct qp *qp)
{
	if (pace_out(qp))
		congestion_check(pace_out(qp));
	if (pace_back(qp))
		congestion_check(pace_back(qp));
}
