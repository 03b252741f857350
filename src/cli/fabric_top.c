/* weft fabric top: what the links of the network's fabric carry in a second, each direction by itself, the busiest first. */
#include "cli/fabric_show.h"

#include "cli/top.h"
#include "control/clock.h"
#include "fabric/speed.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MOST = 1000 };	/* our choice: more nobody reads */

/* A look has a row for each port with a link. */
static int look_at(const struct cli_options *o, struct rates_look *look)
{
	struct shown s;
	int status = fabric_shown_init(&s, o);
	const struct fabric *f = &s.l.f;
	char name[PORT_NAME];

	if (status != EXIT_OK)
		return status;
	look->time = clock_now();
	look->processes = json_array();
	for (uint32_t port = 0; port < f->ports; port++) {
		json_t *row = fabric_peer(f, port) == PORT_NONE ? NULL : fabric_show_port(&s, port);

		if (!row)
			continue;
		json_object_set_new(row, "from", json_string(fabric_port_name(f, port, name, sizeof(name))));
		json_object_set_new(row, "peer", json_string(fabric_port_name(f, fabric_peer(f, port), name, sizeof(name))));
		json_array_append_new(look->processes, row);
	}
	fabric_shown_fini(&s);
	return EXIT_OK;
}

/* A weftd that began anew counts from zero. */
static double rate(const json_t *before, const json_t *after, const char *member, double seconds)
{
	json_int_t from = json_integer_value(json_object_get(before, member));
	json_int_t to = json_integer_value(json_object_get(after, member));

	return (double)(to < from ? to : to - from) / seconds;
}

static json_t *link_rates(const json_t *before, const json_t *after, double seconds)
{
	double bytes = rate(before, after, "sent_bytes", seconds);
	double most = (double)json_integer_value(json_object_get(after, "mbps")) * 1e6 / 8;

	return json_pack("{s:O, s:O, s:O, s:f, s:f, s:f, s:f, s:f, s:f}", "from", json_object_get(after, "from"), "to",
			 json_object_get(after, "peer"), "state", json_object_get(after, "state"), "bytes_per_s", bytes,
			 "packets_per_s", rate(before, after, "sent_packets", seconds),
			 "percent", most > 0 ? 100 * bytes / most : 0, "waits_per_s", rate(before, after, "waits", seconds),
			 "discards_per_s", rate(before, after, "discards", seconds),
			 "errors_per_s", rate(before, after, "errors", seconds));
}

static double busy(const json_t *row)
{
	return json_real_value(json_object_get(row, "bytes_per_s"));
}

static int by_bytes(const void *a, const void *b)
{
	double x = busy(*(json_t *const *)a), y = busy(*(json_t *const *)b);

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Rows in order; the array's references are the result's. */
static json_t *sort(json_t **row, size_t rows)
{
	json_t *sorted = json_array();

	qsort(row, rows, sizeof(*row), by_bytes);
	for (size_t i = 0; i < rows; i++) {
		if (i < ROWS_MOST)
			json_array_append_new(sorted, row[i]);
		else
			json_decref(row[i]);
	}
	return sorted;
}

/* A fabric that was loaded meanwhile has other ports: then all begin. */
static json_t *between(const struct rates_look *before, const struct rates_look *after)
{
	size_t rows = json_array_size(after->processes);
	bool is_same = json_array_size(before->processes) == rows;
	double seconds = (double)(after->time - before->time) / (double)WTIME_S;
	json_t **row = calloc(rows ? rows : 1, sizeof(*row));
	json_t *links;

	if (!row)
		return NULL;
	for (size_t i = 0; i < rows; i++)
		row[i] = link_rates(is_same ? json_array_get(before->processes, i) : NULL, json_array_get(after->processes, i),
				    seconds > 0 ? seconds : 1);
	links = sort(row, rows);
	free(row);
	return json_pack("{s:f, s:i, s:o}", "interval_s", seconds, "directions", (int)rows, "links", links);
}

static void tell(const json_t *rates, char *line, size_t room)
{
	double sum = 0;
	size_t i;
	const json_t *row;

	json_array_foreach(json_object_get(rates, "links"), i, row)
		sum += busy(row);
	snprintf(line, room, "weft fabric top: %lld links, %.1f MB/s over all of them, in %.1f s",
		 (long long)json_integer_value(json_object_get(rates, "directions")) / 2, sum / 1e6,
		 json_real_value(json_object_get(rates, "interval_s")));
}

int fabric_top(const struct cli_options *o, int argc, char **argv)
{
	static const struct top_column columns[] = {
		{ "from", "FROM", TOP_TEXT, -16 }, { "to", "TO", TOP_TEXT, -16 }, { "state", "STATE", TOP_TEXT, -9 },
		{ "bytes_per_s", "BYTES/s", TOP_BYTES, 8 }, { "percent", "%", TOP_EVENTS, 4 },
		{ "packets_per_s", "PKTS/s", TOP_EVENTS, 7 }, { "waits_per_s", "WAITS/s", TOP_EVENTS, 8 },
		{ "discards_per_s", "DISC/s", TOP_EVENTS, 7 }, { "errors_per_s", "ERR/s", TOP_EVENTS, 6 }, { 0 },
	};
	static const struct top_subject links = { "weft fabric top", look_at, between, tell, { { "links", columns } } };

	(void)argv;
	if (!argc)
		return top_run(o, &links);
	cli_fail("weft fabric top", "top takes no argument");
	return EXIT_USAGE;
}
