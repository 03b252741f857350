/* Any bytes as an Ethernet frame: the parser stays inside them, says of no header that is not there, and the frame matches
 * itself; as a packet it is rebuilt to the same bytes. */
#include "fuzz.h"

#include "wire/ether.h"
#include "wire/packet.h"

#include <string.h>

static bool is_zero(const uint8_t *at, size_t bytes)
{
	while (bytes && !at[bytes - 1])
		bytes--;
	return bytes == 0;
}

static void check_fields(const struct ether *e)
{
	const uint8_t ip = ETHER_HAS_IPV4 | ETHER_HAS_IPV6, ports = ETHER_HAS_TCP | ETHER_HAS_UDP;
	struct ether all;

	memset(&all, 0xff, sizeof(all));
	REQUIRE(ether_matches(e, e, &all));
	REQUIRE((e->headers & ip) != ip && (e->headers & ports) != ports);
	REQUIRE(!(e->headers & ports) || e->headers & ip);
	REQUIRE(e->headers & ETHER_HAS_TAG || is_zero(e->tag, sizeof(e->tag)));
	REQUIRE(e->headers & ip || (is_zero(e->src_ip, 16) && is_zero(e->dst_ip, 16) && !e->protocol));
	REQUIRE(e->headers & ports || (is_zero(e->src_port, 2) && is_zero(e->dst_port, 2)));
}

static void check_packet(const uint8_t *frame, size_t bytes)
{
	uint8_t again[PACKET_MAX_ETHERNET];
	struct packet p;

	if (packet_parse(&p, PACKET_ETHERNET, frame, bytes, true) != PACKET_OK)
		return;
	REQUIRE(packet_bytes(&p) == bytes);
	REQUIRE(packet_build(&p, again, sizeof(again)) == bytes && !memcmp(again, frame, bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *frame = malloc(size ? size : 1);	/* its own allocation, so that a byte too many is seen */
	struct ether e;

	REQUIRE(frame);
	memcpy(frame, data, size);
	REQUIRE(ether_parse(&e, frame, size) == (size >= ETHER_BYTES));
	check_fields(&e);
	check_packet(frame, size);
	free(frame);
	return 0;
}
