/* Datagrams that answer others, or tell something, in the order in which they are to be sent. */
#ifndef WEFT_SM_REPLY_H
#define WEFT_SM_REPLY_H

#include "mgmt/mad_source.h"
#include "sm/sm.h"

enum { REPLIES_MOST = 256 };	/* our choice: that wait to be sent; of more, nobody hears */

/* A copy of the letter with so many bytes of data, which the caller fills; NULL: there is no room. */
uint8_t *reply_add(struct sm *s, const struct mad_letter *letter, uint32_t bytes);
/* This follows the data that reply_add() gave; the letter owns it. */
void reply_follow(uint8_t *data, struct mad_source *source);

#endif
