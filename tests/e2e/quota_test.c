/* A weftd that serves all users gives each of them so much and no more, and the others do not notice. Needs root, to be
 * somebody else. */
#include "control_client.h"

#include "weftd/hub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each test has a user of its own: when weftd has noticed the end of all that one had is not to be seen from outside. */
enum { MANY_SLOTS = 65534, MANY_CONNECTIONS = 65533, SKIP = 77 };

/* Runs as another user; cmocka's assertions are the parent's, so it tells by its exit status. */
static int as_user(uid_t user, int (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setgid(user) || setuid(user) ? 125 : run());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct peer *come(uint32_t kind, int *status)
{
	struct peer *p = connect_peer();

	if (kind == CONTROL_PROCESS)
		p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*status = hello(p, kind, CONTROL_VERSION, p->wake_fd);
	drop_fds(p);
	return p;
}

static int connects_too_often(void)
{
	int status = 0;

	for (int i = 0; i < QUOTA_USER_CLIENTS; i++) {
		come(CONTROL_COMMAND, &status);
		if (status)
			return 1;
	}
	come(CONTROL_COMMAND, &status);
	return status == EDQUOT ? 0 : 2;
}

static int takes_too_many_slots(void)
{
	int status = 0, taken = 0;

	while (!status && taken <= QUOTA_USER_SLOTS) {
		struct peer *p = come(CONTROL_PROCESS, &status);

		for (int i = 1; !status && i < QUOTA_SLOTS; i++) {
			struct control_msg msg = { .type = CTL_SLOT };

			taken++;
			status = call(p, &msg);
		}
		taken += !status;
	}
	return status == EDQUOT && taken == QUOTA_USER_SLOTS ? 0 : 2;
}

static void others_do_not_notice(void)
{
	struct peer *root = join(CONTROL_PROCESS);

	still_well(root);
	leave(root);
	wait_for("slots_used", 0);
}

static void a_user_has_so_many_connections(void **state)
{
	(void)state;
	assert_int_equal(as_user(MANY_CONNECTIONS, connects_too_often), 0);
	others_do_not_notice();
}

static void a_user_has_so_many_slots(void **state)
{
	(void)state;
	assert_int_equal(as_user(MANY_SLOTS, takes_too_many_slots), 0);
	others_do_not_notice();
	/* all of it is free again */
	assert_int_equal(as_user(MANY_SLOTS, takes_too_many_slots), 0);
}

static int start_system(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/weft-quota.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	setenv("WEFT_DIR", dir, 1);
	setenv("WEFT_IDLE_S", "600", 1);
	return exit_status(spawn(WEFTD, "--system"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_user_has_so_many_slots),
		cmocka_unit_test(a_user_has_so_many_connections),
	};
	struct rlimit l;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	if (geteuid() || l.rlim_cur < 2 * QUOTA_USER_CLIENTS) {
		printf("skipped: needs root and %d descriptors\n", 2 * QUOTA_USER_CLIENTS);
		return SKIP;
	}
	return cmocka_run_group_tests(tests, start_system, stop_daemon);
}
