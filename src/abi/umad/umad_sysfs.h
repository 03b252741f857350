/* Which port a caller of libibumad means. */
#ifndef WEFT_ABI_UMAD_UMAD_SYSFS_H
#define WEFT_ABI_UMAD_UMAD_SYSFS_H

#include "abi/umad/umad_abi.h"

/* ca_name NULL: the first device; number 0: its best port. Its number and name; -ENODEV: no such device, -EINVAL: port. */
int umad_resolve(const char *ca_name, int number, char name[UMAD_NAME]);

#endif
