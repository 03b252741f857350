/* One measurement by one contestant: its command, or its server and client, each end on its CPU, within a time limit. Nothing
 * of it is left when trial_run returns. Signals that would end the process are blocked throughout and end the trial instead. */
#ifndef WEFT_BENCH_TRIAL_H
#define WEFT_BENCH_TRIAL_H

#include "bench/contest.h"

#include <stdbool.h>

struct wire;

enum { TRIAL_PATH = 4096, TRIAL_WHY = 160, TRIAL_OUTPUT = 65536 };

struct trial {
	const char *weft;	/* the weft command, borrowed */
	const char *bench;	/* folder of our programs, borrowed */
	int cpu[2];		/* server, client */
	const struct wire *wire;	/* borrowed: the ends are at its hosts; NULL: both here */
};

/* For the whole of a run: blocks the signals, becomes the parent of orphans, and gives both back. */
void trial_begin(void);
void trial_end(void);
/* The signal that came and asks the program to end, or 0. */
int trial_interrupted(void);

/* Measures. False with the reason in why; also when interrupted. */
bool trial_run(const struct trial *t, const struct contestant *c, size_t size, unsigned rounds, double *value,
	       char why[TRIAL_WHY]);

/* Takes what a command prints, whatever its exit status: there are programs whose --version fails. It is not pinned. False when
 * it cannot be started or does not end. */
bool trial_capture(const struct trial *t, const char *command, char *output, size_t room);

/* Is the program in PATH, or, for {bench}/NAME, in our folder? */
bool trial_has_program(const struct trial *t, const char *program);

#endif
