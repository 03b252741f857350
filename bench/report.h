/* The three forms in which results are written. Each returns 0 or -errno. */
#ifndef WEFT_BENCH_REPORT_H
#define WEFT_BENCH_REPORT_H

#include "bench/results.h"

#include <stdio.h>

/* picture: the name of the plot to show in it, or NULL. */
int report_markdown(const struct results *r, const char *picture, FILE *to);
int report_json(const struct results *r, FILE *to);
int report_svg(const struct results *r, FILE *to);

#endif
