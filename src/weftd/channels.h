/* Packet channels: one shared memory for each pair of processes that talk. weftd makes it, gives it to both, and keeps no
 * descriptor of it. */
#ifndef WEFT_WEFTD_CHANNELS_H
#define WEFT_WEFTD_CHANNELS_H

#include "weftd/hub.h"

void channels_input(struct hub *h, struct client *c, const struct control_msg *msg);
/* c has had this channel since before weftd was started; it is one once its other side says so too. */
void channels_kept(struct hub *h, struct client *c, const struct control_msg *msg);
/* Forgets c's channels. */
void channels_leave(struct hub *h, struct client *c);

#endif
