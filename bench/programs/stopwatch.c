#include "stopwatch.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Our choice: reading the clock takes some 25 ns, a round 250 and more; a short batch is seldom disturbed. */
enum { BATCH = 8, BATCHES_WANTED = 32 };

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void stopwatch_init(struct stopwatch *w, unsigned rounds)
{
	unsigned batch = rounds / BATCHES_WANTED;

	*w = (struct stopwatch){ .batch = batch < 1 ? 1 : batch > BATCH ? BATCH : batch };
	w->skipped = rounds / 10 / w->batch;
	w->batch_ns = malloc((rounds / w->batch + 1) * sizeof(*w->batch_ns));
	if (!w->batch_ns)
		die("memory");
	w->rounds = (rounds / w->batch + w->skipped) * w->batch;
	w->started = now_ns();
}

void stopwatch_fini(struct stopwatch *w)
{
	free(w->batch_ns);
}

void stopwatch_batch_ends(struct stopwatch *w)
{
	uint64_t now = now_ns();

	if (w->skipped)
		w->skipped--;
	else
		w->batch_ns[w->batches++] = now - w->started;
	w->started = now;
	w->in_batch = 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double stopwatch_median(const struct stopwatch *w)
{
	qsort(w->batch_ns, w->batches, sizeof(*w->batch_ns), compare);
	return (double)w->batch_ns[w->batches / 2] / w->batch;
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

void print_result(double value)
{
	printf("result %.9g\n", value);
	if (fflush(stdout))
		die("standard output");
}

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "failed");
	exit(1);
}
