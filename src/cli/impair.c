/* weft impair: gives faults to processes that run, shows and ends them. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/faults.h"
#include "cli/network.h"
#include "cli/partition.h"
#include "cli/query.h"
#include "impair/impair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a command is about: one process, or all (pid = 0), and of their frames those of one device, or all. */
struct target {
	const char *name;
	uint32_t pid;
	char device[16];	/* as faults name it; empty: all */
};

static bool read_target(const struct cli_options *o, const char *name, struct target *t)
{
	struct control_table devices;
	uint32_t index;
	char *end;
	unsigned long pid = strtoul(name, &end, 10);

	*t = (struct target){ .name = name };
	if (strcmp(name, "all") == 0)
		return true;
	network_names(o, &devices);
	index = control_table_find(&devices, name, strlen(name));
	if (index < devices.devices)
		snprintf(t->device, sizeof(t->device), "weft%u", index);
	t->pid = *name >= '1' && *name <= '9' && !*end && pid <= INT32_MAX ? (uint32_t)pid : 0;
	return t->device[0] || t->pid;
}

/* "loss=5%,seed=7" as "weft1.loss=5%,seed=7". False: it is too long. */
static bool name_device(const char *device, const char *text, char *to, size_t room)
{
	size_t at = 0;

	for (const char *end; *text && at < room; text = *end ? end + 1 : end) {
		bool is_seed = strncmp(text, "seed=", 5) == 0;

		end = text + strcspn(text, ",");
		at += (size_t)snprintf(to + at, room - at, "%s%s%s%.*s", at ? "," : "", is_seed ? "" : device, is_seed ? "" : ".",
				       (int)(end - text), text);
	}
	return at < room;
}

static int tell_result(const struct target *t, int err)
{
	if (err == -ENOENT)
		return cli_fail("weft status lists the processes that are", "process %s is not attached", t->name);
	if (err == -EPERM)
		return cli_fail("impair your own processes, or ask the user who owns it, or root", "process %s is not yours",
				t->name);
	return daemon_fail(err, "weft doctor", "weftd does not pass faults on");
}

/* An exit status; *processes have been told. */
static int give(const struct cli_options *o, const struct target *t, const char *text, uint32_t *processes)
{
	struct control_msg msg = { .type = CTL_IMPAIR, .slot = t->pid };
	struct rundir d;
	int fd, err;

	*processes = 0;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT)
		return t->pid ? tell_result(t, fd) : EXIT_OK;
	if (fd < 0)
		return EXIT_FAILED;
	err = daemon_call(fd, &msg, text);
	close(fd);
	*processes = msg.b;
	return err ? tell_result(t, err) : EXIT_OK;
}

static int report(const struct cli_options *o, const char *text, uint32_t processes)
{
	if (o->json)
		return output_json(json_pack("{s:i, s:s}", "processes", (int)processes, "faults", text ? text : ""));
	if (processes)
		printf("%u processes %s%s\n", processes, text ? "are impaired by " : "are not impaired", text ? text : "");
	else
		puts("no process is attached");
	return EXIT_OK;
}

static int impair(const struct cli_options *o, const struct target *t, const char *faults)
{
	char resolved[IMPAIR_TEXT], named[IMPAIR_TEXT], text[IMPAIR_TEXT];
	struct cli_options given = { .impair = resolved, .system = o->system };
	uint32_t processes;
	int status = partition_resolve(o, faults, resolved, sizeof(resolved));

	if (status != EXIT_OK)
		return status;
	if (t->device[0] && !name_device(t->device, resolved, named, sizeof(named)))
		return faults_too_long();
	if (t->device[0])
		given.impair = named;
	status = faults_check(&given, NULL);
	if (status == EXIT_OK)
		status = faults_seed(&given, text);
	if (status == EXIT_OK)
		status = give(o, t, text, &processes);
	return status == EXIT_OK ? report(o, text, processes) : status;
}

static int clear(const struct cli_options *o, const char *name)
{
	struct target t;
	uint32_t processes;
	int status;

	if (!read_target(o, name, &t) || t.device[0]) {
		cli_fail("weft impair clear, or clear PID", "'%s' is not a PID", name);
		return EXIT_USAGE;
	}
	status = give(o, &t, NULL, &processes);
	return status == EXIT_OK ? report(o, NULL, processes) : status;
}

int cli_impair(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "fault", "FAULT" }, { 0 },
	};
	struct target t;

	if (argc >= 1 && strcmp(argv[0], "show") == 0)
		return query_show(o, "impair", argc - 1, argv + 1, columns, NULL, "no process is impaired");
	if (argc >= 1 && argc <= 2 && strcmp(argv[0], "clear") == 0)
		return clear(o, argc == 2 ? argv[1] : "all");
	if (argc == 2 && read_target(o, argv[0], &t))
		return impair(o, &t, argv[1]);
	if (argc == 2)
		cli_fail("weft status lists the processes, weft devices the devices",
			 "'%s' is neither a PID, nor all, nor a device", argv[0]);
	else
		cli_fail("weft impair all loss=5%, weft impair show, weft impair clear", "whom to impair is wanted, and faults");
	return EXIT_USAGE;
}
