/* Who takes frames in: a program that takes frame after frame earns trust, one that leaves them to the helper does not, and
 * one that lets them lie loses it, for longer each time. */
#include "host/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START (10 * WTIME_S)

/* Takes a frame every microsecond until trusted; how many that took. */
static unsigned earn_trust(struct attention *a, wtime *now)
{
	unsigned frames = 1;

	*now += WTIME_S;
	while (!attention_poll(a, *now += WTIME_US, true))
		frames++;
	return frames;
}

static void taking_frames_earns_trust(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	assert_false(a.program_polls);
	assert_in_range(earn_trust(&a, &now), 2, 20);
	assert_true(a.program_polls);
	assert_false(attention_poll(&a, now, true));
	assert_false(attention_tick(&a, now + 10 * WTIME_US, true));
}

static void empty_polls_earn_none(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	for (int i = 0; i < 1000; i++)
		assert_false(attention_poll(&a, now += WTIME_US, false));
}

/* ib_write_lat: the helper takes the peer's write, the program its own acknowledgement. */
static void every_other_frame_is_not_enough(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	for (int i = 0; i < 1000; i++) {
		attention_helped(&a);
		assert_false(attention_poll(&a, now += 20 * WTIME_US, true));
	}
}

static void silence_ends_it_without_blame(void **state)
{
	struct attention a;
	wtime now = START;
	unsigned first;

	(void)state;
	attention_init(&a);
	first = earn_trust(&a, &now);
	assert_true(attention_tick(&a, now + ATTENTION_TICK, false));
	assert_false(a.program_polls);
	assert_int_equal(earn_trust(&a, &now), first);
}

static void waiting_frames_cost_trust(void **state)
{
	struct attention a;
	unsigned last = 0, took;
	wtime now = START;

	(void)state;
	attention_init(&a);
	for (int i = 0; i < 4; i++) {
		took = earn_trust(&a, &now);
		assert_true(took > last);
		last = took;
		assert_true(attention_tick(&a, now + ATTENTION_TICK, true));
	}
	/* polling well for long makes good again */
	earn_trust(&a, &now);
	for (int i = 0; i < 2000000; i++)
		attention_poll(&a, now += WTIME_US, true);
	attention_tick(&a, now + ATTENTION_TICK, false);
	assert_in_range(earn_trust(&a, &now), 2, 20);
}

static void sleep_is_believed(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	earn_trust(&a, &now);
	assert_true(attention_is_recent(&a, now));
	attention_sleep(&a);
	assert_false(a.program_polls);
	assert_false(attention_poll(&a, now, true));
	assert_false(attention_is_recent(&a, now + WTIME_MS));
}

static void a_trusted_sleeper_is_trusted_again(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	earn_trust(&a, &now);
	attention_sleep(&a);
	assert_false(a.program_polls);
	attention_return(&a, now += WTIME_S);
	assert_true(a.program_polls);
	assert_false(attention_tick(&a, now + 10 * WTIME_US, true));
	/* but not for long */
	assert_true(attention_tick(&a, now + ATTENTION_TICK, false));
	assert_false(a.program_polls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taking_frames_earns_trust),
		cmocka_unit_test(empty_polls_earn_none),
		cmocka_unit_test(every_other_frame_is_not_enough),
		cmocka_unit_test(silence_ends_it_without_blame),
		cmocka_unit_test(waiting_frames_cost_trust),
		cmocka_unit_test(sleep_is_believed),
		cmocka_unit_test(a_trusted_sleeper_is_trusted_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
