/* weft down: ends weftd, and waits until it has left. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

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

static int report(const struct cli_options *o, const struct rundir *d, bool was_running)
{
	if (o->json)
		return output_json(json_pack("{s:b, s:b, s:s}", "running", 0, "was_running", was_running, "directory", d->path));
	puts(was_running ? "weftd has left" : "weftd does not run");
	return EXIT_OK;
}

/* EXIT_OK when weftd agreed to leave. */
static int tell(const struct cli_options *o, int fd)
{
	struct control_msg msg = { .type = CTL_DOWN, .a = o->force };
	int err = daemon_call(fd, &msg, NULL);

	if (err == -EBUSY)
		return cli_fail("end them (weft status lists them), or weft down --force",
				"weftd is in use: %u processes attached, %u programs started by weft run", msg.b, msg.c);
	if (err)
		return cli_fail("ask the user who owns it, or root", "weftd cannot be ended: %s", strerror(-err));
	return EXIT_OK;
}

int cli_down(const struct cli_options *o, int argc, char **argv)
{
	char path[RUNDIR_FILE];
	struct rundir d;
	int fd, lock, status = EXIT_FAILED;

	(void)argc, (void)argv;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	rundir_file(&d, "lock", path);
	lock = open(path, O_RDONLY | O_CLOEXEC);
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd >= 0)
		status = tell(o, fd);
	else if (fd == -ENOENT)
		status = EXIT_OK;
	if (status == EXIT_OK && !wait_until_gone(lock))
		status = cli_fail("kill it: weftd.log there may say why", "weftd in %s does not leave", d.path);
	if (status == EXIT_OK)
		status = report(o, &d, fd >= 0);
	if (fd >= 0)
		close(fd);
	if (lock >= 0)
		close(lock);
	return status;
}
