/* Faults that a command gives to processes while they run. weftd passes the text on, and tells all in the fabric page whose
 * traffic is to be packets; the process reads the text. A change of the page is told to all processes, so weftd tells at most
 * some changes a second, and none that leaves the page as it was. */
#ifndef WEFT_WEFTD_IMPAIRS_H
#define WEFT_WEFTD_IMPAIRS_H

#include "weftd/hub.h"

enum { IMPAIRS_TEXT = 511 };	/* bytes; impair/impair.h has room for as many */

/* Sets or clears one reason (enum page_packets) why traffic with this process is to be packets. impairs_expire tells all
 * processes. */
void impairs_want_packets(struct hub *h, const struct client *c, uint8_t why, bool on);

/* CTL_IMPAIR of a command. */
void impairs_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text);

/* Tells all what they were not told yet, when it is time to. */
void impairs_expire(struct hub *h);
wtime impairs_deadline(const struct hub *h);

#endif
