/* What the processes say about themselves: a command's question goes to every process, and the answers that come within a
 * second are joined into one JSON text. */
#ifndef WEFT_WEFTD_REPORT_H
#define WEFT_WEFTD_REPORT_H

#include "weftd/hub.h"

enum { REPORT_WHAT = 32 };	/* bytes of a question */

void report_query(struct hub *h, struct client *c, const struct control_msg *msg, const char *text);
void report_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text);
/* c answers no more, and asks no more. */
void report_leave(struct hub *h, struct client *c);
void report_expire(struct hub *h);
wtime report_deadline(const struct hub *h);

#endif
