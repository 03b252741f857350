/* What the ports of the network carry where no fabric says so (fabric/loads.h), as their counters have it. Ports count from 0 on
 * when a weftd begins. */
#ifndef WEFT_WEFTD_LOADS_H
#define WEFT_WEFTD_LOADS_H

#include "weftd/hub.h"
#include "weftd/sysfs.h"

/* Without the file nothing is counted; logged. */
void loads_open(struct hub *h);
void loads_close(struct hub *h);

/* The counters of this device's port, in the order of weftd/port_counter.def, and of weftd/hw_counter.def. */
void loads_read(const struct hub *h, uint32_t device, uint64_t value[SYSFS_COUNTERS]);
void loads_read_hw(const struct hub *h, uint32_t device, uint64_t value[SYSFS_HW_COUNTERS]);

#endif
