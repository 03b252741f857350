/* The UDP link's table of operations, its life, and sleeping. */
#include "link/udp_parts.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A send goes out at once. */
static void udp_flush(struct link *l)
{
	(void)l;
}

/* The kernel's buffer is free once its packets were received. */
static void udp_release(struct link *l)
{
	(void)l;
}

static void arm(const struct udp *u, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events | EPOLLONESHOT };

	epoll_ctl(u->link.event_fd, EPOLL_CTL_MOD, fd, &event);
}

static bool udp_may_sleep(struct link *l, bool by_futex)
{
	struct udp *u = udp_of(l);

	(void)by_futex;
	arm(u, u->config.fd, EPOLLIN);
	return !udp_arrived(u) && !(u->tx.backlog.packets && udp_drain(u));
}

/* What the descriptor still says, it says once. */
static void udp_awake(struct link *l)
{
	(void)l;
}

/* Each socket's event is one-shot: told, it is over. */
static void udp_take_event(struct link *l)
{
	struct epoll_event told[1 + UDP_LANES];

	epoll_wait(l->event_fd, told, 1 + UDP_LANES, 0);
}

static void udp_forget(struct link *l)
{
	struct udp *u = udp_of(l);

	for (unsigned i = 0; i < UDP_LANES; i++)
		if (u->lane[i].fd >= 0)
			close(u->lane[i].fd);
	close(l->event_fd);
	close(u->config.fd);
	free(u);
}

static const struct link_ops udp_ops = {
	.name = "udp",
	.room = udp_room,
	.send = udp_send,
	.send_frame = udp_send_frame,
	.flush = udp_flush,
	.receive = udp_receive,
	.release = udp_release,
	.look = udp_look,
	.may_sleep = udp_may_sleep,
	.awake = udp_awake,
	.take_event = udp_take_event,
	.close = udp_forget,
	.forget = udp_forget,
};

static int family_of(int fd)
{
	union udp_address address = { .any.sa_family = AF_UNSPEC };
	socklen_t bytes = sizeof(address);

	if (getsockname(fd, &address.any, &bytes))
		return -errno;
	return address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6 ? address.any.sa_family : -EPROTOTYPE;
}

/* In the socket's life, modulo 2^32. */
static uint32_t drops_of(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t bytes = sizeof(info);

	getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &bytes);
	return info[SK_MEMINFO_DROPS];
}

int udp_open(const struct udp_config *config, struct link **link)
{
	struct epoll_event silent = { .events = 0 };
	int family = family_of(config->fd), err;
	struct udp *u;

	if (family < 0)
		return family;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->link = (struct link){ .ops = &udp_ops, .arrival = &u->rx.arrival, .event_fd = epoll_create1(EPOLL_CLOEXEC),
		.origin = ORIGIN_NETWORK };
	u->config = *config;
	u->family = (sa_family_t)family;
	u->can_segment = !config->one_by_one;
	for (unsigned i = 0; i < UDP_LANES; i++)
		u->lane[i].fd = -1;
	if (u->link.event_fd < 0 || epoll_ctl(u->link.event_fd, EPOLL_CTL_ADD, config->fd, &silent)) {
		err = -errno;
		if (u->link.event_fd >= 0)
			close(u->link.event_fd);
		free(u);
		return err;
	}
	udp_set_options(config->fd, u->family, true, !config->one_by_one);
	icrc_id_init(&u->solver);
	udp_receive_init(u);
	u->dropped_before = drops_of(config->fd);
	*link = &u->link;
	return 0;
}

const struct udp_counts *udp_counts(const struct link *l)
{
	return &((const struct udp *)l)->counts;
}

uint64_t udp_overruns(const struct link *l)
{
	const struct udp *u = (const struct udp *)l;

	return (uint32_t)(drops_of(u->config.fd) - u->dropped_before);
}
