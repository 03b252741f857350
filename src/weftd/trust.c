/* The kernel is asked itself, by opening /proc/PID/mem with the ids and capabilities of the one who would get it (ptrace(2),
 * "Ptrace access mode checking"). What weftd may as root, or as the owner of a container's user namespace, must not count: the
 * namespaces are compared, and in another than weftd's the owner of the file tells whether a process is dumpable (proc(5)). */
#include "weftd/trust.h"

#include "control/proc_stat.h"
#include "weftd/users.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct view {
	int dir;		/* owned: /proc/PID, of this process and no later one */
	uid_t uid;
	gid_t gid;
	uid_t owner;		/* of its memory file */
	struct stat user_ns, pid_ns;
	uint64_t effective, permitted;	/* capabilities */
};

static ssize_t read_at(int dir, const char *name, char *text, size_t room)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return n;
}

static int open_dir(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}

uint64_t trust_start(pid_t pid)
{
	struct proc_stat s;

	return pid > 0 && proc_stat_read(pid, &s) ? s.start : 0;
}

bool trust_is_ending(const struct client *c)
{
	struct proc_stat now;

	return c->start && (!proc_stat_read(c->pid, &now) || now.start != c->start || !proc_stat_lives(&now) ||
			    !now.memory_bytes);
}

static bool read_capabilities(struct view *v)
{
	char text[4096], *effective, *permitted;

	if (read_at(v->dir, "status", text, sizeof(text)) <= 0)
		return false;
	effective = strstr(text, "\nCapEff:");
	permitted = strstr(text, "\nCapPrm:");
	if (!effective || !permitted)
		return false;
	v->effective = strtoull(effective + sizeof("\nCapEff:"), NULL, 16);
	v->permitted = strtoull(permitted + sizeof("\nCapPrm:"), NULL, 16);
	return true;
}

static bool look(const struct client *c, struct view *v)
{
	struct proc_stat now;
	struct stat memory;

	*v = (struct view){ .dir = open_dir(c->pid), .uid = c->uid, .gid = c->gid };
	if (v->dir < 0 || !c->start || !proc_stat_read_at(v->dir, &now) || now.start != c->start ||
	    fstatat(v->dir, "mem", &memory, 0) || fstatat(v->dir, "ns/user", &v->user_ns, 0) ||
	    fstatat(v->dir, "ns/pid", &v->pid_ns, 0))
		return false;
	v->owner = memory.st_uid;
	return read_capabilities(v);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Of what weftd may have. */
static void set_effective(uint64_t wanted)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return;
	for (int i = 0; i < 2; i++)
		data[i].effective = (uint32_t)(wanted >> 32 * i) & data[i].permitted;
	syscall(SYS_capset, &head, data);
}

static bool opens(const struct view *v)
{
	int fd = openat(v->dir, "mem", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Would the kernel let a process like `from` trace `to`? Where weftd is root it becomes one for the question. */
static bool reaches(const struct view *from, const struct view *to)
{
	bool does;

	if (geteuid())
		return opens(to);
	setfsgid(from->gid);
	setfsuid(from->uid);
	set_effective(from->effective);
	does = opens(to);
	set_effective(~0ull);
	setfsuid(0);
	setfsgid(getegid());
	return does;
}

/* Yama asks who traces, which cannot be tried for another user namespace. Documentation/admin-guide/LSM/Yama.rst. */
static bool is_yama_on(void)
{
	char text[16];
	int root = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool is_on = root >= 0 && read_at(root, "sys/kernel/yama/ptrace_scope", text, sizeof(text)) > 0 && text[0] != '0';

	if (root >= 0)
		close(root);
	return is_on;
}

/* In a namespace below weftd's, where weftd's own capabilities open everything: who is its root looks dumpable always, and must
 * be able to trace whatever is. */
static bool is_open_below(const struct view *v)
{
	unsigned long long inside, outside;
	char map[256];
	int used;

	if (v->effective >> CAP_SYS_PTRACE & 1)
		return true;
	if (v->owner != v->uid || is_yama_on() || read_at(v->dir, "uid_map", map, sizeof(map)) <= 0)
		return false;
	for (const char *at = map; sscanf(at, "%llu %llu %*u%n", &inside, &outside, &used) == 2; at += used) {
		if (inside == 0 && outside == v->uid)
			return false;
	}
	return true;
}

static bool views_allow(const struct view *a, const struct view *b)
{
	struct stat own;

	if (!same_file(&a->user_ns, &b->user_ns) || !same_file(&a->pid_ns, &b->pid_ns) || a->gid != b->gid ||
	    a->permitted != b->permitted)
		return false;
	if (stat("/proc/self/ns/user", &own))
		return false;
	if (same_file(&a->user_ns, &own))
		return reaches(a, b) && reaches(b, a);
	return is_open_below(a) && is_open_below(b) && opens(a) && opens(b);
}

bool trust_same_user(const struct client *a, const struct client *b)
{
	return a->uid == b->uid && users_is_somebody(a->uid);
}

bool trust_allows(const struct hub *h, const struct client *a, const struct client *b)
{
	struct view of_a, of_b = { .dir = -1 };
	bool allowed;

	if (!trust_same_user(a, b))
		return false;
	if (h->gives_to_user)
		return true;
	allowed = look(a, &of_a) && look(b, &of_b) && views_allow(&of_a, &of_b);
	if (of_a.dir >= 0)
		close(of_a.dir);
	if (of_b.dir >= 0)
		close(of_b.dir);
	return allowed;
}
