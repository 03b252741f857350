/* Any bytes as a frame: packet_parse stays inside them, and build(parse(x)) == x for whatever it accepts. The first byte
 * chooses: bit 0 the wire form, bit 1 puts the IPv4 header checksum right, which chance would hardly hit. */
#include "fuzz.h"

#include "wire/header.h"
#include "wire/packet.h"

static void repair_checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	ip[10] = ip[11] = 0;
	for (unsigned i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	wire_put(ip, (uint16_t)~sum, IPV4_CHECKSUM);
}

static void check_accepted(const struct packet *p, enum packet_form form, const uint8_t *frame, size_t bytes)
{
	uint8_t again[PACKET_MAX_BYTES];
	struct packet q;
	char text[300];

	REQUIRE(packet_bytes(p) == bytes && bytes <= PACKET_MAX_BYTES);
	REQUIRE(packet_header_bytes(p) <= PACKET_MAX_HEADER);
	REQUIRE(packet_build(p, again, sizeof(again)) == bytes);
	REQUIRE(!memcmp(again, frame, bytes - ICRC_BYTES));
	REQUIRE(packet_parse(&q, form, again, bytes, true) == PACKET_OK);
	if (packet_parse(&q, form, frame, bytes, true) == PACKET_OK)
		REQUIRE(!memcmp(again, frame, bytes));
	REQUIRE(packet_dump(p, text, sizeof(text)) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum packet_form form;
	struct packet p;
	uint8_t *frame;
	size_t bytes;

	if (!size)
		return 0;
	form = data[0] & 1 ? PACKET_IB : PACKET_ROCE;
	bytes = size - 1;
	frame = malloc(bytes ? bytes : 1);	/* its own allocation, so that a byte too many is seen */
	REQUIRE(frame);
	memcpy(frame, data + 1, bytes);
	if (form == PACKET_ROCE && (data[0] & 2) && bytes >= IPV4_BYTES && frame[0] == 0x45)
		repair_checksum(frame);
	if (packet_parse(&p, form, frame, bytes, false) == PACKET_OK)
		check_accepted(&p, form, frame, bytes);
	free(frame);
	return 0;
}
