#include "control/connect.h"

#include "control/fds.h"
#include "control/message.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Our choice: a stopped weftd must not hang us for ever. */
enum { ANSWER_MS = 10000 };

int connect_to_weftd(const char *dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = ANSWER_MS / 1000 };
	int fd, err;

	if (!*dir || snprintf(address.sun_path, sizeof(address.sun_path), "%s/ctl", dir) >= (int)sizeof(address.sun_path))
		return -ENODEV;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* unix(7): of connect too, where a stopped weftd does not accept */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	err = errno == ECONNREFUSED ? -ECONNREFUSED : errno == EAGAIN ? -ETIMEDOUT : -ENODEV;
	close(fd);
	return err;
}

int connect_await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, ANSWER_MS);
	while (n < 0 && errno == EINTR);
	return n == 0 ? -ETIMEDOUT : 0;
}

int connect_ask(int fd, struct control_msg *msg, const void *text)
{
	int fds[CONTROL_FDS], nfds = 0, err;
	const uint32_t type = msg->type;

	msg->seq = 1;
	err = message_send(fd, msg, text, NULL, 0, 0);
	/* of a weftd that has refused us and left, the answer waits */
	if (!err || err == -EPIPE)
		err = connect_await(fd);
	if (!err)
		err = message_receive(fd, msg, NULL, 0, fds, &nfds, 0);
	fds_close(fds, nfds);
	if (!err && (msg->type != type || msg->seq != 1))
		err = -EPROTO;
	return err ? err : -msg->status;
}

int connect_as(const char *dir, enum control_kind kind)
{
	struct control_msg hello = { .type = CTL_HELLO, .a = kind, .b = CONTROL_VERSION };
	int fd = connect_to_weftd(dir), err;

	if (fd < 0)
		return fd;
	err = connect_ask(fd, &hello, NULL);
	if (!err)
		return fd;
	close(fd);
	return err;
}
