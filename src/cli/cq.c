/* weft cq: one line for each completion queue. */
#include "cli/query.h"

int cli_cq(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "cq", "CQ" }, { "entries", "ENTRIES" },
		{ "waiting", "WAITING" }, { "free_space", "FREE" }, { "credits", "CREDITS" }, { "kept", "KEPT" },
		{ "armed", "ARMED" }, { "state", "STATE" }, { "users", "USERS" }, { 0 },
	};

	return query_show(o, "cq", argc, argv, columns, NULL, "no completion queues");
}
