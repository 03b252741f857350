/* weft qp: one line for each queue pair. */
#include "cli/output.h"
#include "cli/query.h"


/* Programs print QP numbers so. */
static void show_hex(json_t *row, const char *member)
{
	const json_t *number = json_object_get(row, member);
	char text[16];

	if (!json_is_integer(number))
		return;
	snprintf(text, sizeof(text), "0x%06llx", (unsigned long long)json_integer_value(number));
	json_object_set_new(row, member, json_string(text));
}

int cli_qp(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "qpn", "QPN" }, { "type", "TYPE" },
		{ "state", "STATE" }, { "dest_qpn", "REMOTE" }, { "path", "PATH" }, { "messages_sent", "SENT" },
		{ "bytes_sent", "BYTES" }, { "messages_received", "RECEIVED" }, { "bytes_received", "BYTES" }, { 0 },
	};
	json_t *answer, *rows, *row;
	int status;
	size_t i;

	answer = query_ask(o, "qp", argc, argv, &status);
	if (!answer)
		return status;
	if (o->json)
		return output_json(answer);
	query_tell_errors(answer);
	rows = query_rows(answer);
	json_array_foreach(rows, i, row) {
		show_hex(row, "qpn");
		show_hex(row, "dest_qpn");
	}
	output_table(rows, columns);
	if (!json_array_size(rows))
		puts("no queue pairs");
	json_decref(rows);
	json_decref(answer);
	return EXIT_OK;
}
