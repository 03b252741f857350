/* The rules are those of bind(2) as the kernel's rdma_cm keeps them: two reservations of one port collide unless both
 * allow reuse and the earlier one does not listen, or both name an address and the addresses differ, or each names one of
 * another family or all of that. Nobody looks at reservations one by one: they are counted by service, by address and by client,
 * so that each question is a few lookups. */
#include "weftd/ports.h"

#include "weftd/account.h"
#include "weftd/listeners.h"
#include "weftd/random.h"
#include "weftd/subnet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PORT_MASK = 0xffff,
	FIRST_FOR_ALL = 1024,	/* PROT_SOCK: Linux's cma_use_port gives those below to CAP_NET_BIND_SERVICE alone, EACCES */
	CHOICES = 256,		/* our choice: so many candidates for a port are looked at */
};

/* The reservations of a service: at one address or at all, of one client or of everybody. */
struct holding {
	struct hash_node node;		/* hub.ports */
	struct holding_key {
		uint64_t service;
		uint64_t place;			/* a port of the fabric, or PORT_NONE */
		const struct client *client;	/* NULL: everybody there */
		uint64_t is_whole;		/* at all addresses; gid is zero */
		uint8_t gid[16];
	} key;
	uint32_t total[CONTROL_FAMILIES], firm[CONTROL_FAMILIES];	/* firm: who cannot share it, or listens */
	struct list ports;		/* struct port.held: those of one client at one address */
};

enum { OF_CLIENT, HOLDINGS = 4 };

struct port {
	struct list_node own;		/* client.ports */
	struct list_node held;		/* holding.ports */
	struct holding *in[HOLDINGS];	/* counts it; OF_CLIENT: of its client at its address */
	struct client *client;
	uint64_t service;
	uint8_t gid[16];
	bool is_reusable, is_listening;
};

/* ---- ports to choose from: a bit for each that is reserved, of the port spaces of rdma/rdma_cma.h ---- */

static uint64_t *used_of(struct hub *h, uint64_t service)
{
	static const uint64_t spaces[PORT_SPACES] = { 0x0002, 0x0106, 0x0111, 0x013f };

	for (int i = 0; i < PORT_SPACES; i++)
		if (service >> 16 == spaces[i])
			return h->ports_used[i];
	return NULL;
}

static void mark(struct hub *h, uint64_t service, bool is_used)
{
	uint64_t *used = used_of(h, service);
	uint32_t at = (uint32_t)(service & PORT_MASK) - PORT_FIRST;

	if (!used || at >= PORT_COUNT)
		return;
	if (is_used)
		used[at / 64] |= 1ull << at % 64;
	else
		used[at / 64] &= ~(1ull << at % 64);
}

/* The first place from `start` on, in a circle, whose bit is not set; PORT_COUNT: all are. */
static uint32_t first_unused(const uint64_t *used, uint32_t start)
{
	for (uint32_t i = 0; i <= PORT_WORDS; i++) {
		uint32_t word = (start / 64 + i) % PORT_WORDS;
		uint64_t free_bits = ~used[word];

		if (i == 0)
			free_bits &= UINT64_MAX << start % 64;
		if (word == PORT_WORDS - 1)
			free_bits &= UINT64_MAX >> (64 - (PORT_COUNT - 1) % 64 - 1);
		if (free_bits)
			return word * 64 + (uint32_t)__builtin_ctzll(free_bits);
	}
	return PORT_COUNT;
}

/* ---- counting ---- */

/* Of this client; is_all: of all that are where it is. */
static struct holding_key key_of(struct hub *h, uint64_t service, const struct client *c, bool is_all, bool is_whole,
				 const uint8_t gid[16])
{
	struct holding_key key = { .service = service, .place = subnet_place(h, c), .client = is_all ? NULL : c,
				   .is_whole = is_whole };

	if (!is_whole)
		memcpy(key.gid, gid, sizeof(key.gid));
	return key;
}

static struct holding *find_holding(struct hub *h, const struct holding_key *key)
{
	struct hash_node *n = hash_table_first(&h->ports, hash_table_hash(&h->ports, key, sizeof(*key)));

	for (; n; n = hash_table_next(n)) {
		struct holding *holding = container_of(n, struct holding, node);

		if (memcmp(&holding->key, key, sizeof(*key)) == 0)
			return holding;
	}
	return NULL;
}

/* Room in the table was made. */
static struct holding *make_holding(struct hub *h, const struct holding_key *key)
{
	struct holding *holding = find_holding(h, key);

	if (holding)
		return holding;
	holding = calloc(1, sizeof(*holding));
	if (!holding)
		return NULL;
	holding->key = *key;
	list_init(&holding->ports);
	hash_table_add(&h->ports, &holding->node, hash_table_hash(&h->ports, key, sizeof(*key)));
	if (key->is_whole && !key->client)
		mark(h, key->service, true);
	return holding;
}

/* Of those counted by family, those that overlap with all addresses of this one. */
static uint32_t of_family(const uint32_t count[CONTROL_FAMILIES], enum control_family family)
{
	uint32_t n = 0;

	for (int of = 0; of < CONTROL_FAMILIES; of++)
		n += control_families_overlap(of, family) ? count[of] : 0;
	return n;
}

static void drop_holding(struct hub *h, struct holding *holding)
{
	if (of_family(holding->total, FAMILY_BOTH))
		return;
	if (holding->key.is_whole && !holding->key.client)
		mark(h, holding->key.service, false);
	hash_table_remove(&h->ports, &holding->node);
	free(holding);
}

static bool is_firm(const struct port *p)
{
	return !p->is_reusable || p->is_listening;
}

static void count(struct port *p, uint32_t by)
{
	enum control_family family = control_family(p->gid);

	for (int i = 0; i < HOLDINGS; i++) {
		p->in[i]->total[family] += by;
		p->in[i]->firm[family] += is_firm(p) ? by : 0;
	}
}

static int enter(struct hub *h, struct port *p)
{
	struct client *c = p->client;
	const struct holding_key key[HOLDINGS] = {
		key_of(h, p->service, c, false, false, p->gid), key_of(h, p->service, c, false, true, NULL),
		key_of(h, p->service, c, true, false, p->gid), key_of(h, p->service, c, true, true, NULL),
	};
	int n = 0;

	if (hash_table_reserve(&h->ports, HOLDINGS))
		return -ENOMEM;
	for (; n < HOLDINGS; n++) {
		p->in[n] = make_holding(h, &key[n]);
		if (!p->in[n])
			goto undo;
	}
	count(p, 1);
	list_append(&p->in[OF_CLIENT]->ports, &p->held);
	return 0;
undo:
	while (n--)
		drop_holding(h, p->in[n]);
	return -ENOMEM;
}

static void set_listening(struct port *p, bool is_listening)
{
	count(p, UINT32_MAX);
	p->is_listening = is_listening;
	count(p, 1);
}

/* How many reservations of this client, or of all that are where it is, overlap with the address; those that nobody can share,
 * or all. */
static uint32_t overlapping(struct hub *h, uint64_t service, const struct client *c, bool is_all, const uint8_t gid[16],
			    bool only_firm)
{
	enum control_family family = control_family(gid);
	bool is_any = memcmp(gid, control_any(family), 16) == 0;
	const struct holding_key key[] = {
		key_of(h, service, c, is_all, is_any, gid), key_of(h, service, c, is_all, false, control_any(family)),
		key_of(h, service, c, is_all, false, control_any(FAMILY_BOTH)),
	};
	uint32_t n = 0;

	for (int i = 0; i < (is_any ? 1 : 3); i++) {
		const struct holding *holding = find_holding(h, &key[i]);

		if (holding)
			n += of_family(only_firm ? holding->firm : holding->total, family);
	}
	return n;
}

bool ports_may_use(struct hub *h, const struct client *c, uint64_t service)
{
	return c->uid == 0 || (service & PORT_MASK) >= FIRST_FOR_ALL || !used_of(h, service);
}

bool ports_others_hold(struct hub *h, const struct client *c, uint64_t service, const uint8_t gid[16])
{
	return overlapping(h, service, c, true, gid, false) > overlapping(h, service, c, false, gid, false);
}

/* ---- questions ---- */

static bool is_taken(struct hub *h, const struct client *c, uint64_t service, const uint8_t gid[16], bool may_reuse)
{
	return overlapping(h, service, c, true, gid, may_reuse) || listeners_others_hear(h, c, service, 0, gid);
}

static int choose(struct hub *h, const struct client *c, const uint8_t gid[16], uint64_t *service)
{
	const uint64_t *used = used_of(h, *service);

	for (int i = 0; i < CHOICES; i++) {
		uint32_t start = random_below(PORT_COUNT), at = used ? first_unused(used, start) : start;
		uint64_t s = *service | (PORT_FIRST + (at < PORT_COUNT ? at : start));	/* used, but at another address? */

		if (is_taken(h, c, s, gid, false))
			continue;
		*service = s;
		return 0;
	}
	return -EADDRNOTAVAIL;
}

static int reserve(struct hub *h, struct client *c, uint64_t *service, const uint8_t gid[16], bool may_reuse)
{
	struct port *p;
	int err = 0;

	if ((*service & PORT_MASK) == 0)
		err = choose(h, c, gid, service);
	else if (!ports_may_use(h, c, *service))
		err = -EACCES;
	else if (is_taken(h, c, *service, gid, may_reuse))
		err = -EADDRINUSE;
	if (err)
		return err;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->client = c;
	p->service = *service;
	p->is_reusable = may_reuse;
	memcpy(p->gid, gid, 16);
	err = enter(h, p);
	if (err) {
		free(p);
		return err;
	}
	list_append(&c->ports, &p->own);
	c->port_count++;
	return 0;
}

static void free_port(struct hub *h, struct port *p)
{
	count(p, UINT32_MAX);
	list_remove(&p->held);
	for (int i = 0; i < HOLDINGS; i++)
		drop_holding(h, p->in[i]);
	list_remove(&p->own);
	p->client->port_count--;
	free(p);
}

/* One that listens, or one that does not. */
static struct port *find_own(struct hub *h, const struct client *c, uint64_t service, const uint8_t gid[16], bool is_listening)
{
	struct holding_key key = key_of(h, service, c, false, false, gid);
	struct holding *holding = find_holding(h, &key);

	if (!holding)
		return NULL;
	list_for_each(p, &holding->ports, struct port, held) {
		if (p->is_listening == is_listening)
			return p;
	}
	return NULL;
}

static bool is_to_choose(uint64_t service)
{
	uint32_t port = service & PORT_MASK;

	return port >= PORT_FIRST && port < PORT_FIRST + PORT_COUNT;
}

/* So many more of the row that this port is in. Who has a large part of its share has no more in advance. */
static uint64_t reserve_more(struct hub *h, struct client *c, const struct control_msg *first, uint32_t more)
{
	uint64_t row = 0, had = 1ull << first->service % CONTROL_PORT_ROW;

	if (c->port_count > QUOTA_PORTS / 2 || more >= CONTROL_PORT_ROW || account_check(h, c, LIMIT_PORTS, more))
		return had;
	for (uint64_t left = ~had; left && more; left &= left - 1) {
		uint64_t service = control_port_of_row(first->service, left);

		if (!is_to_choose(service) || reserve(h, c, &service, first->gid, false))
			continue;
		row |= left & -left;
		more--;
	}
	return had | row;
}

void ports_add(struct hub *h, struct client *c, const struct control_msg *msg)
{
	bool is_chosen = (msg->service & PORT_MASK) == 0;
	struct control_msg answer = *msg;
	int err = reserve(h, c, &answer.service, msg->gid, msg->a == 1);

	answer.b = answer.c = 0;
	if (!err && is_chosen && msg->b && msg->a != 1)
		control_set_port_row(&answer, reserve_more(h, c, &answer, msg->b));
	hub_answer(h, c, &answer, -err);
}

static bool give_back(struct hub *h, struct client *c, uint64_t service, const uint8_t gid[16])
{
	struct port *p = find_own(h, c, service, gid, false);

	if (!p)
		p = find_own(h, c, service, gid, true);
	if (p)
		free_port(h, p);
	return p;
}

void ports_remove(struct hub *h, struct client *c, const struct control_msg *msg)
{
	uint64_t row = control_port_row(msg);
	bool had = !row && give_back(h, c, msg->service, msg->gid);

	for (; row; row &= row - 1)
		had |= give_back(h, c, control_port_of_row(msg->service, row), msg->gid);
	hub_answer(h, c, msg, had ? 0 : ENOENT);
}

void ports_leave(struct hub *h, struct client *c)
{
	struct list_node *n;

	while ((n = list_first(&c->ports)))
		free_port(h, container_of(n, struct port, own));
}

int ports_listen(struct hub *h, struct client *c, uint64_t service, const uint8_t gid[16])
{
	struct port *p = find_own(h, c, service, gid, false);

	if (!p)
		return ports_others_hold(h, c, service, gid) ? -EADDRINUSE : 0;
	if (overlapping(h, service, c, true, gid, false) > 1)	/* itself is one */
		return -EADDRINUSE;
	set_listening(p, true);
	return 0;
}

void ports_unlisten(struct hub *h, struct client *c, uint64_t service, const uint8_t gid[16])
{
	struct port *p = find_own(h, c, service, gid, true);

	if (p)
		set_listening(p, false);
}
