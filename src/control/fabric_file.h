/* The fabric of a running network: a file that weftd makes and writes, and that all others map read-only. */
#ifndef WEFT_CONTROL_FABRIC_FILE_H
#define WEFT_CONTROL_FABRIC_FILE_H

#include "fabric/fabric.h"

/* Maps the file and judges it; the descriptor stays the caller's. 0; -EINVAL: `why` tells what is wrong with it; -ENOMEM; another
 * -errno. fabric_file_unmap ends it, and does nothing to a fabric of zeros. */
int fabric_file_map(struct fabric *f, int fd, bool is_writer, char *why, size_t room);
void fabric_file_unmap(struct fabric *f);

#endif
