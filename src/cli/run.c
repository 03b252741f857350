/* weft run: weftd, the environment, exec. The connection to weftd stays open across exec, in the program and in what it
 * starts, so that weftd and the tree of device files stay as long as any of them lives. */
#include "cli/run.h"

#include "cli/daemon.h"
#include "cli/environment.h"
#include "cli/faults.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/stats.h"
#include "ib/ib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_path(const char *name)
{
	return strcmp(name, "direct") == 0 || strcmp(name, "packet") == 0 || strcmp(name, "wire") == 0 ||
	       strcmp(name, "auto") == 0;
}

/* Why exec failed. A folder of PATH that cannot be read makes it say EACCES for a program that is nowhere. */
static int exec_error(const char *name)
{
	int err = errno;
	char path[4096];
	struct elf e;

	if (err == EACCES && !strchr(name, '/') && program_examine(name, path, sizeof(path), &e) == PROGRAM_MISSING)
		return ENOENT;
	return err;
}

static bool is_size(const char *option, const char *text)
{
	if (!text || environment_bytes(text, 1))
		return true;
	cli_fail("the smallest is 4096; k, m and g are units", "--%s=%s is not a size", option, text);
	return false;
}

int run_check(const struct cli_options *o)
{
	struct ib_options profile = ib_default_options;
	struct control_table t;
	unsigned named;

	if (network_choose(o) != EXIT_OK)
		return EXIT_USAGE;
	network_names(o, &t);
	if (o->devices && control_devices_listed(o->devices, &t, &named)) {
		cli_fail("weft devices lists them", "unknown device in --device %s", o->devices);
		return EXIT_USAGE;
	}
	if (!is_size("shared-heap", o->shared_heap) || !is_size("remap", o->remap))
		return EXIT_USAGE;
	if (o->path && !is_path(o->path)) {
		cli_fail("the paths are direct, packet, wire and auto", "unknown path: --path %s", o->path);
		return EXIT_USAGE;
	}
	if (o->engine && strcmp(o->engine, "thread") != 0 && strcmp(o->engine, "caller") != 0) {
		cli_fail("the engines are thread and caller", "unknown engine: --engine %s", o->engine);
		return EXIT_USAGE;
	}
	if (o->profile && ib_options_parse(o->profile, &profile)) {
		cli_fail("weft-run(1) lists the profiles and their settings", "unknown profile: --profile %s", o->profile);
		return EXIT_USAGE;
	}
	if (o->node && o->nodes) {
		cli_fail("--node for all, or --nodes for ranks", "--node and --nodes exclude each other");
		return EXIT_USAGE;
	}
	return faults_check(o, &profile);
}

int run_prepare(const struct cli_options *o)
{
	struct places p;
	struct rundir d;
	uint32_t at;
	int fd;

	if (places_find(&p))
		return cli_fail("mount /proc", "cannot find out where weft is installed");
	if (environment_check(&p) || daemon_directory(o->system, &d))
		return EXIT_FAILED;
	if (faults_set(o) || environment_place(o, &d, false, &fd, &at))
		return EXIT_FAILED;
	if (fd_park(fd) < 0 || environment_set(o, &p, &d, at))
		return cli_fail(NULL, "cannot prepare the program's environment: %s", strerror(errno));
	return EXIT_OK;
}

int run_execute(char **argv)
{
	int err;

	execvp(argv[0], argv);
	err = exec_error(argv[0]);
	cli_fail(err == ENOENT ? "look at its name and at PATH" : NULL, "%s cannot be run: %s", argv[0], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int cli_run(const struct cli_options *o, int argc, char **argv)
{
	if (argc < 1) {
		cli_fail("weft run -- PROGRAM [ARGUMENT]...", "there is no program to run");
		return EXIT_USAGE;
	}
	if (run_check(o))
		return EXIT_USAGE;
	program_warn(argv[0]);
	if (run_prepare(o))
		return EXIT_FAILED;
	return o->stats ? stats_run(o, argv) : run_execute(argv);
}
