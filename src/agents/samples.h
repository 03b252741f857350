/* The sampling mechanism of each node: what a port counts during an interval (IBA 16.1.3.2 PortSamplesControl, 16.1.3.3
 * PortSamplesResult, 16.1.4 PortSamplesResultExtended). A node has one, so it samples one port at a time, and whoever wants to
 * know whose sample it was looks at the tag. The interval lasts from when agents notice its begin until they notice its end, and
 * never less than was asked for. Where all nodes that may be sampled are, the last sample of another node is forgotten. */
#ifndef WEFT_AGENTS_SAMPLES_H
#define WEFT_AGENTS_SAMPLES_H

#include "agents/agents.h"

/* port: the one that PortSelect names, or PORT_NONE; data: PMA_DATA_BYTES, which become the attribute as it is then. */
enum mad_status samples_control(struct agents *a, wtime now, uint32_t port, bool sets, uint8_t *data);
enum mad_status samples_result(const struct agents *a, uint32_t node, bool is_extended, uint8_t *data);

/* Samples begin and end that are due; a->sample_due: when the next one is. */
void samples_expire(struct agents *a, wtime now);

#endif
