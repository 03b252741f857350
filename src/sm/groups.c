#include "sm/groups.h"

#include "base/array.h"
#include "sm/sm.h"
#include "sm/sweep.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void groups_fini(struct sm *s)
{
	struct groups *m = &s->groups;

	for (uint32_t i = 0; i < m->count; i++)
		free(m->group[i].member);
	free(m->group);
	free(m->tree);
	free(m->word_at);
	free(m->mlid);
	memset(m, 0, sizeof(*m));
}

/* ---- groups ---- */

struct mcast_group *groups_find(struct sm *s, const uint8_t mgid[16])
{
	for (uint32_t i = 0; i < s->groups.count; i++) {
		if (!memcmp(s->groups.group[i].mgid, mgid, 16))
			return &s->groups.group[i];
	}
	return NULL;
}

uint32_t groups_most(const struct sm *s)
{
	uint32_t cap = MLIDS;

	for (uint32_t n = 0; n < s->net.nodes; n++) {
		struct smp_switch_info info;

		if (!s->net.node[n].is_here || !net_is_switch(&s->net, n))
			continue;
		smp_switch_info_get(&info, s->net.node[n].switch_info);
		if (info.multicast_cap < cap)
			cap = info.multicast_cap;
	}
	return cap;
}

static bool is_used(const struct sm *s, uint32_t mlid)
{
	for (uint32_t i = 0; i < s->groups.count; i++) {
		if (s->groups.group[i].mlid == mlid)
			return true;
	}
	return false;
}

static uint16_t find_mlid(const struct sm *s, uint16_t wanted)
{
	uint32_t end = MLID_FIRST + groups_most(s), mlid = MLID_FIRST;

	if (wanted >= MLID_FIRST && wanted < end && !is_used(s, wanted))
		return wanted;
	while (mlid < end && is_used(s, mlid))
		mlid++;
	return mlid < end ? (uint16_t)mlid : 0;
}

struct mcast_group *groups_add(struct sm *s, const uint8_t mgid[16], uint16_t wanted)
{
	uint16_t mlid = find_mlid(s, wanted);
	struct mcast_group *g;

	if (!mlid || array_reserve(&s->groups.group, &s->groups.room, s->groups.count + 1, sizeof(*s->groups.group)))
		return NULL;
	g = &s->groups.group[s->groups.count++];
	*g = (struct mcast_group){ .mlid = mlid, .maker = PORT_NONE };
	memcpy(g->mgid, mgid, 16);
	return g;
}

void groups_remove(struct sm *s, struct mcast_group *g)
{
	free(g->member);
	*g = s->groups.group[--s->groups.count];
	sweep_trees(s, true);
}

struct mcast_member *groups_member(struct mcast_group *g, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < g->members; i++) {
		if (!memcmp(g->member[i].gid, gid, 16))
			return &g->member[i];
	}
	return NULL;
}

struct mcast_member *groups_join(struct sm *s, struct mcast_group *g, uint32_t port, const uint8_t gid[16])
{
	struct mcast_member *m = groups_member(g, gid);

	sweep_trees(s, false);
	if (m)
		return m;
	if (array_reserve(&g->member, &g->room, g->members + 1, sizeof(*g->member)))
		return NULL;
	m = &g->member[g->members++];
	*m = (struct mcast_member){ .port = port };
	memcpy(m->gid, gid, 16);
	return m;
}

void groups_leave(struct sm *s, struct mcast_group *g, struct mcast_member *m)
{
	*m = g->member[--g->members];
	sweep_trees(s, true);
}

/* ---- trees ---- */

struct grower {
	const struct net *net;
	uint16_t *tree;			/* of one group */
	const uint32_t *word_at;
	uint32_t *queue;		/* owned */
	uint32_t *way_up;		/* owned: by node, its port to the one nearer to the root; PORT_NONE: not reached */
	uint8_t *in;			/* owned: by node, it is in the tree */
};

static void set_bit(const struct grower *g, uint32_t port)
{
	unsigned number = net_port_number(g->net, port);

	g->tree[g->word_at[g->net->owner[port]] + number / MFT_PORTS] |= (uint16_t)(1u << number % MFT_PORTS);
}

/* The switch that a member is behind, or is. */
static uint32_t switch_of(const struct net *net, uint32_t port)
{
	uint32_t peer = net->port[port].peer;

	if (net_is_switch(net, net->owner[port]))
		return net->owner[port];
	return peer == PORT_NONE || !net_is_switch(net, net->owner[peer]) ? PORT_NONE : net->owner[peer];
}

static void search(const struct grower *g, uint32_t root)
{
	const struct net *net = g->net;
	uint32_t head = 0, tail = 0;

	for (uint32_t n = 0; n < net->nodes; n++) {
		g->way_up[n] = PORT_NONE;
		g->in[n] = 0;
	}
	g->in[root] = 1;
	g->queue[tail++] = root;
	while (head < tail) {
		uint32_t n = g->queue[head++];

		for (unsigned i = 1; i <= net->node[n].ports; i++) {
			uint32_t peer = net->port[net->node[n].first_port + i].peer;
			uint32_t other = peer == PORT_NONE ? n : net->owner[peer];

			if (other == root || other == n || g->way_up[other] != PORT_NONE || !net_is_switch(net, other))
				continue;
			g->way_up[other] = peer;
			g->queue[tail++] = other;
		}
	}
}

static void grow_to(const struct grower *g, uint32_t at)
{
	while (!g->in[at] && g->way_up[at] != PORT_NONE) {
		uint32_t up = g->way_up[at];

		g->in[at] = 1;
		set_bit(g, up);
		set_bit(g, g->net->port[up].peer);
		at = g->net->owner[g->net->port[up].peer];
	}
}

static void grow(const struct grower *g, const struct mcast_group *group)
{
	uint32_t root = PORT_NONE;

	for (uint32_t i = 0; i < group->members; i++) {
		const struct mcast_member *m = &group->member[i];
		uint32_t at = net_is_here(g->net, m->port) ? switch_of(g->net, m->port) : PORT_NONE;

		if (at == PORT_NONE)
			continue;
		if (root == PORT_NONE) {
			root = at;
			search(g, root);
		}
		grow_to(g, at);
		/* who only sends gets none */
		if (m->join_state & (MCAST_FULL | MCAST_NON_MEMBER))
			set_bit(g, net_is_switch(g->net, g->net->owner[m->port]) ? m->port : g->net->port[m->port].peer);
	}
}

static int reserve(struct sm *s)
{
	struct groups *m = &s->groups;

	free(m->tree);
	free(m->mlid);
	free(m->word_at);
	m->tree = NULL;
	m->trees = m->words = 0;
	m->word_at = calloc(s->net.nodes + 1, sizeof(*m->word_at));
	m->mlid = calloc(m->count + 1, sizeof(*m->mlid));
	if (!m->word_at || !m->mlid)
		return -ENOMEM;
	for (uint32_t n = 0; n < s->net.nodes; n++) {
		m->word_at[n] = m->words;
		if (net_is_switch(&s->net, n))
			m->words += s->net.node[n].ports / MFT_PORTS + 1u;
	}
	m->nodes = s->net.nodes;
	m->tree = calloc((size_t)m->count * m->words + 1, sizeof(*m->tree));
	return m->tree ? 0 : -ENOMEM;
}

int groups_compute(struct sm *s)
{
	struct groups *m = &s->groups;
	struct grower g = { .net = &s->net };
	int err = reserve(s);

	g.queue = calloc(s->net.nodes + 1, sizeof(*g.queue));
	g.way_up = calloc(s->net.nodes + 1, sizeof(*g.way_up));
	g.in = calloc(s->net.nodes + 1, 1);
	if (!g.queue || !g.way_up || !g.in)
		err = -ENOMEM;
	g.word_at = m->word_at;
	for (; !err && m->trees < m->count; m->trees++) {
		g.tree = m->tree + (size_t)m->trees * m->words;
		m->mlid[m->trees] = m->group[m->trees].mlid;
		grow(&g, &m->group[m->trees]);
	}
	free(g.queue);
	free(g.way_up);
	free(g.in);
	return err;
}

/* ---- tables ---- */

/* As many words as a switch has for each MLID. */
static unsigned positions(const struct sm *s, uint32_t node)
{
	return s->net.node[node].ports / MFT_PORTS + 1u;
}

uint32_t groups_blocks(const struct sm *s, uint32_t node)
{
	uint32_t end = s->net.node[node].mft_entries;

	for (uint32_t t = 0; t < s->groups.trees; t++) {
		if (s->groups.mlid[t] - MLID_FIRST + 1u > end)
			end = s->groups.mlid[t] - MLID_FIRST + 1u;
	}
	return (end + MFT_BLOCK - 1) / MFT_BLOCK;
}

static void want(const struct sm *s, uint32_t node, uint32_t modifier, uint16_t words[MFT_BLOCK])
{
	uint32_t first = MLID_FIRST + (modifier & 0x1ff) * MFT_BLOCK, position = modifier >> 28;

	memset(words, 0, MFT_BLOCK * sizeof(*words));
	for (uint32_t t = 0; t < s->groups.trees && node < s->groups.nodes; t++) {
		uint32_t entry = s->groups.mlid[t] - first;

		if (entry < MFT_BLOCK)
			words[entry] = s->groups.tree[(size_t)t * s->groups.words + s->groups.word_at[node] + position];
	}
}

/* Where the words of an entry of what was written are. */
static uint16_t *entry_of(const struct sm *s, uint32_t node, uint32_t modifier, unsigned i)
{
	uint32_t entry = (modifier & 0x1ff) * MFT_BLOCK + i;

	return s->net.node[node].mft + (size_t)entry * positions(s, node) + (modifier >> 28);
}

bool groups_differs(const struct sm *s, uint32_t node, uint32_t modifier)
{
	const struct net_node *n = &s->net.node[node];
	uint16_t words[MFT_BLOCK];

	want(s, node, modifier, words);
	if (((modifier & 0x1ff) + 1) * MFT_BLOCK > n->mft_entries)
		return true;
	for (unsigned i = 0; i < MFT_BLOCK; i++) {
		if (*entry_of(s, node, modifier, i) != words[i])
			return true;
	}
	return false;
}

void groups_fill(const struct sm *s, uint32_t node, uint32_t modifier, uint8_t data[SMP_DATA_BYTES])
{
	uint16_t words[MFT_BLOCK];

	want(s, node, modifier, words);
	for (unsigned i = 0; i < MFT_BLOCK; i++) {
		data[2 * i] = (uint8_t)(words[i] >> 8);
		data[2 * i + 1] = (uint8_t)words[i];
	}
}

int groups_note(struct sm *s, uint32_t node, uint32_t modifier, const uint8_t data[SMP_DATA_BYTES])
{
	struct net_node *n = &s->net.node[node];
	uint32_t entries = ((modifier & 0x1ff) + 1) * MFT_BLOCK;

	if (entries > n->mft_entries) {
		size_t each = positions(s, node) * sizeof(*n->mft);
		uint16_t *mft = realloc(n->mft, entries * each);

		if (!mft)
			return -ENOMEM;
		memset((uint8_t *)mft + n->mft_entries * each, 0, (entries - n->mft_entries) * each);
		n->mft = mft;
		n->mft_entries = entries;
	}
	for (unsigned i = 0; i < MFT_BLOCK; i++)
		*entry_of(s, node, modifier, i) = (uint16_t)(data[2 * i] << 8 | data[2 * i + 1]);
	return 0;
}
