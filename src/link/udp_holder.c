/* Who has a UDP port: the sockets of the network namespace are in /proc/net/udp and udp6, and whose they are in the descriptors
 * of the processes, as far as the caller may see them. */
#include "link/udp_group.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 512, NAME = 64 };

struct holder {
	unsigned long inode;	/* 0: a socket of the kernel's own */
	unsigned uid;
};

/* A line of /proc/net/udp: "  5: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000  0 4711 ..." */
static bool read_line(const char *line, uint16_t port, struct holder *holder)
{
	unsigned at;

	return sscanf(line, "%*d: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*s %lu", &at, &holder->uid, &holder->inode) == 3 &&
	       at == port;
}

static bool find_socket(const char *table, uint16_t port, struct holder *holder)
{
	FILE *f = fopen(table, "re");
	char line[LINE];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = read_line(line, port, holder);
	if (f)
		fclose(f);
	return found;
}

static bool has_socket(const char *pid, unsigned long inode)
{
	char path[LINE], target[NAME], wanted[NAME];
	struct dirent *e;
	bool found = false;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		found = strcmp(target, wanted) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* 0: none that the caller may see. */
static long find_process(unsigned long inode)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	long pid = 0;

	while (dir && !pid && (e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && has_socket(e->d_name, inode))
			pid = atol(e->d_name);
	if (dir)
		closedir(dir);
	return pid;
}

/* A process chooses its own name: what a terminal would take for more than a character is shown as '?'. */
static void read_name(long pid, char name[NAME])
{
	char path[NAME];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, NAME, f))
		strcpy(name, "?");
	if (f)
		fclose(f);
	name[strcspn(name, "\n")] = 0;
	for (char *c = name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

void udp_port_holder(uint16_t port, char *text, size_t room)
{
	struct holder holder;
	char name[NAME];
	long pid;

	if (!find_socket("/proc/net/udp", port, &holder) && !find_socket("/proc/net/udp6", port, &holder)) {
		snprintf(text, room, "UDP port %u is free again, or taken outside of this view of /proc: try once more", port);
		return;
	}
	if (!holder.inode) {
		snprintf(text, room, "the kernel has UDP port %u (rdma_rxe, or a tunnel): \"rdma link delete\" removes a device "
			 "of rdma_rxe, \"modprobe -r rdma_rxe\" all of them", port);
		return;
	}
	pid = find_process(holder.inode);
	if (!pid) {
		snprintf(text, room, "user %u has UDP port %u, by a process that you may not see: use that user's weftd, or a "
			 "network namespace of your own", holder.uid, port);
		return;
	}
	read_name(pid, name);
	snprintf(text, room, "process %ld (%s) of user %u has UDP port %u: end it, use the same weftd, or a network namespace "
		 "of your own", pid, name, holder.uid, port);
}
