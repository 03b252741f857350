/* Ports that join multicast groups at a subnet administration, which answers what the test says. */
#include "administration.h"

#include "weftd/joins.h"
#include "weftd/mcast.h"

enum { ANSWER_MS = 3000, REPEATS = 3, MLID = 0xc007 };

static const uint8_t group[16] = { 0xff, 0x12, [15] = 9 };

static int set_up(void **state)
{
	sa_set_up(state, 1 << MAD_SET | 1 << SA_DELETE);
	set_manager(net_lid(1));
	return 0;
}

static int tear_down(void **state)
{
	joins_end(&net->hub);
	return sa_tear_down(state);
}

static void answer(unsigned status)
{
	bool leaves = sa.mad[3] == SA_DELETE;

	if (!leaves) {
		struct sa_mcmember m;

		sa_mcmember_get(&m, sa.mad);
		m.mlid = MLID;
		sa_mcmember_put(&m, sa.mad);
	}
	reply(leaves ? SA_DELETE_RESP : MAD_GET_RESP, status);
}

/* The process at h1 joins, or leaves; the port with it. */
static void ask(bool joins)
{
	struct control_msg msg = { .type = CTL_MCAST, .seq = 5, .a = joins, .service = MCAST_OF_PORT };

	memcpy(msg.gid, group, sizeof(group));
	net->messages[0] = 0;
	mcast_input(&net->hub, &net->client[0], &msg);
}

/* IBA 13.4.7: what was discarded is no refusal. */
static void a_busy_administration_is_asked_again(void **state)
{
	wtime now = net->hub.now;

	(void)state;
	ask(true);
	assert_int_equal(sa.requests, 1);
	for (unsigned i = 1; i <= REPEATS; i++) {
		answer(MAD_STATUS_BUSY);
		assert_int_equal(net->messages[0], 0);
		assert_true(umad_deadline(&net->hub) == now + ANSWER_MS * WTIME_MS);
		at(now + ANSWER_MS * WTIME_MS - 1);
		assert_int_equal(sa.requests, i);
		now += ANSWER_MS * WTIME_MS;
		at(now);
		assert_int_equal(sa.requests, i + 1);
	}
	answer(0);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->last[0].b & 0xffff, MLID);
	assert_true(umad_deadline(&net->hub) == WTIME_NEVER);
	/* leaving as well, with repeats of its own */
	ask(false);
	assert_int_equal(sa.mad[3], SA_DELETE);
	answer(MAD_STATUS_BUSY);
	at(now + ANSWER_MS * WTIME_MS);
	assert_int_equal(sa.mad[3], SA_DELETE);
	assert_int_equal(sa.requests, REPEATS + 3);
	assert_false(list_empty(&net->hub.joins));
	answer(0);
	assert_true(list_empty(&net->hub.joins));
}

static void one_that_stays_busy_is_as_one_that_is_silent(void **state)
{
	wtime now = net->hub.now;

	(void)state;
	ask(true);
	for (unsigned i = 0; i <= REPEATS; i++) {
		assert_int_equal(sa.requests, i + 1);
		answer(MAD_STATUS_BUSY);
		assert_int_equal(net->messages[0], 0);
		now += ANSWER_MS * WTIME_MS;
		at(now);
	}
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, ETIMEDOUT);
	assert_int_equal(sa.requests, REPEATS + 1);
	assert_true(list_empty(&net->hub.joins));
	/* the next request has all its repeats */
	ask(true);
	answer(MAD_STATUS_BUSY);
	at(now + ANSWER_MS * WTIME_MS);
	assert_int_equal(sa.requests, REPEATS + 3);
	answer(0);
	assert_int_equal(net->last[0].status, 0);
}

/* Busy once, and silent since: no longer than silence alone. */
static void one_that_was_busy_and_fell_silent_has_no_more_time(void **state)
{
	wtime begin = net->hub.now;

	(void)state;
	ask(true);
	answer(MAD_STATUS_BUSY);
	for (unsigned i = 1; i <= REPEATS; i++) {
		at(begin + i * ANSWER_MS * WTIME_MS);
		assert_int_equal(sa.requests, i + 1);
		assert_int_equal(net->messages[0], 0);
	}
	at(begin + (REPEATS + 1) * ANSWER_MS * WTIME_MS);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, ETIMEDOUT);
	assert_int_equal(sa.requests, REPEATS + 1);
}

static void a_refusal_is_told_at_once(void **state)
{
	(void)state;
	ask(true);
	answer(7 << 8);		/* a status of the class */
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, EACCES);
	assert_int_equal(sa.requests, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_busy_administration_is_asked_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_stays_busy_is_as_one_that_is_silent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_was_busy_and_fell_silent_has_no_more_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_refusal_is_told_at_once, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
