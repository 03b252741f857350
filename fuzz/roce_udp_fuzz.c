/* Any bytes as a datagram of port 4791: roce_udp_frame writes nothing but the headers in front, and what it accepts is a frame
 * whose ICRC holds and that, if it parses, is built to the same bytes. The first byte chooses: bit 0 IPv6, bit 1 puts the ICRC
 * right, which chance would hardly hit, for an identification that follows; then the UDP source port and the addresses. */
#include "fuzz.h"

#include "wire/header.h"
#include "wire/icrc.h"
#include "wire/roce_udp.h"

static struct packet_path take_path(struct input *in, bool is_ipv4)
{
	struct packet_path path = { .has_grh = true, .is_ipv4 = is_ipv4, .hop_limit = 64 };

	path.ip_id = (uint16_t)take(in, 2);
	path.udp_sport = (uint16_t)take(in, 2);
	for (unsigned i = is_ipv4 ? 12 : 0; i < 16; i++) {
		path.sgid[i] = take_byte(in);
		path.dgid[i] = take_byte(in);
	}
	if (is_ipv4)
		path.sgid[10] = path.sgid[11] = path.dgid[10] = path.dgid[11] = 0xff;
	return path;
}

static void repair_icrc(const struct packet_path *path, uint8_t *bth, size_t bytes)
{
	size_t header = (path->is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + UDP_BYTES;
	uint32_t icrc;

	if (bytes < ROCE_UDP_LEAST || bytes > ROCE_UDP_MOST)
		return;
	packet_build_path(path, bth - header, header + bytes);
	icrc = htole32(icrc_compute(PACKET_ROCE, bth - header, header + bytes - ICRC_BYTES));
	memcpy(bth + bytes - ICRC_BYTES, &icrc, ICRC_BYTES);
}

static void check_built(const struct packet *p, const uint8_t *frame, size_t bytes)
{
	uint8_t again[PACKET_MAX_BYTES];
	struct roce_udp d;
	size_t at;

	roce_udp_build(p, p->payload, p->payload_iovs, p->path.udp_sport, p->path.ip_id, &d);
	memcpy(again, d.header, d.header_bytes);
	at = d.header_bytes;
	memcpy(again + at, p->payload->iov_base, p->payload_bytes);
	at += p->payload_bytes;
	memcpy(again + at, d.trailer, d.trailer_bytes);
	REQUIRE(at + d.trailer_bytes == bytes && roce_udp_bytes(&d, p) + d.kernel_bytes == bytes);
	REQUIRE(!memcmp(again, frame, bytes));
}

static void try_datagram(const struct packet_path *path, uint8_t *bth, size_t bytes, bool is_repaired)
{
	struct icrc_id solver;
	enum packet_error error;
	size_t header = 0;
	struct packet p;

	icrc_id_init(&solver);
	if (is_repaired)
		repair_icrc(path, bth, bytes);
	error = roce_udp_frame(&solver, path, bth, bytes, &header);
	REQUIRE(error == PACKET_OK || error == PACKET_SHORT || error == PACKET_BAD_LENGTH || error == PACKET_BAD_ICRC);
	REQUIRE(!is_repaired || error != PACKET_BAD_ICRC);
	if (error)
		return;
	error = packet_parse(&p, PACKET_ROCE, bth - header, header + bytes, true);
	REQUIRE(error != PACKET_BAD_ICRC && error != PACKET_BAD_FORM);
	if (error)
		return;
	REQUIRE(!is_repaired || p.path.ip_id == (path->is_ipv4 ? path->ip_id : 0));
	check_built(&p, bth - header, header + bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t choice = take_byte(&in);
	struct packet_path path = take_path(&in, !(choice & 1));
	size_t bytes = (size_t)(in.end - in.at);
	uint8_t *line = malloc(ROCE_UDP_HEADERS + bytes);	/* its own allocation, so that a byte too many is seen */

	REQUIRE(line);
	if (bytes)
		memcpy(line + ROCE_UDP_HEADERS, in.at, bytes);
	try_datagram(&path, line + ROCE_UDP_HEADERS, bytes, choice & 2);
	free(line);
	return 0;
}
