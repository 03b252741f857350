/* CTL_CAPTURE: to whom a socket is passed on, and who is told that packets are wanted. */
#include "control_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static int capture(struct peer *p, uint32_t pid, uint32_t *processes)
{
	struct control_msg msg = { .type = CTL_CAPTURE, .slot = pid };
	int status = call(p, &msg);

	*processes = msg.b;
	return status;
}

/* The next message that is not of the page; it comes with so many descriptors. The PID in it. */
static uint32_t hears(struct peer *p, int descriptors)
{
	struct control_msg msg;

	do {
		drop_fds(p);
		assert_int_equal(next(p, &msg), 0);
	} while (msg.type == CTL_PAGE);
	assert_int_equal(msg.type, CTL_CAPTURE);
	assert_int_equal(p->nfds, descriptors);
	return msg.slot;
}

/* weftd may be about to close the end that it gave away. */
static void ends(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_int_equal(read(fd, &byte, 1), 0);
}

static bool wants_packets(const struct peer *p)
{
	return p->page->slot_packets[p->slot];
}

static void a_pipe_leads_from_each_process(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS), *b;
	char byte = 0;
	uint32_t n;

	(void)state;
	assert_int_equal(capture(boss, 0, &n), 0);
	assert_int_equal(n, 1);
	hears(a, 1);
	assert_int_equal(hears(boss, 1), getpid());
	assert_true(wants_packets(a));
	assert_int_equal(write(a->fds[0], "x", 1), 1);
	assert_int_equal(read(boss->fds[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	/* who comes later has one too */
	b = join(CONTROL_PROCESS);
	hears(b, 1);
	hears(boss, 1);
	assert_true(wants_packets(b));
	/* neither of the two waits for the other, and weftd has no end of it */
	assert_int_equal(read(boss->fds[0], &byte, 1), -1);
	assert_int_equal(errno, EAGAIN);
	drop_fds(b);
	ends(boss->fds[0]);
	leave(boss);
	hears(a, 0);
	hears(b, 0);
	assert_false(wants_packets(a) || wants_packets(b));
	leave(a);
	leave(b);
}

static void one_command_captures_a_process(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *other = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_IMPAIR };
	uint32_t n;

	(void)state;
	assert_int_equal(capture(boss, 1, &n), ENOENT);
	assert_int_equal(capture(boss, (uint32_t)getpid(), &n), 0);
	assert_int_equal(n, 1);
	hears(a, 1);
	hears(boss, 1);
	assert_int_equal(capture(boss, (uint32_t)getpid(), &n), EINVAL);
	assert_int_equal(capture(other, 0, &n), 0);
	assert_int_equal(n, 0);
	leave(other);
	other = join(CONTROL_COMMAND);
	assert_int_equal(capture(other, (uint32_t)getpid(), &n), EBUSY);
	/* that there are no faults is no reason to take the direct path */
	assert_int_equal(call(other, &msg), 0);
	assert_true(wants_packets(a));
	leave(a);
	leave(boss);
	leave(other);
}

static void a_process_captures_nobody(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_CAPTURE };

	(void)state;
	assert_int_equal(message_send(a->socket, &msg, NULL, NULL, 0, 0), 0);
	expect_end(a);
}

#define WELL(test) cmocka_unit_test_teardown(test, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WELL(a_pipe_leads_from_each_process),
		WELL(one_command_captures_a_process),
		WELL(a_process_captures_nobody),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
