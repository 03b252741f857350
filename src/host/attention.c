#include "host/attention.h"

/* Our choices. A program that watches memory and polls only afterwards (ib_write_lat) takes every other frame at best, so
 * a short streak tells it from one that polls for messages. */
enum { NEEDED_LEAST = 8, NEEDED_MOST = 256 };

static const wtime FORGIVEN_AFTER = 100 * WTIME_MS;
static const wtime PATIENCE = 200 * WTIME_US;	/* for frames that lie waiting: several of the scheduler's wakes */
static const wtime RECENT = 50 * WTIME_US;

void attention_init(struct attention *a)
{
	*a = (struct attention){ .needed = NEEDED_LEAST };
}

bool attention_poll(struct attention *a, wtime now, bool took)
{
	a->last_poll = now;
	if (a->program_polls) {
		if (now - a->since > FORGIVEN_AFTER) {
			a->since = now;
			a->needed = a->needed / 2 > NEEDED_LEAST ? a->needed / 2 : NEEDED_LEAST;
		}
		return false;
	}
	if (!took || ++a->streak < a->needed)
		return false;
	a->program_polls = true;
	a->since = now;
	return true;
}

void attention_helped(struct attention *a)
{
	a->streak = 0;
}

bool attention_is_recent(const struct attention *a, wtime now)
{
	return now - a->last_poll < RECENT;
}

bool attention_tick(struct attention *a, wtime now, bool pending)
{
	wtime quiet = now - a->last_poll;

	if (quiet < (pending ? PATIENCE : ATTENTION_TICK))
		return false;
	if (pending && a->needed < NEEDED_MOST)
		a->needed *= 2;
	a->streak = 0;
	a->program_polls = false;
	return true;
}

void attention_sleep(struct attention *a)
{
	a->program_polls = false;
	a->streak = 0;
}

void attention_return(struct attention *a, wtime now)
{
	a->program_polls = true;
	a->last_poll = a->since = now;
}
