/* Exact triples of each port of the fabric in one table, and beside them how many listeners of a service each client and all
 * clients have there on each device: so both who answers and who would be in the way are a few lookups, however many listeners
 * there are. Each triple stands there once more as that of anywhere: a device that is not of the fabric knows no ports. */
#include "weftd/listeners.h"

#include "weftd/ports.h"
#include "weftd/subnet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct listener {
	struct entry {
		struct hash_node node;		/* hub.listeners */
		struct listener *listener;
		struct listener_key {
			uint64_t service;
			uint64_t place;		/* in the fabric (fabric/host.h), PORT_NONE, or LISTENERS_ANYWHERE */
			uint64_t device;	/* index of a port (fabric/page.h) + 1, 0: any */
			uint8_t gid[16];	/* or control_any */
		} key;
	} at[2];			/* where it is, and anywhere */
	struct list_node own;		/* client.listeners */
	struct tally *in[2];		/* counts it: of its client, of all */
	struct client *client;
};

/* The listeners of a service that a client has, or all have. */
struct tally {
	struct hash_node node;		/* hub.tallies */
	struct tally_key {
		uint64_t service, place;
		const struct client *client;	/* NULL: all */
	} key;
	uint32_t on[CONTROL_FAMILIES][PAGE_DEVICES + 1];	/* by device as in listener_key */
};

static struct listener *find_exact(struct hub *h, uint64_t service, uint32_t place, uint32_t device, const uint8_t gid[16])
{
	struct listener_key key = { .service = service, .place = place, .device = device };
	struct hash_node *n;

	memcpy(key.gid, gid, sizeof(key.gid));
	for (n = hash_table_first(&h->listeners, hash_table_hash(&h->listeners, &key, sizeof(key))); n; n = hash_table_next(n)) {
		const struct entry *e = container_of(n, struct entry, node);

		if (memcmp(&e->key, &key, sizeof(key)) == 0)
			return e->listener;
	}
	return NULL;
}

struct client *listeners_find(struct hub *h, uint64_t service, uint32_t place, uint32_t device, const uint8_t dgid[16])
{
	const uint8_t *const gid[] = { dgid, control_any(control_family(dgid)), control_any(FAMILY_BOTH) };
	struct listener *l = NULL;

	for (int i = 0; i < 3 && !l; i++) {
		l = find_exact(h, service, place, device + 1, gid[i]);
		if (!l)
			l = find_exact(h, service, place, 0, gid[i]);
	}
	return l ? l->client : NULL;
}

/* ---- who is in the way ---- */

static struct tally *find_tally(struct hub *h, uint64_t service, uint32_t place, const struct client *c)
{
	struct tally_key key = { service, place, c };
	struct hash_node *n;

	for (n = hash_table_first(&h->tallies, hash_table_hash(&h->tallies, &key, sizeof(key))); n; n = hash_table_next(n)) {
		struct tally *t = container_of(n, struct tally, node);

		if (!memcmp(&t->key, &key, sizeof(key)))
			return t;
	}
	return NULL;
}

/* On a device, or on any: those that hear what arrives there for addresses of the family. */
static uint32_t hear(struct hub *h, uint64_t service, uint32_t place, const struct client *c, uint32_t device,
		     enum control_family family)
{
	const struct tally *t = find_tally(h, service, place, c);
	uint32_t n = 0;

	for (int of = 0; t && of < CONTROL_FAMILIES; of++)
		for (uint32_t on = 0; on <= PAGE_DEVICES; on++)
			if (control_families_overlap(of, family) && (!on || !device || on == device))
				n += t->on[of][on];
	return n;
}

static bool is_others(struct hub *h, const struct client *c, uint64_t service, uint32_t device, const uint8_t gid[16])
{
	const struct listener *l = find_exact(h, service, subnet_place(h, c), device, gid);

	return l && l->client != c;
}

bool listeners_others_hear(struct hub *h, const struct client *c, uint64_t service, uint32_t device, const uint8_t gid[16])
{
	enum control_family family = control_family(gid);
	uint32_t place = subnet_place(h, c);

	if (memcmp(gid, control_any(family), 16) == 0)
		return hear(h, service, place, NULL, device, family) > hear(h, service, place, c, device, family);
	for (uint32_t on = 0; on <= PAGE_DEVICES; on++) {
		if (on && device && on != device)
			continue;
		if (is_others(h, c, service, on, gid) || is_others(h, c, service, on, control_any(family)) ||
		    is_others(h, c, service, on, control_any(FAMILY_BOTH)))
			return true;
	}
	return false;
}

static struct tally *make_tally(struct hub *h, uint64_t service, uint32_t place, const struct client *c)
{
	struct tally *t = find_tally(h, service, place, c);

	if (t || hash_table_reserve(&h->tallies, 1))
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->key = (struct tally_key){ service, place, c };
	hash_table_add(&h->tallies, &t->node, hash_table_hash(&h->tallies, &t->key, sizeof(t->key)));
	return t;
}

static void drop_tally(struct hub *h, struct tally *t)
{
	static const struct tally none;

	if (!t || memcmp(t->on, none.on, sizeof(t->on)) != 0)
		return;
	hash_table_remove(&h->tallies, &t->node);
	free(t);
}

/* ---- messages ---- */

static int check(struct hub *h, struct client *c, const struct control_msg *msg)
{
	if (msg->a && !subnet_has_index(h, c, msg->a - 1))
		return -EINVAL;
	if (!ports_may_use(h, c, msg->service))
		return -EACCES;
	if (find_exact(h, msg->service, subnet_place(h, c), msg->a, msg->gid) ||
	    listeners_others_hear(h, c, msg->service, msg->a, msg->gid))
		return -EADDRINUSE;
	return 0;
}

static void free_listener(struct hub *h, struct listener *l)
{
	for (int i = 0; i < 2; i++) {
		l->in[i]->on[control_family(l->at[0].key.gid)][l->at[0].key.device]--;
		drop_tally(h, l->in[i]);
		hash_table_remove(&h->listeners, &l->at[i].node);
	}
	list_remove(&l->own);
	l->client->listener_count--;
	free(l);
}

static struct listener *make_listener(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct listener *l = calloc(1, sizeof(*l));
	uint32_t place = subnet_place(h, c);

	if (!l)
		return NULL;
	l->client = c;
	for (int i = 0; i < 2; i++) {
		l->at[i].listener = l;
		l->at[i].key = (struct listener_key){ .service = msg->service, .place = i ? LISTENERS_ANYWHERE : place,
						      .device = msg->a };
		memcpy(l->at[i].key.gid, msg->gid, sizeof(l->at[i].key.gid));
	}
	l->in[0] = make_tally(h, msg->service, place, c);
	l->in[1] = l->in[0] ? make_tally(h, msg->service, place, NULL) : NULL;
	if (l->in[1] && hash_table_reserve(&h->listeners, 2) == 0)
		return l;
	for (int i = 0; i < 2; i++)
		drop_tally(h, l->in[i]);
	free(l);
	return NULL;
}

static int add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct listener *l;
	int err = check(h, c, msg);

	if (err)
		return err;
	l = make_listener(h, c, msg);
	if (!l)
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		struct entry *e = &l->at[i];

		l->in[i]->on[control_family(e->key.gid)][e->key.device]++;
		hash_table_add(&h->listeners, &e->node, hash_table_hash(&h->listeners, &e->key, sizeof(e->key)));
	}
	list_append(&c->listeners, &l->own);
	c->listener_count++;
	err = ports_listen(h, c, msg->service, msg->gid);
	if (err)
		free_listener(h, l);
	return err;
}

void listeners_add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, -add(h, c, msg));
}

void listeners_remove(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct listener *l = find_exact(h, msg->service, subnet_place(h, c), msg->a, msg->gid);

	if (!l || l->client != c) {
		hub_answer(h, c, msg, ENOENT);
		return;
	}
	ports_unlisten(h, c, msg->service, msg->gid);
	free_listener(h, l);
	hub_answer(h, c, msg, 0);
}

void listeners_leave(struct hub *h, struct client *c)
{
	struct list_node *n;

	while ((n = list_first(&c->listeners)))
		free_listener(h, container_of(n, struct listener, own));
}
