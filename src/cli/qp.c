/* weft qp: one line for each queue pair. */
#include "cli/query.h"

#include <string.h>

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

/* "channel to slot 12", "udp to 10.0.0.2" */
static void show_route(json_t *row)
{
	const json_t *slot = json_object_get(row, "route_slot"), *address = json_object_get(row, "route_address");
	char text[80];

	if (json_is_string(address))
		snprintf(text, sizeof(text), "udp to %.60s", json_string_value(address));
	else if (json_is_integer(slot) && strcmp(output_text(row, "route"), "channel") == 0)
		snprintf(text, sizeof(text), "channel to slot %lld", (long long)json_integer_value(slot));
	else
		return;
	json_object_set_new(row, "route", json_string(text));
}

/* "1.21 GB/s", and "free" where nothing is held back. */
static void show_rate(json_t *row)
{
	const json_t *rate = json_object_get(row, "rate_bytes_per_s");
	double bytes = (double)json_integer_value(rate);
	char text[32] = "free";

	if (!json_is_integer(rate))
		return;
	if (bytes >= 1e9)
		snprintf(text, sizeof(text), "%.2f GB/s", bytes / 1e9);
	else if (bytes > 0)
		snprintf(text, sizeof(text), "%.2f MB/s", bytes / 1e6);
	json_object_set_new(row, "rate", json_string(text));
}

static void show_round_trip(json_t *row)
{
	const json_t *ns = json_object_get(row, "round_trip_ns");
	char text[32];

	if (json_integer_value(ns) == 0)
		return;
	snprintf(text, sizeof(text), "%.0f us", (double)json_integer_value(ns) / 1e3);
	json_object_set_new(row, "round_trip", json_string(text));
}

/* "0 up, 1 aside": with --json each has more. */
static void show_paths(json_t *row)
{
	json_int_t paths = json_integer_value(json_object_get(row, "paths"));
	char text[160] = "", member[32];
	size_t at = 0;

	for (json_int_t i = 0; i < paths && i < 8; i++) {
		snprintf(member, sizeof(member), "path%d_state", (int)i);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d %.10s", i ? ", " : "", (int)i,
				       output_text(row, member));
	}
	if (at)
		json_object_set_new(row, "paths", json_string(text));
}

static void show_numbers(json_t *row)
{
	show_paths(row);
	show_rate(row);
	show_round_trip(row);
	show_route(row);
	show_hex(row, "qpn");
	show_hex(row, "dest_qpn");
}

static int show_history(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "qpn", "QPN" }, { "dest_qpn", "REMOTE" },
		{ "side", "SIDE" }, { "request", "REQUEST" }, { "wr_id", "WR_ID" }, { "status", "STATUS" }, { "cause", "CAUSE" },
		{ "next", "NEXT" }, { 0 },
	};

	return query_show(o, "history", argc, argv, columns, show_numbers, "no queue pair has stopped by an error");
}

int cli_qp(const struct cli_options *o, int argc, char **argv)
{
	static const struct output_column columns[] = {
		{ "pid", "PID" }, { "program", "PROGRAM" }, { "device", "DEVICE" }, { "qpn", "QPN" }, { "type", "TYPE" },
		{ "state", "STATE" }, { "dest_qpn", "REMOTE" }, { "route", "ROUTE" }, { "path", "PATH" },
		{ "messages_sent", "SENT" }, { "bytes_sent", "SENT BYTES" },
		{ "messages_received", "RECEIVED" }, { "bytes_received", "RECEIVED BYTES" },
		{ "rate", "RATE" }, { "round_trip", "ROUND TRIP" }, { "lost", "LOST" }, { "marked", "MARKED" },
		{ "paths", "PATHS" },
		{ 0 },
	};

	if (o->history)
		return show_history(o, argc, argv);
	return query_show(o, "qp", argc, argv, columns, show_numbers, "no queue pairs");
}
