/* The first socket is bound without SO_REUSEPORT, which fails while anybody has the port: with it, a second group of the same
 * user would join the first one's sockets. */
#include "link/udp_group.h"

#include "base/array.h"
#include "base/qpn.h"
#include "link/udp_parts.h"
#include "wire/addr.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MEMBERS_LEFT: two instructions for each, of 4096 at most. LOOKED_THROUGH: Linux looks for the one listener of a multicast
 * datagram before it routes it, where so few sockets have the port, and then has the group's program choose in its place
 * (udp_v4_early_demux, inet_steal_sock). */
enum { MEMBERS_MOST = QPN_SLOTS, QPN_WORD = 4, DRAIN = 4096, MEMBERS_LEFT = 512, LOOKED_THROUGH = 10 };

struct udp_member {
	int fd;			/* owned; the process has a duplicate */
	bool is_issued;
	struct heard {
		uint8_t gid[16];
		uint32_t ifindex;
	} *heard;		/* owned: multicast groups */
	uint32_t heard_count, heard_room;
	uint32_t drops;		/* the kernel's count, as far as it is told or was the last process's */
};

struct udp_group {
	uint16_t port;
	sa_family_t family;
	unsigned members, opened;
	uint64_t dead_letters;	/* of members that were issued again since */
	struct udp_member member[];
};

/* The program sees the datagram behind its UDP header. Word 1 of a BTH ends with the destination QP (IBA 9.2); a slot is the
 * upper half of its number. What is too short for it is member 0's, which drops it. */
static int steer(int fd, unsigned members)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ROCE_UDP_LEAST, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_WORD),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QPN_INDEX_BITS),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, members - 1),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) ? -errno : 0;
}

/* For members that stay when the owner goes: each by its place in the group, which is no more its number. What is for others
 * goes to any, which drops it: the program's answer is beyond the group. */
static void steer_left(const struct udp_group *g, const unsigned *place, unsigned left)
{
	struct sock_filter code[3 + 2 * MEMBERS_LEFT + 1];
	struct sock_fprog program = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_WORD);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QPN_INDEX_BITS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, g->members - 1);
	for (unsigned i = 0; i < left && i < MEMBERS_LEFT; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, place[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, i);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	program.len = n;
	setsockopt(g->member[place[0]].fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

static int bind_any(int fd, sa_family_t family, uint16_t port)
{
	static const uint8_t any[2][16] = { { 0 }, { [10] = 0xff, [11] = 0xff } };
	union udp_address address;
	socklen_t bytes;

	udp_address_set(family, any[family == AF_INET], port, &address, &bytes);
	return bind(fd, &address.any, bytes) ? -errno : 0;
}

/* Without it a socket gets what comes for groups that any socket of the host has joined. */
static void hear_own_groups_only(int fd, sa_family_t family)
{
	const int off = 0;

	setsockopt(fd, SOL_IP, IP_MULTICAST_ALL, &off, sizeof(off));
	if (family == AF_INET6)
		setsockopt(fd, SOL_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off));
}

static int open_socket(sa_family_t family)
{
	int off = 0, fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (family == AF_INET6)
		setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	hear_own_groups_only(fd, family);
	return fd;
}

/* Deaf from its first moment on, as nobody reads it yet. */
static int open_member(struct udp_group *g)
{
	const int on = 1;
	bool is_first = g->opened == 0;
	int fd = open_socket(g->family), err;

	if (fd < 0)
		return fd;
	err = udp_deafen(fd);
	if (!err && !is_first && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)))
		err = -errno;
	if (!err)
		err = bind_any(fd, g->family, g->port);
	if (!err && is_first && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)))
		err = -errno;
	/* the program is the group's, which exists from the second member on; for one alone it would steer nothing */
	if (!err && g->opened == 1)
		err = steer(fd, g->members);
	if (err) {
		close(fd);
		return err;
	}
	g->member[g->opened++] = (struct udp_member){ .fd = fd };
	return 0;
}

static sa_family_t family_here(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return AF_INET;
	close(fd);
	return AF_INET6;
}

int udp_group_open(uint16_t port, unsigned members, struct udp_group **group)
{
	struct udp_group *g;
	int err;

	if (!members || members > MEMBERS_MOST || members & (members - 1))
		return -EINVAL;
	g = calloc(1, sizeof(*g) + members * sizeof(g->member[0]));
	if (!g)
		return -ENOMEM;
	g->port = port;
	g->members = members;
	g->family = family_here();
	err = open_member(g);
	if (err) {
		free(g);
		return err;
	}
	*group = g;
	return 0;
}

static void free_group(struct udp_group *g)
{
	for (unsigned i = 0; i < g->opened; i++)
		free(g->member[i].heard);
	free(g);
}

void udp_group_close(struct udp_group *g)
{
	for (unsigned i = 0; i < g->opened; i++)
		close(g->member[i].fd);
	free_group(g);
}

void udp_group_leave(struct udp_group *g)
{
	unsigned place[MEMBERS_MOST], left = g->opened;

	for (unsigned i = 0; i < left; i++)
		place[i] = i;
	/* the kernel puts the last one of the group in the place of what closes (reuseport_detach_sock). From the last place on,
	 * that one is issued or the same */
	for (unsigned i = left; i-- > 0;) {
		if (g->member[i].is_issued)
			continue;
		close(g->member[i].fd);
		g->member[i].fd = -1;
		place[i] = place[--left];
	}
	if (left)
		steer_left(g, place, left);
	for (unsigned i = 0; i < g->opened; i++)
		if (g->member[i].fd >= 0)
			close(g->member[i].fd);
	free_group(g);
}

unsigned udp_group_members(const struct udp_group *g)
{
	return g->members;
}

static uint32_t drops_of(const struct udp_member *m)
{
	uint32_t info[SK_MEMINFO_VARS] = { 0 };
	socklen_t bytes = sizeof(info);

	getsockopt(m->fd, SOL_SOCKET, SO_MEMINFO, info, &bytes);
	return info[SK_MEMINFO_DROPS];
}

static int change_ipv4(int fd, const uint8_t gid[16], uint32_t ifindex, bool hears)
{
	struct ip_mreqn group = { .imr_ifindex = (int)ifindex };

	memcpy(&group.imr_multiaddr, gid + 12, 4);
	return setsockopt(fd, SOL_IP, hears ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &group, sizeof(group)) ? -errno : 0;
}

static int change_ipv6(int fd, const uint8_t gid[16], uint32_t ifindex, bool hears)
{
	struct ipv6_mreq group = { .ipv6mr_interface = ifindex };

	memcpy(&group.ipv6mr_multiaddr, gid, 16);
	return setsockopt(fd, SOL_IPV6, hears ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &group, sizeof(group)) ? -errno : 0;
}

static int change(const struct udp_member *m, const struct heard *what, bool hears)
{
	return (gid_is_ipv4(what->gid) ? change_ipv4 : change_ipv6)(m->fd, what->gid, what->ifindex, hears);
}

/* Packets that arrived before the socket accepted none. Bounded: nothing more arrives. */
static unsigned drain(int fd)
{
	unsigned n = 0;
	char byte;

	while (n < DRAIN && recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0)
		n++;
	return n;
}

int udp_group_issue(struct udp_group *g, unsigned member)
{
	const int unused = 0;
	struct udp_member *m;
	uint32_t drops;
	int err = 0;

	if (member >= g->members)
		return -EINVAL;
	while (!err && g->opened <= member)
		err = open_member(g);
	if (err)
		return err;
	m = &g->member[member];
	if (m->is_issued)
		return -EBUSY;
	drops = drops_of(m);
	g->dead_letters += drops - m->drops;
	m->drops = drops;
	if (setsockopt(m->fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)))
		return -errno;
	m->is_issued = true;
	return m->fd;
}

void udp_group_retire(struct udp_group *g, unsigned member)
{
	struct udp_member *m = &g->member[member];

	if (member >= g->opened || !m->is_issued)
		return;
	m->is_issued = false;
	for (uint32_t i = 0; i < m->heard_count; i++)
		change(m, &m->heard[i], false);
	m->heard_count = 0;
	m->drops = drops_of(m);
	udp_deafen(m->fd);
	g->dead_letters += drain(m->fd);
}

int udp_group_hear(struct udp_group *g, unsigned member, const uint8_t gid[16], uint32_t ifindex)
{
	struct udp_member *m = &g->member[member];
	struct heard what = { .ifindex = ifindex };
	int err = 0;

	if (member >= g->opened)
		return -EINVAL;
	while (!err && g->opened < g->members && g->opened <= LOOKED_THROUGH)
		err = open_member(g);
	if (err)
		return err;
	memcpy(what.gid, gid, sizeof(what.gid));
	for (uint32_t i = 0; i < m->heard_count; i++)
		if (m->heard[i].ifindex == ifindex && memcmp(m->heard[i].gid, gid, 16) == 0)
			return 0;
	err = array_reserve(&m->heard, &m->heard_room, m->heard_count + 1, sizeof(*m->heard));
	if (!err)
		err = change(m, &what, true);
	if (!err)
		m->heard[m->heard_count++] = what;
	return err;
}

void udp_group_unhear(struct udp_group *g, unsigned member, const uint8_t gid[16])
{
	struct udp_member *m = &g->member[member];
	uint32_t left = 0;

	if (member >= g->opened)
		return;
	for (uint32_t i = 0; i < m->heard_count; i++) {
		if (memcmp(m->heard[i].gid, gid, 16) == 0)
			change(m, &m->heard[i], false);
		else
			m->heard[left++] = m->heard[i];
	}
	m->heard_count = left;
}

uint64_t udp_group_dead_letters(const struct udp_group *g)
{
	uint64_t n = g->dead_letters;

	for (unsigned i = 0; i < g->opened; i++)
		if (!g->member[i].is_issued)
			n += drops_of(&g->member[i]) - g->member[i].drops;
	return n;
}
