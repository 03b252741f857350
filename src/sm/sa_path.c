/* Paths between two ports: as the tables lead, with the MTU and the rate that every link of the way has, and what is asked for
 * by selectors (IBA 15.2.5.16). With an LMC a pair has several: first those whose LIDs have the same path bits, which may use
 * other switches (preference 0), then the others (2, as OpenSM's). Where one LID of a port is wanted, it counts as its first. */
#include "sm/sa_query.h"

#include "fabric/speed.h"
#include "fabric/walk.h"
#include "sm/lanes.h"
#include "sm/routing.h"
#include "wire/field.h"

#include <string.h>

enum {
	WAY_MOST = SWITCHES_MOST + 1,	/* links */
	LIFE_TIME = 18,			/* PacketLifeTime: 4.096 us * 2^18, as OpenSM's */
	REVERSIBLE = 0x80,
	ALTERNATE = 2,			/* Preference of a path whose LIDs have other path bits than each other */
};

/* 15.2.5.16, table 207: the selector before an MTU, a rate, a time */
enum selector { GREATER, LESS, EXACTLY, LARGEST };

/* Components of PathRecord (table 205), in the order of the mask */
enum path_component {
	PATH_DGID = 2, PATH_SGID, PATH_DLID, PATH_SLID, PATH_FLOW_LABEL = 8, PATH_HOP_LIMIT, PATH_TCLASS, PATH_NUMBER = 12,
	PATH_PKEY, PATH_SL = 15, PATH_MTU_SELECTOR, PATH_MTU, PATH_RATE_SELECTOR, PATH_RATE, PATH_LIFE_SELECTOR, PATH_LIFE,
};
/* and of MultiPathRecord (table 208) */
enum multi_component {
	MULTI_NUMBER = 6, MULTI_PKEY, MULTI_SL = 9, MULTI_MTU_SELECTOR, MULTI_MTU, MULTI_RATE_SELECTOR, MULTI_RATE,
	MULTI_LIFE_SELECTOR, MULTI_LIFE,
};

struct choice {
	bool is_made;
	uint8_t selector, value;
};

struct path_query {
	struct sa_query *q;
	struct choice mtu, rate, life;
	bool has_pkey, has_sl, is_multi;
	uint16_t pkey;
	uint8_t sl;
	uint16_t slid, dlid;		/* 0: any */
	uint32_t most;			/* paths: of a pair, and of a MultiPathRecord in all */
};

/* ---- rates ---- */

/* Table 207, and of IBA 1.5 the rates of HDR and NDR */
static const struct {
	uint8_t rate;
	uint32_t mbps;
} rates[] = {
	{ 2, 2500 }, { 5, 5000 }, { 3, 10000 }, { 11, 14000 }, { 6, 20000 }, { 15, 25000 }, { 19, 28000 }, { 4, 30000 },
	{ 7, 40000 }, { 20, 50000 }, { 12, 56000 }, { 8, 60000 }, { 9, 80000 }, { 16, 100000 }, { 13, 112000 }, { 10, 120000 },
	{ 14, 168000 }, { 17, 200000 }, { 18, 300000 }, { 21, 400000 }, { 22, 600000 }, { 23, 800000 }, { 24, 1200000 },
};

enum { RATES = sizeof(rates) / sizeof(rates[0]) };

uint32_t sa_rate_mbps(uint8_t rate)
{
	for (unsigned i = 0; i < RATES; i++) {
		if (rates[i].rate == rate)
			return rates[i].mbps;
	}
	return 0;
}

/* Of PortInfo (14.2.5.6), these alone: a path looks at each port of its way */
#define INFO_WIDTH_ACTIVE 31, 0, 8
#define INFO_SPEED_ACTIVE 35, 0, 4
#define INFO_MTU_CAP 41, 4, 4
#define INFO_EXT_ACTIVE 62, 0, 4

/* Of a lane, as rates count: with what encodes the data. */
static uint32_t lane_mbps(enum link_speed speed)
{
	static const uint32_t mbps[SPEEDS] = {
		[SPEED_SDR] = 2500, [SPEED_DDR] = 5000, [SPEED_QDR] = 10000, [SPEED_FDR10] = 10000, [SPEED_FDR] = 14000,
		[SPEED_EDR] = 25000, [SPEED_HDR] = 50000, [SPEED_NDR] = 100000, [SPEED_XDR] = 200000,
	};

	return speed < SPEEDS ? mbps[speed] : 0;
}

uint8_t sa_port_rate(const uint8_t info[SMP_DATA_BYTES])
{
	uint8_t ext = (uint8_t)wire_get(info, INFO_EXT_ACTIVE), speed = ext ? 0 : (uint8_t)wire_get(info, INFO_SPEED_ACTIVE);
	uint32_t mbps = width_lanes((uint8_t)wire_get(info, INFO_WIDTH_ACTIVE)) * lane_mbps(speed_of_bits(speed, ext));
	uint8_t rate = rates[0].rate;

	for (unsigned i = 0; i < RATES; i++) {
		if (rates[i].mbps <= mbps)
			rate = rates[i].rate;
	}
	return rate;
}

uint8_t sa_slower(uint8_t rate)
{
	unsigned i = 0;

	while (i < RATES && rates[i].rate != rate)
		i++;
	return i && i < RATES ? rates[i - 1].rate : 0;
}

/* ---- one path ---- */

static uint32_t as_is(uint8_t value)
{
	return value;
}

static uint8_t one_less(uint8_t value)
{
	return value > 1 ? (uint8_t)(value - 1) : 0;
}

/* Is the value one that there is? Who asks for the largest says none. */
static bool is_sound(const struct choice *c, bool is_value)
{
	return !c->is_made || c->selector == LARGEST || is_value;
}

static bool choices_are_sound(struct path_query *w)
{
	if (is_sound(&w->mtu, w->mtu.value && w->mtu.value <= MTU_4096) && is_sound(&w->rate, sa_rate_mbps(w->rate.value)))
		return true;
	w->q->status = SA_REQUEST_INVALID;
	return false;
}

/* What is had fits the choice, or is made to. */
static bool choose(const struct choice *c, uint8_t *had, uint32_t (*measure)(uint8_t), uint8_t (*lower)(uint8_t))
{
	uint32_t is = measure(*had), wanted = measure(c->value);

	if (!c->is_made || c->selector == LARGEST)
		return true;
	if (c->selector == GREATER)
		return is > wanted;
	if (c->selector == EXACTLY) {
		*had = is >= wanted ? c->value : *had;
		return is >= wanted;
	}
	if (is >= wanted)
		*had = lower(c->value);
	return *had != 0;
}

struct path {
	bool fits;			/* it is as it is asked for */
	uint8_t mtu, rate, life, sl;
	uint16_t pkey;
};

static void narrow(const struct net *net, uint32_t port, struct path *p)
{
	uint8_t rate = sa_port_rate(net->port[port].info), mtu = (uint8_t)wire_get(net->port[port].info, INFO_MTU_CAP);

	if (mtu < p->mtu)
		p->mtu = mtu;
	if (sa_rate_mbps(rate) < sa_rate_mbps(p->rate))
		p->rate = rate;
}

/* Follows the tables. */
static bool find_way(const struct sm *s, uint32_t from, uint16_t dlid, struct path *p)
{
	uint32_t out[WAY_MOST];
	unsigned links = routing_way(s, from, dlid, out, WAY_MOST);

	p->mtu = (uint8_t)wire_get(s->net.port[from].info, INFO_MTU_CAP);
	p->rate = sa_port_rate(s->net.port[from].info);
	if (!links)
		return net_port_of_lid(&s->net, dlid) == from;
	/* a switch's own port has a rate too, which it says is that of basic speeds */
	narrow(&s->net, net_port_of_lid(&s->net, dlid), p);
	for (unsigned i = 0; i < links; i++) {
		narrow(&s->net, out[i], p);
		narrow(&s->net, s->net.port[out[i]].peer, p);
	}
	return true;
}

static bool choose_pkey(const struct path_query *w, uint32_t from, uint32_t to, struct path *p)
{
	const struct sm *s = w->q->s;

	if (w->has_pkey)
		p->pkey = sa_shares_pkey(s, from, to, w->pkey) ? w->pkey : 0;
	else
		p->pkey = from == to ? sa_own_pkey(s, from) : sa_common_pkey(s, from, to);
	return p->pkey;
}

static void emit(const struct path_query *w, uint32_t from, uint16_t slid, uint32_t to, uint16_t dlid, const struct path *p,
		 uint8_t preference)
{
	uint8_t record[64] = { 0 };

	sa_write_gid(w->q->s, to, record + 8);
	sa_write_gid(w->q->s, from, record + 24);
	wire_put(record, dlid, 40, 0, 16);
	wire_put(record, slid, 42, 0, 16);
	/* raw traffic as it was asked for, no router */
	if (!w->is_multi)
		record[44] = w->q->wanted[44] & 0x80;
	record[49] = REVERSIBLE;
	/* the GID that was asked for, of several that a port may have */
	if (!w->is_multi && sa_wants(w->q, PATH_DGID))
		memcpy(record + 16, w->q->wanted + 16, 8);
	if (!w->is_multi && sa_wants(w->q, PATH_SGID))
		memcpy(record + 32, w->q->wanted + 32, 8);
	wire_put(record, p->pkey, 50, 0, 16);
	record[53] = p->sl;
	record[54] = (uint8_t)(EXACTLY << 6 | p->mtu);
	record[55] = (uint8_t)(EXACTLY << 6 | p->rate);
	record[56] = (uint8_t)(EXACTLY << 6 | p->life);
	record[57] = preference;
	sa_answer(w->q, record, sizeof(record));
}

/* ---- all paths of a pair ---- */

struct lids {
	uint16_t first;
	unsigned count;
};

/* Two ports, and what is known of the paths from the first to the second one. */
struct pair {
	const struct path_query *w;
	uint32_t from, to;
	struct lids slids, dlids;	/* that are wanted */
	struct path all;		/* what is the same of all paths */
	struct path path[1 << LMC_MOST];	/* by DLID: the way is the same from each SLID */
	unsigned known;			/* of these */
};

/* A port's LIDs, or the one that is wanted if it is one of them. None: there were too few LIDs for it. */
static struct lids lids_of(const struct sm *s, uint32_t port, uint16_t wanted)
{
	if (wanted)
		return (struct lids){ wanted, net_port_of_lid(&s->net, wanted) == port };
	if (!s->net.port[port].lid)
		return (struct lids){ 0 };
	return (struct lids){ s->net.port[port].lid,
			      net_is_switch(&s->net, s->net.owner[port]) ? 1 : 1u << (s->config.lmc & LMC_MOST) };
}

/* False: no path of theirs fits, whatever its way. */
static bool begin_pair(struct pair *p, const struct path_query *w, uint32_t from, uint32_t to)
{
	const struct sm *s = w->q->s;

	p->w = w;
	p->from = from;
	p->to = to;
	p->slids = lids_of(s, from, w->slid);
	p->dlids = lids_of(s, to, w->dlid);
	p->all = (struct path){ .life = from == to ? 0 : LIFE_TIME, .sl = w->has_sl ? w->sl : lanes_first_level(s) };
	p->known = 0;
	return sa_shares(s, w->q->from, from) && sa_shares(s, w->q->from, to) && lanes_has_level(s, p->all.sl) &&
	       choose_pkey(w, from, to, &p->all) && (from == to || choose(&w->life, &p->all.life, as_is, one_less));
}

/* Ways to all LIDs before this one become known as well: they are asked for in their order. */
static const struct path *path_to(struct pair *p, unsigned dlid)
{
	const struct path_query *w = p->w;

	for (; p->known <= dlid; p->known++) {
		struct path *path = &p->path[p->known];

		*path = p->all;
		path->fits = find_way(w->q->s, p->from, (uint16_t)(p->dlids.first + p->known), path) &&
			     choose(&w->mtu, &path->mtu, as_is, one_less) &&
			     choose(&w->rate, &path->rate, sa_rate_mbps, sa_slower);
	}
	return &p->path[dlid];
}

/* From and to the LIDs with these numbers. */
static bool try_lids(struct pair *p, unsigned slid, unsigned dlid)
{
	const struct path *path = path_to(p, dlid);

	if (path->fits)
		emit(p->w, p->from, (uint16_t)(p->slids.first + slid), p->to, (uint16_t)(p->dlids.first + dlid), path,
		     slid == dlid ? 0 : ALTERNATE);
	return path->fits;
}

static uint32_t find_all(struct pair *p)
{
	const struct path_query *w = p->w;
	unsigned a = p->slids.count, b = p->dlids.count, both = a < b ? a : b;
	uint32_t found = 0;

	for (unsigned i = 0; i < both && found < w->most && !w->q->status; i++)
		found += try_lids(p, i, i);
	for (unsigned i = 0; i < a; i++) {
		for (unsigned k = 0; k < b && found < w->most && !w->q->status; k++) {
			if (i != k)
				found += try_lids(p, i, k);
		}
	}
	return found;
}

/* Returns how many it has found. */
static uint32_t find_pair(const struct path_query *w, uint32_t from, uint32_t to)
{
	struct pair p;
	uint32_t found = begin_pair(&p, w, from, to) ? find_all(&p) : 0;

	w->q->steps += p.known ? p.known : 1;
	return found;
}

/* This port, if it is here with a LID, or any one that is (PORT_NONE): the first from `at` on. */
static bool next_port(const struct net *net, uint32_t which, uint32_t at, uint32_t *port)
{
	uint32_t end = which == PORT_NONE ? net->ports : which + 1;

	for (*port = which == PORT_NONE || at > which ? at : which; *port < end; ++*port) {
		if (net->port[*port].lid && net_is_here(net, *port))
			return true;
	}
	return false;
}

/* One port, or all that are here; PORT_NONE: from any one to any other. */
static void find_pairs(const struct path_query *w, uint32_t from, uint32_t to)
{
	struct sa_query *q = w->q;
	uint32_t a, b;

	for (; !q->status && next_port(&q->s->net, from, q->at, &a); q->at = a + 1, q->at_to = 0) {
		for (q->at = a; !q->status && next_port(&q->s->net, to, q->at_to, &b); q->at_to = b + 1) {
			if (sa_pauses(q))
				return;
			find_pair(w, a, b);
		}
	}
}

/* ---- PathRecord ---- */

static struct choice choice_of(const struct sa_query *q, unsigned component, uint8_t byte)
{
	return (struct choice){ .is_made = sa_wants(q, component) && sa_wants(q, component + 1), .selector = byte >> 6,
				.value = byte & 63 };
}

/* One end: by GID, or by LID; where both are given, lids_of() judges the LID. False: there is none. */
static bool find_end(struct sa_query *q, bool by_gid, const uint8_t *gid, bool by_lid, uint16_t lid, uint32_t *port)
{
	uint32_t of_lid = by_lid ? net_port_of_lid(&q->s->net, lid) : PORT_NONE;

	*port = by_gid ? sa_port_of_gid(q->s, gid) : of_lid;
	if (by_gid && *port == PORT_NONE)
		q->status = SA_GID_INVALID;
	else if (by_lid && of_lid == PORT_NONE)
		return false;
	return !q->status;
}

/* To a multicast group that there is. These components are compared with its own, as OpenSM does. */
static void find_group(struct sa_query *q, uint32_t most)
{
	const uint64_t compared = 1 << PATH_DLID | 1 << PATH_FLOW_LABEL | 1 << PATH_HOP_LIMIT | 1 << PATH_TCLASS |
				  1 << PATH_PKEY | 1 << PATH_SL;
	const struct mcast_group *g = groups_find(q->s, q->wanted + 8);
	uint8_t record[64];

	if (!most || !g || !sa_has_pkey(q->s, q->from, g->pkey))
		return;
	memcpy(record, q->wanted, sizeof(record));
	wire_put(record, g->mlid, 40, 0, 16);
	wire_put(record, g->flow_label, 44, 4, 20);
	record[47] = g->hop_limit;
	record[48] = g->tclass;
	record[49] = 1;
	wire_put(record, g->pkey, 50, 0, 16);
	wire_put(record, g->sl, 52, 0, 16);
	record[54] = (uint8_t)(EXACTLY << 6 | g->mtu);
	record[55] = (uint8_t)(EXACTLY << 6 | g->rate);
	record[56] = (uint8_t)(EXACTLY << 6 | g->life);
	if (sa_record_matches(q->record, q->mask & compared, q->wanted, record))
		sa_answer(q, record, sizeof(record));
}

void sa_find_paths(struct sa_query *q)
{
	uint16_t slid = (uint16_t)wire_get(q->wanted, 42, 0, 16), dlid = (uint16_t)wire_get(q->wanted, 40, 0, 16);
	struct path_query w = {
		.q = q, .mtu = choice_of(q, PATH_MTU_SELECTOR, q->wanted[54]),
		.rate = choice_of(q, PATH_RATE_SELECTOR, q->wanted[55]), .life = choice_of(q, PATH_LIFE_SELECTOR, q->wanted[56]),
		.has_pkey = sa_wants(q, PATH_PKEY), .pkey = (uint16_t)wire_get(q->wanted, 50, 0, 16),
		.has_sl = sa_wants(q, PATH_SL), .sl = q->wanted[53] & 15, .slid = sa_wants(q, PATH_SLID) ? slid : 0,
		.dlid = sa_wants(q, PATH_DLID) ? dlid : 0, .most = UINT32_MAX,
	};
	uint32_t from, to;

	if (!choices_are_sound(&w))
		return;
	if (q->head.method == MAD_GET)
		w.most = 1;
	else if (sa_wants(q, PATH_NUMBER))
		w.most = q->wanted[49] & 0x7f;
	if (sa_wants(q, PATH_DGID) && q->wanted[8] == 0xff) {
		find_group(q, w.most);
		return;
	}
	if (!find_end(q, sa_wants(q, PATH_SGID), q->wanted + 24, sa_wants(q, PATH_SLID), slid, &from) ||
	    !find_end(q, sa_wants(q, PATH_DGID), q->wanted + 8, sa_wants(q, PATH_DLID), dlid, &to))
		return;
	find_pairs(&w, from, to);
}

/* ---- MultiPathRecord, 15.2.5.20 ---- */

enum {
	MULTI_GIDS = 24, MULTI_GIDS_MOST = 11,	/* where its GIDs begin; as many as a MAD has */
	MULTI_PATHS_MOST = 0x7f,	/* NumbPath has 7 bits: without it as many as with the largest, as OpenSM */
};

static bool find_ends(struct sa_query *q, unsigned count, uint32_t end[MULTI_GIDS_MOST])
{
	for (unsigned i = 0; i < count; i++) {
		end[i] = sa_port_of_gid(q->s, q->wanted + MULTI_GIDS + 16 * i);
		if (end[i] == PORT_NONE) {
			q->status = SA_GID_INVALID;
			return false;
		}
	}
	return true;
}

/* Of a path from one port to another by their first LIDs. */
static unsigned links_between(const struct sm *s, uint32_t from, uint32_t to)
{
	uint32_t out[WAY_MOST];

	return routing_way(s, from, s->net.port[to].lid, out, WAY_MOST);
}

static void sort(const struct net *net, uint32_t port[2])
{
	uint32_t first = port[0];

	if (net->port[first].guid <= net->port[port[1]].guid)
		return;
	port[0] = port[1];
	port[1] = first;
}

static uint16_t lid_number(const struct sm *s, uint32_t port, unsigned n)
{
	struct lids lids = lids_of(s, port, 0);

	return lids.count ? (uint16_t)(lids.first + n % lids.count) : 0;
}

/* By other LIDs, which lead by other switches. False: both are not to be had, and the answer is as it was. */
static bool find_both(struct path_query w, const uint32_t from[2], const uint32_t to[2], bool crosses)
{
	struct sa_query *q = w.q;
	uint32_t found = 0;

	w.most = 1;
	for (unsigned i = 0; i < 2; i++) {
		w.slid = lid_number(q->s, from[i], i);
		w.dlid = lid_number(q->s, to[i ^ crosses], i);
		found += find_pair(&w, from[i], to[i ^ crosses]);
	}
	if (found < 2)
		q->bytes = q->count = 0;
	return found == 2;
}

/* Two paths that have no end in common, so that one stays when a port fails. They are the same whoever asks, and in which order;
 * of the two pairs of paths that there are the shorter ones, if both of them fit. False: neither pair does. */
static bool find_apart(const struct path_query *w, uint32_t from[2], uint32_t to[2])
{
	const struct sm *s = w->q->s;
	bool crosses;

	sort(&s->net, from);
	sort(&s->net, to);
	crosses = links_between(s, from[0], to[1]) + links_between(s, from[1], to[0]) <
		  links_between(s, from[0], to[0]) + links_between(s, from[1], to[1]);
	return find_both(*w, from, to, crosses) || find_both(*w, from, to, !crosses);
}

void sa_find_multi_paths(struct sa_query *q)
{
	unsigned sources = q->wanted[15], destinations = q->wanted[16];
	struct path_query w = {
		.q = q, .is_multi = true, .mtu = choice_of(q, MULTI_MTU_SELECTOR, q->wanted[10]),
		.rate = choice_of(q, MULTI_RATE_SELECTOR, q->wanted[11]),
		.life = choice_of(q, MULTI_LIFE_SELECTOR, q->wanted[12]),
		.has_pkey = sa_wants(q, MULTI_PKEY), .pkey = (uint16_t)wire_get(q->wanted, 6, 0, 16),
		.has_sl = sa_wants(q, MULTI_SL), .sl = q->wanted[9] & 15,
		.most = sa_wants(q, MULTI_NUMBER) ? q->wanted[5] & 0x7fu : MULTI_PATHS_MOST,
	};
	uint32_t end[MULTI_GIDS_MOST] = { 0 };

	if (!sources || !destinations || sources + destinations > MULTI_GIDS_MOST) {
		q->status = SA_COMPONENTS_MISSING;
		return;
	}
	if (!choices_are_sound(&w) || !find_ends(q, sources + destinations, end))
		return;
	if (sources == 2 && destinations == 2 && w.most == 2 && find_apart(&w, end, end + 2))
		return;
	for (unsigned i = 0; i < sources * destinations; i++)
		w.most -= find_pair(&w, end[i / destinations], end[sources + i % destinations]);
}
