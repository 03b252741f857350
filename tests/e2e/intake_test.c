/* The child of a real weftd that waits for the descriptors of who comes next. */
#include "control_client.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 1 };

static void look_later(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_EVERY_MS * 1000000 }, NULL);
}

static bool is_intake(pid_t pid)
{
	char path[32], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (file && !fgets(name, sizeof(name), file))
		name[0] = '\0';
	if (file)
		fclose(file);
	return strcmp(name, "weftd-intake\n") == 0;
}

static int count_fds(pid_t pid)
{
	struct dirent *e;
	char path[32];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* 0: none. */
static pid_t find_spare(pid_t weftd)
{
	char path[64];
	FILE *children;
	pid_t pid, found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", weftd, weftd);
	children = fopen(path, "re");
	assert_non_null(children);
	while (!found && fscanf(children, "%d", &pid) == 1)
		found = is_intake(pid) ? pid : 0;
	fclose(children);
	return found;
}

/* One that has closed what it does not need: standard input and outputs, and its end of a pair, are left. */
static pid_t await_spare(void)
{
	pid_t weftd = status_number("pid"), pid = 0;

	for (int ms = 0; ms < PATIENCE_MS; ms += LOOK_EVERY_MS) {
		pid = find_spare(weftd);
		if (pid && count_fds(pid) == 4)
			return pid;
		look_later();
	}
	fail_msg("no child waits, or %d has %d descriptors", pid, count_fds(pid));
	return 0;
}

/* Nobody may have reaped it yet. */
static bool is_alive(pid_t pid)
{
	return is_intake(pid) && count_fds(pid);
}

static void await_end(pid_t pid)
{
	for (int ms = 0; ms < PATIENCE_MS && is_alive(pid); ms += LOOK_EVERY_MS)
		look_later();
	assert_false(is_alive(pid));
}

static void come_and_go(void)
{
	struct peer *p = join(CONTROL_PROCESS);

	still_well(p);
	leave(p);
}

static void who_comes_finds_a_child_that_waits(void **state)
{
	pid_t first = await_spare(), second;

	(void)state;
	come_and_go();
	await_end(first);
	second = await_spare();
	assert_int_not_equal(second, first);
	come_and_go();
	await_end(second);
}

static void several_who_come_at_once_are_all_received(void **state)
{
	struct peer *p[6];

	(void)state;
	await_spare();
	for (int i = 0; i < 6; i++)
		p[i] = join(CONTROL_PROCESS);
	for (int i = 0; i < 6; i++) {
		still_well(p[i]);
		leave(p[i]);
	}
}

static void a_child_that_was_killed_stops_nobody(void **state)
{
	pid_t spare = await_spare();

	(void)state;
	assert_int_equal(kill(spare, SIGKILL), 0);
	await_end(spare);
	still_well(join(CONTROL_PROCESS));
	come_and_go();
}

static void a_child_that_waits_ends_with_weftd(void **state)
{
	pid_t spare = await_spare();

	assert_int_equal(kill(status_number("pid"), SIGKILL), 0);
	await_end(spare);
	assert_int_equal(exit_status(spawn(WEFTD, NULL)), 0);
	spare = await_spare();
	stop_daemon(state);
	await_end(spare);
	start_daemon(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_teardown(test, leave_all)
		TEST(who_comes_finds_a_child_that_waits),
		TEST(several_who_come_at_once_are_all_received),
		TEST(a_child_that_was_killed_stops_nobody),
		TEST(a_child_that_waits_ends_with_weftd),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
