/* getifaddrs(3) at a host of a fabric: before the machine's interfaces come ib0, ib1 and so on, one for each port of the host,
 * with the port's address, as IPoIB would give it. libfabric binds to what stands there and to nothing else. The tree has the
 * addresses (weftd/sysfs.c); a process at no host finds none. */
#include "next.h"
#include "path.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not const, as struct ifaddrs has it. An entry whose name lies here is ours. */
static char names[][IFNAMSIZ] = {
	"ib0", "ib1", "ib2", "ib3", "ib4", "ib5", "ib6", "ib7", "ib8", "ib9", "ib10", "ib11", "ib12", "ib13", "ib14", "ib15",
};

enum { INTERFACES = sizeof(names) / sizeof(names[0]) };	/* SYSFS_PORTS */

struct interface {
	struct ifaddrs ifa;
	struct sockaddr_in address, netmask;
};

/* Asked of the kernel directly: open itself is one of our calls. */
static bool read_address(const char *name, struct in_addr *address)
{
	char below[32], text[INET_ADDRSTRLEN + 1];
	struct shim_path path;
	ssize_t n;
	int fd;

	snprintf(below, sizeof(below), "/net/%s", name);
	if (!shim_tree_path(below, &path))
		return false;
	fd = (int)syscall(SYS_openat, AT_FDCWD, path.text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return inet_pton(AF_INET, text, address) == 1;
}

/* All hosts' ports of one number are of one network: 127.PORT.X.Y (fabric/host.h). */
static void fill(struct interface *to, char *name, struct in_addr address)
{
	to->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = address };
	to->netmask = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xffff0000) };
	to->ifa = (struct ifaddrs){
		.ifa_next = &to[1].ifa, .ifa_name = name, .ifa_flags = IFF_UP | IFF_RUNNING,
		.ifa_addr = (struct sockaddr *)&to->address, .ifa_netmask = (struct sockaddr *)&to->netmask,
	};
}

static bool is_ours(const struct ifaddrs *ifa)
{
	return ifa && ifa->ifa_name >= names[0] && ifa->ifa_name < names[INTERFACES];
}

SHIM_EXPORT int getifaddrs(struct ifaddrs **list);
SHIM_EXPORT int getifaddrs(struct ifaddrs **list)
{
	__typeof__(&getifaddrs) next = SHIM_NEXT(getifaddrs);
	struct in_addr address[INTERFACES];
	struct interface *ours;
	int n = 0, saved = errno;

	if (!next || next(list))
		return -1;
	while (n < INTERFACES && read_address(names[n], &address[n]))
		n++;
	errno = saved;
	ours = n ? malloc((size_t)n * sizeof(*ours)) : NULL;
	if (!ours)	/* without room for them the machine's are told all the same */
		return 0;
	for (int i = 0; i < n; i++)
		fill(&ours[i], names[i], address[i]);
	ours[n - 1].ifa.ifa_next = *list;
	*list = &ours->ifa;
	return 0;
}

SHIM_EXPORT void freeifaddrs(struct ifaddrs *list);
SHIM_EXPORT void freeifaddrs(struct ifaddrs *list)
{
	__typeof__(&freeifaddrs) next = SHIM_NEXT(freeifaddrs);
	struct ifaddrs *others = list;

	while (is_ours(others))
		others = others->ifa_next;
	if (next)
		next(others);
	if (others != list)
		free(list);
}
