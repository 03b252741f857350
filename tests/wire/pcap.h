/* Reads the classic pcap files of tests/wire/captures: Ethernet frames, either byte order. */
#ifndef WEFT_TESTS_WIRE_PCAP_H
#define WEFT_TESTS_WIRE_PCAP_H

#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pcap {
	uint8_t *data;		/* owned */
	size_t bytes, at;
};

enum { PCAP_HEADER = 24, PCAP_RECORD = 16, ETHERNET_BYTES = 14 };

static inline int pcap_open(struct pcap *p, const char *path)
{
	FILE *f = fopen(path, "rb");

	*p = (struct pcap){ 0 };
	if (!f)
		return -1;
	fseek(f, 0, SEEK_END);
	p->bytes = (size_t)ftell(f);
	rewind(f);
	p->data = malloc(p->bytes);
	if (!p->data || fread(p->data, 1, p->bytes, f) != p->bytes)
		p->bytes = 0;
	fclose(f);
	p->at = PCAP_HEADER;
	return p->bytes > PCAP_HEADER ? 0 : -1;
}

static inline void pcap_close(struct pcap *p)
{
	free(p->data);
}

/* The next frame that is IP with UDP to port 4791, cut to its IP length, or NULL at the end. */
static inline const uint8_t *pcap_next_roce(struct pcap *p, size_t *bytes)
{
	while (p->at + PCAP_RECORD <= p->bytes) {
		const uint8_t *ip = p->data + p->at + PCAP_RECORD + ETHERNET_BYTES;
		uint32_t magic, caught;
		size_t header, length;

		memcpy(&magic, p->data, 4);
		memcpy(&caught, p->data + p->at + 8, 4);
		if (magic != 0xa1b2c3d4 && magic != 0xa1b23c4d)
			caught = __builtin_bswap32(caught);
		if (caught > p->bytes - p->at - PCAP_RECORD)
			return NULL;
		p->at += PCAP_RECORD + caught;
		if (caught < ETHERNET_BYTES + 40 + 8)
			continue;
		if (ip[-2] == 0x08 && ip[-1] == 0x00 && ip[9] == 17) {
			header = 4u * (ip[0] & 15);
			length = (size_t)(ip[2] << 8 | ip[3]);
		} else if (ip[-2] == 0x86 && ip[-1] == 0xdd && ip[6] == 17) {
			header = 40;
			length = header + (size_t)(ip[4] << 8 | ip[5]);
		} else {
			continue;
		}
		if ((ip[header + 2] << 8 | ip[header + 3]) != 4791 || length > caught - ETHERNET_BYTES)
			continue;
		*bytes = length;
		return ip;
	}
	return NULL;
}

#endif
