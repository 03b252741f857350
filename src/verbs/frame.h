/* Where the headers of an Ethernet frame are. */
#ifndef WEFT_VERBS_FRAME_H
#define WEFT_VERBS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_VLAN = 0x8100, FRAME_IPV4 = 0x0800, FRAME_IPV6 = 0x86dd,	/* EtherTypes */
	FRAME_TCP = 6, FRAME_UDP = 17,					/* IP protocols */
};

struct frame {
	const uint8_t *data;		/* borrowed */
	size_t bytes;
	uint16_t ether_type, vlan;	/* host order; of a tagged frame the inner type */
	size_t network, transport;	/* offsets of the IP header and of the ports; 0: there is none */
	uint8_t protocol;
};

/* False: too short for an Ethernet header. */
bool frame_read(struct frame *f, const void *data, size_t bytes);

#endif
