/* weft path: lets a path to another host lose all that goes by it, for tests of programs, and heals it. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "cli/pinger.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tell_usage(const char *what)
{
	cli_fail("weft path HOST fail 1, weft path HOST heal 1, weft path HOST; weft paths lists the paths", "%s", what);
	return EXIT_USAGE;
}

/* An exit status; what went wrong is told. */
static int read_command(int argc, char **argv, struct control_msg *msg)
{
	char *end;
	unsigned long number;

	if (argc == 1) {
		msg->c = CUT_ASKS;
		return EXIT_OK;
	}
	if (argc != 3 || (strcmp(argv[1], "fail") != 0 && strcmp(argv[1], "heal") != 0))
		return tell_usage("a host is wanted, fail or heal, and the number of a path");
	number = strtoul(argv[2], &end, 10);
	if (*argv[2] < '0' || *argv[2] > '9' || *end || number >= CONTROL_PATHS)
		return tell_usage("the number of a path is 0 to 7");
	msg->a = (uint32_t)number;
	msg->c = strcmp(argv[1], "fail") ? CUT_HEALS : CUT_FAILS;
	return EXIT_OK;
}

/* Who asks or heals starts no weftd: where none runs nothing fails. */
static int ask(const struct cli_options *o, const char *host, struct control_msg *msg)
{
	struct rundir d;
	int fd, err;

	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = msg->c == CUT_FAILS ? daemon_start(&d, CONTROL_COMMAND, false) : daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT && msg->c != CUT_FAILS) {
		msg->b = 0;
		return EXIT_OK;
	}
	if (fd < 0)
		return EXIT_FAILED;
	err = daemon_call(fd, msg, NULL);
	close(fd);
	if (err == -EPERM)
		return cli_fail("ask root, or whoever started it", "the paths of this weftd are not yours to change");
	if (err == -EBUSY)
		return cli_fail("weft path HOST heal N", "paths to too many hosts fail, so those to %s cannot", host);
	return err ? daemon_fail(err, "weft doctor", "weftd does not change the path") : EXIT_OK;
}

static int report(const struct cli_options *o, const char *host, uint32_t paths)
{
	json_t *failing = json_array();

	for (int i = 0; i < CONTROL_PATHS; i++)
		if (paths >> i & 1)
			json_array_append_new(failing, json_integer(i));
	if (o->json)
		return output_json(json_pack("{s:s, s:o}", "host", host, "failing", failing));
	printf("%s: ", host);
	for (size_t i = 0; i < json_array_size(failing); i++)
		printf("%s%lld", i ? ", " : "", (long long)json_integer_value(json_array_get(failing, i)));
	puts(!paths ? "no path fails" : json_array_size(failing) == 1 ? " fails" : " fail");
	json_decref(failing);
	return EXIT_OK;
}

int cli_path(const struct cli_options *o, int argc, char **argv)
{
	struct control_msg msg = { .type = CTL_PATH_CUT };
	struct pinger to;
	int status, error;

	if (argc < 1)
		return tell_usage("a host is wanted");
	status = read_command(argc, argv, &msg);
	if (status != EXIT_OK)
		return status;
	error = pinger_resolve(&to, argv[0]);
	if (error)
		return cli_fail("getent hosts HOST", "there is no host '%s': %s", argv[0], gai_strerror(error));
	memcpy(msg.gid, to.to, sizeof(msg.gid));
	status = ask(o, to.to_text, &msg);
	return status == EXIT_OK ? report(o, to.to_text, (uint32_t)msg.b) : status;
}
