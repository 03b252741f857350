/* weft qp: one line for each queue pair. */
#include "cli/output.h"
#include "cli/query.h"


int cli_qp(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "qpn", "QPN" }, { "type", "TYPE" },
		{ "state", "STATE" }, { "dest_qpn", "REMOTE" }, { "path", "PATH" }, { "messages_sent", "SENT" },
		{ "bytes_sent", "BYTES" }, { "messages_received", "RECEIVED" }, { "bytes_received", "BYTES" }, { 0 },
	};
	json_t *answer, *rows;
	int status;

	answer = query_ask(o, "qp", argc, argv, &status);
	if (!answer)
		return status;
	if (o->json)
		return output_json(answer);
	query_tell_errors(answer);
	rows = query_rows(answer);
	output_table(rows, columns);
	if (!json_array_size(rows))
		puts("no queue pairs");
	json_decref(rows);
	json_decref(answer);
	return EXIT_OK;
}
