/* Ports that join multicast groups at a subnet administration, which answers what the test says. */
#include "busy.h"

#include "weftd/joins.h"
#include "weftd/mcast.h"

enum { ANSWER_MS = 3000, MLID = 0xc007 };

static const uint8_t group[16] = { 0xff, 0x12, [15] = 9 }, other_group[16] = { 0xff, 0x12, [15] = 8 };

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

static void ask_of(const uint8_t gid[16], bool joins, uint32_t service)
{
	struct control_msg msg = { .type = CTL_MCAST, .seq = 5, .a = joins, .service = service };

	memcpy(msg.gid, gid, sizeof(msg.gid));
	net->messages[0] = 0;
	mcast_input(&net->hub, &net->client[0], &msg);
}

static void ask_as(bool joins, uint32_t service)
{
	ask_of(group, joins, service);
}

/* The process at h1 joins, or leaves; the port with it. */
static void ask(bool joins)
{
	ask_as(joins, MCAST_OF_PORT);
}

static const struct page_group *page_group(void)
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (net->page.group[i].used)
			return &net->page.group[i];
	}
	return NULL;
}

static bool is_named(void)
{
	return page_group()->slots[0] >> net->client[0].slot & 1;
}

/* What is under way; it is answered. */
static void asked_for(unsigned method, unsigned join_state)
{
	struct sa_mcmember m;

	sa_mcmember_get(&m, sa.mad);
	assert_int_equal(sa.mad[3], method);
	assert_int_equal(m.join_state, join_state);
	answer(0);
}

static void a_busy_administration_is_asked_again(void **state)
{
	(void)state;
	ask(true);
	assert_int_equal(sa.requests, 1);
	for (unsigned i = 0; i < REPEATS; i++)
		discards(ANSWER_MS);
	answer(0);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->last[0].b & 0xffff, MLID);
	assert_true(umad_deadline(&net->hub) == WTIME_NEVER);
	/* leaving as well, with repeats of its own */
	ask(false);
	assert_int_equal(sa.mad[3], SA_DELETE);
	answer(MAD_STATUS_BUSY);
	at(net->hub.now + ANSWER_MS * WTIME_MS);
	assert_int_equal(sa.mad[3], SA_DELETE);
	assert_int_equal(sa.requests, REPEATS + 3);
	assert_false(list_empty(&net->hub.joins));
	answer(0);
	assert_true(list_empty(&net->hub.joins));
}

static void one_that_stays_busy_is_as_one_that_is_silent(void **state)
{
	(void)state;
	ask(true);
	assert_int_equal(sa.requests, 1);
	stays_busy(ANSWER_MS);
	assert_true(list_empty(&net->hub.joins));
	/* the next request has all its repeats */
	ask(true);
	discards(ANSWER_MS);
	answer(0);
	assert_int_equal(net->last[0].status, 0);
}

static void one_that_was_busy_and_fell_silent_has_no_more_time(void **state)
{
	(void)state;
	ask(true);
	assert_int_equal(sa.requests, 1);
	falls_silent(ANSWER_MS);
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

/* The page has the other group where the first one was, which is refused when it is joined no more. */
static void a_refusal_takes_no_other_group(void **state)
{
	struct mad_remote from;
	uint8_t first[MAD_BYTES];

	(void)state;
	ask(true);
	memcpy(first, sa.mad, MAD_BYTES);
	from = sa.from;
	ask(false);
	assert_int_equal(net->last[0].status, 0);
	ask_of(other_group, true, MCAST_OF_PORT);
	asked_for(MAD_SET, SA_FULL_MEMBER);
	assert_int_equal(net->last[0].status, 0);
	memcpy(sa.mad, first, MAD_BYTES);
	sa.from = from;
	answer(7 << 8);
	assert_int_equal(net->last[0].status, EACCES);
	assert_true(is_named());
	assert_memory_equal(page_group()->gid, other_group, 16);
	ask_of(other_group, false, MCAST_OF_PORT);
	assert_int_equal(net->last[0].status, 0);
	asked_for(SA_DELETE, SA_FULL_MEMBER);
	assert_null(page_group());
	assert_true(list_empty(&net->hub.joins));
}

/* The group of the same address at another port of the process has its place in the page. */
static void a_refusal_takes_no_group_of_another_port(void **state)
{
	struct client *c = &net->client[0];
	struct page_group *g;

	(void)state;
	ask(true);
	g = &net->page.group[page_group() - net->page.group];
	ask(false);
	*g = (struct page_group){ .used = 1, .device = 1 };
	memcpy(g->gid, group, sizeof(group));
	c->joined[g - net->page.group] = c->joined_port[g - net->page.group] = 1;
	answer(7 << 8);
	assert_int_equal(net->last[0].status, EACCES);
	assert_int_equal(c->joined_port[g - net->page.group], 1);
	assert_int_equal(g->used, 1);
}

/* It has joined while its port leaves, and left before the port could join again. */
static void who_has_left_is_told_that_it_did_not_join(void **state)
{
	(void)state;
	ask(true);
	asked_for(MAD_SET, SA_FULL_MEMBER);
	ask(false);
	ask(true);
	assert_int_equal(net->messages[0], 0);
	ask(false);
	assert_int_equal(net->messages[0], 1);
	net->messages[0] = 0;
	asked_for(SA_DELETE, SA_FULL_MEMBER);
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].a, 1);
	assert_int_equal(net->last[0].status, ECANCELED);
	assert_true(list_empty(&net->hub.joins));
}

/* Of the transaction, and of nothing that was asked: it is asked again, as long as one that is silent. */
static void what_answers_something_else_is_no_answer(void **state)
{
	const wtime begin = net->hub.now;

	(void)state;
	ask(true);
	for (unsigned i = 0; i <= REPEATS; i++) {
		assert_int_equal(sa.requests, i + 1);
		wire_put(sa.mad, SA_PATH_RECORD, 16, 0, 16);
		answer(0);
		assert_int_equal(net->messages[0], 0);
		at(begin + (i + 1) * ANSWER_MS * WTIME_MS);
	}
	assert_int_equal(net->messages[0], 1);
	assert_int_equal(net->last[0].status, ETIMEDOUT);
	assert_true(list_empty(&net->hub.joins));
	ask(true);
	reply(SA_GET_TABLE_RESP, 0);
	assert_int_equal(net->messages[0], 0);
	at(net->hub.now + ANSWER_MS * WTIME_MS);
	asked_for(MAD_SET, SA_FULL_MEMBER);
	assert_int_equal(net->last[0].status, 0);
}

/* Senders get a group and its LID, and nothing that is sent to it. */
static void who_only_sends_is_no_receiver(void **state)
{
	(void)state;
	ask_as(true, MCAST_SENDS);
	asked_for(MAD_SET, SA_SEND_ONLY_FULL_MEMBER);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(net->last[0].b & 0xffff, MLID);
	assert_int_equal(page_group()->mlid, MLID);
	assert_false(is_named());
	/* what it is not it cannot leave */
	ask(false);
	assert_int_equal(net->last[0].status, ENOENT);
	ask_as(false, 0);
	assert_int_equal(net->last[0].status, ENOENT);
	assert_int_equal(sa.requests, 1);
	/* both at one port */
	ask(true);
	asked_for(MAD_SET, SA_FULL_MEMBER);
	assert_true(is_named());
	ask_as(true, MCAST_SENDS);
	assert_int_equal(net->last[0].status, 0);
	assert_int_equal(sa.requests, 2);
	ask_as(false, MCAST_SENDS);
	ask_as(false, MCAST_SENDS);
	asked_for(SA_DELETE, SA_SEND_ONLY_FULL_MEMBER);
	assert_true(is_named());
	assert_int_equal(sa.requests, 4);	/* and the full membership, which this administration does not name, again */
	asked_for(MAD_SET, SA_FULL_MEMBER);
	ask(false);
	asked_for(SA_DELETE, SA_FULL_MEMBER);
	assert_null(page_group());
	assert_true(list_empty(&net->hub.joins));
}

static void a_receiver_that_leaves_may_go_on_sending(void **state)
{
	struct sa_mcmember m;

	(void)state;
	ask_as(true, MCAST_SENDS);
	asked_for(MAD_SET, SA_SEND_ONLY_FULL_MEMBER);
	ask(true);
	asked_for(MAD_SET, SA_FULL_MEMBER);
	ask(false);
	assert_false(is_named());
	/* the port is still one that sends */
	sa_mcmember_get(&m, sa.mad);
	assert_int_equal(m.join_state, SA_FULL_MEMBER);
	m.join_state = SA_SEND_ONLY_FULL_MEMBER;
	sa_mcmember_put(&m, sa.mad);
	answer(0);
	assert_int_equal(sa.requests, 3);
	/* and here it is nothing any more, as OpenSM has it */
	ask(true);
	asked_for(MAD_SET, SA_FULL_MEMBER);
	ask(false);
	asked_for(SA_DELETE, SA_FULL_MEMBER);
	assert_int_equal(sa.requests, 6);
	asked_for(MAD_SET, SA_SEND_ONLY_FULL_MEMBER);
	mcast_leave(&net->hub, &net->client[0]);
	asked_for(SA_DELETE, SA_SEND_ONLY_FULL_MEMBER);
	assert_null(page_group());
}

static void a_sender_that_is_refused_has_no_group(void **state)
{
	(void)state;
	ask_as(true, MCAST_SENDS);
	answer(7 << 8);
	assert_int_equal(net->last[0].status, EACCES);
	assert_null(page_group());
	ask_as(false, MCAST_SENDS);
	assert_int_equal(net->last[0].status, ENOENT);
}

/* The page outlives weftd; those who only sent and do not come back are not in it. */
static void groups_without_members_end_with_weftd(void **state)
{
	static struct hub next;

	(void)state;
	next.page = &net->page;
	ask_as(true, MCAST_SENDS);
	asked_for(MAD_SET, SA_SEND_ONLY_FULL_MEMBER);
	mcast_inherit(&next);
	assert_null(page_group());
}

/* Of subordinate ids: what they have is on one account. */
static void users_of_one_account_have_one_share(void **state)
{
	struct control_msg msg = { .type = CTL_MCAST, .a = 1 }, answer;

	(void)state;
	for (unsigned i = 0; i <= JOINS_USER; i++) {
		net->client[0].uid = 1001 + i % 4;	/* none is weftd's */
		memcpy(msg.gid, &i, sizeof(i));
		assert_int_equal(joins_enter(&net->hub, &net->client[0], &msg, 0, &answer),
				 i < JOINS_USER ? -EINPROGRESS : -EDQUOT);
	}
	net->client[0].uid = 1000;
}

/* Four users want all that there is: weftd's own joins still. */
static void users_leave_some_to_their_owner(void **state)
{
	uint32_t user = net->client[0].account->user;
	struct control_msg msg = { .type = CTL_MCAST, .a = 1 }, answer;

	(void)state;
	for (unsigned i = 0; i <= JOINS_MOST + 1; i++) {
		bool fits = i != JOINS_USERS && i <= JOINS_MOST;

		net->client[0].uid = i <= JOINS_USERS ? 1001 : 1000;
		net->client[0].account->user = i <= JOINS_USERS ? 1001 + i / JOINS_USER : user;
		memcpy(msg.gid, &i, sizeof(i));
		assert_int_equal(joins_enter(&net->hub, &net->client[0], &msg, 0, &answer), fits ? -EINPROGRESS : -EDQUOT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_busy_administration_is_asked_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_stays_busy_is_as_one_that_is_silent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_was_busy_and_fell_silent_has_no_more_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_refusal_is_told_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_refusal_takes_no_other_group, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_refusal_takes_no_group_of_another_port, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_has_left_is_told_that_it_did_not_join, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_answers_something_else_is_no_answer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_only_sends_is_no_receiver, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_receiver_that_leaves_may_go_on_sending, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_sender_that_is_refused_has_no_group, set_up, tear_down),
		cmocka_unit_test_setup_teardown(users_of_one_account_have_one_share, set_up, tear_down),
		cmocka_unit_test_setup_teardown(users_leave_some_to_their_owner, set_up, tear_down),
		cmocka_unit_test_setup_teardown(groups_without_members_end_with_weftd, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
