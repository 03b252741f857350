/* What QPs, processes and ports do in a second, from two looks at them. */
#ifndef WEFT_CLI_RATES_H
#define WEFT_CLI_RATES_H

#include "base/time.h"
#include "cli/cli.h"

#include <jansson.h>

/* A look: {"processes": [...]} of weft qp, with the counters of each process, and when it was. */
struct rates_look {
	json_t *processes;	/* owned: an array */
	wtime time;
};

/* NULL: an exit status; everything is told. */
int rates_look(const struct cli_options *o, struct rates_look *look);
void rates_free(struct rates_look *look);

/* {"interval_s", "ports": [...], "processes": [...], "qps": [...]}, the busiest first; rows have rates with "_per_s". A QP that
 * is new began with zero; what is gone is left out. NULL: there is no memory. */
json_t *rates_between(const struct rates_look *before, const struct rates_look *after);

#endif
