/* One lock, `reading`, is both the right to read the socket and the guard of the lists. A thread that waits for its
 * answer holds it and sorts whatever comes: answers to their waiters, the rest into the box. */
#include "host/session.h"

#include "base/log.h"
#include "host/message.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MS = 10000 };	/* our choice: weftd answers in microseconds; a stopped one must not hang us for ever */

struct waiter {
	struct list_node node;
	uint32_t seq;
	bool answered;
	struct control_msg *msg;
	int fd[CONTROL_FDS];
	int fds;
};

int session_open(struct session *s, const char *dir, int wake_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*s = (struct session){ .socket = -1, .wake_fd = wake_fd };
	if (!*dir || snprintf(address.sun_path, sizeof(address.sun_path), "%s/ctl", dir) >= (int)sizeof(address.sun_path))
		return -ENODEV;
	s->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s->socket < 0)
		return -errno;
	if (connect(s->socket, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(s->socket);
		s->socket = -1;
		return -ENODEV;
	}
	pthread_mutex_init(&s->reading, NULL);
	list_init(&s->waiters);
	list_init(&s->inbox);
	list_init(&s->channel_box);
	return 0;
}

void session_close(struct session *s)
{
	struct list_node *n;

	list_splice(&s->inbox, &s->channel_box);
	while ((n = list_pop(&s->inbox)))
		mail_free(container_of(n, struct mail, node));
	close(s->socket);
	pthread_mutex_destroy(&s->reading);
}

void mail_free(struct mail *mail)
{
	while (mail->fds > 0)
		close(mail->fd[--mail->fds]);
	free(mail);
}

static struct waiter *find_waiter(struct session *s, const struct control_msg *msg)
{
	if (msg->seq == 0)
		return NULL;
	list_for_each(w, &s->waiters, struct waiter, node) {
		if (w->seq == msg->seq && w->msg->type == msg->type)
			return w;
	}
	return NULL;
}

/* Reads one message and puts it where it belongs. -EAGAIN: nothing there; another -errno: the session is dead. */
static int read_one(struct session *s)
{
	struct control_msg msg;
	char text[sizeof(((struct mail *)0)->text) - 1];
	int fd[CONTROL_FDS], fds, err;
	struct waiter *w;
	struct mail *mail;

	err = message_receive(s->socket, &msg, text, sizeof(text), fd, &fds, MSG_DONTWAIT);
	if (err) {
		if (err != -EAGAIN && !atomic_exchange(&s->dead, true))
			log_line(LOG_INFO, "weftd is gone: connections go on, new ones fail");
		return err;
	}
	w = find_waiter(s, &msg);
	if (w) {
		*w->msg = msg;
		memcpy(w->fd, fd, sizeof(fd));
		w->fds = fds;
		w->answered = true;
		list_remove(&w->node);
		return 0;
	}
	mail = calloc(1, sizeof(*mail));
	if (!mail) {
		while (fds > 0)
			close(fd[--fds]);
		return 0;
	}
	mail->msg = msg;
	memcpy(mail->text, text, msg.text_bytes);
	memcpy(mail->fd, fd, sizeof(fd));
	mail->fds = fds;
	list_append(msg.type == CTL_CHANNEL || msg.type == CTL_PEER_GONE ? &s->channel_box : &s->inbox, &mail->node);
	atomic_store(&s->has_mail, true);
	return 0;
}

/* Holds `reading`. Reads until this waiter has its answer. */
static int read_until(struct session *s, const struct waiter *w)
{
	struct pollfd p = { .fd = s->socket, .events = POLLIN };
	int err = 0;

	while (!w->answered && err == 0) {
		err = read_one(s);
		if (err != -EAGAIN)
			continue;
		do
			err = poll(&p, 1, ANSWER_MS);
		while (err < 0 && errno == EINTR);
		err = err == 0 ? -ETIMEDOUT : 0;
	}
	if (atomic_load(&s->has_mail))
		eventfd_write(s->wake_fd, 1);
	return w->answered ? 0 : err;
}

int session_call(struct session *s, struct control_msg *msg, const int *send_fds, int nsend, int fds[CONTROL_FDS], int *nfds)
{
	struct waiter w = { .msg = msg };
	int err;

	if (atomic_load(&s->dead))
		return -ENOTCONN;
	do
		w.seq = atomic_fetch_add(&s->seq, 1) + 1;
	while (w.seq == 0);
	msg->seq = w.seq;
	pthread_mutex_lock(&s->reading);
	list_append(&s->waiters, &w.node);
	err = message_send(s->socket, msg, NULL, send_fds, nsend, 0);
	if (err == 0)
		err = read_until(s, &w);
	list_remove(&w.node);
	pthread_mutex_unlock(&s->reading);
	if (err)
		return err == -EPIPE || err == -ECONNRESET ? -ENOTCONN : err;
	if (fds && msg->status == 0) {
		memcpy(fds, w.fd, sizeof(w.fd));
		*nfds = w.fds;
	} else {
		while (w.fds > 0)
			close(w.fd[--w.fds]);
	}
	return -msg->status;
}

int session_post(struct session *s, const struct control_msg *msg, const char *text)
{
	if (atomic_load(&s->dead))
		return -ENOTCONN;
	return message_send(s->socket, msg, text, NULL, 0, 0);
}

void session_read(struct session *s)
{
	pthread_mutex_lock(&s->reading);
	atomic_store(&s->has_mail, false);
	while (!atomic_load(&s->dead) && read_one(s) == 0)
		;
	pthread_mutex_unlock(&s->reading);
}

static struct mail *take(struct session *s, struct list *box)
{
	struct list_node *n;

	pthread_mutex_lock(&s->reading);
	n = list_pop(box);
	pthread_mutex_unlock(&s->reading);
	return n ? container_of(n, struct mail, node) : NULL;
}

struct mail *session_take_channel(struct session *s)
{
	return take(s, &s->channel_box);
}

struct mail *session_take(struct session *s)
{
	return take(s, &s->inbox);
}

void session_pass_on(struct session *s, struct mail *mail)
{
	pthread_mutex_lock(&s->reading);
	list_append(&s->inbox, &mail->node);
	pthread_mutex_unlock(&s->reading);
}
