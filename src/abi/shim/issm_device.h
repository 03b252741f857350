/* The issmN devices: who opens one makes the port a subnet manager's until the descriptor is closed. It is a connection with
 * weftd, which libibumad makes; closing it needs nothing of us. */
#ifndef WEFT_ABI_SHIM_ISSM_DEVICE_H
#define WEFT_ABI_SHIM_ISSM_DEVICE_H

#include "path.h"

/* name: the file in which the device's name stands. A descriptor, or -1 and errno. */
int issm_device_open(const struct shim_path *name);

#endif
