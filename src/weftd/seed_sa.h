/* The seed's subnet administration of a fabric, live: it answers GetTable, GetBulk and Config of class version 1 at one port
 * (mgmt/sa_server.h), from the fabric as it stands and from records that Configs add. It begins with the first question, and ends
 * with the fabric. Class version 2 is a subnet manager's. */
#ifndef WEFT_WEFTD_SEED_SA_H
#define WEFT_WEFTD_SEED_SA_H

#include "weftd/hub.h"

/* A MAD that nobody is registered for has come to this port: begins, if it is for the administration, which did not begin yet. */
bool seed_sa_begins(struct hub *h, uint32_t port, const uint8_t mad[MAD_BYTES]);
/* The LID at which it answers; 0: there is none. */
uint16_t seed_sa_lid(const struct hub *h);
/* What holds from now on, also when it begins later. */
void seed_sa_set(struct hub *h, const struct sa_tunables *t);
/* The fabric goes. */
void seed_sa_end(struct hub *h);

void seed_sa_expire(struct hub *h);
wtime seed_sa_deadline(const struct hub *h);

#endif
