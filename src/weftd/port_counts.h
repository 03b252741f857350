/* The files of ports/1/counters in the trees of device files: what the port's performance management agent has, written when
 * somebody is about to read them. */
#ifndef WEFT_WEFTD_PORT_COUNTS_H
#define WEFT_WEFTD_PORT_COUNTS_H

#include "agents/agents.h"
#include "weftd/rundir.h"

/* Into the port's tree of all devices (which = 0) or of device which - 1 alone, which is there. 0 or -errno. */
int port_counts_write(const struct rundir *dir, const struct agents *a, uint32_t port, uint32_t which);

#endif
