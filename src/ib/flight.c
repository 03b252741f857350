/* The book of packets in flight. Who writes what into it: requester.c and completer.c. */
#include "ib/flight.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

int flight_init(struct flight *f, uint32_t window)
{
	*f = (struct flight){
		.phase = FLIGHT_CLOSED, .window = window, .entries = (uint16_t)window,
		.deadline = WTIME_NEVER, .ack_deadline = WTIME_NEVER,
	};
	if (!window)
		return 0;
	f->entry = calloc(window, sizeof(*f->entry));
	return f->entry ? 0 : -ENOMEM;
}

void flight_fini(struct flight *f)
{
	loss_fini(f);
	free(f->entry);
	f->entry = NULL;
}

void flight_open(struct flight *f, psn_t psn, uint32_t msn)
{
	flight_close(f);
	f->phase = FLIGHT_OPEN;
	f->psn = f->fresh = psn;
	f->msn = msn;
}

void flight_close(struct flight *f)
{
	f->phase = FLIGHT_CLOSED;
	f->oldest = f->resend = f->newest = 0;
	f->packet = f->copied = f->unanswered = f->unasked = 0;
	f->heard = false;
	f->deadline = f->ack_deadline = WTIME_NEVER;
	f->probe = PROBE_NONE;
	loss_reset(f);
}

static void strike_out(struct flight *f)
{
	const struct flight_entry *e = flight_at(f, f->oldest);

	f->unanswered -= e->answer != ANSWER_ACK;
	if (e->is_last)
		f->msn = psn_add(f->msn, 1);
	if (f->resend == f->oldest)
		f->resend++;
	f->oldest++;
}

/* MSN-16, MSN-17: the change of the MSN completes, and covers every packet of the message. */
static bool arrived_by_message(const struct flight *f, const struct flight_entry *e, psn_t through, uint32_t msn)
{
	return psn_cmp(msn, f->msn) > 0 || (!e->is_last && psn_cmp(flight_last_psn(e), through) <= 0);
}

unsigned flight_ack(struct flight *f, psn_t through, bool by_message, uint32_t msn)
{
	unsigned gone = 0;

	while (!flight_empty(f)) {
		const struct flight_entry *e = flight_at(f, f->oldest);

		if (e->answer != ANSWER_ACK ||
		    !(by_message ? arrived_by_message(f, e, through, msn) : psn_cmp(flight_last_psn(e), through) <= 0))
			break;
		strike_out(f);
		gone++;
	}
	return gone;
}

void flight_answered(struct flight *f)
{
	struct flight_entry *e = flight_at(f, f->oldest);

	if (e->span == 1) {
		strike_out(f);
		return;
	}
	e->psn = psn_add(e->psn, 1);
	e->packet++;
	e->span--;
	e->asked_again = false;
}

bool flight_rewind(struct flight *f, psn_t psn)
{
	uint32_t to = f->oldest, end = f->selective ? f->newest : f->resend;

	while (to != end && psn_cmp(flight_last_psn(flight_at(f, to)), psn) < 0)
		to++;
	if (to == end)
		return false;
	if (f->selective)
		return loss_rewind(f, to, false);
	f->resend = to;
	return true;
}

void flight_rewind_all(struct flight *f)
{
	f->resend = f->oldest;
	if (f->selective)
		loss_rewind(f, f->oldest, true);
}

uint32_t flight_take_back(struct flight *f)
{
	const struct flight_entry *first = flight_at(f, f->resend);

	for (uint32_t i = f->resend; i != f->newest; i++)
		f->unanswered -= flight_at(f, i)->answer != ANSWER_ACK;
	loss_take_back(f, f->resend);
	f->newest = f->resend;
	f->psn = first->psn;
	f->packet = first->packet;
	f->copied = 0;
	return first->wqe;
}

void flight_check(const struct flight *f)
{
	uint32_t unanswered = 0;
	psn_t psn;

	weft_bug_on(f->resend - f->oldest > f->newest - f->oldest);
	if (flight_empty(f)) {
		weft_bug_on(f->unanswered);
		return;
	}
	weft_bug_on(f->phase == FLIGHT_CLOSED || f->newest - f->oldest > f->entries);
	psn = flight_at(f, f->oldest)->psn;
	for (uint32_t i = f->oldest; i != f->newest; i++) {
		const struct flight_entry *e = flight_at(f, i);

		weft_bug_on(e->psn != psn || e->span == 0 || (e->answer != ANSWER_READ && !e->is_direct && e->span != 1));
		psn = psn_add(psn, e->span);
		unanswered += e->answer != ANSWER_ACK;
	}
	weft_bug_on(psn != f->psn || unanswered != f->unanswered);
	loss_check(f);
}
