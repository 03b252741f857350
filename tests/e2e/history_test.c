/* What processes that leave say of their QPs: kept for a while, so many of each user, and nothing that is no report. */
#include "control_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { KEPT_OF_USER = 8 };

/* A process that leaves with these words. */
static void say(const char *words)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_GOODBYE, .text_bytes = (uint32_t)strlen(words) };

	assert_int_equal(call_text(a, &msg, words), 0);
	leave(a);
}

static const char *ask(struct peer *boss)
{
	struct control_msg msg = { .type = CTL_QUERY, .text_bytes = strlen("history") };

	assert_int_equal(call_text(boss, &msg, "history"), 0);
	boss->text[msg.text_bytes] = '\0';
	return boss->text;
}

static unsigned count(const char *text, const char *word)
{
	unsigned n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

static void what_is_no_report_is_not_kept(void **state)
{
	static const char *const words[] = { "x", "[", "{\"a\":1}", "[]", "[{\"a\":\"\033\"}]", "[{\"a\":1}]x", "[{\"a\":[1]}]" };
	struct peer *boss = join(CONTROL_COMMAND);

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		say(words[i]);
	assert_int_equal(count(ask(boss), "has_left"), 0);
	leave(boss);
}

static void too_many_words_end_the_connection(void **state)
{
	static char words[CONTROL_LAST_WORDS + 2];
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_GOODBYE, .text_bytes = sizeof(words) - 1 };

	(void)state;
	memset(words, ' ', sizeof(words) - 1);
	memcpy(words, "[{\"a\":1}]", 9);
	assert_int_equal(message_send(a->socket, &msg, words, NULL, 0, 0), 0);
	expect_end(a);
}

static void a_user_has_the_last_few(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND);
	char words[64];

	(void)state;
	for (int i = 0; i < 40; i++) {
		snprintf(words, sizeof(words), " [ {\"stop\":%d},{\"more\":1}] ", 100 + i);
		say(words);
	}
	assert_int_equal(count(ask(boss), "\"has_left\":true"), KEPT_OF_USER);
	for (int i = 40 - KEPT_OF_USER; i < 40; i++) {
		snprintf(words, sizeof(words), "\"report\":[{\"stop\":%d},{\"more\":1}]", 100 + i);
		assert_non_null(strstr(boss->text, words));
	}
	/* in their order */
	assert_true(strstr(boss->text, "\"stop\":132") < strstr(boss->text, "\"stop\":139"));
	leave(boss);
}

#define WELL(test) cmocka_unit_test_teardown(test, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WELL(what_is_no_report_is_not_kept),
		WELL(too_many_words_end_the_connection),
		WELL(a_user_has_the_last_few),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
