/* Slots: the upper 12 bits of QP numbers, handed out at random, so that another process's QP numbers cannot be guessed. A
 * process keeps its slots over a restart of weftd by the secret that it got with the first.
 *
 * The low bits of a slot are a member of the group of UDP port 4791 (weftd/roce_port.h). A process's first slot is of a member
 * that no other process has, and its further ones are of the same member, as long as there are any; then any slot will do, and
 * packets from other hosts do not reach it. */
#ifndef WEFT_WEFTD_SLOTS_H
#define WEFT_WEFTD_SLOTS_H

#include "weftd/hub.h"

/* Gives c its first slot. 0, -EDQUOT, -ENOSPC. */
int slots_first(struct hub *h, struct client *c);
/* Gives c back all slots of the process whose first is this one. -ESTALE: it is not awaited, or not with this secret. */
int slots_return(struct hub *h, struct client *c, uint32_t slot, const uint8_t secret[STATE_SECRET]);
/* Takes all of c's slots back, and sets their bits in `gone`. */
void slots_leave(struct hub *h, struct client *c, uint64_t gone[PAGE_SLOTS / 64]);

/* Any value of slot. */
bool slots_is_awaited(const struct hub *h, uint32_t slot);
/* The attached process's number in the fabric page. */
uint32_t slots_number(const struct hub *h, const struct client *c);
/* The process that owns the slot, or NULL. Any value of slot. */
struct client *slots_owner(const struct hub *h, uint32_t slot);

void slots_input(struct hub *h, struct client *c, const struct control_msg *msg);

/* Processes that were attached to the last weftd are still coming back: who is not here may be among them. */
bool slots_are_settling(const struct hub *h);

/* Does a process live that has a slot, whether or not its end was noticed yet? */
bool slots_are_needed(const struct hub *h);

/* Awaits whom the state knows; ends the slots of those who have died since. */
void slots_inherit(struct hub *h);
void slots_expire(struct hub *h);

#endif
