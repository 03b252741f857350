/* weft mad: receive buffers of QP0 and QP1 of each port, whose they are, and what an administrator may change of them. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { SETTINGS = 512 };	/* bytes of all NAME=VALUE: what weftd takes */

static const char next_set[] = "weft mad set NAME=VALUE...; weft mad shows the names and values";

/* The arguments with commas between them. False: they are too long, or there is nothing. */
static bool join(char *text, int argc, char **argv)
{
	size_t at = 0;

	for (int i = 0; i < argc; i++) {
		size_t bytes = strlen(argv[i]);

		if (at + bytes + 2 > SETTINGS)
			return false;
		if (i)
			text[at++] = ',';
		memcpy(text + at, argv[i], bytes);
		at += bytes;
	}
	text[at] = '\0';
	return at > 0;
}

static int tell(const char *text, int err)
{
	if (err == -ENOENT)
		return cli_fail(next_set, "there is no tunable of one of these names: %s", text);
	if (err == -EPERM)
		return cli_fail("run it as root or as the user of weftd", "only weftd's user and root may tune it");
	if (err == -EINVAL)
		return cli_fail(next_set, "these values are refused: %s; none was changed", text);
	return daemon_fail(err, "weft doctor", "weftd does not answer");
}

static void print_tunables(const json_t *tunables)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)tunables, name, value) {
		printf("%s=%lld ", name, (long long)json_integer_value(value));
	}
	putchar('\n');
}

/* One row for each client, with what its QP has in the first one. */
static json_t *rows_of(const json_t *qps)
{
	static const char *const own[] = { "posted", "low", "high", "drops" };
	json_t *rows = json_array(), *qp, *client;
	size_t i, k;

	json_array_foreach((json_t *)(uintptr_t)qps, i, qp) {
		json_array_foreach(json_object_get(qp, "clients"), k, client) {
			json_t *row = json_copy(client);
			const char *node = output_text(qp, "node");

			json_object_set_new(row, "port", *node ? json_sprintf("%s:%lld", node, output_number(qp, "node_port")) :
								 json_string("-"));
			json_object_set(row, "qpn", json_object_get(qp, "qpn"));
			json_object_del(row, "drops");
			for (size_t n = 0; !k && n < sizeof(own) / sizeof(own[0]); n++)
				json_object_set(row, own[n], json_object_get(qp, own[n]));
			if (json_is_null(json_object_get(row, "asked")))
				json_object_del(row, "asked");
			json_array_append_new(rows, row);
		}
	}
	return rows;
}

static void print(const json_t *all)
{
	static const struct output_column columns[] = {
		{ "port", "PORT" }, { "qpn", "QP" }, { "posted", "POSTED" }, { "low", "LOW" }, { "high", "HIGH" },
		{ "drops", "DROPS" }, { "program", "CLIENT" }, { "pid", "PID" }, { "class", "CLASS" }, { "asked", "ASKED" },
		{ "target", "TARGET" }, { "automatic", "ADDED" }, { "held", "HELD" }, { "arrivals", "ARRIVED" },
		{ "discards", "DISCARDED" }, { NULL, NULL },
	};
	json_t *rows = rows_of(json_object_get(all, "qps"));

	print_tunables(json_object_get(all, "tunables"));
	output_table(rows, columns);
	if (!json_array_size(rows))
		puts("nobody receives management datagrams");
	json_decref(rows);
}

int cli_mad(const struct cli_options *o, int argc, char **argv)
{
	bool is_set = argc > 0 && strcmp(argv[0], "set") == 0;
	char text[SETTINGS] = "";
	struct rundir d;
	json_t *all;
	int fd, err;

	if ((argc > 0 && !is_set && (strcmp(argv[0], "show") != 0 || argc > 1)) || (is_set && !join(text, argc - 1, argv + 1))) {
		cli_fail(next_set, "show or set is wanted, and set with NAME=VALUE");
		return EXIT_USAGE;
	}
	if (daemon_directory(o->system, &d))
		return EXIT_FAILED;
	fd = daemon_start(&d, CONTROL_COMMAND, false);
	if (fd < 0)
		return EXIT_FAILED;
	all = daemon_ask(fd, CTL_MADS, is_set ? text : NULL, &err);
	close(fd);
	if (!all)
		return tell(text, err);
	if (o->json)
		return output_json(all);
	print(all);
	json_decref(all);
	return EXIT_OK;
}
