/* weft paths: the paths of queue pairs that go by several, and what passes them in a second, again and again. */
#include "cli/output.h"
#include "cli/query.h"
#include "cli/top.h"
#include "control/clock.h"

#include <string.h>

enum { MEMBER = 48, KEY = 80 };

static int look(const struct cli_options *o, struct rates_look *look)
{
	int status;
	json_t *qps = query_ask(o, "qp", 0, NULL, &status);

	if (!qps)
		return status;
	look->time = clock_now();
	look->processes = json_incref(json_object_get(qps, "processes"));
	json_decref(qps);
	return EXIT_OK;
}

static const char *member_of(unsigned path, const char *name, char text[MEMBER])
{
	snprintf(text, MEMBER, "path%u_%s", path, name);
	return text;
}

static void name_path(const json_t *process, const json_t *qp, unsigned path, char key[KEY])
{
	snprintf(key, KEY, "%lld/%lld/%u", output_number(process, "pid"), output_number(qp, "qpn"), path);
}

/* What has left by each path, by process, queue pair and number. */
static json_t *count_packets(const json_t *processes)
{
	json_t *all = json_object(), *p, *qp;
	char member[MEMBER], key[KEY];
	size_t i, k;

	json_array_foreach(processes, i, p) {
		json_array_foreach(json_object_get(p, "report"), k, qp) {
			for (unsigned path = 0; path < output_number(qp, "paths"); path++) {
				name_path(p, qp, path, key);
				json_object_set(all, key, json_object_get(qp, member_of(path, "sent", member)));
			}
		}
	}
	return all;
}

static void add_path(json_t *rows, const json_t *before, const json_t *p, const json_t *qp, unsigned path, double seconds)
{
	static const char *const same[] = {
		"state", "from", "to", "port", "rate_bytes_per_s", "round_trip_ns", "sent", "lost", "set_aside", "messages",
	};
	json_t *row = json_object();
	char member[MEMBER], key[KEY];
	long long then, now;

	json_object_set(row, "pid", json_object_get(p, "pid"));
	json_object_set(row, "program", json_object_get(p, "program"));
	json_object_set(row, "device", json_object_get(qp, "device"));
	json_object_set(row, "qpn", json_object_get(qp, "qpn"));
	json_object_set_new(row, "path", json_integer(path));
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		json_object_set(row, same[i], json_object_get(qp, member_of(path, same[i], member)));
	json_object_set_new(row, "rate", json_real((double)output_number(row, "rate_bytes_per_s")));
	json_object_set_new(row, "round_trip_us", json_real((double)output_number(row, "round_trip_ns") / 1e3));
	name_path(p, qp, path, key);
	then = output_number(before, key);
	now = output_number(row, "sent");
	json_object_set_new(row, "packets_per_s", json_real(now > then ? (double)(now - then) / seconds : 0));
	json_array_append_new(rows, row);
}

static json_t *between(const struct rates_look *before, const struct rates_look *after)
{
	double seconds = (double)(after->time > before->time ? after->time - before->time : 1) / (double)WTIME_S;
	json_t *all = json_pack("{s:f, s:[]}", "interval_s", seconds, "paths"), *sent, *p, *qp;
	size_t i, k;

	if (!all)
		return NULL;
	sent = count_packets(before->processes);
	json_array_foreach(after->processes, i, p) {
		json_array_foreach(json_object_get(p, "report"), k, qp) {
			for (unsigned path = 0; path < output_number(qp, "paths"); path++)
				add_path(json_object_get(all, "paths"), sent, p, qp, path, seconds);
		}
	}
	json_decref(sent);
	return all;
}

static void tell(const json_t *rates, char *line, size_t room)
{
	size_t n = json_array_size(json_object_get(rates, "paths"));

	if (n)
		snprintf(line, room, "weft paths: %zu, in %.1f s", n, json_real_value(json_object_get(rates, "interval_s")));
	else
		snprintf(line, room, "weft paths: no queue pair goes by several; weft run --profile standard,paths=N lets them");
}

int cli_paths(const struct cli_options *o, int argc, char **argv)
{
	static const struct top_column columns[] = {
		{ "pid", "PID", TOP_NUMBER, 7 }, { "program", "PROGRAM", TOP_TEXT, -12 }, { "qpn", "QPN", TOP_HEX, 8 },
		{ "path", "PATH", TOP_NUMBER, 4 }, { "state", "STATE", TOP_TEXT, -8 }, { "from", "FROM", TOP_TEXT, -15 },
		{ "to", "TO", TOP_TEXT, -15 }, { "port", "PORT", TOP_NUMBER, 4 }, { "packets_per_s", "PKTS/s", TOP_EVENTS, 7 },
		{ "rate", "RATE", TOP_BYTES, 6 }, { "round_trip_us", "RTT us", TOP_EVENTS, 6 }, { "lost", "LOST", TOP_NUMBER, 8 },
		{ "set_aside", "ASIDE", TOP_NUMBER, 6 }, { 0 },
	};
	static const struct top_subject paths = { "weft paths", look, between, tell, { { "paths", columns } } };

	(void)argc, (void)argv;
	return top_run(o, &paths);
}
