/* What a master writes: tables of switches, then ports, which it arms, then, when all links are armed, ACTIVE (IBA 14.4.2, 7.2).
 * What is known to be as it is to be is not written again. request.h has the functions for each kind of SMP. */
#ifndef WEFT_SM_CONFIGURE_H
#define WEFT_SM_CONFIGURE_H

#include "sm/sm.h"

void configure_tables(struct sm *s);
/* Trees of multicast groups alone. */
void configure_trees(struct sm *s);
void configure_ports(struct sm *s);
void configure_activate(struct sm *s);
/* This block of the end port's GUIDs, in a sweep or not. */
void configure_guid_block(struct sm *s, uint32_t port, uint32_t block);

#endif
