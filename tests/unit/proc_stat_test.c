/* What /proc says of processes whose names look like the fields behind them. */
#include "control/proc_stat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void a_name_may_have_anything_in_it(void **state)
{
	static const char *const names[] = { "plain", "a) Z 1 (b", ") T 7", "))", "", "a b c d e f g h" };
	int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct proc_stat s, at, before;
	char old[16];

	assert_int_equal(prctl(PR_GET_NAME, old), 0);
	assert_true(proc_stat_read(getpid(), &before));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		prctl(PR_SET_NAME, names[i]);
		assert_true(proc_stat_read(getpid(), &s) && proc_stat_read_at(self, &at));
		assert_int_equal(s.state, 'R');
		assert_int_equal(s.parent, getppid());
		assert_true(s.start > 0 && s.start == before.start && at.start == s.start && at.parent == s.parent);
		assert_true(proc_stat_lives(&s) && !proc_stat_is_stopped(&s));
		assert_true(s.memory_bytes > 0 && s.memory_bytes % (uint64_t)sysconf(_SC_PAGESIZE) == 0);
	}
	prctl(PR_SET_NAME, old);
	close(self);
}

static uint64_t ticks_after_boot(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK) +
	       (uint64_t)t.tv_nsec / (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void the_stopped_and_the_dead_are_known(void **state)
{
	struct proc_stat s;
	siginfo_t info;
	uint64_t before = ticks_after_boot(), after;
	pid_t pid = fork();

	after = ticks_after_boot();
	if (pid == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	assert_true(proc_stat_read(pid, &s));
	assert_true(proc_stat_is_stopped(&s) && proc_stat_lives(&s));
	assert_int_equal(s.parent, getpid());
	assert_true(s.start + 1 >= before && s.start <= after + 1);
	kill(pid, SIGCONT);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(proc_stat_read(pid, &s));
	assert_false(proc_stat_lives(&s) || proc_stat_is_stopped(&s));
	assert_int_equal(s.memory_bytes, 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(proc_stat_read_at(-1, &s));
	assert_false(proc_stat_read(-1, &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_may_have_anything_in_it), cmocka_unit_test(the_stopped_and_the_dead_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
