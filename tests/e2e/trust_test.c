/* To whom a real weftd gives a process's memory: to those who may trace it now, and to nobody else of the same user. */
#include "control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USER = 20001, PACKETS = 3, DIRECT = 4 };

/* What makes a process another than those beside it. */
enum other {
	NONE = 0,
	USER_NS = 1,		/* a user namespace of its own */
	PID_NS = 2,
	UNDUMPABLE = 4,		/* since it attached */
	FEWER_RIGHTS = 8,	/* capabilities */
	GROUP = 16,
	OTHER_USER = 32,
};

/* ---- a process that is attached, in a child ---- */

static void fail_child(const char *what)
{
	perror(what);
	_exit(1);
}

static void write_text(const char *path, const char *format, unsigned id)
{
	char text[32];
	int fd = open(path, O_WRONLY);
	int bytes = snprintf(text, sizeof(text), format, id);

	if (fd < 0 || write(fd, text, (size_t)bytes) != bytes)
		fail_child(path);
	close(fd);
}

static void change_user(enum other other, uid_t uid)
{
	if (geteuid() == 0 && uid) {
		if (setgid(other & GROUP ? uid + 1 : uid) || setuid(other & OTHER_USER ? uid + 1 : uid))
			fail_child("setuid");
		prctl(PR_SET_DUMPABLE, 1);
	} else if (other & GROUP && setgid(USER)) {
		fail_child("setgid");
	}
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	if (syscall(SYS_capset, &head, none))
		fail_child("capset");
	prctl(PR_SET_DUMPABLE, 1);
}

/* Where none may be made: by a process with threads, as the sanitizers have them, or where the kernel forbids it. */
enum { NO_NAMESPACE = 77 };

static void enter_namespaces(enum other other)
{
	unsigned uid = geteuid(), gid = getegid();

	if (other & USER_NS) {
		if (unshare(CLONE_NEWUSER))
			_exit(NO_NAMESPACE);
		write_text("/proc/self/setgroups", "deny", 0);
		write_text("/proc/self/uid_map", "0 %u 1", uid);
		write_text("/proc/self/gid_map", "0 %u 1", gid);
	}
	if (other & PID_NS) {
		pid_t pid;

		if (unshare(CLONE_NEWPID))
			_exit(NO_NAMESPACE);
		pid = fork();
		if (pid)
			_exit(exit_status(pid));
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
}

static int join_with_memory(struct peer *p)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 5, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };
	int fds[3] = { eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), memfd_create("export", MFD_CLOEXEC | MFD_ALLOW_SEALING),
		       open("/proc/self/mem", O_RDWR | O_CLOEXEC) };
	int status;

	p->socket = connect_raw();
	assert_int_equal(message_greet(p->socket, &msg, fds, 3), 0);
	status = next(p, &msg);
	p->slot = msg.slot;
	drop_fds(p);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	return status;
}

static void give_file(struct peer *p)
{
	struct control_msg msg = { .type = CTL_MEMORY, .seq = 6 };
	int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(message_send(p->socket, &msg, NULL, &fd, 1, 0), 0);
	assert_int_equal(next(p, &msg), 0);
	close(fd);
}

struct attached {
	pid_t pid;
	uint32_t slot;	/* 0: it is not to be had here */
};

static struct attached attach(enum other other, uid_t uid)
{
	struct attached a = { 0 };
	struct peer *p;
	int to[2];

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	a.pid = fork();
	if (a.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		change_user(other, uid);
		enter_namespaces(other);
		if (other & FEWER_RIGHTS)
			drop_capabilities();
		p = calloc(1, sizeof(*p));
		if (join_with_memory(p))
			_exit(2);
		give_file(p);
		if (other & UNDUMPABLE)
			prctl(PR_SET_DUMPABLE, 0);
		if (write(to[1], &p->slot, sizeof(p->slot)) != sizeof(p->slot))
			_exit(3);
		for (;;)
			pause();
	}
	close(to[1]);
	if (read(to[0], &a.slot, sizeof(a.slot)) != sizeof(a.slot))
		a.slot = 0;
	close(to[0]);
	return a;
}

static void end(struct attached a)
{
	kill(a.pid, SIGKILL);
	waitpid(a.pid, NULL, 0);
}

/* Run as a process of its own: attaches, asks for a channel to the slot, and for its file. */
static int count_descriptors(enum other other, uid_t uid, uint32_t slot)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct control_msg msg = { .type = CTL_CHANNEL, .slot = slot }, map = { .type = CTL_MAP, .slot = slot, .b = 1 };
		struct peer *p = calloc(1, sizeof(*p));
		int channel;

		change_user(other, uid);
		enter_namespaces(other);
		if (other & FEWER_RIGHTS)
			drop_capabilities();
		if (join_with_memory(p) || call(p, &msg))
			_exit(0);
		channel = p->nfds;
		drop_fds(p);
		_exit((call(p, &map) == 0) == (channel == DIRECT) ? channel : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Both ways round, as ptrace(2) is not the same in both. */
static void expect_between(enum other one, enum other two, uid_t uid, int descriptors)
{
	struct attached a = attach(one, uid);
	int counted = a.slot ? count_descriptors(two, uid, a.slot) : NO_NAMESPACE;

	end(a);
	if (counted == NO_NAMESPACE)
		skip();
	assert_int_equal(counted, descriptors);
	a = attach(two, uid);
	assert_int_not_equal(a.slot, 0);
	/* asked last, when all that is still to change has changed */
	if (!(one & UNDUMPABLE))
		assert_int_equal(count_descriptors(one, uid, a.slot), descriptors);
	end(a);
}

static const uid_t users[] = { 0, USER };

static int tested_users(void)
{
	return geteuid() ? 1 : 2;
}

static void for_users(enum other one, enum other two, int descriptors)
{
	for (int i = 0; i < tested_users(); i++)
		expect_between(one, two, users[i], descriptors);
}

static void who_may_trace_gets_memory(void **state)
{
	(void)state;
	for_users(NONE, NONE, DIRECT);
}

static void who_is_in_a_user_namespace_of_its_own_does_not(void **state)
{
	(void)state;
	for_users(NONE, USER_NS, PACKETS);
	for_users(USER_NS, USER_NS, PACKETS);
}

static void who_is_in_another_pid_namespace_does_not(void **state)
{
	(void)state;
	for_users(NONE, USER_NS | PID_NS, PACKETS);
	if (geteuid() == 0)
		expect_between(NONE, PID_NS, 0, PACKETS);
}

static void who_is_not_dumpable_any_more_gives_none(void **state)
{
	(void)state;
	expect_between(UNDUMPABLE, NONE, USER, PACKETS);
}

static void who_has_fewer_rights_gets_none(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	expect_between(NONE, FEWER_RIGHTS, 0, PACKETS);
	expect_between(FEWER_RIGHTS, FEWER_RIGHTS, 0, DIRECT);
}

static void who_is_of_another_group_or_user_gets_none(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	expect_between(NONE, GROUP, USER, PACKETS);
	expect_between(NONE, OTHER_USER, USER, PACKETS);
}

static void all_of_a_user_get_it_where_that_was_asked_for(void **state)
{
	(void)state;
	for_users(NONE, USER_NS, DIRECT);
	expect_between(UNDUMPABLE, NONE, USER, DIRECT);
	if (geteuid() == 0)
		expect_between(NONE, OTHER_USER, USER, PACKETS);
}

static int start(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/weft-trust.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0755), 0);
	setenv("WEFT_DIR", dir, 1);
	setenv("WEFT_IDLE_S", "600", 1);
	return exit_status(spawn(WEFTD, geteuid() ? NULL : "--system"));
}

static int start_for_users(void **state)
{
	setenv("WEFT_MEMORY", "user", 1);
	return start(state);
}

int main(void)
{
	const struct CMUnitTest as_ptrace[] = {
		cmocka_unit_test(who_may_trace_gets_memory),
		cmocka_unit_test(who_is_in_a_user_namespace_of_its_own_does_not),
		cmocka_unit_test(who_is_in_another_pid_namespace_does_not),
		cmocka_unit_test(who_is_not_dumpable_any_more_gives_none),
		cmocka_unit_test(who_has_fewer_rights_gets_none),
		cmocka_unit_test(who_is_of_another_group_or_user_gets_none),
	};
	const struct CMUnitTest as_user[] = {
		cmocka_unit_test(all_of_a_user_get_it_where_that_was_asked_for),
	};

	unsetenv("WEFT_MEMORY");
	return cmocka_run_group_tests(as_ptrace, start, stop_daemon) +
	       cmocka_run_group_tests(as_user, start_for_users, stop_daemon);
}
