/* Questions to all processes, in time that does not pass by itself: whom weftd waits for, and how long. */
#include "weftd/account.h"
#include "weftd/hub.h"
#include "weftd/page.h"
#include "weftd/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROCESSES = 500 };

static struct world {
	struct hub hub;
	struct fabric_page page;
	struct claims claims;
	struct account account;
	struct client asker, process[PROCESSES];
	uint32_t seq;
	unsigned answers, unanswered;
} *world;

static unsigned count(const char *text, size_t bytes, const char *word)
{
	unsigned n = 0;

	for (const char *at = text; (at = memmem(at, bytes - (size_t)(at - text), word, strlen(word))); at++)
		n++;
	return n;
}

static bool take(struct hub *hub, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	char *all = malloc(1 << 20);
	ssize_t n = msg->text_bytes;

	(void)hub;
	if (c != &world->asker) {
		world->seq = msg->seq;
	} else {
		if (nfds)
			n = pread(fds[0], all, 1 << 20, 0);
		assert_int_equal(msg->status, 0);
		world->answers++;
		world->unanswered = count(nfds ? all : text, (size_t)n, "no answer within");
	}
	free(all);
	return true;
}

static const struct hub_ops ops = { .send = take };

static int set_up(void **state)
{
	struct state kept;

	(void)state;
	world = calloc(1, sizeof(*world));
	assert_non_null(world);
	page_set_devices(&world->page, &control_default, 0x0200000000000100);
	kept = (struct state){ .page = &world->page, .claims = &world->claims, .page_fd = -1 };
	hub_init(&world->hub, &ops, &kept, 1);
	world->hub.now = WTIME_S;
	world->asker = (struct client){ .kind = CLIENT_COMMAND, .account = &world->account };
	for (int i = 0; i < PROCESSES; i++) {
		world->process[i] = (struct client){ .kind = CLIENT_PROCESS, .account = &world->account, .pid = 1000 + i };
		list_append(&world->hub.clients, &world->process[i].node);
	}
	world->hub.process_count = PROCESSES;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(world);
	return 0;
}

static void ask(void)
{
	const struct control_msg question = { .type = CTL_QUERY, .seq = 1, .text_bytes = 2 };

	report_query(&world->hub, &world->asker, &question, "qp");
}

static void pass(wtime time)
{
	world->hub.now += time;
	report_expire(&world->hub);
}

static void say(int process)
{
	const struct control_msg msg = { .type = CTL_REPORT, .seq = world->seq, .text_bytes = 2 };

	report_input(&world->hub, &world->process[process], &msg, "[]");
}

/* Programs that poll without end take turns at the processors: the last one has its turn after seconds. */
static void who_answers_late_is_waited_for_while_others_answer(void **state)
{
	(void)state;
	ask();
	pass(5 * WTIME_S);
	for (int i = 0; i < PROCESSES; i++) {
		pass(20 * WTIME_MS);
		say(i);
	}
	assert_int_equal(world->answers, 1);
	assert_int_equal(world->unanswered, 0);
}

static void the_stopped_are_not_waited_for_much_longer_than_the_others(void **state)
{
	(void)state;
	ask();
	for (int i = 0; i < PROCESSES - 1; i++)
		say(i);
	pass(900 * WTIME_MS);
	assert_int_equal(world->answers, 0);
	pass(200 * WTIME_MS);
	assert_int_equal(world->answers, 1);
	assert_int_equal(world->unanswered, 1);
}

static void nobody_is_waited_for_without_end(void **state)
{
	(void)state;
	ask();
	for (int i = 0; i < PROCESSES && !world->answers; i++) {
		pass(900 * WTIME_MS);
		if (!world->answers)
			say(i);
	}
	assert_int_equal(world->answers, 1);
	assert_true(world->hub.now <= 23 * WTIME_S && world->unanswered > PROCESSES / 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(who_answers_late_is_waited_for_while_others_answer),
		TEST(the_stopped_are_not_waited_for_much_longer_than_the_others),
		TEST(nobody_is_waited_for_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
