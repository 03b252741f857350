/* Descriptors whose close(2) waits, sent to a real weftd: a TCP socket that lingers over bytes which nobody takes, and a file
 * of a FUSE server which does not answer. Whoever closes them last, or at all, waits; weftd must not. */
#include "control_client.h"
#include "../lingering.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SERVER_S = 60, SOON_MS = 3000 };

static int sink = -1;	/* of make_lingering */

/* ---- a file of a FUSE server that does not answer any more ---- */

static void answer(int fuse, const struct fuse_in_header *in, const void *body, size_t bytes)
{
	char out[256];
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + bytes), .unique = in->unique };

	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), body, bytes);
	if (write(fuse, out, head.len) != (ssize_t)head.len)
		_exit(3);
}

/* Answers until the file is open. */
static void serve(int fuse)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
	struct fuse_open_out open_out = { .fh = 1 };
	_Alignas(8) static char in[1 << 17];
	const struct fuse_in_header *head = (void *)in;

	while (read(fuse, in, sizeof(in)) > 0) {
		if (head->opcode == FUSE_INIT) {
			answer(fuse, head, &init, sizeof(init));
		} else if (head->opcode == FUSE_OPEN) {
			answer(fuse, head, &open_out, sizeof(open_out));
			return;
		}
	}
	_exit(3);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(4);
	close(fd);
}

/* In a child with namespaces of its own: mounts, has a child of its own give the open file, and stays with the device. It does
 * not have the file, as the kernel would have it wait for itself when it ends. */
static void be_server(int to)
{
	char options[64], map[32], group_map[32], path[80];
	struct control_msg msg = { .type = CTL_HELLO };
	int fuse, file;

	snprintf(map, sizeof(map), "0 %u 1", geteuid());
	snprintf(group_map, sizeof(group_map), "0 %u 1", getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		_exit(77);
	write_file("/proc/self/setgroups", "deny");
	write_file("/proc/self/uid_map", map);
	write_file("/proc/self/gid_map", group_map);
	snprintf(path, sizeof(path), "%s.fuse", dir);
	file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	close(file);
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=0,group_id=0", fuse);
	if (fuse < 0 || mount("weft", path, "fuse", 0, options))
		_exit(77);
	if (fork() == 0) {
		file = open(path, O_RDWR | O_CLOEXEC);
		message_send(to, &msg, NULL, &file, file >= 0, 0);
		_exit(0);
	}
	/* whatever happens, nobody waits for ever */
	alarm(SERVER_S);
	serve(fuse);
	for (;;)
		pause();
}

/* Its process, and a descriptor of its file, which may be sent but not closed; 0: there is no FUSE here. */
static pid_t start_fuse(int *file)
{
	struct control_msg msg;
	int pair[2], fds[CONTROL_FDS], nfds = 0, status;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		be_server(pair[1]);
	}
	close(pair[1]);
	if (message_receive(pair[0], &msg, NULL, 0, fds, &nfds, 0) || nfds != 1) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(WEXITSTATUS(status), 77);
		return 0;
	}
	close(pair[0]);
	*file = fds[0];
	return pid;
}

/* ---- what weftd must survive ---- */

/* weftd stands still meanwhile, so that it is the last who has what was sent. */
static pid_t stop_weftd(void)
{
	pid_t pid = status_number("pid");
	char path[32], text[256] = "";

	assert_int_equal(kill(pid, SIGSTOP), 0);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	do {
		int fd = open(path, O_RDONLY);

		assert_true(read(fd, text, sizeof(text) - 1) > 0);
		close(fd);
	} while (!strstr(text, ") T "));
	return pid;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void answers_soon(void)
{
	int64_t start = now_ms();
	struct peer *p = join(CONTROL_PROCESS);

	still_well(p);
	leave(p);
	assert_true(now_ms() - start < SOON_MS);
}

static void bring(struct peer *p, uint32_t type, int fd, int nfds)
{
	struct control_msg msg = { .type = type, .seq = 9, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };
	int fds[CONTROL_FDS] = { fd, fd, fd, fd };

	assert_int_equal(message_send(p->socket, &msg, NULL, fds, nfds, 0), 0);
}

static void a_lingering_socket_with(uint32_t type, int nfds, bool is_attached)
{
	struct peer *p = is_attached ? join(CONTROL_PROCESS) : connect_peer();
	int fd = make_lingering(&sink);
	pid_t weftd = stop_weftd();

	bring(p, type, fd, nfds);
	close(fd);
	kill(weftd, SIGCONT);
	answers_soon();
	leave(p);
	answers_soon();
	close(sink);
}

static void a_lingering_socket_in_a_hello_stops_nobody(void **state)
{
	(void)state;
	a_lingering_socket_with(CTL_HELLO, 1, false);
	a_lingering_socket_with(CTL_HELLO, 3, false);
	a_lingering_socket_with(CTL_HELLO, 4, false);
}

static void a_lingering_socket_where_none_belongs_stops_nobody(void **state)
{
	(void)state;
	a_lingering_socket_with(CTL_UNPORT, 1, true);
	a_lingering_socket_with(CTL_UNPORT, 1, false);
	a_lingering_socket_with(CTL_MEMORY, 1, true);
	a_lingering_socket_with(CTL_KEPT + 5, 2, true);
}

/* The connection ends with the descriptor in it, unread. */
static void a_lingering_socket_behind_what_ends_the_connection_stops_nobody(void **state)
{
	struct peer *p = connect_peer();
	struct control_msg rubbish = { .type = CTL_PEER_GONE };
	int fd = make_lingering(&sink);
	pid_t weftd = stop_weftd();

	assert_int_equal(message_send(p->socket, &rubbish, NULL, NULL, 0, 0), 0);
	bring(p, CTL_HELLO, fd, 1);
	close(fd);
	leave(p);
	kill(weftd, SIGCONT);
	answers_soon();
	close(sink);
	(void)state;
}

static void a_lingering_socket_in_an_empty_message(struct peer *p, unsigned before)
{
	const struct control_msg done = { .type = CTL_MAD_DONE };
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct msghdr header = { .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	int fd = make_lingering(&sink);
	pid_t weftd = stop_weftd();

	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (!before)
		assert_int_equal(send(p->socket, "", 0, 0), 0);
	for (unsigned i = 0; i < before; i++)
		assert_int_equal(message_send(p->socket, &done, NULL, NULL, 0, 0), 0);
	assert_int_equal(sendmsg(p->socket, &header, 0), 0);
	for (unsigned i = 0; i < before; i++)
		assert_int_equal(message_send(p->socket, &done, NULL, NULL, 0, 0), 0);
	close(fd);
	kill(weftd, SIGCONT);
	answers_soon();
	leave(p);
	close(sink);
}

static void a_lingering_socket_in_an_empty_message_stops_nobody(void **state)
{
	(void)state;
	a_lingering_socket_in_an_empty_message(connect_peer(), 0);
}

static void a_lingering_socket_among_datagrams_stops_nobody(void **state)
{
	struct peer *p = connect_peer();

	(void)state;
	assert_int_equal(hello(p, CONTROL_MADS, CONTROL_VERSION, -1), 0);
	a_lingering_socket_in_an_empty_message(p, 3);
}

static void a_file_of_a_server_that_does_not_answer_stops_nobody(void **state)
{
	int file = -1, rounds = 0;
	pid_t server = start_fuse(&file);
	char path[80];

	(void)state;
	snprintf(path, sizeof(path), "%s.fuse", dir);
	if (!server) {
		unlink(path);
		skip();
	}
	/* more often than one user has children */
	for (int nfds = 1; rounds < 10; nfds = nfds % 3 + 1, rounds++) {
		struct peer *p = connect_peer();

		bring(p, CTL_HELLO, file, nfds);
		if (rounds < 7)
			answers_soon();
		leave(p);
	}
	/* weft down ends weftd, whatever becomes of its children */
	stop_daemon(NULL);
	kill(server, SIGKILL);
	assert_int_equal(waitpid(server, NULL, 0), server);
	unlink(path);
	start_daemon(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lingering_socket_in_a_hello_stops_nobody),
		cmocka_unit_test(a_lingering_socket_where_none_belongs_stops_nobody),
		cmocka_unit_test(a_lingering_socket_behind_what_ends_the_connection_stops_nobody),
		cmocka_unit_test(a_lingering_socket_in_an_empty_message_stops_nobody),
		cmocka_unit_test(a_lingering_socket_among_datagrams_stops_nobody),
		cmocka_unit_test(a_file_of_a_server_that_does_not_answer_stops_nobody),
	};

	return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
