/* A failed check of weft's own state is seen from outside: in the file that WEFT_BUGS names, and by a test program's status. */
#include "control/bugs.h"

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

/* How a child ends: by the check in a debug build. */
static bool ended_with(int status, int code)
{
#ifdef WEFT_DEBUG
	(void)code;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
#else
	return WIFEXITED(status) && WEXITSTATUS(status) == code;
#endif
}

static void a_failed_check_is_in_the_file(void **state)
{
	char path[] = "/tmp/weft-bugs-test-XXXXXX", text[200] = "";
	int status, fd = mkstemp(path);
	pid_t child;

	(void)state;
	assert_true(fd >= 0);
	child = fork();
	if (child == 0) {
		setenv("WEFT_BUGS", path, 1);
		bugs_to_file();
		_exit(weft_bug_on(3 == 1 + 2) ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(ended_with(status, 0));
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "]: bug: 3 == 1 + 2 at "));
	assert_int_equal(text[strlen(text) - 1], '\n');
	close(fd);
	unlink(path);
}

/* tests/bugs.c, in a child that ends as if all were well */
static void a_program_whose_check_failed_fails(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		close(STDERR_FILENO);
		weft_bug_on(3 == 1 + 2);
		exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(ended_with(status, 70));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_check_is_in_the_file),
		cmocka_unit_test(a_program_whose_check_failed_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
