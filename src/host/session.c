/* One lock, `reading`, is both the right to read the socket and the guard of the lists. A thread that waits for its
 * answer holds it and sorts whatever comes: answers to their waiters, the rest into the box. */
#include "host/session.h"

#include "base/log.h"
#include "host/host.h"
#include "host/limits.h"
#include "host/message.h"
#include "host/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Our choices: weftd answers in microseconds, and is started in some tens of milliseconds; a stopped one must not hang us
 * for ever. After it was killed not all processes look for it at once, and later not too often. */
enum { ANSWER_MS = 10000, SPREAD_MS = 97 };

static const wtime OUTAGE = 5 * WTIME_S, LOOK_EVERY = 5 * WTIME_MS, PAUSE_MOST = WTIME_S;

struct waiter {
	struct list_node node;
	uint32_t seq;
	bool answered;
	struct control_msg *msg;
	int fd[CONTROL_FDS];
	int fds;
};

/* ---- coming, and coming back ---- */

static int connect_to(const char *dir)
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

static int await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, ANSWER_MS);
	while (n < 0 && errno == EINTR);
	return n == 0 ? -ETIMEDOUT : 0;
}

/* The socket or -errno. weftd sends nothing before its answer. */
static int say_hello(const struct session *s, struct control_msg *msg, int *page_fd)
{
	int fds[CONTROL_FDS], nfds = 0, fd = connect_to(s->dir), err;

	if (fd < 0)
		return fd;
	err = message_greet(fd, msg, s->own_fds, s->own_fd_count);
	if (!err)
		err = await(fd);
	if (!err)
		err = message_receive(fd, msg, NULL, 0, fds, &nfds, 0);
	if (!err)
		err = -msg->status;
	if (!err && (nfds < 1 || msg->slot == 0 || msg->slot >= PAGE_SLOTS))
		err = -EPROTO;
	while (nfds > 1)
		close(fds[--nfds]);
	if (!err) {
		*page_fd = fds[0];
		return fd;
	}
	if (nfds)
		close(fds[0]);
	close(fd);
	return err == -EPIPE || err == -ECONNRESET ? -ENOTCONN : err;
}

/* After these another attempt may succeed. */
static bool is_outage(int err)
{
	return err == -ENOTCONN || err == -ECONNREFUSED || err == -ENODEV || err == -ETIMEDOUT;
}

static void sleep_for(wtime ns)
{
	nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / WTIME_S), .tv_nsec = (long)(ns % WTIME_S) }, NULL);
}

/* As say_hello, for the first time: who was killed in the middle, or before we came, is started again. */
static int say_hello_patiently(const struct session *s, struct control_msg *msg, int *page_fd)
{
	const struct control_msg question = *msg;
	wtime give_up = host_now() + OUTAGE;
	int fd = say_hello(s, msg, page_fd);

	while ((fd == -ENOTCONN || fd == -ECONNREFUSED) && host_now() < give_up) {
		if (fd == -ECONNREFUSED && starter_start(s->dir))
			break;
		sleep_for(LOOK_EVERY);
		*msg = question;
		fd = say_hello(s, msg, page_fd);
	}
	return fd == -ECONNREFUSED || fd == -ENOTCONN ? -ENODEV : fd;
}

int session_open(struct session *s, const char *dir, const int *fds, int nfds, int *page_fd)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 1, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };

	memset(s, 0, sizeof(*s));
	snprintf(s->dir, sizeof(s->dir), "%s", dir);
	memcpy(s->own_fds, fds, (size_t)nfds * sizeof(fds[0]));
	s->own_fd_count = nfds;
	s->socket = say_hello_patiently(s, &msg, page_fd);
	if (s->socket < 0)
		return s->socket;
	s->slot = msg.slot;
	s->number = msg.c;
	memcpy(s->secret, msg.gid, sizeof(s->secret));
	pthread_mutex_init(&s->reading, NULL);
	list_init(&s->waiters);
	list_init(&s->inbox);
	list_init(&s->channel_box);
	journal_init(&s->journal);
	return 0;
}

static int tell_files(const struct session *s)
{
	int err = 0;

	for (uint32_t i = 0; i < s->files && !err; i++) {
		struct control_msg msg = { .type = CTL_MEMORY, .b = i + 1 };

		err = message_send(s->socket, &msg, NULL, &s->file[i], 1, 0);
	}
	return err;
}

static int tell(void *arg, const struct control_msg *msg)
{
	const struct session *s = arg;

	return message_send(s->socket, msg, NULL, NULL, 0, 0);
}

static int come_back(struct session *s)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 1, .a = CONTROL_RETURN, .b = CONTROL_VERSION, .slot = s->slot };
	int page_fd, fd;

	memcpy(msg.gid, s->secret, sizeof(msg.gid));
	fd = say_hello(s, &msg, &page_fd);
	if (fd < 0)
		return fd;
	/* it is the page that we have mapped: a weftd that has lost it does not know us either */
	close(page_fd);
	/* under its old number, which other threads poll */
	dup3(fd, s->socket, O_CLOEXEC);
	close(fd);
	return tell_files(s) || journal_replay(&s->journal, tell, s) ? -ENOTCONN : 0;
}

static void try_to_return(struct session *s)
{
	int err = come_back(s);

	if (err == -ECONNREFUSED && starter_start(s->dir) == 0)
		err = come_back(s);
	if (!err) {
		log_line(LOG_INFO, "attached to weftd again");
		s->pause = 0;
		atomic_store(&s->state, SESSION_ATTACHED);
	} else if (is_outage(err)) {
		s->pause = s->pause ? wtime_min(2 * s->pause, PAUSE_MOST) : LOOK_EVERY;
		s->next_try = host_now() + s->pause;
	} else {
		log_line(LOG_ERROR,
			 "weftd does not take this process back: %s; connections go on, new ones need a restart of the program",
			 strerror(-err));
		atomic_store(&s->state, SESSION_OVER);
	}
}

wtime session_return(struct session *s)
{
	wtime next = WTIME_NEVER;

	if (atomic_load(&s->state) != SESSION_AWAY)
		return next;
	pthread_mutex_lock(&s->reading);
	if (atomic_load(&s->state) == SESSION_AWAY && host_now() >= s->next_try)
		try_to_return(s);
	if (atomic_load(&s->state) == SESSION_AWAY)
		next = s->next_try;
	pthread_mutex_unlock(&s->reading);
	return next;
}

static bool await_return(struct session *s, wtime give_up)
{
	while (session_return(s) != WTIME_NEVER && host_now() < give_up)
		sleep_for(LOOK_EVERY);
	return atomic_load(&s->state) == SESSION_ATTACHED;
}

/* Holds `reading`. */
static void lose(struct session *s, int err)
{
	if (atomic_load(&s->state) != SESSION_ATTACHED)
		return;
	if (err == -EPROTO) {
		log_line(LOG_ERROR, "weftd does not speak its protocol: connections go on, new ones fail");
		atomic_store(&s->state, SESSION_OVER);
		return;
	}
	log_line(LOG_INFO, "weftd is gone: connections go on, new ones wait for the next");
	s->next_try = host_now() + (wtime)(getpid() % SPREAD_MS) * WTIME_MS;
	atomic_store(&s->state, SESSION_AWAY);
}

static void close_all(struct session *s)
{
	close(s->socket);
	while (s->files)
		close(s->file[--s->files]);
}

void session_close(struct session *s)
{
	struct list_node *n;

	list_splice(&s->inbox, &s->channel_box);
	while ((n = list_pop(&s->inbox)))
		mail_free(container_of(n, struct mail, node));
	journal_fini(&s->journal);
	close_all(s);
	pthread_mutex_destroy(&s->reading);
}

void session_forget(struct session *s)
{
	atomic_store(&s->state, SESSION_OVER);
	pthread_mutex_init(&s->reading, NULL);
	close_all(s);
}

/* ---- messages ---- */

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

/* weftd's answer to what was told it again. */
static bool is_refusal(const struct control_msg *msg)
{
	return msg->seq == 0 && msg->status && (msg->type == CTL_PORT || msg->type == CTL_LISTEN || msg->type == CTL_MCAST);
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
	if (err == -EMFILE) {
		log_line(LOG_ERROR, "descriptors from weftd are lost: %s%s", strerror(EMFILE), limits_advice(EMFILE));
		msg.status = EMFILE;
	} else if (err) {
		if (err != -EAGAIN)
			lose(s, err);
		return err;
	}
	if (msg.status == 0 && journal_granted(&s->journal, &msg))
		log_line(LOG_ERROR, "no memory to note what weftd granted: a restart of weftd will lose it");
	w = find_waiter(s, &msg);
	if (w) {
		*w->msg = msg;
		memcpy(w->fd, fd, sizeof(fd));
		w->fds = fds;
		w->answered = true;
		list_remove(&w->node);
		return 0;
	}
	if (is_refusal(&msg))
		log_line(LOG_ERROR, "weftd did not take back %s of this process: %s",
			 msg.type == CTL_MCAST ? "a multicast group" : "a port", strerror(msg.status));
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
	int err = 0;

	while (!w->answered && err == 0) {
		err = read_one(s);
		if (err == -EAGAIN)
			err = await(s->socket);
	}
	if (atomic_load(&s->has_mail) || err)
		eventfd_write(s->own_fds[0], 1);
	return w->answered ? 0 : err;
}

/* weftd is gone; what it said before counts. */
static void read_rest(struct session *s)
{
	while (read_one(s) == 0)
		;
	lose(s, -ENOTCONN);
}

/* For the next weftd; the program may close its own descriptor. One that cannot be kept is not used, nor any later one: the next
 * weftd would give its number to another file. */
static int keep_file(struct session *s, uint32_t number, int fd)
{
	if (number != s->files + 1 || number > CONTROL_FILES)
		return -EPROTO;
	s->file[s->files] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (s->file[s->files] < 0)
		return -errno;
	s->files++;
	return 0;
}

int session_try(struct session *s, struct control_msg *msg, const int *send_fds, int nsend, int fds[CONTROL_FDS], int *nfds)
{
	struct waiter w = { .msg = msg };
	int err;

	if (atomic_load(&s->state) != SESSION_ATTACHED)
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
	else if (err != -EAGAIN)
		read_rest(s);
	list_remove(&w.node);
	if (err == 0 && msg->type == CTL_MEMORY && msg->status == 0)
		err = keep_file(s, msg->b, send_fds[0]);
	pthread_mutex_unlock(&s->reading);
	if (err == -EAGAIN)	/* the time to send is over */
		return -ETIMEDOUT;
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

/* What is given back while weftd is away is given back by not telling the next one of it. */
static bool give_back(struct session *s, const struct control_msg *msg)
{
	bool is_away;

	if (msg->type != CTL_UNPORT && msg->type != CTL_UNLISTEN && msg->type != CTL_MCAST)
		return false;
	pthread_mutex_lock(&s->reading);
	is_away = journal_returned(&s->journal, msg) && atomic_load(&s->state) == SESSION_AWAY;
	pthread_mutex_unlock(&s->reading);
	return is_away;
}

int session_call(struct session *s, struct control_msg *msg, const int *send_fds, int nsend, int fds[CONTROL_FDS], int *nfds)
{
	const struct control_msg question = *msg;
	wtime give_up;
	int err;

	if (atomic_load(&s->state) == SESSION_OVER)
		return -ENOTCONN;
	if (give_back(s, msg))
		return 0;
	give_up = host_now() + OUTAGE;
	while ((err = session_try(s, msg, send_fds, nsend, fds, nfds)) == -ENOTCONN && await_return(s, give_up))
		*msg = question;
	if (err == -ENOTCONN)
		log_line(LOG_ERROR, "no weftd in %s for %d s: a request fails; next: weft up", s->dir, (int)(OUTAGE / WTIME_S));
	return err;
}

int session_post(struct session *s, const struct control_msg *msg, const char *text)
{
	if (atomic_load(&s->state) == SESSION_OVER)
		return -ENOTCONN;
	if (give_back(s, msg))
		return 0;
	if (atomic_load(&s->state) == SESSION_AWAY)
		return -ENOTCONN;
	return message_send(s->socket, msg, text, NULL, 0, 0);
}

void session_read(struct session *s)
{
	pthread_mutex_lock(&s->reading);
	atomic_store(&s->has_mail, false);
	while (atomic_load(&s->state) == SESSION_ATTACHED && read_one(s) == 0)
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
