/* The code of an MTU: 1 is 256 bytes, 5 is 4096. IBA 14.2.5.6, PortInfo.NeighborMTU; enum ibv_mtu. */
#ifndef WEFT_WIRE_MTU_H
#define WEFT_WIRE_MTU_H

#include <stdint.h>

enum { MTU_LEAST_BYTES = 256 };	/* IBA 9.4 */

static inline uint32_t mtu_bytes(unsigned code)
{
	return 128u << code;
}

#endif
