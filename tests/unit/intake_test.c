/* The children that receive descriptors for weftd: what weftd closes is never closed last by one of them that has only begun,
 * whatever it is. A child stands still where it begins, as on a busy machine. */
#include "weftd/intake.h"

#include "control/message.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lingering.h"

enum { USER = 1000, PATIENCE_MS = 10000 };

static struct intake_set set;
static bool stands_still;	/* the next child */

static void in_the_child(void)
{
	if (stands_still)
		raise(SIGSTOP);
}

static int set_up(void **state)
{
	(void)state;
	intake_init(&set);
	set.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	stands_still = false;
	intake_fini(&set);
	close(set.epoll_fd);
	return 0;
}

/* A child that stands still. */
static pid_t prepare(wtime now)
{
	siginfo_t info = { 0 };

	stands_still = true;
	intake_prepare(&set, now);
	stands_still = false;
	assert_non_null(set.spare);
	assert_int_equal(waitid(P_ALL, 0, &info, WSTOPPED), 0);
	return info.si_pid;
}

/* A connection that has ended, with a socket in it whose last close(2) waits. */
static void refuse(int *sink)
{
	const struct control_msg msg = { .type = CTL_HELLO };
	int fd = make_lingering(sink), pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(message_send(pair[1], &msg, NULL, &fd, 1, 0), 0);
	close(fd);
	close(pair[1]);
	intake_close(&set, pair[0]);
	assert_false(list_empty(&set.refuse));
}

static void wait_until_swept(wtime now)
{
	for (int ms = 0; !list_empty(&set.refuse); ms++) {
		assert_true(ms < PATIENCE_MS);
		usleep(1000);
		intake_sweep(&set, now += WTIME_MS);
	}
	assert_true(intake_deadline(&set) == set.spare_by);
}

/* The spare child receives a message. */
static void spare_works(wtime now)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 77 };
	struct intake *spare = set.spare, *in = NULL;
	int fds[CONTROL_FDS], nfds, pair[2], err;
	struct pollfd p = { .events = POLLIN };

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(message_send(pair[1], &msg, NULL, NULL, 0, 0), 0);
	assert_int_equal(intake_begin(&set, pair[0], USER, now, &in), 0);
	assert_ptr_equal(in, spare);
	p.fd = intake_fd(in);
	do {
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		err = intake_take(in, &msg, fds, &nfds);
	} while (err == -EAGAIN);
	assert_int_equal(err, 0);
	assert_int_equal(msg.seq, 77);
	intake_end(&set, in);
	close(pair[0]);
	close(pair[1]);
}

static void what_waits_stays_until_the_child_is_apart(void **state)
{
	wtime now = WTIME_S;
	pid_t pid = prepare(now);
	int sink;

	(void)state;
	refuse(&sink);
	intake_sweep(&set, now);
	assert_false(list_empty(&set.refuse));
	assert_true(intake_deadline(&set) > now && intake_deadline(&set) <= now + 10 * WTIME_MS);
	kill(pid, SIGCONT);
	wait_until_swept(now);
	spare_works(now);
	close(sink);
}

static void a_child_that_has_ended_has_nothing(void **state)
{
	wtime now = WTIME_S;
	pid_t pid = prepare(now);
	int sink;

	(void)state;
	refuse(&sink);
	kill(pid, SIGKILL);
	wait_until_swept(now);
	close(sink);
}

/* While many sockets wait for a child, no more children are made, which could keep them waiting. */
static void who_attaches_waits_for_many_sockets(void **state)
{
	pid_t pid = prepare(WTIME_S);
	struct intake *in = NULL;
	int sink[INTAKE_REFUSED], pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (int i = 0; i < INTAKE_REFUSED; i++)
		refuse(&sink[i]);
	assert_int_equal(intake_begin(&set, pair[0], USER, WTIME_S, &in), -EBUSY);
	assert_null(in);
	assert_non_null(set.spare);
	assert_int_equal(kill(pid, SIGCONT), 0);
	wait_until_swept(WTIME_S);
	spare_works(WTIME_S);
	for (int i = 0; i < INTAKE_REFUSED; i++)
		close(sink[i]);
	close(pair[0]);
	close(pair[1]);
}

/* weftd ends while the child stands still: it waits for nobody, and leaves no child. */
static void the_end_waits_for_no_child(void **state)
{
	pid_t pid = prepare(WTIME_S);
	int sink;

	(void)state;
	refuse(&sink);
	intake_fini(&set);
	assert_true(list_empty(&set.refuse));
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	close(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_waits_stays_until_the_child_is_apart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_child_that_has_ended_has_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_attaches_waits_for_many_sockets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_end_waits_for_no_child, set_up, tear_down),
	};

	pthread_atfork(NULL, NULL, in_the_child);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
