/* MADs on links: both ports of a link count what goes over it, a link with a fault loses its share (fabric_set_fault), drawn as
 * for the data of processes (fabric/passage.h), and at a slow link they take their turns with that data. */
#ifndef WEFT_AGENTS_CROSSING_H
#define WEFT_AGENTS_CROSSING_H

#include "agents/agents.h"
#include "fabric/walk.h"

/* A MAD leaves at a->at by the port `out`, in this lane, whose link leads to the port `in`: a->at is when it has passed the link
 * then. LOSS_NONE, LOSS_FAULT or LOSS_SLOW. */
enum mad_loss crossing_link(struct agents *a, uint32_t out, uint32_t in, unsigned lane, bool has_grh);

/* It goes a way, to where it is delivered or dropped. What else than LOSS_NONE is returned has happened before. */
enum mad_loss crossing_way(struct agents *a, const struct walk_route *r, bool has_grh);

#endif
