/* A message goes straight to the socket when nothing waits before it; otherwise it is copied, with duplicates of its
 * descriptors, and follows when epoll says that there is room. */
#include "weftd/conn.h"

#include "base/log.h"
#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
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
	ROUND_MESSAGES = 32,		/* of one client before the next has its turn */
};

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
	struct list outbox;
	uint32_t queued;
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

static int watch_for(struct conn_set *set, struct conn *n, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.fd = n->fd };

	return epoll_ctl(set->epoll_fd, op, n->fd, &e) ? -errno : 0;
}

static int enqueue(struct conn_set *set, struct conn *n, const struct control_msg *msg, const char *text,
		   const int *fds, int nfds)
{
	struct letter *l;

	if (n->queued >= QUEUE_MESSAGES)
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
	if (n->queued++ == 0)
		watch_for(set, n, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
	return 0;
}

static bool send_to(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct conn_set *set = set_of(h);
	struct conn *n = conn_of(c);
	int err = -EAGAIN;

	if (list_linked(&n->doomed))
		return false;
	if (!n->queued)
		err = message_send(n->fd, msg, text, fds, nfds, MSG_DONTWAIT);
	if (err == -EAGAIN || err == -ENOBUFS || err == -ETOOMANYREFS)
		err = enqueue(set, n, msg, text, fds, nfds);
	if (err == -ENOBUFS)
		drop(h, c, "it does not read its messages");
	else if (err)
		doom(set, n);
	return err == 0;
}

static bool has_room(struct hub *h, const struct client *c)
{
	return conn_of(c)->queued < QUEUE_DROPPABLE;
}

static const struct hub_ops ops = { .send = send_to, .has_room = has_room, .drop = drop };

void conn_set_init(struct conn_set *set, const struct state *state, wtime now)
{
	*set = (struct conn_set){ .epoll_fd = -1 };
	hub_init(&set->hub, &ops, state, now);
	list_init(&set->doomed);
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

static int make_room(struct conn_set *set, int fd)
{
	int room = set->by_fd_room ? set->by_fd_room : 64;
	struct conn **p;

	while (room <= fd)
		room *= 2;
	if (room == set->by_fd_room)
		return 0;
	p = realloc(set->by_fd, (size_t)room * sizeof(struct conn *));
	if (!p)
		return -ENOMEM;
	memset(p + set->by_fd_room, 0, (size_t)(room - set->by_fd_room) * sizeof(struct conn *));
	set->by_fd = p;
	set->by_fd_room = room;
	return 0;
}

int conn_add(struct conn_set *set, int fd, const struct ucred *who, wtime hello_by)
{
	struct conn *n;
	int err = make_room(set, fd);

	if (err)
		return err;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->fd = fd;
	n->hello_by = hello_by;
	n->client.pid = who->pid;
	n->client.uid = who->uid;
	list_init(&n->outbox);
	read_program(who->pid, n->client.program, sizeof(n->client.program));
	err = watch_for(set, n, EPOLL_CTL_ADD, EPOLLIN);
	if (err) {
		free(n);
		return err;
	}
	set->by_fd[fd] = n;
	hub_join(&set->hub, &n->client);
	return 0;
}

static void free_conn(struct conn_set *set, struct conn *n)
{
	struct list_node *l;

	hub_leave(&set->hub, &n->client);
	while ((l = list_pop(&n->outbox)))
		free_letter(container_of(l, struct letter, node));
	list_remove(&n->doomed);
	set->by_fd[n->fd] = NULL;
	close(n->fd);
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
		free_letter(l);
		n->queued--;
	}
	watch_for(set, n, EPOLL_CTL_MOD, EPOLLIN);
}

static void take_in(struct conn_set *set, struct conn *n)
{
	static char text[CONTROL_TEXT + 1];

	for (int i = 0; i < ROUND_MESSAGES && !list_linked(&n->doomed); i++) {
		struct control_msg msg;
		int fds[CONTROL_FDS], nfds = 0;
		int err = message_receive(n->fd, &msg, text, sizeof(text), fds, &nfds, MSG_DONTWAIT);

		if (err == -EAGAIN)
			return;
		if (err == -EMFILE) {
			log_line(LOG_WARNING, "out of descriptors: %s[%d] is refused; raise RLIMIT_NOFILE (ulimit -n)",
				 n->client.program, (int)n->client.pid);
			hub_answer(&set->hub, &n->client, &msg, EMFILE);
		} else if (err == -EPROTO)
			drop(&set->hub, &n->client, "not a control message");
		else if (err)
			doom(set, n);
		else
			hub_input(&set->hub, &n->client, set->hub.now, &msg, text, fds, nfds);
		while (nfds > 0)
			close(fds[--nfds]);
	}
}

void conn_ready(struct conn_set *set, int fd, uint32_t events)
{
	struct conn *n = fd < set->by_fd_room ? set->by_fd[fd] : NULL;

	if (!n || list_linked(&n->doomed))
		return;
	if (events & EPOLLOUT)
		flush(set, n);
	/* what it said before it went counts: a HUP is seen as the end of its messages */
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		take_in(set, n);
}

wtime conn_deadline(const struct conn_set *set)
{
	wtime at = WTIME_NEVER;

	list_for_each(c, &set->hub.clients, struct client, node) {
		if (c->kind == CLIENT_NEW)
			at = wtime_min(at, conn_of(c)->hello_by);
	}
	return at;
}

void conn_expire(struct conn_set *set, wtime now)
{
	list_for_each(c, &set->hub.clients, struct client, node) {
		if (c->kind == CLIENT_NEW && conn_of(c)->hello_by <= now)
			drop(&set->hub, c, "no HELLO");
	}
}

void conn_reap(struct conn_set *set)
{
	struct conn *n;

	/* a farewell to others may doom them too */
	while ((n = list_first_entry(&set->doomed, struct conn, doomed)))
		free_conn(set, n);
}

void conn_set_fini(struct conn_set *set)
{
	list_for_each(c, &set->hub.clients, struct client, node)
		doom(set, conn_of(c));
	conn_reap(set);
	free(set->by_fd);
}
