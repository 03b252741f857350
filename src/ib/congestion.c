/* The law of congestion.h, round by round. Every quantity of packets is in parts of CONGESTION_ONE. */
#include "ib/congestion.h"

#include "base/log.h"

enum {
	MARK_GAIN = 16,			/* RFC 8257, 4.2: g = 1/16 */
	LOSS_GAIN = 128,		/* our choice: packets */
	ADDS = CONGESTION_ONE / 32,	/* our choice: packets in the target's time; of 32 senders one */
	GROWS = 16,			/* our choice: by such a part at most */
	MOST_TIMES = 64,		/* our choice: the target, of the shortest round trip */
	MOST_TIMED = 4096,		/* our choice: packets in the target's time, more than any link carries */
	MOST_TRIPS = 64,		/* our choice: whoever was silent for longer */
	GOOD_TRIPS = 8,		/* our choice: after so many without a queue the steps grow */
	LARGE = 16 * CONGESTION_ONE,	/* our choice: a window of who shares a link with few */
	HELPLESS = 4,			/* our choice: such a part of the window */
	MANY_LOST = CONGESTION_ONE / 8,	/* our choice: more than links lose by chance */
	ECHO_BITS = 6,
};

static uint32_t greater(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The answer that ended the round before let more packets leave: whether that is enough is for this round to tell. */
static void begin_round(struct congestion *c, wtime now, psn_t next)
{
	c->notified = c->is_limited = false;
	c->arrived = c->marked = c->lost = c->trips = 0;
	c->took_ns = c->all_took_ns = 0;
	c->round_since = now;
	c->round_end = next;
}

/* RFC 5681, 3.1: two packets of more than 2190 bytes, three of more than 1095, or four. */
static uint32_t initial_window(uint32_t mtu_bytes)
{
	return (mtu_bytes > 2190 ? 2 : mtu_bytes > 1095 ? 3 : 4) * CONGESTION_ONE;
}

void congestion_init(struct congestion *c, wtime now, uint32_t mtu_bytes, uint32_t most, psn_t psn, uint32_t seed)
{
	*c = (struct congestion){
		.window = initial_window(mtu_bytes), .most = most, .share = CONGESTION_ONE, .random = seed | 1, .starts = true,
		.base_ns = WTIME_NEVER, .base_before_ns = WTIME_NEVER, .base_since = now, .good_since = now,
		.relief_ns = WTIME_NEVER, .deadline = WTIME_NEVER,
	};
	if (c->window > most * CONGESTION_ONE)
		c->window = most * CONGESTION_ONE;
	begin_round(c, now, psn);
}

/* Nothing is held back before the first notification: until then nobody knows how much is too much. */
void congestion_init_timed(struct congestion *c, wtime now, uint32_t seed)
{
	congestion_init(c, now, 0, MOST_TIMED, 0, seed);
	c->is_timed = true;
	c->starts = false;
	c->window = MOST_TIMED * CONGESTION_ONE;
}

/* ---- the path ---- */

static wtime base_of(const struct congestion *c)
{
	return wtime_min(c->base_ns, c->base_before_ns);
}

/* Where queues are short beside it, all senders have one target, whatever queue each began in (Swift, 3.2); a long path is
 * allowed a quarter more than its shortest round trip. */
static wtime target_of(const struct congestion *c)
{
	wtime base = base_of(c), longest = base == WTIME_NEVER ? 0 : base + base / 4;

	return longest > CONGESTION_TARGET_NS ? longest : CONGESTION_TARGET_NS;
}

/* With such a window nothing is held back: it leaves at a pace at which all that may be under way is, with the shortest round
 * trip. */
static uint32_t limit_of(const struct congestion *c)
{
	wtime base = base_of(c), target = target_of(c);

	if (c->starts || base > target)
		return c->most * CONGESTION_ONE;
	return (uint32_t)(c->most * CONGESTION_ONE * (base < target / MOST_TIMES ? MOST_TIMES : target / base + 1));
}

static void set_window(struct congestion *c, uint64_t window)
{
	c->window = window < limit_of(c) ? (uint32_t)window : limit_of(c);
}

/* The target was another: the window for the same pace. */
static void keep_pace(struct congestion *c, wtime was)
{
	wtime target = target_of(c);

	if (target != was && !c->starts)
		set_window(c, greater((uint32_t)wtime_min(c->window * target / was, UINT32_MAX), CONGESTION_LEAST));
}

/* One that a sleeping process held up for long is no queue: it counts as twice the target. */
static void take_round_trip(struct congestion *c, wtime now, wtime took)
{
	wtime was;

	if (now - c->base_since > CONGESTION_MEMORY_NS) {
		c->base_before_ns = c->base_ns;
		c->base_ns = WTIME_NEVER;
		c->base_since = now;
	}
	was = target_of(c);
	c->base_ns = wtime_min(c->base_ns, took);
	keep_pace(c, was);
	c->smooth_ns = c->smooth_ns ? c->smooth_ns - c->smooth_ns / 8 + took / 8 : took;	/* RFC 6298, 2.3 */
	c->took_ns += wtime_min(took, 2 * target_of(c));
	c->all_took_ns += took;
	c->trips++;
}

/* The last one timed that has arrived; those before it are settled with it. */
static void time_arrival(struct congestion *c, wtime now, psn_t last)
{
	unsigned n = 0;

	while (n < c->asked && psn_cmp(c->timed[n].psn, last) <= 0)
		n++;
	if (!n)
		return;
	take_round_trip(c, now, now - c->timed[n - 1].at);
	c->asked = (uint8_t)(c->asked - n);
	for (unsigned i = 0; i < c->asked; i++)
		c->timed[i] = c->timed[n + i];
}

/* The mean of this round; 0: nothing was timed. */
static wtime mean_of(const struct congestion *c)
{
	return c->trips ? c->took_ns / c->trips : 0;
}

/* What it is a target's time later, if it goes on as since the round before: a pace fills a queue or drains it until it is
 * changed, and would be changed too much by whoever looked at the queue alone (PowerTCP: Addanki et al., NSDI 2022). */
static wtime expected(const struct congestion *c, wtime now)
{
	wtime mean = mean_of(c), target = target_of(c), since = now - c->before_at, more;

	if (!mean || !c->before_ns || !since)
		return mean;
	if (since < target / 4)
		since = target / 4;
	if (mean > c->before_ns)
		return mean + wtime_min((mean - c->before_ns) * target / since, target);
	more = (c->before_ns - mean) * target / since;
	return mean > more ? mean - more : 1;
}

/* Does a queue stand, of half of what the target allows? While the window doubles a third of it is enough. */
static bool queue_stands(const struct congestion *c)
{
	wtime base = base_of(c);

	return c->trips && mean_of(c) > base + (target_of(c) - base) / (c->starts ? 3 : 2);
}

/* ---- the law ---- */

static uint32_t smooth(uint32_t was, uint32_t is, uint32_t gain)
{
	return was - was / gain + is / gain;
}

static uint32_t marked_share(const struct congestion *c)
{
	if (c->notified || c->marked >= c->arrived)
		return c->notified || c->marked ? CONGESTION_ONE : 0;
	return c->marked * CONGESTION_ONE / c->arrived;
}

/* Swift, 3.1: by four fifths of the part beyond the target, at most to half. */
static uint32_t cut_for_delay(const struct congestion *c, wtime mean)
{
	wtime target = target_of(c);

	if (mean <= target)
		return 0;
	return (uint32_t)wtime_min((mean - target) * CONGESTION_ONE / mean * 4 / 5, CONGESTION_ONE / 2);
}

/* An eighth of the share that was marked; where marks persist up to half of it, as in RFC 8257, 3.3. Our choice: for few packets
 * the smoothed share alone is too much chance for 32 senders to agree. */
static uint32_t cut_for_marks(const struct congestion *c, uint32_t marked)
{
	uint32_t most = c->share > CONGESTION_ONE * 3 / 4 ? 2 * c->share - CONGESTION_ONE * 3 / 2 : 0;

	return marked * greater(most, CONGESTION_ONE / 8) / CONGESTION_ONE;
}

static uint32_t lost_share(const struct congestion *c)
{
	return c->lost ? c->lost * CONGESTION_ONE / (c->arrived + c->lost) : 0;
}

/* Smoothed over packets, as rounds may have few. */
static void note_losses(struct congestion *c)
{
	uint32_t all = c->arrived + c->lost < LOSS_GAIN ? c->arrived + c->lost : LOSS_GAIN;

	c->loss_share = (c->loss_share * (LOSS_GAIN - all) + lost_share(c) * all) / LOSS_GAIN;
}

/* Three quarters of the share that was lost, where a queue stands or losses are many. */
static uint32_t cut_for_losses(const struct congestion *c)
{
	if (!queue_stands(c) && c->loss_share <= MANY_LOST)
		return 0;
	return (uint32_t)wtime_min(lost_share(c), CONGESTION_ONE / 2) * 3 / 4;
}

/* Little is left of the window, and the round trip is no shorter: it is the path's or the peer's, or others keep the queue. */
static void believe_delay(struct congestion *c)
{
	wtime mean = c->all_took_ns / c->trips, was;	/* in full, or it could not be seen to fall */

	if (c->relief_ns == WTIME_NEVER || mean < c->relief_ns - c->relief_ns / 8) {
		c->relief_ns = mean;
		c->relief_window = c->window;
	} else if (c->window < c->relief_window / HELPLESS) {
		c->relief_ns = WTIME_NEVER;
		was = target_of(c);
		c->base_ns = c->base_before_ns = mean;
		keep_pace(c, was);
	}
}

/* The square root of a quantity, by Newton's method. */
static uint32_t root(uint32_t of)
{
	uint64_t square = (uint64_t)of * CONGESTION_ONE, at = of > CONGESTION_ONE ? of : CONGESTION_ONE, next;

	while ((next = (at + square / at) / 2) < at)
		at = next;
	return (uint32_t)at;
}

/* Whether answers that are late make the window smaller. */
static bool obeys_delay(const struct congestion *c)
{
	return c->echoes || c->window > CONGESTION_STRANGERS;
}

/* From a window that answers let go on to one that the pace does. */
static void end_start(struct congestion *c)
{
	c->starts = false;
	if (mean_of(c) && obeys_delay(c))
		set_window(c, c->window * target_of(c) / mean_of(c));
	if (!c->echoes)
		set_window(c, greater(c->window, CONGESTION_STRANGERS));
}

static void lessen(struct congestion *c, uint32_t cut)
{
	uint32_t window = c->window - (uint32_t)((uint64_t)c->window * cut / CONGESTION_ONE);

	c->window = greater(window, CONGESTION_LEAST);
}

/* By time, so that it is the same for all, and by the root of the window, so that few with large ones come to agree as fast as
 * many with small ones. After some time without a queue each step is twice as much as the one before. */
static uint64_t step_of(const struct congestion *c, wtime now)
{
	wtime target = target_of(c), good = (now - c->good_since) / target;
	uint64_t adds = ADDS * target / CONGESTION_TARGET_NS * greater(root(c->window), CONGESTION_ONE) / CONGESTION_ONE;
	uint64_t most = greater(c->window / GROWS, ADDS);

	for (; good > GOOD_TRIPS && adds < most; good--)
		adds *= 2;
	return adds < most ? adds : most;
}

/* A round that was long for its queue has one step, or the steps would outgrow what the queue takes away. */
static void enlarge(struct congestion *c, wtime now, bool is_late)
{
	wtime target = target_of(c), took = wtime_min(now - c->round_since, (is_late ? 1 : MOST_TRIPS) * target);

	set_window(c, c->window + step_of(c, now) * took / target);
}

static void end_round(struct congestion *c, wtime now, psn_t next)
{
	wtime later = expected(c, now);
	uint32_t marked = marked_share(c), delayed = cut_for_delay(c, later), cut;
	bool stands = queue_stands(c), late = delayed && c->was_delayed;

	c->share = smooth(c->share, marked, MARK_GAIN);
	note_losses(c);
	late = late && !(c->has_cut && c->window >= LARGE) && obeys_delay(c);
	cut = greater(late ? delayed : 0, cut_for_losses(c));
	c->has_cut = late;
	if (later >= mean_of(c))
		cut = greater(cut, cut_for_marks(c, marked));
	if (cut || (stands && c->stood)) {
		c->good_since = now;
		if (c->starts)
			end_start(c);
	}
	c->was_delayed = delayed;
	c->stood = stands;
	if (delayed)
		believe_delay(c);
	else
		c->relief_ns = WTIME_NEVER;
	lessen(c, cut);
	if (c->is_limited && !c->starts)
		enlarge(c, now, late);
	if (c->trips) {
		c->before_ns = mean_of(c);
		c->before_at = now;
	}
	begin_round(c, now, next);
}

/* What nobody acknowledges: the first notification tells that what left lately was too much. Who was silent since then sent it in
 * the first part of the time. */
static void end_period(struct congestion *c, wtime now)
{
	wtime took = wtime_min(now - c->round_since, 2 * CONGESTION_TARGET_NS);

	if (c->notified && c->window >= limit_of(c))
		set_window(c, greater(c->arrived, 1) * CONGESTION_ONE * CONGESTION_TARGET_NS / took);
	end_round(c, now, 0);
}

/* ---- the pace ---- */

/* Between two packets; 0: the window alone holds back. A window leaves in the target's time, whatever round trip was measured:
 * who finds the queue short would send the faster for it. */
static wtime gap_of(const struct congestion *c)
{
	if (c->starts || c->window >= limit_of(c))
		return 0;
	return target_of(c) * CONGESTION_ONE / c->window;
}

/* Three to five quarters: senders that began together do not keep in step. */
static wtime vary(struct congestion *c, wtime ns)
{
	c->random = c->random * 1664525 + 1013904223;	/* Numerical Recipes, 7.1 */
	return ns - ns / 4 + ns / 2 * (c->random >> 16) / 65536;
}

enum congestion_wait congestion_asks(struct congestion *c, wtime now, uint32_t under_way)
{
	if (c->is_timed && now - c->round_since >= CONGESTION_TARGET_NS)
		end_period(c, now);
	if (under_way >= congestion_packets(c)) {
		c->is_limited = true;
		return CONGESTION_FULL;
	}
	if (c->next_at <= now + CONGESTION_BURST_NS || !gap_of(c)) {
		c->deadline = WTIME_NEVER;
		return CONGESTION_GOES;
	}
	c->is_limited = true;
	c->deadline = c->next_at;
	return CONGESTION_PACED;
}

/* What was not used of the pace is kept for a burst, for clocks that wake late. */
void congestion_sent(struct congestion *c, wtime now, psn_t psn, bool asks)
{
	wtime earliest = now > CONGESTION_BURST_NS ? now - CONGESTION_BURST_NS : 0;

	c->next_at = (c->next_at < earliest ? earliest : c->next_at) + vary(c, gap_of(c));
	c->arrived += c->is_timed;	/* as far as anybody knows */
	if (!asks || c->asked == CONGESTION_ASKED)
		return;
	c->timed[c->asked].psn = psn;
	c->timed[c->asked++].at = now;
}

void congestion_repeats(struct congestion *c, psn_t psn, bool alone)
{
	unsigned kept = 0;

	for (unsigned n = 0; n < c->asked; n++)
		if (alone ? c->timed[n].psn != psn : psn_cmp(c->timed[n].psn, psn) < 0)
			c->timed[kept++] = c->timed[n];
	c->asked = (uint8_t)kept;
}

/* ---- what is told ---- */

/* Marks that the peer counted since it told last. */
static void take_echo(struct congestion *c, uint32_t arrived, uint8_t echo)
{
	uint32_t more = (uint32_t)(echo - c->echo) & ((1u << ECHO_BITS) - 1);

	c->echo = echo;
	if (more > arrived)
		more = arrived;
	c->marked += more;
	c->marks += more;
}

void congestion_heard(struct congestion *c, wtime now, uint32_t arrived, psn_t last, bool echoes, uint8_t echo, psn_t next)
{
	bool was_limited;

	time_arrival(c, now, last);
	if (!arrived)
		return;
	c->arrived += arrived;
	c->echoes |= echoes;
	if (echoes)
		take_echo(c, arrived, echo);
	was_limited = c->is_limited;
	if (psn_cmp(last, c->round_end) >= 0)
		end_round(c, now, next);
	if (c->starts && was_limited && !c->stood)
		set_window(c, c->window + (uint64_t)arrived * CONGESTION_ONE);
}

void congestion_lost(struct congestion *c, uint32_t packets)
{
	c->lost += packets;
	c->losses += packets;
}

/* RFC 5681, 3.1: one packet, and a start from there. */
void congestion_timeout(struct congestion *c)
{
	congestion_lost(c, 1);
	c->asked = 0;
	if (c->window > CONGESTION_ONE)
		c->window = CONGESTION_ONE;
	c->starts = true;
}

void congestion_notified(struct congestion *c)
{
	c->notifications++;
	c->notified = true;
}

uint64_t congestion_rate(const struct congestion *c, uint32_t mtu_bytes)
{
	wtime in = c->starts ? c->smooth_ns : target_of(c);

	return !in || c->window >= limit_of(c) ? 0 : (uint64_t)c->window * mtu_bytes * WTIME_S / CONGESTION_ONE / in;
}

wtime congestion_shortest(const struct congestion *c)
{
	return base_of(c) == WTIME_NEVER ? 0 : base_of(c);
}

void congestion_check(const struct congestion *c)
{
	weft_bug_on(c->window < CONGESTION_LEAST || c->window > (uint64_t)c->most * CONGESTION_ONE * MOST_TIMES ||
		    c->share > CONGESTION_ONE || c->loss_share > CONGESTION_ONE || c->asked > CONGESTION_ASKED);
}
