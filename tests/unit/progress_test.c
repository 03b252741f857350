/* Who takes frames in: a program that takes frame after frame earns trust, one that leaves them to the helper does not, and
 * one that lets them lie loses it, for longer each time. */
#include "runtime/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START (10 * WTIME_S)

enum { THREAD = 0x1000, OTHER_THREAD = 0x2000 };

/* Takes a frame every microsecond until trusted; how many that took. */
static unsigned earn_trust(struct progress *p, wtime *now)
{
	unsigned frames = 1;

	*now += WTIME_S;
	while (!progress_polled(p, *now += WTIME_US, true))
		frames++;
	return frames;
}

static void taking_frames_earns_trust(void **state)
{
	struct progress p;
	wtime now = START;

	(void)state;
	progress_init(&p);
	assert_false(progress_is_polled(&p));
	assert_in_range(earn_trust(&p, &now), 2, 20);
	assert_true(progress_is_polled(&p));
	assert_false(progress_polled(&p, now, true));
	assert_false(progress_ticked(&p, now + 10 * WTIME_US, true));
}

static void empty_polls_earn_none(void **state)
{
	struct progress p;
	wtime now = START;

	(void)state;
	progress_init(&p);
	for (int i = 0; i < 1000; i++)
		assert_false(progress_polled(&p, now += WTIME_US, false));
}

/* ib_write_lat: the helper takes the peer's write, the program its own acknowledgement. */
static void every_other_frame_is_not_enough(void **state)
{
	struct progress p;
	wtime now = START;

	(void)state;
	progress_init(&p);
	for (int i = 0; i < 1000; i++) {
		progress_helped(&p);
		assert_false(progress_polled(&p, now += 20 * WTIME_US, true));
	}
}

static void silence_ends_it_without_blame(void **state)
{
	struct progress p;
	wtime now = START;
	unsigned first;

	(void)state;
	progress_init(&p);
	first = earn_trust(&p, &now);
	assert_true(progress_ticked(&p, now + PROGRESS_TICK, false));
	assert_false(progress_is_polled(&p));
	assert_int_equal(earn_trust(&p, &now), first);
}

/* Not every poll tells: that there were some is seen by who looks. */
static void who_was_seen_to_poll_is_not_silent(void **state)
{
	struct progress p;
	wtime now = START;

	(void)state;
	progress_init(&p);
	earn_trust(&p, &now);
	for (unsigned i = 0; i < 5; i++) {
		progress_seen(&p, now += PROGRESS_TICK);
		assert_false(progress_ticked(&p, now, i % 2));
	}
	assert_true(progress_ticked(&p, now += PROGRESS_TICK, false));
	progress_seen(&p, now += WTIME_S);
	assert_false(progress_is_recent(&p, now));
}

static void waiting_frames_cost_trust(void **state)
{
	struct progress p;
	unsigned last = 0, took;
	wtime now = START;

	(void)state;
	progress_init(&p);
	for (int i = 0; i < 4; i++) {
		took = earn_trust(&p, &now);
		assert_true(took > last);
		last = took;
		assert_true(progress_ticked(&p, now + PROGRESS_TICK, true));
	}
	/* polling well for long makes good again */
	earn_trust(&p, &now);
	for (int i = 0; i < 2000000; i++)
		progress_polled(&p, now += WTIME_US, true);
	progress_ticked(&p, now + PROGRESS_TICK, false);
	assert_in_range(earn_trust(&p, &now), 2, 20);
}

static void sleep_is_believed(void **state)
{
	struct progress p;
	wtime now = START;

	(void)state;
	progress_init(&p);
	earn_trust(&p, &now);
	assert_true(progress_is_recent(&p, now));
	progress_armed(&p);
	assert_false(progress_is_polled(&p));
	assert_false(progress_polled(&p, now, true));
	assert_false(progress_is_recent(&p, now + WTIME_MS));
}

static void a_poller_whose_wait_ends_with_events_is_trusted_again(void **state)
{
	struct progress p;
	struct list events;
	wtime now = START;

	(void)state;
	progress_init(&p);
	earn_trust(&p, &now);
	progress_wait_begins(&p, THREAD, &events);
	assert_false(progress_is_polled(&p));
	progress_wait_ends(&p, now += WTIME_S, true);
	assert_true(progress_is_polled(&p));
	assert_false(progress_ticked(&p, now + 10 * WTIME_US, true));
	/* but not for long */
	assert_true(progress_ticked(&p, now + PROGRESS_TICK, false));
	assert_false(progress_is_polled(&p));
}

/* In this state, by the events of the table alone. */
static struct progress in_state(enum progress_state state, wtime *now)
{
	static struct list events;
	struct progress p;

	progress_init(&p);
	if (state == BY_SLEEPER || state == BY_POLLER_BESIDE_SLEEPER)
		progress_wait_begins(&p, THREAD, &events);
	if (state == BY_POLLER || state == BY_POLLER_BESIDE_SLEEPER)
		earn_trust(&p, now);
	assert_int_equal(p.state, state);
	return p;
}

static void takes_frames(struct progress *p, wtime now)
{
	for (int i = 0; i < 300; i++)
		progress_polled(p, now, true);
}

static void polls_in_vain(struct progress *p, wtime now)
{
	for (int i = 0; i < 300; i++)
		progress_polled(p, now, false);
}

static void is_silent(struct progress *p, wtime now)
{
	progress_ticked(p, now + PROGRESS_TICK, false);
}

static void lets_frames_lie(struct progress *p, wtime now)
{
	progress_ticked(p, now + PROGRESS_TICK / 2, true);
}

static void polled_just_now(struct progress *p, wtime now)
{
	progress_polled(p, now, false);
	progress_ticked(p, now + 10 * WTIME_US, true);
}

static void helper_takes_frames(struct progress *p, wtime now)
{
	(void)now;
	progress_helped(p);
}

static void is_armed(struct progress *p, wtime now)
{
	(void)now;
	progress_armed(p);
}

static void begins_to_wait(struct progress *p, wtime now)
{
	static struct list events;

	(void)now;
	progress_wait_begins(p, OTHER_THREAD, &events);
	assert_int_equal(p->sleeper, OTHER_THREAD);
	assert_ptr_equal(p->events, &events);
	assert_true(p->sleeper_looks);
}

static void wait_ends(struct progress *p, wtime now)
{
	progress_wait_ends(p, now, false);
}

static void wait_pays(struct progress *p, wtime now)
{
	progress_wait_ends(p, now, true);
}

static void forks(struct progress *p, wtime now)
{
	(void)now;
	progress_forked(p);
}

/* progress.h, row by row; the column is the state before. The last two need a sleeper. */
static void every_event_leads_where_the_table_says(void **unused)
{
	enum { H = BY_HELPER, P = BY_POLLER, S = BY_SLEEPER, B = BY_POLLER_BESIDE_SLEEPER, NO = PROGRESS_STATES };
	static const struct {
		void (*event)(struct progress *p, wtime now);
		uint8_t then[PROGRESS_STATES];
	} rows[] = {
		{ takes_frames, { P, P, B, B } },
		{ polls_in_vain, { H, P, S, B } },
		{ polled_just_now, { H, P, S, B } },
		{ helper_takes_frames, { H, P, S, B } },
		{ is_silent, { H, H, S, S } },
		{ lets_frames_lie, { H, H, S, S } },
		{ is_armed, { H, H, S, S } },
		{ begins_to_wait, { S, S, S, S } },
		{ forks, { H, H, H, H } },
		{ wait_ends, { NO, NO, H, P } },
		{ wait_pays, { NO, NO, P, P } },
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (enum progress_state before = 0; before < PROGRESS_STATES; before++) {
			wtime now = START;
			struct progress p = in_state(before, &now);

			if (rows[i].then[before] == PROGRESS_STATES)
				continue;
			rows[i].event(&p, now);
			if ((int)p.state != rows[i].then[before])
				fail_msg("row %zu, state %d: %d, not %d", i, before, p.state, rows[i].then[before]);
			assert_int_equal(progress_is_polled(&p), p.state == BY_POLLER || p.state == BY_POLLER_BESIDE_SLEEPER);
			assert_int_equal(progress_has_sleeper(&p), p.state == BY_SLEEPER || p.state == BY_POLLER_BESIDE_SLEEPER);
		}
	}
}

static void a_sleep_breaks_the_row(void **state)
{
	struct progress p;
	wtime now = START;
	unsigned frames = 0;

	(void)state;
	progress_init(&p);
	for (; frames < 5; frames++)
		assert_false(progress_polled(&p, now, true));
	progress_armed(&p);
	for (frames = 1; !progress_polled(&p, now, true); frames++)
		;
	assert_in_range(frames, 6, 20);
}

/* Helper and program share a CPU: each frame wakes the helper, which runs first. */
static void frames_are_left_to_a_program_that_polls(void **state)
{
	struct progress p;
	wtime now = START;
	unsigned frames = 0;
	bool trusted = false;

	(void)state;
	progress_init(&p);
	progress_polled(&p, now, false);
	for (; !trusted && frames < 100; frames++) {
		assert_true(progress_leaves(&p, now += WTIME_US));
		trusted = progress_polled(&p, now += WTIME_US, true);
		assert_true(progress_left(&p, false));
	}
	assert_in_range(frames, 2, 20);
	assert_false(progress_leaves(&p, now));
}

/* It takes them, and the next is there already. */
static void a_busy_poller_is_one(void **state)
{
	struct progress p;
	wtime now = START;

	(void)state;
	progress_init(&p);
	progress_polled(&p, now, false);
	assert_true(progress_leaves(&p, now));
	progress_polled(&p, now + WTIME_US, true);
	assert_true(progress_left(&p, true));
}

/* ib_write_lat polls for its own completion and then watches memory. */
static void nothing_is_left_in_vain_for_long(void **state)
{
	enum { WAKES = 100000 };
	struct progress p;
	wtime now = START;
	unsigned in_vain = 0, since = 0, last = 0;

	(void)state;
	progress_init(&p);
	for (unsigned i = 0; i < WAKES; i++, since++) {
		progress_polled(&p, now += 20 * WTIME_US, false);
		if (!progress_leaves(&p, now += WTIME_US))
			continue;
		assert_false(progress_left(&p, true));
		assert_true(in_vain++ < 2 || since > last || since > 1000);
		last = since;
		since = 0;
	}
	assert_in_range(in_vain, 50, 200);
	/* when it polls for frames again, that is forgotten */
	while (!progress_leaves(&p, now))
		;
	progress_polled(&p, now += WTIME_US, true);
	assert_true(progress_left(&p, true));
	assert_true(progress_leaves(&p, now));
}

static void nothing_is_left_to_who_sleeps(void **state)
{
	struct progress p;
	wtime now = START;

	(void)state;
	progress_init(&p);
	assert_false(progress_leaves(&p, now));
	progress_polled(&p, now, false);
	assert_true(progress_leaves(&p, now));
	assert_false(progress_leaves(&p, now + WTIME_MS));
	progress_may_sleep(&p);
	progress_polled(&p, now, false);
	assert_false(progress_leaves(&p, now));
	progress_polled(&p, now, true);
	assert_false(progress_leaves(&p, now));	/* it empties the CQ, and sleeps */
	/* armed once, and polled ever since */
	for (unsigned i = 0; i < 16; i++)
		progress_polled(&p, now, false);
	assert_true(progress_leaves(&p, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taking_frames_earns_trust),
		cmocka_unit_test(empty_polls_earn_none),
		cmocka_unit_test(every_other_frame_is_not_enough),
		cmocka_unit_test(silence_ends_it_without_blame),
		cmocka_unit_test(who_was_seen_to_poll_is_not_silent),
		cmocka_unit_test(waiting_frames_cost_trust),
		cmocka_unit_test(sleep_is_believed),
		cmocka_unit_test(a_poller_whose_wait_ends_with_events_is_trusted_again),
		cmocka_unit_test(every_event_leads_where_the_table_says),
		cmocka_unit_test(a_sleep_breaks_the_row),
		cmocka_unit_test(frames_are_left_to_a_program_that_polls),
		cmocka_unit_test(a_busy_poller_is_one),
		cmocka_unit_test(nothing_is_left_in_vain_for_long),
		cmocka_unit_test(nothing_is_left_to_who_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
