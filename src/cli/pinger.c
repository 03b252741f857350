#include "cli/pinger.h"

#include "cli/daemon.h"
#include "cli/output.h"
#include "control/clock.h"
#include "control/message.h"
#include "link/udp.h"
#include "link/udp_group.h"
#include "wire/addr.h"
#include "wire/header.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Our choice: whoever refuses a datagram says so within a round trip. */
enum { PROBE_MS = 1000, SHORT_TRIES = 3 };

static const wtime SHORT_PATIENCE = WTIME_S;

static void print_gid(const uint8_t gid[16], char text[PINGER_TEXT])
{
	inet_ntop(gid_is_ipv4(gid) ? AF_INET : AF_INET6, gid_is_ipv4(gid) ? gid + 12 : gid, text, PINGER_TEXT);
}

int pinger_resolve(struct pinger *p, const char *host)
{
	const struct addrinfo wanted = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	int error = getaddrinfo(host, NULL, &wanted, &found);

	*p = (struct pinger){ .socket = -1, .gid_index = -1 };
	if (error)
		return error;
	if (found->ai_family == AF_INET)
		gid_from_ipv4(p->to, &((const struct sockaddr_in *)(const void *)found->ai_addr)->sin_addr);
	else
		memcpy(p->to, &((const struct sockaddr_in6 *)(const void *)found->ai_addr)->sin6_addr, sizeof(p->to));
	freeaddrinfo(found);
	print_gid(p->to, p->to_text);
	return 0;
}

int pinger_route(struct pinger *p)
{
	int err = udp_source(p->to, p->from);

	if (!err)
		print_gid(p->from, p->from_text);
	return err;
}

static void note_gid(struct pinger *p, const json_t *gids)
{
	uint8_t gid[16];
	const json_t *g;
	size_t i;

	json_array_foreach(gids, i, g) {
		if (inet_pton(AF_INET6, output_text(g, "gid"), gid) != 1 || memcmp(gid, p->from, sizeof(gid)) != 0)
			continue;
		p->gid_index = (int)output_number(g, "index");
		snprintf(p->interface, sizeof(p->interface), "%s", output_text(g, "interface"));
	}
}

int pinger_find_gid(struct pinger *p, int socket)
{
	json_t *status = daemon_status(socket);
	const json_t *d;
	size_t i;

	json_array_foreach(json_object_get(status, "devices"), i, d) {
		if (strcmp(output_text(d, "link_layer"), "Ethernet") == 0)
			note_gid(p, json_object_get(d, "gids"));
	}
	json_decref(status);
	return p->gid_index < 0 ? -ENOENT : 0;
}

int pinger_hold(int socket)
{
	struct control_msg msg = { .type = CTL_PING };
	int err = daemon_call(socket, &msg, NULL);

	/* a firewall's refusal of a datagram is EPERM, too, and a question without an answer ETIMEDOUT */
	return err == -EPERM ? -EUSERS : err == -ETIMEDOUT ? -ETIME : err;
}

/* The answer to this question; those that come late to others are passed over. */
static int await(struct pinger *p, wtime until, struct pong *pong)
{
	struct pollfd in = { .fd = p->socket, .events = POLLIN };
	struct control_msg msg;
	wtime now = clock_now();
	int err;

	for (; now < until; now = clock_now()) {
		if (poll(&in, 1, (int)((until - now + WTIME_MS - 1) / WTIME_MS)) < 0 && errno != EINTR)
			return -errno;
		if (!(in.revents & (POLLIN | POLLHUP)))
			continue;
		memset(pong->version, 0, sizeof(pong->version));
		err = message_receive(p->socket, &msg, pong->version, sizeof(pong->version) - 1, NULL, NULL, MSG_DONTWAIT);
		if (err && err != -EAGAIN)
			return err;
		if (err || msg.type != CTL_PING || msg.seq != p->seq)
			continue;
		pong->round_trip = msg.service;
		return -msg.status;
	}
	return -ETIMEDOUT;
}

int pinger_ask(struct pinger *p, unsigned bytes, wtime patience, struct pong *pong)
{
	struct control_msg msg = { .type = CTL_PING, .a = 1, .b = bytes };
	int err;

	msg.seq = ++p->seq;
	memcpy(msg.gid, p->from, sizeof(msg.gid));
	memcpy(msg.dgid, p->to, sizeof(msg.dgid));
	err = message_send(p->socket, &msg, NULL, NULL, 0, 0);
	return err ? err : await(p, clock_now() + patience, pong);
}

int pinger_probe(const struct pinger *p)
{
	const bool is_ipv4 = gid_is_ipv4(p->to);
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT) };
	int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	socklen_t bytes = sizeof(err);

	if (fd < 0)
		return errno;
	memcpy(&to4.sin_addr, p->to + 12, sizeof(to4.sin_addr));
	memcpy(&to6.sin6_addr, p->to, sizeof(to6.sin6_addr));
	if (connect(fd, is_ipv4 ? (const struct sockaddr *)&to4 : (const struct sockaddr *)&to6,
		    is_ipv4 ? sizeof(to4) : sizeof(to6)) || send(fd, "", 1, 0) < 0)
		err = errno;
	else if (poll(&(struct pollfd){ .fd = fd }, 1, PROBE_MS) > 0)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	close(fd);
	return err;
}

int pinger_why(struct pinger *p, unsigned bytes, int err)
{
	struct pong pong;
	int why;

	if (err != -ETIMEDOUT && err != -ENETUNREACH)
		return -err;
	for (int i = 0; i < SHORT_TRIES && err == -ETIMEDOUT && bytes > PINGER_LEAST; i++)
		if (!pinger_ask(p, PINGER_LEAST, SHORT_PATIENCE, &pong))
			return E2BIG;
	why = pinger_probe(p);
	return why ? why : -err;
}

static const struct {
	int err;
	const char *cause, *advice;
} causes[] = {
	{ 0, "nothing comes back, nor does anybody refuse it",
	  "let UDP port 4791 in, and out, in the firewalls of both hosts and between them; see docs/hosts.md" },
	{ ETIMEDOUT, "nothing comes back, nor does anybody refuse it",
	  "let UDP port 4791 in, and out, in the firewalls of both hosts and between them; see docs/hosts.md" },
	{ ECONNREFUSED, "the host is there, and nobody has its UDP port 4791",
	  "weft ping --listen there, or a program that reaches other hosts" },
	{ EHOSTUNREACH, "the host does not answer on its link, or a firewall rejects what goes to UDP port 4791",
	  "see that it is up and has this address; and look at the firewalls" },
	{ EACCES, "a firewall rejects what goes to its UDP port 4791", "let UDP port 4791 in there" },
	{ EPERM, "this host's firewall does not let it out", "let UDP port 4791 out here" },
	{ ETIME, "weftd does not answer", "weft down --force ends it" },
	{ EUSERS, "this weftd is another user's", "ask as that user, or without WEFT_DIR, by a weftd of your own" },
	{ E2BIG, "short packets are answered, and those of this size are lost on the way, without a word",
	  "weft doctor --peer finds the longest that pass; give programs that path MTU, or mend what is between the hosts" },
	{ ENETUNREACH, "there is no route to it, or its network refuses", "ip route get ADDRESS shows the route" },
	{ EMSGSIZE, "the path is narrower than that", "ask with a smaller --size" },
	{ EINVAL, "it is an address of this host", "name another host" },
	{ EADDRNOTAVAIL, "weftd does not know the address by which this host reaches it",
	  "weft devices lists those that it knows" },
	{ ENETDOWN, "the port of weft1 is down", "weft link up weft1" },
	{ EAGAIN, "the socket takes no more", "ask more slowly" },
	{ EOPNOTSUPP, "this weftd serves several users, and so has no way to other hosts", "use weft without --system" },
};

const char *pinger_cause(int err)
{
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (causes[i].err == err)
			return causes[i].cause;
	return err == EADDRINUSE ? "UDP port 4791 of this host is another's" : strerror(err);
}

const char *pinger_advice(int err, char *text, size_t room)
{
	if (err == EADDRINUSE) {
		udp_port_holder(ROCE_PORT, text, room);
		return text;
	}
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (causes[i].err == err)
			return causes[i].advice;
	return "weft doctor";
}
