/* Which port a caller of libibumad means. */
#ifndef WEFT_ABI_UMAD_UMAD_SYSFS_H
#define WEFT_ABI_UMAD_UMAD_SYSFS_H

#include "abi/umad/umad_abi.h"

#include <endian.h>

/* Which of a port's interfaces for management datagrams is meant: any port has a GSI. */
enum umad_interface { UMAD_GSI, UMAD_SMI };

/* PortInfo.CapabilityMask, IsSMdisabled (IBA vol. 1, 14.2.5.6): the SMI of such a port is another device's. */
static inline bool umad_has_smi(be32 capabilities)
{
	return !(be32toh(capabilities) & 1u << 10);
}

/* ca_name NULL: the first device with such a port; number 0: its best port with that interface. Its number and name; -ENODEV: no
 * such device, -EINVAL: port. */
int umad_resolve(const char *ca_name, int number, enum umad_interface interface, char name[UMAD_NAME]);

#endif
