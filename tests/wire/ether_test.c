/* The fields of Ethernet frames: of good ones by table, of ones cut short byte by byte; and frames as packets. */
#include "wire/ether.h"
#include "wire/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define MACS 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2
#define MAC_FIELDS .dst_mac = { 2, 0, 0, 0, 0, 1 }, .src_mac = { 2, 0, 0, 0, 0, 2 }
#define IPV4(ihl, flags, offset, protocol) \
	0x40 | (ihl), 0x10, 0, 32, 0, 7, (flags) << 5, (offset), 64, (protocol), 0, 0, 10, 0, 0, 2, 10, 0, 0, 3
#define IPV4_FIELDS(flags, proto) .src_ip = { 10, 0, 0, 2 }, .dst_ip = { 10, 0, 0, 3 }, .protocol = (proto), \
	.tos = 0x10, .ttl = 64, .ip_flags = (flags), .type = { 8, 0 }
#define IPV6(next) 0x61, 0x23, 0x45, 0x67, 0, 20, (next), 9, \
	0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3
#define IPV6_FIELDS(next) .src_ip = { 0x20, 1, [15] = 2 }, .dst_ip = { 0x20, 1, [15] = 3 }, .protocol = (next), \
	.tos = 0x12, .ttl = 9, .flow_label = { 0, 3, 0x45, 0x67 }, .type = { 0x86, 0xdd }
#define PORTS 0, 7, 1, 9
#define PORT_FIELDS .src_port = { 0, 7 }, .dst_port = { 1, 9 }

static const struct {
	const char *what;
	uint8_t frame[96];
	size_t bytes;
	struct ether e;
} table[] = {
#define FRAME(...) { __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })
	{ "ARP", FRAME(MACS, 8, 6, 0, 1, 8, 0), { MAC_FIELDS, .type = { 8, 6 } } },
	{ "nothing behind the header", FRAME(MACS, 8, 0), { MAC_FIELDS, .type = { 8, 0 } } },
	{ "UDP on IPv4", FRAME(MACS, 8, 0, IPV4(5, 2, 0, 17), PORTS),
	  { .headers = ETHER_HAS_IPV4 | ETHER_HAS_UDP, MAC_FIELDS, IPV4_FIELDS(2, 17), PORT_FIELDS } },
	{ "TCP behind IPv4 options", FRAME(MACS, 8, 0, IPV4(6, 0, 0, 6), 1, 1, 1, 1, PORTS),
	  { .headers = ETHER_HAS_IPV4 | ETHER_HAS_TCP, MAC_FIELDS, IPV4_FIELDS(0, 6), PORT_FIELDS } },
	{ "ICMP has no ports", FRAME(MACS, 8, 0, IPV4(5, 0, 0, 1), PORTS),
	  { .headers = ETHER_HAS_IPV4, MAC_FIELDS, IPV4_FIELDS(0, 1) } },
	{ "first fragment", FRAME(MACS, 8, 0, IPV4(5, 1, 0, 17), PORTS),
	  { .headers = ETHER_HAS_IPV4 | ETHER_HAS_UDP, MAC_FIELDS, IPV4_FIELDS(4, 17), PORT_FIELDS } },
	{ "later fragment", FRAME(MACS, 8, 0, IPV4(5, 0, 3, 17), PORTS),
	  { .headers = ETHER_HAS_IPV4, MAC_FIELDS, IPV4_FIELDS(0, 17) } },
	{ "IPv4 header shorter than itself", FRAME(MACS, 8, 0, IPV4(4, 0, 0, 17), PORTS), { MAC_FIELDS, .type = { 8, 0 } } },
	{ "IPv4 header longer than the frame", FRAME(MACS, 8, 0, IPV4(15, 0, 0, 17), PORTS), { MAC_FIELDS, .type = { 8, 0 } } },
	{ "IPv6 where IPv4 is said", FRAME(MACS, 8, 0, IPV6(17), PORTS), { MAC_FIELDS, .type = { 8, 0 } } },
	{ "TCP on IPv6", FRAME(MACS, 0x86, 0xdd, IPV6(6), PORTS),
	  { .headers = ETHER_HAS_IPV6 | ETHER_HAS_TCP, MAC_FIELDS, IPV6_FIELDS(6), PORT_FIELDS } },
	{ "IPv6 extension header", FRAME(MACS, 0x86, 0xdd, IPV6(43), PORTS),
	  { .headers = ETHER_HAS_IPV6, MAC_FIELDS, IPV6_FIELDS(43) } },
	{ "tagged", FRAME(MACS, 0x81, 0, 0xb0, 5, 8, 0, IPV4(5, 0, 0, 17), PORTS),
	  { .headers = ETHER_HAS_TAG | ETHER_HAS_IPV4 | ETHER_HAS_UDP, MAC_FIELDS, .tag = { 0xb0, 5 },
	    IPV4_FIELDS(0, 17), PORT_FIELDS } },
	{ "tagged twice", FRAME(MACS, 0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x86, 0xdd, IPV6(17), PORTS),
	  { .headers = ETHER_HAS_TAG | ETHER_HAS_IPV6 | ETHER_HAS_UDP, MAC_FIELDS, .tag = { 0, 2 },
	    IPV6_FIELDS(17), PORT_FIELDS } },
	{ "a third tag is payload", FRAME(MACS, 0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0),
	  { .headers = ETHER_HAS_TAG, MAC_FIELDS, .tag = { 0, 2 }, .type = { 0x81, 0 } } },
	{ "no room for the tag", FRAME(MACS, 0x81, 0, 0, 1), { MAC_FIELDS, .type = { 0x81, 0 } } },
};

static void fields(void **state)
{
	for (unsigned i = 0; i < COUNT(table); i++) {
		struct ether e;

		assert_true(ether_parse(&e, table[i].frame, table[i].bytes));
		if (memcmp(&e, &table[i].e, sizeof(e)))
			fail_msg("%s: other fields, headers %#x", table[i].what, e.headers);
	}
}

/* A header counts when all of it is there, and what stands before it does not change with what is cut off. */
static void cut_short(void **state)
{
	for (unsigned i = 0; i < COUNT(table); i++)
		for (size_t bytes = 0; bytes < table[i].bytes; bytes++) {
			uint8_t *exact = malloc(bytes ? bytes : 1);
			struct ether e;

			memcpy(exact, table[i].frame, bytes);
			assert_int_equal(ether_parse(&e, exact, bytes), bytes >= ETHER_BYTES);
			assert_int_equal(e.headers & ~table[i].e.headers, 0);
			if (bytes >= ETHER_BYTES)
				assert_memory_equal(e.dst_mac, table[i].e.dst_mac, sizeof(e.dst_mac));
			free(exact);
		}
}

static void masks(void **state)
{
	struct ether e = table[2].e, value = { .dst_ip = { 10, 0, 0, 9 } }, mask = { .dst_ip = { 0xff, 0xff, 0xff } };

	assert_true(ether_matches(&e, &value, &mask));
	mask.dst_ip[3] = 0xf0;
	assert_true(ether_matches(&e, &value, &mask));
	mask.dst_ip[3] = 0x02;
	assert_false(ether_matches(&e, &value, &mask));
	memset(&mask, 0xff, sizeof(mask));
	assert_true(ether_matches(&e, &e, &mask));
	value = e;
	value.dst_port[1] ^= 1;
	assert_false(ether_matches(&e, &value, &mask));
}

static void frame_is_packet(void **state)
{
	uint8_t frame[PACKET_MAX_ETHERNET + 1] = { MACS, 8, 6 }, again[PACKET_MAX_ETHERNET];
	const struct iovec pieces[] = { { frame, 5 }, { frame + 5, 0 }, { frame + 5, 95 } };
	struct packet p;
	char text[80];

	assert_int_equal(packet_parse(&p, PACKET_ETHERNET, frame, ETHER_BYTES - 1, true), PACKET_SHORT);
	assert_int_equal(packet_parse(&p, PACKET_ETHERNET, frame, PACKET_MAX_ETHERNET + 1, true), PACKET_BAD_LENGTH);
	assert_int_equal(packet_parse(&p, PACKET_ETHERNET, frame, PACKET_MAX_ETHERNET, true), PACKET_OK);
	assert_int_equal(packet_bytes(&p), PACKET_MAX_ETHERNET);
	assert_int_equal(packet_header_bytes(&p), 0);
	assert_int_equal(packet_build(&p, again, sizeof(again)), PACKET_MAX_ETHERNET);
	assert_memory_equal(again, frame, sizeof(again));
	p.payload = pieces;
	p.payload_iovs = COUNT(pieces);
	p.payload_bytes = 100;
	assert_int_equal(packet_build(&p, again, sizeof(again)), 100);
	assert_memory_equal(again, frame, 100);
	packet_dump(&p, text, sizeof(text));
	assert_int_equal(strncmp(text, "ETHERNET payload 100 crc 0x", 27), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields), cmocka_unit_test(cut_short), cmocka_unit_test(masks), cmocka_unit_test(frame_is_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
