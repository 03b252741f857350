/* weft mr: one line for each memory region and window. */
#include "cli/output.h"
#include "cli/query.h"

int cli_mr(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "key", "KEY" }, { "kind", "KIND" },
		{ "iova", "IOVA" }, { "length", "LENGTH" }, { "access", "ACCESS" }, { 0 },
	};
	json_t *answer, *rows;
	int status;

	answer = query_ask(o, "mr", argc, argv, &status);
	if (!answer)
		return status;
	if (o->json)
		return output_json(answer);
	query_tell_errors(answer);
	rows = query_rows(answer);
	output_table(rows, columns);
	if (!json_array_size(rows))
		puts("no memory regions");
	json_decref(rows);
	json_decref(answer);
	return EXIT_OK;
}
