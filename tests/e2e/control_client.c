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

char dir[64];

pid_t spawn(const char *program, const char *option)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl(program, program, option, NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

int exit_status(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int try_to_connect(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/ctl", dir);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

int connect_raw(void)
{
	int fd = try_to_connect();

	assert_true(fd >= 0);
	return fd;
}

int next(struct peer *p, struct control_msg *msg)
{
	struct pollfd f = { .fd = p->socket, .events = POLLIN };
	int err;

	assert_int_equal(poll(&f, 1, PATIENCE_MS), 1);
	err = message_receive(p->socket, msg, p->text, CONTROL_TEXT, p->fds, &p->nfds, 0);
	if (!err)
		p->text[msg->text_bytes] = '\0';
	return err ? err : msg->status;
}

void drop_fds(struct peer *p)
{
	while (p->nfds > 0)
		close(p->fds[--p->nfds]);
}

void expect_end(struct peer *p)
{
	struct control_msg msg;
	int err;

	do {
		err = next(p, &msg);
		drop_fds(p);
	} while (err >= 0);
	assert_int_equal(err, -ENOTCONN);
}

int call_text(struct peer *p, struct control_msg *msg, const char *text)
{
	msg->seq = 77;
	msg->text_bytes = text ? (uint32_t)strlen(text) : 0;
	assert_int_equal(message_send(p->socket, msg, text, NULL, 0, 0), 0);
	return next(p, msg);
}

int call(struct peer *p, struct control_msg *msg)
{
	return call_text(p, msg, NULL);
}

int hello(struct peer *p, uint32_t kind, uint32_t version, int wake_fd)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 5, .a = kind, .b = version };
	int status;

	if (kind == CONTROL_RETURN) {
		msg.slot = p->slot;
		memcpy(msg.gid, p->secret, sizeof(msg.gid));
	}
	assert_int_equal(message_greet(p->socket, &msg, &wake_fd, wake_fd >= 0), 0);
	status = next(p, &msg);
	if (status == 0)
		assert_int_equal(msg.seq, 5);
	p->slot = msg.slot;
	p->number = msg.c;
	memcpy(p->secret, msg.gid, sizeof(p->secret));
	return status;
}

struct peer *connect_peer(void)
{
	struct peer *p = calloc(1, sizeof(*p));

	p->socket = connect_raw();
	p->wake_fd = -1;
	return p;
}

struct peer *join(uint32_t kind)
{
	struct peer *p = connect_peer();

	if (kind == CONTROL_PROCESS)
		p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(hello(p, kind, CONTROL_VERSION, p->wake_fd), 0);
	assert_int_equal(p->nfds, 1);
	p->page = mmap(NULL, sizeof(*p->page), PROT_READ, MAP_SHARED, p->fds[0], 0);
	assert_ptr_not_equal(p->page, MAP_FAILED);
	drop_fds(p);
	return p;
}

void leave(struct peer *p)
{
	if (p->page)
		munmap((void *)(uintptr_t)p->page, sizeof(*p->page));
	if (p->wake_fd >= 0)
		close(p->wake_fd);
	close(p->socket);
	free(p);
}

int status_number(const char *name)
{
	struct peer *c = join(CONTROL_COMMAND);
	struct control_msg msg = { .type = CTL_STATUS };
	char *at, key[64];
	int value;

	assert_int_equal(call(c, &msg), 0);
	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(c->text, key);
	assert_non_null(at);
	value = atoi(at + strlen(key));
	leave(c);
	return value;
}

void wait_for(const char *name, int value)
{
	time_t deadline = time(NULL) + PATIENCE_MS / 1000;

	while (status_number(name) != value)
		assert_true(time(NULL) < deadline);
}

void still_well(struct peer *p)
{
	struct control_msg msg = { .type = CTL_UNPORT };

	assert_int_equal(call(p, &msg), ENOENT);
	assert_int_equal(msg.seq, 77);
}

int start_daemon(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/weft-control.XXXXXX");
	assert_non_null(mkdtemp(dir));
	setenv("WEFT_DIR", dir, 1);
	setenv("WEFT_IDLE_S", "600", 1);
	assert_int_equal(exit_status(spawn(WEFTD, NULL)), 0);
	return 0;
}

int stop_daemon(void **state)
{
	struct peer *c = join(CONTROL_COMMAND);
	struct control_msg msg = { .type = CTL_DOWN, .a = 1 };

	(void)state;
	assert_int_equal(call(c, &msg), 0);
	expect_end(c);
	leave(c);
	/* the directory was there before weftd, so it stays; the lock goes last */
	while (rmdir(dir) && errno == ENOTEMPTY)
		;
	assert_int_equal(access(dir, F_OK), -1);
	return 0;
}

int bind_port(struct peer *p, uint64_t service, bool reuse, uint8_t address)
{
	struct control_msg msg = { .type = CTL_PORT, .service = service, .a = reuse };

	if (address) {
		msg.gid[10] = msg.gid[11] = 0xff;
		msg.gid[15] = address;
	}
	return call(p, &msg);
}
