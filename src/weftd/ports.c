/* The rules are those of bind(2) as the kernel's rdma_cm keeps them: two reservations of one port collide unless both
 * allow reuse and the earlier one does not listen, or both name an address and the addresses differ. */
#include "weftd/ports.h"

#include "weftd/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The kernel's default of net.ipv4.ip_local_port_range. */
#define PORT_FIRST 32768u
#define PORT_COUNT (60999u - PORT_FIRST + 1)

struct port {
	struct list_node node;		/* hub.ports */
	struct list_node own;		/* client.ports */
	struct client *client;
	uint64_t service;
	uint8_t gid[16];
	bool is_reusable, is_listening;
};

static struct list *bucket(struct hub *h, uint64_t service)
{
	/* Fibonacci hashing: ports are consecutive */
	return &h->ports[service * 0x9e3779b97f4a7c15 >> 54 & (HUB_BUCKETS - 1)];
}

static bool is_any(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, 16) == 0;
}

static bool addresses_overlap(const uint8_t a[16], const uint8_t b[16])
{
	return is_any(a) || is_any(b) || memcmp(a, b, 16) == 0;
}

static bool is_taken(struct hub *h, uint64_t service, const uint8_t gid[16], bool may_reuse, const struct port *except)
{
	list_for_each(p, bucket(h, service), struct port, node) {
		if (p == except || p->service != service || !addresses_overlap(p->gid, gid))
			continue;
		if (!(may_reuse && p->is_reusable && !p->is_listening))
			return true;
	}
	return false;
}

static struct port *find_own(struct client *c, uint64_t service, const uint8_t gid[16], bool is_listening)
{
	list_for_each(p, &c->ports, struct port, own) {
		if (p->service == service && p->is_listening == is_listening && memcmp(p->gid, gid, 16) == 0)
			return p;
	}
	return NULL;
}

static int choose(struct hub *h, const uint8_t gid[16], uint64_t *service)
{
	uint32_t start = random_below(PORT_COUNT);

	for (uint32_t i = 0; i < PORT_COUNT; i++) {
		uint64_t s = *service | (PORT_FIRST + (start + i) % PORT_COUNT);

		if (is_taken(h, s, gid, false, NULL))
			continue;
		*service = s;
		return 0;
	}
	return -EADDRNOTAVAIL;
}

static int reserve(struct hub *h, struct client *c, uint64_t *service, const uint8_t gid[16], bool may_reuse)
{
	struct port *p;

	if (c->port_count >= QUOTA_PORTS)
		return -EDQUOT;
	if ((*service & 0xffff) == 0) {
		int err = choose(h, gid, service);

		if (err)
			return err;
	} else if (is_taken(h, *service, gid, may_reuse, NULL)) {
		return -EADDRINUSE;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->client = c;
	p->service = *service;
	p->is_reusable = may_reuse;
	memcpy(p->gid, gid, 16);
	list_append(bucket(h, p->service), &p->node);
	list_append(&c->ports, &p->own);
	c->port_count++;
	return 0;
}

static void free_port(struct client *c, struct port *p)
{
	list_remove(&p->node);
	list_remove(&p->own);
	c->port_count--;
	free(p);
}

void ports_add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int err = reserve(h, c, &answer.service, msg->gid, msg->a == 1);

	hub_answer(h, c, &answer, -err);
}

void ports_remove(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct port *p = find_own(c, msg->service, msg->gid, false);

	if (!p)
		p = find_own(c, msg->service, msg->gid, true);
	if (p)
		free_port(c, p);
	hub_answer(h, c, msg, p ? 0 : ENOENT);
}

void ports_leave(struct hub *h, struct client *c)
{
	struct list_node *n;

	while ((n = list_first(&c->ports)))
		free_port(c, container_of(n, struct port, own));
}

int ports_listen(struct hub *h, struct client *c, uint64_t service, const uint8_t gid[16])
{
	struct port *p = find_own(c, service, gid, false);

	if (!p)
		return 0;
	if (is_taken(h, service, gid, false, p))
		return -EADDRINUSE;
	p->is_listening = true;
	return 0;
}

void ports_unlisten(struct hub *h, struct client *c, uint64_t service, const uint8_t gid[16])
{
	struct port *p = find_own(c, service, gid, true);

	if (p)
		p->is_listening = false;
}
