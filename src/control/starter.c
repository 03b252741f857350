/* The child is none that the program could notice: it sends no SIGCHLD and waitpid does not find it unless asked for such
 * children (clone(2), __WCLONE). It shares our memory until exec and touches nothing but its stack. */
#include "control/starter.h"

#include "base/log.h"
#include "control/protocol.h"
#include "fabric/page.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10, SYSTEM_MODE = S_IXOTH };

/* ThreadSanitizer takes clone for a fork and then ignores the child's thread, which with shared memory is ours too. */
#ifdef __SANITIZE_THREAD__
enum { SHARED_MEMORY = 0 };
#else
enum { SHARED_MEMORY = CLONE_VM };
#endif

struct child {
	char path[PATH_MAX];
	char *argv[3];
	char directory[PATH_MAX + 10];	/* WEFT_DIR=DIR */
	char **environment;	/* owned */
};

/* As installed and as built: PREFIX/lib/weft/libibverbs.so.1 and PREFIX/bin/weftd. */
static int find_weftd(char path[PATH_MAX])
{
	char self[PATH_MAX], *slash;
	Dl_info info;
	int n;

	if (!dladdr(starter_start, &info) || !info.dli_fname || !realpath(info.dli_fname, self))
		return -ENOENT;
	for (int up = 0; up < 3; up++) {
		slash = strrchr(self, '/');
		if (!slash)
			return -ENOENT;
		*slash = '\0';
	}
	n = snprintf(path, PATH_MAX, "%s/bin/weftd", self);
	return n < PATH_MAX && access(path, X_OK) == 0 ? 0 : -ENOENT;
}

/* The devices' addresses are those of the namespace that weftd runs in, so not every container may start it. */
static bool is_home(const char *dir)
{
	char path[PATH_MAX];
	uint64_t home = 0;
	struct stat st;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/" CONTROL_OWN "/page", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	n = pread(fd, &home, sizeof(home), offsetof(struct fabric_page, home));
	close(fd);
	return n == sizeof(home) && stat("/proc/self/ns/net", &st) == 0 && st.st_ino == home;
}

static bool is_being_started(const char *dir)
{
	char path[PATH_MAX];
	bool is_held;
	int fd;

	snprintf(path, sizeof(path), "%s/" CONTROL_OWN "/lock", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	is_held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
	if (fd >= 0)
		close(fd);
	return is_held;
}

/* Ours, without what weft run preloads into programs, and with the directory, which the program may have cleared. */
static char **make_environment(const char *dir, struct child *c)
{
	size_t n = 0, kept = 0;
	char **copy;

	while (environ && environ[n])
		n++;
	copy = calloc(n + 2, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++) {
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "WEFT_DIR=", 9) != 0)
			copy[kept++] = environ[i];
	}
	snprintf(c->directory, sizeof(c->directory), "WEFT_DIR=%s", dir);
	if (copy)
		copy[kept] = c->directory;
	return copy;
}

static int become_weftd(void *arg)
{
	const struct child *c = arg;

	/* not by the shim's execve, which gives back what weft run set */
	syscall(SYS_execve, c->path, c->argv, c->environment);
	_exit(127);
}

/* Returns when the child has become weftd: its pid or -errno. */
static pid_t begin(struct child *c)
{
	sigset_t all, old;
	char *stack;
	pid_t pid;

	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -ENOMEM;
	/* the program's handlers must not run in the child; weftd begins with an empty mask of its own */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(become_weftd, stack + STACK_BYTES, SHARED_MEMORY | CLONE_VFORK, c);
	if (pid < 0)
		pid = -errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(stack, STACK_BYTES);
	return pid;
}

static int spawn(struct child *c)
{
	pid_t pid = begin(c);
	int status = 0;

	if (pid < 0)
		return pid;
	while (waitpid(pid, &status, __WALL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return WIFSIGNALED(status) || WEXITSTATUS(status) == WEFTD_KILLED ? -EAGAIN : -ECHILD;
}

int starter_start(const char *dir)
{
	struct child c = { .argv = { "weftd" } };
	struct stat st;
	int err;

	if (stat(dir, &st) || st.st_uid != geteuid() || !is_home(dir))
		return -EPERM;
	err = find_weftd(c.path);
	if (err)
		return err;
	if (is_being_started(dir))
		return 0;
	if (st.st_mode & SYSTEM_MODE)
		c.argv[1] = "--system";
	c.environment = make_environment(dir, &c);
	if (!c.environment)
		return -ENOMEM;
	log_line(LOG_INFO, "weftd is gone: starting %s", c.path);
	err = spawn(&c);
	free(c.environment);
	/* killed on its way: to be tried again */
	if (err == -EAGAIN)
		return 0;
	if (err)
		log_line(LOG_ERROR, "weftd was killed, and %s cannot be started: %s; see weftd.log in %s",
			 c.path, strerror(-err), dir);
	return err;
}

/* Nobody waits for the child: it outlives this process. */
void starter_sweep(const char *dir)
{
	char path[PATH_MAX], option[32];
	struct child c = { .argv = { "weftd", option } };
	struct stat st;

	snprintf(option, sizeof(option), "--sweep=%d", (int)getpid());
	snprintf(path, sizeof(path), "%s/ctl", dir);
	/* with a socket it was killed, and is started again by whom it left */
	if (stat(dir, &st) || st.st_uid != geteuid() || !is_home(dir) || access(path, F_OK) == 0 || find_weftd(c.path))
		return;
	c.environment = make_environment(dir, &c);
	if (c.environment)
		begin(&c);
	free(c.environment);
}
