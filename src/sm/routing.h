/* Forwarding tables: ways of fabric/route.h over what the manager knows. A port that led to a LID stays where it is as good
 * as others. Tables as they are to be; what switches have is in their nodes (net.h). */
#ifndef WEFT_SM_ROUTING_H
#define WEFT_SM_ROUTING_H

#include "sm/sm.h"

/* Computes all anew, unless nothing has changed since the last computation. 0 or -ENOMEM. */
int routing_compute(struct sm *s);
/* What the last computation came to, or NULL: whole blocks of LFT_BLOCK ports for the switch. */
const uint8_t *routing_lft(const struct sm *s, uint32_t node);
/* LIDs that these tables have, a multiple of LFT_BLOCK; 0: there are none. */
uint32_t routing_lids(const struct sm *s);
/* The ports that lead from one end port to a LID: how many there are, at most `most`; 0: there is no way. Each is the near end of
 * a link. */
unsigned routing_way(const struct sm *s, uint32_t from, uint32_t lid, uint32_t *out, unsigned most);
void routing_fini(struct sm *s);

#endif
