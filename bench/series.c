/* Quartiles lie between two figures where they must, as most programs for statistics have it (Hyndman and Fan, type 7). */
#include "bench/series.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double quantile(const double *sorted, int count, double share)
{
	double at = (count - 1) * share;
	int below = (int)at;

	return below + 1 < count ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}

struct spread series_spread(const struct series *s)
{
	double sorted[SERIES_ROUNDS];
	int count = 0;

	for (int i = 0; i < s->rounds; i++)
		if (!isnan(s->figure[i]))
			sorted[count++] = s->figure[i];
	if (count == 0)
		return (struct spread){ NAN, NAN, NAN, 0 };
	qsort(sorted, (size_t)count, sizeof(sorted[0]), compare);
	return (struct spread){ .low = quantile(sorted, count, 0.25), .median = quantile(sorted, count, 0.5),
				.high = quantile(sorted, count, 0.75), .count = count };
}

int series_digits(double figure)
{
	return figure >= 100 ? 0 : figure >= 10 ? 1 : figure >= 1 ? 2 : 3;
}

struct spread series_ratio(const struct series *a, const struct series *b)
{
	struct series ratios = { .rounds = a->rounds < b->rounds ? a->rounds : b->rounds };

	for (int i = 0; i < ratios.rounds; i++)
		ratios.figure[i] = a->figure[i] / b->figure[i];
	return series_spread(&ratios);
}
