/* Does a program take connections yet? By TCP, as /proc says of its sockets; or by the connection manager, as weftd says. */
#ifndef WEFT_CLI_LISTENING_H
#define WEFT_CLI_LISTENING_H

#include "cli/daemon.h"

/* "tcp" when a descendant of this process has a listening TCP socket, "rdma_cm" when a process of the network in d has a
 * listener of the connection manager, NULL: neither. */
const char *listening_how(const struct rundir *d);

#endif
