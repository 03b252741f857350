/* Pings between the weftd of two hosts (weft ping): a datagram from QP1 to QP1 that begins with a MAD of a class of vendors (IBA
 * 16.5, the second range, whose OUI says whose it is) and goes on with zeros up to the length that is asked for, so that a path's
 * MTU can be tried. The answer is as long as the question. Who knows neither the class nor the OUI drops it. Pure. */
#ifndef WEFT_MGMT_PING_H
#define WEFT_MGMT_PING_H

#include "wire/mad.h"
#include "wire/packet.h"

enum { PING_LEAST = MAD_BYTES, PING_MOST = PACKET_MAX_PAYLOAD, PING_FRAME = PACKET_MAX_BYTES, PING_VERSION = 32 };

struct ping {
	struct packet_path path;	/* the source is the sender's */
	uint16_t pkey;
	bool is_answer;
	uint64_t tid;			/* the answer's is its question's */
	uint32_t bytes;			/* of the payload, PING_LEAST to PING_MOST */
	char version[PING_VERSION];	/* of the sender's weft: printable ASCII, terminated */
};

/* The frame of a RoCEv2 device; its bytes. */
size_t ping_build(const struct ping *ping, uint8_t frame[PING_FRAME]);
/* False: it is none; *ping is unspecified. */
bool ping_parse(struct ping *ping, const void *frame, size_t bytes);

#endif
