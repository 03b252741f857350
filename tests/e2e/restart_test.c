/* weftd is killed and started again: who was attached comes back as the same process, and nobody else in its place. */
#include "control_client.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* When the one that runs is gone. */
static void start_next_daemon(void)
{
	int fd;

	while ((fd = try_to_connect()) >= 0)
		close(fd);
	assert_int_equal(exit_status(spawn(WEFTD, NULL)), 0);
}

static void restart_daemon(void)
{
	kill(status_number("pid"), SIGKILL);
	start_next_daemon();
}

/* The status with which weftd takes the peer back. */
static int come_back(struct peer *p)
{
	close(p->socket);
	p->socket = connect_raw();
	return hello(p, CONTROL_RETURN, CONTROL_VERSION, p->wake_fd);
}

static void who_has_the_secret_gets_its_slots_back(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *thief = join(CONTROL_COMMAND);
	struct control_msg msg = { .type = CTL_SLOT };
	uint32_t generation, first = a->slot, second;

	(void)state;
	assert_int_equal(call(a, &msg), 0);
	second = msg.slot;
	generation = a->page->slot_generation[first];
	/* while it is attached nobody else is it, secret or not */
	memcpy(thief->secret, a->secret, sizeof(a->secret));
	thief->slot = first;
	thief->wake_fd = eventfd(0, EFD_NONBLOCK);
	assert_int_equal(come_back(thief), ESTALE);
	restart_daemon();
	assert_int_equal(status_number("slots_used"), 2);
	assert_int_equal(status_number("awaited"), 2);
	thief->slot = first;
	memcpy(thief->secret, a->secret, sizeof(a->secret));
	thief->secret[15] ^= 1;
	assert_int_equal(come_back(thief), ESTALE);
	thief->slot = second;
	memcpy(thief->secret, a->secret, sizeof(a->secret));
	assert_int_equal(come_back(thief), ESTALE);
	assert_int_equal(come_back(a), 0);
	drop_fds(a);
	assert_int_equal(a->slot, first);
	assert_int_equal(a->page->slot_generation[first], generation);
	assert_int_equal(status_number("awaited"), 0);
	leave(thief);
	leave(a);
	wait_for("slots_used", 0);
}

static uint32_t spawned_number;

/* A process of its own, which attaches and is then killed. */
static pid_t spawn_process(uint32_t *slot)
{
	int p[2];
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (pid == 0) {
		struct peer *own = join(CONTROL_PROCESS);

		if (write(p[1], &own->slot, sizeof(own->slot)) == sizeof(own->slot) &&
		    write(p[1], &own->number, sizeof(own->number)) == sizeof(own->number))
			pause();
		_exit(0);
	}
	assert_int_equal(read(p[0], slot, sizeof(*slot)), sizeof(*slot));
	assert_int_equal(read(p[0], &spawned_number, sizeof(spawned_number)), sizeof(spawned_number));
	close(p[0]);
	close(p[1]);
	return pid;
}

/* The number goes into the seed of a process's faults (weft run --impair). */
static void two_processes_have_two_numbers_over_a_restart(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	uint32_t slot, of_first, of_second;
	pid_t first = spawn_process(&slot), second;

	(void)state;
	of_first = spawned_number;
	assert_int_not_equal(of_first, a->number);
	restart_daemon();
	/* who comes now comes before those who had theirs are back */
	second = spawn_process(&slot);
	of_second = spawned_number;
	assert_int_not_equal(of_second, of_first);
	assert_int_not_equal(of_second, a->number);
	spawned_number = a->number;
	assert_int_equal(come_back(a), 0);
	drop_fds(a);
	assert_int_equal(a->number, spawned_number);
	kill(first, SIGKILL);
	kill(second, SIGKILL);
	waitpid(first, NULL, 0);
	waitpid(second, NULL, 0);
	leave(a);
	wait_for("slots_used", 0);
}

static void who_died_with_weftd_is_missed(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg;
	struct cm_msg req;
	uint32_t slot;
	pid_t pid = spawn_process(&slot);

	(void)state;
	restart_daemon();
	assert_int_equal(come_back(a), 0);
	drop_fds(a);
	assert_true(a->page->slot_generation[slot] & 1);
	/* nobody is refused because of it before it is known to be dead */
	msg = (struct control_msg){ .type = CTL_CHANNEL, .slot = slot };
	assert_int_equal(call(a, &msg), EAGAIN);
	req = req_of(a, 7, 0);
	assert_int_equal(send_mad(a, &req), EAGAIN);
	kill(pid, SIGKILL);
	assert_int_equal(next(a, &msg), 0);
	assert_int_equal(msg.type, CTL_PEER_GONE);
	assert_int_equal(msg.slot, slot);
	assert_false(a->page->slot_generation[slot] & 1);
	waitpid(pid, NULL, 0);
	/* said again, a channel to it is answered with the news */
	msg = (struct control_msg){ .type = CTL_KEPT, .slot = slot, .b = 1 };
	message_send(a->socket, &msg, NULL, NULL, 0, 0);
	assert_int_equal(next(a, &msg), 0);
	assert_int_equal(msg.type, CTL_PEER_GONE);
	assert_int_equal(msg.slot, slot);
	leave(a);
	wait_for("slots_used", 0);
}

static void say_kept(struct peer *p, uint32_t slot, uint32_t id)
{
	struct control_msg msg = { .type = CTL_KEPT, .slot = slot, .b = id };

	assert_int_equal(call(p, &msg), 0);
}

static void a_channel_is_kept_when_both_have_it(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = b->slot };
	uint32_t id;

	(void)state;
	assert_int_equal(call(a, &msg), 0);
	id = msg.b;
	drop_fds(a);
	assert_int_equal(next(b, &msg), 0);
	drop_fds(b);
	restart_daemon();
	assert_int_equal(come_back(a), 0);
	drop_fds(a);
	say_kept(a, b->slot, id);
	assert_int_equal(come_back(b), 0);
	drop_fds(b);
	assert_int_equal(status_number("channels"), 0);
	say_kept(b, a->slot, id);
	say_kept(b, a->slot, id);
	assert_int_equal(status_number("channels"), 1);
	msg = (struct control_msg){ .type = CTL_CHANNEL, .slot = a->slot };
	assert_int_equal(call(b, &msg), 0);
	assert_int_equal(msg.b, id);
	assert_int_equal(msg.c, 1);

	/* only one has it: a new one, with a number that was never used */
	restart_daemon();
	assert_int_equal(come_back(a), 0);
	drop_fds(a);
	assert_int_equal(come_back(b), 0);
	drop_fds(b);
	say_kept(a, b->slot, id);
	msg = (struct control_msg){ .type = CTL_CHANNEL, .slot = a->slot };
	assert_int_equal(call(b, &msg), 0);
	assert_int_equal(b->nfds, 2);
	assert_true(msg.b > id);
	drop_fds(b);
	assert_int_equal(next(a, &msg), 0);
	drop_fds(a);
	leave(a);
	leave(b);
	wait_for("slots_used", 0);
}

/* weftd was killed when it had told one side of a new channel, and not the other: that side would write where nobody reads. */
static void a_channel_that_one_side_never_got_is_told(void **state)
{
	(void)state;
	for (int b_is_first = 0; b_is_first < 2; b_is_first++) {
		struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
		struct control_msg msg;

		restart_daemon();
		assert_int_equal(come_back(a), 0);
		drop_fds(a);
		if (!b_is_first)
			say_kept(a, b->slot, 4711);
		assert_int_equal(come_back(b), 0);
		drop_fds(b);
		say_kept(b, 0, 0);
		if (b_is_first) {
			msg = (struct control_msg){ .type = CTL_KEPT, .slot = b->slot, .b = 4711 };
			assert_int_equal(call(a, &msg), ENOENT);
		} else {
			assert_int_equal(next(a, &msg), ENOENT);
			assert_int_equal(msg.type, CTL_KEPT);
			assert_int_equal(msg.slot, b->slot);
			assert_int_equal(msg.b, 4711);
		}
		assert_int_equal(status_number("channels"), 0);
		msg = (struct control_msg){ .type = CTL_CHANNEL, .slot = b->slot };
		assert_int_equal(call(a, &msg), 0);
		drop_fds(a);
		assert_int_equal(next(b, &msg), 0);
		assert_int_equal(msg.type, CTL_CHANNEL);
		drop_fds(b);
		leave(a);
		leave(b);
		wait_for("slots_used", 0);
	}
}

static void groups_and_ports_are_what_is_said_again(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b;
	struct control_msg msg = { .type = CTL_MCAST, .a = 1, .gid = { 0xff, 1 } };
	int members = 0;

	(void)state;
	assert_int_equal(call(a, &msg), 0);
	restart_daemon();
	for (int i = 0; i < PAGE_GROUPS; i++)
		members += a->page->group[i].used;
	assert_int_equal(members, 1);
	assert_int_equal(come_back(a), 0);
	drop_fds(a);
	for (int i = 0; i < PAGE_GROUPS; i++)
		assert_false(a->page->group[i].used);
	assert_int_equal(bind_port(a, 0x1065a5a, false, 0), 0);
	b = join(CONTROL_PROCESS);
	assert_int_equal(bind_port(b, 0x1065a5a, false, 0), EADDRINUSE);
	leave(a);
	leave(b);
	wait_for("slots_used", 0);
}

static void who_died_meanwhile_keeps_weftd_from_nothing(void **state)
{
	struct control_msg msg = { .type = CTL_DOWN };
	struct peer *command;
	uint32_t slot;
	pid_t pid = spawn_process(&slot);

	(void)state;
	restart_daemon();
	command = join(CONTROL_COMMAND);
	assert_int_equal(call(command, &msg), EBUSY);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	msg = (struct control_msg){ .type = CTL_DOWN };
	assert_int_equal(call(command, &msg), 0);
	leave(command);
	start_next_daemon();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_the_secret_gets_its_slots_back),
		cmocka_unit_test(two_processes_have_two_numbers_over_a_restart),
		cmocka_unit_test(who_died_with_weftd_is_missed),
		cmocka_unit_test(a_channel_is_kept_when_both_have_it),
		cmocka_unit_test(a_channel_that_one_side_never_got_is_told),
		cmocka_unit_test(groups_and_ports_are_what_is_said_again),
		cmocka_unit_test(who_died_meanwhile_keeps_weftd_from_nothing),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
