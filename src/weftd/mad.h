/* Management datagrams between processes: passed on as they are, by slot or by service. */
#ifndef WEFT_WEFTD_MAD_H
#define WEFT_WEFTD_MAD_H

#include "weftd/hub.h"

void mad_input(struct hub *h, struct client *c, const struct control_msg *msg);

#endif
