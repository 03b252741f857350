/* The performance management agent: the counters of a node's ports (IBA chapter 16.1). */
#ifndef WEFT_AGENTS_PMA_H
#define WEFT_AGENTS_PMA_H

#include "agents/agents.h"

/* Does the agent answer it, and no client? */
bool pma_has(const struct mad_header *h);

/* The request has come to this end port; `mad` becomes the response. */
void pma_input(struct agents *a, wtime now, uint32_t port, uint8_t mad[MAD_BYTES]);

#endif
