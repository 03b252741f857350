/* weft status: weftd and who is attached. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "control/networks.h"

#include <errno.h>

/* Whoever misses a process here may find it there. */
static void print_other(void *arg, const char *dir, uid_t owner)
{
	(void)arg;
	printf("another weftd runs in %s (user %u)\n", dir, owner);
}

static void add_other(void *arg, const char *dir, uid_t owner)
{
	json_array_append_new(arg, json_pack("{s:s, s:I}", "directory", dir, "uid", (json_int_t)owner));
}

static json_t *describe_others(const struct rundir *d)
{
	json_t *others = json_array();

	networks_visit(d->path, add_other, others);
	return others;
}

static int report_none(const struct cli_options *o, const struct rundir *d)
{
	if (o->json)
		output_json(json_pack("{s:b, s:s, s:o}", "running", 0, "directory", d->path, "others", describe_others(d)));
	if (o->json)
		return EXIT_FAILED;
	printf("weftd does not run in %s\n  next: %s\n", d->path,
	       o->system ? "have root run `weft up --system`" : "weft run -- PROGRAM starts it, and so does weft up");
	networks_visit(d->path, print_other, NULL);
	return EXIT_FAILED;
}

static void print_wire(const json_t *w)
{
	if (!w)
		return;
	if (output_number(w, "port") == 0)
		printf("no way to other hosts: it serves several users\n");
	else if (!json_is_true(json_object_get(w, "open")))
		printf("UDP port %lld is not open, as no program has another host to reach, a UD QP of weft1, or listens by "
		       "rdma_cm\n", output_number(w, "port"));
	else
		printf("UDP port %lld is open to other hosts, for %lld processes; %lld packets came for none of them\n",
		       output_number(w, "port"), output_number(w, "sockets"), output_number(w, "dead_letters"));
}

static void print(const json_t *s)
{
	printf("weftd %s, pid %lld, in %s, up %lld s, %s\n", output_text(s, "version"), output_number(s, "pid"),
	       output_text(s, "directory"), output_number(s, "uptime_s"),
	       json_is_true(json_object_get(s, "stays_when_idle")) ? "stays when idle" : "exits when idle");
	printf("%lld processes attached, %lld programs started by weft run, %lld channels, %lld multicast groups\n",
	       output_number(s, "attached"), output_number(s, "programs"), output_number(s, "channels"),
	       output_number(s, "groups"));
	if (output_number(s, "fabric_nodes"))
		printf("weft0 is a fabric of %lld nodes, at which weft run --node HOST runs programs\n",
		       output_number(s, "fabric_nodes"));
	print_wire(json_object_get(s, "wire"));
}

int cli_status(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "node", "NODE" },	/* where there is a fabric */
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "uid", "UID" }, { "slot", "SLOT" }, { "slots", "SLOTS" },
		{ "channels", "CHANNELS" }, { "groups", "GROUPS" }, { "listeners", "LISTENERS" }, { "ports", "PORTS" },
		{ "mads_sent", "MADS" }, { "mads_dropped", "DROPPED" }, { 0 },
	};
	json_t *status;
	struct rundir d;
	int fd;

	(void)argc, (void)argv;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT)
		return report_none(o, &d);
	if (fd < 0)
		return EXIT_FAILED;
	status = daemon_status(fd);
	if (!status)
		return EXIT_FAILED;
	if (o->json) {
		json_object_set_new(status, "others", describe_others(&d));
		return output_json(status);
	}
	print(status);
	output_table(json_object_get(status, "processes"), columns + !output_number(status, "fabric_nodes"));
	networks_visit(d.path, print_other, NULL);
	json_decref(status);
	return EXIT_OK;
}
