/* weft mr: one line for each memory region and window. */
#include "cli/query.h"

#include <infiniband/verbs.h>

/* The access flags of ibv_reg_mr(3) as letters; remote ones are capitals. JSON has the number. */
static void show_access(json_t *row)
{
	static const struct {
		int flag;
		char letter;
	} letters[] = {
		{ IBV_ACCESS_LOCAL_WRITE, 'w' }, { IBV_ACCESS_REMOTE_WRITE, 'W' }, { IBV_ACCESS_REMOTE_READ, 'R' },
		{ IBV_ACCESS_REMOTE_ATOMIC, 'A' }, { IBV_ACCESS_MW_BIND, 'b' }, { IBV_ACCESS_ZERO_BASED, 'z' },
		{ IBV_ACCESS_ON_DEMAND, 'd' },
	};
	const json_t *access = json_object_get(row, "access");
	char text[16] = "r";
	size_t n = 1;

	if (!json_is_integer(access))
		return;
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		if (json_integer_value(access) & letters[i].flag)
			text[n++] = letters[i].letter;
	}
	json_object_set_new(row, "access", json_string(text));
}

int cli_mr(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "key", "KEY" }, { "kind", "KIND" },
		{ "iova", "IOVA" }, { "length", "LENGTH" }, { "access", "ACCESS" },
		{ "tier", "TIER" }, { "remap", "REMAP" }, { 0 },
	};

	return query_show(o, "mr", argc, argv, columns, show_access, "no memory regions");
}
