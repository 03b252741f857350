#include "cli/rates.h"

#include "cli/output.h"
#include "cli/query.h"
#include "control/clock.h"

#include <stdlib.h>
#include <string.h>

/* What is counted of a QP, and the rate that follows; processes and ports have the sums. */
static const struct { const char *count, *rate; } of_qp[] = {
	{ "bytes_sent", "sent_bytes_per_s" }, { "bytes_received", "received_bytes_per_s" },
	{ "messages_sent", "sent_messages_per_s" }, { "messages_received", "received_messages_per_s" },
};

/* The same of a process's counters. */
static const struct { const char *count, *rate; } of_process[] = {
	{ "impaired_lost", "lost_per_s" }, { "completer_retry_err", "retries_per_s" },
};

enum { QP_RATES = sizeof(of_qp) / sizeof(of_qp[0]), PROCESS_RATES = sizeof(of_process) / sizeof(of_process[0]) };

void rates_free(struct rates_look *look)
{
	json_decref(look->processes);
	look->processes = NULL;
}

static json_t *find_process(const json_t *processes, long long pid)
{
	json_t *p;
	size_t i;

	json_array_foreach(processes, i, p)
		if (output_number(p, "pid") == pid)
			return p;
	return NULL;
}

int rates_look(const struct cli_options *o, struct rates_look *look)
{
	json_t *qps, *counters, *p;
	int status;
	size_t i;

	qps = query_ask(o, "qp", 0, NULL, &status);
	counters = qps ? query_ask(o, "counters", 0, NULL, &status) : NULL;
	if (!counters) {
		json_decref(qps);
		return status;
	}
	look->time = clock_now();
	look->processes = json_incref(json_object_get(qps, "processes"));
	json_array_foreach(json_object_get(counters, "processes"), i, p) {
		json_t *same = find_process(look->processes, output_number(p, "pid"));

		if (same)
			json_object_set(same, "counters", json_object_get(p, "report"));
	}
	json_decref(qps);
	json_decref(counters);
	return EXIT_OK;
}

/* QPs by process, device and number. */
static json_t *index_qps(const json_t *processes)
{
	json_t *all = json_object(), *p, *qp;
	char key[64];
	size_t i, k;

	json_array_foreach(processes, i, p) {
		json_array_foreach(json_object_get(p, "report"), k, qp) {
			snprintf(key, sizeof(key), "%lld/%lld", output_number(p, "pid"), output_number(qp, "qpn"));
			json_object_set(all, key, qp);
		}
	}
	return all;
}

static double rate(const json_t *before, const json_t *after, const char *count, double seconds)
{
	long long then = before ? output_number(before, count) : 0, now = output_number(after, count);

	return now > then ? (double)(now - then) / seconds : 0;
}

static void add(json_t *row, const char *member, double value)
{
	json_object_set_new(row, member, json_real(json_real_value(json_object_get(row, member)) + value));
}

/* The row of rows whose `member` is value; made where there is none. */
static json_t *row_of(json_t *rows, const char *member, json_t *value)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
		if (json_equal(json_object_get(row, member), value))
			return row;
	row = json_object();
	json_object_set(row, member, value);
	json_object_set_new(row, "qps", json_integer(0));
	for (int r = 0; r < QP_RATES; r++)
		add(row, of_qp[r].rate, 0);
	json_array_append_new(rows, row);
	return row;
}

static void take_qp(json_t *all, json_t *process, const json_t *p, const json_t *then, const json_t *qp, double seconds)
{
	static const char *const same[] = { "device", "qpn", "dest_qpn", "state", "path" };
	json_t *row = json_object(), *port;

	port = row_of(json_object_get(all, "ports"), "device", json_object_get(qp, "device"));
	json_object_set_new(port, "qps", json_integer(output_number(port, "qps") + 1));
	json_object_set_new(process, "qps", json_integer(output_number(process, "qps") + 1));
	json_object_set(row, "pid", json_object_get(p, "pid"));
	json_object_set(row, "program", json_object_get(p, "program"));
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		json_object_set(row, same[i], json_object_get(qp, same[i]));
	for (int r = 0; r < QP_RATES; r++) {
		double value = rate(then, qp, of_qp[r].count, seconds);

		add(row, of_qp[r].rate, value);
		add(port, of_qp[r].rate, value);
		add(process, of_qp[r].rate, value);
	}
	json_array_append_new(json_object_get(all, "qps"), row);
}

static double bytes_of(const json_t *row)
{
	return json_real_value(json_object_get(row, of_qp[0].rate)) + json_real_value(json_object_get(row, of_qp[1].rate));
}

/* The busiest first, and otherwise as they were. */
static int compare(const void *left, const void *right)
{
	const json_t *a = *(json_t *const *)left, *b = *(json_t *const *)right;
	double difference = bytes_of(b) - bytes_of(a);
	long long number = output_number(a, "pid") - output_number(b, "pid");

	if (difference != 0)
		return difference > 0 ? 1 : -1;
	if (number == 0)
		number = output_number(a, "qpn") - output_number(b, "qpn");
	return number > 0 ? 1 : number < 0 ? -1 : strcmp(output_text(a, "device"), output_text(b, "device"));
}

static void sort(json_t *all, const char *member)
{
	json_t *rows = json_object_get(all, member), *sorted = json_array();
	size_t n = json_array_size(rows);
	json_t **at = malloc((n + 1) * sizeof(*at));

	for (size_t i = 0; at && i < n; i++)
		at[i] = json_array_get(rows, i);
	if (at) {
		qsort(at, n, sizeof(*at), compare);
		for (size_t i = 0; i < n; i++)
			json_array_append(sorted, at[i]);
		json_object_set(all, member, sorted);
	}
	free(at);
	json_decref(sorted);
}

json_t *rates_between(const struct rates_look *before, const struct rates_look *after)
{
	double seconds = (double)(after->time > before->time ? after->time - before->time : 1) / (double)WTIME_S;
	json_t *all = json_pack("{s:f, s:[], s:[], s:[]}", "interval_s", seconds, "ports", "processes", "qps"), *index, *p, *qp;
	size_t i, k;

	if (!all)
		return NULL;
	index = index_qps(before->processes);
	json_array_foreach(after->processes, i, p) {
		const json_t *then = json_object_get(find_process(before->processes, output_number(p, "pid")), "counters");
		json_t *row = row_of(json_object_get(all, "processes"), "pid", json_object_get(p, "pid"));

		json_object_set(row, "program", json_object_get(p, "program"));
		for (int r = 0; r < PROCESS_RATES; r++)
			add(row, of_process[r].rate, rate(then, json_object_get(p, "counters"), of_process[r].count, seconds));
		json_array_foreach(json_object_get(p, "report"), k, qp) {
			char key[64];

			snprintf(key, sizeof(key), "%lld/%lld", output_number(p, "pid"), output_number(qp, "qpn"));
			take_qp(all, row, p, json_object_get(index, key), qp, seconds);
		}
	}
	json_decref(index);
	sort(all, "ports");
	sort(all, "processes");
	sort(all, "qps");
	return all;
}
