/* weft bench: a weftd of its own, so that nobody else's programs are in its way, and the measuring, which is in bench/. */
#include "bench/bench.h"
#include "bench/wire.h"

#include "cli/cli.h"
#include "cli/daemon.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIRECTORY = RUNDIR_PATH + 32 };

/* Names a directory beside the usual one, for this process and its children. */
static int set_directory(char own[DIRECTORY])
{
	struct rundir usual;

	if (rundir_choose(&usual, false))
		return -1;
	snprintf(own, DIRECTORY, "%s-bench-%d", usual.path, (int)getpid());
	return setenv("WEFT_DIR", own, 1) || setenv("WEFT_IDLE_S", "0.5", 1) || unsetenv("WEFT_NODE");
}

static int exit_status(enum bench_outcome outcome)
{
	static const int statuses[] = { [BENCH_MEASURED] = EXIT_OK, [BENCH_FAILED] = EXIT_FAILED, [BENCH_USAGE] = EXIT_USAGE,
		[BENCH_INTERRUPTED] = EXIT_INTERRUPTED };

	return statuses[outcome];
}

static int no_place(void)
{
	return cli_fail("set WEFT_DIR to a shorter path", "there is no place for a weftd of the benchmark's own");
}

/* weftd of the directory that WEFT_DIR names serves while the lease is held. An exit status. */
static int hold(struct rundir *d, int *lease)
{
	if (daemon_directory(false, d))
		return no_place();
	*lease = daemon_start(d, CONTROL_LEASE, false);
	return *lease < 0 ? EXIT_FAILED : EXIT_OK;
}

static int let_go(struct rundir *d, int lease)
{
	bool was_running;

	if (lease < 0)
		return EXIT_OK;
	close(lease);
	return daemon_end(d, true, &was_running);
}

static int run_here(struct bench_options *bench)
{
	struct rundir d;
	int lease = -1, status = hold(&d, &lease), ended;

	if (!status)
		status = exit_status(bench_run(bench));
	ended = let_go(&d, lease);
	return status ? status : ended;
}

/* Each host has a weftd of its own. */
static int run_between_hosts(const struct bench_options *bench, const char *own)
{
	char far[DIRECTORY + 8];
	struct wire w = { .dir = { own, far } };
	struct bench_options between = *bench;
	struct rundir d[2];
	int lease[2] = { -1, -1 }, status = EXIT_OK;

	snprintf(far, sizeof(far), "%s-far", own);
	if (wire_open(&w))
		return EXIT_FAILED;
	between.wire = &w;
	for (int i = 1; i >= 0 && !status; i--)
		status = wire_enter(&w, i) ? EXIT_FAILED : hold(&d[i], &lease[i]);
	if (!status)
		status = exit_status(bench_run(&between));
	for (int i = 0; i < 2; i++) {
		int ended = wire_enter(&w, i) ? EXIT_FAILED : let_go(&d[i], lease[i]);

		status = status ? status : ended;
	}
	wire_close(&w);
	return status;
}

int cli_bench(const struct cli_options *o, int argc, char **argv)
{
	char weft[4096], programs[4096 + 16], own[DIRECTORY];
	struct bench_options bench = { .weft = weft, .bench = programs, .only = o->only, .sizes = o->sizes, .rounds = o->reps,
		.cpus = o->cpus, .json = o->json_file, .markdown = o->markdown, .svg = o->svg, .is_quick = o->quick,
		.with_goals = o->goals, .is_wire = o->wire };
	enum bench_outcome outcome;
	struct places p;

	(void)argc, (void)argv;
	if (places_find(&p))
		return cli_fail("mount /proc", "cannot find out where weft is installed");
	snprintf(weft, sizeof(weft), "%.*s/weft", (int)(strrchr(p.weftd, '/') - p.weftd), p.weftd);
	snprintf(programs, sizeof(programs), "%s/bench", p.library_dir);
	if (o->list)
		return exit_status(bench_list(&bench));
	outcome = bench_check(&bench);
	if (outcome)
		return exit_status(outcome);
	if (set_directory(own))
		return no_place();
	return o->wire ? run_between_hosts(&bench, own) : run_here(&bench);
}
