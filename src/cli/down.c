/* weft down: ends weftd, and waits until it has left. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"

#include <stdio.h>

static int report(const struct cli_options *o, const struct rundir *d, bool was_running)
{
	if (o->json)
		return output_json(json_pack("{s:b, s:b, s:s}", "running", 0, "was_running", was_running, "directory", d->path));
	puts(was_running ? "weftd has exited" : "weftd does not run");
	return EXIT_OK;
}

int cli_down(const struct cli_options *o, int argc, char **argv)
{
	bool was_running;
	struct rundir d;
	int status;

	(void)argc, (void)argv;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	status = daemon_end(&d, o->force, &was_running);
	return status == EXIT_OK ? report(o, &d, was_running) : status;
}
