/* The weft command: what its subcommands share. One table in main.c names them all; the help texts come from it. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

/* Exit statuses. 126 and 127 are weft run's and 130 weft bench's, with the shell's meaning. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_INTERRUPTED = 130 };

/* What the options of all subcommands come to. */
struct cli_options {
	bool system;		/* the system's weftd */
	bool json;
	bool force;
	const char *devices;	/* comma-separated, NULL: all */
	bool quiet;
	const char *impair;	/* faults: link/impair.h, NULL: none */
	const char *trace;	/* file, NULL: none */
	const char *profile;	/* of the transport, NULL: standard */
	const char *path;	/* "direct", "packet", "auto"; NULL: auto */
	const char *remap;		/* bytes of the smallest region, empty: ours to choose; NULL: off */
	const char *shared_heap;	/* bytes of the smallest block, empty: ours to choose; NULL: off */
	/* weft bench's, see bench/bench.h */
	bool quick, list;
	const char *only, *reps, *sizes, *cpus, *json_file, *markdown, *svg;
};

/* Which options a subcommand takes, by their letters in main.c's table. */
struct cli_command {
	const char *name;
	const char *options;	/* letters */
	const char *arguments;	/* for the usage line */
	const char *summary;
	const char *help;	/* more, or NULL */
	int (*run)(const struct cli_options *o, int argc, char **argv);
};

int cli_run(const struct cli_options *o, int argc, char **argv);
int cli_up(const struct cli_options *o, int argc, char **argv);
int cli_down(const struct cli_options *o, int argc, char **argv);
int cli_status(const struct cli_options *o, int argc, char **argv);
int cli_devices(const struct cli_options *o, int argc, char **argv);
int cli_qp(const struct cli_options *o, int argc, char **argv);
int cli_mr(const struct cli_options *o, int argc, char **argv);
int cli_counters(const struct cli_options *o, int argc, char **argv);
int cli_replay(const struct cli_options *o, int argc, char **argv);
int cli_doctor(const struct cli_options *o, int argc, char **argv);
int cli_bench(const struct cli_options *o, int argc, char **argv);

/* "weft: cause" and "  next: step" on the standard error; next may be NULL. Returns EXIT_FAILED. */
int cli_fail(const char *next, const char *cause, ...) __attribute__((format(printf, 2, 3)));

#endif
