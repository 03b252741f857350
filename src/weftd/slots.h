/* Slots: the upper 12 bits of QP numbers, handed out at random, so that another process's QP numbers cannot be guessed. */
#ifndef WEFT_WEFTD_SLOTS_H
#define WEFT_WEFTD_SLOTS_H

#include "weftd/hub.h"

/* Gives c one more slot. 0, -EDQUOT, -ENOSPC. */
int slots_take(struct hub *h, struct client *c, uint32_t *slot);
/* Takes all of c's slots back, and sets their bits in `gone`. */
void slots_leave(struct hub *h, struct client *c, uint64_t gone[PAGE_SLOTS / 64]);

/* The process that owns the slot, or NULL. Any value of slot. */
struct client *slots_owner(const struct hub *h, uint32_t slot);

void slots_input(struct hub *h, struct client *c, const struct control_msg *msg);

#endif
