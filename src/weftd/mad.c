/* Datagrams may be lost: a receiver that does not keep up loses them, rather than its connection, and the CM sends again. */
#include "weftd/mad.h"

#include "weftd/listeners.h"
#include "weftd/slots.h"

#include <errno.h>

static int forward(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg out = *msg;
	struct client *to;

	if (msg->device >= h->page->devices || (!msg->slot && !msg->service))
		return -EINVAL;
	to = msg->slot ? slots_owner(h, msg->slot) : listeners_find(h, msg->service, msg->device, msg->dgid);
	if (!to && slots_are_settling(h))
		return -EAGAIN;
	if (!to)
		return msg->slot ? -ENOENT : -ECONNREFUSED;
	if (!h->ops->has_room(h, to)) {
		c->mads_dropped++;
		return -EAGAIN;
	}
	hub_acquaint(c, to);
	c->mads_sent++;
	out.seq = 0;
	out.status = 0;
	out.slot = c->slot;
	return h->ops->send(h, to, &out, NULL, NULL, 0) ? 0 : -ENOENT;
}

void mad_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, -forward(h, c, msg));
}
