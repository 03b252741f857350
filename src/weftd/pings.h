/* weft ping and weft doctor --peer: weftd asks the weftd of another host, by QP1, whether it is there (mgmt/ping.h), and answers
 * what others ask. What is answered is as long as what was asked, and goes where that says it comes from: nobody gets more
 * by it than a liar sends. Of each source so many are answered in a second, and so many in all; the rest is dropped. */
#ifndef WEFT_WEFTD_PINGS_H
#define WEFT_WEFTD_PINGS_H

#include "mgmt/ping.h"
#include "weftd/hub.h"

/* CTL_PING. */
void pings_input(struct hub *h, struct client *c, const struct control_msg *msg);
void pings_leave(struct hub *h, struct client *c);
/* Sends one question: 0, or -errno as CTL_PING has it. */
int pings_ask(struct hub *h, const uint8_t gid[16], const uint8_t dgid[16], uint64_t tid, uint32_t bytes);
/* A ping that came to QP1 by a way that qp1.c has checked. */
enum qp1_fate pings_arrived(struct hub *h, const struct ping *ping);

#endif
