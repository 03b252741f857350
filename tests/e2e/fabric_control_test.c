/* The fabric of a network as weftd keeps it: who may load one, what is refused, who is where, and what a restart leaves. */
#include "control_client.h"

#include "../unit/fabric.h"
#include "fabric/route.h"
#include "fabric/traffic.h"
#include "link/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A line of two switches with a host each, as tables. */
static void make_line(struct test_fabric *t)
{
	MAKE(t, "line", "switches=2");
	assert_int_equal(fabric_route(&t->f, ROUTE_MIN_HOP), 0);
	fabric_activate(&t->f);
}

static int call_with(struct peer *p, struct control_msg *msg, int fd)
{
	msg->seq = 7;
	assert_int_equal(message_send(p->socket, msg, NULL, &fd, 1, 0), 0);
	return next(p, msg);
}

/* The status of loading these bytes. */
static int load(struct peer *p, const void *bytes, size_t n, struct control_msg *msg)
{
	int fd = memfd_create("fabric", 0), status;

	assert_int_equal(write(fd, bytes, n), n);
	*msg = (struct control_msg){ .type = CTL_FABRIC };
	status = call_with(p, msg, fd);
	close(fd);
	return status;
}

static void load_line(struct peer *p)
{
	struct test_fabric t;
	struct control_msg msg;

	make_line(&t);
	assert_int_equal(load(p, t.mapping, t.bytes, &msg), 0);
	end_fabric(&t);
}

static int unload(struct peer *p)
{
	struct control_msg msg = { .type = CTL_FABRIC };

	return call(p, &msg);
}

/* The fabric that p gets, mapped; number: its number. */
static void look(struct peer *p, struct test_fabric *t, uint32_t *number)
{
	struct control_msg msg = { .type = CTL_NODE };
	char why[200];
	struct stat st;

	assert_int_equal(call(p, &msg), 0);
	assert_in_range(p->nfds, 1, 2);		/* a process gets what data counts, too */
	*number = msg.b;
	assert_int_equal(fstat(p->fds[0], &st), 0);
	t->bytes = (size_t)st.st_size;
	t->mapping = mmap(NULL, t->bytes, PROT_READ, MAP_SHARED, p->fds[0], 0);
	assert_true(t->mapping != MAP_FAILED);
	assert_int_equal(fabric_open(&t->f, t->mapping, t->bytes, why, sizeof(why)), 0);
}

static void end_look(struct peer *p, struct test_fabric *t)
{
	fabric_close(&t->f);
	munmap(t->mapping, t->bytes);
	drop_fds(p);
}

static int go(struct peer *p, uint32_t port, uint32_t number)
{
	struct control_msg msg = { .type = CTL_NODE, .a = port + 1, .b = number };

	return call(p, &msg);
}

static int set_link(struct peer *p, uint32_t port, uint32_t number, bool is_up)
{
	struct control_msg msg = { .type = CTL_LINK, .a = port + 1, .b = number, .c = is_up };

	return call(p, &msg);
}

static void processes_are_at_ports(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_SLOT };
	struct test_fabric t;
	uint32_t number, h1, slot;

	(void)state;
	assert_int_equal(go(a, 0, 0), ENOENT);
	assert_int_equal(set_link(boss, 1, 0, false), ENOENT);
	load_line(boss);
	look(a, &t, &number);
	assert_int_equal(a->page->fabric, number);
	h1 = port_named(&t.f, "h1", 1);
	assert_int_equal(go(a, port_named(&t.f, "s1", 1), number), EINVAL);
	assert_int_equal(go(a, t.f.ports, number), EINVAL);
	assert_int_equal(go(a, h1, number + 1), ESTALE);
	assert_int_equal(a->page->slot_port[a->slot], 0);
	assert_int_equal(go(a, h1, number), 0);
	assert_int_equal(a->page->slot_port[a->slot], h1 + 1);
	assert_int_equal(go(a, port_named(&t.f, "h2", 1), number), EBUSY);
	/* all of its slots are there */
	assert_int_equal(call(a, &msg), 0);
	assert_int_equal(a->page->slot_port[msg.slot], h1 + 1);
	end_look(a, &t);
	/* the one that processes are in is not taken away */
	assert_int_equal(unload(boss), EBUSY);
	slot = a->slot;
	leave(a);
	wait_for("attached", 0);
	/* where it was: what it has sent may not have been taken in yet */
	assert_int_equal(boss->page->slot_port[slot], h1 + 1);
	assert_int_equal(unload(boss), 0);
	assert_int_equal(boss->page->slot_port[slot], 0);
	assert_int_equal(go(boss, h1, number), ENOENT);
	leave(boss);
}

/* The errno of opening the descriptor's file once more, to write, as somebody else; 0: it works. */
static int reopened_by_another_user(int fd)
{
	char path[32];
	pid_t pid = fork();

	if (pid)
		return exit_status(pid);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1) || open(path, O_RDONLY) >= 0)
		_exit(255);
	_exit(open(path, O_RDWR) < 0 ? errno : 0);
}

static void members_cannot_change_it(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct test_fabric t;
	uint32_t number;

	(void)state;
	load_line(boss);
	look(a, &t, &number);
	assert_int_equal(fcntl(a->fds[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_true(mmap(NULL, t.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fds[0], 0) == MAP_FAILED);
	assert_int_equal(mprotect(t.mapping, t.bytes, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(pwrite(a->fds[0], "x", 1, 0), -1);
	assert_int_equal(ftruncate(a->fds[0], 0), -1);
	if (geteuid() == 0)
		assert_int_equal(reopened_by_another_user(a->fds[0]), EACCES);
	end_look(a, &t);
	leave(a);
	leave(boss);
}

/* Who is at no port counts nothing; who may count can neither shorten the file under the others nor make it longer. */
static void members_write_what_data_counts_and_no_more(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS), *b = join(CONTROL_PROCESS);
	struct traffic_block *all, *same;
	struct test_fabric t, of_b;
	uint32_t number;
	size_t bytes;

	(void)state;
	load_line(boss);
	look(boss, &t, &number);
	assert_int_equal(boss->nfds, 1);
	end_look(boss, &t);
	look(a, &t, &number);
	look(b, &of_b, &number);
	assert_int_equal(a->nfds, 2);
	bytes = traffic_bytes(&t.f);
	assert_true(memfile_is_fixed(a->fds[1], bytes));
	assert_int_equal(ftruncate(a->fds[1], 0), -1);
	assert_int_equal(ftruncate(a->fds[1], 1 << 30), -1);
	all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fds[1], 0);
	same = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fds[1], 0);
	assert_true(all != MAP_FAILED && same != MAP_FAILED);
	traffic_add(&all[3], TRAFFIC_WORDS, 5);
	assert_int_equal(traffic_read(same, 3, TRAFFIC_WORDS), 5);
	munmap(all, bytes);
	munmap(same, bytes);
	end_look(b, &of_b);
	end_look(a, &t);
	leave(b);
	leave(a);
	leave(boss);
}

/* Each is refused, and the fabric that was there stays. */
static void a_fabric_that_lies_is_refused(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND);
	struct control_msg msg;
	struct test_fabric t, kept;
	uint32_t number, s1, away;
	uint8_t *bytes;

	(void)state;
	load_line(boss);
	make_line(&t);
	bytes = t.mapping;
	assert_int_equal(load(boss, bytes, t.bytes - 1, &msg), EINVAL);
	assert_int_equal(load(boss, bytes, 10, &msg), EINVAL);
	assert_int_equal(load(boss, "", 0, &msg), EINVAL);
	t.f.port[port_named(&t.f, "s1", 1)].peer = 77;
	assert_int_equal(load(boss, bytes, t.bytes, &msg), EINVAL);
	t.f.port[port_named(&t.f, "s1", 1)].peer = port_named(&t.f, "s1", 3);
	assert_int_equal(load(boss, bytes, t.bytes, &msg), EINVAL);
	t.f.head->nodes = UINT32_MAX;
	assert_int_equal(load(boss, bytes, t.bytes, &msg), EINVAL);
	end_fabric(&t);
	make_line(&t);
	bytes = t.mapping;
	t.f.port[port_named(&t.f, "h1", 1)].lid++;
	assert_int_equal(t.f.port[port_named(&t.f, "h1", 1)].lid, t.f.port[port_named(&t.f, "h2", 1)].lid);
	assert_int_equal(load(boss, bytes, t.bytes, &msg), EINVAL);
	t.f.port[port_named(&t.f, "h1", 1)].lid--;
	/* magic, version, size, nodes, ports */
	for (int i = 0; i < 24; i++) {
		bytes[i] ^= 0x55;
		assert_int_equal(load(boss, bytes, t.bytes, &msg), EINVAL);
		bytes[i] ^= 0x55;
	}
	look(boss, &kept, &number);
	assert_int_equal(kept.f.nodes, t.f.nodes);
	end_look(boss, &kept);
	/* its writer may have ended in the middle of a change, of a link that goes down or comes up */
	away = t.f.owner[port_named(&t.f, "h2", 1)];
	t.f.node[away].sequence |= 1;
	s1 = port_named(&t.f, "s1", 1);
	t.f.port[s1].state = PORT_DOWN;
	assert_int_equal(load(boss, bytes, t.bytes, &msg), 0);
	look(boss, &kept, &number);
	assert_int_equal(kept.f.node[away].sequence % 2, 0);
	assert_int_equal(kept.f.port[s1].state, PORT_DOWN);
	assert_int_equal(kept.f.port[fabric_peer(&kept.f, s1)].state, PORT_DOWN);
	end_look(boss, &kept);
	end_fabric(&t);
	assert_int_equal(status_number("attached"), 0);
	leave(boss);
}

static void a_file_too_large_is_refused(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND);
	struct control_msg msg = { .type = CTL_FABRIC };
	int fd = memfd_create("fabric", 0);

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)FABRIC_BYTES_MOST + 1), 0);
	assert_int_equal(call_with(boss, &msg, fd), EFBIG);
	close(fd);
	leave(boss);
}

static void a_link_is_taken_down_for_all(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct control_msg msg;
	struct test_fabric t;
	uint32_t number, port, lone;

	(void)state;
	load_line(boss);
	look(a, &t, &number);
	port = port_named(&t.f, "s1", 1);
	lone = port_named(&t.f, "s1", 3);
	assert_int_equal(set_link(boss, lone, number, false), EINVAL);
	assert_int_equal(set_link(boss, t.f.ports, number, false), EINVAL);
	assert_int_equal(set_link(boss, port, number + 1, false), ESTALE);
	for (int up = 0; up < 2; up++) {
		assert_int_equal(set_link(boss, port, number, up), 0);
		assert_int_equal(t.f.port[port].state, up ? PORT_ACTIVE : PORT_DOWN);
		assert_int_equal(t.f.port[fabric_peer(&t.f, port)].state, up ? PORT_ACTIVE : PORT_DOWN);
		assert_int_equal(next(a, &msg), 0);
		assert_int_equal(msg.type, CTL_PAGE);
		assert_int_equal(msg.a, 2);
	}
	end_look(a, &t);
	leave(a);
	leave(boss);
}

/* What ports have counted, 1024 of them at most in an answer. */
static void counts_are_of_ports_that_there_are(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct control_msg none = { .type = CTL_PORT_COUNTS }, msg;
	struct test_fabric t;
	uint32_t number;

	(void)state;
	assert_int_equal(unload(boss), 0);
	assert_int_equal(call(boss, &none), ENOENT);
	load_line(boss);
	look(a, &t, &number);
	msg = (struct control_msg){ .type = CTL_PORT_COUNTS, .a = t.f.ports, .b = number };
	assert_int_equal(call(boss, &msg), EINVAL);
	msg = (struct control_msg){ .type = CTL_PORT_COUNTS, .b = number + 1 };
	assert_int_equal(call(boss, &msg), ESTALE);
	msg = (struct control_msg){ .type = CTL_PORT_COUNTS, .a = t.f.ports - 1, .b = number };
	assert_int_equal(call(boss, &msg), 0);
	assert_int_equal(msg.text_bytes, sizeof(struct control_port_count));
	end_look(a, &t);
	leave(a);
	assert_int_equal(unload(boss), 0);
	leave(boss);
}

/* A process that is stopped does not read: what has changed meanwhile is one message more than its socket holds. */
static void changes_are_told_once_to_who_does_not_read(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct control_msg msg = { .type = CTL_NODE };
	struct test_fabric t;
	uint32_t number, port;
	unsigned told = 0;

	(void)state;
	load_line(boss);
	look(boss, &t, &number);
	port = port_named(&t.f, "s1", 1);
	for (unsigned i = 0; i < 4000; i++)
		assert_int_equal(set_link(boss, port, number, i & 1), 0);
	assert_int_equal(message_send(a->socket, &msg, NULL, NULL, 0, 0), 0);
	while (next(a, &msg) == 0 && msg.type == CTL_PAGE)
		told++;
	assert_int_equal(msg.type, CTL_NODE);
	drop_fds(a);
	assert_in_range(told, 1, 2000);
	/* and from then on as before */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(set_link(boss, port, number, i), 0);
		assert_int_equal(next(a, &msg), 0);
		assert_int_equal(msg.type, CTL_PAGE);
	}
	end_look(boss, &t);
	leave(a);
	leave(boss);
}

/* Into weftd's own file: a LID, and that a subnet manager is there. */
static void write_port(const struct test_fabric *t, uint32_t port, uint16_t lid)
{
	struct fabric_port p = t->f.port[port];
	off_t at = (const uint8_t *)&t->f.port[port] - (const uint8_t *)t->mapping;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/" CONTROL_OWN "/fabric", dir);
	fd = open(path, O_RDWR);
	p.lid = lid;
	p.capabilities |= CAPABLE_SM;
	assert_int_equal(pwrite(fd, &p, sizeof(p), at), sizeof(p));
	close(fd);
	assert_int_equal(t->f.port[port].lid, lid);
}

static void a_killed_weftd_leaves_it_to_the_next(void **state)
{
	struct peer *boss = join(CONTROL_COMMAND), *a = join(CONTROL_PROCESS);
	struct test_fabric t;
	uint32_t number, h1, h2, again;
	int fd;

	(void)state;
	load_line(boss);
	look(a, &t, &number);
	h1 = port_named(&t.f, "h1", 1);
	assert_int_equal(go(a, h1, number), 0);
	assert_int_equal(set_link(boss, port_named(&t.f, "s1", 1), number, false), 0);
	/* a subnet manager was about to swap two LIDs */
	h2 = port_named(&t.f, "h2", 1);
	write_port(&t, h1, t.f.port[h2].lid);
	end_look(a, &t);
	kill(status_number("pid"), SIGKILL);
	while ((fd = try_to_connect()) >= 0)
		close(fd);
	assert_int_equal(exit_status(spawn(WEFTD, NULL)), 0);
	close(a->socket);
	a->socket = connect_raw();
	assert_int_equal(hello(a, CONTROL_RETURN, CONTROL_VERSION, a->wake_fd), 0);
	drop_fds(a);
	assert_int_equal(a->page->slot_port[a->slot], h1 + 1);
	look(a, &t, &again);
	assert_int_equal(again, number);
	assert_int_equal(t.f.port[port_named(&t.f, "s1", 1)].state, PORT_DOWN);
	assert_int_equal(t.f.port[h1].lid, t.f.port[h2].lid);
	assert_int_equal(t.f.port[h1].capabilities & CAPABLE_SM, 0);
	end_look(a, &t);
	leave(a);
	close(boss->socket);
	boss->socket = connect_raw();
	assert_int_equal(hello(boss, CONTROL_COMMAND, CONTROL_VERSION, -1), 0);
	drop_fds(boss);
	wait_for("attached", 0);
	assert_int_equal(unload(boss), 0);
	leave(boss);
}

#define WELL(test) cmocka_unit_test_teardown(test, leave_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WELL(processes_are_at_ports),
		WELL(members_cannot_change_it),
		WELL(members_write_what_data_counts_and_no_more),
		WELL(a_fabric_that_lies_is_refused),
		WELL(a_file_too_large_is_refused),
		WELL(a_link_is_taken_down_for_all),
		WELL(counts_are_of_ports_that_there_are),
		WELL(changes_are_told_once_to_who_does_not_read),
		WELL(a_killed_weftd_leaves_it_to_the_next),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
