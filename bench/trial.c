/* Children write to memory files and are awaited with sigtimedwait, so that while they measure this process does nothing at
 * all. Every child dies with us; what outlives its parent becomes our child and is killed. */
#include "bench/trial.h"

#include "bench/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Our choice: a trial takes a second; these are for a busy machine, and for programs that hang. */
enum { LIMIT_MS = 60000, READY_MS = 10000, LOOK_MS = 5, LEAVE_MS = 1000, WORDS = 48 };
enum { TCP_LISTEN = 0x0A, UDP_BOUND = 7 };	/* in /proc/net/tcp and udp, after the kernel's enum tcp_state */

struct end {
	pid_t pid;	/* 0: not started, or reaped */
	int output, status;
};

struct words {
	char *argv[WORDS + 1];
	char text[2 * TRIAL_PATH];
};

static int interrupted;
static sigset_t signals_before;

static const sigset_t *our_signals(void)
{
	static sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	return &set;
}

void trial_begin(void)
{
	sigprocmask(SIG_BLOCK, our_signals(), &signals_before);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void trial_end(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
}

/* Takes one signal, waiting so long for it. */
static void take_signal(int ms)
{
	struct timespec wait = { ms / 1000, ms % 1000 * 1000000 };
	int sig = sigtimedwait(our_signals(), NULL, &wait);

	if (sig > 0 && sig != SIGCHLD)
		interrupted = sig;
}

int trial_interrupted(void)
{
	take_signal(0);
	return interrupted;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What the words in braces of this trial stand for. */
struct values {
	const char *weft, *bench;
	char cpus[24], size[24], rounds[16], warm_up[16], port[8];
};

static void make_values(struct values *v, const struct trial *t, size_t size, unsigned rounds, int port)
{
	v->weft = t->weft;
	v->bench = t->bench;
	snprintf(v->cpus, sizeof(v->cpus), "%d %d", t->cpu[0], t->cpu[1]);
	snprintf(v->size, sizeof(v->size), "%zu", size);
	snprintf(v->rounds, sizeof(v->rounds), "%u", rounds);
	snprintf(v->warm_up, sizeof(v->warm_up), "%u", rounds / 10 + 1);
	snprintf(v->port, sizeof(v->port), "%u", (unsigned)port & 0xffff);
}

static const char *value_of(const struct values *v, const char *word, size_t length)
{
	const struct { const char *word, *text; } table[] = {
		{ "{weft}", v->weft }, { "{bench}", v->bench }, { "{cpus}", v->cpus }, { "{size}", v->size },
		{ "{rounds}", v->rounds }, { "{warm_up}", v->warm_up }, { "{port}", v->port },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strlen(table[i].word) == length && strncmp(table[i].word, word, length) == 0)
			return table[i].text;
	return "";
}

/* Appends the command with its values. */
static void expand(const struct values *v, const char *command, char *text, size_t room)
{
	size_t used = strlen(text);

	while (*command && used + 1 < room) {
		size_t plain = strcspn(command, "{"), braced = strcspn(command + plain, "}");

		used += (size_t)snprintf(text + used, room - used, "%.*s", (int)plain, command);
		command += plain;
		if (*command && used < room) {
			used += (size_t)snprintf(text + used, room - used, "%s", value_of(v, command, braced + 1));
			command += braced + 1;
		}
	}
}

static void split(struct words *w)
{
	char *next = w->text;
	int n = 0;

	for (char *word; n < WORDS && (word = strtok_r(next, " ", &next));)
		w->argv[n++] = word;
	w->argv[n] = NULL;
}

/* Which end a child is: that decides where it runs. */
enum place { PLACE_SERVER, PLACE_CLIENT, PLACE_ANY };

static void go_to(const struct trial *t, enum place place)
{
	cpu_set_t set;

	if (place == PLACE_ANY)
		return;
	if (t->wire && wire_enter(t->wire, place == PLACE_CLIENT)) {
		perror("network namespace");
		_exit(127);
	}
	if (t->wire)
		wire_look_around();
	CPU_ZERO(&set);
	CPU_SET((size_t)t->cpu[place], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void run_child(const struct trial *t, char **argv, enum place place, int output, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
	dup2(null, 0);
	dup2(output, 1);
	dup2(output, 2);
	go_to(t, place);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* False when it cannot be started. */
static bool start(const struct trial *t, struct end *end, const struct values *v, const char *command, const char *more,
		  enum place place)
{
	pid_t parent = getpid();
	struct words w = { 0 };

	expand(v, command, w.text, sizeof(w.text));
	expand(v, " ", w.text, sizeof(w.text));
	expand(v, more, w.text, sizeof(w.text));
	split(&w);
	end->output = memfd_create("output", MFD_CLOEXEC);
	if (end->output < 0)
		return false;
	fflush(NULL);
	end->pid = fork();
	if (end->pid == 0)
		run_child(t, w.argv, place, end->output, parent);
	if (end->pid < 0)
		end->pid = 0;
	else
		setpgid(end->pid, end->pid);
	return end->pid > 0;
}

/* Waits until it has exited, or so long. */
static bool wait_end(struct end *end, int ms)
{
	int64_t deadline = now_ms() + ms;

	for (;;) {
		int64_t left = deadline - now_ms();

		if (end->pid == 0)
			return true;
		if (waitpid(end->pid, &end->status, WNOHANG) == end->pid) {
			end->pid = 0;
			return true;
		}
		if (left <= 0 || interrupted)
			return false;
		take_signal((int)left);
	}
}

/* libfabric's memory files are named for their process, and stay when it is killed. */
static void remove_memory_of(pid_t pid)
{
	DIR *dir = opendir("/dev/shm");
	struct dirent *e;
	char prefix[16];
	struct stat st;

	snprintf(prefix, sizeof(prefix), "%d:", (int)pid);
	while (dir && (e = readdir(dir)))
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 &&
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		    st.st_uid == geteuid())
			unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
}

static void stop_end(struct end *end)
{
	pid_t pid = end->pid;
	int was = interrupted;

	if (pid == 0)
		return;
	kill(-pid, SIGTERM);
	interrupted = 0;	/* it is to be waited for, all the same */
	if (!wait_end(end, LEAVE_MS)) {
		kill(-pid, SIGKILL);
		waitpid(pid, &end->status, 0);
		end->pid = 0;
	}
	interrupted = interrupted ? interrupted : was;
	remove_memory_of(pid);
}

/* Whoever was orphaned by an end is our child now. */
static void kill_children(void)
{
	char path[64];
	FILE *children;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	children = fopen(path, "re");
	while (children && fscanf(children, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	if (children)
		fclose(children);
}

static void stop_orphans(void)
{
	int64_t deadline = now_ms() + LEAVE_MS;
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && now_ms() < deadline) {
		if (pid > 0) {
			remove_memory_of(pid);
			continue;
		}
		kill_children();
		take_signal(LOOK_MS);
	}
}

static void stop(struct end ends[2])
{
	for (int i = 0; i < 2; i++) {
		stop_end(&ends[i]);
		if (ends[i].output > 0)
			close(ends[i].output);
	}
	stop_orphans();
}

static void read_output(const struct end *end, char *output, size_t room)
{
	ssize_t n = pread(end->output, output, room - 1, 0);

	output[n > 0 ? n : 0] = '\0';
}

static int free_port(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(any);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, bytes) || getsockname(fd, (struct sockaddr *)&any, &bytes))
		any.sin_port = 0;
	if (fd >= 0)
		close(fd);
	return ntohs(any.sin_port);
}

static bool listens_in(const char *path, int port, unsigned wanted)
{
	FILE *table = fopen(path, "re");
	unsigned local, state;
	bool listens = false;
	char line[512];

	while (table && !listens && fgets(line, sizeof(line), table))
		listens = sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &state) == 2 &&
			  (int)local == port && state == wanted;
	if (table)
		fclose(table);
	return listens;
}

static bool listens_rdma_cm(const struct trial *t)
{
	static char output[TRIAL_OUTPUT];
	json_int_t listeners = 0;
	json_t *status, *process;
	size_t i;

	if (!trial_capture(t, "{weft} status --json", output, sizeof(output)))
		return false;
	status = json_loads(output, 0, NULL);
	json_array_foreach(json_object_get(status, "processes"), i, process)
		listeners += json_integer_value(json_object_get(process, "listeners"));
	json_decref(status);
	return listeners > 0;
}

static bool is_ready(const struct trial *t, enum contestant_ready ready, int port)
{
	switch (ready) {
	case READY_TCP:
		return listens_in("/proc/self/net/tcp", port, TCP_LISTEN) || listens_in("/proc/self/net/tcp6", port, TCP_LISTEN);
	case READY_UDP:
		return listens_in("/proc/self/net/udp", port, UDP_BOUND);
	default:
		return listens_rdma_cm(t);
	}
}

/* The last line that says something, for the reason of a failure. */
static void last_line(const char *output, char *why, size_t room)
{
	const char *end = output + strlen(output), *begin;

	while (end > output && strchr(" \t\n-", end[-1]))
		end--;
	for (begin = end; begin > output && begin[-1] != '\n';)
		begin--;
	snprintf(why, room, "%.*s", (int)(end - begin), begin);
}

static bool explain(const struct end *end, const char *name, char why[TRIAL_WHY])
{
	char output[4096], line[TRIAL_WHY - 64];

	read_output(end, output, sizeof(output));
	last_line(output, line, sizeof(line));
	if (interrupted)
		snprintf(why, TRIAL_WHY, "interrupted");
	else if (end->pid)
		snprintf(why, TRIAL_WHY, "the %s does not end", name);
	else
		snprintf(why, TRIAL_WHY, "the %s fails (%s %d): %s", name, WIFSIGNALED(end->status) ? "signal" : "status",
			 WIFSIGNALED(end->status) ? WTERMSIG(end->status) : WEXITSTATUS(end->status), line);
	return false;
}

static bool start_server(const struct trial *t, const struct contestant *c, const struct values *v, int port, struct end *server,
			 char why[TRIAL_WHY])
{
	int64_t deadline = now_ms() + READY_MS;

	if (!start(t, server, v, c->command, c->server, PLACE_SERVER)) {
		snprintf(why, TRIAL_WHY, "cannot start a process: %s", strerror(errno));
		return false;
	}
	while (!is_ready(t, c->ready, port)) {
		if (wait_end(server, LOOK_MS) || interrupted || now_ms() > deadline)
			return explain(server, "server", why);
	}
	return true;
}

static bool measure(const struct trial *t, const struct contestant *c, const struct values *v, int port, struct end ends[2],
		    double *value, char why[TRIAL_WHY])
{
	static char output[TRIAL_OUTPUT];
	struct end *client = &ends[1];

	if (c->client && !start_server(t, c, v, port, &ends[0], why))
		return false;
	if (!start(t, client, v, c->command, c->client ? c->client : "", c->client ? PLACE_CLIENT : PLACE_ANY)) {
		snprintf(why, TRIAL_WHY, "cannot start a process: %s", strerror(errno));
		return false;
	}
	if (!wait_end(client, LIMIT_MS) || client->status)
		return explain(client, c->client ? "client" : "program", why);
	read_output(client, output, sizeof(output));
	if (!c->parse(output, value)) {
		snprintf(why, TRIAL_WHY, "its output has no figure");
		return false;
	}
	if (c->ready == READY_TCP)
		wait_end(&ends[0], LEAVE_MS);
	return true;
}

bool trial_run(const struct trial *t, const struct contestant *c, size_t size, unsigned rounds, double *value,
	       char why[TRIAL_WHY])
{
	struct end ends[2] = { { 0 } };
	int port = free_port();
	struct values v;
	bool is_measured;

	make_values(&v, t, size, rounds, port);
	is_measured = measure(t, c, &v, port, ends, value, why);
	stop(ends);
	return is_measured;
}

bool trial_capture(const struct trial *t, const char *command, char *output, size_t room)
{
	struct end end = { 0 };
	struct values v;
	bool is_fine;

	make_values(&v, t, 0, 0, 0);
	is_fine = start(t, &end, &v, command, "", PLACE_ANY) && wait_end(&end, READY_MS);
	if (is_fine)
		read_output(&end, output, room);
	stop_end(&end);
	if (end.output > 0)
		close(end.output);
	return is_fine;
}

bool trial_has_program(const struct trial *t, const char *program)
{
	char path[TRIAL_PATH];
	const char *list = getenv("PATH");

	if (strncmp(program, "{bench}/", 8) == 0)
		return snprintf(path, sizeof(path), "%s/%s", t->bench, program + 8) < (int)sizeof(path) &&
		       access(path, X_OK) == 0;
	for (list = list ? list : "/bin:/usr/bin"; *list; list += strspn(list, ":")) {
		int n = (int)strcspn(list, ":");

		if (snprintf(path, sizeof(path), "%.*s/%s", n, list, program) < (int)sizeof(path) && access(path, X_OK) == 0)
			return true;
		list += n;
	}
	return false;
}
