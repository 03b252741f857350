/* A real weftd and clients that speak the control protocol to it, well and badly. */
#include "control_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void hello_gives_a_slot_and_a_page_that_only_weftd_can_write(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_HELLO, .b = CONTROL_VERSION };
	struct peer *c = connect_peer();

	assert_int_not_equal(a->slot, 0);
	assert_int_not_equal(a->slot, b->slot);
	assert_int_equal(a->page->magic, PAGE_MAGIC);
	assert_int_equal(a->page->slot_generation[b->slot] % 2, 1);
	assert_string_equal(a->page->device[0].name, "weft0");
	assert_int_equal(a->page->device[0].lid, 1);
	assert_int_equal(a->page->device[0].gid[0].raw[0], 0xfe);
	assert_true(a->page->device[1].gid[1].valid);
	message_send(c->socket, &msg, NULL, NULL, 0, 0);
	expect_end(c);
	leave(c);
	c = connect_peer();
	assert_int_equal(hello(c, CONTROL_COMMAND, CONTROL_VERSION, -1), 0);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c->fds[0], 0), MAP_FAILED);
	assert_int_equal(ftruncate(c->fds[0], 0), -1);
	drop_fds(c);
	leave(a);
	leave(b);
	leave(c);
	(void)state;
}

static void hello_of_another_version_is_told_so(void **state)
{
	struct peer *c = connect_peer();

	assert_int_equal(hello(c, CONTROL_COMMAND, CONTROL_VERSION + 1, -1), EPROTO);
	expect_end(c);
	leave(c);
	(void)state;
}

static void a_wake_descriptor_must_be_an_eventfd(void **state)
{
	struct peer *c = connect_peer();
	int p[2];

	assert_int_equal(pipe(p), 0);
	assert_int_equal(hello(c, CONTROL_PROCESS, CONTROL_VERSION, p[1]), EBADF);
	expect_end(c);
	close(p[0]);
	close(p[1]);
	leave(c);
	(void)state;
}

static void slots_are_random_and_limited(void **state)
{
	struct peer *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_SLOT };
	uint32_t last = a->slot;
	int taken = 1, status, neighbours = 0;

	while ((status = call(a, &msg)) == 0) {
		neighbours += msg.slot == last + 1;
		last = msg.slot;
		taken++;
	}
	assert_int_equal(status, EDQUOT);
	assert_int_equal(taken, 64);
	assert_true(neighbours < 8);
	leave(a);
	wait_for("slots_used", 0);
	(void)state;
}

static void the_least_number_that_is_free_is_given(void **state)
{
	struct peer *p[3];

	wait_for("slots_used", 0);
	for (uint32_t i = 0; i < 3; i++) {
		p[i] = join(CONTROL_PROCESS);
		assert_int_equal(p[i]->number, i);
	}
	leave(p[1]);
	wait_for("slots_used", 2);
	p[1] = join(CONTROL_PROCESS);
	assert_int_equal(p[1]->number, 1);
	for (uint32_t i = 0; i < 3; i++)
		leave(p[i]);
	(void)state;
}

static void a_channel_reaches_both_sides_once(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg to_a = { .type = CTL_CHANNEL, .slot = b->slot }, to_b;
	struct stat at_a, at_b;
	uint64_t one = 1;
	uint32_t id;

	assert_int_equal(call(a, &to_a), 0);
	assert_int_equal(a->nfds, 2);
	assert_int_equal(to_a.c, 0);
	id = to_a.b;
	assert_int_equal(next(b, &to_b), 0);
	assert_int_equal(to_b.type, CTL_CHANNEL);
	assert_int_equal(to_b.seq, 0);
	assert_int_equal(to_b.slot, a->slot);
	assert_int_equal(to_b.b, id);
	assert_int_equal(to_a.a + to_b.a, 1);
	assert_int_equal(b->nfds, 2);
	assert_int_equal(fstat(a->fds[0], &at_a), 0);
	assert_int_equal(fstat(b->fds[0], &at_b), 0);
	assert_int_equal(at_a.st_ino, at_b.st_ino);
	assert_int_equal(write(a->fds[1], &one, 8), 8);
	assert_int_equal(read(b->wake_fd, &one, 8), 8);
	drop_fds(a);
	drop_fds(b);

	/* again, from the other side and for another slot: the same channel, no descriptors */
	to_b = (struct control_msg){ .type = CTL_CHANNEL, .slot = a->slot };
	assert_int_equal(call(b, &to_b), 0);
	assert_int_equal(to_b.b, id);
	assert_int_equal(to_b.c, 1);
	assert_int_equal(b->nfds, 0);
	to_b = (struct control_msg){ .type = CTL_SLOT };
	assert_int_equal(call(b, &to_b), 0);
	to_a = (struct control_msg){ .type = CTL_CHANNEL, .slot = to_b.slot };
	assert_int_equal(call(a, &to_a), 0);
	assert_int_equal(to_a.b, id);

	to_a = (struct control_msg){ .type = CTL_CHANNEL, .slot = a->slot };
	assert_int_equal(call(a, &to_a), EINVAL);
	to_a = (struct control_msg){ .type = CTL_CHANNEL, .slot = 0 };
	assert_int_equal(call(a, &to_a), ENOENT);
	to_a = (struct control_msg){ .type = CTL_CHANNEL, .slot = UINT32_MAX };
	assert_int_equal(call(a, &to_a), ENOENT);
	leave(a);
	leave(b);
	(void)state;
}

static int offer(struct peer *p, struct control_msg *msg, int fd)
{
	*msg = (struct control_msg){ .type = CTL_MEMORY, .seq = 9 };
	assert_int_equal(message_send(p->socket, msg, NULL, &fd, fd >= 0, 0), 0);
	return next(p, msg);
}

static void memory_files_are_handed_on(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	int fd = memfd_create("control_test", MFD_CLOEXEC);
	struct control_msg msg = { .type = CTL_MAP, .slot = a->slot, .b = 1 };
	struct stat given, got;

	assert_int_equal(call(b, &msg), ENOENT);
	assert_int_equal(offer(a, &msg, -1), EINVAL);
	for (uint32_t i = 1; i <= CONTROL_FILES; i++) {
		assert_int_equal(offer(a, &msg, fd), 0);
		assert_int_equal(msg.b, i);
	}
	assert_int_equal(offer(a, &msg, fd), EDQUOT);
	msg = (struct control_msg){ .type = CTL_MAP, .slot = a->slot, .b = CONTROL_FILES };
	assert_int_equal(call(b, &msg), 0);
	assert_int_equal(b->nfds, 1);
	assert_int_equal(fstat(fd, &given), 0);
	assert_int_equal(fstat(b->fds[0], &got), 0);
	assert_int_equal(given.st_ino, got.st_ino);
	drop_fds(b);
	for (uint32_t wrong = CONTROL_FILES + 1; wrong; wrong += UINT32_MAX - CONTROL_FILES) {
		msg = (struct control_msg){ .type = CTL_MAP, .slot = a->slot, .b = wrong };
		assert_int_equal(call(b, &msg), ENOENT);
	}
	msg = (struct control_msg){ .type = CTL_MAP, .slot = UINT32_MAX, .b = 1 };
	assert_int_equal(call(b, &msg), ENOENT);
	close(fd);
	leave(a);
	leave(b);
	(void)state;
}

static void who_dealt_with_the_dead_is_told_once_for_each_slot(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS), *c = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_SLOT };
	uint32_t first = b->slot, second, gone[2];

	assert_int_equal(call(b, &msg), 0);
	second = msg.slot;
	msg = (struct control_msg){ .type = CTL_CHANNEL, .slot = second };
	assert_int_equal(call(a, &msg), 0);
	drop_fds(a);
	leave(b);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(next(a, &msg), 0);
		assert_int_equal(msg.type, CTL_PEER_GONE);
		gone[i] = msg.slot;
	}
	assert_true((gone[0] == first && gone[1] == second) || (gone[0] == second && gone[1] == first));
	assert_int_equal(a->page->slot_generation[first] % 2, 0);
	msg = (struct control_msg){ .type = CTL_CHANNEL, .slot = first };
	assert_int_equal(call(a, &msg), ENOENT);
	still_well(a);
	still_well(c);
	leave(a);
	leave(c);
	(void)state;
}

static void a_killed_client_leaves_nothing(void **state)
{
	int ready[2], status;
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct peer *a = join(CONTROL_PROCESS);
		struct control_msg msg = { .type = CTL_MCAST, .a = 1, .gid = { 0xff, 0x12, [15] = 9 } };

		call(a, &msg);
		msg = (struct control_msg){ .type = CTL_LISTEN, .service = 0x1061234 };
		call(a, &msg);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	wait_for("attached", 1);
	assert_int_equal(status_number("groups"), 1);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	wait_for("attached", 0);
	assert_int_equal(status_number("groups"), 0);
	assert_int_equal(status_number("slots_used"), 0);
	close(ready[0]);
	close(ready[1]);
}

static const struct page_group *find_group(const struct fabric_page *page, uint32_t device, const uint8_t gid[16])
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		if (page->group[i].used && page->group[i].device == device && !memcmp(page->group[i].gid, gid, 16))
			return &page->group[i];
	}
	return NULL;
}

static void groups_are_counted_for_each_process(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	const struct control_msg join_ib = { .type = CTL_MCAST, .a = 1, .gid = { 0xff, 0x12, 0x40, 0x1b, [15] = 1 } };
	struct control_msg msg = join_ib;
	const struct page_group *g;

	assert_int_equal(call(a, &msg), 0);
	assert_true(msg.b >= 0xc000 && msg.b < 0xffff);
	g = find_group(b->page, 0, join_ib.gid);
	assert_non_null(g);
	assert_int_equal(g->mlid, msg.b);
	assert_int_equal(g->slots[a->slot / 64] >> a->slot % 64 & 1, 1);
	msg = join_ib;
	assert_int_equal(call(a, &msg), 0);
	msg = join_ib;
	assert_int_equal(call(b, &msg), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(g->slots[a->slot / 64] >> a->slot % 64 & 1, 1);
		msg = join_ib;
		msg.a = 0;
		assert_int_equal(call(a, &msg), 0);
	}
	assert_int_equal(g->slots[a->slot / 64] >> a->slot % 64 & 1, 0);
	assert_int_equal(g->used, 1);
	msg = join_ib;
	msg.a = 0;
	assert_int_equal(call(a, &msg), ENOENT);
	assert_int_equal(call(b, &msg), 0);
	assert_int_equal(g->used, 0);

	msg = (struct control_msg){ .type = CTL_MCAST, .a = 1, .gid = { 0xfe, 0x80 } };
	assert_int_equal(call(a, &msg), EINVAL);
	msg = (struct control_msg){ .type = CTL_MCAST, .a = 1, .device = 7, .gid = { 0xff } };
	assert_int_equal(call(a, &msg), EINVAL);
	msg = (struct control_msg){ .type = CTL_MCAST, .a = 1, .device = 1, .gid = { [10] = 0xff, 0xff, 224, 0, 0, 5 } };
	assert_int_equal(call(a, &msg), 0);
	assert_int_equal(msg.b, 0);
	for (int i = 1; i < 64; i++) {
		msg = (struct control_msg){ .type = CTL_MCAST, .a = 1, .gid = { 0xff, [15] = (uint8_t)i } };
		assert_int_equal(call(a, &msg), 0);
	}
	/* neither a new one nor another's */
	for (int i = 0; i < 2; i++) {
		msg = (struct control_msg){ .type = CTL_MCAST, .a = 1, .gid = { 0xff, [15] = 200 } };
		assert_int_equal(call(a, &msg), EDQUOT);
		msg = (struct control_msg){ .type = CTL_MCAST, .a = 1, .gid = { 0xff, [15] = 200 } };
		assert_int_equal(call(b, &msg), 0);
	}
	leave(a);
	leave(b);
	(void)state;
}

static void ports_follow_the_rules_of_bind(void **state)
{
	enum { TCP = 0x1060000, UDP = 0x1110000 };
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg msg;

	assert_int_equal(bind_port(a, TCP | 7080, false, 0), 0);
	assert_int_equal(bind_port(b, TCP | 7080, false, 0), EADDRINUSE);
	assert_int_equal(bind_port(b, TCP | 7080, true, 0), EADDRINUSE);
	assert_int_equal(bind_port(b, TCP | 7080, false, 1), EADDRINUSE);
	assert_int_equal(bind_port(b, UDP | 7080, false, 0), 0);
	assert_int_equal(bind_port(a, TCP | 7081, false, 1), 0);
	assert_int_equal(bind_port(b, TCP | 7081, false, 2), 0);
	assert_int_equal(bind_port(b, TCP | 7081, false, 1), EADDRINUSE);
	assert_int_equal(bind_port(a, TCP | 7082, true, 0), 0);
	assert_int_equal(bind_port(b, TCP | 7082, true, 0), 0);
	msg = (struct control_msg){ .type = CTL_LISTEN, .service = TCP | 7082 };
	assert_int_equal(call(a, &msg), EADDRINUSE);
	msg = (struct control_msg){ .type = CTL_UNPORT, .service = TCP | 7082 };
	assert_int_equal(call(b, &msg), 0);
	assert_int_equal(call(b, &msg), ENOENT);
	msg = (struct control_msg){ .type = CTL_LISTEN, .service = TCP | 7082 };
	assert_int_equal(call(a, &msg), 0);
	assert_int_equal(bind_port(b, TCP | 7082, true, 0), EADDRINUSE);
	msg = (struct control_msg){ .type = CTL_UNLISTEN, .service = TCP | 7082 };
	assert_int_equal(call(a, &msg), 0);
	assert_int_equal(bind_port(b, TCP | 7082, true, 0), 0);

	msg = (struct control_msg){ .type = CTL_PORT, .service = TCP };
	assert_int_equal(call(a, &msg), 0);
	assert_true((msg.service & 0xffff) >= 32768 && (msg.service & 0xffff) <= 60999);
	assert_int_equal(bind_port(b, msg.service, false, 0), EADDRINUSE);
	leave(a);
	wait_for("attached", 1);
	assert_int_equal(bind_port(b, TCP | 7080, false, 0), 0);
	leave(b);
	(void)state;
}

/* The attacker of an rdma_cm server asks for the same service at an address or device of its own choice, or first. */
static void a_port_is_whose_it_is(void **state)
{
	enum { TCP = 0x1060000, DEVICES = 3 };
	struct peer *victim = join(CONTROL_PROCESS), *other = join(CONTROL_PROCESS);
	struct cm_msg req;

	assert_int_equal(bind_port(victim, TCP | 7302, false, 0), 0);
	for (int listens = 0; listens < 2; listens++) {
		for (uint32_t device = 0; device < DEVICES; device++) {
			for (uint8_t address = 0; address < 2; address++)
				assert_int_equal(listen_at(other, TCP | 7302, device, address), EADDRINUSE);
			assert_int_equal(bind_port(other, TCP | 7302, true, (uint8_t)device), EADDRINUSE);
		}
		if (!listens)
			assert_int_equal(listen_at(victim, TCP | 7302, 0, 0), 0);
	}
	req = req_of(other, TCP | 7302, 1);
	assert_int_equal(send_mad(other, &req), 0);
	next_mad(victim, &req);

	/* who listens without a reservation is in the way of others as well, wildcards wherever they are */
	assert_int_equal(listen_at(victim, TCP | 7303, 1, 1), 0);
	assert_int_equal(listen_at(other, TCP | 7303, 0, 1), EADDRINUSE);
	assert_int_equal(listen_at(other, TCP | 7303, 1, 0), EADDRINUSE);
	assert_int_equal(listen_at(other, TCP | 7303, 0, 0), EADDRINUSE);
	assert_int_equal(bind_port(other, TCP | 7303, false, 0), EADDRINUSE);
	assert_int_equal(listen_at(other, TCP | 7303, 2, 1), 0);
	assert_int_equal(listen_at(other, TCP | 7303, 1, 2), 0);
	assert_int_equal(listen_at(other, TCP | 7303, 2, 0), 0);
	assert_int_equal(listen_at(victim, TCP | 7303, 1, 0), EADDRINUSE);
	assert_int_equal(listen_at(victim, TCP | 7303, 1, 3), 0);
	assert_int_equal(listen_at(victim, TCP | 7304, 0, 0), 0);
	assert_int_equal(listen_at(other, TCP | 7304, 0, 1), EADDRINUSE);
	assert_int_equal(listen_at(other, TCP | 7304, 2, 1), EADDRINUSE);
	leave(other);
	leave(victim);
	(void)state;
}

static void goodbye_leaves_nothing(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = b->slot };

	assert_int_equal(call(a, &msg), 0);
	drop_fds(a);
	assert_int_equal(next(b, &msg), 0);
	drop_fds(b);
	msg = (struct control_msg){ .type = CTL_GOODBYE };
	assert_int_equal(call(a, &msg), 0);
	assert_int_equal(next(b, &msg), 0);
	assert_int_equal(msg.type, CTL_PEER_GONE);
	wait_for("attached", 1);
	assert_int_equal(status_number("channels"), 0);
	leave(a);
	leave(b);
	(void)state;
}

static void bad_messages_cost_their_sender_alone(void **state)
{
	struct peer *good = join(CONTROL_PROCESS);
	char junk[sizeof(struct control_msg) + 16];

	(void)state;
	for (int i = 0; i < 12; i++) {
		struct peer *bad = i == 0 ? connect_peer() : join(i < 3 ? CONTROL_COMMAND : CONTROL_PROCESS);
		struct control_msg msg = { .type = CTL_SLOT };
		int fds[CONTROL_FDS] = { 0, 0, 0, 0 };

		memset(junk, 0xa5, sizeof(junk));
		switch (i) {
		case 0:		/* before HELLO */
		case 1:		/* a command asks for a slot */
			message_send(bad->socket, &msg, NULL, NULL, 0, 0);
			break;
		case 2:		/* a text that is too long for the message */
			msg = (struct control_msg){ .type = CTL_QUERY, .text_bytes = 33 };
			message_send(bad->socket, &msg, junk, NULL, 0, 0);
			break;
		case 3:		/* too short */
			send(bad->socket, &msg, sizeof(msg) - 1, 0);
			break;
		case 4:		/* longer than it says */
			send(bad->socket, junk, sizeof(junk), 0);
			break;
		case 5:		/* a text it does not have */
			msg.text_bytes = 100;
			send(bad->socket, &msg, sizeof(msg), 0);
			break;
		case 6:		/* unknown types */
		case 7:
		case 8:
			msg.type = i == 6 ? 0 : i == 7 ? UINT32_MAX : CTL_PEER_GONE;
			message_send(bad->socket, &msg, NULL, NULL, 0, 0);
			break;
		case 9:		/* a second HELLO */
			msg.type = CTL_HELLO;
			message_send(bad->socket, &msg, NULL, NULL, 0, 0);
			break;
		case 10:	/* descriptors nobody wants */
			message_send(bad->socket, &msg, NULL, fds, CONTROL_FDS, 0);
			break;
		case 11:	/* a process that would stop weftd */
			msg.type = CTL_DOWN;
			message_send(bad->socket, &msg, NULL, NULL, 0, 0);
			break;
		}
		expect_end(bad);
		leave(bad);
		still_well(good);
	}
	leave(good);
	wait_for("slots_used", 0);
}

static void who_does_not_read_loses_mads_and_then_the_connection(void **state)
{
	struct peer *lazy = join(CONTROL_PROCESS), *busy = join(CONTROL_PROCESS), *other = join(CONTROL_PROCESS);
	struct cm_msg mra = { .attribute = CM_MRA, .mra = { .local_comm_id = busy->slot << 20 | 1,
							     .remote_comm_id = lazy->slot << 20 | 1 } };
	struct control_msg msg;
	int status = 0, sent = 0;

	while (status == 0 && sent < 100000) {
		status = send_mad(busy, &mra);
		sent += status == 0;
	}
	assert_int_equal(status, EAGAIN);
	assert_true(sent >= 4096);
	/* what must not be lost still fits until the whole queue is full: answers to messages it keeps sending */
	fcntl(lazy->socket, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 100000; i++) {
		msg = (struct control_msg){ .type = CTL_UNPORT, .seq = 1 };
		if (message_send(lazy->socket, &msg, NULL, NULL, 0, 0) == -EPIPE)
			break;
		if (i % 64 == 0)
			still_well(other);
	}
	assert_int_equal(next(busy, &msg), 0);
	assert_int_equal(msg.type, CTL_PEER_GONE);
	leave(lazy);
	leave(busy);
	leave(other);
	(void)state;
}

static void a_query_joins_what_processes_say(void **state)
{
	struct peer *a = join(CONTROL_PROCESS), *mute = join(CONTROL_PROCESS), *liar = join(CONTROL_PROCESS);
	struct peer *asker = join(CONTROL_COMMAND);
	struct control_msg msg = { .type = CTL_QUERY, .seq = 3, .text_bytes = 2 };

	assert_int_equal(message_send(asker->socket, &msg, "qp", NULL, 0, 0), 0);
	assert_int_equal(next(a, &msg), 0);
	assert_int_equal(msg.type, CTL_REPORT);
	assert_string_equal(a->text, "qp");
	msg.text_bytes = 16;
	assert_int_equal(message_send(a->socket, &msg, "[{\"qpn\": 65537}]", NULL, 0, 0), 0);
	assert_int_equal(next(liar, &msg), 0);
	msg.text_bytes = 5;
	assert_int_equal(message_send(liar->socket, &msg, "[{\"a\"", NULL, 0, 0), 0);
	assert_int_equal(next(asker, &msg), 0);
	assert_int_equal(msg.seq, 3);
	assert_non_null(strstr(asker->text, "no answer within 1 s"));
	assert_non_null(strstr(asker->text, "not a report"));
	msg = (struct control_msg){ .type = CTL_QUERY };
	assert_int_equal(call_text(asker, &msg, "everything"), EINVAL);
	leave(a);
	leave(mute);
	leave(liar);
	leave(asker);
	(void)state;
}

static void long_answers_come_in_a_file(void **state)
{
	struct peer *asker = join(CONTROL_COMMAND), *many[12];
	struct control_msg msg = { .type = CTL_QUERY, .seq = 3, .text_bytes = 2 };
	static char text[50001];
	struct stat st;

	/* rows of ten bytes with what parts them */
	for (size_t i = 0; i < sizeof(text) - 1; i += 10)
		memcpy(text + i, i ? ",{\"a\":123}" : "[{\"a\":123}", 10);
	text[50000] = ']';
	for (int i = 0; i < 12; i++)
		many[i] = join(CONTROL_PROCESS);
	assert_int_equal(message_send(asker->socket, &msg, "mr", NULL, 0, 0), 0);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(next(many[i], &msg), 0);
		msg.text_bytes = 50001;
		assert_int_equal(message_send(many[i]->socket, &msg, text, NULL, 0, 0), 0);
	}
	assert_int_equal(next(asker, &msg), 0);
	assert_int_equal(msg.text_bytes, 0);
	assert_int_equal(asker->nfds, 1);
	assert_int_equal(fstat(asker->fds[0], &st), 0);
	assert_true(st.st_size > 12 * 50000);
	drop_fds(asker);
	for (int i = 0; i < 12; i++)
		leave(many[i]);
	leave(asker);
	(void)state;
}

static void down_spares_who_is_attached(void **state)
{
	struct peer *a = join(CONTROL_LEASE), *c = join(CONTROL_COMMAND);
	struct control_msg msg = { .type = CTL_DOWN };

	assert_int_equal(call(c, &msg), EBUSY);
	assert_int_equal(msg.c, 1);
	leave(a);
	leave(c);
	(void)state;
}

static void many_processes_come_and_go(void **state)
{
	enum { MANY = 200 };
	struct peer *p[MANY];
	struct control_msg msg;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MANY; i++)
			p[i] = join(CONTROL_PROCESS);
		for (int i = 1; i < MANY; i++) {
			msg = (struct control_msg){ .type = CTL_CHANNEL, .slot = p[i - 1]->slot };
			assert_int_equal(message_send(p[i]->socket, &msg, NULL, NULL, 0, 0), 0);
		}
		for (int i = 0; i < MANY; i++)
			leave(p[i]);
	}
	wait_for("slots_used", 0);
	assert_int_equal(status_number("channels"), 0);
	(void)state;
}

#define TEST(test) cmocka_unit_test_teardown(test, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hello_gives_a_slot_and_a_page_that_only_weftd_can_write),
		TEST(hello_of_another_version_is_told_so),
		TEST(a_wake_descriptor_must_be_an_eventfd),
		TEST(slots_are_random_and_limited),
		TEST(the_least_number_that_is_free_is_given),
		TEST(a_channel_reaches_both_sides_once),
		TEST(memory_files_are_handed_on),
		TEST(who_dealt_with_the_dead_is_told_once_for_each_slot),
		TEST(a_killed_client_leaves_nothing),
		TEST(groups_are_counted_for_each_process),
		TEST(ports_follow_the_rules_of_bind),
		TEST(a_port_is_whose_it_is),
		TEST(goodbye_leaves_nothing),
		TEST(bad_messages_cost_their_sender_alone),
		TEST(who_does_not_read_loses_mads_and_then_the_connection),
		TEST(a_query_joins_what_processes_say),
		TEST(long_answers_come_in_a_file),
		TEST(down_spares_who_is_attached),
		TEST(many_processes_come_and_go),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
