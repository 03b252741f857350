/* The tables of subcommands and options, from which help and completion are made. */
#ifndef WEFT_CLI_TABLE_H
#define WEFT_CLI_TABLE_H

#include "cli/cli.h"

#include <stddef.h>

struct table_option {
	char letter;		/* of the short option; 0: there is none */
	const char *name, *argument, *help;	/* argument NULL: none; in brackets: optional */
};

/* The i-th subcommand, NULL behind the last. */
const struct cli_command *table_command(size_t i);
/* The i-th option of a subcommand; false behind the last. */
bool table_option(const struct cli_command *c, size_t i, struct table_option *o);

#endif
