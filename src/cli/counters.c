/* weft counters: what is not zero, process by process; or all of it for Prometheus. */
#include "base/counters.h"
#include "cli/counter_text.h"
#include "cli/output.h"
#include "cli/query.h"

#include <string.h>

void counter_text_print(FILE *to, const json_t *counters, bool explains)
{
	char text[64];
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)counters, name, value) {
		const char *meaning = NULL;

		if (!json_integer_value(value))
			continue;
		for (unsigned i = 0; explains && i < COUNTERS; i++)
			meaning = strcmp(name, counters_name(i)) == 0 ? counters_text(i) : meaning;
		fprintf(to, meaning ? "  %-28s %-12lld %s\n" : "  %-28s %lld\n", output_plain(name, text, sizeof(text)),
			(long long)json_integer_value(value), meaning);
	}
}

static void print(const json_t *processes, bool explains)
{
	const json_t *p;
	char text[64];
	size_t i;

	json_array_foreach(processes, i, p) {
		printf("%lld %s\n", output_number(p, "pid"), output_plain(output_text(p, "program"), text, sizeof(text)));
		counter_text_print(stdout, json_object_get(p, "report"), explains);
	}
	if (!json_array_size(processes))
		puts("no processes attached");
}

/* A label's value: Prometheus wants backslash and quote escaped. */
static void print_label(const char *text)
{
	char plain[64];

	output_plain(text, plain, sizeof(plain));
	for (const char *c = plain; *c; c++)
		printf(*c == '\\' || *c == '"' ? "\\%c" : "%c", *c);
}

/* Prometheus' text exposition format 0.0.4: each counter once, with a sample of each process. */
static void print_prometheus(const json_t *processes)
{
	const json_t *p;
	size_t k;

	for (unsigned i = 0; i < COUNTERS; i++) {
		const char *name = counters_name(i);
		bool is_gauge = strcmp(name, "queue_bytes") == 0;	/* memory that is given back */
		const char *end = is_gauge ? "" : "_total";

		printf("# HELP weft_%s%s %s\n# TYPE weft_%s%s %s\n", name, end, counters_text(i), name, end,
		       is_gauge ? "gauge" : "counter");
		json_array_foreach(processes, k, p) {
			const json_t *value = json_object_get(json_object_get(p, "report"), name);

			if (!json_is_integer(value))
				continue;
			printf("weft_%s%s{pid=\"%lld\",program=\"", name, end, output_number(p, "pid"));
			print_label(output_text(p, "program"));
			printf("\"} %lld\n", (long long)json_integer_value(value));
		}
	}
}

int cli_counters(const struct cli_options *o, int argc, char **argv)
{
	json_t *answer;
	int status;

	if (o->json + o->prometheus + o->explain > 1) {
		cli_fail("take one of them", "--json, --prometheus and --explain do not go together");
		return EXIT_USAGE;
	}
	answer = query_ask(o, "counters", argc, argv, &status);
	if (!answer)
		return status;
	if (o->json)
		return query_json(answer, "counters");
	query_tell_errors(answer);
	if (o->prometheus)
		print_prometheus(json_object_get(answer, "processes"));
	else
		print(json_object_get(answer, "processes"), o->explain);
	json_decref(answer);
	return EXIT_OK;
}
