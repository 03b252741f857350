/* What the measured programs share: a pinned CPU, and the median time of a round.
 * Rounds are timed in batches, so that reading the clock costs a round next to nothing; the first tenth is for warming up. */
#ifndef WEFT_BENCH_STOPWATCH_H
#define WEFT_BENCH_STOPWATCH_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum { LONG_TURNS = 65536 };	/* our choice: milliseconds, many times what any answer takes */

struct stopwatch {
	uint64_t *batch_ns;	/* owned */
	uint64_t started;
	unsigned rounds;	/* to do, warming up included */
	unsigned batch;		/* rounds in a batch */
	unsigned skipped;	/* rounds to go before the first batch */
	unsigned in_batch, batches;
};

/* rounds is at least 1. Ends the program when there is no memory. */
void stopwatch_init(struct stopwatch *w, unsigned rounds);
void stopwatch_fini(struct stopwatch *w);
void stopwatch_batch_ends(struct stopwatch *w);

/* After each round. */
static inline void stopwatch_round(struct stopwatch *w)
{
	if (++w->in_batch == w->batch)
		stopwatch_batch_ends(w);
}

/* The median batch's nanoseconds for a round. */
double stopwatch_median(const struct stopwatch *w);

/* In each turn of a loop that waits for the other end: when that has not come for long, it waits for this CPU. */
static inline void stay_fair(unsigned *turns)
{
	if (++*turns % LONG_TURNS == 0)
		sched_yield();
}

/* The same in a loop that only looks at memory: the core is told, and leaves the loop sooner. */
static inline void relax(unsigned *turns)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
	stay_fair(turns);
}

uint64_t now_ns(void);

/* The calling process runs there only. Ends the program when it cannot. */
void pin(int cpu);

/* The one line that the programs print. */
void print_result(double value);

void die(const char *what);

#endif
