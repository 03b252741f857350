/* What the adapter sends at once: packets to one destination, of one QP or several, which a link takes together. Headers are
 * the burst's own. Payload is borrowed from the program's memory, the WQE or the burst, and stays valid until the adapter is
 * entered again: whoever got the burst sends it before. */
#ifndef WEFT_VERBS_BURST_H
#define WEFT_VERBS_BURST_H

#include "wire/packet.h"

struct ca_device;
struct qp;
struct route;

/* Our choices: as many as a full window of small packets needs few calls for, and as many bytes as one datagram of UDP may have
 * before the kernel cuts it (UDP_SEGMENT). So long is a QP's turn, too. */
enum { BURST_PACKETS = 16, BURST_BYTES = 64 << 10 };
/* So many of the longest packets are one. */
enum { BURST_LONG = BURST_BYTES / PACKET_MAX_BYTES };

/* A packet's gather list has as many elements at most. */
enum { PACKET_OUT_IOVS = 32 };

/* Our choices: of these a burst has few, as most packets need one element and no copy. */
enum { BURST_IOVS = 2 * PACKET_OUT_IOVS, BURST_COPIES = 4 };

/* The place of one packet. */
struct packet_out {
	struct packet packet;
	struct iovec *iov;	/* in the burst: PACKET_OUT_IOVS elements, for the packet's payload */
	uint8_t *bounce;	/* in the burst: PACKET_MAX_ETHERNET bytes, for payload that cannot be borrowed */
	bool is_cut;		/* it leaves, and its path loses it (ca.cut) */
	bool follows;		/* the burst has packets already, which have not left: nothing of the QP may pass them */
};

struct burst {
	struct ca_device *dev;		/* borrowed; from here all of them go */
	const struct route *route;	/* borrowed, as long as the payload; and there */
	struct qp *several;		/* borrowed: its packets take a route each (ca_next_row); NULL: all take that one */
	unsigned packets;		/* in out */
	unsigned iovs, copies;		/* taken */
	uint32_t bytes;			/* at most */
	struct packet_out out[BURST_PACKETS];
	struct iovec iov[BURST_IOVS];
	uint8_t bounce[BURST_COPIES][PACKET_MAX_ETHERNET];
};

/* Packets in a row that take one route. */
struct burst_row {
	struct ca_device *dev;
	const struct route *route;
	const struct packet_out *out;
	unsigned packets;
};

static inline void burst_begin(struct burst *b, struct ca_device *dev)
{
	b->dev = dev;
	b->route = NULL;
	b->several = NULL;
	b->packets = b->iovs = b->copies = 0;
	b->bytes = 0;
}

/* Is there a place for one more packet of any length? */
static inline bool burst_has_place(const struct burst *b)
{
	return b->packets < BURST_PACKETS && b->bytes <= BURST_BYTES - PACKET_MAX_BYTES && b->copies < BURST_COPIES &&
	       b->iovs <= BURST_IOVS - PACKET_OUT_IOVS;
}

/* The next place, whose packet is not in the burst yet. There is one. */
static inline struct packet_out *burst_place(struct burst *b)
{
	struct packet_out *out = &b->out[b->packets];

	out->iov = &b->iov[b->iovs];
	out->bounce = b->bounce[b->copies];
	out->is_cut = false;
	out->follows = b->packets > 0;
	return out;
}

static inline bool burst_is_copied(const struct packet_out *out)
{
	for (unsigned i = 0; i < out->packet.payload_iovs; i++)
		if ((uintptr_t)out->packet.payload[i].iov_base - (uintptr_t)out->bounce < PACKET_MAX_ETHERNET)
			return true;
	return false;
}

/* The packet that was made in the next place is in the burst. */
static inline void burst_add(struct burst *b)
{
	const struct packet_out *out = &b->out[b->packets++];

	b->bytes += PACKET_MAX_HEADER + out->packet.payload_bytes + 8;
	b->iovs += out->packet.payload_iovs;
	b->copies += burst_is_copied(out);
}

#endif
