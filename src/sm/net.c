#include "sm/net.h"

#include "base/array.h"
#include "fabric/fabric.h"
#include "wire/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int net_init(struct net *s)
{
	*s = (struct net){ .own = PORT_NONE };
	s->by_lid = calloc(LIDS, sizeof(*s->by_lid));
	s->is_kept = calloc(LIDS, 1);
	return s->by_lid && s->is_kept ? 0 : -ENOMEM;
}

void net_fini(struct net *s)
{
	for (uint32_t n = 0; n < s->nodes; n++) {
		free(s->node[n].lft);
		free(s->node[n].mft);
	}
	for (uint32_t p = 0; p < s->ports; p++) {
		free(s->port[p].pkeys);
		free(s->port[p].guids);
	}
	free(s->node);
	free(s->port);
	free(s->owner);
	free(s->by_lid);
	free(s->is_kept);
	free(s->by_node.place);
	free(s->by_port.place);
	free(s->kept.place);
	memset(s, 0, sizeof(*s));
}

/* ---- GUIDs ---- */

static struct guid_place *find_place(const struct guid_map *m, uint64_t guid)
{
	/* by the golden ratio, as GUIDs are often counted */
	uint32_t at = (uint32_t)((guid * 0x9e3779b97f4a7c15u) >> 32) & (m->places - 1);

	while (m->place[at].number && m->place[at].guid != guid)
		at = (at + 1) & (m->places - 1);
	return &m->place[at];
}

uint32_t guid_map_find(const struct guid_map *m, uint64_t guid)
{
	return m->places ? find_place(m, guid)->number - 1 : UINT32_MAX;
}

static int grow(struct guid_map *m)
{
	struct guid_map larger = { .places = m->places ? 2 * m->places : 64, .used = m->used };

	larger.place = calloc(larger.places, sizeof(*larger.place));
	if (!larger.place)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->places; i++) {
		if (m->place[i].number)
			*find_place(&larger, m->place[i].guid) = m->place[i];
	}
	free(m->place);
	*m = larger;
	return 0;
}

int guid_map_put(struct guid_map *m, uint64_t guid, uint32_t number)
{
	struct guid_place *p;

	if (2 * m->used >= m->places && grow(m))
		return -ENOMEM;
	p = find_place(m, guid);
	m->used += !p->number;
	*p = (struct guid_place){ .guid = guid, .number = number + 1 };
	return 0;
}

/* ---- nodes ---- */

static int reserve(struct net *s, unsigned ports)
{
	if (s->nodes == NET_NODES || s->ports + ports > NET_PORTS_MOST)
		return -E2BIG;
	if (array_reserve(&s->node, &s->nodes_room, s->nodes + 1, sizeof(*s->node)) ||
	    array_reserve(&s->port, &s->ports_room, s->ports + ports, sizeof(*s->port)))
		return -ENOMEM;
	return array_reserve(&s->owner, &s->owners_room, s->ports + ports, sizeof(*s->owner));
}

static int add(struct net *s, const struct smp_node_info *info)
{
	struct net_node *n;
	int err = reserve(s, info->ports + 1u);

	if (!err)
		err = guid_map_put(&s->by_node, info->node_guid, s->nodes);
	if (err)
		return err;
	n = &s->node[s->nodes];
	*n = (struct net_node){ .guid = info->node_guid, .type = info->node_type, .ports = info->ports,
				   .first_port = s->ports };
	for (unsigned i = 0; i <= info->ports; i++) {
		s->port[s->ports] = (struct net_port){ .peer = PORT_NONE, .is_new = true };
		s->owner[s->ports++] = s->nodes;
	}
	s->changes++;
	return (int)s->nodes++;
}

static bool is_as_told(const struct net_node *n, const struct smp_node_info *info)
{
	return n->guid == info->node_guid && n->type == info->node_type && n->ports == info->ports;
}

/* It is other than it was: an adapter with more ports, for one. What it was is gone, and comes back when it is that again. */
static int replace(struct net *s, const struct smp_node_info *info)
{
	for (uint32_t n = 0; n < s->nodes; n++) {
		if (is_as_told(&s->node[n], info))
			return guid_map_put(&s->by_node, info->node_guid, n) ? -ENOMEM : (int)n;
	}
	return add(s, info);
}

/* What has this GUID now is the node as it has become, if it is where that was; elsewhere it is a second node. One that has moved
 * and changed is taken after a sweep that has not found what it was. */
static bool may_replace(const struct net *s, uint32_t at, uint32_t from)
{
	uint32_t peer = from == PORT_NONE ? PORT_NONE : s->port[from].peer;

	if (s->node[at].is_seen)
		return false;
	return !s->node[at].is_here || from == PORT_NONE || (peer != PORT_NONE && s->owner[peer] == at);
}

/* A port of another node than `at`, which is here and elsewhere, has it. */
static bool is_anothers(const struct net *s, uint64_t port_guid, uint32_t at, uint32_t from)
{
	uint32_t port = port_guid ? guid_map_find(&s->by_port, port_guid) : UINT32_MAX, node;

	if (port == UINT32_MAX)
		return false;
	node = s->owner[port];
	return node != at && guid_map_find(&s->by_node, s->node[node].guid) == node && !may_replace(s, node, from);
}

int net_node(struct net *s, uint32_t from, const struct smp_node_info *info)
{
	uint32_t at = guid_map_find(&s->by_node, info->node_guid);

	if (info->node_type < NODE_CA || info->node_type > NODE_ROUTER || !info->node_guid || info->ports > NODE_PORTS ||
	    (info->node_type != NODE_SWITCH && (!info->local_port || info->local_port > info->ports)) ||
	    info->local_port > info->ports)
		return -EINVAL;
	if (is_anothers(s, info->port_guid, at, from))
		return -EADDRINUSE;
	if (at == UINT32_MAX)
		return add(s, info);
	if (is_as_told(&s->node[at], info))
		return (int)at;
	return may_replace(s, at, from) ? replace(s, info) : -EEXIST;
}

int net_set_guid(struct net *s, uint32_t port, uint64_t guid)
{
	if (s->port[port].guid == guid && net_has_own_guid(s, port))
		return 0;
	s->port[port].guid = guid;
	s->changes++;
	return guid_map_put(&s->by_port, guid, port);
}

/* ---- GUIDInfo ---- */

#define INFO_GUID_CAP 50, 0, 8

uint32_t net_guid_blocks(const struct net *s, uint32_t port)
{
	const struct net_port *p = &s->port[port];
	uint32_t cap = (uint32_t)wire_get(p->info, INFO_GUID_CAP);

	if (p->guids)
		return p->guid_blocks;
	return cap > NET_GUIDS ? (cap + NET_GUIDS - 1) / NET_GUIDS : 1;
}

/* All but the first one, which is the port's own. */
static uint32_t count_aliases(const struct net_port *p)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i < p->guid_blocks * (uint32_t)NET_GUIDS; i++)
		n += p->guids[i] != 0;
	return n;
}

bool net_has_aliases(const struct net_port *p)
{
	return count_aliases(p) != 0;
}

int net_set_guids(struct net *s, uint32_t port, uint32_t block, const uint64_t guids[NET_GUIDS])
{
	struct net_port *p = &s->port[port];
	uint32_t blocks = net_guid_blocks(s, port);
	uint64_t *known;

	if (!p->guids)
		p->guids = calloc((size_t)blocks * NET_GUIDS, sizeof(*p->guids));
	if (!p->guids)
		return -ENOMEM;
	p->guid_blocks = (uint8_t)blocks;
	known = p->guids + (size_t)block * NET_GUIDS;
	s->aliases -= count_aliases(p);
	s->writes += memcmp(known, guids, NET_GUIDS * sizeof(*guids)) != 0;
	memcpy(known, guids, NET_GUIDS * sizeof(*guids));
	s->aliases += count_aliases(p);
	return 0;
}

static bool has_alias(const struct net_port *p, uint64_t guid)
{
	for (uint32_t i = 1; i < p->guid_blocks * (uint32_t)NET_GUIDS; i++) {
		if (p->guids[i] == guid)
			return true;
	}
	return false;
}

uint32_t net_port_of_guid(const struct net *s, uint64_t guid)
{
	uint32_t port = guid_map_find(&s->by_port, guid);

	if (port != UINT32_MAX || !s->aliases || !guid)
		return port;
	for (port = 0; port < s->ports && !has_alias(&s->port[port], guid);)
		port++;
	return port < s->ports ? port : PORT_NONE;
}

void net_distrust_ports(struct net *s)
{
	for (uint32_t port = 0; port < s->ports; port++)
		s->port[port].has_guids = s->port[port].has_pkeys = false;
}

void net_drop_due_guids(struct net *s)
{
	for (uint32_t port = 0; port < s->ports; port++)
		s->port[port].guids_due = s->port[port].guids_again = 0;
}

bool net_is_here(const struct net *s, uint32_t port)
{
	const struct net_port *p = &s->port[port];

	if (!net_is_end(s, port) || !p->is_known || !p->guid || !s->node[s->owner[port]].is_here)
		return false;
	return net_is_switch(s, s->owner[port]) || p->peer != PORT_NONE || port == s->own;
}

uint32_t net_port_of_lid(const struct net *s, uint32_t lid)
{
	return lid < LIDS ? s->by_lid[lid] - 1 : PORT_NONE;
}

void net_learn(struct net *s, void *known, const void *told, size_t bytes)
{
	s->changes += memcmp(known, told, bytes) != 0;
	memcpy(known, told, bytes);
}

#define INFO_PARTITION_CAP 28, 0, 16

/* 14.2.5.3: there is one at least; who says that there are none has a block. */
uint32_t net_pkey_entries(const struct net *s, uint32_t port)
{
	uint32_t cap = (uint32_t)wire_get(s->node[s->owner[port]].info, INFO_PARTITION_CAP);

	return cap ? cap : NET_PKEYS;
}

uint32_t net_pkey_blocks(const struct net *s, uint32_t port)
{
	uint32_t blocks = (net_pkey_entries(s, port) + NET_PKEYS - 1) / NET_PKEYS;

	return blocks < NET_PKEY_BLOCKS ? blocks : NET_PKEY_BLOCKS;
}

/* What is behind the last entry is none. */
int net_learn_pkeys(struct net *s, uint32_t port, uint32_t block, const uint8_t data[SMP_DATA_BYTES])
{
	struct net_port *p = &s->port[port];
	static const uint8_t empty[SMP_DATA_BYTES];
	uint32_t first = block * (uint32_t)NET_PKEYS, end = net_pkey_entries(s, port);
	uint16_t pkeys[NET_PKEYS] = { 0 };
	unsigned entries = end <= first ? 0 : end - first < NET_PKEYS ? end - first : NET_PKEYS;

	if (block) {
		p->pkeys_behind &= ~(1u << block);
		p->pkeys_behind |= (uint32_t)(memcmp(data, empty, 2 * entries) != 0) << block;
		return 0;
	}
	if (!p->pkeys)
		p->pkeys = calloc(NET_PKEYS, sizeof(*p->pkeys));
	p->has_pkeys = p->pkeys;
	if (!p->pkeys)
		return -ENOMEM;
	for (unsigned i = 0; i < entries; i++)
		pkeys[i] = (uint16_t)(data[2 * i] << 8 | data[2 * i + 1]);
	net_learn(s, p->pkeys, pkeys, sizeof(pkeys));
	return 0;
}

/* ---- links ---- */

void net_unlink(struct net *s, uint32_t port)
{
	uint32_t peer = s->port[port].peer;

	s->port[port].peer = PORT_NONE;
	if (peer == PORT_NONE)
		return;
	s->port[peer].peer = PORT_NONE;
	s->changes++;
}

void net_link(struct net *s, uint32_t a, uint32_t b)
{
	if (s->port[a].peer == b)
		return;
	net_unlink(s, a);
	net_unlink(s, b);
	s->port[a].peer = b;
	s->port[b].peer = a;
	s->changes++;
}

bool net_reserve_lft(struct net_node *n, uint32_t lids)
{
	uint8_t *lft;

	if (n->lft_entries >= lids)
		return true;
	lft = realloc(n->lft, lids);
	if (!lft)
		return false;
	memset(lft + n->lft_entries, LFT_NONE, lids - n->lft_entries);
	n->lft = lft;
	n->lft_entries = lids;
	return true;
}

void net_node_forget_tables(struct net_node *n)
{
	free(n->lft);
	free(n->mft);
	n->lft = NULL;
	n->mft = NULL;
	n->lft_entries = n->mft_entries = 0;
	n->is_stale = false;
}

void net_forget_tables(struct net *s)
{
	for (uint32_t n = 0; n < s->nodes; n++)
		net_node_forget_tables(&s->node[n]);
	for (uint32_t port = 0; port < s->ports; port++)
		s->port[port].lanes = 0;
	s->changes++;
}

uint8_t net_write_way(const struct net *s, uint32_t node, unsigned number, uint8_t path[SMP_HOPS_MOST + 1])
{
	const struct net_node *n = &s->node[node], *last;
	uint32_t peer = net_is_switch(s, node) || !number || number > n->ports ? PORT_NONE :
			s->port[net_port_index(s, node, number)].peer;

	last = peer == PORT_NONE ? n : &s->node[s->owner[peer]];
	if (number == n->number || last->type != NODE_SWITCH || last->hops >= SMP_HOPS_MOST)
		last = n;
	memcpy(path, last->path, last->hops + 1u);
	if (last == n)
		return n->hops;
	path[last->hops + 1] = (uint8_t)net_port_number(s, peer);
	return (uint8_t)(last->hops + 1);
}

static void forget_links(struct net *s, uint32_t node)
{
	const struct net_node *n = &s->node[node];

	for (unsigned i = 0; i <= n->ports; i++) {
		net_unlink(s, n->first_port + i);
		s->port[n->first_port + i].is_known = false;
		s->port[n->first_port + i].is_sm = false;
		s->port[n->first_port + i].lanes = 0;
		s->port[n->first_port + i].m_key = 0;
	}
	/* it may be switched off */
	net_node_forget_tables(&s->node[node]);
}

/* The way to a node by a port of one that has a way. */
static void lead(struct net *s, uint32_t from, unsigned number, uint32_t to)
{
	const struct net_node *a = &s->node[from];
	struct net_node *b = &s->node[s->owner[to]];

	b->is_here = true;
	b->hops = (uint8_t)(a->hops + 1);
	b->number = (uint8_t)net_port_number(s, to);
	memcpy(b->path, a->path, a->hops + 1u);
	b->path[b->hops] = (uint8_t)number;
}

/* By breadth. The order of the search is kept in no memory but the nodes' own hops: a pass for each number of hops. */
static bool step(struct net *s, unsigned hops)
{
	uint32_t own = s->owner[s->own];
	bool any = false;

	for (uint32_t n = 0; n < s->nodes; n++) {
		const struct net_node *node = &s->node[n];

		if (!node->is_here || node->hops != hops || (n != own && node->type != NODE_SWITCH))
			continue;
		for (unsigned i = 1; i <= node->ports; i++) {
			uint32_t peer = s->port[node->first_port + i].peer;

			if (peer == PORT_NONE || s->node[s->owner[peer]].is_here ||
			    (n == own && node->type != NODE_SWITCH && node->first_port + i != s->own))
				continue;
			lead(s, n, i, peer);
			any = true;
		}
	}
	return any;
}

void net_find_ways(struct net *s)
{
	for (uint32_t n = 0; n < s->nodes; n++)
		s->node[n].is_here = n == s->owner[s->own];
	for (unsigned hops = 0; hops < SMP_HOPS_MOST && step(s, hops);)
		hops++;
	for (uint32_t n = 0; n < s->nodes; n++) {
		if (!s->node[n].is_here)
			forget_links(s, n);
	}
}

bool net_way_leads(const struct net *s, uint32_t node)
{
	const struct net_node *n = &s->node[node];
	uint32_t at = s->owner[s->own];

	for (unsigned hop = 1; hop <= n->hops; hop++) {
		uint32_t peer = n->path[hop] > s->node[at].ports ? PORT_NONE : s->port[net_port_index(s, at, n->path[hop])].peer;

		if (peer == PORT_NONE)
			return false;
		at = s->owner[peer];
	}
	return at == node;
}
