/* A process that runs no verbs call still answers: its helper thread does. One that is stopped does not, and weftd says so. */
#include "cli/query.h"

#include "cli/daemon.h"

#include <errno.h>
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
	if (!answer)
		cli_fail(*err == -EAGAIN ? "ask again" : "weft doctor", "weftd does not answer: %s", strerror(-*err));
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
		cli_fail("weft status lists them", "'%s' is not the number of one process", argv[argc - 1]);
		return NULL;
	}
	*status = EXIT_FAILED;
	answer = ask_daemon(o, what, &err);
	if (answer && pid && !keep_only(answer, pid)) {
		cli_fail("weft status lists those that are", "process %ld is not attached", pid);
		json_decref(answer);
		return NULL;
	}
	if (answer)
		*status = EXIT_OK;
	return answer;
}

void query_tell_errors(const json_t *answer)
{
	const json_t *p;
	size_t i;

	json_array_foreach(json_object_get(answer, "processes"), i, p) {
		if (json_object_get(p, "error"))
			fprintf(stderr, "weft: process %lld (%s): %s\n", output_number(p, "pid"), output_text(p, "program"),
				output_text(p, "error"));
	}
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
		return output_json(answer);
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
