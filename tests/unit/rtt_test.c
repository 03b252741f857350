/* The estimate of round-trip times and the wait before a probe that follows from it. */
#include "ib/rtt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const wtime LONGEST = 64 * WTIME_MS, LEAST = 200 * WTIME_US;

/* One packet that is answered after `took`. */
static void exchange(struct rtt *r, wtime *now, psn_t *psn, wtime took)
{
	rtt_sent(r, *now, *psn);
	*now += took;
	*psn = psn_add(*psn, 1);
	rtt_answered(r, *now, *psn, LONGEST);
}

static void nothing_measured_waits_a_part_of_the_timeout(void **state)
{
	struct rtt r;

	rtt_init(&r, 0, LONGEST);
	assert_int_equal(r.wait_ns, LONGEST / 4);
	rtt_init(&r, 0, 100 * WTIME_US);
	assert_int_equal(r.wait_ns, 100 * WTIME_US);	/* never longer than the ACK timeout */
}

static void the_wait_follows_the_time(void **state)
{
	psn_t psn = 0xfffffe;
	wtime now = 0;
	struct rtt r;

	rtt_init(&r, psn, LONGEST);
	exchange(&r, &now, &psn, 2 * WTIME_MS);
	assert_int_equal(r.wait_ns, 6 * WTIME_MS);	/* RFC 6298, 2.2 */
	for (int i = 0; i < 100; i++)
		exchange(&r, &now, &psn, 2 * WTIME_MS);
	assert_in_range(r.wait_ns, 2 * WTIME_MS, 2 * WTIME_MS + 10 * WTIME_US);
	for (int i = 0; i < 100; i++)
		exchange(&r, &now, &psn, 10 * WTIME_US);
	assert_int_equal(r.wait_ns, LEAST);
	for (int i = 0; i < 20; i++)
		exchange(&r, &now, &psn, 30 * WTIME_MS);
	assert_in_range(r.wait_ns, 30 * WTIME_MS, LONGEST);
}

/* Karn: whose answer it is cannot be told. */
static void what_may_have_left_twice_is_no_measure(void **state)
{
	struct rtt r;

	rtt_init(&r, 3, LONGEST);
	rtt_sent(&r, 0, 5);
	rtt_doubt(&r, 6);
	rtt_answered(&r, WTIME_MS, 6, LONGEST);
	assert_int_equal(r.smooth_ns, 0);
	rtt_sent(&r, 0, 6);
	assert_false(r.measuring);
	rtt_sent(&r, 0, 7);
	assert_true(r.measuring);
}

static void what_was_lost_is_measured_when_it_leaves_again(void **state)
{
	struct rtt r;

	rtt_init(&r, 3, LONGEST);
	rtt_sent(&r, 0, 8);
	rtt_doubt(&r, 6);
	rtt_lost(&r, 5);
	assert_false(r.measuring);
	rtt_sent(&r, 0, 4);
	assert_false(r.measuring);
	rtt_sent(&r, WTIME_MS, 5);
	rtt_answered(&r, 2 * WTIME_MS, 6, LONGEST);
	assert_int_equal(r.smooth_ns, WTIME_MS);
}

/* Answers that come at once, as those that were made up may, let nobody ask again at once. */
static void answers_in_no_time_are_not_believed(void **state)
{
	struct rtt r;
	wtime now = 0;
	psn_t psn = 0;

	(void)state;
	rtt_init(&r, psn, 100 * WTIME_MS);
	for (unsigned i = 0; i < 100; i++)
		exchange(&r, &now, &psn, 1);
	assert_true(rtt_expected(&r) >= 5 * WTIME_US);
	for (unsigned i = 0; i < 100; i++)
		exchange(&r, &now, &psn, 50 * WTIME_US);
	assert_in_range(rtt_expected(&r), 50 * WTIME_US, 60 * WTIME_US);
}

static void vain_probes_wait_longer_and_longer(void **state)
{
	psn_t psn = 0;
	wtime now = 0;
	struct rtt r;

	rtt_init(&r, 0, LONGEST);
	exchange(&r, &now, &psn, WTIME_US);
	rtt_back_off(&r, LONGEST);
	rtt_back_off(&r, LONGEST);
	assert_int_equal(r.wait_ns, 4 * LEAST);
	rtt_sent(&r, now, psn);
	rtt_doubt(&r, psn);
	rtt_answered(&r, now + 3 * LEAST, psn_add(psn, 1), LONGEST);
	assert_int_equal(r.wait_ns, 3 * LEAST);		/* that long it may have taken */
	psn = psn_add(psn, 1);
	exchange(&r, &now, &psn, WTIME_US);
	assert_int_equal(r.wait_ns, LEAST);
	for (int i = 0; i < 20; i++)
		rtt_back_off(&r, LONGEST);
	assert_int_equal(r.wait_ns, LONGEST);
	rtt_back_off(&r, WTIME_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_measured_waits_a_part_of_the_timeout),
		cmocka_unit_test(the_wait_follows_the_time),
		cmocka_unit_test(what_may_have_left_twice_is_no_measure),
		cmocka_unit_test(what_was_lost_is_measured_when_it_leaves_again),
		cmocka_unit_test(answers_in_no_time_are_not_believed),
		cmocka_unit_test(vain_probes_wait_longer_and_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
