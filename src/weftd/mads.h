/* What `weft mad` shows and sets: receive buffers of QP0 and QP1 of each port at which somebody receives management datagrams
 * (mgmt/mad_buffers.h). Everybody sees the pools; whose clients they are, root, weftd's own user and their user. */
#ifndef WEFT_WEFTD_MADS_H
#define WEFT_WEFTD_MADS_H

#include "weftd/hub.h"

enum { MADS_TEXT = 512 };	/* of tunables: our choice, several times all of them */

/* CTL_MADS. */
void mads_input(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);

#endif
