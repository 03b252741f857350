/* A table that is too long to be made at once: its records are looked for while they are sent, as the receiver's window opens
 * (mgmt/mad_source.h). All of them are of one state of the subnet: where that changes meanwhile, the answer ends with an ABORT,
 * and who asks again has the new one. Of this room alone. */
#ifndef WEFT_SM_SA_LONG_H
#define WEFT_SM_SA_LONG_H

#include "mgmt/mad_source.h"
#include "sm/sa_query.h"

/* What follows the records that a query has found before it paused, which are the caller's. NULL: there is no memory. */
struct mad_source *sa_long_begin(const struct sa_query *q, sa_handler *find);
/* The manager ends: those under way cannot be gone on with. */
void sa_long_leave(struct sm *s);

#endif
