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
static void write_rate(const json_t *rate, char *text, size_t room)
{
	double bytes = (double)json_integer_value(rate);

	if (bytes >= 1e9)
		snprintf(text, room, "%.2f GB/s", bytes / 1e9);
	else if (bytes > 0)
		snprintf(text, room, "%.2f MB/s", bytes / 1e6);
	else
		snprintf(text, room, "free");
}

static void show_rate(json_t *row)
{
	const json_t *rate = json_object_get(row, "rate_bytes_per_s");
	char text[32];

	if (!json_is_integer(rate))
		return;
	write_rate(rate, text, sizeof(text));
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

static json_t *of_path(const json_t *row, unsigned path, const char *member)
{
	char name[48];

	snprintf(name, sizeof(name), "path%u_%s", path, member);
	return json_object_get(row, name);
}

/* "0 up 24.10 MB/s 312 us 3 lost, 1 unproven": weft paths and --json have more of each. */
static void show_paths(json_t *row)
{
	char text[640] = "", rate[32];	/* eight of 79 at most */
	size_t at = 0;

	for (unsigned i = 0; i < output_number(row, "paths") && i < 8; i++) {
		const char *state = json_string_value(of_path(row, i, "state"));
		json_int_t ns = json_integer_value(of_path(row, i, "round_trip_ns"));

		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u %.10s", i ? ", " : "", i, state ? state : "");
		if (!ns)
			continue;
		write_rate(of_path(row, i, "rate_bytes_per_s"), rate, sizeof(rate));
		at += (size_t)snprintf(text + at, sizeof(text) - at, " %s %.0f us %llu lost", rate, (double)ns / 1e3,
				       (unsigned long long)json_integer_value(of_path(row, i, "lost")));
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
