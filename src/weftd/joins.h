/* What ports of a fabric have joined for programs at its subnet administration, as the kernel joins for rdma_cm: one membership
 * of a port in a group, and one that only sends, however many programs there use it. weftd asks by MCMemberRecord (IBA 15.2.5.17)
 * from QP1 of the port; the program that waits is answered when the administration has answered. A fabric without a subnet
 * manager has no administration: there weftd writes the tree of a group itself (weftd/mcast.c), and the port joins when a manager
 * comes. */
#ifndef WEFT_WEFTD_JOINS_H
#define WEFT_WEFTD_JOINS_H

#include "weftd/hub.h"

/* Our choices: memberships in all; when users who are neither root nor weftd's own are refused; and of one such user. */
enum { JOINS_MOST = 1024, JOINS_USERS = JOINS_MOST - JOINS_MOST / 8, JOINS_USER = 256 };

/* Is the process at a port that has a manager? */
bool joins_are_needed(const struct hub *h, const struct client *c, uint32_t index);

/* One more use of group i of the page by the process at a port, as the message asks. 0: its port is a member, *answer says how,
 * or will be one. -EINPROGRESS: it is answered later, and what was asked for in vain is taken back. Another -errno. */
int joins_enter(struct hub *h, struct client *c, const struct control_msg *msg, int i, struct control_msg *answer);
/* So many uses less of the membership, or of that which only sends. */
void joins_leave(struct hub *h, const struct client *c, int i, bool sends, unsigned uses);
/* The process is gone: nobody waits for its answers. */
void joins_forget(struct hub *h, const struct client *c);
/* Of the last fabric. */
void joins_end(struct hub *h);
/* Takes in what has been answered, and joins again where a manager says so; in each round of weftd. */
void joins_expire(struct hub *h);
wtime joins_deadline(const struct hub *h);

#endif
