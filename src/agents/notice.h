/* Traps: what a node tells its subnet manager by itself, again and again until a TrapRepress comes (IBA 13.4.8, 14.2.5.1). */
#ifndef WEFT_AGENTS_NOTICE_H
#define WEFT_AGENTS_NOTICE_H

#include "agents/agents.h"
#include "fabric/walk.h"
#include "wire/smp.h"

/* The state of a link of this port has changed: PortStateChange and trap 128, if it is a switch's. */
void notice_link(struct agents *a, wtime now, uint32_t port);
/* Trap 129 to 131: this port's link has errors. */
void notice_link_error(struct agents *a, wtime now, uint32_t port, enum link_error e);
/* Trap 144: the CapabilityMask of this end port has changed. */
void notice_capability(struct agents *a, wtime now, uint32_t port);
/* Trap 256: an SMP with a bad M_Key has come to this end port. */
void notice_m_key(struct agents *a, wtime now, uint32_t port, uint16_t slid, const uint8_t mad[MAD_BYTES]);
/* Trap 257: a datagram with a P_Key that this end port does not have. */
void notice_pkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address);
/* Trap 258: a datagram whose Q_Key is not that of this end port's QP1. */
/* At this port of a switch. */
void notice_switch_pkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address);
void notice_qkey(struct agents *a, wtime now, const struct walk_route *r, const struct mad_address *address);

/* A TrapRepress has come to this end port. */
void notice_repress(struct agents *a, uint32_t port, const uint8_t mad[MAD_BYTES]);

#endif
