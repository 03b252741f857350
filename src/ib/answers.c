/* What a requester does about responses that are missing. Who calls what: completer.c and requester.c. */
#include "ib/answers.h"

#include "ib/engine.h"

#include "base/log.h"
#include "wire/aeth.h"

#include <stdlib.h>

enum { MOST_DOUBLINGS = 6 };	/* our choice */

static struct answers *answers_of(const struct qp *qp)
{
	return engine_of(qp)->flight.answers;
}

/* Could it, if the peer repeats selectively? */
static bool may_be_selective(const struct qp *qp)
{
	return qp->attr.retry_cnt && !engine_completes_by_msn(engine_of(qp));
}

bool answers_are_selective(const struct qp *qp)
{
	return engine_of(qp)->flight.selective && may_be_selective(qp);
}

static bool asks_in_pieces(const struct qp *qp)
{
	const struct engine *e = engine_of(qp);

	return (e->flight.selective || (e->selective && !e->flight.heard)) && may_be_selective(qp);
}

/* Responses fill the path as packets do: no more than a window of them, and at least the usual one. */
static uint32_t most_under_way(const struct flight *f)
{
	return flight_most(f) > IB_WINDOW ? flight_most(f) : IB_WINDOW;
}

static uint32_t piece_of(uint32_t depth)
{
	uint32_t share = ANSWERS_REACH / (depth ? depth : 1);

	if (depth <= 1)
		return share;
	return share < ANSWERS_LEAST ? ANSWERS_LEAST : share > ANSWERS_MOST ? ANSWERS_MOST : share;
}

uint32_t answers_piece(const struct qp *qp, uint32_t rest)
{
	const struct flight *f = &engine_of(qp)->flight;
	uint32_t piece = piece_of(qp->attr.max_rd_atomic), span;

	if (f->unanswered && f->unanswered >= qp->attr.max_rd_atomic)
		return 0;
	if (!asks_in_pieces(qp))
		return rest < FLIGHT_SPAN_MOST ? rest : FLIGHT_SPAN_MOST;
	if (rest < piece)
		piece = rest;
	if (flight_empty(f))
		return piece;
	span = (uint32_t)psn_diff(f->psn, flight_first_psn(f)) + piece;
	if (span > ANSWERS_REACH)
		return 0;
	return span - (f->answers ? f->answers->early.count : 0) <= most_under_way(f) ? piece : 0;
}

static struct answers *make(struct qp *qp)
{
	struct flight *f = &engine_of(qp)->flight;
	struct reorder *early;

	if (f->answers)
		return f->answers;
	f->answers = calloc(1, sizeof(*f->answers));
	if (!f->answers)
		return NULL;
	early = &f->answers->early;
	reorder_open(qp->ca, &early);	/* the adapter's frames */
	f->answers->deadline = WTIME_NEVER;
	f->answers->dated = flight_first_psn(f);
	return f->answers;
}

/* Before a round trip was timed, a part of what a response takes. */
static wtime window(const struct flight *f)
{
	wtime window = loss_window(f, f->rtt.wait_ns);

	return window ? window : f->rtt.smooth_ns / 4;
}

/* The entry that this PSN is of, or the newest. */
static uint32_t index_of(const struct flight *f, psn_t psn)
{
	uint32_t i = f->oldest;

	while (i != f->newest && psn_cmp(flight_last_psn(flight_at(f, i)), psn) < 0)
		i++;
	return i;
}

/* By several paths: responses of a request that left by another than what came just now may follow it for as long as any answer
 * takes. So this PSN is as late as the window allows, or later, unless one comes by its own path before (overtake). */
static wtime later_by_paths(const struct flight *f, psn_t psn)
{
	uint32_t i = index_of(f, psn);

	return i != f->newest && loss_path_of(f, i) != f->heard_by ? 2 * f->rtt.wait_ns : 0;
}

/* Responses that are in reach now, and known to have been sent, may be asked for when the window has passed. */
static void date(struct qp *qp, wtime now)
{
	struct flight *f = &engine_of(qp)->flight;
	struct answers *a = f->answers;
	psn_t first = flight_first_psn(f);
	wtime due = now + window(f);

	/* dates behind the flight are old, and after 2^23 PSNs without a loss they seem to be ahead */
	if (psn_cmp(a->dated, first) < 0 || psn_cmp(a->dated, f->loss->known) > 0) {
		a->dated = first;
		a->is_due = false;
		a->deadline = WTIME_NEVER;
	}
	while (psn_cmp(a->dated, f->loss->known) < 0 && psn_diff(a->dated, first) < REORDER_SPAN) {
		wtime at = f->paths ? due + later_by_paths(f, a->dated) : due;

		a->missing[a->dated % REORDER_SPAN] = (struct answers_missing){ .due = at, .since = now };
		a->dated = psn_add(a->dated, 1);
		a->deadline = wtime_min(a->deadline, at);
	}
}

bool answers_sent(struct qp *qp, wtime now, psn_t before)
{
	if (!make(qp))
		return false;
	loss_known(&engine_of(qp)->flight, before, now);
	rtt_answered(&engine_of(qp)->flight.rtt, now, before, ack_timeout_ns(qp->attr.timeout));
	date(qp, now);
	return true;
}

static bool is_kept(const struct answers *a, psn_t psn)
{
	unsigned slot = psn % REORDER_SPAN;

	return a->early.held[slot / 64] >> slot % 64 & 1;
}

/* Of one entry of the flight. */
static void look_through(struct answers *a, const struct flight_entry *e, wtime now)
{
	for (uint32_t i = 0; i < e->span && psn_cmp(psn_add(e->psn, i), a->dated) < 0; i++) {
		psn_t psn = psn_add(e->psn, i);
		wtime due = a->missing[psn % REORDER_SPAN].due;

		if (is_kept(a, psn))
			continue;
		if (due <= now)
			a->is_due = true;
		else
			a->deadline = wtime_min(a->deadline, due);
	}
}

/* What may be asked for, now and later: an output that finds nothing to ask for would change nothing. */
static void settle(const struct flight *f, wtime now)
{
	struct answers *a = f->answers;

	a->is_due = false;
	a->deadline = WTIME_NEVER;
	for (uint32_t i = f->oldest; i != f->newest && psn_cmp(flight_at(f, i)->psn, a->dated) < 0; i++)
		if (flight_at(f, i)->answer != ANSWER_ACK)
			look_through(a, flight_at(f, i), now);
}

/* The peer answers in the order in which it is asked (RFC 8985, 6.2, for questions). */
static void question_answered(struct flight *f, wtime now, wtime asked)
{
	struct answers *a = f->answers;
	wtime due = now + window(f);

	if (asked <= a->answered)
		return;
	a->answered = asked;
	for (psn_t psn = flight_first_psn(f); psn_cmp(psn, a->dated) < 0; psn = psn_add(psn, 1)) {
		struct answers_missing *m = &a->missing[psn % REORDER_SPAN];

		if (is_kept(a, psn) || !m->asked || m->asked >= asked || m->due <= due)
			continue;
		m->due = due;
		a->deadline = wtime_min(a->deadline, due);
	}
}

/* The response that came just now is of this entry, and by its path. */
static bool is_by_its_path(const struct flight *f, uint32_t index)
{
	return loss_path_of(f, index) == f->heard_by;
}

/* By several paths nobody knows of which of them it was late, unless others of its own have overtaken it. */
static bool is_late_by_its_path(const struct flight *f, psn_t psn)
{
	return !f->paths || (f->answers->missing[psn % REORDER_SPAN].passed && is_by_its_path(f, index_of(f, psn)));
}

/* If others have overtaken it, it was late, not lost; also if it was asked for again, but so short ago that this is no answer. */
static void note_arrival(struct flight *f, wtime now, psn_t psn)
{
	struct answers_missing *m = &f->answers->missing[psn % REORDER_SPAN];

	if (psn_cmp(psn, f->answers->dated) >= 0)
		return;
	if (m->since && now - m->asked < (m->asked ? loss_least(f) : WTIME_NEVER)) {
		if (is_late_by_its_path(f, psn))
			loss_late(f, f->heard_by, now - m->since);
	} else if (m->asked) {
		question_answered(f, now, m->asked);
	}
	m->since = m->asked = 0;
	m->due = WTIME_NEVER;
	if (f->answers->is_due)
		settle(f, now);
}

/* Responses of one entry, before this PSN: may be asked for from `due` on. False: those before them are passed already. */
static bool pass(struct answers *a, const struct flight_entry *e, psn_t before, wtime now, wtime due)
{
	psn_t psn = psn_cmp(flight_last_psn(e), before) < 0 ? psn_add(flight_last_psn(e), 1) : before;

	while (psn_cmp(psn, e->psn) > 0) {
		struct answers_missing *m;

		psn = psn_add(psn, -1);
		m = &a->missing[psn % REORDER_SPAN];
		if (m->passed)
			return false;
		m->passed = true;
		if (is_kept(a, psn) || m->asked)
			continue;
		m->since = now;
		m->due = wtime_min(m->due, due);
		a->deadline = wtime_min(a->deadline, m->due);
	}
	return true;
}

/* The peer executes requests in the order of PSNs, and answers each by the path that it came by, which keeps order. So responses
 * of that path that this one has overtaken are lost, or as late as packets are there: nobody waits for those of other paths. One
 * that was asked for again came in another order. */
static void overtake(struct flight *f, wtime now, psn_t psn, uint32_t index)
{
	wtime due = now + loss_path_window(f, f->heard_by, f->rtt.wait_ns);
	bool goes_on = !f->answers->missing[psn % REORDER_SPAN].asked && is_by_its_path(f, index);

	for (uint32_t i = index; goes_on; i--) {
		if (flight_at(f, i)->answer != ANSWER_ACK && is_by_its_path(f, i))
			goes_on = pass(f->answers, flight_at(f, i), psn, now, due);
		goes_on = goes_on && i != f->oldest;
	}
}

/* A response to what asks for none would stay when all before it is answered. */
bool answers_keep(struct qp *qp, wtime now, const struct packet *p)
{
	struct flight *f = &engine_of(qp)->flight;
	uint32_t i = index_of(f, p->psn);

	if (i == f->newest || flight_at(f, i)->answer == ANSWER_ACK)
		return false;
	switch (reorder_hold(qp->ca, &f->answers->early, flight_first_psn(f), p)) {
	case REORDER_HELD:
		if (f->paths)
			overtake(f, now, p->psn, i);
		note_arrival(f, now, p->psn);
		return true;
	case REORDER_DISPUTED:
		f->answers->missing[p->psn % REORDER_SPAN].due = now;
		settle(f, now);
		return false;
	default:
		return false;
	}
}

void answers_came(struct qp *qp, wtime now, psn_t psn)
{
	struct flight *f = &engine_of(qp)->flight;

	loss_known(f, psn_add(psn, 1), now);
	if (!f->answers)
		return;
	note_arrival(f, now, psn);
	date(qp, now);
}

bool answers_keep_any(const struct qp *qp)
{
	return answers_of(qp) && reorder_holds(&answers_of(qp)->early);
}

struct packet *answers_next(struct qp *qp)
{
	return reorder_next(qp->ca, &answers_of(qp)->early, flight_first_psn(&engine_of(qp)->flight));
}

static bool is_due(const struct answers *a, psn_t psn, wtime now)
{
	return psn_cmp(psn, a->dated) < 0 && !is_kept(a, psn) && a->missing[psn % REORDER_SPAN].due <= now;
}

/* Asked for twice, nobody can tell which time was answered. The answer may wait behind all of a long READ, and each further
 * question makes that longer: the wait doubles. */
static void ask(struct answers_missing *m, wtime now, wtime wait)
{
	if (m->asked)
		m->since = 0;
	m->asked = now;
	m->due = now + (wait << m->times);
	m->times += m->times < MOST_DOUBLINGS;
}

/* Those of one entry. The first row of them that is due is the gap, unless there is one. */
static void search(struct qp *qp, wtime now, uint32_t index, struct answers_gap *gap)
{
	const struct flight *f = &engine_of(qp)->flight;
	const struct flight_entry *e = flight_at(f, index);
	struct answers *a = f->answers;
	wtime wait = rtt_expected(&f->rtt);

	for (uint32_t i = 0; i < e->span && psn_cmp(psn_add(e->psn, i), a->dated) < 0; i++) {
		psn_t psn = psn_add(e->psn, i);

		if (is_due(a, psn, now) && (!gap->count || (gap->index == index && gap->skipped + gap->count == i))) {
			if (!gap->count)
				*gap = (struct answers_gap){ index, i, 0 };
			gap->count++;
			ask(&a->missing[psn % REORDER_SPAN], now, wait);
		}
	}
}

bool answers_are_missing(const struct qp *qp)
{
	const struct answers *a = answers_of(qp);

	return a && (a->is_due || a->deadline != WTIME_NEVER);
}

void answers_expire(struct qp *qp, wtime now)
{
	struct answers *a = answers_of(qp);

	if (a && now >= a->deadline)
		settle(&engine_of(qp)->flight, now);
}

void answers_doubt(struct qp *qp, wtime now)
{
	const struct flight *f = &engine_of(qp)->flight;
	struct answers *a = f->answers;
	psn_t psn = flight_first_psn(f);

	while (psn_cmp(psn, a->dated) < 0 && !is_kept(a, psn)) {
		a->missing[psn % REORDER_SPAN].due = now;
		psn = psn_add(psn, 1);
	}
	settle(f, now);
}

bool answers_gap(struct qp *qp, wtime now, struct answers_gap *gap)
{
	const struct flight *f = &engine_of(qp)->flight;
	struct answers *a = f->answers;

	gap->count = 0;
	if (!a || !a->is_due)
		return false;
	for (uint32_t i = f->oldest; i != f->newest && psn_cmp(flight_at(f, i)->psn, a->dated) < 0; i++)
		if (flight_at(f, i)->answer != ANSWER_ACK)
			search(qp, now, i, gap);
	settle(f, now);
	return gap->count;
}

uint32_t answers_missing(const struct qp *qp, uint32_t index, uint32_t most)
{
	const struct flight_entry *e = flight_at(&engine_of(qp)->flight, index);
	uint32_t reach = most < REORDER_SPAN ? most : REORDER_SPAN, first;

	if (!answers_keep_any(qp))
		return most;
	first = (uint32_t)psn_diff(e->psn, flight_first_psn(&engine_of(qp)->flight));
	for (uint32_t i = 1; i < reach && first + i < REORDER_SPAN; i++)
		if (is_kept(answers_of(qp), psn_add(e->psn, i)))
			return i;
	return most;
}

void answers_forget(struct qp *qp)
{
	struct answers *a = answers_of(qp);

	if (!a)
		return;
	reorder_forget(qp->ca, &a->early);
	a->deadline = WTIME_NEVER;
	a->is_due = false;
	a->answered = 0;
	a->dated = engine_of(qp)->flight.psn;
}

void answers_fini(struct qp *qp)
{
	answers_forget(qp);
	free(answers_of(qp));
	engine_of(qp)->flight.answers = NULL;
}

static bool any_missing(const struct flight *f)
{
	const struct answers *a = f->answers;

	for (psn_t psn = flight_first_psn(f); psn_cmp(psn, a->dated) < 0; psn = psn_add(psn, 1))
		if (!is_kept(a, psn) && a->missing[psn % REORDER_SPAN].due != WTIME_NEVER)
			return true;
	return false;
}

void answers_check(const struct qp *qp)
{
	const struct flight *f = &engine_of(qp)->flight;

	if (!f->answers)
		return;
	weft_bug_on(f->answers->early.count && flight_empty(f));
	weft_bug_on(f->answers->is_due && !any_missing(f));
	reorder_check(qp->ca, &f->answers->early, flight_first_psn(f));
}
