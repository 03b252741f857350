/* weft status: weftd and who is attached. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int report_none(const struct cli_options *o, const struct rundir *d)
{
	if (o->json)
		output_json(json_pack("{s:b, s:s}", "running", 0, "directory", d->path));
	else
		printf("weftd does not run in %s\n  next: weft run -- PROGRAM starts it, and so does weft up\n", d->path);
	return EXIT_FAILED;
}

static void print(const json_t *s)
{
	printf("weftd %s, pid %lld, in %s, up %lld s, %s\n", output_text(s, "version"), output_number(s, "pid"),
	       output_text(s, "directory"), output_number(s, "uptime_s"),
	       json_is_true(json_object_get(s, "stays_when_idle")) ? "stays when idle" : "leaves when idle");
	printf("%lld processes attached, %lld programs started by weft run, %lld channels, %lld multicast groups\n",
	       output_number(s, "attached"), output_number(s, "programs"), output_number(s, "channels"),
	       output_number(s, "groups"));
}

int cli_status(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "uid", "UID" }, { "slot", "SLOT" }, { "slots", "SLOTS" },
		{ "channels", "CHANNELS" }, { "groups", "GROUPS" }, { "listeners", "LISTENERS" }, { "ports", "PORTS" },
		{ "mads_sent", "MADS" }, { "mads_dropped", "DROPPED" }, { 0 },
	};
	json_t *status;
	struct rundir d;
	int fd, err;

	(void)argc, (void)argv;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT)
		return report_none(o, &d);
	if (fd < 0)
		return EXIT_FAILED;
	status = daemon_ask(fd, CTL_STATUS, NULL, &err);
	close(fd);
	if (!status)
		return cli_fail("weft doctor", "weftd does not answer: %s", strerror(-err));
	if (o->json)
		return output_json(status);
	print(status);
	output_table(json_object_get(status, "processes"), columns);
	json_decref(status);
	return EXIT_OK;
}
