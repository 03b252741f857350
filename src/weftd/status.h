/* weftd's own state as JSON, and how a text of any length gets to who asked. */
#ifndef WEFT_WEFTD_STATUS_H
#define WEFT_WEFTD_STATUS_H

#include "weftd/hub.h"

#include <jansson.h>

void status_input(struct hub *h, struct client *c, const struct control_msg *msg);

/* Who a process is: pid, program, slot. The caller's reference. */
json_t *status_process(const struct client *c);

/* Answers msg with the text, which is not empty, in a memory file if it is longer than a message holds. */
void status_send_text(struct hub *h, struct client *c, const struct control_msg *msg, const char *text);

#endif
