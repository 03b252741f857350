#include "control/backlog.h"

#include "control/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void backlog_init(struct backlog *b)
{
	list_init(&b->waiting);
	b->count = 0;
}

struct late *backlog_take(struct backlog *b)
{
	struct late *late = list_first_entry(&b->waiting, struct late, node);

	if (!late)
		return NULL;
	list_remove(&late->node);
	b->count--;
	return late;
}

int backlog_flush(struct backlog *b, int socket)
{
	struct late *late;
	int err = 0;

	while ((late = list_first_entry(&b->waiting, struct late, node))) {
		err = message_send(socket, &late->msg, late->text, NULL, 0, MSG_DONTWAIT);
		if (err)
			break;
		free(backlog_take(b));
	}
	return err;
}

static int keep(struct backlog *b, const struct control_msg *msg, const char *text)
{
	struct late *late = malloc(sizeof(*late) + msg->text_bytes);

	if (!late)
		return -ENOMEM;
	*late = (struct late){ .msg = *msg };
	if (msg->text_bytes)
		memcpy(late->text, text, msg->text_bytes);
	list_append(&b->waiting, &late->node);
	return b->count++ ? 0 : -EAGAIN;
}

int backlog_send(struct backlog *b, int socket, const struct control_msg *msg, const char *text, bool may_be_lost)
{
	int err = backlog_flush(b, socket);

	if (!err)
		err = message_send(socket, msg, text, NULL, 0, MSG_DONTWAIT);
	if (err != -EAGAIN)
		return err;
	if (b->count >= (may_be_lost ? BACKLOG_DROPPABLE : BACKLOG_MOST) || msg->text_bytes > BACKLOG_TEXT)
		return -ENOBUFS;
	return keep(b, msg, text);
}

void backlog_drop(struct backlog *b)
{
	struct late *late;

	while ((late = backlog_take(b)))
		free(late);
}
