/* Who takes frames in: a program that polls earns trust, loses it when it lets frames lie, and the longer each time. */
#include "host/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define START (10 * WTIME_S)

/* Polls every microsecond until trusted; how long that took. */
static wtime earn_trust(struct attention *a, wtime *now)
{
	wtime start = *now += WTIME_S;

	while (!attention_poll(a, *now))
		*now += WTIME_US;
	return *now - start;
}

static void polling_earns_trust(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	assert_false(a.program_polls);
	assert_true(earn_trust(&a, &now) <= 100 * WTIME_US);
	assert_true(a.program_polls);
	assert_false(attention_poll(&a, now));
	assert_false(attention_tick(&a, now + 10 * WTIME_US, true));
}

static void seldom_polls_earn_none(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	for (int i = 0; i < 1000; i++)
		assert_false(attention_poll(&a, now += 200 * WTIME_US));
}

static void silence_ends_it_without_blame(void **state)
{
	struct attention a;
	wtime now = START, first, second;

	(void)state;
	attention_init(&a);
	first = earn_trust(&a, &now);
	assert_true(attention_tick(&a, now + ATTENTION_TICK, false));
	assert_false(a.program_polls);
	second = earn_trust(&a, &now);
	assert_int_equal(first, second);
}

static void waiting_frames_cost_trust(void **state)
{
	struct attention a;
	wtime now = START, last = 0, took;

	(void)state;
	attention_init(&a);
	for (int i = 0; i < 4; i++) {
		took = earn_trust(&a, &now);
		assert_true(took > last);
		last = took;
		/* within two ticks at most, however the tick falls */
		assert_true(attention_tick(&a, now + ATTENTION_TICK, true));
	}
	assert_true(last > WTIME_MS);
	/* polling well for long makes good again */
	earn_trust(&a, &now);
	for (int i = 0; i < 2000000; i++)
		attention_poll(&a, now += WTIME_US);
	attention_tick(&a, now + ATTENTION_TICK, false);
	assert_true(earn_trust(&a, &now) <= 100 * WTIME_US);
}

static void sleep_is_believed(void **state)
{
	struct attention a;
	wtime now = START;

	(void)state;
	attention_init(&a);
	earn_trust(&a, &now);
	attention_sleep(&a);
	assert_false(a.program_polls);
	assert_false(attention_poll(&a, now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(polling_earns_trust),
		cmocka_unit_test(seldom_polls_earn_none),
		cmocka_unit_test(silence_ends_it_without_blame),
		cmocka_unit_test(waiting_frames_cost_trust),
		cmocka_unit_test(sleep_is_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
