/* A process that runs no verbs call still answers: its helper thread does. One that is stopped does not, and weftd says so. */
#include "cli/query.h"

#include "cli/daemon.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *ask_daemon(const struct cli_options *o, const char *what, int *err)
{
	struct rundir d;
	json_t *answer;
	int fd;

	*err = -EPERM;
	if (daemon_directory(o->system, &d))
		return NULL;
	fd = daemon_connect(&d, CONTROL_COMMAND);
	if (fd == -ENOENT)
		return json_pack("{s:[]}", "processes");
	if (fd < 0)
		return NULL;
	answer = daemon_ask(fd, CTL_QUERY, what, err);
	close(fd);
	if (!answer && *err == -EDQUOT)
		cli_fail("ask again when they have ended", "this user's share of questions under way is used up");
	else if (!answer)
		daemon_fail(*err, *err == -EAGAIN ? "ask again" : "weft doctor", "weftd does not answer");
	return answer;
}

static bool keep_only(json_t *answer, long pid)
{
	json_t *processes = json_object_get(answer, "processes");

	for (size_t i = json_array_size(processes); i-- > 0;) {
		if (output_number(json_array_get(processes, i), "pid") != pid)
			json_array_remove(processes, i);
	}
	return json_array_size(processes) > 0;
}

json_t *query_ask(const struct cli_options *o, const char *what, int argc, char **argv, int *status)
{
	char *end = NULL;
	long pid = argc > 0 ? strtol(argv[0], &end, 10) : 0;
	json_t *answer;
	int err;

	*status = EXIT_USAGE;
	if (argc > 1 || (end && (*end || pid <= 0))) {
		if (argc > 1)
			cli_fail("name one process, or none for all", "at most one PID, but there is '%s'", argv[1]);
		else
			cli_fail("weft status lists the processes", "'%s' is not a PID", argv[0]);
		return NULL;
	}
	*status = EXIT_FAILED;
	answer = ask_daemon(o, what, &err);
	if (answer && pid && !keep_only(answer, pid)) {
		cli_fail("weft status lists the processes that are", "process %ld is not attached", pid);
		json_decref(answer);
		return NULL;
	}
	if (answer)
		*status = EXIT_OK;
	return answer;
}

void query_tell_errors(const json_t *answer)
{
	char program[64], error[128];
	const json_t *p;
	size_t i;

	json_array_foreach(json_object_get(answer, "processes"), i, p) {
		if (!json_object_get(p, "error") && !json_object_get(p, "is_cut"))
			continue;
		output_plain(output_text(p, "program"), program, sizeof(program));
		output_plain(output_text(p, "error"), error, sizeof(error));
		fprintf(stderr, "weft: process %lld (%s): %s\n", output_number(p, "pid"), program,
			*error ? error : "it has more than is shown");
	}
}

/* "0x7f00" as 32512. Beyond 2^63 JSON's numbers are inexact, as most readers' are beyond 2^53. */
static void make_number(json_t *row, const char *member)
{
	const char *text = json_string_value(json_object_get(row, member));
	char *end = NULL;
	unsigned long long value = text ? strtoull(text, &end, 16) : 0;

	if (!text || end == text || *end)
		return;
	json_object_set_new(row, member, value <= INT64_MAX ? json_integer((json_int_t)value) : json_real((double)value));
}

int query_json(json_t *answer, const char *what)
{
	static const struct { const char *what, *name; } names[] = {
		{ "counters", "counters" }, { "impair", "impairments" }, { "history", "stops" },
	};
	char name[16];
	json_t *p, *row;
	size_t i, k;

	snprintf(name, sizeof(name), "%ss", what);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(what, names[i].what) == 0)
			snprintf(name, sizeof(name), "%s", names[i].name);
	json_array_foreach(json_object_get(answer, "processes"), i, p) {
		json_t *report = json_object_get(p, "report");

		if (!report)
			continue;
		json_array_foreach(report, k, row) {
			make_number(row, "key");
			make_number(row, "iova");
		}
		json_object_set(p, name, report);
		json_object_del(p, "report");
	}
	return output_json(answer);
}

static json_t *all_rows(const json_t *answer)
{
	json_t *rows = json_array(), *row;
	const json_t *p;
	size_t i, k;

	json_array_foreach(json_object_get(answer, "processes"), i, p) {
		json_array_foreach(json_object_get(p, "report"), k, row) {
			json_object_set(row, "pid", json_object_get(p, "pid"));
			json_object_set(row, "program", json_object_get(p, "program"));
			json_array_append(rows, row);
		}
	}
	return rows;
}

int query_show(const struct cli_options *o, const char *what, int argc, char **argv, const struct output_column *columns,
	       void (*beautify)(json_t *row), const char *none)
{
	json_t *answer, *rows, *row;
	int status;
	size_t i;

	answer = query_ask(o, what, argc, argv, &status);
	if (!answer)
		return status;
	if (o->json)
		return query_json(answer, what);
	query_tell_errors(answer);
	rows = all_rows(answer);
	json_array_foreach(rows, i, row) {
		if (beautify)
			beautify(row);
	}
	output_table(rows, columns);
	if (!json_array_size(rows))
		puts(none);
	json_decref(rows);
	json_decref(answer);
	return EXIT_OK;
}
