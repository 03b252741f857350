/* The log's sink, and what weft_bug_on does in either kind of build. */
#include "base/log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct heard {
	unsigned lines;
	enum log_level level;
	char last[2000];
};

static void hear(void *arg, enum log_level level, const char *line)
{
	struct heard *h = arg;

	h->lines++;
	h->level = level;
	strncpy(h->last, line, sizeof(h->last) - 1);
}

static void no_sink_no_line(void **state)
{
	log_set_sink(NULL, NULL, LOG_DEBUG);
	log_line(LOG_ERROR, "nobody hears %d", 1);
}

static void lines_up_to_the_level(void **state)
{
	struct heard h = { 0 };

	log_set_sink(hear, &h, LOG_WARNING);
	log_line(LOG_INFO, "too fine");
	assert_int_equal(h.lines, 0);
	log_line(LOG_WARNING, "port %d", 4791);
	assert_int_equal(h.lines, 1);
	assert_int_equal(h.level, LOG_WARNING);
	assert_string_equal(h.last, "port 4791");
	log_line(LOG_ERROR, "%01500d", 0);
	assert_int_equal(strlen(h.last), 1000);
	log_set_sink(NULL, NULL, LOG_ERROR);
}

static void a_bug_is_counted_or_fatal(void **state)
{
	struct heard h = { 0 };
	int status;
	pid_t child;

	assert_false(weft_bug_on(1 + 1 == 3));
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		log_set_sink(hear, &h, LOG_ERROR);
		_exit(weft_bug_on(1 + 1 == 2) && log_bugs() == 1 && h.lines == 1 && strstr(h.last, "1 + 1 == 2") ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
#ifdef WEFT_DEBUG
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_sink_no_line),
		cmocka_unit_test(lines_up_to_the_level),
		cmocka_unit_test(a_bug_is_counted_or_fatal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
