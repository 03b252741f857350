#include "ib/rtt.h"

enum { UNKNOWN_SHARE = 4 };	/* our choice: before anything was measured, this part of the ACK timeout */

/* Our choice: some wake-ups of a sleeping process, of which an answer may take two. */
static const wtime LEAST = 200 * WTIME_US;

/* Our choice: less than an answer between processes takes, so that it delays nobody. An answer that comes at once, as one that
 * was made up may, lets nobody ask again without end. */
static const wtime LEAST_EXPECTED = 5 * WTIME_US;

static void set_wait(struct rtt *r, wtime wait_ns, wtime longest_ns)
{
	r->wait_ns = wtime_min(wait_ns < LEAST ? LEAST : wait_ns, longest_ns);
}

static wtime estimate(const struct rtt *r, wtime longest_ns)
{
	return r->smooth_ns ? r->smooth_ns + 4 * r->variation_ns : longest_ns / UNKNOWN_SHARE;
}

wtime rtt_expected(const struct rtt *r)
{
	wtime expected = wtime_min(r->wait_ns, estimate(r, WTIME_NEVER));

	return expected < LEAST_EXPECTED ? LEAST_EXPECTED : expected;
}

void rtt_init(struct rtt *r, psn_t psn, wtime longest_ns)
{
	*r = (struct rtt){ .doubtful = psn };
	set_wait(r, estimate(r, longest_ns), longest_ns);
}

void rtt_sent(struct rtt *r, wtime now, psn_t psn)
{
	if (r->measuring || psn_cmp(psn, r->doubtful) < 0)
		return;
	r->measuring = true;
	r->psn = psn;
	r->since = now;
}

void rtt_doubt(struct rtt *r, psn_t through)
{
	if (psn_cmp(r->doubtful, through) <= 0)
		r->doubtful = psn_add(through, 1);
}

void rtt_lost(struct rtt *r, psn_t from)
{
	if (psn_cmp(r->doubtful, from) > 0)
		r->doubtful = from;
	if (psn_cmp(r->psn, from) >= 0)
		r->measuring = false;
}

void rtt_back_off(struct rtt *r, wtime longest_ns)
{
	set_wait(r, r->wait_ns < longest_ns / 2 ? 2 * r->wait_ns : longest_ns, longest_ns);
}

/* RFC 6298, section 2 */
static void take_sample(struct rtt *r, wtime sample)
{
	wtime off = sample > r->smooth_ns ? sample - r->smooth_ns : r->smooth_ns - sample;

	if (r->smooth_ns == 0) {
		r->smooth_ns = sample ? sample : 1;
		r->variation_ns = sample / 2;
		return;
	}
	r->variation_ns = r->variation_ns - r->variation_ns / 4 + off / 4;
	r->smooth_ns = r->smooth_ns - r->smooth_ns / 8 + sample / 8;
}

void rtt_answered(struct rtt *r, wtime now, psn_t before, wtime longest_ns)
{
	bool is_doubtful = psn_cmp(r->psn, r->doubtful) < 0;
	wtime took = now - r->since;

	if (psn_cmp(r->doubtful, before) < 0)
		r->doubtful = before;
	if (!r->measuring || psn_cmp(r->psn, before) >= 0)
		return;
	r->measuring = false;
	if (!is_doubtful)
		take_sample(r, took);
	set_wait(r, estimate(r, longest_ns), longest_ns);
	/* the answer may be to the packet or to the probe; a probe after that time leaves no doubt */
	if (is_doubtful && r->wait_ns < took)
		set_wait(r, took, longest_ns);
}

void rtt_held(struct rtt *r, wtime now, psn_t psn, wtime longest_ns)
{
	if (!r->measuring || r->psn != psn)
		return;
	r->measuring = false;
	if (psn_cmp(psn, r->doubtful) < 0)
		return;
	take_sample(r, now - r->since);
	set_wait(r, estimate(r, longest_ns), longest_ns);
}
