/* Space on the way of a packet, and who waits for it. */
#ifndef WEFT_PEERS_SPACE_H
#define WEFT_PEERS_SPACE_H

#include "verbs/ca.h"

struct peers;

/* As ca_ops.space. */
unsigned space_for(struct peers *ps, const struct ca_device *dev, const struct route *r, const struct av *av);
/* As ca_ops.hold and let_go: of a process of our user, which is not this one. */
bool space_hold(struct peers *ps, uint32_t src_qpn, uint32_t dest_qpn);
void space_let_go(struct peers *ps, uint32_t dest_qpn);
/* QPs that found no space may have some now, or wait no more. */
void space_retry(struct peers *ps);

#endif
