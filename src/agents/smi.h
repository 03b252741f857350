/* The subnet management interface: how an SMP goes from node to node, by its directed route and by LIDs (IBA 14.2.2). */
#ifndef WEFT_AGENTS_SMI_H
#define WEFT_AGENTS_SMI_H

#include "agents/agents.h"
#include "wire/smp.h"

/* Where an SMP is. */
struct smp_place {
	uint32_t port;		/* by which it came to the node, or where it begins */
	uint16_t slid, dlid;	/* of its LRH */
};

/* Carries an SMP from place->port to where it is for, and moves its hop pointer and return path on. 0, or why it is lost.
 * place->port < fabric.ports. */
enum mad_loss smi_carry(struct agents *a, struct smp_place *place, uint8_t sl, uint8_t mad[MAD_BYTES]);

/* The port whose agent has what came to this one: port 0 of a switch. */
uint32_t smi_end_port(const struct fabric *f, uint32_t port);

#endif
