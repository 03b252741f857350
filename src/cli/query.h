/* What weft qp, weft mr and weft counters have in common: every process's report, of one process or all. */
#ifndef WEFT_CLI_QUERY_H
#define WEFT_CLI_QUERY_H

#include "cli/cli.h"
#include "cli/output.h"

#include <jansson.h>

/* Asks weftd, or takes no weftd for no processes. {"processes": [{"pid", "program", "slot", "report" or "error"}]}, only
 * those of argv[0] when there is one. NULL: everything is told, and *status is the exit status. */
json_t *query_ask(const struct cli_options *o, const char *what, int argc, char **argv, int *status);

/* Prints the answer as JSON and releases it: the report of each process is named for what it has (qps, cqs, mrs, counters), and
 * what tables show in hexadecimal is a number. The exit status. */
int query_json(json_t *answer, const char *what);

/* Tells on the standard error which processes did not answer. */
void query_tell_errors(const json_t *answer);

/* A whole subcommand: one line for each object of all processes' reports, which are arrays of objects, with its process's pid
 * and program added; or all as JSON. beautify, or NULL, changes an object before it is shown; `none` is said when there is
 * nothing to show. The exit status. */
int query_show(const struct cli_options *o, const char *what, int argc, char **argv, const struct output_column *columns,
	       void (*beautify)(json_t *row), const char *none);

#endif
