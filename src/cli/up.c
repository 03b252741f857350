/* weft up: a weftd that stays when idle. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/network.h"
#include "cli/output.h"

#include <unistd.h>

int cli_up(const struct cli_options *o, int argc, char **argv)
{
	struct rundir d;
	int fd;

	(void)argc, (void)argv;
	if (network_choose(o))
		return EXIT_USAGE;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_keep(&d);
	if (fd < 0)
		return EXIT_FAILED;
	close(fd);
	if (o->json)
		return output_json(json_pack("{s:b, s:s}", "running", 1, "directory", d.path));
	printf("weftd runs in %s until weft down\n", d.path);
	return EXIT_OK;
}
