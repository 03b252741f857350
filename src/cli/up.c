/* weft up: a weftd that stays when idle. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"

#include <string.h>
#include <unistd.h>

int cli_up(const struct cli_options *o, int argc, char **argv)
{
	struct control_msg msg = { .type = CTL_UP };
	struct rundir d;
	int fd, err;

	(void)argc, (void)argv;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_start(&d, CONTROL_COMMAND, true);
	if (fd < 0)
		return EXIT_FAILED;
	err = daemon_call(fd, &msg, NULL);
	close(fd);
	if (err)
		return cli_fail("ask the user who owns it, or root", "weftd cannot be kept: %s", strerror(-err));
	if (o->json)
		return output_json(json_pack("{s:b, s:s}", "running", 1, "directory", d.path));
	printf("weftd runs in %s until weft down\n", d.path);
	return EXIT_OK;
}
