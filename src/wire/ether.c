/* Every length is checked before what it promises is read. */
#include "wire/ether.h"

#include "wire/header.h"

enum {
	TYPE_CTAG = 0x8100, TYPE_STAG = 0x88a8,		/* 802.1Q, 9.6 */
	TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd,		/* RFC 9542 */
	PROTOCOL_TCP = 6,
	PORTS_BYTES = 4,		/* RFC 768, RFC 9293: source and destination port */
	IPV4_MF = 0x2000, IPV4_OFFSET = 0x1fff,
};

#define MAC_TYPE	12, 0, 16	/* also with `at` moved on by the tags */
#define IPV4_TOS	1, 0, 8
#define IPV4_TTL	8, 0, 8
#define IPV6_CLASS	0, 4, 8
#define IPV6_LABEL	0, 12, 20
#define IPV6_HOPS	7, 0, 8

static void parse_ports(struct ether *e, const uint8_t *at, size_t bytes)
{
	if ((e->protocol != PROTOCOL_TCP && e->protocol != PROTOCOL_UDP) || bytes < PORTS_BYTES)
		return;
	e->headers |= e->protocol == PROTOCOL_TCP ? ETHER_HAS_TCP : ETHER_HAS_UDP;
	memcpy(e->src_port, at, 2);
	memcpy(e->dst_port, at + 2, 2);
}

static void parse_ipv4(struct ether *e, const uint8_t *at, size_t bytes)
{
	uint64_t fragment;
	size_t header;

	if (bytes < IPV4_BYTES || wire_get(at, IPV4_VERSION) != 4)
		return;
	header = 4 * wire_get(at, IPV4_IHL);
	if (header < IPV4_BYTES || header > bytes)
		return;
	fragment = wire_get(at, IPV4_FRAGMENT);
	e->headers |= ETHER_HAS_IPV4;
	e->protocol = wire_get(at, IPV4_PROTOCOL);
	e->tos = wire_get(at, IPV4_TOS);
	e->ttl = wire_get(at, IPV4_TTL);
	e->ip_flags = (fragment & IPV4_DF ? ETHER_IP_DONT_FRAGMENT : 0) | (fragment & IPV4_MF ? ETHER_IP_MORE_FRAGMENTS : 0);
	memcpy(e->src_ip, at + IPV4_SOURCE, 4);
	memcpy(e->dst_ip, at + IPV4_DESTINATION, 4);
	if (!(fragment & IPV4_OFFSET))
		parse_ports(e, at + header, bytes - header);
}

static void parse_ipv6(struct ether *e, const uint8_t *at, size_t bytes)
{
	uint32_t label;

	if (bytes < IPV6_BYTES || wire_get(at, IPV6_VERSION) != 6)
		return;
	label = htobe32((uint32_t)wire_get(at, IPV6_LABEL));
	e->headers |= ETHER_HAS_IPV6;
	e->protocol = wire_get(at, IPV6_NEXT);
	e->tos = wire_get(at, IPV6_CLASS);
	e->ttl = wire_get(at, IPV6_HOPS);
	memcpy(e->flow_label, &label, sizeof(label));
	memcpy(e->src_ip, at + IPV6_SOURCE, 16);
	memcpy(e->dst_ip, at + IPV6_DESTINATION, 16);
	parse_ports(e, at + IPV6_BYTES, bytes - IPV6_BYTES);
}

static bool is_tag(uint64_t type)
{
	return type == TYPE_CTAG || type == TYPE_STAG;
}

bool ether_parse(struct ether *e, const void *frame, size_t bytes)
{
	const uint8_t *at = frame;
	uint64_t type;

	*e = (struct ether){ .headers = 0 };
	if (bytes < ETHER_BYTES)
		return false;
	memcpy(e->dst_mac, at, 6);
	memcpy(e->src_mac, at + 6, 6);
	type = wire_get(at, MAC_TYPE);
	for (unsigned i = 0; i < ETHER_TAGS && is_tag(type) && bytes >= ETHER_BYTES + ETHER_TAG_BYTES; i++) {
		e->headers |= ETHER_HAS_TAG;
		memcpy(e->tag, at + ETHER_BYTES, 2);
		at += ETHER_TAG_BYTES;
		bytes -= ETHER_TAG_BYTES;
		type = wire_get(at, MAC_TYPE);
	}
	memcpy(e->type, at + ETHER_BYTES - 2, 2);
	if (type == TYPE_IPV4)
		parse_ipv4(e, at + ETHER_BYTES, bytes - ETHER_BYTES);
	else if (type == TYPE_IPV6)
		parse_ipv6(e, at + ETHER_BYTES, bytes - ETHER_BYTES);
	return true;
}

_Static_assert(_Alignof(struct ether) == 1, "no padding: the bytes of the struct are its fields");

bool ether_matches(const struct ether *e, const struct ether *value, const struct ether *mask)
{
	const uint8_t *have = (const uint8_t *)e, *want = (const uint8_t *)value, *care = (const uint8_t *)mask;
	unsigned differs = 0;

	for (size_t i = 0; i < sizeof(*e); i++)
		differs |= (have[i] ^ want[i]) & care[i];
	return !differs;
}
