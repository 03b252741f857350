/* Peers that faults on demand cut off: a process of this host by the numbers that frames to and from it have, or whoever has an
 * address. Pure. */
#ifndef WEFT_IMPAIR_PARTITION_H
#define WEFT_IMPAIR_PARTITION_H

#include "wire/packet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARTITION_PEERS = 16 };	/* entries of partition= */

struct partition_peer {
	enum partition_kind {
		PARTITION_SLOT,		/* what goes to this slot */
		PARTITION_PROCESS,	/* what comes from the process of this number */
		PARTITION_LID,
		PARTITION_GID,
	} kind;
	uint32_t number;
	uint8_t gid[16];
};

struct partition {
	struct partition_peer peer[PARTITION_PEERS];
	unsigned peers;
};

/* "slot:291+process:4", "lid:7", "gid:fe80::1", "gid:10.0.0.2". False: it is none, and *p is anything. */
bool partition_parse(const char *text, struct partition *p);

/* Is the frame to, or from, such a peer? other: the slot it goes to, or the number of the process that it comes from. */
bool partition_cuts(const struct partition *p, bool is_out, enum packet_form form, const void *frame, size_t bytes,
		    uint32_t other);

#endif
