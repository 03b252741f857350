/* A process appends what it counted to a file when it exits. One that is killed, or leaves by _exit, cannot: of that one the last
 * answer to a question counts. A thread asks every LOOK_MS as long as the program runs, as an answer may take seconds; before a
 * signal that may end the program it is waited for. */
#include "cli/stats.h"

#include "base/time.h"
#include "cli/counter_text.h"
#include "cli/daemon.h"
#include "cli/offspring.h"
#include "cli/output.h"
#include "cli/run.h"
#include "control/proc_stat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	LOOK_MS = 100,	/* our choice: an answer costs a process some ten microseconds */
	HEAR_S = 3,	/* our choice: so long a signal waits at most; weftd gives an answer 1 s */
};

#define RECORD "/tmp/weft-stats.XXXXXX"

struct stats {
	const struct cli_options *options;
	char record[sizeof(RECORD)];
	pid_t program;
	struct rundir dir;
	bool asks;		/* the thread runs */
	pthread_mutex_t lock;	/* guards what follows */
	pthread_cond_t heard, wanted;
	unsigned begun, ended;	/* questions */
	bool is_complete;	/* all that could answer the last one did */
	bool hurries;		/* ask at once */
	json_t *processes;	/* owned; objects with pid, slot, program, counters and is_final */
	const json_t *seen;	/* borrowed: the answer that is being taken in */
};

/* ---- what is known ---- */

static json_t *find(const struct stats *s, json_int_t pid, json_int_t slot)
{
	json_t *p;
	size_t i;

	json_array_foreach(s->processes, i, p) {
		if (output_number(p, "pid") == pid && output_number(p, "slot") == slot &&
		    !json_is_true(json_object_get(p, "is_final")))
			return p;
	}
	return NULL;
}

/* Of a process that executed another program, or detached and came back, there are several: each has a slot of its own. */
static void note(struct stats *s, json_int_t pid, json_int_t slot, const char *program, json_t *counters, bool is_final)
{
	json_t *p = find(s, pid, slot);

	if (!p) {
		p = json_pack("{s:I, s:I, s:s}", "pid", pid, "slot", slot, "program", program);
		json_array_append_new(s->processes, p);
	}
	json_object_set(p, "counters", counters);
	json_object_set_new(p, "is_final", json_boolean(is_final));
}

static bool is_stopped(pid_t pid)
{
	struct proc_stat s;

	return proc_stat_read(pid, &s) && proc_stat_is_stopped(&s);
}

static void take_answer(void *arg, pid_t pid)
{
	struct stats *s = arg;
	json_t *counters;
	const json_t *p;
	size_t i;

	json_array_foreach(s->seen, i, p) {
		counters = json_object_get(p, "report");
		if (output_number(p, "pid") != pid)
			continue;
		if (counters)
			note(s, pid, output_number(p, "slot"), output_text(p, "program"), counters, false);
		else if (!is_stopped(pid))
			s->is_complete = false;
	}
}

/* NULL with 0: there is nobody to ask. */
static json_t *get_answer(const struct stats *s, int *err)
{
	int fd = daemon_connect(&s->dir, CONTROL_COMMAND);
	json_t *answer;

	*err = 0;
	if (fd < 0)
		return NULL;
	answer = daemon_ask(fd, CTL_QUERY, "counters", err);
	close(fd);
	return answer;
}

/* Of other processes of the network nothing is said. Holds the lock, but while it waits. */
static void ask(struct stats *s)
{
	unsigned number = ++s->begun;
	json_t *answer;
	int err;

	s->hurries = false;
	pthread_mutex_unlock(&s->lock);
	answer = get_answer(s, &err);
	pthread_mutex_lock(&s->lock);
	s->is_complete = !err;
	s->seen = json_object_get(answer, "processes");
	if (s->seen)
		offspring_visit(take_answer, s);
	json_decref(answer);
	s->ended = number;
	pthread_cond_broadcast(&s->heard);
}

static struct timespec in(wtime ns)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	ns += (wtime)at.tv_nsec;
	return (struct timespec){ at.tv_sec + (time_t)(ns / WTIME_S), (long)(ns % WTIME_S) };
}

static void *keep_asking(void *arg)
{
	struct stats *s = arg;
	struct timespec next;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		ask(s);
		next = in(LOOK_MS * WTIME_MS);
		while (!s->hurries && pthread_cond_timedwait(&s->wanted, &s->lock, &next) == 0)
			;
	}
	return NULL;
}

/* What is counted by now, of all that run. */
static void hear_all(struct stats *s)
{
	struct timespec give_up = in(HEAR_S * WTIME_S);
	unsigned number;

	pthread_mutex_lock(&s->lock);
	number = s->begun + 1;
	s->hurries = true;
	pthread_cond_signal(&s->wanted);
	while (!(s->ended >= number && s->is_complete) && pthread_cond_timedwait(&s->heard, &s->lock, &give_up) == 0)
		;
	pthread_mutex_unlock(&s->lock);
}

static void take_record(struct stats *s)
{
	FILE *f = fopen(s->record, "re");
	char *line = NULL;
	size_t room = 0;

	while (f && getline(&line, &room, f) > 0) {
		json_t *row = json_loads(line, 0, NULL);
		json_int_t pid = output_number(row, "pid"), slot = output_number(row, "slot");
		char program[64];

		if (!json_is_object(row))
			continue;
		output_plain(output_text(row, "program"), program, sizeof(program));
		json_object_del(row, "pid");
		json_object_del(row, "slot");
		json_object_del(row, "program");
		note(s, pid, slot, program, row, true);
		json_decref(row);
	}
	free(line);
	if (f)
		fclose(f);
	unlink(s->record);
}

/* ---- what is printed ---- */

static json_t *sum(const struct stats *s)
{
	json_t *total = json_object(), *p, *value;
	const char *name;
	size_t i;

	json_array_foreach(s->processes, i, p) {
		json_object_foreach(json_object_get(p, "counters"), name, value) {
			json_object_set_new(total, name, json_integer(output_number(total, name) + json_integer_value(value)));
		}
	}
	return total;
}

static void print_text(const struct stats *s, json_t *total, FILE *to)
{
	char text[64];
	json_t *p;
	size_t i;

	json_array_foreach(s->processes, i, p) {
		fprintf(to, "weft: counted by %lld %s%s\n", output_number(p, "pid"),
			output_plain(output_text(p, "program"), text, sizeof(text)),
			json_is_true(json_object_get(p, "is_final")) ? "" : ", which did not exit by itself: so far as is known");
		counter_text_print(to, json_object_get(p, "counters"), false);
	}
	if (json_array_size(s->processes) > 1)
		fputs("weft: counted by all\n", to), counter_text_print(to, total, false);
	if (!json_array_size(s->processes))
		fputs("weft: no process opened a device of weft's\n", to);
}

static int print(const struct stats *s, int status)
{
	const char *path = s->options->stats;
	size_t length = strlen(path);
	bool is_json = length > 5 && strcmp(path + length - 5, ".json") == 0, is_written;
	FILE *to = *path ? fopen(path, "we") : stderr;
	json_t *total = sum(s), *all;

	if (to && is_json) {
		all = json_pack("{s:i, s:i, s:O, s:O}", "schema", OUTPUT_SCHEMA, "status", status, "processes", s->processes,
				"total", total);
		json_dumpf(all, to, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		fputc('\n', to);
		json_decref(all);
	} else if (to) {
		print_text(s, total, to);
	}
	json_decref(total);
	is_written = to && !fflush(to) && !ferror(to);
	if (!is_written)
		cli_fail("see that its folder is there and has room", "--stats=%s cannot be written: %s", path, strerror(errno));
	if (to && to != stderr)
		fclose(to);
	return is_written ? status : EXIT_FAILED;
}

/* ---- the program ---- */

static const int forwarded[] = { SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };	/* a terminal's go to the program anyway */
static const int ignored[] = { SIGINT, SIGQUIT };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int await(struct stats *s, const sigset_t *signals)
{
	int status;

	while (waitpid(s->program, &status, WNOHANG) == 0) {
		int got = sigwaitinfo(signals, NULL);

		if (got == SIGCHLD)
			continue;
		if (s->asks)
			hear_all(s);	/* before the program gets a signal that may end it */
		for (size_t i = 0; i < COUNT(forwarded); i++) {
			if (got == forwarded[i])
				kill(s->program, got);
		}
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void become(char **argv, const sigset_t *before, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	sigprocmask(SIG_SETMASK, before, NULL);
	_exit(run_execute(argv));
}

static int run(struct stats *s, char **argv)
{
	pid_t self = getpid();
	pthread_t asker;
	int err;
	sigset_t signals, before;

	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	for (size_t i = 0; i < COUNT(forwarded); i++)
		sigaddset(&signals, forwarded[i]);
	sigprocmask(SIG_BLOCK, &signals, &before);
	fflush(NULL);
	s->program = fork();
	if (s->program == 0)
		become(argv, &before, self);
	if (s->program < 0)
		return cli_fail("end other programs", "cannot fork: %s", strerror(errno));
	for (size_t i = 0; i < COUNT(ignored); i++)
		signal(ignored[i], SIG_IGN);
	err = pthread_create(&asker, NULL, keep_asking, s);
	s->asks = !err;
	if (err)
		fprintf(stderr, "weft: only processes that exit are counted: %s\n", strerror(err));
	return await(s, &signals);
}

int stats_run(const struct cli_options *o, char **argv)
{
	/* the thread may be asking to the end */
	static struct stats s = { .record = RECORD, .lock = PTHREAD_MUTEX_INITIALIZER, .heard = PTHREAD_COND_INITIALIZER,
				  .wanted = PTHREAD_COND_INITIALIZER };
	int status, fd = mkstemp(s.record);

	s.options = o;
	if (fd < 0 || setenv("WEFT_STATS", s.record, 1))
		return cli_fail("make room there", "%s cannot be made: %s", s.record, strerror(errno));
	close(fd);
	if (daemon_directory(o->system, &s.dir))
		return unlink(s.record), EXIT_FAILED;
	s.processes = json_array();
	status = run(&s, argv);
	pthread_mutex_lock(&s.lock);	/* for good */
	take_record(&s);
	return print(&s, status);
}
