/* Options of weft's subnet manager for a fabric that is loaded, from a file like OpenSM's: NAME VALUE on each line. */
#ifndef WEFT_CLI_MANAGER_OPTIONS_H
#define WEFT_CLI_MANAGER_OPTIONS_H

#include "fabric/fabric.h"

/* Writes them into the fabric's head. An exit status; what went wrong is told. */
int manager_options_apply(struct fabric *f, const char *path);

#endif
