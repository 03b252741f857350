/* Partitions of a fabric that is loaded, from a file like OpenSM's partitions.conf. */
#ifndef WEFT_CLI_PARTITIONS_H
#define WEFT_CLI_PARTITIONS_H

#include "fabric/fabric.h"

/* Gives each end port the P_Keys of the partitions that it is a member of; weft's manager keeps to them. self: its port. An exit
 * status; what went wrong is told. */
int partitions_apply(struct fabric *f, const char *path, uint32_t self);

#endif
