/* Sockets of the UDP link: one for both families where there is IPv6, whose addresses are then GIDs as they stand. */
#include "link/udp_parts.h"

#include "base/qpn.h"
#include "wire/addr.h"
#include "wire/header.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/udp.h>
#include <string.h>
#include <unistd.h>

enum {
	BUFFER_BYTES = 4 << 20,		/* asked for; the kernel gives what net.core.rmem_max and wmem_max allow */
	MOST_HEADERS = ROCE_UDP_HEADERS + 12 + 4 + 16 + 4 + 4,	/* BTH, XRCETH, RETH, ImmDt, ICRC */
};

static void set(int fd, int level, int name, int value)
{
	/* what an old kernel does not know, the link does without */
	setsockopt(fd, level, name, &value, sizeof(value));
}

void udp_set_options(int fd, sa_family_t family, bool receives, bool gro)
{
	set(fd, SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	if (family == AF_INET6)
		set(fd, SOL_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	/* members on this host have what is sent to a group of its sender */
	set(fd, SOL_IP, IP_MULTICAST_LOOP, 0);
	if (family == AF_INET6)
		set(fd, SOL_IPV6, IPV6_MULTICAST_LOOP, 0);
	if (!receives) {
		set(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
		return;
	}
	set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
	set(fd, SOL_IP, IP_RECVTOS, 1);
	set(fd, SOL_IP, IP_RECVTTL, 1);
	if (family == AF_INET6) {
		set(fd, SOL_IPV6, IPV6_RECVPKTINFO, 1);
		set(fd, SOL_IPV6, IPV6_RECVTCLASS, 1);
		set(fd, SOL_IPV6, IPV6_RECVHOPLIMIT, 1);
		set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);	/* A17.3.1: the checksum is 0, which RFC 8200 forbids */
	} else {
		set(fd, SOL_IP, IP_PKTINFO, 1);
	}
	if (gro)
		set(fd, IPPROTO_UDP, UDP_GRO, 1);
}

bool udp_address_set(sa_family_t family, const uint8_t gid[16], uint16_t port, union udp_address *address, socklen_t *bytes)
{
	memset(address, 0, sizeof(*address));
	address->any.sa_family = family;
	if (family == AF_INET6) {
		address->v6.sin6_port = htons(port);
		memcpy(&address->v6.sin6_addr, gid, 16);
		*bytes = sizeof(address->v6);
		return true;
	}
	address->v4.sin_port = htons(port);
	memcpy(&address->v4.sin_addr, gid + 12, 4);
	*bytes = sizeof(address->v4);
	return gid_is_ipv4(gid);
}

void udp_address_get(const union udp_address *address, uint8_t gid[16], uint16_t *port)
{
	if (address->any.sa_family == AF_INET6) {
		memcpy(gid, &address->v6.sin6_addr, 16);
		*port = ntohs(address->v6.sin6_port);
	} else {
		gid_from_ipv4(gid, (const uint8_t *)&address->v4.sin_addr);
		*port = ntohs(address->v4.sin_port);
	}
}

int udp_deafen(int fd)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { 1, &none };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

static void open_lane(const struct udp *u, struct udp_lane *lane)
{
	static const uint8_t any_ipv4[16] = { [10] = 0xff, [11] = 0xff };
	static const uint8_t any[16];
	union udp_address address;
	socklen_t bytes;
	uint8_t gid[16];
	int fd = socket(u->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return;
	udp_set_options(fd, u->family, false, false);
	if (u->family == AF_INET6)
		set(fd, SOL_IPV6, IPV6_V6ONLY, 0);
	udp_address_set(u->family, u->family == AF_INET6 ? any : any_ipv4, 0, &address, &bytes);
	if (udp_deafen(fd) || bind(fd, &address.any, bytes) || getsockname(fd, &address.any, &bytes)) {
		close(fd);
		return;
	}
	udp_address_get(&address, gid, &lane->port);
	lane->fd = fd;
}

/* A receiver's kernel joins datagrams of one length and source port, and gives them to the process that the first is for. So
 * packets to different processes of one host should differ in their port, which the low bits of their slot see to as far as
 * there are ports; and QPs to one process too, for the hashes of switches (A17.9.5). QP1 has a port of its own: what is for it
 * is the same host's whatever process sends data meanwhile. */
static unsigned choose_lane(uint32_t dest_qpn, uint16_t sport)
{
	unsigned process = qpn_slot(dest_qpn) & 3, flow = roce_udp_flow(sport);

	return qpn_slot(dest_qpn) ? process * ROCE_UDP_FLOWS + flow : UDP_LANES - 1;
}

int udp_lane_for(struct udp *u, uint32_t dest_qpn, const struct packet_path *path)
{
	unsigned lane = choose_lane(dest_qpn, path->udp_sport);

	if (u->lane[lane].fd < 0)
		open_lane(u, &u->lane[lane]);
	for (unsigned i = 0; u->lane[lane].fd < 0; i++) {	/* no descriptor is left: any that is open */
		if (i == UDP_LANES)
			return -1;
		lane = (lane + 1) % UDP_LANES;
	}
	return (int)lane;
}

/* A socket that would send from `from` to `to`; from NULL: whichever address the kernel chooses. -errno: no packet leaves so. */
static int connect_between(const uint8_t *from, const uint8_t to[16])
{
	sa_family_t family = gid_is_ipv4(to) ? AF_INET : AF_INET6;
	union udp_address address;
	socklen_t bytes;
	int fd, err = 0;

	if (from && gid_is_ipv4(from) != gid_is_ipv4(to))
		return -EAFNOSUPPORT;
	fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (from && udp_address_set(family, from, 0, &address, &bytes) && bind(fd, &address.any, bytes))
		err = -errno;
	if (!err && udp_address_set(family, to, ROCE_PORT, &address, &bytes) && connect(fd, &address.any, bytes))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int udp_path_mtu(const uint8_t sgid[16], const uint8_t dgid[16])
{
	bool is_ipv4 = gid_is_ipv4(dgid);
	int level = is_ipv4 ? SOL_IP : SOL_IPV6, name = is_ipv4 ? IP_MTU : IPV6_MTU, mtu = 0, err = 0;
	socklen_t size = sizeof(mtu);
	int fd = connect_between(sgid, dgid);

	if (fd < 0)
		return fd;
	if (getsockopt(fd, level, name, &mtu, &size))
		err = -errno;
	close(fd);
	return err ? err : mtu;
}

int udp_source(const uint8_t dgid[16], uint8_t sgid[16])
{
	union udp_address address = { 0 };
	socklen_t bytes = sizeof(address);
	int fd = connect_between(NULL, dgid), err = 0;
	uint16_t port;

	if (fd < 0)
		return fd;
	if (getsockname(fd, &address.any, &bytes))
		err = -errno;
	else
		udp_address_get(&address, sgid, &port);
	close(fd);
	return err;
}

unsigned udp_payload_mtu(unsigned mtu_bytes)
{
	for (unsigned mtu = PACKET_MAX_PAYLOAD; mtu >= 256; mtu /= 2)
		if (mtu + MOST_HEADERS <= mtu_bytes)
			return mtu;
	return 0;
}
