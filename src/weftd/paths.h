/* Paths from ports of the fabric that processes ask for: weftd asks the port's subnet administration by PathRecord (IBA
 * 15.2.5.16) from QP1 of the port, as the kernel does for rdma_cm, for one path (CTL_PATH) or a table of them (CTL_PATHS), and
 * who asks is answered when it has answered. */
#ifndef WEFT_WEFTD_PATHS_H
#define WEFT_WEFTD_PATHS_H

#include "weftd/hub.h"

/* Our choices: under way in all; when users who are neither root nor weftd's own have to wait; and of one such user. */
enum { PATHS_MOST = 512, PATHS_USERS = PATHS_MOST - PATHS_MOST / 8, PATHS_USER = 64 };

void paths_input(struct hub *h, struct client *c, const struct control_msg *msg);
/* The process is gone. */
void paths_forget(struct hub *h, const struct client *c);
/* Of the last fabric. */
void paths_end(struct hub *h);
/* Takes in what has been answered; in each round of weftd. */
void paths_expire(struct hub *h);
wtime paths_deadline(const struct hub *h);

#endif
