/* Faults that a command gives to processes while they run. weftd passes the text on, and tells all in the fabric page whose
 * traffic is to be packets; the process reads the text. Whoever may say so to one process has all hear of the page: not more
 * often than some times a second, and of no change that is none. */
#ifndef WEFT_WEFTD_IMPAIRS_H
#define WEFT_WEFTD_IMPAIRS_H

#include "weftd/hub.h"

enum { IMPAIRS_TEXT = 511 };	/* bytes; impair/impair.h has room for as many */

/* Whoever deals with this process sends packets from now on, or is free to do otherwise as far as it is for this reason
 * (enum page_packets). impairs_expire tells all of it. */
void impairs_want_packets(struct hub *h, const struct client *c, uint8_t why, bool on);

/* CTL_IMPAIR of a command. */
void impairs_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text);

/* Tells all what they were not told yet, when it is time to. */
void impairs_expire(struct hub *h);
wtime impairs_deadline(const struct hub *h);

#endif
