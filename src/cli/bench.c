/* weft bench: a weftd of its own, so that nobody else's programs are in its way, and the measuring, which is in bench/. */
#include "bench/bench.h"

#include "cli/cli.h"
#include "cli/daemon.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names a directory beside the usual one, for this process and its children. */
static int set_directory(void)
{
	struct rundir usual;
	char own[RUNDIR_PATH + 32];

	if (rundir_choose(&usual, false))
		return -1;
	snprintf(own, sizeof(own), "%s-bench-%d", usual.path, (int)getpid());
	return setenv("WEFT_DIR", own, 1) || setenv("WEFT_IDLE_S", "0.5", 1) || unsetenv("WEFT_NODE");
}

static int exit_status(enum bench_outcome outcome)
{
	static const int statuses[] = { [BENCH_MEASURED] = EXIT_OK, [BENCH_FAILED] = EXIT_FAILED, [BENCH_USAGE] = EXIT_USAGE,
		[BENCH_INTERRUPTED] = EXIT_INTERRUPTED };

	return statuses[outcome];
}

int cli_bench(const struct cli_options *o, int argc, char **argv)
{
	char weft[4096], programs[4096 + 16];
	struct bench_options bench = { .weft = weft, .bench = programs, .only = o->only, .sizes = o->sizes, .rounds = o->reps,
		.cpus = o->cpus, .json = o->json_file, .markdown = o->markdown, .svg = o->svg, .is_quick = o->quick,
		.with_goals = o->goals };
	enum bench_outcome outcome;
	struct places p;
	struct rundir d;
	bool was_running;
	int lease;

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
	if (set_directory() || daemon_directory(false, &d))
		return cli_fail("set WEFT_DIR to a shorter path", "there is no place for a weftd of the benchmark's own");
	lease = daemon_start(&d, CONTROL_LEASE, false);
	if (lease < 0)
		return EXIT_FAILED;
	outcome = bench_run(&bench);
	close(lease);
	if (daemon_end(&d, true, &was_running))
		return EXIT_FAILED;
	return exit_status(outcome);
}
