/* The ICRC is Ethernet's CRC-32 over all that does not change between the end nodes; what may change counts as ones. A packet
 * that routers forward starts with a GRH or an IP header, and the 8 bytes of link header before it count as ones. */
#include "wire/icrc.h"

#include "base/crc.h"
#include "wire/header.h"

/* BTH byte 4 is FECN, BECN and reserved bits (IBA 7.8.1: Resv8a). */
enum { BTH_VARIANT = 4 };

/* A GRH is masked exactly as an IPv6 header: traffic class, flow label, hop limit. */
static void mask_ipv6(uint8_t *h)
{
	h[0] |= 0x0f;
	h[1] = h[2] = h[3] = h[7] = 0xff;
}

static void mask_ipv4(uint8_t *h)
{
	h[1] = h[8] = h[10] = h[11] = 0xff;	/* type of service, time to live, checksum */
}

static size_t copy_masked_ip(uint8_t *to, const uint8_t *frame)
{
	size_t ip = wire_get(frame, IPV4_VERSION) == 4 ? IPV4_BYTES : IPV6_BYTES;

	memcpy(to, frame, ip + UDP_BYTES);
	if (ip == IPV4_BYTES)
		mask_ipv4(to);
	else
		mask_ipv6(to);
	memset(to + ip + 6, 0xff, 2);		/* UDP checksum */
	return ip + UDP_BYTES;
}

uint32_t icrc_compute(enum packet_form form, const void *frame, size_t bytes)
{
	uint8_t masked[LRH_BYTES + GRH_BYTES + UDP_BYTES + BTH_BYTES];
	const uint8_t *in = frame;
	size_t done;			/* bytes of the frame that stand masked in front of the BTH */
	uint8_t *bth;
	uint32_t crc;

	memset(masked, 0xff, LRH_BYTES);
	bth = masked + LRH_BYTES;
	if (form == PACKET_ROCE) {
		done = copy_masked_ip(bth, in);
		bth += done;
	} else if (wire_get(in, LRH_LNH) == LNH_GLOBAL) {
		done = LRH_BYTES + GRH_BYTES;
		memcpy(bth, in + LRH_BYTES, GRH_BYTES);
		mask_ipv6(bth);
		bth += GRH_BYTES;
	} else {
		done = LRH_BYTES;
		memcpy(masked, in, LRH_BYTES);
		masked[0] |= 0xf0;		/* VL */
	}
	memcpy(bth, in + done, BTH_BYTES);
	bth[BTH_VARIANT] = 0xff;
	done += BTH_BYTES;
	crc = crc_ieee(0, masked, (size_t)(bth + BTH_BYTES - masked));
	return crc_ieee(crc, in + done, bytes - done);
}
