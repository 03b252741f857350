/* A message goes straight to the socket when nothing waits before it; otherwise it is copied, with duplicates of its
 * descriptors, and follows when epoll says that there is room. One that comes with descriptors is received by a child.
 *
 * Datagrams of management come and go many at a time: those of a client are taken in by three system calls, and what they bring
 * about for one client leaves by one call behind them. The order of a client's messages stays. */
#include "weftd/conn.h"

#include "base/array.h"
#include "base/log.h"
#include "weftd/trust.h"
#include "weftd/umad.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Our choices. Droppable messages (MADs) stop well below the limit, so that what must not be lost still fits. A burst of
 * connection requests to one listener is one message each: 10,000 fit. */
enum {
	QUEUE_MESSAGES = 16384,
	QUEUE_DROPPABLE = 14336,
	QUEUE_BYTES = 8 << 20,
	QUEUE_FDS = 256,		/* duplicates; a channel that must wait for room for its own is opened later */
	QUEUE_FDS_DROPPABLE = 192,
	ROUND_MESSAGES = MESSAGES_AT_ONCE,	/* of one client before the next has its turn */
	ROUND_LEAST = 4,		/* and datagrams of one who always has more to say, so that others wait less */
};

/* Our choice: a child needs a millisecond. */
#define INTAKE_LIMIT (10 * WTIME_S)

struct letter {
	struct list_node node;		/* conn.outbox */
	struct control_msg msg;
	int fd[CONTROL_FDS];		/* owned */
	int fds;
	char text[];
};

struct conn {
	struct client client;		/* first */
	struct list_node doomed;	/* conn_set.doomed */
	int fd;				/* owned */
	wtime hello_by;
	struct intake *intake;		/* the child that receives its next message; NULL: none */
	wtime intake_by;
	struct list_node held;		/* conn_set.held */
	struct list outbox;
	uint32_t queued, queued_fds;
	unsigned round;			/* short messages that are taken in at once */
	bool other_is_next;		/* behind those: message_receive_all */
	uint32_t pages;			/* of CTL_PAGE, what is queued: its reader will look at the page as it is then */
	uint64_t queued_bytes;
};

static struct conn *conn_of(const struct client *c)
{
	return (struct conn *)(uintptr_t)c;
}

static struct conn_set *set_of(struct hub *h)
{
	return (struct conn_set *)h;
}

static void doom(struct conn_set *set, struct conn *n)
{
	if (!list_linked(&n->doomed))
		list_append(&set->doomed, &n->doomed);
}

static void drop(struct hub *h, struct client *c, const char *why)
{
	log_line(LOG_WARNING, "%s[%d] is disconnected: %s", c->program, (int)c->pid, why);
	doom(set_of(h), conn_of(c));
}

static void free_letter(struct letter *l)
{
	while (l->fds > 0)
		close(l->fd[--l->fds]);
	free(l);
}

/* What it says waits while a child is at its next message, or will be. */
static int watch_for(struct conn_set *set, struct conn *n, int op)
{
	uint32_t in = n->intake || list_linked(&n->held) ? 0 : EPOLLIN;
	struct epoll_event e = { .events = in | (n->queued ? EPOLLOUT : 0), .data.fd = n->fd };

	if (epoll_ctl(set->epoll_fd, op, n->fd, &e) == 0)
		return 0;
	return errno == ENOENT && epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, n->fd, &e) == 0 ? 0 : -errno;
}

/* Whoever does not read what it is sent goes beyond one of these. */
static bool has_too_much(struct conn_set *set, const struct conn *n, uint64_t bytes, int nfds)
{
	return n->queued >= QUEUE_MESSAGES || n->queued_bytes + bytes > QUEUE_BYTES ||
	       n->queued_fds + (uint32_t)nfds > QUEUE_FDS ||
	       account_check(&set->hub, &n->client, LIMIT_LETTERS, bytes) ||
	       (nfds && account_check(&set->hub, &n->client, LIMIT_DESCRIPTORS, (uint64_t)nfds));
}

static uint64_t letter_bytes(const struct letter *l)
{
	return sizeof(*l) + l->msg.text_bytes;
}

/* On the client's account, and on its user's: once when it is queued, and back. */
static void book(struct conn *n, const struct letter *l, int times)
{
	struct account *a = n->client.account;

	n->queued += (uint32_t)times;
	n->queued_bytes += (uint64_t)times * letter_bytes(l);
	n->queued_fds += (uint32_t)(times * l->fds);
	a->letter_bytes += (uint64_t)times * letter_bytes(l);
	a->letter_fds += (uint32_t)(times * l->fds);
}

static int enqueue(struct conn_set *set, struct conn *n, const struct control_msg *msg, const char *text,
		   const int *fds, int nfds)
{
	struct letter *l;

	if (has_too_much(set, n, sizeof(*l) + msg->text_bytes, nfds))
		return -ENOBUFS;
	l = malloc(sizeof(*l) + msg->text_bytes);
	if (!l)
		return -ENOMEM;
	*l = (struct letter){ .msg = *msg };
	if (msg->text_bytes)
		memcpy(l->text, text, msg->text_bytes);
	for (; l->fds < nfds; l->fds++) {
		l->fd[l->fds] = fcntl(fds[l->fds], F_DUPFD_CLOEXEC, 0);
		if (l->fd[l->fds] < 0) {
			free_letter(l);
			return -EMFILE;
		}
	}
	list_append(&n->outbox, &l->node);
	if (msg->type == CTL_PAGE)
		n->pages |= msg->a;
	book(n, l, 1);
	if (n->queued == 1)
		watch_for(set, n, EPOLL_CTL_MOD);
	return 0;
}

static bool send_now(struct conn_set *set, struct conn *n, const struct control_msg *msg, const char *text, const int *fds,
		     int nfds)
{
	int err = -EAGAIN;

	if (list_linked(&n->doomed))
		return false;
	if (!n->queued)
		err = message_send(n->fd, msg, text, fds, nfds, MSG_DONTWAIT);
	if (err == -EAGAIN || err == -ENOBUFS || err == -ETOOMANYREFS)
		err = enqueue(set, n, msg, text, fds, nfds);
	if (err == -ENOBUFS)
		drop(&set->hub, &n->client, "it does not read its messages");
	else if (err)
		doom(set, n);
	return err == 0;
}

/* What the socket does not take waits as other messages do. */
static void send_batch(struct conn_set *set)
{
	struct conn_batch *b = &set->batch;
	struct conn *n = b->to;
	unsigned count = b->count;
	int sent = 0;

	b->to = NULL;
	b->count = 0;
	if (count && !list_linked(&n->doomed))
		sent = message_send_all(n->fd, b->item, count, MSG_DONTWAIT);
	for (unsigned i = sent < 0 ? 0 : (unsigned)sent; i < count; i++)
		send_now(set, n, &b->item[i].msg, b->item[i].text, NULL, 0);
}

/* Nothing of this client waits elsewhere. */
static void put_into_batch(struct conn_set *set, struct conn *n, const struct control_msg *msg, const char *text)
{
	struct conn_batch *b = &set->batch;

	if (b->to != n || b->count == MESSAGES_AT_ONCE)
		send_batch(set);
	b->to = n;
	b->item[b->count].msg = *msg;
	memcpy(b->item[b->count++].text, text, msg->text_bytes);
}

static bool send_to(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct conn_set *set = set_of(h);
	struct conn *n = conn_of(c);

	if (list_linked(&n->doomed))
		return false;
	if (msg->type == CTL_PAGE && !(msg->a & ~n->pages))
		return true;
	if (msg->type == CTL_MAD && !n->queued && msg->text_bytes <= sizeof(set->batch.item->text)) {
		put_into_batch(set, n, msg, text);
		return true;
	}
	if (set->batch.to == n)
		send_batch(set);
	return send_now(set, n, msg, text, fds, nfds);
}

static bool has_room(struct hub *h, const struct client *c)
{
	const struct conn *n = conn_of(c);

	return n->queued < QUEUE_DROPPABLE && n->queued_bytes < QUEUE_BYTES / 4 * 3 && n->queued_fds < QUEUE_FDS_DROPPABLE &&
	       account_has_room(h, c->account);
}

static int watch(struct hub *h, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(set_of(h)->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static const struct hub_ops ops = { .send = send_to, .has_room = has_room, .watch = watch, .drop = drop };

void conn_set_init(struct conn_set *set, const struct state *state, wtime now)
{
	*set = (struct conn_set){ .epoll_fd = -1 };
	hub_init(&set->hub, &ops, state, now);
	list_init(&set->doomed);
	list_init(&set->held);
	intake_init(&set->intake);
}

void conn_set_epoll(struct conn_set *set, int epoll_fd)
{
	set->epoll_fd = set->intake.epoll_fd = epoll_fd;
}

/* The name of the program, in what JSON and a terminal can show. */
static void read_program(pid_t pid, char *to, size_t room)
{
	char path[32];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, to, room - 1);
		close(fd);
	}
	to[n > 0 ? n : 0] = '\0';
	to[strcspn(to, "\n")] = '\0';
	for (char *p = to; *p; p++) {
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	}
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77		/* Linux 6.5 */
#endif

/* Of the process that connected. Where the kernel can say so, it has not given its number to another meanwhile. */
static uint64_t read_start(int socket, pid_t pid)
{
	uint64_t start = trust_start(pid);
	struct pollfd alive = { .events = POLLIN };
	socklen_t bytes = sizeof(alive.fd);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &alive.fd, &bytes))
		return start;
	if (poll(&alive, 1, 0) != 0)
		start = 0;
	close(alive.fd);
	return start;
}

int conn_add(struct conn_set *set, int fd, const struct ucred *who, wtime hello_by, enum control_limit *limit)
{
	struct conn *n;
	int err = array_reserve(&set->by_fd, &set->by_fd_room, (uint32_t)fd + 1, sizeof(*set->by_fd));

	if (err)
		return err;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->fd = fd;
	n->hello_by = hello_by;
	n->round = ROUND_MESSAGES;
	n->client.pid = who->pid;
	n->client.uid = who->uid;
	n->client.gid = who->gid;
	n->client.start = read_start(fd, who->pid);
	list_init(&n->outbox);
	read_program(who->pid, n->client.program, sizeof(n->client.program));
	err = hub_join(&set->hub, &n->client, limit);
	if (err) {
		free(n);
		return err;
	}
	err = watch_for(set, n, EPOLL_CTL_ADD);
	if (err) {
		hub_leave(&set->hub, &n->client);
		free(n);
		return err;
	}
	set->by_fd[fd] = n;
	return 0;
}

static void end_intake(struct conn_set *set, struct conn *n)
{
	int fd;

	list_remove(&n->held);
	if (!n->intake)
		return;
	fd = intake_fd(n->intake);
	set->by_fd[fd] = NULL;
	epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	intake_end(&set->intake, n->intake);
	n->intake = NULL;
}

static void free_conn(struct conn_set *set, struct conn *n)
{
	struct letter *l;

	while ((l = list_first_entry(&n->outbox, struct letter, node))) {
		list_remove(&l->node);
		book(n, l, -1);
		free_letter(l);
	}
	hub_leave(&set->hub, &n->client);
	if (set->batch.to == n)
		set->batch = (struct conn_batch){ .to = NULL };
	list_remove(&n->doomed);
	end_intake(set, n);
	set->by_fd[n->fd] = NULL;
	/* a child may have it open too */
	epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, n->fd, NULL);
	intake_close(&set->intake, n->fd);
	free(n);
}

static void flush(struct conn_set *set, struct conn *n)
{
	struct letter *l;

	while ((l = list_first_entry(&n->outbox, struct letter, node))) {
		int err = message_send(n->fd, &l->msg, l->text, l->fd, l->fds, MSG_DONTWAIT);

		if (err == -EAGAIN || err == -ENOBUFS || err == -ETOOMANYREFS)
			return;
		if (err) {
			doom(set, n);
			return;
		}
		list_remove(&l->node);
		if (l->msg.type == CTL_PAGE)
			n->pages &= ~l->msg.a;
		book(n, l, -1);
		free_letter(l);
	}
	watch_for(set, n, EPOLL_CTL_MOD);
	umad_resume(&set->hub, &n->client);
}

/* ---- messages with descriptors ---- */

static int watch_intake(struct conn_set *set, struct conn *n)
{
	int fd = intake_fd(n->intake), err = array_reserve(&set->by_fd, &set->by_fd_room, (uint32_t)fd + 1, sizeof(*set->by_fd));
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	if (!err && epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, fd, &e))
		err = -errno;
	if (err) {
		intake_end(&set->intake, n->intake);
		n->intake = NULL;
		return err;
	}
	set->by_fd[fd] = n;
	return 0;
}

/* The next message is for a child; what follows it waits. */
static void begin_intake(struct conn_set *set, struct conn *n, const struct control_msg *msg)
{
	int err = intake_begin(&set->intake, n->fd, n->client.account->user, set->hub.now, &n->intake);

	if (err == -EBUSY)
		list_append(&set->held, &n->held);
	else if (!err)
		err = watch_intake(set, n);
	if (err && err != -EBUSY) {
		hub_answer(&set->hub, &n->client, msg, -err);
		drop(&set->hub, &n->client, "its descriptors cannot be received");
		return;
	}
	if (!n->intake_by)
		n->intake_by = set->hub.now + INTAKE_LIMIT;
	watch_for(set, n, EPOLL_CTL_MOD);
}

/* A child has ended: who waited for one looks again. */
static void resume_held(struct conn_set *set)
{
	struct list_node *node;

	while ((node = list_pop(&set->held)))
		watch_for(set, container_of(node, struct conn, held), EPOLL_CTL_MOD);
}

/* What a message brings about when it came whole, or with descriptors that were lost or are not fit. */
static void judge(struct conn_set *set, struct conn *n, int err, const struct control_msg *msg, const char *text,
		  const int *fds, int nfds)
{
	if (err == -EMFILE) {
		log_line(LOG_WARNING, "out of descriptors: %s[%d] is refused; raise RLIMIT_NOFILE (ulimit -n)",
			 n->client.program, (int)n->client.pid);
		hub_answer(&set->hub, &n->client, msg, EMFILE);
	} else if (err == -EBADF) {
		hub_answer(&set->hub, &n->client, msg, EBADF);
		drop(&set->hub, &n->client, "descriptors that are not what their message says");
	} else if (err == -EPROTO) {
		drop(&set->hub, &n->client, "not a control message");
	} else if (err) {
		doom(set, n);
	} else {
		hub_input(&set->hub, &n->client, set->hub.now, msg, text, fds, nfds);
	}
}
static void finish_intake(struct conn_set *set, struct conn *n)
{
	struct control_msg msg;
	int fds[CONTROL_FDS], nfds = 0;
	int err = intake_take(n->intake, &msg, fds, &nfds);

	if (err == -EAGAIN)
		return;
	end_intake(set, n);
	n->intake_by = 0;
	watch_for(set, n, EPOLL_CTL_MOD);
	judge(set, n, err, &msg, NULL, fds, nfds);
	while (nfds > 0)
		close(fds[--nfds]);
}

/* Those that come first, as long as they are short. How many. */
static unsigned take_in_short(struct conn_set *set, struct conn *n)
{
	static struct message_short all[MESSAGES_AT_ONCE];
	unsigned count = message_receive_all(n->fd, all, n->round, &n->other_is_next);

	if (count == n->round)
		n->round = n->round > ROUND_LEAST ? n->round / 2 : ROUND_LEAST;
	else
		n->round = n->round < ROUND_MESSAGES ? n->round * 2 : ROUND_MESSAGES;
	for (unsigned i = 0; i < count && !list_linked(&n->doomed); i++)
		judge(set, n, 0, &all[i].msg, all[i].text, NULL, 0);
	return count;
}

static void take_in(struct conn_set *set, struct conn *n)
{
	static char text[CONTROL_TEXT + 1];
	struct control_msg msg;

	if (n->client.kind == CLIENT_MADS && !n->other_is_next && take_in_short(set, n))
		return;
	n->other_is_next = false;
	for (int i = 0; i < ROUND_MESSAGES && !list_linked(&n->doomed); i++) {
		bool has_fds;
		int err = message_peek(n->fd, &msg, &has_fds);

		if (err == -EAGAIN)
			return;
		if (!err && has_fds) {
			if (hub_takes_fds(&n->client, &msg))
				begin_intake(set, n, &msg);
			else
				drop(&set->hub, &n->client, "descriptors that do not belong to the message");
			return;
		}
		if (!err)
			err = message_receive(n->fd, &msg, text, sizeof(text), NULL, NULL, MSG_DONTWAIT);
		judge(set, n, err, &msg, text, NULL, 0);
	}
}

void conn_ready(struct conn_set *set, int fd, uint32_t events)
{
	struct conn *n = (uint32_t)fd < set->by_fd_room ? set->by_fd[fd] : NULL;

	if (!n && intake_ready(&set->intake, fd))
		resume_held(set);
	if (!n || list_linked(&n->doomed))
		return;
	if (n->intake && fd == intake_fd(n->intake)) {
		finish_intake(set, n);
		return;
	}
	if (events & EPOLLOUT) {
		flush(set, n);
		if (!(events & ~EPOLLOUT))
			return;
	}
	/* what it said before it went counts: a HUP is seen as the end of its messages, in their turn */
	if (n->intake || list_linked(&n->held)) {
		epoll_ctl(set->epoll_fd, EPOLL_CTL_DEL, n->fd, NULL);
	} else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		take_in(set, n);
		send_batch(set);
	}
}

/* When it is dropped; WTIME_NEVER: not for being slow. */
static wtime overdue_at(const struct conn *n)
{
	if (n->client.kind == CLIENT_NEW)
		return n->hello_by;
	return n->intake_by ? n->intake_by : WTIME_NEVER;
}

wtime conn_deadline(const struct conn_set *set)
{
	wtime at = intake_deadline(&set->intake);

	list_for_each(c, &set->hub.clients, struct client, node)
		at = wtime_min(at, overdue_at(conn_of(c)));
	return at;
}

void conn_expire(struct conn_set *set, wtime now)
{
	intake_prepare(&set->intake, now);
	list_for_each(c, &set->hub.clients, struct client, node) {
		if (overdue_at(conn_of(c)) > now)
			continue;
		drop(&set->hub, c, conn_of(c)->intake_by ? "its descriptors hold back who receives them" : "no HELLO");
	}
}

void conn_refuse(struct conn_set *set, int fd, int status, enum control_limit limit)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 1, .status = status, .c = limit };

	message_send(fd, &msg, NULL, NULL, 0, MSG_DONTWAIT);
	intake_close(&set->intake, fd);
}

void conn_reap(struct conn_set *set)
{
	struct conn *n;

	send_batch(set);
	/* a farewell to others may doom them too */
	while ((n = list_first_entry(&set->doomed, struct conn, doomed))) {
		free_conn(set, n);
		send_batch(set);
	}
	intake_sweep(&set->intake, set->hub.now);
}

void conn_set_fini(struct conn_set *set)
{
	list_for_each(c, &set->hub.clients, struct client, node)
		doom(set, conn_of(c));
	conn_reap(set);
	umad_end(&set->hub);
	intake_fini(&set->intake);
	free(set->by_fd);
}
