/* Agents that programs have registered at ports: which of them a MAD is for (mgmt/mad_clients.h). Of this room alone. */
#ifndef WEFT_MGMT_MAD_AGENTS_H
#define WEFT_MGMT_MAD_AGENTS_H

#include "mgmt/mad_clients.h"

uint8_t mad_class(const uint8_t *mad);
uint8_t mad_method(const uint8_t *mad);

/* 13.6.2.2: of other classes the bytes of its header are something else. */
bool mad_class_has_rmpp(uint8_t mgmt_class);

/* Bytes that a datagram of this kind may have with all of its segments, and that all of a file may have, each way. */
size_t mad_longest(const struct mad_clients *c, const uint8_t *mad);
size_t mad_file_bytes(const struct mad_clients *c);

/* The agent at this port that has asked with this upper half of a transaction id, and its file; or NULL. */
struct mad_agent *mad_agent_of_tid(const struct mad_clients *c, uint32_t port, uint32_t tid, struct mad_file **file);
/* Who answers what this MAD asks, at this port; or NULL. */
struct mad_agent *mad_agent_of_method(const struct mad_clients *c, uint32_t port, const uint8_t *mad, struct mad_file **file);

/* The receive buffers of the agent's QP, at its port. */
struct gsa *mad_agent_buffers(const struct mad_file *f, const struct mad_agent *a);
/* What has taken one of them was of this LID: the agent holds it until mad_gave_back, or is done with it. */
void mad_agent_took(struct mad_file *f, uint32_t agent, uint16_t lid, bool holds);
/* So many that it holds are of this LID, or of one that counts as it. */
uint32_t mad_agent_held(const struct mad_agent *a, uint16_t lid);
/* It goes, with what it has of them. */
void mad_agent_leave(struct mad_clients *c, struct mad_file *f, uint32_t agent);
/* more of them, or fewer, while a series comes to it; false: there is no memory, and it comes by what the agent has. */
bool mad_agent_lend(const struct mad_file *f, uint32_t agent, int32_t by);

#endif
