#include "host/attention.h"

/* Our choices. A run is broken by a gap that a polling loop does not make; a wake of the helper costs some 35 us, so
 * trust is worth having after as much polling; 20 ms is a little more than a scheduler's slice. */
static const wtime GAP = 100 * WTIME_US;
static const wtime TRUST_LEAST = 30 * WTIME_US;
static const wtime TRUST_MOST = 20 * WTIME_MS;
static const wtime TRUST_GROWS = 100 * WTIME_MS;
static const wtime PATIENCE = 200 * WTIME_US;

void attention_init(struct attention *a)
{
	*a = (struct attention){ .trust_after = TRUST_LEAST };
}

bool attention_poll(struct attention *a, wtime now)
{
	if (now - a->last_poll > GAP)
		a->run_start = now;
	a->last_poll = now;
	if (a->program_polls) {
		if (now - a->since > TRUST_GROWS) {
			a->since = now;
			a->trust_after = a->trust_after / 2 > TRUST_LEAST ? a->trust_after / 2 : TRUST_LEAST;
		}
		return false;
	}
	if (now - a->run_start < a->trust_after)
		return false;
	a->program_polls = true;
	a->since = now;
	return true;
}

bool attention_tick(struct attention *a, wtime now, bool pending)
{
	wtime quiet = now - a->last_poll;

	if (quiet < (pending ? PATIENCE : ATTENTION_TICK))
		return false;
	/* a program that watches memory and polls only afterwards (ib_write_lat) would stall once per message */
	if (pending)
		a->trust_after = wtime_min(a->trust_after * 4, TRUST_MOST);
	a->program_polls = false;
	return true;
}

void attention_sleep(struct attention *a)
{
	a->program_polls = false;
	a->last_poll = 0;
}
