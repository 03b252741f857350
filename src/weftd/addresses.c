/* What the kernel says about interfaces, in the form of the GID table. */
#include "weftd/addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void set_ipv4(uint8_t raw[16], const struct sockaddr *sa)
{
	memset(raw, 0, 10);
	raw[10] = raw[11] = 0xff;
	memcpy(raw + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
}

static void set_ipv6(uint8_t raw[16], const struct sockaddr *sa)
{
	memcpy(raw, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
}

static int take(struct page_address *to, int n, int room, const struct ifaddrs *i,
		void (*set)(uint8_t *, const struct sockaddr *))
{
	struct page_address *a = &to[n];

	if (n >= room)
		return n;
	memset(a, 0, sizeof(*a));
	set(a->raw, i->ifa_addr);
	a->ifindex = if_nametoindex(i->ifa_name);
	snprintf(a->ifname, sizeof(a->ifname), "%s", i->ifa_name);
	return n + 1;
}

static bool fits(const struct ifaddrs *i, int family, bool loopback)
{
	return i->ifa_addr && i->ifa_addr->sa_family == family && i->ifa_flags & IFF_UP &&
	       !(i->ifa_flags & IFF_LOOPBACK) == !loopback;
}

int addresses_read(struct page_address *to, int room)
{
	struct ifaddrs *all;
	int n = 0;

	if (getifaddrs(&all))
		return -errno;
	for (struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (fits(i, AF_INET, false))
			n = take(to, n, room, i, set_ipv4);
	}
	for (struct ifaddrs *i = all; i && n == 0; i = i->ifa_next) {
		if (fits(i, AF_INET, true))
			n = take(to, n, room, i, set_ipv4);
	}
	for (struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (fits(i, AF_INET6, false))
			n = take(to, n, room, i, set_ipv6);
	}
	freeifaddrs(all);
	return n;
}

int addresses_watch(void)
{
	struct sockaddr_nl address = {
		.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

void addresses_drain(int fd)
{
	char buffer[8192];

	/* ENOBUFS says that some were lost, which is no matter: everything is read anew */
	while (recv(fd, buffer, sizeof(buffer), 0) > 0 || errno == ENOBUFS)
		;
}

/* FNV-1a, 64 bits: spreads a short text over the word. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *p = data;

	while (bytes--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

static size_t read_machine_id(char *to, size_t room)
{
	int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, to, room);

	if (fd >= 0)
		close(fd);
	if (n > 1)
		return (size_t)n;
	if (gethostname(to, room))
		return 0;
	return strnlen(to, room);
}

uint64_t addresses_guid(uint32_t uid)
{
	char id[64];
	uint64_t h = hash(0xcbf29ce484222325, id, read_machine_id(id, sizeof(id)));

	h = hash(h, &uid, sizeof(uid));
	/* the last octet counts this host's devices */
	return (h & 0x00ffffffffffff00) | 0x0200000000000000;
}
