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

static struct peer *here;

struct peer *connect_peer(void)
{
	struct peer *p = calloc(1, sizeof(*p));

	p->socket = connect_raw();
	p->wake_fd = -1;
	p->next = here;
	here = p;
	return p;
}

struct peer *join(uint32_t kind)
{
	struct peer *p = connect_peer();

	if (kind == CONTROL_PROCESS)
		p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(hello(p, kind, CONTROL_VERSION, p->wake_fd), 0);
	assert_int_equal(p->nfds, kind == CONTROL_PROCESS ? 2 : 1);	/* of a process: what ports carry */
	p->page = mmap(NULL, sizeof(*p->page), PROT_READ, MAP_SHARED, p->fds[0], 0);
	assert_ptr_not_equal(p->page, MAP_FAILED);
	drop_fds(p);
	return p;
}

void leave(struct peer *p)
{
	struct peer **at = &here;

	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	if (p->page)
		munmap((void *)(uintptr_t)p->page, sizeof(*p->page));
	if (p->wake_fd >= 0)
		close(p->wake_fd);
	close(p->socket);
	free(p);
}

int leave_all(void **state)
{
	(void)state;
	while (here)
		leave(here);
	return 0;
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

static int call_at(struct peer *p, struct control_msg msg, uint8_t address)
{
	if (address) {
		msg.gid[10] = msg.gid[11] = 0xff;
		msg.gid[15] = address;
	}
	return call(p, &msg);
}

int bind_port(struct peer *p, uint64_t service, bool reuse, uint8_t address)
{
	return call_at(p, (struct control_msg){ .type = CTL_PORT, .service = service, .a = reuse }, address);
}

int listen_at(struct peer *p, uint64_t service, uint32_t device, uint8_t address)
{
	return call_at(p, (struct control_msg){ .type = CTL_LISTEN, .service = service, .a = device }, address);
}

int send_frame(struct peer *p, const void *frame, size_t bytes)
{
	struct control_msg msg = { .type = CTL_FRAME, .seq = 78, .text_bytes = (uint32_t)bytes };

	assert_int_equal(message_send(p->socket, &msg, frame, NULL, 0, 0), 0);
	return next(p, &msg);
}

struct gmp gmp_of(const struct peer *p, const struct cm_msg *msg)
{
	const struct page_device *dev = &p->page->device[0];
	struct gmp gmp = { .pkey = 0xffff, .path = { .slid = dev->lid, .dlid = dev->lid, .has_grh = true } };

	memcpy(gmp.path.sgid, dev->gid[0].raw, 16);
	memcpy(gmp.path.dgid, dev->gid[0].raw, 16);
	cm_build(msg, gmp.mad);
	return gmp;
}

int send_mad(struct peer *p, const struct cm_msg *msg)
{
	struct gmp gmp = gmp_of(p, msg);
	uint8_t frame[GMP_FRAME];

	return send_frame(p, frame, gmp_build(&gmp, PACKET_IB, frame));
}

struct cm_msg req_of(const struct peer *p, uint64_t service, uint8_t address)
{
	struct cm_msg msg = { .attribute = CM_REQ, .tid = 7, .req.service_id = service };
	struct cma_header header = { .version = CMA_VERSION, .ip_version = 4 };

	msg.req.local_comm_id = p->slot << 20 | 1;
	header.destination[15] = address;
	cma_build(&header, msg.req.private_data);
	return msg;
}

void next_mad(struct peer *p, struct cm_msg *msg)
{
	struct control_msg head;
	struct gmp gmp;

	assert_int_equal(next(p, &head), 0);
	assert_int_equal(head.type, CTL_FRAME);
	assert_int_equal(head.seq, 0);
	assert_int_equal(gmp_parse(&gmp, head.device ? PACKET_ROCE : PACKET_IB, p->text, head.text_bytes), GMP_OK);
	assert_true(cm_parse(msg, gmp.mad));
}
