#include "weftd/pings.h"

#include "control/devices.h"
#include "mgmt/gmp.h"
#include "weftd/probes.h"
#include "weftd/random.h"
#include "weftd/roce_port.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static bool may_answer(struct hub *h, const uint8_t gid[16])
{
	return rates_allow(&h->pings.rates, h->now, hash_table_hash(&h->listeners, gid, 16), PINGS_EACH, PINGS_ALL);
}

static size_t build(struct ping *ping, uint8_t frame[PING_FRAME])
{
	snprintf(ping->version, sizeof(ping->version), "%s", WEFT_VERSION);
	return ping_build(ping, frame);
}

/* ---- of this host ---- */

static const struct page_device *device_of(const struct hub *h)
{
	return &h->page->device[roce_port_device(h)];
}

static int check(const struct hub *h, const struct control_msg *msg)
{
	const struct page_device *dev = device_of(h);

	if (msg->b < PING_LEAST || msg->b > PING_MOST || page_device_has_gid(dev, msg->dgid))
		return -EINVAL;
	if (!page_device_has_gid(dev, msg->gid))
		return -EADDRNOTAVAIL;
	return dev->port_state == IBV_PORT_ACTIVE ? 0 : -ENETDOWN;
}

int pings_ask(struct hub *h, const uint8_t gid[16], const uint8_t dgid[16], uint64_t tid, uint32_t bytes)
{
	struct ping ping = { .pkey = device_of(h)->pkey[0], .path = { .has_grh = true, .hop_limit = 64 }, .tid = tid,
			     .bytes = bytes };
	uint8_t frame[PING_FRAME];

	memcpy(ping.path.sgid, gid, 16);
	memcpy(ping.path.dgid, dgid, 16);
	return roce_port_try(h, frame, build(&ping, frame));
}

static int ask(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct ping_asked *a = &h->pings.asked[h->pings.next++ % PINGS_ASKED];

	*a = (struct ping_asked){ .client = c, .seq = msg->seq, .sent = h->now, .bytes = msg->b };
	random_bytes(&a->tid, sizeof(a->tid));
	memcpy(a->gid, msg->dgid, sizeof(a->gid));
	return pings_ask(h, msg->gid, msg->dgid, a->tid, msg->b);
}

void pings_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	int err = hub_is_owner(h, c) ? roce_port_hold(h) : -EPERM;

	if (!err && !c->holds_wire) {
		c->holds_wire = true;
		h->roce.holders++;
	}
	if (!err && msg->a) {
		err = check(h, msg);
		if (!err)
			err = ask(h, c, msg);
	}
	if (err || !msg->a)
		hub_answer(h, c, msg, -err);
}

void pings_leave(struct hub *h, struct client *c)
{
	for (int i = 0; i < PINGS_ASKED; i++)
		if (h->pings.asked[i].client == c)
			h->pings.asked[i].client = NULL;
	if (!c->holds_wire)
		return;
	c->holds_wire = false;
	h->roce.holders--;
	roce_port_close_unused(h);
}

/* ---- of others ---- */

static enum qp1_fate answered(struct hub *h, const struct ping *ping)
{
	struct control_msg msg = { .type = CTL_PING, .a = 1 };

	for (int i = 0; i < PINGS_ASKED; i++) {
		struct ping_asked *a = &h->pings.asked[i];

		if (!a->client || a->tid != ping->tid || a->bytes != ping->bytes || memcmp(a->gid, ping->path.sgid, 16) != 0)
			continue;
		msg.seq = a->seq;
		msg.b = ping->bytes;
		msg.service = h->now - a->sent;
		msg.text_bytes = (uint32_t)strlen(ping->version);
		h->ops->send(h, a->client, &msg, ping->version, NULL, 0);
		a->client = NULL;
		return QP1_PASSED;
	}
	return probes_answered(h, ping) ? QP1_PASSED : QP1_NOBODY;
}

enum qp1_fate pings_arrived(struct hub *h, const struct ping *ping)
{
	struct ping out = { .pkey = ping->pkey, .path = gmp_path_back(&ping->path), .is_answer = true, .tid = ping->tid,
			    .bytes = ping->bytes };
	uint8_t frame[PING_FRAME];

	if (ping->is_answer)
		return answered(h, ping);
	if (!may_answer(h, ping->path.sgid))
		return QP1_NO_ROOM;
	return roce_port_send(h, frame, build(&out, frame)) ? QP1_ANSWERED : QP1_NO_ROOM;
}
