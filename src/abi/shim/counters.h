/* Counters of ports are files that weftd writes when somebody is about to read them. */
#ifndef WEFT_ABI_SHIM_COUNTERS_H
#define WEFT_ABI_SHIM_COUNTERS_H

/* A call has this path, of the tree at `root`. Blocks for weftd if it is a counter of a port or of a device. errno stays. */
void counters_refresh(const char *root, const char *path);

#endif
