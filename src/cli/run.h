/* The steps of weft run, which the other commands that start programs take too. */
#ifndef WEFT_CLI_RUN_H
#define WEFT_CLI_RUN_H

#include "cli/cli.h"

/* Are the options of weft run right? EXIT_OK, or EXIT_USAGE with a message. */
int run_check(const struct cli_options *o);

/* Starts weftd and makes this process's environment that of a program of weft run. The connection to weftd stays open, here and
 * in what this process starts. EXIT_OK, or EXIT_FAILED with a message. */
int run_prepare(const struct cli_options *o);

/* Executes the program in place of this one. Returns only when that fails, an exit status, with a message. */
int run_execute(char **argv);

#endif
