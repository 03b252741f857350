#include "weftd/roce_port.h"

#include "base/log.h"
#include "control/devices.h"
#include "link/udp.h"
#include "link/udp_group.h"
#include "weftd/farewells.h"
#include "weftd/qp1.h"
#include "weftd/slots.h"
#include "weftd/trust.h"
#include "wire/addr.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Our choice: before processes of this host have their turn again. */
enum { ROUND_FRAMES = 64 };

/* Who may trace one process that has a socket can take that socket, and so on: one of them stands for all, but for those that
 * are ending. 0; -EPERM; -EAGAIN: only such have one. */
static int check_trust(const struct hub *h, const struct client *c)
{
	int err = 0;

	if (c->uid != h->uid)
		return -EPERM;
	list_for_each(other, &h->clients, struct client, node) {
		if (!other->has_socket)
			continue;
		if (trust_allows(h, other, c))
			return 0;
		if (!trust_is_ending(other))
			return -EPERM;
		err = -EAGAIN;
	}
	return err;
}

/* Members are opened in order, up to the one that is wanted. */
static bool has_descriptors(const struct hub *h)
{
	return h->descriptors > WIRE_RESERVE + ROCE_PORT_MEMBERS;
}

uint32_t roce_port_device(const struct hub *h)
{
	uint32_t i = 0;

	while (i < h->page->devices && !control_device_has(&h->page->device[i], DEVICE_UDP))
		i++;
	return i;
}

/* ---- weftd's own socket ---- */

/* Asks to be told of what comes next. What came already is taken in with the next hub_expire. */
static void rest(struct roce_port *w)
{
	w->is_pending = !w->link->ops->may_sleep(w->link, false);
}

static int open_own(struct hub *h, struct udp_group *group)
{
	struct udp_config config = { .device = roce_port_device(h), .member = 0, .members = ROCE_PORT_MEMBERS };
	struct link *link;
	int fd = udp_group_issue(group, config.member), err;

	if (fd < 0)
		return fd;
	config.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (config.fd < 0)
		return -errno;
	err = udp_open(&config, &link);
	if (err) {
		close(config.fd);
		return err;
	}
	err = h->ops->watch(h, link->event_fd);
	if (err) {
		link->ops->close(link);
		return err;
	}
	h->roce.link = link;
	rest(&h->roce);
	return 0;
}

bool roce_port_is_fd(const struct hub *h, int fd)
{
	return h->roce.link && h->roce.link->event_fd == fd;
}

static void take_in(struct hub *h)
{
	struct link *l = h->roce.link;
	const void *frame;
	unsigned kind;
	size_t bytes;

	for (int n = 0; n < ROUND_FRAMES && (frame = l->ops->receive(l, &kind, &bytes)); n++)
		h->roce.fates[qp1_input_wire(h, frame, bytes)]++;
	rest(&h->roce);
}

void roce_port_ready(struct hub *h)
{
	h->roce.link->ops->take_event(h->roce.link);
	take_in(h);
}

void roce_port_expire(struct hub *h)
{
	if (h->roce.is_pending)
		take_in(h);
}

wtime roce_port_deadline(const struct hub *h)
{
	return h->roce.is_pending ? h->now : WTIME_NEVER;
}

bool roce_port_send(struct hub *h, const void *frame, size_t bytes)
{
	struct link *l = h->roce.link;

	return l && l->ops->send_frame(l, link_kind(roce_port_device(h), PACKET_ROCE), frame, bytes);
}

bool roce_port_await_room(struct hub *h, unsigned *ms)
{
	struct link *l = h->roce.link;

	while (l && l->ops->room(l) == 0 && *ms) {
		poll(&(struct pollfd){ .fd = l->event_fd, .events = POLLIN }, 1, 1);
		l->ops->take_event(l);
		--*ms;
	}
	return l && *ms;
}

int roce_port_try(struct hub *h, const void *frame, size_t bytes)
{
	const struct udp_counts *n = h->roce.link ? udp_counts(h->roce.link) : NULL;
	uint64_t too_big, refused;

	if (!n)
		return -EAGAIN;
	too_big = n->lost[UDP_TOO_BIG];
	refused = n->lost[UDP_REFUSED];
	if (!roce_port_send(h, frame, bytes))
		return -EAGAIN;
	if (n->lost[UDP_TOO_BIG] != too_big)
		return -EMSGSIZE;
	return n->lost[UDP_REFUSED] == refused ? 0 : -ENETUNREACH;
}

/* ---- the group ---- */

static void close_own(struct roce_port *w)
{
	if (w->link)
		w->link->ops->close(w->link);
	w->link = NULL;
	w->is_pending = false;
}

static void close_group(struct roce_port *w)
{
	close_own(w);
	w->dead_letters += udp_group_dead_letters(w->group);
	udp_group_close(w->group);
	w->group = NULL;
}

void roce_port_close(struct hub *h)
{
	struct roce_port *w = &h->roce;

	close_own(w);
	if (w->group) {
		udp_group_retire(w->group, 0);
		udp_group_leave(w->group);
	}
	w->group = NULL;
}

/* A process of the last weftd closes its socket when it finds that weftd gone. */
static int open_group(struct hub *h)
{
	struct roce_port *w = &h->roce;
	int err;

	if (w->group && w->sockets)
		return 0;
	if (w->group)	/* whoever had a socket may have changed its program, and is not asked any more */
		close_group(w);
	err = udp_group_open(w->port, ROCE_PORT_MEMBERS, &w->group);
	if (!err) {
		err = open_own(h, w->group);
		if (err)
			close_group(w);
	}
	if (!err)
		log_line(LOG_INFO, "the wire is open: UDP port %u", w->port);
	else if (err != -EADDRINUSE)
		log_line(LOG_WARNING, "UDP port %u cannot be opened: %s", w->port, strerror(-err));
	return err == -EADDRINUSE && slots_are_settling(h) ? -EAGAIN : err;
}

void roce_port_close_unused(struct hub *h)
{
	if (h->roce.group && !h->roce.sockets && !h->roce.holders && !farewells_wait(h))
		close_group(&h->roce);
}

int roce_port_hold(struct hub *h)
{
	if (!h->roce.port)
		return -EOPNOTSUPP;
	if (h->roce.group)
		return 0;
	return has_descriptors(h) ? open_group(h) : -EMFILE;
}

/* ---- multicast ---- */

/* The GID at this place is the first of its interface and family, so no interface is asked twice. */
static bool is_first_of_interface(const struct page_device *d, int at, bool is_ipv4)
{
	for (int i = 0; i < at; i++)
		if (d->gid[i].valid && d->gid[i].ifindex == d->gid[at].ifindex && gid_is_ipv4(d->gid[i].raw) == is_ipv4)
			return false;
	return true;
}

/* A process is told of once until it has left a group. */
static void note_refusal(struct client *c, const struct page_gid *at, int err)
{
	if (!c->is_deaf)
		log_line(LOG_WARNING, "process %d does not hear a multicast group at %s: %s%s", (int)c->pid, at->ifname,
			 strerror(-err), err == -ENOBUFS ? "; see net.ipv4.igmp_max_memberships" : "");
	c->is_deaf = true;
}

void roce_port_hear(struct hub *h, struct client *c, int group)
{
	const struct page_group *g = &h->page->group[group];
	const struct page_device *d = &h->page->device[g->device];
	bool is_ipv4 = gid_is_ipv4(g->gid);

	if (!h->roce.group || !c->has_socket || g->device != roce_port_device(h))
		return;
	for (int i = 0; i < PAGE_GIDS; i++) {
		int err;

		if (!d->gid[i].valid || !d->gid[i].ifindex || gid_is_ipv4(d->gid[i].raw) != is_ipv4 ||
		    !is_first_of_interface(d, i, is_ipv4))
			continue;
		err = udp_group_hear(h->roce.group, roce_port_member(c->slot), g->gid, d->gid[i].ifindex);
		if (err)
			note_refusal(c, &d->gid[i], err);
	}
}

static void hear_own(struct hub *h, struct client *c)
{
	c->is_deaf = false;
	for (int i = 0; i < PAGE_GROUPS; i++)
		if (c->joined[i])
			roce_port_hear(h, c, i);
}

void roce_port_unhear(struct hub *h, struct client *c, int group)
{
	if (!h->roce.group || !c->has_socket || h->page->group[group].device != roce_port_device(h))
		return;
	udp_group_unhear(h->roce.group, roce_port_member(c->slot), h->page->group[group].gid);
	if (c->is_deaf)		/* there is room for another */
		hear_own(h, c);
}

void roce_port_hear_all(struct hub *h)
{
	list_for_each(c, &h->clients, struct client, node)
		hear_own(h, c);
}

/* The process could not take its socket up, and asks again. What came meanwhile is late, and lost. */
static int issue_again(struct hub *h, const struct client *c)
{
	udp_group_retire(h->roce.group, roce_port_member(c->slot));
	return udp_group_issue(h->roce.group, roce_port_member(c->slot));
}

/* The socket, borrowed, or -errno. */
static int issue(struct hub *h, struct client *c)
{
	struct roce_port *w = &h->roce;
	int fd, err;

	if (!w->port)
		return -EOPNOTSUPP;
	if (c->has_socket)
		return issue_again(h, c);
	err = check_trust(h, c);
	if (err)
		return err;
	if (!has_descriptors(h))
		return -EMFILE;
	err = roce_port_member(c->slot) ? open_group(h) : -EBUSY;
	if (err)
		return err;
	fd = udp_group_issue(w->group, roce_port_member(c->slot));
	if (fd >= 0) {
		c->has_socket = true;
		w->sockets++;
		hear_own(h, c);
	}
	roce_port_close_unused(h);
	return fd;
}

void roce_port_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int fd = issue(h, c);

	answer.a = roce_port_member(c->slot);
	answer.b = ROCE_PORT_MEMBERS;
	answer.c = 0;
	if (fd < 0) {
		hub_answer(h, c, &answer, -fd);
		return;
	}
	answer.status = 0;
	answer.text_bytes = 0;
	h->ops->send(h, c, &answer, NULL, &fd, 1);
}

void roce_port_leave(struct hub *h, struct client *c)
{
	struct roce_port *w = &h->roce;

	if (!c->has_socket)
		return;
	c->has_socket = false;
	w->sockets--;
	if (!w->group)	/* weftd ends, and the process goes on */
		return;
	udp_group_retire(w->group, roce_port_member(c->slot));
	roce_port_close_unused(h);
}

static const char *const fate_names[QP1_FATES] = {
	[QP1_PASSED] = "passed", [QP1_ANSWERED] = "answered", [QP1_NO_MAD] = "no_mad", [QP1_WRONG_KEY] = "wrong_key",
	[QP1_PORT_DOWN] = "port_down", [QP1_WRONG_PARTITION] = "wrong_partition", [QP1_WRONG_SOURCE] = "wrong_source",
	[QP1_ENDED] = "ended", [QP1_NOBODY] = "nobody", [QP1_NO_SOCKET] = "no_socket", [QP1_NO_ROOM] = "no_room",
};

json_t *roce_port_describe(const struct hub *h)
{
	const struct roce_port *w = &h->roce;
	uint64_t dead = w->dead_letters + (w->group ? udp_group_dead_letters(w->group) : 0);

	json_t *qp1 = json_object();

	for (int i = 0; i < QP1_FATES; i++)
		json_object_set_new(qp1, fate_names[i], json_integer((json_int_t)w->fates[i]));
	return json_pack("{s:i, s:b, s:i, s:i, s:I, s:o}", "port", (int)w->port, "open", w->group != NULL,
			 "sockets", (int)w->sockets, "farewells", (int)farewells_count(h), "dead_letters", (json_int_t)dead,
			 "qp1", qp1);
}
