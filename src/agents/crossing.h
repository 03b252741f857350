/* MADs on links: both ports of a link count what goes over it, and a link with a fault loses its share (fabric_set_fault), drawn
 * as for the data of processes (fabric/passage.h). A slow link does not hold them up. */
#ifndef WEFT_AGENTS_CROSSING_H
#define WEFT_AGENTS_CROSSING_H

#include "agents/agents.h"
#include "fabric/walk.h"

/* A MAD leaves by the port `out`, whose link leads to the port `in`. False: the link loses it. */
bool crossing_link(struct agents *a, uint32_t out, uint32_t in, bool has_grh);

/* It goes a way, to where it is delivered or dropped. False: a link loses it before. */
bool crossing_way(struct agents *a, const struct walk_route *r, bool has_grh);

#endif
