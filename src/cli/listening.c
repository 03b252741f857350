/* proc(5): net/tcp of a process lists the sockets of its network namespace with state and inode, and fd/N is a link that names
 * the inode. Processes of this user only can be looked at. */
#include "cli/listening.h"

#include "cli/offspring.h"
#include "cli/output.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TCP_LISTEN = 0x0a };	/* the kernel's include/net/tcp_states.h */

/* Does the process hold the socket? */
static bool holds(pid_t pid, unsigned long inode)
{
	char path[32 + 256], name[64], target[64];
	const struct dirent *e;
	bool is_so = false;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	fds = opendir(path);
	snprintf(name, sizeof(name), "socket:[%lu]", inode);
	while (fds && !is_so && (e = readdir(fds))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		is_so = strcmp(target, name) == 0;
	}
	if (fds)
		closedir(fds);
	return is_so;
}

static bool listens_in(pid_t pid, const char *table)
{
	char path[64], line[512];
	bool is_so = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, table);
	f = fopen(path, "re");
	while (f && !is_so && fgets(line, sizeof(line), f)) {
		unsigned long inode;
		unsigned state;

		/* number, local and remote address, state, queues, timer, retransmissions, user, timeout, inode */
		if (sscanf(line, " %*d: %*s %*s %x %*s %*s %*s %*s %*s %lu", &state, &inode) == 2 && state == TCP_LISTEN)
			is_so = holds(pid, inode);
	}
	if (f)
		fclose(f);
	return is_so;
}

static void look_at(void *arg, pid_t pid)
{
	bool *listens = arg;

	*listens = *listens || listens_in(pid, "tcp") || listens_in(pid, "tcp6");
}

static bool has_listeners(const struct rundir *d)
{
	int err, fd = daemon_connect(d, CONTROL_COMMAND);
	json_t *status = fd < 0 ? NULL : daemon_ask(fd, CTL_STATUS, NULL, &err);
	const json_t *p;
	bool is_so = false;
	size_t i;

	json_array_foreach(json_object_get(status, "processes"), i, p)
		is_so |= output_number(p, "listeners") > 0;
	json_decref(status);
	if (fd >= 0)
		close(fd);
	return is_so;
}

const char *listening_how(const struct rundir *d)
{
	bool by_tcp = false;

	offspring_visit(look_at, &by_tcp);
	if (by_tcp)
		return "tcp";
	return has_listeners(d) ? "rdma_cm" : NULL;
}
