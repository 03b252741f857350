/* weft run --stats: what the processes of a program have counted, printed when the program has ended. */
#ifndef WEFT_CLI_STATS_H
#define WEFT_CLI_STATS_H

#include "cli/cli.h"

/* Starts the program in this environment, waits for its end and prints the counters: to the file of --stats, as JSON when its
 * name ends in .json, else to the standard error. The program's exit status, 128 + N when signal N killed it; EXIT_FAILED, with
 * a message, when the counters cannot be written. Signals that end this process go to the program. */
int stats_run(const struct cli_options *o, char **argv);

#endif
