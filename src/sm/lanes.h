/* Virtual lanes: how many a link has, which one each service level takes, and how ports arbitrate between them (IBA 7.6.6, 7.6.9;
 * 14.2.5.8, 14.2.5.9). By the manager's options it is the same everywhere, but for how many lanes a link has: a lane beyond these
 * is taken modulo their number. So a level has a lane at every port, or at none. */
#ifndef WEFT_SM_LANES_H
#define WEFT_SM_LANES_H

#include "sm/sm.h"

enum { LANES_BLOCKS = 4 };	/* of a VLArbitrationTable, from 1 on: two of low priority, two of high (14.2.5.9) */

/* By options, or OpenSM's for NULL. */
void lanes_init(struct sm *s, const struct fabric_qos *qos);

/* OperationalVLs that the port is to have: what both ends of its link can, and options allow. */
uint8_t lanes_of_link(const struct sm *s, uint32_t port);
/* Has this level, 0 to 15, a lane? And the first one that has: 0 where none has. */
bool lanes_has_level(const struct sm *s, unsigned level);
uint8_t lanes_first_level(const struct sm *s);

/* A master writes the tables of ports that may have others. */
void lanes_configure(struct sm *s);

/* Has the port so much of a VLArbitrationTable? */
bool lanes_has_block(const struct sm *s, uint32_t port, unsigned block);
/* A port's tables as they were written for these OperationalVLs: SLtoVLMappingTable; a block of its VLArbitrationTable. */
void lanes_write_levels(const struct sm *s, uint8_t lanes, uint8_t data[SMP_DATA_BYTES]);
void lanes_write_turns(const struct sm *s, uint8_t lanes, unsigned block, uint8_t data[SMP_DATA_BYTES]);

#endif
