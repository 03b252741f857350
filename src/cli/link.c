/* weft link: takes the link of a device's port, or of a port of the fabric, down, and brings it up. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/fabric_net.h"
#include "cli/output.h"
#include "control/devices.h"
#include "impair/impair.h"

#include <string.h>
#include <unistd.h>

/* An exit status. */
static int name_link(int fd, const struct rundir *d, const char *name, struct control_msg *msg)
{
	struct control_table t;

	control_table_names(d->path, &t);
	msg->device = control_table_find(&t, name, strlen(name));
	if (msg->device < t.devices)
		return EXIT_OK;
	if (strchr(name, ':') || strncmp(name, "weft", 4) != 0)
		return fabric_net_find_link(fd, name, msg);
	return cli_fail("weft devices lists the devices", "there is no device '%s'", name);
}

static int set(const struct cli_options *o, const char *name, struct control_msg *msg)
{
	struct rundir d;
	int fd, status;

	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_start(&d, CONTROL_COMMAND, false);
	if (fd < 0)
		return EXIT_FAILED;
	status = name_link(fd, &d, name, msg);
	if (status == EXIT_OK)
		status = fabric_net_call(fd, msg);
	close(fd);
	return status;
}

static int report(const struct cli_options *o, const char *name, bool is_up, wtime during)
{
	json_t *json;

	if (o->json) {
		json = json_pack("{s:s, s:s}", "link", name, "state", is_up ? "ACTIVE" : "DOWN");
		if (during)
			json_object_set_new(json, "for_s", json_real((double)during / WTIME_S));
		return output_json(json);
	}
	printf("%s is %s%s%s\n", name, is_up ? "up" : "down", during ? " for " : "", during ? o->during : "");
	return EXIT_OK;
}

int cli_link(const struct cli_options *o, int argc, char **argv)
{
	struct control_msg msg = { .type = CTL_LINK };
	wtime during = 0;
	int status;

	if (argc != 2 || (strcmp(argv[0], "down") != 0 && strcmp(argv[0], "up") != 0)) {
		cli_fail("weft link down DEVICE, or up; weft devices lists the devices",
			 "down or up is wanted, and one device or port");
		return EXIT_USAGE;
	}
	msg.c = strcmp(argv[0], "up") == 0;
	if (o->during && (msg.c || !impair_parse_time(o->during, CONTROL_LINK_NS, &during))) {
		cli_fail("weft link down DEVICE --for 3s, or ms, us, ns; at most a day", "--for %s: %s", o->during,
			 msg.c ? "a link stays up" : "it is no time");
		return EXIT_USAGE;
	}
	msg.service = during;
	status = set(o, argv[1], &msg);
	return status == EXIT_OK ? report(o, argv[1], strcmp(argv[0], "up") == 0, during) : status;
}
