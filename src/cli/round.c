/* Two processes keep a run: the one that is here waits, and a supervisor below it starts the programs. When either is killed the
 * other one ends the programs and removes the network: the supervisor gets a signal at its parent's death, and the parent, as a
 * subreaper, gets the supervisor's children. */
#include "cli/round.h"

#include "cli/apart.h"
#include "cli/daemon.h"
#include "cli/listening.h"
#include "cli/member.h"
#include "cli/offspring.h"
#include "cli/own_network.h"
#include "cli/run.h"
#include "control/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	EXIT_TIMED_OUT = 124,		/* as timeout(1) */
	LOOK_MS = 20,			/* between looks for a listener */
	HINT_S = 5,			/* until the user is told what is waited for */
	GRACE_S = 1,			/* for the others to say what they met, when one has failed; then after SIGTERM */
};

struct round {
	const struct round_plan *plan;
	struct round_result *result;
	struct member_log log;
	struct member member[1 + ROUND_CLIENTS];
	int members, signals;
	wtime began, limit;
	wtime next_step;	/* when those that run get the next signal; WTIME_NEVER: nothing has failed */
	int step;		/* 0: SIGTERM is next, 1: SIGKILL */
	bool clients_run, is_hinted;
};

/* ---- what ends a run ---- */

static void end_by(struct round *r, enum round_end end, int status, int failed, wtime grace_ns)
{
	if (r->next_step != WTIME_NEVER)
		return;
	r->result->end = end;
	r->result->status = status;
	r->result->failed = failed;
	r->next_step = clock_now() + grace_ns;
}

static bool has_failed(const struct round *r, int i)
{
	const struct member *m = &r->member[i];

	if (i == 0 && r->plan->stops_server && m->was_ended && (m->status <= 128 || m->status == 128 + SIGTERM ||
								 m->status == 128 + SIGKILL))
		return false;
	return m->status != 0;
}

static int count_running(const struct round *r)
{
	int n = 0;

	for (int i = 0; i < r->members; i++)
		n += member_runs(&r->member[i]);
	return n;
}

static void reap(struct round *r)
{
	for (int i = 0; i < r->members; i++) {
		if (member_reap(&r->member[i]) && has_failed(r, i))
			end_by(r, ROUND_MEMBER_FAILED, r->member[i].status, i, GRACE_S * WTIME_S);
	}
	if (!r->clients_run && r->member[0].status == 0)
		end_by(r, ROUND_NO_LISTENER, EXIT_FAILED, 0, 0);
	if (r->clients_run && r->plan->stops_server && member_runs(&r->member[0]) && count_running(r) == 1 &&
	    !r->member[0].was_ended)
		member_signal(&r->member[0], SIGTERM);
}

static void take_signals(struct round *r)
{
	struct signalfd_siginfo info;

	while (read(r->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			end_by(r, ROUND_INTERRUPTED, 128 + (int)info.ssi_signo, -1, 0);
	}
}

static void take_step(struct round *r, wtime now)
{
	if (now < r->next_step)
		return;
	for (int i = 0; i < r->members; i++)
		member_signal(&r->member[i], r->step ? SIGKILL : SIGTERM);
	r->step = 1;
	r->next_step = now + GRACE_S * WTIME_S;
}

/* ---- its course ---- */

static const char *how_ready(struct round *r, const struct rundir *d, wtime now)
{
	if (r->plan->delay_ns != WTIME_NEVER)
		return now >= r->began + r->plan->delay_ns ? "delay" : NULL;
	if (r->plan->ready)
		return r->log.is_found ? "output" : NULL;
	return listening_how(d);
}

static void start_clients(struct round *r, const char *how)
{
	snprintf(r->result->ready, sizeof(r->result->ready), "%s", how);
	r->clients_run = true;
	for (; r->members <= r->plan->clients; r->members++) {
		struct member *m = &r->member[r->members];

		snprintf(m->name, sizeof(m->name), "%d", r->members);
		setenv("WEFT_PAIR_CLIENT", m->name, 1);
		snprintf(m->name, sizeof(m->name), "client %d", r->members);
		if (member_start(m, r->plan->client, false, r->plan->mask)) {
			end_by(r, ROUND_BROKEN, EXIT_FAILED, -1, 0);
			return;
		}
	}
	unsetenv("WEFT_PAIR_CLIENT");
}

static void hint(struct round *r, wtime now)
{
	if (r->is_hinted || r->clients_run || r->plan->delay_ns != WTIME_NEVER || now < r->began + HINT_S * WTIME_S)
		return;
	r->is_hinted = true;
	fprintf(stderr, "weft: %s\n", r->plan->ready ? "the server has not printed what --ready wants" :
		"the server does not listen (TCP, rdma_cm); --ready or --delay are for servers that never do");
}

static void wait_for_something(struct round *r, wtime now)
{
	struct pollfd fds[2 + ROUND_CLIENTS] = { { r->signals, POLLIN, 0 } };
	wtime next = r->next_step < r->limit ? r->next_step : r->limit;
	int ms = next > now ? (int)((next - now) / (WTIME_S / 1000)) + 1 : 0;

	if (!r->clients_run && ms > LOOK_MS)
		ms = LOOK_MS;
	for (int i = 0; i < r->members; i++)
		fds[1 + i] = (struct pollfd){ r->member[i].output, POLLIN, 0 };
	poll(fds, 1 + (nfds_t)r->members, ms);
}

static void read_all(struct round *r)
{
	for (int i = 0; i < r->members; i++)
		member_read(&r->member[i], &r->log);
}

static void watch(struct round *r, const struct rundir *d)
{
	while (count_running(r) > 0) {
		wtime now = clock_now();
		const char *how = NULL;

		if (!r->clients_run && r->next_step == WTIME_NEVER)
			how = how_ready(r, d, now);
		if (how)
			start_clients(r, how);
		if (now >= r->limit)
			end_by(r, ROUND_TIMED_OUT, EXIT_TIMED_OUT, -1, 0);
		if (r->next_step != WTIME_NEVER)
			r->limit = WTIME_NEVER;
		hint(r, now);
		take_step(r, now);
		wait_for_something(r, now);
		read_all(r);
		take_signals(r);
		reap(r);
	}
}

static void report(struct round *r)
{
	r->result->took_ns = clock_now() - r->began;
	for (int i = 0; i <= ROUND_CLIENTS; i++) {
		bool counts = i < r->members && (!r->member[i].was_ended || i == r->result->failed);

		r->result->member[i] = counts ? r->member[i].status : -1;
	}
}

static void end_offspring(void)
{
	struct places p;

	offspring_end(places_find(&p) ? NULL : p.weftd);
}

/* In the supervisor. weftd goes last: programs that lose it would start another. */
static void supervise(const struct round_plan *plan, FILE *to, struct round_result *result)
{
	static struct round r;
	struct rundir d;
	sigset_t wanted;

	r = (struct round){ .plan = plan, .result = result, .log = { .to = to, .wanted = plan->ready },
			    .next_step = WTIME_NEVER, .began = clock_now() };
	for (int i = 0; i <= ROUND_CLIENTS; i++)
		r.member[i] = (struct member){ .output = -1, .status = -1 };
	r.limit = r.began + plan->limit_ns;
	strcpy(r.member[0].name, "server");
	sigprocmask(SIG_BLOCK, NULL, &wanted);
	r.signals = signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
	offspring_adopt();
	result->end = ROUND_BROKEN;
	if (r.signals < 0 || run_prepare(plan->options) || daemon_directory(false, &d) ||
	    member_start(&r.member[0], plan->server, plan->ready != NULL, plan->mask))
		return;
	result->end = ROUND_FINE;
	result->status = EXIT_OK;
	r.members = 1;
	watch(&r, &d);
	end_offspring();
	read_all(&r);
	for (int i = 0; i < r.members; i++)
		member_close(&r.member[i], &r.log);
	report(&r);
}

/* ---- the command ---- */

/* The supervisor is killed by SIGPIPE when nobody reads what the programs print any more: that is no news. */
static void take_result(int from, int status, struct round_result *result)
{
	if (read(from, result, sizeof(*result)) == sizeof(*result))
		return;
	*result = (struct round_result){ .end = ROUND_BROKEN, .status = EXIT_FAILED, .failed = -1 };
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
		result->status = 128 + SIGPIPE;
	else
		cli_fail("run it again", "the process that starts the programs has been killed");
}

static void run_supervisor(const struct round_plan *plan, FILE *to, struct own_network *network, int out, pid_t parent)
{
	struct round_result result = { .end = ROUND_BROKEN, .status = EXIT_FAILED, .failed = -1 };

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		raise(SIGTERM);
	supervise(plan, to, &result);
	end_offspring();
	own_network_remove(network);
	fflush(NULL);
	_exit(write(out, &result, sizeof(result)) == sizeof(result) ? EXIT_OK : EXIT_FAILED);
}

void round_run(const struct round_plan *plan, FILE *to, struct round_result *result)
{
	struct own_network network;
	sigset_t signals;
	pid_t supervisor, self = getpid();
	int ends[2], status = 0;

	*result = (struct round_result){ .end = ROUND_BROKEN, .status = EXIT_FAILED, .failed = -1 };
	if (own_network_make(&network))
		return;
	if (pipe2(ends, O_CLOEXEC)) {
		cli_fail(NULL, "%s", strerror(errno));
		own_network_remove(&network);
		return;
	}
	offspring_adopt();
	fflush(NULL);
	supervisor = fork();
	if (supervisor == 0)
		run_supervisor(plan, to, &network, ends[1], self);
	close(ends[1]);
	sigprocmask(SIG_BLOCK, NULL, &signals);
	if (supervisor > 0)
		status = apart_await(supervisor, &signals);	/* it ends in its own way */
	else
		cli_fail("end other programs", "cannot fork: %s", strerror(errno));
	if (supervisor > 0)
		take_result(ends[0], status, result);
	close(ends[0]);
	end_offspring();
	own_network_remove(&network);
}
