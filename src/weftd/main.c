/* weftd: options, exactly one per directory, into the background, serve, leave nothing behind. */
#include "base/log.h"
#include "host/control.h"
#include "weftd/lock.h"
#include "weftd/logfile.h"
#include "weftd/rundir.h"
#include "weftd/server.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Our choice: long enough for a script's next command, short enough to go unnoticed. */
#define IDLE_S 5

struct options {
	bool system, keep, foreground;
};

static const struct option long_options[] = {
	{ "system", no_argument, NULL, 's' },	{ "keep", no_argument, NULL, 'k' },
	{ "foreground", no_argument, NULL, 'f' }, { "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },	{ 0 },
};

static void print_help(void)
{
	printf("Usage: weftd [OPTION]...\n"
	       "Serves the RDMA devices of this host's processes. `weft run` starts it when it is needed.\n"
	       "Returns once clients can connect, also when another weftd serves already.\n\n"
	       "  -k, --keep        stay when nobody is attached\n"
	       "  -f, --foreground  stay in the foreground and log to the standard error\n"
	       "      --system      serve all users (root only), in " RUNDIR_SYSTEM "\n"
	       "  -h, --help        this text\n"
	       "      --version     the version\n\n"
	       "Environment: WEFT_DIR, the runtime directory; WEFT_IDLE_S, seconds to stay when idle (%d).\n",
	       IDLE_S);
}

static void parse(int argc, char **argv, struct options *o)
{
	int c;

	while ((c = getopt_long(argc, argv, "kfh", long_options, NULL)) != -1) {
		if (c == 's')
			o->system = true;
		else if (c == 'k')
			o->keep = true;
		else if (c == 'f')
			o->foreground = true;
		else if (c == 'h')
			print_help(), exit(0);
		else if (c == 'V')
			printf("weftd %s\n", WEFT_VERSION), exit(0);
		else
			exit(2);
	}
	if (optind < argc) {
		fprintf(stderr, "weftd: unexpected argument '%s'; see weftd --help\n", argv[optind]);
		exit(2);
	}
}

static wtime idle_time(void)
{
	const char *env = getenv("WEFT_IDLE_S");
	char *end;
	double s = env ? strtod(env, &end) : IDLE_S;

	if (env && (end == env || *end || !(s >= 0 && s < 1e6))) {
		fprintf(stderr, "weftd: WEFT_IDLE_S=%s is not a number of seconds\n", env);
		exit(2);
	}
	return (wtime)(s * (double)WTIME_S);
}

static int fail_dir(const struct rundir *d, const char *why)
{
	fprintf(stderr,
		"weftd: the runtime directory %s cannot be used: %s\n"
		"  next: remove it or make it yours alone (chmod 700), or set WEFT_DIR to another directory\n",
		d->path, why);
	return 1;
}

static int choose_dir(const struct options *o, struct rundir *d)
{
	const char *why;
	int err = rundir_choose(d, o->system);

	if (err == -EINVAL)
		return fail_dir(d, "WEFT_DIR is not an absolute path");
	if (err)
		return fail_dir(d, "its path is too long for a socket's address (91 bytes at most)");
	if (o->system && geteuid()) {
		fprintf(stderr, "weftd: --system is for root; without it weftd serves this user alone\n");
		return 1;
	}
	if (rundir_make(d, &why))
		return fail_dir(d, why);
	return 0;
}

/* Two descriptors for each process. */
static void raise_limits(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

/* The parent returns what became of the child; the child goes on with *ready to write to. */
static int into_background(int *ready)
{
	int p[2];
	char byte;
	pid_t pid;
	int status;

	if (pipe2(p, O_CLOEXEC))
		return 1;
	pid = fork();
	if (pid == 0) {
		close(p[0]);
		*ready = p[1];
		setsid();
		return -1;
	}
	close(p[1]);
	if (pid < 0) {
		fprintf(stderr, "weftd: cannot fork: %s\n", strerror(errno));
		return 1;
	}
	if (read(p[0], &byte, 1) == 1)
		return 0;
	return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? WEFTD_KILLED : 1;
}

static void redirect(int from, int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = from; i <= fd && null >= 0; i++)
		dup2(null, i);
	if (null > fd)
		close(null);
}

static void report_ready(int ready)
{
	if (ready < 0)
		return;
	redirect(2, 2);
	if (write(ready, "", 1) != 1)
		log_line(LOG_WARNING, "who started weftd did not wait for it");
	close(ready);
}

static int serve(const struct options *o, const struct rundir *d, wtime idle, int ready)
{
	const struct server_config config = { .dir = d, .idle = idle, .keep = o->keep };
	struct server *s;

	if (server_create(&config, &s)) {
		if (ready >= 0)
			fprintf(stderr, "weftd: cannot start; %s/weftd.log says why\n", d->path);
		return 1;
	}
	log_line(LOG_INFO, "serving %s", d->path);
	report_ready(ready);
	server_run(s);
	server_destroy(s);
	return 0;
}

/* Who starts weftd from a thread with signals blocked hands that down. */
static void unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* a limit on file sizes is an error like others */
	signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct rundir d;
	int ready = -1, lock, status;
	wtime idle;

	parse(argc, argv, &o);
	idle = idle_time();
	/* whatever the caller had open would stay open as long as weftd lives */
	close_range(3, ~0U, 0);
	if (choose_dir(&o, &d))
		return 1;
	umask(o.system ? 022 : 077);
	unblock_signals();
	if (!o.foreground) {
		status = into_background(&ready);
		if (status >= 0)
			return status;
		redirect(0, 1);
	}
	if (chdir("/"))
		return 1;
	raise_limits();
	lock = lock_take(&d);
	if (lock < 0) {
		report_ready(lock == -EALREADY ? ready : -1);
		return lock == -EALREADY ? 0 : 1;
	}
	logfile_open(&d, o.foreground);
	status = serve(&o, &d, idle, ready);
	logfile_close(&d, status == 0);
	lock_release(&d, lock);
	return status;
}
