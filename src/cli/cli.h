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
	const char *network;	/* devices of a network that begins: control/devices.h; NULL: weft0 and weft1 */
	bool quiet;
	const char *impair;	/* faults: impair/impair.h, NULL: none */
	const char *trace;	/* file, NULL: none */
	const char *limit;	/* of weft capture: bytes, NULL: ours to choose */
	const char *pcap;	/* of weft replay: file, NULL: none */
	const char *profile;	/* of the transport, NULL: standard */
	const char *path;	/* "direct", "packet", "auto"; NULL: auto */
	const char *engine;		/* "thread", "caller"; NULL: caller */
	const char *remap;		/* bytes of the smallest region, empty: ours to choose; NULL: off */
	const char *shared_heap;	/* bytes of the smallest block, empty: ours to choose; NULL: off */
	const char *node;		/* of weft run: host of the network's fabric, or HOST:PORT; NULL: none */
	const char *nodes;		/* of weft run: such hosts, for ranks, with commas between them; NULL: none */
	const char *routing;		/* of weft fabric: "auto", "min-hop", "up-down"; NULL: auto, and managed when loaded */
	const char *priority, *lmc;	/* of weft fabric load: of weft's manager, and bits of LIDs; NULL: 0, and the file's */
	const char *partitions;		/* of weft fabric load: file; NULL: one partition */
	const char *options;		/* of weft fabric load: file, of weft's manager; NULL: defaults */
	bool rates;			/* of weft fabric load */
	bool history;			/* of weft qp */
	const char *peer;		/* of weft doctor: another host; NULL: this one alone */
	const char *size;		/* of weft ping: bytes; NULL: the least */
	bool listen;
	const char *during;		/* of weft link: for how long; NULL: until it is told otherwise */
	bool prometheus, explain;	/* weft counters' */
	const char *interval;		/* weft top's and ping's: seconds; NULL: 1 */
	const char *count;		/* of weft capture: frames, top: looks, ping: questions; NULL: without end */
	bool batch;
	const char *stats;		/* of weft run: file, empty: the standard error; NULL: none */
	/* weft pair's, see round.h; NULL: as it is without */
	const char *clients, *seeds, *seed, *timeout, *ready, *delay;
	bool stop_server;
	const char *loss;		/* of weft sim: percentages; NULL: none */
	/* weft bench's, see bench/bench.h */
	bool quick, list, goals, wire;
	const char *only, *reps, *sizes, *cpus, *json_file, *markdown, *svg;
};

/* Which options a subcommand takes, by their letters in main.c's table. */
struct cli_command {
	const char *name;
	const char *options;	/* letters; with a * they may also stand behind the first argument */
	const char *arguments;	/* for the usage line */
	const char *summary;
	const char *help;	/* more, or NULL */
	int (*run)(const struct cli_options *o, int argc, char **argv);
};

int cli_run(const struct cli_options *o, int argc, char **argv);
int cli_pair(const struct cli_options *o, int argc, char **argv);
int cli_up(const struct cli_options *o, int argc, char **argv);
int cli_down(const struct cli_options *o, int argc, char **argv);
int cli_status(const struct cli_options *o, int argc, char **argv);
int cli_devices(const struct cli_options *o, int argc, char **argv);
int cli_qp(const struct cli_options *o, int argc, char **argv);
int cli_cq(const struct cli_options *o, int argc, char **argv);
int cli_mr(const struct cli_options *o, int argc, char **argv);
int cli_counters(const struct cli_options *o, int argc, char **argv);
int cli_replay(const struct cli_options *o, int argc, char **argv);
int cli_impair(const struct cli_options *o, int argc, char **argv);
int cli_capture(const struct cli_options *o, int argc, char **argv);
int cli_path(const struct cli_options *o, int argc, char **argv);
int cli_paths(const struct cli_options *o, int argc, char **argv);
int cli_link(const struct cli_options *o, int argc, char **argv);
int cli_doctor(const struct cli_options *o, int argc, char **argv);
int cli_sa(const struct cli_options *o, int argc, char **argv);
int cli_mad(const struct cli_options *o, int argc, char **argv);
int cli_ping(const struct cli_options *o, int argc, char **argv);
int cli_fabric(const struct cli_options *o, int argc, char **argv);
int cli_env(const struct cli_options *o, int argc, char **argv);
int cli_shell(const struct cli_options *o, int argc, char **argv);
int cli_top(const struct cli_options *o, int argc, char **argv);
int cli_completion(const struct cli_options *o, int argc, char **argv);
int cli_sim(const struct cli_options *o, int argc, char **argv);
int cli_bench(const struct cli_options *o, int argc, char **argv);

/* "weft: cause" and "  next: step" on the standard error; next may be NULL. Returns EXIT_FAILED. */
int cli_fail(const char *next, const char *cause, ...) __attribute__((format(printf, 2, 3)));

#endif
