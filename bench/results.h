/* What a run has: the figures of every contestant at every size, and the machine they hold for. */
#ifndef WEFT_BENCH_RESULTS_H
#define WEFT_BENCH_RESULTS_H

#include "bench/contest.h"
#include "bench/machine.h"
#include "bench/series.h"
#include "bench/trial.h"

struct entry {
	const struct contest *contest;
	const struct contestant *who;
	size_t size;
	bool is_missing;	/* not installed: never tried */
	struct series series;
	char why[TRIAL_WHY];	/* of its being missing, or of the last failure */
};

struct results {
	struct entry *entries;	/* owned */
	size_t count;
	int rounds;
	double trial_s;		/* what a trial was meant to measure */
	struct machine machine;
};

/* The figures of a contestant, or NULL. */
const struct entry *results_find(const struct results *r, const char *contest, const char *name, size_t size);

/* Sizes of the contest that were measured, in the order of the entries, each once. */
size_t results_sizes(const struct results *r, const struct contest *c, size_t sizes[CONTEST_SIZES]);

/* Who could not be measured: the first after this entry, or of all; once for each contestant and reason. NULL: no more. */
const struct entry *results_next_failure(const struct results *r, const struct entry *before);

/* Are the quartiles of all its figures near each other? */
bool results_are_steady(const struct results *r, const struct contest *c);

/* One of weft's contestants against a goal. */
struct judgement {
	const struct goal *goal;
	const struct entry *ours, *other;	/* other: NULL where there is none, or it was not measured */
	struct spread ratio;	/* what the bound is of; count 0: it cannot be told */
	bool is_met;
};

/* The next of them, counting from 0; false after the last. Goals of contests that were not selected are left out. */
bool results_judge(const struct results *r, size_t index, struct judgement *j);

#endif
