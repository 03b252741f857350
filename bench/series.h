/* The figures of several rounds: a contestant's at one size, or the ratios of two contestants, round by round. */
#ifndef WEFT_BENCH_SERIES_H
#define WEFT_BENCH_SERIES_H

enum { SERIES_ROUNDS = 101 };

struct series {
	double figure[SERIES_ROUNDS];	/* NAN: not measured in this round */
	int rounds;
};

struct spread {
	double low, median, high;	/* quartiles, NAN when there is no figure */
	int count;
};

struct spread series_spread(const struct series *s);

/* Decimals of a figure, so that three digits or more say something. */
int series_digits(double figure);

/* a / b for each round that has both: what disturbs a round disturbs both. */
struct spread series_ratio(const struct series *a, const struct series *b);

#endif
