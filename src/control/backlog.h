/* Messages that weftd has not taken yet, because it is stopped or slow and their socket is full: kept, in order, so that nobody
 * waits for it who wants no answer. Its owner holds a lock around each call. */
#ifndef WEFT_CONTROL_BACKLOG_H
#define WEFT_CONTROL_BACKLOG_H

#include "base/list.h"
#include "control/protocol.h"

#include <stdbool.h>

/* Our choice: as many connections as weftd notes of a process (weftd/farewells.c). */
enum {
	BACKLOG_MOST = 8192,
	BACKLOG_DROPPABLE = BACKLOG_MOST / 2,	/* beyond which what may be lost is */
	BACKLOG_TEXT = 512,
};

/* A message that waited, and its text; free() it. */
struct late {
	struct list_node node;
	struct control_msg msg;
	char text[];
};

struct backlog {
	struct list waiting;
	uint32_t count;
};

void backlog_init(struct backlog *b);
/* Sends what waits, and then *msg with its text of at most BACKLOG_TEXT bytes, without waiting; or keeps it. 0; -EAGAIN: it is
 * the only one that is kept now, so that nobody looks after the backlog yet; -ENOBUFS: there are too many, of which those that
 * may be lost leave room to the others; -ENOMEM; another -errno: the socket is of no more use. */
int backlog_send(struct backlog *b, int socket, const struct control_msg *msg, const char *text, bool may_be_lost);
/* Sends what waits. 0: nothing waits any more; -EAGAIN; another -errno as above. */
int backlog_flush(struct backlog *b, int socket);
/* Takes the oldest out, which is the caller's. NULL: nothing waits. */
struct late *backlog_take(struct backlog *b);
/* Forgets them. */
void backlog_drop(struct backlog *b);

#endif
