/* Frames as blocks of the pcapng format (draft-ietf-opsawg-pcapng), which tshark and Wireshark read. A RoCEv2 packet gets an
 * Ethernet header, which weft's links have no use for; an InfiniBand packet gets its VCRC, which is a physical link's, and stands
 * in an ERF record, as Wireshark takes no InfiniBand otherwise. A frame is not judged: what was spoilt on its way stays so. Pure;
 * numbers are little-endian on any machine. */
#ifndef WEFT_IMPAIR_PCAPNG_H
#define WEFT_IMPAIR_PCAPNG_H

#include "impair/impair.h"

#include <stddef.h>

/* LINKTYPE_ETHERNET and LINKTYPE_ERF of the registry of tcpdump.org */
enum pcapng_link { PCAPNG_ETHERNET = 1, PCAPNG_ERF = 197 };

enum {
	PCAPNG_TEXT = 64,			/* bytes of a name, NUL included */
	PCAPNG_BLOCK_MOST = PACKET_MAX_BYTES + 128,	/* bytes of the longest block */
};

/* What frames of this form are to be called. */
static inline enum pcapng_link pcapng_link_of(enum packet_form form)
{
	return form == PACKET_IB ? PCAPNG_ERF : PCAPNG_ETHERNET;
}

/* Each writes one block of at most PCAPNG_BLOCK_MOST bytes, and returns its length. */
/* The first block; `writer` names the program. */
size_t pcapng_section(const char *writer, uint8_t *to);
/* Interfaces are numbered from 0, in the order of their blocks. */
size_t pcapng_interface(enum pcapng_link link, const char *name, const char *description, uint8_t *to);
/* A frame of this interface, bytes <= PACKET_MAX_BYTES; `time` counts from 1970. */
size_t pcapng_frame(uint32_t interface, wtime time, enum impair_direction direction, enum packet_form form, const void *frame,
		    uint32_t bytes, uint8_t *to);

#endif
