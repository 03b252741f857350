/* The only place where the control protocol's bytes are seen. */
#include "control/message.h"

#include "control/fds.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union fd_space {
	char bytes[CMSG_SPACE(CONTROL_FDS * sizeof(int))];
	struct cmsghdr align;
};

bool message_peer_ended(int err)
{
	return err == -ENOTCONN || err == -EPIPE || err == -ECONNRESET;
}

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

int message_send_all(int socket, const struct message_short *m, unsigned count, int flags)
{
	struct mmsghdr all[MESSAGES_AT_ONCE] = { 0 };
	struct iovec iov[MESSAGES_AT_ONCE];
	int sent;

	for (unsigned i = 0; i < count; i++) {
		iov[i] = (struct iovec){ (void *)(uintptr_t)&m[i], sizeof(m->msg) + m[i].msg.text_bytes };
		all[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	while ((sent = sendmmsg(socket, all, count, flags | MSG_NOSIGNAL)) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return sent;
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

/* unix(7) says MSG_CTRUNC where there is no room for descriptors; those of a message that is only looked at stay with it. */
int message_peek(int socket, struct control_msg *msg, bool *has_fds)
{
	struct iovec iov = { msg, sizeof(*msg) };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t bytes;

	while ((bytes = recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT)) < 0) {
		if (errno != EINTR)
			return errno == EAGAIN ? -EAGAIN : -ENOTCONN;
	}
	*has_fds = header.msg_flags & MSG_CTRUNC;
	if ((size_t)bytes < sizeof(*msg))
		memset(msg, 0, sizeof(*msg));
	return bytes == 0 && !*has_fds ? -ENOTCONN : 0;
}

/* Is it a whole one of these, without descriptors? */
static bool is_short(const struct mmsghdr *h, const struct message_short *m)
{
	return !(h->msg_hdr.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) && h->msg_len >= sizeof(m->msg) &&
	       m->msg.text_bytes <= sizeof(m->text) && h->msg_len == sizeof(m->msg) + m->msg.text_bytes;
}

/* Looks at messages one behind the other (SO_PEEK_OFF), and then takes those that it has seen to be such. With an offset the
 * kernel does not show a message of no bytes twice: what is taken would be another than what was seen. */
unsigned message_receive_all(int socket, struct message_short *m, unsigned most, bool *has_other)
{
	struct mmsghdr all[MESSAGES_AT_ONCE] = { 0 };
	struct iovec iov[MESSAGES_AT_ONCE];
	int first = 0, none = -1, seen, taken = 0, count = 0;

	*has_other = true;
	for (unsigned i = 0; i < most; i++) {
		iov[i] = (struct iovec){ &m[i], sizeof(m[i]) };
		all[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	if (setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &first, sizeof(first)))
		return 0;
	seen = recvmmsg(socket, all, most, MSG_PEEK | MSG_DONTWAIT, NULL);
	while (count < seen && is_short(&all[count], &m[count]))
		count++;
	setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof(none));
	*has_other = !count || count < seen;
	for (int i = 0; i < count; i++)
		all[i].msg_hdr = (struct msghdr){ 0 };
	while (taken < count) {
		int n = recvmmsg(socket, all, (unsigned)(count - taken), MSG_DONTWAIT, NULL);

		if (n < 0 && errno != EINTR)
			break;
		taken += n > 0 ? n : 0;
	}
	return (unsigned)count;
}

int message_receive(int socket, struct control_msg *msg, char *text, size_t room, int fds[CONTROL_FDS], int *nfds, int flags)
{
	struct iovec iov[2] = { { msg, sizeof(*msg) }, { text, room } };
	union fd_space space;
	struct msghdr header = { .msg_iov = iov, .msg_iovlen = text ? 2 : 1, .msg_control = fds ? space.bytes : NULL,
				 .msg_controllen = fds ? sizeof(space.bytes) : 0 };
	ssize_t bytes;
	bool no_room;
	int n;

	/* The kernel tells once that the other side left without reading all of ours; what that side said comes next. */
	while ((bytes = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC)) < 0) {
		if (errno != EINTR && errno != ECONNRESET)
			return errno == EAGAIN ? -EAGAIN : -ENOTCONN;
	}
	n = fds ? take_fds(&header, fds) : 0;
	if (bytes == 0)
		return -ENOTCONN;
	/* as many descriptors as fit here: there were more; fewer: we had no room for them, which is not the sender's fault */
	no_room = header.msg_flags & MSG_CTRUNC && n < CONTROL_FDS;
	if (header.msg_flags & MSG_TRUNC || (header.msg_flags & MSG_CTRUNC && !no_room) || (size_t)bytes < sizeof(*msg) ||
	    msg->text_bytes > CONTROL_TEXT || (size_t)bytes != sizeof(*msg) + msg->text_bytes) {
		fds_close(fds, n);
		return -EPROTO;
	}
	if (no_room)
		fds_close(fds, n);
	if (fds)
		*nfds = no_room ? 0 : n;
	return no_room ? -EMFILE : 0;
}
