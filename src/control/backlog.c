#include "control/backlog.h"

#include "control/message.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

struct late {
	struct list_node node;
	struct control_msg msg;
};

void backlog_init(struct backlog *b)
{
	list_init(&b->waiting);
	b->count = 0;
}

static void forget(struct backlog *b, struct late *late)
{
	list_remove(&late->node);
	b->count--;
	free(late);
}

int backlog_flush(struct backlog *b, int socket)
{
	struct late *late;
	int err = 0;

	while ((late = list_first_entry(&b->waiting, struct late, node))) {
		err = message_send(socket, &late->msg, NULL, NULL, 0, MSG_DONTWAIT);
		if (err)
			break;
		forget(b, late);
	}
	return err;
}

bool backlog_take(struct backlog *b, struct control_msg *msg)
{
	struct late *late = list_first_entry(&b->waiting, struct late, node);

	if (!late)
		return false;
	*msg = late->msg;
	forget(b, late);
	return true;
}

static int keep(struct backlog *b, const struct control_msg *msg)
{
	struct late *late;

	if (b->count == BACKLOG_MOST)
		return -ENOBUFS;
	late = calloc(1, sizeof(*late));
	if (!late)
		return -ENOMEM;
	late->msg = *msg;
	list_append(&b->waiting, &late->node);
	b->count++;
	return 0;
}

int backlog_send(struct backlog *b, int socket, const struct control_msg *msg)
{
	int err = backlog_flush(b, socket);

	if (!err)
		err = message_send(socket, msg, NULL, NULL, 0, MSG_DONTWAIT);
	return err == -EAGAIN ? keep(b, msg) : err;
}

void backlog_drop(struct backlog *b)
{
	struct late *late;

	while ((late = list_first_entry(&b->waiting, struct late, node)))
		forget(b, late);
}
