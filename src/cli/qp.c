/* weft qp: one line for each queue pair. */
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

static void show_numbers(json_t *row)
{
	show_hex(row, "qpn");
	show_hex(row, "dest_qpn");
}

int cli_qp(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "qpn", "QPN" }, { "type", "TYPE" },
		{ "state", "STATE" }, { "dest_qpn", "REMOTE" }, { "path", "PATH" }, { "messages_sent", "SENT" },
		{ "bytes_sent", "BYTES" }, { "messages_received", "RECEIVED" }, { "bytes_received", "BYTES" }, { 0 },
	};

	return query_show(o, "qp", argc, argv, columns, show_numbers, "no queue pairs");
}
