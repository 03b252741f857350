/* Packets of one destination leave in as few system calls as their lengths allow: those of one length, and a shorter one behind
 * them, are one message that the kernel cuts (UDP_SEGMENT), and all messages one call. Payload stays where it is, but for what
 * the program may write at any time. A packet that no socket takes waits in the backlog as a frame, and then goes alone. */
#include "link/udp_parts.h"

#include "base/log.h"
#include "wire/header.h"

#include <errno.h>
#include <linux/udp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	MESSAGE_BYTES = 65535 - IPV4_BYTES - UDP_BYTES,	/* the kernel's limit of a datagram before it is cut */
	HERE = MSG_DONTWAIT | MSG_NOSIGNAL,
};

static void lose(struct udp *u, enum udp_loss cause, unsigned packets)
{
	u->counts.lost[cause] += packets;
}

static int call_sendmmsg(struct udp *u, int lane, struct mmsghdr *message, unsigned messages)
{
	u->counts.send_calls++;
	u->passed = udp_now();
	return (int)syscall(SYS_sendmmsg, u->lane[lane].fd, message, messages, HERE);
}

/* ---- what goes with a message ---- */

static void add_control(struct msghdr *m, int level, int type, const void *value, size_t bytes)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)m->msg_control + m->msg_controllen);

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = type };
	memcpy(CMSG_DATA(c), value, bytes);
	m->msg_controllen += CMSG_SPACE(bytes);
}

/* The source address, the traffic class and the hop limit. segment: bytes of each but the last; 0: one datagram. */
static void set_control(const struct udp *u, struct msghdr *m, const struct packet_path *path, size_t segment)
{
	int tclass = path->tclass, hops = path->hop_limit ? path->hop_limit : 1;
	uint16_t cut = (uint16_t)segment;

	m->msg_controllen = 0;
	if (u->family == AF_INET6) {
		struct in6_pktinfo from = { .ipi6_ifindex = 0 };

		memcpy(&from.ipi6_addr, path->sgid, 16);
		add_control(m, SOL_IPV6, IPV6_PKTINFO, &from, sizeof(from));
	} else {
		struct in_pktinfo from = { .ipi_ifindex = 0 };

		memcpy(&from.ipi_spec_dst, path->sgid + 12, 4);
		add_control(m, SOL_IP, IP_PKTINFO, &from, sizeof(from));
	}
	add_control(m, path->is_ipv4 ? SOL_IP : SOL_IPV6, path->is_ipv4 ? IP_TOS : IPV6_TCLASS, &tclass, sizeof(tclass));
	add_control(m, path->is_ipv4 ? SOL_IP : SOL_IPV6, path->is_ipv4 ? IP_TTL : IPV6_HOPLIMIT, &hops, sizeof(hops));
	if (segment)
		add_control(m, IPPROTO_UDP, UDP_SEGMENT, &cut, sizeof(cut));
}

static bool set_address(struct udp *u, const struct packet_path *path)
{
	return udp_address_set(u->family, path->dgid, ROCE_PORT, &u->tx.to, &u->tx.to_bytes);
}

static void tell_narrow(struct udp *u, const struct packet_path *path)
{
	int mtu = udp_path_mtu(path->sgid, path->dgid);

	if (u->config.narrow)
		u->config.narrow(u->config.owner, path, mtu > 0 ? (unsigned)mtu : 0);
}

/* ---- one frame ---- */

/* 0, -EAGAIN, or as the kernel refuses it. */
static int try_frame(struct udp *u, int lane, const struct packet_path *path, uint8_t *frame, size_t bytes)
{
	size_t kernel = (path->is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
	struct iovec iov = { frame + kernel, bytes - kernel };
	struct mmsghdr *m = &u->tx.message[0];

	if (!roce_udp_repath(frame, bytes, u->lane[lane].port, 0) || !set_address(u, path))
		return -EINVAL;
	m->msg_hdr = (struct msghdr){ .msg_name = &u->tx.to, .msg_namelen = u->tx.to_bytes, .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = u->tx.control[0] };
	set_control(u, &m->msg_hdr, path, 0);
	return call_sendmmsg(u, lane, m, 1) == 1 ? 0 : -errno;
}

/* False: the packet must wait. */
static bool send_alone(struct udp *u, int lane, const struct packet_path *path, uint8_t *frame, size_t bytes)
{
	int err = try_frame(u, lane, path, frame, bytes);

	if (err == -EAGAIN)
		return false;
	if (!err)
		u->counts.sent++;
	else
		lose(u, err == -EMSGSIZE ? UDP_TOO_BIG : UDP_REFUSED, 1);
	if (err == -EMSGSIZE)
		tell_narrow(u, path);
	return true;
}

/* ---- what waits ---- */

/* The descriptor tells when the socket takes more. */
static void wait_for(struct udp *u, int lane)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLONESHOT };

	if (epoll_ctl(u->link.event_fd, EPOLL_CTL_MOD, u->lane[lane].fd, &event))
		epoll_ctl(u->link.event_fd, EPOLL_CTL_ADD, u->lane[lane].fd, &event);
}

static bool keep_frame(struct udp *u, int lane, const struct packet_path *path, const void *frame, size_t bytes)
{
	struct udp_backlog *b = &u->tx.backlog;
	unsigned at = (b->first + b->packets) % UDP_BACKLOG;

	if (b->packets == UDP_BACKLOG)
		return false;
	if (!b->packets++) {
		u->tried = udp_now();
		wait_for(u, lane);
	}
	b->at[at].lane = lane;
	b->at[at].bytes = (uint32_t)bytes;
	b->at[at].path = *path;
	memcpy(b->at[at].frame, frame, bytes);
	return true;
}

static bool keep_packet(struct udp *u, int lane, const struct packet *p)
{
	return keep_frame(u, lane, &p->path, u->tx.frame, packet_build(p, u->tx.frame, sizeof(u->tx.frame)));
}

bool udp_drain(struct udp *u)
{
	struct udp_backlog *b = &u->tx.backlog;

	for (; b->packets; b->packets--, b->first = (b->first + 1) % UDP_BACKLOG) {
		struct udp_waiting *w = &b->at[b->first];

		if (send_alone(u, w->lane, &w->path, w->frame, w->bytes))
			continue;
		u->tried = udp_now();
		wait_for(u, w->lane);
		return false;
	}
	return true;
}

unsigned udp_room(struct link *l)
{
	struct udp *u = udp_of(l);

	if (u->tx.backlog.packets && (udp_now() - u->tried < UDP_LOOK_NS || !udp_drain(u)))
		return 0;
	return UDP_BACKLOG;
}

/* ---- a batch ---- */

static size_t socket_bytes(const struct packet *p)
{
	return packet_bytes(p) - (p->path.is_ipv4 ? IPV4_BYTES : IPV6_BYTES) - UDP_BYTES;
}

/* How many of the packets are one message. */
static unsigned count_segments(const struct udp *u, const struct packet *const p[], unsigned n)
{
	size_t first = socket_bytes(p[0]), bytes = first, total = first;
	unsigned k = 1;

	for (; k < n && u->can_segment && bytes == first; k++) {
		bytes = socket_bytes(p[k]);
		if (bytes > first || total + bytes > MESSAGE_BYTES)
			break;
		total += bytes;
	}
	return k;
}

/* What a READ reads is the program's to write meanwhile, and the ICRC must be of the bytes that leave. */
static bool may_change(const struct packet *p)
{
	return opcode_row(p->opcode)->op == OP_READ_RESPONSE;
}

static void copy_payload(struct udp_send *tx, unsigned slot, const struct packet *p)
{
	uint8_t *at = tx->copy[slot];

	for (unsigned i = 0; i < p->payload_iovs; i++) {
		if (p->payload[i].iov_len)
			memcpy(at, p->payload[i].iov_base, p->payload[i].iov_len);
		at += p->payload[i].iov_len;
	}
	tx->copied[slot] = (struct iovec){ tx->copy[slot], p->payload_bytes };
}

/* Returns how many elements of `iov` the packet takes. */
static unsigned build(struct udp_send *tx, unsigned slot, const struct packet *p, uint16_t sport, uint16_t ip_id,
		      struct iovec *iov)
{
	struct roce_udp *d = &tx->datagram[slot];
	const struct iovec *payload = p->payload;
	unsigned iovs = p->payload_iovs;

	if (may_change(p)) {
		copy_payload(tx, slot, p);
		payload = &tx->copied[slot];
		iovs = 1;
	}
	roce_udp_build(p, payload, iovs, sport, ip_id, d);
	*iov++ = (struct iovec){ d->header + d->kernel_bytes, (size_t)d->header_bytes - d->kernel_bytes };
	if (iovs)
		memcpy(iov, payload, iovs * sizeof(*iov));
	iov[iovs] = (struct iovec){ d->trailer, d->trailer_bytes };
	return iovs + 2;
}

/* Messages of the first packets; how many packets they have is the last element of tx->first. Returns how many messages. */
static unsigned build_messages(struct udp *u, int lane, const struct packet *const p[], unsigned n)
{
	struct udp_send *tx = &u->tx;
	unsigned messages = 0, iovs = 0, at = 0;

	for (; at < n; messages++) {
		unsigned end = at + count_segments(u, p + at, n - at), from = iovs, begin = at;

		for (; at < end && iovs + p[at]->payload_iovs + 2 <= UDP_IOVS; at++)
			iovs += build(tx, at, p[at], u->lane[lane].port, (uint16_t)(at - begin), tx->iov + iovs);
		if (at == begin)
			break;
		tx->first[messages] = begin;
		tx->message[messages].msg_hdr = (struct msghdr){
			.msg_name = &tx->to, .msg_namelen = tx->to_bytes, .msg_iov = tx->iov + from, .msg_iovlen = iovs - from,
			.msg_control = tx->control[messages] };
		set_control(u, &tx->message[messages].msg_hdr, &p[begin]->path, at - begin > 1 ? socket_bytes(p[begin]) : 0);
	}
	tx->first[messages] = at;
	return messages;
}

/* The kernel refused this message, which has several segments: one by one. Where they go so, and none of them is too long for its
 * path, the kernel or the device cannot cut: kernels refuse segments that are too long by EMSGSIZE or by EINVAL. */
static void send_uncut(struct udp *u, int lane, const struct packet *const p[], unsigned n, int error)
{
	uint64_t sent = u->counts.sent, too_big = u->counts.lost[UDP_TOO_BIG];

	for (unsigned i = 0; i < n; i++) {
		size_t bytes = packet_build(p[i], u->tx.frame, sizeof(u->tx.frame));

		if (!u->tx.backlog.packets && send_alone(u, lane, &p[i]->path, u->tx.frame, bytes))
			continue;
		if (!keep_frame(u, lane, &p[i]->path, u->tx.frame, bytes))
			lose(u, UDP_REFUSED, 1);
	}
	if (u->counts.sent > sent && u->counts.lost[UDP_TOO_BIG] == too_big && error != EMSGSIZE)
		u->can_segment = false;
}

/* The kernel did not take this message. False: it, and what follows, must wait. */
static bool settle_refusal(struct udp *u, int lane, const struct packet *const p[], unsigned n, int error)
{
	if (error == EAGAIN)
		return false;
	if (n > 1) {
		send_uncut(u, lane, p, n, error);
	} else {
		lose(u, error == EMSGSIZE ? UDP_TOO_BIG : UDP_REFUSED, 1);
		if (error == EMSGSIZE)
			tell_narrow(u, &p[0]->path);
	}
	return true;
}

/* How many of at most UDP_BATCH packets were sent or lost; those behind must wait. 0 < n. */
static unsigned send_batch(struct udp *u, int lane, const struct packet *const p[], unsigned n)
{
	unsigned messages = build_messages(u, lane, p, n);
	const unsigned *first = u->tx.first;
	int sent;

	if (weft_bug_on(!messages)) {	/* more pieces than any packet has */
		lose(u, UDP_REFUSED, 1);
		return 1;
	}
	sent = call_sendmmsg(u, lane, u->tx.message, messages);
	if (sent > 0) {
		u->counts.sent += first[sent];
		return first[sent];
	}
	return settle_refusal(u, lane, p, first[1], errno) ? first[1] : 0;
}

static bool is_same_way(const struct packet_path *a, const struct packet_path *b)
{
	return roce_udp_flow(a->udp_sport) == roce_udp_flow(b->udp_sport) && !memcmp(a->dgid, b->dgid, 16) &&
	       !memcmp(a->sgid, b->sgid, 16);
}

/* All by one path. */
static unsigned send_alike(struct udp *u, const struct packet *const p[], unsigned n)
{
	int lane = udp_lane_for(u, p[0]->dest_qpn, &p[0]->path);
	unsigned done = 0, some;

	if (lane < 0 || weft_bug_on(p[0]->form != PACKET_ROCE) || !set_address(u, &p[0]->path)) {
		lose(u, UDP_REFUSED, n);
		return n;
	}
	while (done < n && !u->tx.backlog.packets) {
		some = send_batch(u, lane, p + done, n - done < UDP_BATCH ? n - done : UDP_BATCH);
		done += some;
		if (!some)
			break;
	}
	while (done < n && keep_packet(u, lane, p[done]))
		done++;
	return done;
}

unsigned udp_send(struct link *l, unsigned device, const struct packet *const p[], unsigned n)
{
	struct udp *u = udp_of(l);
	unsigned done = 0, alike, sent;

	(void)device;
	for (; done < n; done += sent) {
		for (alike = 1; done + alike < n && is_same_way(&p[done]->path, &p[done + alike]->path); alike++)
			;
		sent = send_alike(u, p + done, alike);
		if (sent < alike)
			return done + sent;
	}
	return done;
}

bool udp_send_frame(struct link *l, unsigned kind, const void *frame, size_t bytes)
{
	struct udp *u = udp_of(l);
	struct packet_path path;
	size_t header;
	int lane;

	(void)kind;
	if (packet_parse_path(&path, frame, bytes, &header) || bytes < header + ROCE_UDP_LEAST) {
		lose(u, UDP_REFUSED, 1);	/* so spoilt that it leads nowhere */
		return true;
	}
	lane = udp_lane_for(u, (uint32_t)wire_get((const uint8_t *)frame + header, BTH_DEST_QPN), &path);
	if (lane < 0) {
		lose(u, UDP_REFUSED, 1);
		return true;
	}
	memcpy(u->tx.frame, frame, bytes);
	return (!u->tx.backlog.packets && send_alone(u, lane, &path, u->tx.frame, bytes)) ||
	       keep_frame(u, lane, &path, u->tx.frame, bytes);
}
