/* weft mr: one line for each memory region and window. */
#include "cli/query.h"

int cli_mr(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "key", "KEY" }, { "kind", "KIND" },
		{ "iova", "IOVA" }, { "length", "LENGTH" }, { "access", "ACCESS" },
		{ "tier", "TIER" }, { "remap", "REMAP" }, { 0 },
	};

	return query_show(o, "mr", argc, argv, columns, NULL, "no memory regions");
}
