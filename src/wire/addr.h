/* Addresses whose values the specifications fix: the QPN and LIDs of multicast, the LIDs of a port, RoCEv2's source ports,
 * the forms of a GID. */
#ifndef WEFT_WIRE_ADDR_H
#define WEFT_WIRE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	MULTICAST_QPN = 0xffffff,			/* IBA 3.5.3, 9.2.2 */
	UNICAST_LID_LAST = 0xbfff,			/* IBA 4.1.3 */
	MLID_FIRST = 0xc000, MLID_LAST = 0xfffe,	/* IBA 4.1.3 */
	/* A17.9.5: a sender chooses RoCEv2's source port among the dynamic ones; the low bits spread flows */
	ROCE_SPORT_BASE = 0xc000, ROCE_SPORT_FLOWS = 0x3fff,
};

/* Is it one of the 2^lmc LIDs of a port, from its base LID on (IBA 4.1.3)? base 0: the port has none. */
static inline bool lid_is_of(uint32_t lid, uint32_t base, unsigned lmc)
{
	return base && lid - base < 1u << lmc;
}

static const uint8_t gid_ipv4_prefix[12] = { [10] = 0xff, [11] = 0xff };	/* RFC 4291, 2.5.5.2; A17.4.5.2 */

/* address: 4 bytes in network order. */
static inline void gid_from_ipv4(uint8_t gid[16], const void *address)
{
	memcpy(gid, gid_ipv4_prefix, sizeof(gid_ipv4_prefix));
	memcpy(gid + sizeof(gid_ipv4_prefix), address, 4);
}

static inline bool gid_is_ipv4(const uint8_t gid[16])
{
	return memcmp(gid, gid_ipv4_prefix, sizeof(gid_ipv4_prefix)) == 0;
}

/* FFxx::, IBA 4.1.1. */
static inline bool gid_is_multicast(const uint8_t gid[16])
{
	return gid[0] == 0xff;
}

/* RoCEv2's second form of a multicast GID: an IPv4 group (RFC 5771, 224.0.0.0/4). */
static inline bool gid_is_ipv4_multicast(const uint8_t gid[16])
{
	return gid_is_ipv4(gid) && gid[12] >> 4 == 0xe;
}

#endif
