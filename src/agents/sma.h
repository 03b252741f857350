/* The subnet management agent: attributes of a node, its ports and its tables (IBA 14.2.5), read and set. */
#ifndef WEFT_AGENTS_SMA_H
#define WEFT_AGENTS_SMA_H

#include "agents/agents.h"
#include "agents/smi.h"

/* Does the agent have this SMP, or a subnet manager? The header's class is one of SMPs. */
bool sma_has(const struct mad_header *h);

/* The SMP has come to this place. MAD_ANSWERED: `mad` is the response, which is still to be carried back. MAD_LOST: there is
 * none; *loss tells. */
enum mad_outcome sma_input(struct agents *a, wtime now, const struct smp_place *place, uint8_t mad[MAD_BYTES],
			   enum mad_loss *loss);

#endif
