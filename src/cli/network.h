/* The devices of the network that a command is about: those that --devices chooses when weftd is started, and those of one that
 * runs. */
#ifndef WEFT_CLI_NETWORK_H
#define WEFT_CLI_NETWORK_H

#include "cli/cli.h"
#include "control/devices.h"
#include "weftd/rundir.h"

#include <jansson.h>

/* Is the list of --devices, or of the environment, right? It is in the environment from now on. EXIT_OK, or EXIT_USAGE with a
 * message. */
int network_choose(const struct cli_options *o);

/* The names of the devices: of the list, without one of the network that runs, without that of one that would be started. Where
 * programs are to be at a host, those follow that its further adapters would have. */
void network_names(const struct cli_options *o, struct control_table *t);

/* Does the network that this status is of have the devices of the list? True without one. */
bool network_fits(const json_t *status);

#endif
