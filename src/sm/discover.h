/* What a sweep asks, and what follows from the answers (request.h has the functions for each kind of SMP). */
#ifndef WEFT_SM_DISCOVER_H
#define WEFT_SM_DISCOVER_H

#include "sm/sm.h"

/* Everybody is asked anew, link by link, beginning at the manager's own port. */
void discover_all(struct sm *s);
/* Switches are asked whether the state of a port has changed; those that have not answered last time too. */
void discover_changes(struct sm *s);
/* The port is asked what it is capable of; a node's name may have changed as well. */
void discover_port(struct sm *s, uint32_t port);

/* Switches whose tables are not known are asked what they have: a master before this one may have written them, or who loaded the
 * fabric. */
void discover_tables(struct sm *s);

/* All is answered: links that were not found again are gone, and nodes without a way. True: somebody is to be asked once more. */
bool discover_end(struct sm *s);

#endif
