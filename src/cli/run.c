/* weft run: weftd, the environment, exec. The connection to weftd stays open across exec, in the program and in what it
 * starts, so that weftd and the tree of device files stay as long as any of them lives. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/environment.h"
#include "cli/faults.h"
#include "cli/program.h"
#include "ib/ib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A descriptor far from those that programs count on, and that stays open. */
static int park(int fd)
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

static bool are_devices(const char *list)
{
	static const char *const names[] = { "weft0", "weft1" };
	size_t length;

	for (; *list; list += length + (list[length] == ',')) {
		bool is_one = false;

		length = strcspn(list, ",");
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			is_one |= length == strlen(names[i]) && strncmp(list, names[i], length) == 0;
		if (!is_one)
			return false;
	}
	return true;
}

static bool is_path(const char *name)
{
	return strcmp(name, "direct") == 0 || strcmp(name, "packet") == 0 || strcmp(name, "auto") == 0;
}

/* Why exec failed. A folder of PATH that cannot be read makes it say EACCES for a program that is nowhere. */
static int exec_error(const char *name)
{
	int err = errno;
	char path[4096];

	if (err == EACCES && !strchr(name, '/') && program_examine(name, path, sizeof(path)) == PROGRAM_MISSING)
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

static int check_options(const struct cli_options *o)
{
	struct ib_options profile = ib_default_options;

	if (o->devices && !are_devices(o->devices)) {
		cli_fail("the devices are weft0 and weft1", "--device %s names something else", o->devices);
		return EXIT_USAGE;
	}
	if (!is_size("shared-heap", o->shared_heap) || !is_size("remap", o->remap))
		return EXIT_USAGE;
	if (o->path && !is_path(o->path)) {
		cli_fail("the paths are direct, packet and auto", "--path %s names something else", o->path);
		return EXIT_USAGE;
	}
	if (o->profile && ib_options_parse(o->profile, &profile)) {
		cli_fail("man weft-run tells the profiles and their settings", "--profile %s is not a profile", o->profile);
		return EXIT_USAGE;
	}
	return faults_check(o, &profile);
}

int cli_run(const struct cli_options *o, int argc, char **argv)
{
	struct places p;
	struct rundir d;
	int fd, err;

	if (argc < 1) {
		cli_fail("weft run -- PROGRAM [ARGUMENT]...", "there is no program to run");
		return EXIT_USAGE;
	}
	if (check_options(o))
		return EXIT_USAGE;
	if (places_find(&p))
		return cli_fail("mount /proc", "cannot find out where weft is installed");
	if (environment_check(&p) || daemon_directory(o->system, &d))
		return EXIT_FAILED;
	program_warn(argv[0]);
	fd = daemon_start(&d, CONTROL_LEASE, false);
	if (fd < 0)
		return EXIT_FAILED;
	if (faults_set(o))
		return EXIT_FAILED;
	if (park(fd) < 0 || environment_set(o, &p, &d))
		return cli_fail(NULL, "cannot prepare the program's environment: %s", strerror(errno));
	execvp(argv[0], argv);
	err = exec_error(argv[0]);
	cli_fail(err == ENOENT ? "look at its name and at PATH" : NULL, "%s cannot be run: %s", argv[0], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
