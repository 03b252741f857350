/* Memory files of processes, kept for peers of the same user that want to map them. */
#ifndef WEFT_WEFTD_FILES_H
#define WEFT_WEFTD_FILES_H

#include "weftd/hub.h"

/* CTL_MEMORY and CTL_MAP. */
void files_add(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);
void files_give(struct hub *h, struct client *c, const struct control_msg *msg);
void files_leave(struct client *c);

#endif
