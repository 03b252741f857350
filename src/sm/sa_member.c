/* Multicast groups: a port makes one, enters it and leaves it, by MCMemberRecords (IBA 15.2.5.17, 15.4.1.3). The last full member
 * takes the group with it. */
#include "sm/sa_query.h"

#include "sm/lanes.h"
#include "sm/sweep.h"
#include "wire/field.h"

#include <string.h>

enum member_component {
	MGID, PORT_GID, QKEY, MLID, MTU_SELECTOR, MTU, TCLASS, PKEY, RATE_SELECTOR, RATE, LIFE_SELECTOR, LIFE, SL, FLOW_LABEL,
	HOP_LIMIT, SCOPE, JOIN_STATE, PROXY_JOIN,
};

/* In a record (table 210) */
#define AT_MGID 0
#define AT_PORT_GID 16
#define M_QKEY 32, 0, 32
#define M_MLID 36, 0, 16
#define M_MTU 38, 2, 6
#define M_TCLASS 39, 0, 8
#define M_PKEY 40, 0, 16
#define M_RATE 42, 2, 6
#define M_LIFE 43, 2, 6
#define M_SL 44, 0, 4
#define M_FLOW_LABEL 44, 4, 20
#define M_HOP_LIMIT 47, 0, 8
#define M_SCOPE 48, 0, 4
#define M_JOIN_STATE 48, 4, 4
#define M_PROXY 49, 0, 1

/* In an MGID that the manager gives: our choice, as OpenSM's but for the number */
#define GIVEN_PREFIX 4, 0, 64
#define GIVEN_NUMBER 12, 0, 16
#define GIVEN_MLID 14, 0, 16

enum {
	BYTES = 56, EXACTLY = 2, LIFE_TIME = 18, LIFE_MOST = 63, SCOPE_LINK_LOCAL = 2,
	JOIN_MASK = 1 << MGID | 1 << PORT_GID | 1 << JOIN_STATE,
	MAKE_MASK = JOIN_MASK | 1 << QKEY | 1 << TCLASS | 1 << PKEY | 1 << FLOW_LABEL | 1 << SL,	/* 15.2.5.17.2 */
	MAKES_GROUPS = MCAST_FULL | MCAST_SEND_ONLY_FULL,	/* as OpenSM's */
	IPOIB_QKEY = 0x0b1b, IPOIB_MTU = 4, IPOIB_RATE = 3,	/* of the broadcast group, as OpenSM's */
};

static void write(const struct mcast_group *g, const struct mcast_member *m, uint8_t record[BYTES])
{
	memset(record, 0, BYTES);
	memcpy(record + AT_MGID, g->mgid, 16);
	wire_put(record, g->qkey, M_QKEY);
	wire_put(record, g->mlid, M_MLID);
	wire_put(record, EXACTLY, 38, 0, 2);
	wire_put(record, g->mtu, M_MTU);
	wire_put(record, g->tclass, M_TCLASS);
	wire_put(record, g->pkey, M_PKEY);
	wire_put(record, EXACTLY, 42, 0, 2);
	wire_put(record, g->rate, M_RATE);
	wire_put(record, EXACTLY, 43, 0, 2);
	wire_put(record, g->life, M_LIFE);
	wire_put(record, g->sl, M_SL);
	wire_put(record, g->flow_label, M_FLOW_LABEL);
	wire_put(record, g->hop_limit, M_HOP_LIMIT);
	wire_put(record, g->scope, M_SCOPE);
	if (!m)
		return;
	memcpy(record + AT_PORT_GID, m->gid, 16);
	wire_put(record, m->join_state, M_JOIN_STATE);
	wire_put(record, m->is_proxy, M_PROXY);
}

/* ---- queries ---- */

/* Selectors are for values that are greater or less. */
static bool fits(const struct sa_query *q, unsigned selector, uint8_t byte, uint32_t is, uint32_t (*measure)(uint8_t))
{
	uint32_t wanted = measure ? measure(byte & 63) : byte & 63u;

	if (!sa_wants(q, selector) || !sa_wants(q, selector + 1))
		return true;
	switch (byte >> 6) {
	case 0:
		return is > wanted;
	case 1:
		return is < wanted;
	case EXACTLY:
		return is == wanted;
	}
	return true;
}

/* Of the same partition, and not both limited, as OpenSM has it; identical ones are, too (o15-0.2.4). */
static bool pkey_fits(const struct sa_query *q, const struct mcast_group *g)
{
	uint16_t wanted = (uint16_t)wire_get(q->wanted, M_PKEY);

	return !sa_wants(q, PKEY) || wanted == g->pkey || pkey_matches(wanted, g->pkey);
}

static bool group_fits(const struct sa_query *q, const struct mcast_group *g)
{
	return pkey_fits(q, g) && fits(q, MTU_SELECTOR, q->wanted[38], g->mtu, NULL) &&
	       fits(q, RATE_SELECTOR, q->wanted[42], sa_rate_mbps(g->rate), sa_rate_mbps) &&
	       fits(q, LIFE_SELECTOR, q->wanted[43], g->life, NULL);
}

/* The other components are as they are wanted. */
static bool matches(const struct sa_query *q, uint64_t but, const uint8_t record[BYTES])
{
	const uint64_t selected = 1ull << PKEY | 1ull << MTU_SELECTOR | 1ull << MTU | 1ull << RATE_SELECTOR | 1ull << RATE |
				  1ull << LIFE_SELECTOR | 1ull << LIFE;

	return sa_record_matches(q->record, q->mask & ~(selected | but), q->wanted, record);
}

static void find_in(struct sa_query *q, struct mcast_group *g)
{
	uint8_t record[BYTES];

	if (!sa_has_pkey(q->s, q->from, g->pkey) || !group_fits(q, g))
		return;
	/* who is in a group is for the trusted to know */
	if (!q->is_trusted && !sa_wants(q, PORT_GID)) {
		write(g, NULL, record);
		/* as OpenSM's: a group has the state of who made it, which is not shown */
		if ((!sa_wants(q, JOIN_STATE) || wire_get(q->wanted, M_JOIN_STATE) == MCAST_FULL) &&
		    matches(q, 1ull << JOIN_STATE, record))
			sa_answer(q, record, sizeof(record));
		return;
	}
	for (uint32_t i = 0; i < g->members; i++) {
		write(g, &g->member[i], record);
		if (!matches(q, 0, record))
			continue;
		/* as OpenSM's: who names a member learns of the group that it is in, and no more */
		if (!q->is_trusted)
			write(g, NULL, record);
		sa_answer(q, record, sizeof(record));
	}
}

void sa_find_members(struct sa_query *q)
{
	for (uint32_t i = 0; i < q->s->groups.count && !q->status; i++)
		find_in(q, &q->s->groups.group[i]);
}

/* ---- joining ---- */

static bool is_full(const struct mcast_group *g)
{
	for (uint32_t i = 0; i < g->members; i++) {
		if (g->member[i].join_state & MAKES_GROUPS)
			return true;
	}
	return false;
}

/* 4.1.1, 15.2.5.17.2: a multicast GID; of the SA's own signature it is the SA's to give. */
static bool mgid_is_good(const uint8_t mgid[16])
{
	bool is_of_the_sa = (mgid[1] & 15) == SCOPE_LINK_LOCAL && mgid[2] == 0xa0 && mgid[3] == 0x1b;

	return mgid[0] == 0xff && !(mgid[1] & 0xe0) && !is_of_the_sa;
}

static bool is_zero(const uint8_t gid[16])
{
	static const uint8_t none[16];

	return !memcmp(gid, none, sizeof(none));
}

/* An MTU or a rate: the one that is asked for, or what the port has. False: it cannot be. */
static bool realise(const struct sa_query *q, unsigned selector, uint8_t byte, uint8_t had, uint32_t (*measure)(uint8_t),
		    uint8_t *value)
{
	uint8_t wanted = byte & 63;
	uint32_t is = measure ? measure(had) : had, asked = measure ? measure(wanted) : wanted;

	*value = had;
	if (!sa_wants(q, selector) || !sa_wants(q, selector + 1) || byte >> 6 == 3)
		return true;
	if (byte >> 6 == EXACTLY) {
		*value = wanted;
		return asked && asked <= is;
	}
	if (byte >> 6 == 0)
		return is > asked;
	/* less: what the port has, or the next below what is asked for; rates do not stand in their order */
	if (is >= asked)
		*value = measure ? sa_slower(wanted) : wanted ? (uint8_t)(wanted - 1) : 0;
	return *value;
}

/* A PacketLifeTime: the one that is asked for, or the manager's, or the one next to what is asked for. False: it cannot be. */
static bool realise_life(const struct sa_query *q, uint8_t byte, uint8_t *life)
{
	uint8_t asked = byte & LIFE_MOST;

	*life = LIFE_TIME;
	if (!sa_wants(q, LIFE))
		return true;
	switch (sa_wants(q, LIFE_SELECTOR) ? byte >> 6 : EXACTLY) {
	case 0:
		*life = asked < LIFE_TIME ? LIFE_TIME : (uint8_t)(asked + 1);
		return asked < LIFE_MOST;
	case 1:
		*life = asked > LIFE_TIME ? LIFE_TIME : (uint8_t)(asked - 1);
		return asked;
	case EXACTLY:
		*life = asked;
	}
	return true;
}

/* The least number that tells this MGID from those of all groups. In other scopes than that of the link, ports may have named
 * many so: each group is looked at once. There are fewer groups than numbers. */
static uint32_t find_number(const struct groups *all, const uint8_t mgid[16])
{
	uint64_t taken[(1 << 16) / 64] = { 0 };
	uint32_t number = 0;

	for (uint32_t i = 0; i < all->count; i++) {
		const uint8_t *other = all->group[i].mgid;
		uint32_t n = (uint32_t)wire_get(other, GIVEN_NUMBER);

		if (!memcmp(other, mgid, 12) && !memcmp(other + 14, mgid + 14, 2))
			taken[n / 64] |= 1ull << n % 64;
	}
	while (taken[number / 64] >> number % 64 & 1)
		number++;
	return number;
}

static void name_group(struct mcast_group *g, const struct sm *s)
{
	uint8_t mgid[16] = { 0xff, (uint8_t)(0x10 | g->scope), 0xa0, 0x1b };

	wire_put(mgid, s->config.prefix, GIVEN_PREFIX);
	wire_put(mgid, g->mlid, GIVEN_MLID);
	wire_put(mgid, find_number(&s->groups, mgid), GIVEN_NUMBER);
	memcpy(g->mgid, mgid, sizeof(mgid));
}

/* One port leaves others half of the MLIDs. */
static bool may_make(const struct sa_query *q)
{
	const struct groups *all = &q->s->groups;
	uint32_t own = 0;

	for (uint32_t i = 0; i < all->count && !q->is_trusted; i++)
		own += all->group[i].maker == q->from;
	return own < groups_most(q->s) / 2;
}

static struct mcast_group *make_group(struct sa_query *q, uint32_t port)
{
	const uint8_t *w = q->wanted, *info = q->s->net.port[port].info;
	bool is_named = !is_zero(w + AT_MGID);
	struct smp_port_info p;
	struct mcast_group *g;
	uint8_t mtu, rate, life;

	smp_port_info_get(&p, info);
	if ((q->mask & MAKE_MASK) != MAKE_MASK)
		q->status = SA_COMPONENTS_MISSING;
	else if (!(wire_get(w, M_JOIN_STATE) & MAKES_GROUPS) || (is_named && !mgid_is_good(w + AT_MGID)) ||
		 !realise(q, MTU_SELECTOR, w[38], p.mtu, NULL, &mtu) ||
		 !realise(q, RATE_SELECTOR, w[42], sa_port_rate(info), sa_rate_mbps, &rate) ||
		 !realise_life(q, w[43], &life) ||
		 !lanes_has_level(q->s, (unsigned)wire_get(w, M_SL)) ||
		 !sa_has_pkey(q->s, port, (uint16_t)wire_get(w, M_PKEY)))
		q->status = SA_REQUEST_INVALID;
	if (q->status)
		return NULL;
	g = may_make(q) ? groups_add(q->s, w + AT_MGID, (uint16_t)wire_get(w, M_MLID)) : NULL;
	if (!g) {
		q->status = SA_NO_RESOURCES;
		return NULL;
	}
	g->maker = q->from;
	g->mtu = mtu;
	g->rate = rate;
	g->life = life;
	g->qkey = (uint32_t)wire_get(w, M_QKEY);
	g->pkey = (uint16_t)wire_get(w, M_PKEY);
	g->tclass = (uint8_t)wire_get(w, M_TCLASS);
	g->sl = (uint8_t)wire_get(w, M_SL);
	g->flow_label = (uint32_t)wire_get(w, M_FLOW_LABEL);
	g->hop_limit = (uint8_t)(sa_wants(q, HOP_LIMIT) ? wire_get(w, M_HOP_LIMIT) : 0);
	g->scope = (uint8_t)(sa_wants(q, SCOPE) ? wire_get(w, M_SCOPE) : is_named ? w[AT_MGID + 1] & 15 : SCOPE_LINK_LOCAL);
	if (!is_named)
		name_group(g, q->s);
	return g;
}

/* The port that enters or leaves: the asker, or one of its partition for which it does so (15.4.1.3). */
static uint32_t find_port(struct sa_query *q)
{
	uint32_t port = sa_port_of_gid(q->s, q->wanted + AT_PORT_GID);

	if ((q->mask & JOIN_MASK) != JOIN_MASK)
		q->status = SA_COMPONENTS_MISSING;
	else if (port == PORT_NONE)
		q->status = SA_GID_INVALID;
	else if (!sa_shares(q->s, q->from, port) || !wire_get(q->wanted, M_JOIN_STATE))
		q->status = SA_REQUEST_INVALID;
	return port;
}

/* o15-0.2.1: who may change a membership. */
static bool may_change(const struct sa_query *q, const struct mcast_group *g, const struct mcast_member *m)
{
	return m->is_proxy ? sa_has_pkey(q->s, q->from, g->pkey) : m->port == q->from;
}

static void end_if_empty(struct sa_query *q, struct mcast_group *g)
{
	if (g->is_permanent || is_full(g))
		return;
	sa_group_changed(q->s, q->now, g->mgid, false);
	groups_remove(q->s, g);
}

/* As OpenSM's: the group's packets get over the port's link, which has the MTU of both its ends, as fast as they may be sent. */
static bool can_do(const struct sm *s, uint32_t port, const struct mcast_group *g)
{
	const uint8_t *info = s->net.port[port].info;
	struct smp_port_info p;

	smp_port_info_get(&p, info);
	return p.mtu >= g->mtu && sa_rate_mbps(sa_port_rate(info)) >= sa_rate_mbps(g->rate);
}

static void enter(struct sa_query *q, struct mcast_group *g, uint32_t port)
{
	struct mcast_member *m = groups_member(g, q->wanted + AT_PORT_GID);
	uint8_t record[BYTES];

	write(g, NULL, record);
	if ((m && !may_change(q, g, m)) || !sa_has_pkey(q->s, port, g->pkey) || !can_do(q->s, port, g) || !group_fits(q, g) ||
	    !matches(q, JOIN_MASK | 1 << MLID | 1 << SCOPE | 1 << PROXY_JOIN, record))
		q->status = SA_REQUEST_INVALID;
	else if (!m)
		m = groups_join(q->s, g, port, q->wanted + AT_PORT_GID);
	if (q->status)
		return;
	if (!m) {
		q->status = SA_NO_RESOURCES;
		return;
	}
	m->is_proxy = port != q->from;
	m->join_state |= (uint8_t)wire_get(q->wanted, M_JOIN_STATE);
	sweep_trees(q->s, false);
	write(g, m, record);
	sa_answer(q, record, sizeof(record));
}

void sa_set_member(struct sa_query *q)
{
	uint32_t port = find_port(q);
	struct mcast_group *g = q->status ? NULL : groups_find(q->s, q->wanted + AT_MGID);
	bool is_new = !g;

	if (!q->status && is_new)
		g = make_group(q, port);
	if (q->status)
		return;
	enter(q, g, port);
	if (!is_new)
		return;
	if (q->status)
		groups_remove(q->s, g);
	else
		sa_group_changed(q->s, q->now, g->mgid, true);
}

/* o15-0.1.14: of states that it has. */
void sa_delete_member(struct sa_query *q)
{
	struct mcast_group *g = find_port(q) == PORT_NONE || q->status ? NULL : groups_find(q->s, q->wanted + AT_MGID);
	struct mcast_member *m = g ? groups_member(g, q->wanted + AT_PORT_GID) : NULL;
	uint8_t state = (uint8_t)wire_get(q->wanted, M_JOIN_STATE), record[BYTES];

	if (q->status)
		return;
	if (!m || !may_change(q, g, m) || state & ~m->join_state) {
		q->status = SA_REQUEST_INVALID;
		return;
	}
	m->join_state &= (uint8_t)~state;
	write(g, m, record);
	sa_answer(q, record, sizeof(record));
	sweep_trees(q->s, true);
	if (!m->join_state)
		groups_leave(q->s, g, m);
	end_if_empty(q, g);
}

/* ---- without being asked ---- */

/* The broadcast group of IP over InfiniBand (RFC 4391, 4), which the default partition has from the beginning. */
void sa_groups_begin(struct sm *s)
{
	static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [12] = 0xff, 0xff, 0xff, 0xff };
	struct mcast_group *g = groups_find(s, mgid);

	if (g)
		return;
	g = groups_add(s, mgid, 0);
	if (!g)
		return;
	g->is_permanent = true;
	g->qkey = IPOIB_QKEY;
	g->mtu = IPOIB_MTU;
	g->rate = IPOIB_RATE;
	g->life = LIFE_TIME;
	g->pkey = PKEY_DEFAULT;
	g->sl = lanes_first_level(s);
	g->scope = SCOPE_LINK_LOCAL;
}

void sa_groups_begin_anew(struct sm *s, wtime now)
{
	struct sa_query q = { .s = s, .now = now };

	for (uint32_t i = s->groups.count; i-- > 0;) {
		s->groups.group[i].members = 0;
		end_if_empty(&q, &s->groups.group[i]);
	}
}

void sa_groups_end_of(struct sm *s, wtime now, uint32_t port)
{
	struct sa_query q = { .s = s, .now = now };

	for (uint32_t i = s->groups.count; i-- > 0;) {
		struct mcast_group *g = &s->groups.group[i];
		bool any = false;

		if (g->maker == port)
			g->maker = PORT_NONE;
		for (uint32_t k = g->members; k-- > 0;) {
			if (g->member[k].port != port)
				continue;
			groups_leave(s, g, &g->member[k]);
			any = true;
		}
		if (any)
			end_if_empty(&q, g);
	}
}
