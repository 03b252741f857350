/* A UDP socket does not show the IPv4 identification of what it receives, and the ICRC covers it. A CRC is linear: what one
 * 16-bit field adds to it depends on the field and its distance from the end alone, so the identification follows from the
 * difference between the ICRC that came and the ICRC of a header whose identification is 0. A17.3.3. */
#ifndef WEFT_WIRE_ICRC_ID_H
#define WEFT_WIRE_ICRC_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ICRC_ID_POWERS = 13 };	/* distances below 2^13 bytes: a packet is shorter */

struct icrc_id {
	uint32_t back[ICRC_ID_POWERS];	/* x^(-8 * 2^k) modulo the polynomial */
	size_t bytes;			/* the distance of the last call, as most packets of a flow are equally long */
	uint32_t factor;		/* x^(-8 * bytes) */
};

void icrc_id_init(struct icrc_id *s);

/* `bytes` from the identification's first byte up to the ICRC, 0 < bytes < 2^13; `difference` of the two ICRCs. False: no
 * identification explains it, so the packet was damaged. Of random damage, one case in 65,536 has one. */
bool icrc_id_solve(struct icrc_id *s, size_t bytes, uint32_t difference, uint16_t *id);

#endif
