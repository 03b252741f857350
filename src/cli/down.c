/* weft down: ends weftd, and waits until it has left. */
#include "cli/cli.h"
#include "cli/daemon.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS = 5000 };	/* our choice: weftd leaves in milliseconds */

/* It has left once its lock, the last of its files, has gone. */
static bool wait_until_gone(const struct rundir *d, int fd)
{
	struct pollfd p = { .fd = fd };
	char lock[RUNDIR_FILE];

	poll(&p, 1, WAIT_MS);
	rundir_file(d, "lock", lock);
	for (int i = 0; i < WAIT_MS / 5 && access(lock, F_OK) == 0; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	return access(lock, F_OK) != 0;
}

static int report(const struct cli_options *o, const struct rundir *d, bool was_running)
{
	if (o->json)
		printf("{\"running\": false, \"was_running\": %s, \"directory\": \"%s\"}\n", was_running ? "true" : "false", d->path);
	else
		puts(was_running ? "weftd has left" : "weftd does not run");
	return EXIT_OK;
}

int cli_down(const struct cli_options *o, int argc, char **argv)
{
	struct control_msg msg = { .type = CTL_DOWN, .a = o->force };
	struct rundir d;
	int fd, err;

	(void)argc, (void)argv;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT)
		return report(o, &d, false);
	if (fd < 0)
		return EXIT_FAILED;
	err = daemon_call(fd, &msg, NULL);
	if (err == -EBUSY)
		cli_fail("end them (weft status lists them), or weft down --force", "weftd is in use: %u processes attached, %u programs "
			 "started by weft run", msg.b, msg.c);
	else if (err)
		cli_fail("ask the user who owns it, or root", "weftd cannot be ended: %s", strerror(-err));
	else if (!wait_until_gone(&d, fd))
		err = -ETIMEDOUT, cli_fail("kill it: weftd.log there may say why", "weftd in %s does not leave", d.path);
	close(fd);
	return err ? EXIT_FAILED : report(o, &d, true);
}
