/* Processes that weft impair cuts off are named by PID; frames have other numbers. */
#ifndef WEFT_CLI_PARTITION_H
#define WEFT_CLI_PARTITION_H

#include "cli/cli.h"

#include <stddef.h>

/* The faults, with slot: and process: in place of each pid: of partition=. An exit status. */
int partition_resolve(const struct cli_options *o, const char *faults, char *to, size_t room);

#endif
