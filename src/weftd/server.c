/* Each descriptor in the epoll set is a struct source. A client that must go is put on the doomed list and freed at the
 * end of the round, so that no event of the round meets freed memory. */
#include "weftd/server.h"

#include "base/log.h"
#include "control/clock.h"
#include "weftd/addresses.h"
#include "weftd/conn.h"
#include "weftd/entry.h"
#include "weftd/farewells.h"
#include "weftd/hub.h"
#include "weftd/loads.h"
#include "weftd/slots.h"
#include "weftd/subnet.h"
#include "weftd/tree.h"
#include "weftd/users.h"
#include "weftd/roce_port.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Our choices: a client says HELLO at once, and one that starts weftd connects within seconds. */
#define HELLO_LIMIT (10 * WTIME_S)
#define START_GRACE (5 * WTIME_S)

enum { EVENTS = 64, ACCEPTS = 64, BACKLOG = 4096 };

struct server {
	struct conn_set conns;		/* first: conn.c finds the hub in it */
	const struct rundir *dir;
	wtime idle, idle_since;
	struct state state;
	struct subnet subnet;
	int epoll_fd, listen_fd, signal_fd, netlink_fd, spare_fd;
	bool is_done;
};

static int watch(struct server *s, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/* With the right mode from the beginning. bind(2) takes a path alone, and makes, but never replaces: the path is looked at
 * afterwards. */
static int bind_at(const struct rundir *dir, int fd, const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	mode_t old = umask(dir->system ? 0111 : 0177);
	int err;

	rundir_file(dir, name, address.sun_path);
	err = bind(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
	umask(old);
	return !err && !rundir_is_current(dir) ? -ENOENT : err;
}

/* Makes the name free: a killed weftd may have left a socket, and the lock says that nobody serves it. */
static int clear(const struct rundir *dir, const char *name)
{
	int err = entry_remove(dir->fd, name, S_IFSOCK);

	if (err == -EEXIST)
		log_line(LOG_ERROR, "%s/%s was not made by weft; next: move it elsewhere", dir->path, name);
	return err;
}

/* Under its name only once it accepts. */
static int listen_at(const struct rundir *dir)
{
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -errno;
	err = clear(dir, "ctl.new");
	/* what is not a socket stays; a socket is replaced in one step, as its name tells that weftd was killed, not ended */
	if (!err && fstatat(dir->fd, "ctl", &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISSOCK(st.st_mode))
		err = clear(dir, "ctl");
	if (!err)
		err = bind_at(dir, fd, "ctl.new");
	if (!err && (listen(fd, BACKLOG) || renameat(dir->fd, "ctl.new", dir->fd, "ctl")))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int catch_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Without a descriptor to spare a pending client could neither be accepted nor refused, and epoll would report it forever. */
static void refuse_one(struct server *s)
{
	int fd;

	log_line(LOG_WARNING, "out of descriptors: a client is refused; raise RLIMIT_NOFILE (ulimit -n)");
	close(s->spare_fd);
	/* cppcheck-suppress nullPointer ; the address is optional */
	fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		conn_refuse(&s->conns, fd, EMFILE, 0);
	intake_sweep(&s->conns.intake, s->conns.hub.now);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* 0, or why it is not. */
static int is_unwelcome(const struct server *s, const struct ucred *who, enum control_limit *limit)
{
	if (!s->dir->system && who->uid != geteuid() && who->uid != 0) {
		log_line(LOG_WARNING, "user %u is refused: this weftd is user %u's", who->uid, geteuid());
		return EPERM;
	}
	if (s->conns.hub.client_count >= QUOTA_CLIENTS) {
		log_line(LOG_WARNING, "a client is refused: there are %u already", s->conns.hub.client_count);
		*limit = LIMIT_CONNECTIONS;
		return EDQUOT;
	}
	if (!users_is_somebody(who->uid)) {
		log_line(LOG_WARNING, "a client is refused: its user is not mapped in weftd's user namespace");
		return EPERM;
	}
	return 0;
}

static void accept_some(struct server *s)
{
	for (int i = 0; i < ACCEPTS; i++) {
		/* cppcheck-suppress nullPointer ; the address is optional */
		int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		enum control_limit limit = 0;
		struct ucred who;
		socklen_t bytes = sizeof(who);
		int err;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE)
				refuse_one(s);
			return;
		}
		err = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) ? errno : is_unwelcome(s, &who, &limit);
		if (!err)
			err = -conn_add(&s->conns, fd, &who, s->conns.hub.now + HELLO_LIMIT, &limit);
		if (err)
			conn_refuse(&s->conns, fd, err, limit);
	}
}

static bool refresh_addresses(struct server *s)
{
	struct page_address addresses[PAGE_GIDS - 1];
	int n = addresses_read(addresses, PAGE_GIDS - 1);

	if (n < 0) {
		log_line(LOG_ERROR, "the host's addresses cannot be read: %s", strerror(-n));
		return false;
	}
	return page_set_addresses(s->conns.hub.page, addresses, n);
}

static void addresses_changed(struct server *s)
{
	addresses_drain(s->netlink_fd);
	if (!refresh_addresses(s))
		return;
	log_line(LOG_INFO, "the host's addresses changed");
	tree_write(s->dir, s->conns.hub.page);
	subnet_addresses_changed(&s->subnet);
	roce_port_hear_all(&s->conns.hub);
	hub_page_changed(&s->conns.hub, CONTROL_PAGE_PORTS);
}

static void dispatch(struct server *s, const struct epoll_event *e)
{
	if (e->data.fd == s->listen_fd)
		accept_some(s);
	else if (e->data.fd == s->netlink_fd)
		addresses_changed(s);
	else if (e->data.fd == s->signal_fd)
		s->is_done = true;
	else if (roce_port_is_fd(&s->conns.hub, e->data.fd))
		roce_port_ready(&s->conns.hub);
	else
		conn_ready(&s->conns, e->data.fd, e->events);
}

/* Who starts weftd comes soon after; only looking whether weftd is there does not count as coming. */
static wtime leave_at(const struct server *s)
{
	const struct hub *h = &s->conns.hub;

	if (hub_stays(h) || h->client_count || h->awaited || h->awaited_leases || farewells_wait(h))
		return WTIME_NEVER;
	if (!h->was_used)
		return h->start + (s->idle > START_GRACE ? s->idle : START_GRACE);
	return s->idle_since + s->idle;
}

static wtime deadline(const struct server *s)
{
	return wtime_min(leave_at(s), wtime_min(hub_deadline(&s->conns.hub), conn_deadline(&s->conns)));
}

/* Milliseconds for epoll_wait, rounded up so that it is due when we look. */
static int wait_ms(wtime now, wtime at)
{
	if (at == WTIME_NEVER)
		return -1;
	if (at <= now)
		return 0;
	at = (at - now + WTIME_MS - 1) / WTIME_MS;
	return at > 60000 ? 60000 : (int)at;
}

/* Datagrams on slow links are due in less than the millisecond that epoll_wait rounds up to. */
static int wait_for(struct server *s, struct epoll_event events[EVENTS])
{
	wtime now = clock_now(), at = deadline(s);
	struct timespec left = { .tv_nsec = (long)(at - now) };
	bool is_soon = at > now && at - now < WTIME_MS;

	if (is_soon)
		ppoll(&(struct pollfd){ .fd = s->epoll_fd, .events = POLLIN }, 1, &left, NULL);
	return epoll_wait(s->epoll_fd, events, EVENTS, is_soon ? 0 : wait_ms(now, at));
}

static void look_if_idle(struct server *s, bool had_clients)
{
	struct hub *h = &s->conns.hub;

	if (had_clients && !h->client_count)
		s->idle_since = h->now;
	if (h->now >= leave_at(s)) {
		log_line(LOG_INFO, "idle: leaving");
		s->is_done = true;
	}
	if (h->stopping)
		s->is_done = true;
}

void server_run(struct server *s)
{
	struct epoll_event events[EVENTS];
	struct hub *h = &s->conns.hub;

	while (!s->is_done) {
		int n = wait_for(s, events);
		bool had_clients = h->client_count != 0;

		h->now = clock_now();
		for (int i = 0; i < n; i++) {
			dispatch(s, &events[i]);
			had_clients |= h->client_count != 0;
		}
		hub_expire(h, h->now);
		conn_expire(&s->conns, h->now);
		conn_reap(&s->conns);
		look_if_idle(s, had_clients);
	}
}

static int open_all(struct server *s)
{
	int err = 0;

	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->signal_fd = catch_signals();
	if (s->epoll_fd < 0 || s->spare_fd < 0 || s->signal_fd < 0)
		return -errno;
	s->netlink_fd = addresses_watch();
	if (s->netlink_fd < 0)
		log_line(LOG_WARNING, "changes of the host's addresses will not be seen: %s", strerror(-s->netlink_fd));
	s->listen_fd = listen_at(s->dir);
	if (s->listen_fd < 0)
		return s->listen_fd;
	err = watch(s, s->listen_fd);
	if (!err)
		err = watch(s, s->signal_fd);
	if (!err && s->netlink_fd >= 0)
		err = watch(s, s->netlink_fd);
	return err;
}

static uint64_t network_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) == 0 ? st.st_ino : 0;
}

static int set_up(struct server *s, const struct server_config *config)
{
	struct hub *h = &s->conns.hub;
	int err;

	if (s->state.page->magic != PAGE_MAGIC)
		page_set_devices(s->state.page, config->devices, addresses_guid(geteuid()));
	s->state.page->home = network_namespace();
	s->state.claims->keep |= config->keep;
	subnet_open(&s->subnet, config->dir, s->state.page);
	conn_set_init(&s->conns, &s->state, clock_now());
	h->subnet = &s->subnet;
	loads_open(h);
	hub_expire(h, h->now);
	h->dir = config->dir->path;
	h->gives_to_user = config->gives_to_user;
	h->roce.port = config->wire_port;
	s->idle = config->idle;
	refresh_addresses(s);
	if (!h->awaited && !h->awaited_leases)
		tree_remove(s->dir);
	err = tree_write(s->dir, s->state.page);
	if (!err)
		err = open_all(s);
	conn_set_epoll(&s->conns, s->epoll_fd);
	return err;
}

int server_create(const struct server_config *config, struct server **server)
{
	struct server *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = state_open(config->dir, &s->state);
	if (err) {
		free(s);
		return err;
	}
	s->dir = config->dir;
	s->subnet.fd = -1;
	s->epoll_fd = s->listen_fd = s->signal_fd = s->netlink_fd = s->spare_fd = -1;
	err = set_up(s, config);
	if (err) {
		log_line(LOG_ERROR, "weftd cannot serve %s: %s", config->dir->path, strerror(-err));
		server_destroy(s);
		return err;
	}
	*server = s;
	return 0;
}

bool server_destroy(struct server *s)
{
	const int fds[] = { s->epoll_fd, s->signal_fd, s->netlink_fd, s->spare_fd };
	struct hub *h = &s->conns.hub;
	bool is_needed, is_whole = true;

	/* the name goes first: who comes now starts a new weftd, which waits for our lock */
	if (s->listen_fd >= 0)
		entry_remove(s->dir->fd, "ctl", S_IFSOCK);
	is_needed = slots_are_needed(h);
	hub_close(h);
	/* who has not been accepted may have sent descriptors */
	if (s->listen_fd >= 0)
		intake_close(&s->conns.intake, s->listen_fd);
	conn_set_fini(&s->conns);
	if (!is_needed)
		is_whole = tree_remove(s->dir);
	subnet_close(&s->subnet);
	loads_close(h);
	state_close(s->dir, &s->state, is_needed);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	free(s);
	return is_whole;
}
