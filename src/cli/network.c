#include "cli/network.h"

#include "cli/environment.h"
#include "cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *list_of(void)
{
	const char *list = getenv(CONTROL_DEVICES_VARIABLE);

	return list && *list ? list : NULL;
}

int network_choose(const struct cli_options *o)
{
	const char *list = o->network ? o->network : list_of();
	struct control_table t;
	char why[160];

	if (!list)
		return EXIT_OK;
	if (control_table_parse(list, &t, why, sizeof(why))) {
		cli_fail("as in --devices mlx5_0,mlx5_1:roce,rate=400G; see weft-run(1)", "--devices %s: %s", list, why);
		return EXIT_USAGE;
	}
	return setenv(CONTROL_DEVICES_VARIABLE, list, 1) ? cli_fail(NULL, "%s", strerror(errno)) : EXIT_OK;
}

void network_names(const struct cli_options *o, struct control_table *t)
{
	const char *list = list_of();
	struct rundir d;
	char why[160];

	if (!list || control_table_parse(list, t, why, sizeof(why))) {
		if (rundir_choose(&d, o->system))
			*t = control_default;
		else
			control_table_names(d.path, t);
	}
	if (environment_node(o) || o->nodes)
		control_table_add_adapters(t);
}

static bool is_same(const json_t *has, const struct control_device *d)
{
	bool is_ib = strcmp(output_text(has, "link_layer"), "InfiniBand") == 0;

	return strcmp(output_text(has, "name"), d->name) == 0 && is_ib == (d->protocol == PAGE_IB) &&
	       output_number(has, "rate_gbps") == control_rate(d->width, d->speed) &&
	       strcmp(output_text(has, "netdev"), d->netdev) == 0;
}

bool network_fits(const json_t *status)
{
	const json_t *devices = json_object_get(status, "devices");
	const char *list = list_of();
	struct control_table t;
	char why[160];

	if (!list || control_table_parse(list, &t, why, sizeof(why)))
		return true;
	if (json_array_size(devices) != t.devices)
		return false;
	for (uint32_t i = 0; i < t.devices; i++)
		if (!is_same(json_array_get(devices, i), &t.device[i]))
			return false;
	return true;
}
