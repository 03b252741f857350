/* weftd's own subnet manager and subnet administration (sm/sm.h), of a fabric whose head names a port for it: a switch's port 0
 * or a host's. It sends and hears what any program at that port would, by files of weftd's own (umad.h). LIDs are kept in a
 * database of the runtime directory (lid_store.h), so the next weftd's manager gives a host that was away the LID that it had. */
#ifndef WEFT_WEFTD_MANAGER_H
#define WEFT_WEFTD_MANAGER_H

#include "weftd/hub.h"

/* Begins where a fabric wants it, and does what is due; in each round of weftd. */
void manager_expire(struct hub *h);
wtime manager_deadline(const struct hub *h);
/* Another fabric is loaded, or none: it ends with its fabric, and the LIDs too. */
void manager_end(struct hub *h);
/* All records of an attribute that the administration has for who asks, of paths those from it, as sa_gather(): the caller's
 * to free. NULL: there is no manager of weftd's, or it is not the master. */
uint8_t *manager_gather(struct hub *h, uint16_t lid, uint16_t attribute, uint32_t most, uint32_t *bytes);
/* What its administration has been asked, and how many questions wait for room; NULL: there is no manager. */
const struct sm_counters *manager_counters(const struct hub *h, uint32_t *waiting);
/* Grows with each change of what manager_gather() gives, beside the agents'. */
uint64_t manager_changes(const struct hub *h);
/* weftd ends; the next one may go on. */
void manager_close(struct hub *h);

#endif
