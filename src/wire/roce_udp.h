/* RoCEv2 as a UDP socket has it: the bytes from the BTH to the ICRC. The ICRC covers the IP and UDP headers too, which the kernel
 * makes and removes, so whoever sends must know what they will be, and whoever receives makes them again. A17.3.
 *
 * What Linux makes of a datagram of an unconnected socket with IP_PMTUDISC_DO: DF, and an identification of 0; of the segment k
 * of a datagram that UDP_SEGMENT cuts, k. rdma_rxe and adapters send DF and any identification. Without DF nothing is taken:
 * A17.3.1 wants it set. */
#ifndef WEFT_WIRE_ROCE_UDP_H
#define WEFT_WIRE_ROCE_UDP_H

#include "wire/icrc_id.h"
#include "wire/packet.h"

enum {
	ROCE_UDP_HEADERS = 40 + 8,		/* the longest IP and UDP headers */
	ROCE_UDP_LEAST = 12 + 4,		/* a BTH and an ICRC */
	ROCE_UDP_MOST = PACKET_MAX_BYTES - ROCE_UDP_HEADERS,
	ROCE_UDP_TRAILER = 3 + 4,		/* pad and ICRC */
	ROCE_UDP_FLOWS = 4,			/* our choice: a power of two */
};

/* Of how many flows there are between two hosts, for the hashes of switches (A17.9.5), which is this port's? Packets of one keep
 * their order as far as the network does. */
static inline unsigned roce_udp_flow(uint16_t sport)
{
	return (sport ^ sport >> 4 ^ sport >> 8) & (ROCE_UDP_FLOWS - 1);
}

/* A datagram in pieces; its payload, between the two, stays where it is. */
struct roce_udp {
	uint8_t header[PACKET_MAX_HEADER];	/* from the IP header on */
	uint8_t trailer[ROCE_UDP_TRAILER];
	uint8_t kernel_bytes;			/* of the header: what the kernel makes, and a socket is not given */
	uint8_t header_bytes, trailer_bytes;
};

/* A packet of the form PACKET_ROCE, as it leaves by this port with this identification. `payload` is read once: the packet's own
 * pieces, or a copy of them. */
void roce_udp_build(const struct packet *p, const struct iovec *payload, unsigned payload_iovs, uint16_t sport, uint16_t ip_id,
		    struct roce_udp *out);

/* How many bytes the datagram has for the socket. */
static inline size_t roce_udp_bytes(const struct roce_udp *d, const struct packet *p)
{
	return (size_t)d->header_bytes - d->kernel_bytes + p->payload_bytes + d->trailer_bytes;
}

/* A datagram of `bytes` bytes came along this path; its ip_id is a guess, its udp_checksum not known. Writes the IP and UDP
 * headers in front of `bth`, where ROCE_UDP_HEADERS bytes are to be overwritten, and sets *header_bytes: then a whole frame of
 * the form PACKET_ROCE begins there, whose ICRC holds. PACKET_SHORT, PACKET_BAD_LENGTH: no frame is so short or long.
 * PACKET_BAD_ICRC. */
enum packet_error roce_udp_frame(struct icrc_id *solver, const struct packet_path *path, uint8_t *bth, size_t bytes,
				 size_t *header_bytes);

/* The same frame, of `bytes` bytes, as if it went from this port with this identification: what its ICRC is too much or too
 * little, it stays. For frames that were built for another path, or spoilt. False: it is too short to be one. */
bool roce_udp_repath(uint8_t *frame, size_t bytes, uint16_t sport, uint16_t ip_id);

#endif
