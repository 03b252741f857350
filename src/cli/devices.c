/* weft devices: what ibv_devinfo would show, without a program that opens them. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"

static void print_gids(const json_t *gids)
{
	const json_t *g;
	size_t i;

	json_array_foreach(gids, i, g) {
		printf("    GID %-3lld %-40s %-8s %s\n", output_number(g, "index"), output_text(g, "gid"), output_text(g, "type"),
		       output_text(g, "interface"));
	}
}

static void print(const json_t *devices)
{
	const json_t *d;
	size_t i;

	json_array_foreach(devices, i, d) {
		printf("%s  %s  node GUID %s\n", output_text(d, "name"), output_text(d, "link_layer"), output_text(d, "guid"));
		printf("  port %lld  %s  MTU %lld", output_number(d, "port"), output_text(d, "state"), output_number(d, "mtu"));
		if (output_number(d, "lid"))
			printf("  LID %lld  SM LID %lld", output_number(d, "lid"), output_number(d, "sm_lid"));
		putchar('\n');
		print_gids(json_object_get(d, "gids"));
	}
}

int cli_devices(const struct cli_options *o, int argc, char **argv)
{
	json_t *status;
	struct rundir d;
	int fd, failed = EXIT_OK;

	(void)argc, (void)argv;
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_start(&d, CONTROL_COMMAND, false);
	if (fd < 0)
		return EXIT_FAILED;
	status = daemon_status(fd);
	if (!status)
		return EXIT_FAILED;
	if (o->json)
		failed = output_json(json_pack("{s:O}", "devices", json_object_get(status, "devices")));
	else
		print(json_object_get(status, "devices"));
	json_decref(status);
	return failed;
}
