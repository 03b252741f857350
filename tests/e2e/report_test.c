/* A question to a hub of the test's own, with processes that answer as they like and a clock that is set. */
#include "weftd/hub.h"
#include "weftd/report_form.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ASKER, TALKER, OTHER, CLIENTS, USER = 20001 };

static struct {
	struct hub hub;
	struct fabric_page page;
	struct claims claims;
	struct client client[CLIENTS];
	struct control_msg last[CLIENTS];	/* the last message to each */
	int sent[CLIENTS];
	char *text;				/* owned: the answer to the asker */
	wtime now;
} *world;

static bool take(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	int i = (int)(c - world->client);
	struct stat st;

	(void)h;
	world->last[i] = *msg;
	world->sent[i]++;
	if (i != ASKER)
		return true;
	free(world->text);
	if (!nfds) {
		world->text = strndup(text ? text : "", msg->text_bytes);
		return true;
	}
	assert_int_equal(fstat(fds[0], &st), 0);
	world->text = calloc(1, (size_t)st.st_size + 1);
	assert_int_equal(pread(fds[0], world->text, (size_t)st.st_size, 0), st.st_size);
	return true;
}

static bool has_room(struct hub *h, const struct client *c)
{
	(void)h;
	(void)c;
	return true;
}

static void drop(struct hub *h, struct client *c, const char *why)
{
	(void)h;
	(void)c;
	fail_msg("%s", why);
}

static const struct hub_ops ops = { .send = take, .has_room = has_room, .drop = drop };

static int set_up(void **state)
{
	struct state s;

	(void)state;
	world = calloc(1, sizeof(*world));
	s = (struct state){ .page = &world->page, .claims = &world->claims, .page_fd = -1 };
	world->now = 1;
	hub_init(&world->hub, &ops, &s, world->now);
	world->hub.uid = 0;
	for (int i = 0; i < CLIENTS; i++) {
		enum control_limit limit;

		world->client[i].uid = i == ASKER ? 0 : USER;
		assert_int_equal(hub_join(&world->hub, &world->client[i], &limit), 0);
		world->client[i].kind = i == ASKER ? CLIENT_COMMAND : CLIENT_PROCESS;
		world->hub.process_count += i != ASKER;
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < CLIENTS; i++)
		hub_leave(&world->hub, &world->client[i]);
	assert_true(list_empty(&world->hub.accounts) && list_empty(&world->hub.reports));
	free(world->text);
	free(world);
	return 0;
}

static void ask(void)
{
	struct control_msg msg = { .type = CTL_QUERY, .seq = 5, .text_bytes = 2 };

	hub_input(&world->hub, &world->client[ASKER], world->now, &msg, "qp", NULL, 0);
}

/* The next part; `next` is the row that comes after it, 0: it is the last. */
static void say(int i, const char *text, uint32_t next)
{
	struct control_msg msg = { .type = CTL_REPORT, .seq = world->last[i].seq, .a = world->last[i].a, .b = next };

	msg.text_bytes = (uint32_t)strlen(text);
	hub_input(&world->hub, &world->client[i], world->now, &msg, text, NULL, 0);
}

static bool is_answered(void)
{
	return world->sent[ASKER] > 0;
}

static void parts_are_joined(void **state)
{
	(void)state;
	ask();
	say(OTHER, "[]", 0);
	say(TALKER, "[{\"qpn\":1},{\"qpn\":2}]", 2);
	assert_int_equal(world->last[TALKER].a, 2);
	say(TALKER, "[ {\"qpn\":3} ]", 0);
	assert_true(is_answered());
	assert_non_null(strstr(world->text, "\"report\":[{\"qpn\":1},{\"qpn\":2},{\"qpn\":3}"));
	assert_non_null(strstr(world->text, "\"report\":[]"));
	assert_null(strstr(world->text, "is_cut"));
}

static void what_is_no_report_is_left_out_and_the_others_are_shown(void **state)
{
	static const char *const texts[] = { "[{\"a\":\"\\u001b[2J\"}]", "[[[[[[[[", "[{\"a\":{\"b\":1}}]", "{\"", "\xff" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		world->sent[ASKER] = 0;
		ask();
		say(TALKER, texts[i], 0);
		assert_false(is_answered());
		say(OTHER, "[{\"qpn\":7}]", 0);
		assert_true(is_answered());
		assert_non_null(strstr(world->text, "its answer is not a report"));
		assert_non_null(strstr(world->text, "\"report\":[{\"qpn\":7}]"));
		assert_null(strstr(strstr(world->text, "\"report\":") + 1, "\"report\":"));
	}
}

static void who_tells_a_row_at_a_time_is_cut_off(void **state)
{
	uint32_t row = 0;

	(void)state;
	ask();
	say(OTHER, "[]", 0);
	for (; !is_answered() && row < 100; row++) {
		world->now += WTIME_S / 10 * 9;
		hub_expire(&world->hub, world->now);
		if (!is_answered())
			say(TALKER, "[{\"qpn\":1}]", row + 1);
	}
	assert_in_range(row, 8, 14);
	assert_non_null(strstr(world->text, "\"is_cut\":true"));
	assert_non_null(strstr(world->text, "{\"qpn\":1},{\"qpn\":1}"));
}

static void who_tells_much_is_cut_off(void **state)
{
	static char text[CONTROL_TEXT];
	uint32_t rows = 0, part = 0;
	size_t at = 0;

	(void)state;
	/* rows so long that the bytes are too many before the rows are */
	while (at < sizeof(text) - 200) {
		at += (size_t)sprintf(text + at, "%c{\"a\":\"%0*d\"}", at ? ',' : '[', REPORT_FORM_STRING, 7);
		part++;
	}
	strcpy(text + at, "]");
	ask();
	/* two processes of one user, each asked for more as long as there is room */
	for (; rows < 1000 * part && !is_answered(); rows += part) {
		say(TALKER, text, rows + part);
		say(OTHER, text, rows + part);
	}
	assert_true(is_answered());
	assert_non_null(strstr(world->text, "is_cut"));
	assert_in_range(strlen(world->text), 1, (4 << 20) + 2 * CONTROL_TEXT);
}

static void a_user_asks_two_questions_and_root_more(void **state)
{
	struct control_msg msg = { .type = CTL_QUERY, .seq = 5, .text_bytes = 2 };

	(void)state;
	for (int i = 0; i < 3; i++)
		ask();
	assert_false(is_answered());
	world->client[TALKER].kind = CLIENT_COMMAND;
	for (int i = 0; i < 2; i++) {
		hub_input(&world->hub, &world->client[TALKER], world->now, &msg, "qp", NULL, 0);
		assert_int_not_equal(world->last[TALKER].status, EDQUOT);
	}
	hub_input(&world->hub, &world->client[TALKER], world->now, &msg, "qp", NULL, 0);
	assert_int_equal(world->last[TALKER].status, EDQUOT);
	assert_int_equal(world->last[TALKER].c, LIMIT_QUESTIONS);
	world->client[TALKER].kind = CLIENT_PROCESS;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(parts_are_joined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_report_is_left_out_and_the_others_are_shown, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_tells_a_row_at_a_time_is_cut_off, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_tells_much_is_cut_off, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_user_asks_two_questions_and_root_more, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
