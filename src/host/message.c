/* The only place where the control protocol's bytes are seen. */
#include "host/message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union fd_space {
	char bytes[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
	struct cmsghdr align;
};

int message_send(int socket, const struct control_msg *msg, const char *text, const int *fds, int nfds, int flags)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)msg, sizeof(*msg) }, { (void *)(uintptr_t)text, msg->text_bytes } };
	struct msghdr header = { .msg_iov = iov, .msg_iovlen = msg->text_bytes ? 2 : 1 };
	union fd_space space;

	if (nfds > 0) {
		memset(&space, 0, sizeof(space));
		header.msg_control = space.bytes;
		header.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
	}
	while (sendmsg(socket, &header, flags | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int message_greet(int socket, const struct control_msg *msg, const int *fds, int nfds)
{
	int err = message_send(socket, msg, NULL, fds, nfds, 0);

	return err == -EPIPE ? 0 : err;
}

static int take_fds(struct msghdr *header, int fds[CONTROL_FDS])
{
	int n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (n < CONTROL_FDS)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
	return n;
}

static void close_all(const int *fds, int *n)
{
	while (*n > 0)
		close(fds[--*n]);
}

int message_receive(int socket, struct control_msg *msg, char *text, size_t room, int fds[CONTROL_FDS], int *nfds, int flags)
{
	struct iovec iov[2] = { { msg, sizeof(*msg) }, { text, room } };
	union fd_space space;
	struct msghdr header = { .msg_iov = iov, .msg_iovlen = text ? 2 : 1, .msg_control = space.bytes,
				 .msg_controllen = sizeof(space.bytes) };
	ssize_t bytes;
	bool no_room;
	int n;

	while ((bytes = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC)) < 0) {
		if (errno != EINTR)
			return errno == EAGAIN ? -EAGAIN : -ENOTCONN;
	}
	n = take_fds(&header, fds);
	if (bytes == 0)
		return -ENOTCONN;
	/* as many descriptors as fit here: there were more; fewer: we had no room for them, which is not the sender's fault */
	no_room = header.msg_flags & MSG_CTRUNC && n < CONTROL_FDS;
	if (header.msg_flags & MSG_TRUNC || (header.msg_flags & MSG_CTRUNC && !no_room) || (size_t)bytes < sizeof(*msg) ||
	    msg->text_bytes > CONTROL_TEXT || (size_t)bytes != sizeof(*msg) + msg->text_bytes) {
		close_all(fds, &n);
		return -EPROTO;
	}
	if (no_room)
		close_all(fds, &n);
	*nfds = n;
	return no_room ? -EMFILE : 0;
}
