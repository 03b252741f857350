/* Ethernet II with at most one VLAN tag, IPv4 with options, IPv6 without extension headers. */
#include "verbs/frame.h"

enum { ETH_BYTES = 14, VLAN_BYTES = 4, IPV4_LEAST = 20, IPV6_BYTES = 40, PORTS_BYTES = 4 };

static uint16_t be16_at(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void find_transport(struct frame *f)
{
	const uint8_t *ip = f->data + f->network;
	size_t room = f->bytes - f->network, header;

	if (f->ether_type == FRAME_IPV4 && room >= IPV4_LEAST) {
		header = (size_t)(ip[0] & 0xf) * 4;
		f->protocol = ip[9];
	} else if (f->ether_type == FRAME_IPV6 && room >= IPV6_BYTES) {
		header = IPV6_BYTES;
		f->protocol = ip[6];
	} else {
		f->network = 0;
		return;
	}
	if (header + PORTS_BYTES <= room)
		f->transport = f->network + header;
}

bool frame_read(struct frame *f, const void *frame, size_t bytes)
{
	const uint8_t *data = frame;
	size_t at = ETH_BYTES;

	*f = (struct frame){ .data = data, .bytes = bytes };
	if (bytes < ETH_BYTES)
		return false;
	f->ether_type = be16_at(data + 12);
	if (f->ether_type == FRAME_VLAN && bytes >= ETH_BYTES + VLAN_BYTES) {
		f->vlan = be16_at(data + 14);
		f->ether_type = be16_at(data + 16);
		at += VLAN_BYTES;
	}
	f->network = at;
	find_transport(f);
	return true;
}
