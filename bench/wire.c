/* Whoever may make network namespaces need not be root: in a user namespace everybody may. */
#include "bench/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* user_namespaces(7): who has no right over groups outside must give up changing them first. */
static int become_root(unsigned uid, unsigned gid)
{
	char map[32];
	int err;

	snprintf(map, sizeof(map), "0 %u 1", uid);
	err = write_text("/proc/self/uid_map", map);
	if (!err)
		err = write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return err ? err : write_text("/proc/self/gid_map", map);
}

/* A user namespace of our own, or none where root may do without. */
static int leave_home(void)
{
	unsigned uid = geteuid(), gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) == 0)
		return become_root(uid, gid);
	return unshare(CLONE_NEWNET | CLONE_NEWNS) ? -errno : 0;
}

static int open_network(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int make_hosts(struct wire *w)
{
	int err = leave_home();

	if (err)
		return err;
	w->host[0] = open_network();
	if (w->host[0] < 0)
		return w->host[0];
	if (unshare(CLONE_NEWNET))
		return -errno;
	w->host[1] = open_network();
	if (w->host[1] < 0)
		return w->host[1];
	return setns(w->host[0], CLONE_NEWNET) ? -errno : 0;
}

static const struct step {
	int host;
	const char *command;
} steps[] = {
	{ 0, "ip link add " WIRE_DEVICE " mtu 9000 type veth peer name " WIRE_DEVICE " mtu 9000 netns /proc/%d/fd/%d" },
	{ 0, "ip addr add " WIRE_SERVER "/24 dev " WIRE_DEVICE },
	{ 1, "ip addr add 10.86.0.2/24 dev " WIRE_DEVICE },
	{ 0, "ip link set " WIRE_DEVICE " up" },
	{ 1, "ip link set " WIRE_DEVICE " up" },
	{ 0, "ip link set lo up" },
	{ 1, "ip link set lo up" },
};

static int lay(const struct wire *w)
{
	char command[160];
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(steps) / sizeof(steps[0]); i++) {
		snprintf(command, sizeof(command), steps[i].command, (int)getpid(), w->host[1]);
		err = wire_enter(w, steps[i].host);
		if (!err && system(command))
			err = -ENODEV;
	}
	return err ? err : wire_enter(w, 0);
}

static int fail(struct wire *w, int err, const char *what, const char *next)
{
	fprintf(stderr, "weft: %s: %s\n  next: %s\n", what, strerror(-err), next);
	wire_close(w);
	return err;
}

int wire_open(struct wire *w)
{
	int err;

	w->host[0] = w->host[1] = -1;
	err = make_hosts(w);
	if (err)
		return fail(w, err, "no network namespaces can be made here for two hosts",
			    "run it as root, or where kernel.unprivileged_userns_clone and user.max_user_namespaces allow them");
	err = lay(w);
	return err ? fail(w, err, "no veth devices can be made between two hosts",
			  "install iproute2, and look for the module veth: modprobe veth") : 0;
}

void wire_close(struct wire *w)
{
	for (int i = 0; i < 2; i++)
		if (w->host[i] >= 0)
			close(w->host[i]);
}

int wire_enter(const struct wire *w, int host)
{
	if (setns(w->host[host], CLONE_NEWNET) || setenv("WEFT_DIR", w->dir[host], 1))
		return -errno;
	return 0;
}

void wire_look_around(void)
{
	if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		mount("sysfs", "/sys", "sysfs", 0, NULL);
}
