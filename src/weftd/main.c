/* weftd: options, exactly one per directory, into the background, serve, leave nothing behind. */
#include "base/log.h"
#include "commit.h"
#include "control/bugs.h"
#include "control/devices.h"
#include "control/protocol.h"
#include "weftd/descriptors.h"
#include "weftd/lock.h"
#include "weftd/logfile.h"
#include "weftd/rundir.h"
#include "weftd/server.h"
#include "weftd/sweep.h"
#include "wire/header.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Our choice: long enough for a script's next command, short enough to go unnoticed. */
#define IDLE_S 5

/* Our choices: who asks for it is about to end; a sweep takes milliseconds. */
enum { SWEEP_WAIT_MS = 10000, SWEEP_TRIES = 100, SWEEP_TRY_MS = 10 };

struct options {
	bool system, keep, foreground;
	int sweep;		/* the process whose end is waited for, 0: serve */
	const char *memory;
	struct control_table devices;	/* of a network that begins */
};

static const struct option long_options[] = {
	{ "system", no_argument, NULL, 's' },	  { "keep", no_argument, NULL, 'k' },
	{ "foreground", no_argument, NULL, 'f' }, { "memory", required_argument, NULL, 'm' },
	{ "help", no_argument, NULL, 'h' },	  { "version", no_argument, NULL, 'V' },
	{ "sweep", required_argument, NULL, 'S' }, { 0 },
};

static void print_help(void)
{
	printf("Usage: weftd [OPTION]...\n"
	       "Serves the RDMA devices of this host's processes. `weft run` starts it when it is needed.\n"
	       "Returns once clients can connect, also when another weftd serves already.\n\n"
	       "  -k, --keep        stay when nobody is attached\n"
	       "  -f, --foreground  stay in the foreground and log to the standard error\n"
	       "      --system      serve all users (root only), in " RUNDIR_SYSTEM "\n"
	       "      --memory=WHO  who gets the memory of a process: `ptrace`, processes that may trace it, or `user`,\n"
	       "                    all of its user, those in containers too; the others exchange packets (ptrace)\n"
	       "      --sweep=PID   do not serve: when that process has ended, remove what a weftd left for it\n"
	       "  -h, --help        this text\n"
	       "      --version     the version\n\n"
	       "Environment: WEFT_DIR, the runtime directory; WEFT_IDLE_S, seconds to stay when idle (%d);\n"
	       "WEFT_MEMORY, as --memory; WEFT_NETWORK_DEVICES, as --devices of weft-run(1).\n",
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
		else if (c == 'm')
			o->memory = optarg;
		else if (c == 'S')
			o->sweep = atoi(optarg);
		else if (c == 'h')
			print_help(), exit(0);
		else if (c == 'V')
			printf("weftd %s (%s)\n", WEFT_VERSION, WEFT_COMMIT), exit(0);
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

static void read_devices(struct control_table *t)
{
	const char *list = getenv(CONTROL_DEVICES_VARIABLE);
	char why[160];

	*t = control_default;
	if (!list || !*list || !control_table_parse(list, t, why, sizeof(why)))
		return;
	fprintf(stderr, "weftd: %s=%s: %s\n", CONTROL_DEVICES_VARIABLE, list, why);
	exit(2);
}

static bool gives_to_user(const struct options *o)
{
	const char *who = o->memory ? o->memory : getenv("WEFT_MEMORY");

	if (!who || !*who || strcmp(who, "ptrace") == 0)
		return false;
	if (strcmp(who, "user") == 0)
		return true;
	fprintf(stderr, "weftd: memory can be given to `ptrace` or `user`, not to '%s' (%s); see weftd --help\n", who,
		o->memory ? "--memory" : "WEFT_MEMORY");
	exit(2);
}

static int fail_dir(const struct rundir *d, int err, const char *why)
{
	fprintf(stderr, "weftd: the runtime directory %s cannot be used: %s\n  next: %s\n",
		err == -EINVAL ? getenv("WEFT_DIR") : d->path, why, rundir_advice(err));
	return 1;
}

static int choose_dir(const struct options *o, struct rundir *d)
{
	const char *why;
	int err = rundir_choose(d, o->system);

	if (err)
		return fail_dir(d, err, rundir_refusal(err));
	if (o->system && geteuid()) {
		fprintf(stderr, "weftd: --system is for root; without it weftd serves this user alone\n");
		return 1;
	}
	err = rundir_open(d, &why);
	rundir_close(d);
	return err ? fail_dir(d, err, why) : 0;
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

/* *is_whole: nothing stays that weft did not make. */
static int serve(const struct options *o, const struct rundir *d, wtime idle, int ready, bool *is_whole)
{
	/* who holds a socket of the port can take the packets of the others, and with --system they are not one user's */
	const struct server_config config = { .dir = d, .idle = idle, .keep = o->keep, .devices = &o->devices,
		.gives_to_user = gives_to_user(o), .wire_port = o->system ? 0 : ROCE_PORT };
	struct server *s;

	if (server_create(&config, &s)) {
		if (ready >= 0)
			fprintf(stderr, "weftd: cannot start; %s/weftd.log says why\n", d->path);
		return 1;
	}
	log_line(LOG_INFO, "serving %s", d->path);
	report_ready(ready);
	server_run(s);
	*is_whole = server_destroy(s) & !rundir_has_others(d);
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

/* Others that end at the same time may be at it. */
static int sweep_after(const struct options *o)
{
	struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, o->sweep, 0), .events = POLLIN };
	struct rundir d;
	int err = -EAGAIN;

	/* nobody's output is to wait for this */
	redirect(0, 2);
	setsid();
	unblock_signals();
	if (chdir("/") || rundir_choose(&d, o->system))
		return 1;
	/* poll(2) passes over a descriptor of -1: the process has ended */
	poll(&end, 1, end.fd < 0 ? 0 : SWEEP_WAIT_MS);
	for (int i = 0; i < SWEEP_TRIES && err == -EAGAIN; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = SWEEP_TRY_MS * 1000000 }, NULL);
		err = sweep_left(&d, false);
	}
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct options o = { 0 };
	struct rundir d;
	int ready = -1, lock, status;
	bool is_whole = true;
	wtime idle;

	parse(argc, argv, &o);
	bugs_to_file();
	idle = idle_time();
	gives_to_user(&o);
	read_devices(&o.devices);
	/* whatever the caller had open would stay open as long as weftd lives */
	descriptors_close(3, ~0U);
	if (o.sweep)
		return sweep_after(&o);
	umask(o.system ? 022 : 077);
	if (choose_dir(&o, &d))
		return 1;
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
	status = logfile_open(&d, o.foreground);
	if (status)
		fprintf(stderr, "weftd: %s/weftd.log was not made by weft\n  next: move it elsewhere\n", d.path);
	else
		status = serve(&o, &d, idle, ready, &is_whole);
	/* it says what stays, and why */
	logfile_close(&d, status == 0 && is_whole);
	lock_release(&d, lock);
	return status ? 1 : 0;
}
