/* weft bench: weft beside its peers on this machine. Every round has one trial of every contestant, so that whatever changes in
 * the meantime changes for all. */
#ifndef WEFT_BENCH_BENCH_H
#define WEFT_BENCH_BENCH_H

#include <stdbool.h>

struct wire;

struct bench_options {
	const char *weft;	/* the weft command */
	const char *bench;	/* folder of our programs */
	const char *only;	/* comma-separated names of contests or contestants, NULL: all */
	const char *sizes;	/* comma-separated, NULL: each contest's own */
	const char *rounds;	/* number, NULL: as quick says */
	const char *cpus;	/* "A,B", NULL: ours to choose */
	const char *json, *markdown, *svg;	/* files, "-" is the standard output; without all three a table is printed */
	bool is_quick, with_goals;
	bool is_wire;		/* contests between two hosts, not those between two processes of one */
	const struct wire *wire;	/* those hosts, borrowed; bench_run needs them */
};

/* What a run has come to. */
enum bench_outcome { BENCH_MEASURED, BENCH_FAILED /* weft itself, or a file */, BENCH_USAGE, BENCH_INTERRUPTED };

/* weftd runs, in the directory that WEFT_DIR names, or at each host of the wire. What is wrong is told on the standard error. */
enum bench_outcome bench_run(const struct bench_options *o);
/* Prints who could take part, and who cannot and why. */
enum bench_outcome bench_list(const struct bench_options *o);
/* Are the options well-formed? BENCH_MEASURED or BENCH_USAGE. */
enum bench_outcome bench_check(const struct bench_options *o);

#endif
