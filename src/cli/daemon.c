/* weftd returns from its start once it can be connected to, so starting it is waiting for a child. */
#include "cli/daemon.h"

#include "cli/cli.h"
#include "cli/holder.h"
#include "cli/network.h"
#include "control/message.h"
#include "weftd/lock.h"
#include "weftd/old_rundir.h"
#include "weftd/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A weftd may be killed, or leave as nobody came, between our start and our connect: then it is started once more. Our choice:
 * some ten seconds when none stays. Tries are counted and not seconds, in most of which we may have been stopped. */
enum { START_TRIES = 1000, START_PAUSE_MS = 10 };

/* Our choice: weftd answers in microseconds, and on a machine at its limit within seconds. A question to all processes takes it
 * 10 s and 20 ms for each of 4096 at most (weftd/report.c); a fabric of 34,000 nodes takes it 1.4 s. */
enum { ANSWER_S = 10, FORCE_S = 3, LONG_S = 120 };

/* The directory of the weftd that was connected to last. A thread's, as weft run asks in a thread of its own. */
static _Thread_local char asked[RUNDIR_PATH];

int places_find(struct places *p)
{
	char self[3072], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -errno;
	self[n] = '\0';
	for (int up = 0; up < 2; up++) {
		slash = strrchr(self, '/');
		if (!slash)
			return -ENOENT;
		*slash = '\0';
		if (up == 0)
			snprintf(p->weftd, sizeof(p->weftd), "%s/weftd", self);
	}
	snprintf(p->library_dir, sizeof(p->library_dir), "%s/lib/weft", self);
	snprintf(p->shim, sizeof(p->shim), "%s/libweft-shim.so", p->library_dir);
	return 0;
}

int daemon_directory(bool system, struct rundir *d)
{
	const char *why = NULL;
	int err = rundir_choose(d, system);

	if (err)
		return cli_fail(rundir_advice(err), "the runtime directory %s cannot be used: %s",
				err == -EINVAL ? getenv("WEFT_DIR") : d->path, rundir_refusal(err));
	err = rundir_check(d, &why);
	if (err && err != -ENOENT)
		return cli_fail(rundir_advice(err), "the runtime directory %s cannot be used: %s", d->path, why);
	return EXIT_OK;
}

static void limit_wait(int fd, int seconds)
{
	struct timeval limit = { .tv_sec = seconds };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int say_hello(int fd, enum control_kind kind)
{
	struct control_msg msg = { .type = CTL_HELLO, .seq = 1, .a = kind, .b = CONTROL_VERSION };
	int fds[CONTROL_FDS], nfds = 0;
	int err = message_greet(fd, &msg, NULL, 0);

	if (!err)
		err = message_receive(fd, &msg, NULL, 0, fds, &nfds, 0);
	while (nfds > 0)
		close(fds[--nfds]);
	return err ? err : -msg.status;
}

/* The socket, -ENOENT: no weftd serves, -EPROTO: one of another version, -ETIMEDOUT: it does not answer, other -errno. */
static int try_to_connect(const struct rundir *d, enum control_kind kind, int seconds)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	snprintf(asked, sizeof(asked), "%s", d->path);
	rundir_file(d, "ctl", address.sun_path);
	limit_wait(fd, seconds);
	err = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : say_hello(fd, kind);
	if (!err)
		return fd;
	close(fd);
	if (err == -ECONNREFUSED || message_peer_ended(err))
		return -ENOENT;
	return err == -EAGAIN ? -ETIMEDOUT : err;
}

bool daemon_was_killed(const struct rundir *d)
{
	char path[RUNDIR_FILE];

	rundir_file(d, "ctl", path);
	return access(path, F_OK) == 0;
}

int daemon_fail(int err, const char *next, const char *cause)
{
	if (err == -ETIMEDOUT)
		return cli_fail("weft down --force ends it", "weftd in %s does not answer", asked);
	return cli_fail(next, "%s: %s", cause, strerror(-err));
}

static void complain(const struct rundir *d, int err)
{
	if (err == -EPROTO)
		cli_fail("weft down --force ends it", "the weftd in %s is of another version", d->path);
	else if (err == -EDQUOT)
		cli_fail("end programs of this user (man weftd, LIMITS)",
			 "weftd in %s takes no more of this user: its share of connections or descriptors is used up", d->path);
	else if (err == -ETIMEDOUT)
		daemon_fail(err, NULL, NULL);
	else if (err == -EACCES || err == -EPERM)
		cli_fail("set WEFT_DIR to a directory of your own, or ask its owner", "weftd in %s serves another user: %s",
			 d->path, strerror(-err));
	else if (err != -ENOENT)
		cli_fail("look into weftd.log there", "weftd in %s cannot be reached: %s", d->path, strerror(-err));
}

int daemon_connect(const struct rundir *d, enum control_kind kind)
{
	int fd = try_to_connect(d, kind, ANSWER_S);

	if (fd < 0)
		complain(d, fd);
	/* a socket without a weftd tells those who were attached that it was killed: they start the next one */
	if (fd == -ENOENT && !daemon_was_killed(d))
		sweep_left(d, false);
	return fd;
}

static int start(const struct places *p, const struct rundir *d, bool keep)
{
	char *argv[] = { "weftd", NULL, NULL, NULL };
	int n = 1, status;
	pid_t pid;

	if (keep)
		argv[n++] = "--keep";
	if (d->system)
		argv[n++] = "--system";
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		/* it would choose the same, unless another one begins to serve this user just now */
		setenv("WEFT_DIR", d->path, 1);
		execv(p->weftd, argv);
		fprintf(stderr, "weft: %s cannot be started: %s\n  next: build or install weftd next to weft\n", p->weftd,
			strerror(errno));
		_exit(EXIT_NOT_FOUND);
	}
	if (pid < 0)
		return cli_fail(NULL, "cannot fork: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_FAILED;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : WEFTD_KILLED;
}

/* A network whose devices are not those that --devices wants ends when nobody has asked for it, and begins anew. */
static bool has_wanted_devices(const struct rundir *d)
{
	int fd = getenv(CONTROL_DEVICES_VARIABLE) ? daemon_connect(d, CONTROL_COMMAND) : -ENOENT;
	json_t *status = fd < 0 ? NULL : daemon_status(fd);
	bool fits = !status || network_fits(status), was_running;
	bool is_kept = status && json_is_true(json_object_get(status, "stays_when_idle"));

	json_decref(status);
	if (fits || (!is_kept && daemon_end(d, false, &was_running) == EXIT_OK))
		return true;
	cli_fail("weft down, or set WEFT_DIR for a network of its own", "the network in %s has other devices than --devices says",
		 d->path);
	return false;
}

/* *starts: it was not there. */
static int connect_or_start(const struct rundir *d, enum control_kind kind, bool keep, bool *starts)
{
	struct places p;
	int fd = daemon_connect(d, kind);

	*starts = fd == -ENOENT;
	if (fd == -ENOENT && d->system && geteuid())
		return cli_fail("have root run `weft up --system`", "the system's weftd does not run"), -1;
	if (fd == -ENOENT && places_find(&p))
		return cli_fail("mount /proc", "cannot find out where weft is installed"), -1;
	for (int i = 0; fd == -ENOENT && i < START_TRIES; i++) {
		int status;

		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = START_PAUSE_MS * 1000000 }, NULL);
		status = start(&p, d, keep);
		if (status && status != WEFTD_KILLED)
			return -1;
		fd = daemon_connect(d, kind);
	}
	if (fd == -ENOENT)
		cli_fail("look into weftd.log there", "weftd in %s exits as soon as it is started", d->path);
	return fd < 0 ? -1 : fd;
}

/* A weftd that takes the place of one that was killed goes on with its devices: it is asked again. */
int daemon_start(const struct rundir *d, enum control_kind kind, bool keep)
{
	bool starts;
	int fd = has_wanted_devices(d) ? connect_or_start(d, kind, keep, &starts) : -1;

	if (fd < 0 || !starts || !getenv(CONTROL_DEVICES_VARIABLE))
		return fd;
	close(fd);
	return has_wanted_devices(d) ? connect_or_start(d, kind, keep, &starts) : -1;
}

static int answer_limit(const struct control_msg *msg, bool has_file)
{
	if (msg->type == CTL_QUERY || (msg->type == CTL_FABRIC && has_file))
		return LONG_S;
	return msg->type == CTL_DOWN && msg->a ? FORCE_S : ANSWER_S;
}

/* file: -1: none goes along. */
static int call(int fd, struct control_msg *msg, const char *text, int file, char *answer, int fds[CONTROL_FDS], int *nfds)
{
	int err;

	msg->seq = 1;
	msg->text_bytes = text ? (uint32_t)strlen(text) : 0;
	limit_wait(fd, answer_limit(msg, file >= 0));
	err = message_send(fd, msg, text, &file, file >= 0, 0);
	if (!err)
		err = message_receive(fd, msg, answer, answer ? CONTROL_TEXT : 0, fds, nfds, 0);
	if (err == -EAGAIN)
		return -ETIMEDOUT;
	return err ? err : -msg->status;
}

static int call_for_status(int fd, struct control_msg *msg, const char *text, int file)
{
	int fds[CONTROL_FDS], nfds = 0;
	int err = call(fd, msg, text, file, NULL, fds, &nfds);

	while (nfds > 0)
		close(fds[--nfds]);
	return err;
}

int daemon_call(int fd, struct control_msg *msg, const char *text)
{
	return call_for_status(fd, msg, text, -1);
}

int daemon_give(int fd, struct control_msg *msg, int file)
{
	return call_for_status(fd, msg, NULL, file);
}

int daemon_get(int fd, struct control_msg *msg, int *file)
{
	int fds[CONTROL_FDS], nfds = 0;
	int err = call(fd, msg, NULL, -1, NULL, fds, &nfds);

	while (nfds > (err ? 0 : 1))
		close(fds[--nfds]);
	if (!err && !nfds)
		err = -EPROTO;
	if (!err)
		*file = fds[0];
	return err;
}

int daemon_read(int fd, struct control_msg *msg, char *text)
{
	int fds[CONTROL_FDS], nfds = 0;
	int err = call(fd, msg, NULL, -1, text, fds, &nfds);

	while (nfds > 0)
		close(fds[--nfds]);
	return err;
}

static json_t *load_file(int fd)
{
	struct stat st;
	json_t *json = NULL;
	void *text;

	if (fstat(fd, &st) || st.st_size == 0)
		return NULL;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return NULL;
	json = json_loadb(text, (size_t)st.st_size, 0, NULL);
	munmap(text, (size_t)st.st_size);
	return json;
}

int daemon_keep(const struct rundir *d)
{
	struct control_msg msg = { .type = CTL_UP };
	int fd = daemon_start(d, CONTROL_COMMAND, true), err;

	if (fd < 0)
		return fd;
	err = daemon_call(fd, &msg, NULL);
	if (!err)
		return fd;
	daemon_fail(err, "ask the user who owns it, or root", "weftd cannot be kept");
	close(fd);
	return -1;
}

json_t *daemon_ask(int fd, enum control_type type, const char *text, int *err)
{
	static char answer[CONTROL_TEXT];
	struct control_msg msg = { .type = type };
	int fds[CONTROL_FDS], nfds = 0;
	json_t *json = NULL;

	*err = call(fd, &msg, text, -1, answer, fds, &nfds);
	if (!*err)
		json = nfds ? load_file(fds[0]) : json_loadb(answer, msg.text_bytes, 0, NULL);
	if (!*err && !json)
		*err = -EPROTO;
	while (nfds > 0)
		close(fds[--nfds]);
	return json;
}

json_t *daemon_status(int fd)
{
	int err;
	json_t *status = daemon_ask(fd, CTL_STATUS, NULL, &err);

	close(fd);
	if (!status)
		daemon_fail(err, "weft doctor", "weftd does not answer");
	return status;
}

int fd_park(int fd)
{
	struct rlimit l = { 1024, 1024 };
	int parked;

	getrlimit(RLIMIT_NOFILE, &l);
	parked = fcntl(fd, F_DUPFD, l.rlim_cur > 1024 ? 1000 : (int)l.rlim_cur * 3 / 4);
	if (parked < 0)
		parked = fcntl(fd, F_DUPFD, 3);
	close(fd);
	return parked;
}

/* ---- ending it ---- */

/* Our choice: weftd leaves in milliseconds; one that was killed has ended as soon as it gets a processor. */
enum { WAIT_MS = 3000, KILLED_MS = 60000, LOOK_MS = 2 };

/* weftd gives up its lock as the last thing it does. */
static bool wait_until_gone(int lock, int ms)
{
	for (int i = 0; i < ms / LOOK_MS; i++) {
		if (lock < 0)
			return true;
		if (flock(lock, LOCK_SH | LOCK_NB) == 0) {
			flock(lock, LOCK_UN);
			return true;
		}
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
	}
	return false;
}

/* The lock of who serves the directory, or -1. */
static int find_lock(const struct rundir *d)
{
	struct rundir at = *d;
	const char *why;
	int err, lock = -1;

	at.fd = at.own = -1;
	err = rundir_visit(&at, &why);
	if (!err)
		lock = lock_look(&at);
	rundir_close(&at);
	return err == -ENOENT ? old_rundir_lock(d->path) : lock;
}

/* EXIT_OK when weftd agreed to leave; EXIT_USAGE, not told, when it does not answer. */
static int ask_to_leave(int fd, bool force)
{
	struct control_msg msg = { .type = CTL_DOWN, .a = force };
	int err = daemon_call(fd, &msg, NULL);

	if (err == -EBUSY)
		return cli_fail("end them (weft status lists them), or weft down --force",
				"weftd is in use: %u processes attached, %u programs started by weft run", msg.b, msg.c);
	if (err == -EPERM)
		return cli_fail("ask the user who owns it, or root", "weftd cannot be ended: %s", strerror(-err));
	return err && !message_peer_ended(err) ? EXIT_USAGE : EXIT_OK;
}

/* Ends who holds the lock: politely, so that it cleans up, and then in any case. */
static int end_holder(const struct rundir *d, int lock)
{
	static const struct { int signal, ms; } ways[] = { { SIGTERM, WAIT_MS }, { SIGKILL, KILLED_MS } };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int holder = holder_find(lock), err = holder < 0 ? holder : holder_signal(holder, ways[i].signal);

		if (holder >= 0)
			close(holder);
		if (err && err != -ESRCH)
			return cli_fail("kill it", "weftd in %s cannot be ended: %s", d->path, strerror(-err));
		if (err && !wait_until_gone(lock, WAIT_MS))
			return cli_fail("run weft down --force where it was started",
					"who holds the lock in %s is no weftd of this user that can be seen from here", d->path);
		if (wait_until_gone(lock, ways[i].ms))
			return EXIT_OK;
	}
	return cli_fail("weftd.log there may say why, and /proc/PID/stack", "weftd in %s survives SIGKILL", d->path);
}

int daemon_end(const struct rundir *d, bool force, bool *was_running)
{
	int lock = find_lock(d), fd = try_to_connect(d, CONTROL_COMMAND, force ? FORCE_S : ANSWER_S), status;

	*was_running = fd != -ENOENT;
	status = fd >= 0 ? ask_to_leave(fd, force) : fd == -ENOENT ? EXIT_OK : EXIT_USAGE;
	if (status == EXIT_OK && !wait_until_gone(lock, WAIT_MS))
		status = EXIT_USAGE;
	if (status == EXIT_USAGE && force && lock >= 0) {
		*was_running = true;
		status = end_holder(d, lock);
	} else if (status == EXIT_USAGE) {
		complain(d, fd < 0 && fd != -ENOENT ? fd : -ETIMEDOUT);
		status = EXIT_FAILED;
	}
	if (status == EXIT_OK)
		sweep_left(d, force);
	if (fd >= 0)
		close(fd);
	if (lock >= 0)
		close(lock);
	return status;
}
