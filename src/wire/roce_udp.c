/* Datagrams of RoCEv2 from the pieces of packet.c. */
#include "wire/roce_udp.h"

#include "base/crc.h"
#include "wire/header.h"
#include "wire/icrc.h"

/* The checksum of the IP header is the kernel's, and outside the ICRC. */
static void set_flow(uint8_t *frame, uint16_t sport, uint16_t ip_id)
{
	bool is_ipv4 = wire_get(frame, IPV4_VERSION) == 4;

	wire_put(frame + (is_ipv4 ? IPV4_BYTES : IPV6_BYTES), sport, UDP_SPORT);
	if (is_ipv4)
		wire_put(frame, ip_id, IPV4_IDENTIFICATION);
}

void roce_udp_build(const struct packet *p, const struct iovec *payload, unsigned payload_iovs, uint16_t sport, uint16_t ip_id,
		    struct roce_udp *out)
{
	unsigned pad = -p->payload_bytes & 3;
	uint32_t icrc;

	out->kernel_bytes = (p->path.is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
	out->header_bytes = (uint8_t)packet_build_header(p, out->header);
	out->trailer_bytes = (uint8_t)(pad + ICRC_BYTES);
	memcpy(out->trailer, p->resv.pad, pad);
	set_flow(out->header, sport, ip_id);
	icrc = icrc_compute(PACKET_ROCE, out->header, out->header_bytes);
	icrc = crc_ieee_iov(icrc, payload, payload_iovs);
	icrc = htole32(crc_ieee(icrc, out->trailer, pad));
	memcpy(out->trailer + pad, &icrc, ICRC_BYTES);
}

/* The ICRC that the frame has, against the one that it should have: 0 if it holds. */
static uint32_t icrc_difference(const uint8_t *frame, size_t bytes)
{
	uint32_t icrc;

	memcpy(&icrc, frame + bytes - ICRC_BYTES, ICRC_BYTES);
	return le32toh(icrc) ^ icrc_compute(PACKET_ROCE, frame, bytes - ICRC_BYTES);
}

enum packet_error roce_udp_frame(struct icrc_id *solver, const struct packet_path *path, uint8_t *bth, size_t bytes,
				 size_t *header_bytes)
{
	size_t header = (path->is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
	uint8_t *frame = bth - header;
	struct packet_path whole = *path;
	uint32_t difference;
	uint16_t besides;		/* of the identification: what the guess lacks, as a CRC is linear */

	if (bytes < ROCE_UDP_LEAST)
		return PACKET_SHORT;
	if (bytes > ROCE_UDP_MOST)
		return PACKET_BAD_LENGTH;
	packet_build_path(&whole, frame, header + bytes);
	difference = icrc_difference(frame, header + bytes);
	*header_bytes = header;
	if (!difference)
		return PACKET_OK;
	if (!path->is_ipv4 || !icrc_id_solve(solver, header + bytes - ICRC_BYTES - IPV4_ID, difference, &besides))
		return PACKET_BAD_ICRC;
	whole.ip_id ^= besides;
	packet_build_path(&whole, frame, header + bytes);
	return PACKET_OK;
}

bool roce_udp_repath(uint8_t *frame, size_t bytes, uint16_t sport, uint16_t ip_id)
{
	bool is_ipv4 = bytes && wire_get(frame, IPV4_VERSION) == 4;
	size_t ip = is_ipv4 ? IPV4_BYTES : IPV6_BYTES;
	uint32_t difference, icrc;

	if (bytes < ip + UDP_BYTES + ROCE_UDP_LEAST)
		return false;
	difference = icrc_difference(frame, bytes);
	set_flow(frame, sport, ip_id);
	icrc = htole32(icrc_compute(PACKET_ROCE, frame, bytes - ICRC_BYTES) ^ difference);
	memcpy(frame + bytes - ICRC_BYTES, &icrc, ICRC_BYTES);
	return true;
}
