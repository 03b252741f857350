/* LIDs of end ports: 2^LMC each, of a switch one. A port keeps the one that it has had: with this manager, in the manager's
 * earlier life, or by itself, where nobody else has it. A manager that has stood by leaves ports what they have, whatever it gave
 * before. LIDs of ports that are gone are given away when no others are left, and then one port's to the manager's own. */
#ifndef WEFT_SM_LIDS_H
#define WEFT_SM_LIDS_H

#include "sm/sm.h"

/* How many ports that are here have none, as there are no more. */
uint32_t lids_assign(struct sm *s);

/* LIDs that switches can forward: above the highest unicast one that may be used. */
uint32_t lids_end(const struct sm *s);

#endif
