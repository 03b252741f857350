/* Which manager is the master (IBA 14.4.1): the one with the highest priority, of equal ones the one with the lowest GUID; a
 * master stays one until it has handed its subnet over. */
#ifndef WEFT_SM_ELECTION_H
#define WEFT_SM_ELECTION_H

#include "sm/sm.h"

/* Others were asked in a sweep: what this manager is from now on. True: a master, which goes on with the sweep. */
bool election_decide(struct sm *s, wtime now);
/* A standby asks its master. */
void election_expire(struct sm *s, wtime now);
/* A sweep begins that takes what another master has handed over. */
void election_take_subnet(struct sm *s, wtime now);
/* SMInfo, asked or set by another manager: `mad` becomes the response. */
void election_input(struct sm *s, wtime now, uint8_t mad[MAD_BYTES]);

#endif
