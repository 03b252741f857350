/* weft counters: what is not zero, process by process. */
#include "cli/output.h"
#include "cli/query.h"

static void print(const json_t *processes)
{
	const json_t *p;
	size_t i;

	json_array_foreach(processes, i, p) {
		json_t *report = json_object_get(p, "report");
		const char *name;
		json_t *value;

		printf("%lld %s\n", output_number(p, "pid"), output_text(p, "program"));
		json_object_foreach(report, name, value) {
			if (json_integer_value(value))
				printf("  %-28s %lld\n", name, (long long)json_integer_value(value));
		}
	}
	if (!json_array_size(processes))
		puts("no processes attached");
}

int cli_counters(const struct cli_options *o, int argc, char **argv)
{
	json_t *answer;
	int status;

	answer = query_ask(o, "counters", argc, argv, &status);
	if (!answer)
		return status;
	if (o->json)
		return output_json(answer);
	query_tell_errors(answer);
	print(json_object_get(answer, "processes"));
	json_decref(answer);
	return EXIT_OK;
}
