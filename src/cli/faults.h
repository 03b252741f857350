/* What weft run --impair and --trace ask for, checked and put into the program's environment. */
#ifndef WEFT_CLI_FAULTS_H
#define WEFT_CLI_FAULTS_H

#include "cli/cli.h"
#include "ib/ib.h"
#include "impair/impair.h"

/* Is the specification right, and does the profile (NULL: not known) go with it? EXIT_OK, or EXIT_USAGE with a message. */
int faults_check(const struct cli_options *o, const struct ib_options *profile);
/* The specification of --impair with devices named by their index. EXIT_OK, or EXIT_USAGE with a message. */
int faults_by_index(const struct cli_options *o, char to[IMPAIR_TEXT]);
/* The specification of --impair with its seed, and devices named by their index; one without seed gets one, which is told on the
 * standard error. EXIT_OK, or EXIT_FAILED with a message. */
int faults_seed(const struct cli_options *o, char to[IMPAIR_TEXT]);
/* Says that a specification does not fit into IMPAIR_TEXT. EXIT_FAILED. */
int faults_too_long(void);
/* Empties the trace file and sets the variables. Without seed= one is drawn and told on the standard error, so that the
 * run can be repeated. EXIT_OK, or EXIT_FAILED with a message. */
int faults_set(const struct cli_options *o);

#endif
