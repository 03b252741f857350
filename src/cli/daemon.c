/* weftd returns from its start once it can be connected to, so starting it is waiting for a child. */
#include "cli/daemon.h"

#include "cli/cli.h"
#include "host/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A weftd that has just become idle may leave between our start and our connect; then it is started once more, for so many
 * seconds. Our choice: only somebody who sets WEFT_IDLE_S=0 will ever see the second time. */
enum { START_S = 10 };

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
		return cli_fail("set WEFT_DIR to an absolute path of at most 95 bytes",
				"the runtime directory %s cannot be used: %s", d->path,
				err == -EINVAL ? "WEFT_DIR is not an absolute path" : "its path is too long");
	err = rundir_check(d, &why);
	if (err && err != -ENOENT)
		return cli_fail("remove it or make it yours alone (chmod 700), or set WEFT_DIR to another directory",
				"the runtime directory %s cannot be trusted: %s", d->path, why);
	return EXIT_OK;
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

int daemon_connect(const struct rundir *d, enum control_kind kind)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	rundir_file(d, "ctl", address.sun_path);
	err = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : say_hello(fd, kind);
	if (!err)
		return fd;
	close(fd);
	if (err == -ECONNREFUSED || err == -ENOTCONN || err == -EPIPE || err == -ECONNRESET)
		return -ENOENT;
	if (err == -EPROTO)
		cli_fail("end it with its own version's `weft down --force`", "the weftd in %s is of another version", d->path);
	else if (err != -ENOENT)
		cli_fail("weft doctor", "weftd in %s cannot be reached: %s", d->path, strerror(-err));
	return err;
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

int daemon_start(const struct rundir *d, enum control_kind kind, bool keep)
{
	struct places p;
	int fd = daemon_connect(d, kind);

	if (fd == -ENOENT && d->system && geteuid())
		return cli_fail("have root run `weft up --system`", "the system's weftd does not run"), -1;
	if (fd == -ENOENT && places_find(&p))
		return cli_fail("mount /proc", "cannot find out where weft is installed"), -1;
	for (time_t end = time(NULL) + START_S; fd == -ENOENT && time(NULL) <= end;) {
		int status = start(&p, d, keep);

		if (status && status != WEFTD_KILLED)
			return -1;
		fd = daemon_connect(d, kind);
	}
	if (fd == -ENOENT)
		cli_fail("look into weftd.log there", "weftd in %s leaves as soon as it is started", d->path);
	return fd < 0 ? -1 : fd;
}

static int call(int fd, struct control_msg *msg, const char *text, char *answer, int fds[CONTROL_FDS], int *nfds)
{
	int err;

	msg->seq = 1;
	msg->text_bytes = text ? (uint32_t)strlen(text) : 0;
	err = message_send(fd, msg, text, NULL, 0, 0);
	if (!err)
		err = message_receive(fd, msg, answer, answer ? CONTROL_TEXT : 0, fds, nfds, 0);
	return err ? err : -msg->status;
}

int daemon_call(int fd, struct control_msg *msg, const char *text)
{
	int fds[CONTROL_FDS], nfds = 0;
	int err = call(fd, msg, text, NULL, fds, &nfds);

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

json_t *daemon_ask(int fd, enum control_type type, const char *text, int *err)
{
	static char answer[CONTROL_TEXT];
	struct control_msg msg = { .type = type };
	int fds[CONTROL_FDS], nfds = 0;
	json_t *json = NULL;

	*err = call(fd, &msg, text, answer, fds, &nfds);
	if (!*err)
		json = nfds ? load_file(fds[0]) : json_loadb(answer, msg.text_bytes, 0, NULL);
	if (!*err && !json)
		*err = -EPROTO;
	while (nfds > 0)
		close(fds[--nfds]);
	return json;
}

enum { WAIT_MS = 5000, LOOK_MS = 2 };	/* our choice: weftd leaves in milliseconds */

/* weftd gives up its lock as the last thing it does. */
static bool wait_until_gone(int lock)
{
	for (int i = 0; i < WAIT_MS / LOOK_MS; i++) {
		if (lock < 0 || flock(lock, LOCK_SH | LOCK_NB) == 0)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
	}
	return false;
}

/* EXIT_OK when weftd agreed to leave. */
static int tell(int fd, bool force)
{
	struct control_msg msg = { .type = CTL_DOWN, .a = force };
	int err = daemon_call(fd, &msg, NULL);

	if (err == -EBUSY)
		return cli_fail("end them (weft status lists them), or weft down --force",
				"weftd is in use: %u processes attached, %u programs started by weft run", msg.b, msg.c);
	if (err)
		return cli_fail("ask the user who owns it, or root", "weftd cannot be ended: %s", strerror(-err));
	return EXIT_OK;
}

int daemon_end(const struct rundir *d, bool force, bool *was_running)
{
	char path[RUNDIR_FILE];
	int fd, lock, status = EXIT_FAILED;

	rundir_file(d, "lock", path);
	lock = open(path, O_RDONLY | O_CLOEXEC);
	fd = daemon_connect(d, CONTROL_COMMAND);
	if (fd >= 0)
		status = tell(fd, force);
	else if (fd == -ENOENT)
		status = EXIT_OK;
	if (status == EXIT_OK && !wait_until_gone(lock))
		status = cli_fail("kill it: weftd.log there may say why", "weftd in %s does not leave", d->path);
	*was_running = fd >= 0;
	if (fd >= 0)
		close(fd);
	if (lock >= 0)
		close(lock);
	return status;
}
