/* What arrives: up to 8 messages in one call, each a packet, or as many of one length as the kernel put together (UDP_GRO). Each
 * becomes a whole frame where it lies: its IP and UDP headers are written in front, over the end of the packet before it, which
 * nobody reads any more. What is not a sound packet for this process ends here and is counted. */
#include "link/udp_parts.h"

#include "base/qpn.h"
#include "wire/addr.h"
#include "wire/header.h"

#include <linux/udp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void udp_receive_init(struct udp *u)
{
	struct udp_receive *rx = &u->rx;

	for (unsigned i = 0; i < UDP_MESSAGES; i++) {
		rx->iov[i] = (struct iovec){ rx->memory[i] + ROCE_UDP_HEADERS, UDP_MESSAGE_BYTES };
		rx->message[i].msg_hdr = (struct msghdr){ .msg_name = &rx->from[i], .msg_iov = &rx->iov[i], .msg_iovlen = 1,
			.msg_control = rx->control[i] };
	}
}

/* Asks the kernel. False: nothing has arrived. Where fewer came than there is room for, no more is there, and the next call is
 * for what comes later. */
static bool look(struct udp *u, wtime now)
{
	struct udp_receive *rx = &u->rx;
	long n;

	for (unsigned i = 0; i < UDP_MESSAGES; i++) {
		rx->message[i].msg_hdr.msg_namelen = sizeof(rx->from[i]);
		rx->message[i].msg_hdr.msg_controllen = sizeof(rx->control[i]);
	}
	u->counts.receive_calls++;
	n = syscall(SYS_recvmmsg, u->config.fd, rx->message, UDP_MESSAGES, MSG_DONTWAIT, NULL);
	rx->messages = n > 0 ? (unsigned)n : 0;
	atomic_store_explicit(&rx->arrival, n > 0, memory_order_relaxed);
	rx->at = 0;
	rx->offset = 0;
	if (n < UDP_MESSAGES)
		u->looked = now;
	if (n > 0)
		u->passed = now;
	return n > 0;
}

bool udp_arrived(struct udp *u)
{
	return u->rx.at < u->rx.messages || look(u, udp_now());
}

/* The first byte of a number that the kernel gives as one byte or as an int. */
static uint8_t low_byte(const struct cmsghdr *c)
{
	int value = 0;

	if (c->cmsg_len < CMSG_LEN(sizeof(value)))
		return *CMSG_DATA(c);
	memcpy(&value, CMSG_DATA(c), sizeof(value));
	return (uint8_t)value;
}

static void read_control(struct udp_receive *rx, const struct cmsghdr *c)
{
	struct in6_pktinfo to6;
	struct in_pktinfo to;
	int segment;

	if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
		memcpy(&segment, CMSG_DATA(c), sizeof(segment));
		if (segment > 0)
			rx->segment = (size_t)segment;
	} else if (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(&to6, CMSG_DATA(c), sizeof(to6));
		memcpy(rx->path.dgid, &to6.ipi6_addr, 16);
	} else if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_PKTINFO) {
		memcpy(&to, CMSG_DATA(c), sizeof(to));
		gid_from_ipv4(rx->path.dgid, &to.ipi_addr);
	} else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_TOS) ||
		   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
		rx->path.tclass = low_byte(c);
	} else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_TTL) ||
		   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
		rx->path.hop_limit = low_byte(c);
	}
}

/* Where the message came from and went to, and how long its segments are. */
static void read_message(struct udp_receive *rx)
{
	struct msghdr *m = &rx->message[rx->at].msg_hdr;

	rx->segment = rx->message[rx->at].msg_len;
	rx->path = (struct packet_path){ .has_grh = true };
	udp_address_get(&rx->from[rx->at], rx->path.sgid, &rx->path.udp_sport);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		read_control(rx, c);
	rx->path.is_ipv4 = gid_is_ipv4(rx->path.sgid);
}

/* The next packet as it came, in *bytes bytes from its BTH on; NULL: none is left. */
static uint8_t *next_segment(struct udp_receive *rx, size_t *bytes)
{
	uint8_t *at;
	size_t left;

	if (rx->at == rx->messages)
		return NULL;
	if (!rx->offset) {
		read_message(rx);
		rx->number = 0;
	}
	rx->path.ip_id = rx->number++;
	at = rx->memory[rx->at] + ROCE_UDP_HEADERS + rx->offset;
	left = rx->message[rx->at].msg_len - rx->offset;
	*bytes = left < rx->segment ? left : rx->segment;
	rx->offset += *bytes;
	if (*bytes == left) {
		rx->at++;
		rx->offset = 0;
	}
	return at;
}

/* What is for a group comes to each socket that hears it. */
static bool is_ours(const struct udp *u, const uint8_t *bth)
{
	uint32_t qpn = (uint32_t)wire_get(bth, BTH_DEST_QPN), slot = qpn_slot(qpn);
	const uint8_t *to = u->rx.path.dgid;

	if (qpn == MULTICAST_QPN)
		return gid_is_multicast(to) || gid_is_ipv4_multicast(to);
	return !u->config.members || (slot & (u->config.members - 1)) == u->config.member;
}

/* Its whole frame, or NULL after it was counted as lost. */
static const void *take(struct udp *u, uint8_t *bth, size_t *bytes)
{
	enum packet_error error;
	size_t header;

	if (*bytes >= ROCE_UDP_LEAST && !is_ours(u, bth)) {
		u->counts.lost[UDP_MISROUTED]++;
		return NULL;
	}
	error = roce_udp_frame(&u->solver, &u->rx.path, bth, *bytes, &header);
	if (error) {
		u->counts.lost[error == PACKET_BAD_ICRC ? UDP_UNSOUND : UDP_MALFORMED]++;
		return NULL;
	}
	u->counts.received++;
	*bytes += header;
	return bth - header;
}

/* Asks the kernel, unless it said just now that there is nothing, and nothing is likely to come. */
static bool look_again(struct udp *u, bool is_likely)
{
	wtime now = udp_now();

	if (now - u->looked < UDP_LOOK_NS && !(is_likely && now - u->passed < UDP_EAGER_NS))
		return false;
	return look(u, now);
}

void udp_look(struct link *l)
{
	struct udp *u = udp_of(l);

	if (u->tx.backlog.packets)
		udp_room(l);	/* which sends what waits: a program that polls alone needs no more room for it */
	if (!u->rx.arrival)
		look_again(u, true);
}

const void *udp_receive(struct link *l, unsigned *kind, size_t *bytes)
{
	struct udp *u = udp_of(l);
	const void *frame;
	uint8_t *bth;

	*kind = link_kind(u->config.device, PACKET_ROCE);
	if (u->rx.at == u->rx.messages && !look_again(u, false)) {
		atomic_store_explicit(&u->rx.arrival, 0, memory_order_relaxed);
		return NULL;
	}
	while ((bth = next_segment(&u->rx, bytes)))
		if ((frame = take(u, bth, bytes)))
			return frame;
	return NULL;
}
