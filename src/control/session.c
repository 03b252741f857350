/* One lock, `reading`, is the right to read the socket. A thread that waits for its answer holds it and sorts whatever comes:
 * answers to their waiters, the rest into the boxes. Whoever has the runtime's lock never takes it, but only `books`. */
#include "control/session.h"

#include "base/log.h"
#include "control/clock.h"
#include "control/connect.h"
#include "control/limits.h"
#include "control/message.h"
#include "control/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Our choices: weftd answers in microseconds, and is started in some tens of milliseconds; a stopped one must not hang us
 * for ever. After it was killed not all processes look for it at once, and later not too often. */
enum { SPREAD_MS = 97 };

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

/* What comes with the answer. */
enum { HELLO_PAGE, HELLO_LOADS, HELLO_FDS };

/* The socket or -errno, and then given[] is the caller's. weftd sends nothing before its answer. */
static int say_hello(const struct session *s, struct control_msg *msg, int given[HELLO_FDS])
{
	int fds[CONTROL_FDS], nfds = 0, fd = connect_to_weftd(s->dir), err;

	if (fd < 0)
		return fd;
	err = message_greet(fd, msg, s->own_fds, s->own_fd_count);
	if (!err)
		err = connect_await(fd);
	if (!err)
		err = message_receive(fd, msg, NULL, 0, fds, &nfds, 0);
	if (!err)
		err = -msg->status;
	if (err == -EDQUOT)
		log_line(LOG_ERROR, "weftd does not take this process: its user's share of %s is used up (man weftd, LIMITS)",
			 limits_name(msg->c));
	if (!err && (nfds < 1 || msg->slot == 0 || msg->slot >= PAGE_SLOTS))
		err = -EPROTO;
	while (nfds > (err ? 0 : HELLO_FDS))
		close(fds[--nfds]);
	if (!err) {
		given[HELLO_PAGE] = fds[HELLO_PAGE];
		given[HELLO_LOADS] = nfds > HELLO_LOADS ? fds[HELLO_LOADS] : -1;
		return fd;
	}
	close(fd);
	return message_peer_ended(err) ? -ENOTCONN : err;
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
static int say_hello_patiently(const struct session *s, struct control_msg *msg, int given[HELLO_FDS])
{
	const struct control_msg question = *msg;
	wtime give_up = clock_now() + OUTAGE;
	int fd = say_hello(s, msg, given);

	while ((fd == -ENOTCONN || fd == -ECONNREFUSED) && clock_now() < give_up) {
		if (fd == -ECONNREFUSED && starter_start(s->dir))
			break;
		sleep_for(LOOK_EVERY);
		*msg = question;
		fd = say_hello(s, msg, given);
	}
	return fd == -ECONNREFUSED || fd == -ENOTCONN ? -ENODEV : fd;
}

int session_open(struct session *s, const char *dir, const int *fds, int nfds, int *page_fd)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 1, .a = CONTROL_PROCESS, .b = CONTROL_VERSION };
	int given[HELLO_FDS] = { -1, -1 };

	memset(s, 0, sizeof(*s));
	snprintf(s->dir, sizeof(s->dir), "%s", dir);
	memcpy(s->own_fds, fds, (size_t)nfds * sizeof(fds[0]));
	s->own_fd_count = nfds;
	s->socket = say_hello_patiently(s, &msg, given);
	if (s->socket < 0)
		return s->socket;
	*page_fd = given[HELLO_PAGE];
	s->loads_fd = given[HELLO_LOADS];
	s->slot = msg.slot;
	s->number = msg.c;
	memcpy(s->secret, msg.gid, sizeof(s->secret));
	pthread_mutex_init(&s->reading, NULL);
	pthread_mutex_init(&s->books, NULL);
	list_init(&s->waiters);
	list_init(&s->inbox);
	list_init(&s->channel_box);
	journal_init(&s->journal);
	backlog_init(&s->backlog);
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
	int given[HELLO_FDS], fd, err;

	memcpy(msg.gid, s->secret, sizeof(msg.gid));
	fd = say_hello(s, &msg, given);
	if (fd < 0)
		return fd;
	/* it is the page that we have mapped: a weftd that has lost it does not know us either */
	close(given[HELLO_PAGE]);
	/* under its old number, which other threads poll */
	dup3(fd, s->socket, O_CLOEXEC);
	close(fd);
	pthread_mutex_lock(&s->books);
	if (s->loads_fd >= 0)
		close(s->loads_fd);
	s->loads_fd = given[HELLO_LOADS];
	err = tell_files(s) || journal_replay(&s->journal, tell, s) ? -ENOTCONN : 0;
	if (!err)
		atomic_store(&s->state, SESSION_ATTACHED);
	pthread_mutex_unlock(&s->books);
	return err;
}

static void try_to_return(struct session *s)
{
	int err = come_back(s);

	if (err == -ECONNREFUSED && starter_start(s->dir) == 0)
		err = come_back(s);
	if (!err) {
		log_line(LOG_INFO, "attached to weftd again");
		s->pause = 0;
	} else if (is_outage(err)) {
		s->pause = s->pause ? wtime_min(2 * s->pause, PAUSE_MOST) : LOOK_EVERY;
		s->next_try = clock_now() + s->pause;
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
	if (pthread_mutex_trylock(&s->reading))
		return clock_now() + LOOK_EVERY;	/* another thread is at it */
	if (atomic_load(&s->state) == SESSION_AWAY && clock_now() >= s->next_try)
		try_to_return(s);
	if (atomic_load(&s->state) == SESSION_AWAY)
		next = s->next_try;
	pthread_mutex_unlock(&s->reading);
	return next;
}

static bool await_return(struct session *s, wtime give_up)
{
	while (session_return(s) != WTIME_NEVER && clock_now() < give_up)
		sleep_for(LOOK_EVERY);
	return atomic_load(&s->state) == SESSION_ATTACHED;
}

int session_take_loads(struct session *s)
{
	int fd;

	pthread_mutex_lock(&s->books);
	fd = s->loads_fd;
	s->loads_fd = -1;
	pthread_mutex_unlock(&s->books);
	return fd;
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
	pthread_mutex_lock(&s->books);
	backlog_drop(&s->backlog);	/* what the next one must know is in the journal */
	pthread_mutex_unlock(&s->books);
	atomic_fetch_add(&s->losses, 1);
	s->next_try = clock_now() + (wtime)(getpid() % SPREAD_MS) * WTIME_MS;
	atomic_store(&s->state, SESSION_AWAY);
}

static void close_all(struct session *s)
{
	close(s->socket);
	if (s->loads_fd >= 0)
		close(s->loads_fd);
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
	backlog_drop(&s->backlog);
	close_all(s);
	pthread_mutex_destroy(&s->books);
	pthread_mutex_destroy(&s->reading);
}

void session_forget(struct session *s)
{
	atomic_store(&s->state, SESSION_OVER);
	pthread_mutex_init(&s->reading, NULL);
	pthread_mutex_init(&s->books, NULL);
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

static bool is_lost_channel(const struct control_msg *msg)
{
	return msg->type == CTL_KEPT && msg->status == ENOENT;
}

static bool is_for_channels(const struct control_msg *msg)
{
	return msg->type == CTL_CHANNEL || msg->type == CTL_PEER_GONE || msg->type == CTL_MAP ||
	       is_lost_channel(msg);
}

static void put_into_box(struct session *s, struct mail *mail)
{
	pthread_mutex_lock(&s->books);
	list_append(is_for_channels(&mail->msg) ? &s->channel_box : &s->inbox, &mail->node);
	pthread_mutex_unlock(&s->books);
	atomic_store(&s->has_mail, true);
}

static void note_granted(struct session *s, const struct control_msg *msg)
{
	int err;

	if (msg->status)
		return;
	pthread_mutex_lock(&s->books);
	err = journal_granted(&s->journal, msg);
	pthread_mutex_unlock(&s->books);
	if (err)
		log_line(LOG_ERROR, "no memory to note what weftd granted: a restart of weftd will lose it");
}

static void note_lost_channel(struct session *s, const struct control_msg *msg)
{
	pthread_mutex_lock(&s->books);
	journal_lost(&s->journal, msg);
	pthread_mutex_unlock(&s->books);
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
	note_granted(s, &msg);
	if (is_lost_channel(&msg))
		note_lost_channel(s, &msg);
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
	put_into_box(s, mail);
	return 0;
}

/* Holds `reading`. Reads until this waiter has its answer. */
static int read_until(struct session *s, const struct waiter *w)
{
	int err = 0;

	while (!w->answered && err == 0) {
		err = read_one(s);
		/* whose mail it is does not wait until ours comes */
		if (atomic_load(&s->has_mail))
			eventfd_write(s->own_fds[0], 1);
		if (err == -EAGAIN)
			err = connect_await(s->socket);
	}
	if (err)
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

static uint32_t next_seq(struct session *s)
{
	uint32_t seq;

	do
		seq = atomic_fetch_add(&s->seq, 1) + 1;
	while (seq == 0);
	return seq;
}

static int send_at_once(struct session *s, struct control_msg *msg, const int *fds, int nfds)
{
	int err;

	msg->seq = next_seq(s);
	err = message_send(s->socket, msg, NULL, fds, nfds, MSG_DONTWAIT);
	return err && err != -EAGAIN ? -ENOTCONN : err;	/* the reader sees what became of weftd */
}

int session_ask(struct session *s, struct control_msg *msg)
{
	return atomic_load(&s->state) == SESSION_ATTACHED ? send_at_once(s, msg, NULL, 0) : -ENOTCONN;
}

/* The numbers are ours to choose, one after the other. The next weftd is told too; the program may close its own descriptor. */
static int keep_and_tell(struct session *s, int fd)
{
	struct control_msg msg = { .type = CTL_MEMORY, .b = s->files + 1 };
	int kept, err = 0;

	if (s->files == CONTROL_FILES)
		return -EDQUOT;
	kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (kept < 0)
		return -errno;
	if (atomic_load(&s->state) == SESSION_ATTACHED)
		err = send_at_once(s, &msg, &kept, 1);
	if (err == -EAGAIN) {
		close(kept);
		return err;
	}
	s->file[s->files++] = kept;
	return 0;
}

int session_give_file(struct session *s, int fd, uint32_t *number)
{
	int err;

	pthread_mutex_lock(&s->books);
	err = keep_and_tell(s, fd);
	if (!err)
		*number = s->files;
	pthread_mutex_unlock(&s->books);
	return err;
}

/* After what was posted before, which may be about the same. */
static int send_in_turn(struct session *s, const struct control_msg *msg, const int *fds, int nfds)
{
	struct late *late;
	bool was_late;
	int err;

	do {
		pthread_mutex_lock(&s->books);
		late = backlog_take(&s->backlog);
		pthread_mutex_unlock(&s->books);
		was_late = late;
		err = late ? message_send(s->socket, &late->msg, late->text, NULL, 0, 0) : 0;
		free(late);
	} while (was_late && !err);
	return err ? err : message_send(s->socket, msg, NULL, fds, nfds, 0);
}

bool session_needs_reader(struct session *s)
{
	if (!atomic_load(&s->is_read))
		return true;
	atomic_store(&s->is_left, true);
	return !atomic_load(&s->is_read);	/* who has ended meanwhile may not have seen that */
}

static void begin_to_read(struct session *s)
{
	pthread_mutex_lock(&s->reading);
	atomic_store(&s->is_read, true);
}

static void end_reading(struct session *s)
{
	atomic_store(&s->is_read, false);
	pthread_mutex_unlock(&s->reading);
	if (atomic_exchange(&s->is_left, false))
		eventfd_write(s->own_fds[0], 1);
}

int session_try(struct session *s, struct control_msg *msg, const int *send_fds, int nsend, int fds[CONTROL_FDS], int *nfds)
{
	struct waiter w = { .msg = msg };
	int err;

	if (atomic_load(&s->state) != SESSION_ATTACHED)
		return -ENOTCONN;
	w.seq = msg->seq = next_seq(s);
	begin_to_read(s);
	list_append(&s->waiters, &w.node);
	err = send_in_turn(s, msg, send_fds, nsend);
	if (err == 0)
		err = read_until(s, &w);
	else if (err != -EAGAIN)
		read_rest(s);
	list_remove(&w.node);
	end_reading(s);
	if (err == -EAGAIN)	/* the time to send is over */
		return -ETIMEDOUT;
	if (err)
		return message_peer_ended(err) ? -ENOTCONN : err;
	if (msg->status == EDQUOT)
		log_line(LOG_ERROR, "weftd gives this process no more: its share of %s is used up (man weftd, LIMITS)",
			 limits_name(msg->c));
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

	if (msg->type != CTL_UNPORT && msg->type != CTL_UNLISTEN && msg->type != CTL_MCAST && msg->type != CTL_UNCONN)
		return false;
	pthread_mutex_lock(&s->books);
	is_away = journal_returned(&s->journal, msg) && atomic_load(&s->state) == SESSION_AWAY;
	pthread_mutex_unlock(&s->books);
	return is_away;
}

/* What is told while weftd is away, the next one is told when it comes. */
static bool note_taken(struct session *s, const struct control_msg *msg)
{
	bool is_away;
	int err;

	if (msg->type != CTL_CONN)
		return false;
	pthread_mutex_lock(&s->books);
	err = journal_taken(&s->journal, msg);
	is_away = !err && atomic_load(&s->state) == SESSION_AWAY;
	pthread_mutex_unlock(&s->books);
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
	give_up = clock_now() + OUTAGE;
	while ((err = session_try(s, msg, send_fds, nsend, fds, nfds)) == -ENOTCONN && await_return(s, give_up))
		*msg = question;
	if (err == -ENOTCONN)
		log_line(LOG_ERROR, "no weftd in %s for %d s: a request fails; next: weft up", s->dir, (int)(OUTAGE / WTIME_S));
	return err;
}

static bool may_be_lost(const struct control_msg *msg)
{
	return msg->type == CTL_MCAST || msg->type == CTL_BAD_KEY;
}

/* In turn; the helper thread sends what is kept as soon as there is room. */
static int post_in_turn(struct session *s, const struct control_msg *msg, const char *text)
{
	int err;

	pthread_mutex_lock(&s->books);
	err = backlog_send(&s->backlog, s->socket, msg, text, msg->type == CTL_FRAME);
	pthread_mutex_unlock(&s->books);
	if (err != -EAGAIN)
		return err;
	eventfd_write(s->own_fds[0], 1);
	return 0;
}

int session_post(struct session *s, const struct control_msg *msg, const char *text)
{
	bool is_lossy = may_be_lost(msg);

	if (atomic_load(&s->state) == SESSION_OVER)
		return -ENOTCONN;
	if (give_back(s, msg) || note_taken(s, msg))
		return 0;
	if (atomic_load(&s->state) == SESSION_AWAY)
		return -ENOTCONN;
	if (is_lossy || (msg->text_bytes && msg->type != CTL_FRAME))
		return message_send(s->socket, msg, text, NULL, 0, is_lossy ? MSG_DONTWAIT : 0);
	return post_in_turn(s, msg, text);
}

bool session_flush(struct session *s)
{
	int err = 0;

	pthread_mutex_lock(&s->books);
	if (atomic_load(&s->state) == SESSION_ATTACHED)
		err = backlog_flush(&s->backlog, s->socket);
	pthread_mutex_unlock(&s->books);
	return err != -EAGAIN;
}

void session_read(struct session *s)
{
	atomic_store(&s->has_mail, false);
	if (pthread_mutex_trylock(&s->reading))
		return;		/* another thread does, and tells */
	while (atomic_load(&s->state) == SESSION_ATTACHED && read_one(s) == 0)
		;
	pthread_mutex_unlock(&s->reading);
}

static struct mail *take(struct session *s, struct list *box)
{
	struct list_node *n;

	pthread_mutex_lock(&s->books);
	n = list_pop(box);
	pthread_mutex_unlock(&s->books);
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
	pthread_mutex_lock(&s->books);
	list_append(&s->inbox, &mail->node);
	pthread_mutex_unlock(&s->books);
}
