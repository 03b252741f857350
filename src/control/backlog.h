/* Messages that weftd has not taken yet, because it is stopped or slow and their socket is full: kept, in order, so that nobody
 * waits for it who wants no answer. Its owner holds a lock around each call. */
#ifndef WEFT_CONTROL_BACKLOG_H
#define WEFT_CONTROL_BACKLOG_H

#include "base/list.h"
#include "control/protocol.h"

#include <stdbool.h>

/* Our choice: as many connections as weftd notes of a process (weftd/farewells.c). */
enum { BACKLOG_MOST = 8192 };

struct backlog {
	struct list waiting;
	uint32_t count;
};

void backlog_init(struct backlog *b);
/* Sends what waits, and then *msg, which has no text, without waiting; or keeps it. 0; -ENOBUFS: there are too many; -ENOMEM;
 * another -errno: the socket is of no more use. */
int backlog_send(struct backlog *b, int socket, const struct control_msg *msg);
/* Sends what waits. 0: nothing waits any more; -EAGAIN; another -errno as above. */
int backlog_flush(struct backlog *b, int socket);
/* Takes the oldest out. False: nothing waits. */
bool backlog_take(struct backlog *b, struct control_msg *msg);
/* Forgets them. */
void backlog_drop(struct backlog *b);

#endif
