/* The forms in which results are written. Each returns 0 or -errno. with_goals: judged by those of contest.c too. */
#ifndef WEFT_BENCH_REPORT_H
#define WEFT_BENCH_REPORT_H

#include "bench/results.h"

#include <stdbool.h>
#include <stdio.h>

/* How those begin that were written here. */
#define REPORT_JSON_BEGIN "{\n  \"machine\": {"
#define REPORT_SVG_BEGIN "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 "

/* For people who look at it here, in columns. */
int report_text(const struct results *r, bool with_goals, FILE *to);
/* picture: the name of the plot to show in it, or NULL. */
int report_markdown(const struct results *r, const char *picture, bool with_goals, FILE *to);
int report_json(const struct results *r, FILE *to);
/* Was a contest over message sizes measured? Without one a plot would be empty. */
bool report_has_plot(const struct results *r);
int report_svg(const struct results *r, FILE *to);

#endif
