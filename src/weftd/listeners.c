/* A few services have many listeners, most have one: a hash by service, and exact triples within it. */
#include "weftd/listeners.h"

#include "weftd/ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct listener {
	struct list_node node;		/* hub.listeners */
	struct list_node own;		/* client.listeners */
	struct client *client;
	uint64_t service;
	uint32_t device;		/* index + 1, 0: any */
	uint8_t gid[16];		/* zero: any */
};

static const uint8_t any[16];

static struct list *bucket(struct hub *h, uint64_t service)
{
	return &h->listeners[service * 0x9e3779b97f4a7c15 >> 54 & (HUB_BUCKETS - 1)];
}

static struct listener *find_exact(struct hub *h, uint64_t service, uint32_t device, const uint8_t gid[16])
{
	list_for_each(l, bucket(h, service), struct listener, node) {
		if (l->service == service && l->device == device && memcmp(l->gid, gid, 16) == 0)
			return l;
	}
	return NULL;
}

struct client *listeners_find(struct hub *h, uint64_t service, uint32_t device, const uint8_t dgid[16])
{
	struct listener *l = find_exact(h, service, device + 1, dgid);

	if (!l)
		l = find_exact(h, service, 0, dgid);
	if (!l)
		l = find_exact(h, service, device + 1, any);
	if (!l)
		l = find_exact(h, service, 0, any);
	return l ? l->client : NULL;
}

static int add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct listener *l;
	int err;

	if (msg->a > h->page->devices)
		return -EINVAL;
	if (c->listener_count >= QUOTA_LISTENERS)
		return -EDQUOT;
	if (find_exact(h, msg->service, msg->a, msg->gid))
		return -EADDRINUSE;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	err = ports_listen(h, c, msg->service, msg->gid);
	if (err) {
		free(l);
		return err;
	}
	l->client = c;
	l->service = msg->service;
	l->device = msg->a;
	memcpy(l->gid, msg->gid, 16);
	list_append(bucket(h, l->service), &l->node);
	list_append(&c->listeners, &l->own);
	c->listener_count++;
	return 0;
}

static void free_listener(struct client *c, struct listener *l)
{
	list_remove(&l->node);
	list_remove(&l->own);
	c->listener_count--;
	free(l);
}

void listeners_add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, -add(h, c, msg));
}

void listeners_remove(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct listener *l = find_exact(h, msg->service, msg->a, msg->gid);

	if (!l || l->client != c) {
		hub_answer(h, c, msg, ENOENT);
		return;
	}
	ports_unlisten(h, c, msg->service, msg->gid);
	free_listener(c, l);
	hub_answer(h, c, msg, 0);
}

void listeners_leave(struct hub *h, struct client *c)
{
	struct list_node *n;

	while ((n = list_first(&c->listeners)))
		free_listener(c, container_of(n, struct listener, own));
}
