/* The fields of an Ethernet frame that a steering rule may name. Each has its own bytes, as they are on the wire, so that a
 * rule is a value and a mask over the whole struct: ether_matches. IEEE 802.3 and 802.1Q, RFC 791, RFC 8200. */
#ifndef WEFT_WIRE_ETHER_H
#define WEFT_WIRE_ETHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ETHER_BYTES = 14, ETHER_TAG_BYTES = 4, ETHER_TAGS = 2 };

enum ether_header {
	ETHER_HAS_TAG = 1 << 0, ETHER_HAS_IPV4 = 1 << 1, ETHER_HAS_IPV6 = 1 << 2, ETHER_HAS_TCP = 1 << 3, ETHER_HAS_UDP = 1 << 4,
};

/* Zero where the frame has no such header. */
struct ether {
	uint8_t headers;		/* enum ether_header: those that are there whole */
	uint8_t dst_mac[6], src_mac[6];
	uint8_t type[2];		/* of what follows the last tag */
	uint8_t tag[2];			/* the last one: priority, DEI and VLAN */
	uint8_t src_ip[16], dst_ip[16];	/* IPv4: the first 4 bytes */
	uint8_t flow_label[4];
	uint8_t protocol;		/* IPv6: the next header */
	uint8_t tos;			/* IPv6: traffic class */
	uint8_t ttl;			/* IPv6: hop limit */
	uint8_t ip_flags;		/* enum ether_ip_flag */
	uint8_t src_port[2], dst_port[2];	/* TCP or UDP right behind the IP header, not of a later fragment */
};

/* As steering rules spell them: enum ib_ipv4_flags in Linux' ib_verbs.h. */
enum ether_ip_flag { ETHER_IP_DONT_FRAGMENT = 2, ETHER_IP_MORE_FRAGMENTS = 4 };

/* False: shorter than its header. Headers that are cut off or malformed count as payload. */
bool ether_parse(struct ether *e, const void *frame, size_t bytes);

bool ether_matches(const struct ether *e, const struct ether *value, const struct ether *mask);

#endif
