/* The connection manager's device: see cm_device.h. Every open file is known to libibverbs by one number, its home: the
 * descriptor it was opened as. Duplicates share the home, which therefore stays open, parked, when it is closed before them.
 * A child of vfork shares this memory but not the descriptors: what it closes changes nothing here. */
#include "cm_device.h"
#include "next.h"
#include "path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Our choice: the kernel's default ceiling of descriptors a process (fs.nr_open); the table is untouched memory until used. */
#define FD_MAX (1 << 20)
#define PARKED -1

static struct {
	int (*open)(int flags);
	ssize_t (*write)(int fd, const void *cmd, size_t bytes);
	void (*await_reader)(int fd);
	void (*close)(int fd);
} ucm;

/* By descriptor: 0 when not ours, else home + 1, or PARKED. Written under lock, read without it by write and fstat. */
static int home_of[FD_MAX];
/* By home: how many descriptors share it. */
static int users_of[FD_MAX];
/* How many entries of home_of are set, so that close_range need not look for none. */
static int marked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t bound = PTHREAD_ONCE_INIT;
static pid_t owner;

static void lock_taken(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_given(void)
{
	pthread_mutex_unlock(&lock);
}

static void forked(void)
{
	owner = getpid();
	pthread_mutex_unlock(&lock);
}

static void bind_ucm(void)
{
	void *verbs = dlopen("libibverbs.so.1", RTLD_NOW);

	if (!verbs)
		return;
	ucm.write = (ssize_t (*)(int, const void *, size_t))dlsym(verbs, "weft_ucm_write");
	ucm.close = (void (*)(int))dlsym(verbs, "weft_ucm_close");
	ucm.await_reader = (void (*)(int))dlsym(verbs, "weft_ucm_await_reader");
	ucm.open = (int (*)(int))dlsym(verbs, "weft_ucm_open");
	owner = getpid();
	pthread_atfork(lock_taken, lock_given, forked);
	/* cppcheck-suppress resourceLeak ; it stays for as long as we do */
}

static int entry(int fd)
{
	return (unsigned int)fd < FD_MAX ? __atomic_load_n(&home_of[fd], __ATOMIC_ACQUIRE) : 0;
}

static bool is_ours(int fd)
{
	return __builtin_expect(entry(fd) != 0, 0);
}

static void mark(int fd, int value)
{
	marked += (value != 0) - (home_of[fd] != 0);
	__atomic_store_n(&home_of[fd], value, __ATOMIC_RELEASE);
}

static int real_close(int fd)
{
	__typeof__(&close) next = SHIM_NEXT(close);

	return next ? next(fd) : -1;
}

int cm_device_open(int flags)
{
	int fd;

	pthread_once(&bound, bind_ucm);
	if (!ucm.open || !ucm.write || !ucm.await_reader || !ucm.close) {
		errno = ENXIO;
		return -1;
	}
	fd = ucm.open(flags);
	if (fd < 0)
		return -1;
	if (fd >= FD_MAX) {
		ucm.close(fd);
		real_close(fd);
		errno = EMFILE;
		return -1;
	}
	pthread_mutex_lock(&lock);
	mark(fd, fd + 1);
	users_of[fd] = 1;
	pthread_mutex_unlock(&lock);
	return fd;
}

/* Lets go of one of our descriptors. Returns the home if that was its last user, so that libibverbs is to be told, else -1.
 * *parked says that the number must stay open. */
static int forget(int fd, bool *parked)
{
	int home, last = -1;

	pthread_mutex_lock(&lock);
	home = home_of[fd] - 1;
	*parked = fd == home && users_of[home] > 1;
	mark(fd, *parked ? PARKED : 0);
	if (--users_of[home] == 0)
		last = home;
	pthread_mutex_unlock(&lock);
	return last;
}

/* Ends fd as ours; the caller closes or replaces the number itself unless it is parked. */
static void release(int fd, bool *parked)
{
	int home = forget(fd, parked);

	if (home < 0)
		return;
	ucm.close(home);
	if (home == fd)
		return;
	pthread_mutex_lock(&lock);
	mark(home, 0);
	pthread_mutex_unlock(&lock);
	real_close(home);
}

static bool in_vfork_child(void)
{
	return getpid() != owner;
}

SHIM_EXPORT ssize_t write(int fd, const void *buf, size_t bytes)
{
	__typeof__(&write) next;
	int home = entry(fd);

	if (__builtin_expect(home == 0, 1)) {
		next = SHIM_NEXT(write);
		return next ? next(fd, buf, bytes) : -1;
	}
	if (home == PARKED) {
		errno = EBADF;
		return -1;
	}
	return ucm.write(home - 1, buf, bytes);
}

SHIM_EXPORT int close(int fd)
{
	bool parked = false;
	int home = entry(fd);

	if (home > 0 && !in_vfork_child())
		ucm.await_reader(home - 1);
	if (!is_ours(fd) || in_vfork_child())
		return real_close(fd);
	if (entry(fd) == PARKED) {
		errno = EBADF;
		return -1;
	}
	release(fd, &parked);
	return parked ? 0 : real_close(fd);
}

/* glibc declares them since 2.34. */
int close_range(unsigned int first, unsigned int last, int flags);
void closefrom(int first);

SHIM_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	__typeof__(&close_range) next = SHIM_NEXT(close_range);

	if (marked && !(flags & CLOSE_RANGE_CLOEXEC) && !in_vfork_child())
		for (unsigned int fd = first; marked && fd <= last && fd < FD_MAX; fd++)
			if (is_ours(fd) && entry(fd) != PARKED)
				close(fd);
	return next ? next(first, last, flags) : -1;
}

SHIM_EXPORT void closefrom(int first)
{
	close_range(first < 0 ? 0 : first, ~0U, 0);
}

/* Gives a fresh duplicate of from the same home. */
static int duplicated(int from, int fd)
{
	int home = entry(from) - 1;

	if (fd < 0 || in_vfork_child())
		return fd;
	if (fd >= FD_MAX) {
		real_close(fd);
		errno = EMFILE;
		return -1;
	}
	pthread_mutex_lock(&lock);
	mark(fd, home + 1);
	users_of[home]++;
	pthread_mutex_unlock(&lock);
	return fd;
}

SHIM_EXPORT int dup(int fd)
{
	__typeof__(&dup) next = SHIM_NEXT(dup);
	int copy = next ? next(fd) : -1;

	return is_ours(fd) ? duplicated(fd, copy) : copy;
}

/* dup2 and dup3 close what they replace. Refuses a home that duplicates still need. */
static bool replaceable(int fd)
{
	bool parked = false;

	if (!is_ours(fd) || in_vfork_child())
		return true;
	if (entry(fd) != PARKED && (entry(fd) != fd + 1 || users_of[fd] == 1)) {
		release(fd, &parked);
		return true;
	}
	errno = EBUSY;
	return false;
}

SHIM_EXPORT int dup2(int from, int to)
{
	__typeof__(&dup2) next = SHIM_NEXT(dup2);
	int copy;

	if (!next || (from != to && !replaceable(to)))
		return -1;
	copy = next(from, to);
	return from != to && is_ours(from) ? duplicated(from, copy) : copy;
}

SHIM_EXPORT int dup3(int from, int to, int flags)
{
	__typeof__(&dup3) next = SHIM_NEXT(dup3);
	int copy;

	if (!next || (from != to && !replaceable(to)))
		return -1;
	copy = next(from, to, flags);
	return is_ours(from) ? duplicated(from, copy) : copy;
}

/* librdmacm's open_cdev insists on a character device. */
#define FSTAT_CALL(name, stat_name, params, args, stat_args)       \
	SHIM_EXPORT int name params;                               \
	SHIM_EXPORT int name params                                \
	{                                                          \
		__typeof__(&name) next = SHIM_NEXT(name);          \
		if (__builtin_expect(entry(fd) > 0, 0))            \
			return stat_name stat_args;                \
		return next ? next args : -1;                      \
	}

int __xstat(int ver, const char *path, struct stat *st);
int __xstat64(int ver, const char *path, struct stat64 *st);

FSTAT_CALL(fstat, stat, (int fd, struct stat *st), (fd, st), ("/dev/null", st))
FSTAT_CALL(fstat64, stat64, (int fd, struct stat64 *st), (fd, st), ("/dev/null", st))
FSTAT_CALL(__fxstat, __xstat, (int ver, int fd, struct stat *st), (ver, fd, st), (ver, "/dev/null", st))
FSTAT_CALL(__fxstat64, __xstat64, (int ver, int fd, struct stat64 *st), (ver, fd, st), (ver, "/dev/null", st))

/* RDMA netlink would list the host's own devices and the numbers of its own nodes, where it has a kernel with them. Without it
 * every user falls back to sysfs, which is ours. */
SHIM_EXPORT int socket(int domain, int type, int protocol)
{
	__typeof__(&socket) next = SHIM_NEXT(socket);

	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && shim_active()) {
		if (strcmp(program_invocation_short_name, "rdma") == 0)	/* which has no other way; libraries have */
			dprintf(STDERR_FILENO, "weft: rdma asks the kernel, which has no device of weft's; weft devices, "
				"weft qp and weft mr list them\n");
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return next ? next(domain, type, protocol) : -1;
}
