#include "sm/configure.h"

#include "sm/lanes.h"
#include "sm/lids.h"
#include "sm/groups.h"
#include "sm/request.h"
#include "sm/routing.h"
#include "wire/field.h"

#include <stdlib.h>
#include <string.h>

enum {
	LIFE_TIME = 18,			/* of a packet in a switch: 4.096 us * 2^18, about a second, as OpenSM's */
	HOQ_LIFE = 18, LEAF_HOQ_LIFE = 16,	/* of the packet at the head of a queue, to a switch and to others, as OpenSM's */
	VL_STALL = 7,			/* packets dropped until a lane is stalled, as OpenSM's */
	ERRORS = 8,			/* of a link, and of its buffers, until they count, as OpenSM's */
	MULTICAST_NONE = 255,
	M_KEY_PROTECT = 3,		/* M_KeyProtectBits: 14.2.4.1 */
};

static void write_later(struct sm *s, enum sm_kind kind, uint32_t node, unsigned number, uint32_t modifier)
{
	request_add(s, &(struct sm_work){ .kind = (uint8_t)kind, .node = node, .number = (uint8_t)number, .modifier = modifier });
}

/* ---- switches ---- */

static uint32_t top_of(const struct sm *s)
{
	return routing_lids(s) ? routing_lids(s) - 1 : 0;
}

static void want_switch(const struct sm *s, uint32_t node, struct smp_switch_info *want)
{
	uint32_t top = top_of(s);

	smp_switch_info_get(want, s->net.node[node].switch_info);
	want->linear_top = (uint16_t)(want->linear_cap && top >= want->linear_cap ? want->linear_cap - 1u : top);
	want->life_time = LIFE_TIME;
	/* 0 leaves it as it is: a change that no port has told of yet is not to be lost */
	want->port_state_change = 0;
}

void configure_fill_switch(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	struct smp_switch_info want;

	want_switch(s, w->node, &want);
	smp_switch_info_put(&want, data);
}

void configure_switch(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	if (data)
		net_learn(&s->net, s->net.node[w->node].switch_info, data, SMP_DATA_BYTES);
	else
		s->has_failed = true;
}

static void configure_switch_tables(struct sm *s, uint32_t node)
{
	struct net_node *n = &s->net.node[node];
	const uint8_t *want = routing_lft(s, node);
	struct smp_switch_info is, to_be;
	bool all;

	if (n->is_stale) {
		net_node_forget_tables(n);
		s->net.changes++;
	}
	all = !n->lft;
	smp_switch_info_get(&is, n->switch_info);
	want_switch(s, node, &to_be);
	if (is.linear_top != to_be.linear_top || is.life_time != to_be.life_time)
		write_later(s, WORK_SET_SWITCH, node, 0, 0);
	if (!want)
		return;
	for (uint32_t block = 0; block <= to_be.linear_top / (uint32_t)LFT_BLOCK; block++) {
		uint32_t at = block * LFT_BLOCK;

		if (all || at >= n->lft_entries || memcmp(n->lft + at, want + at, LFT_BLOCK) != 0)
			write_later(s, WORK_SET_LFT, node, 0, block);
	}
}

void configure_fill_lft(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	const uint8_t *want = routing_lft(s, w->node);

	if (want && (w->modifier + 1) * LFT_BLOCK <= routing_lids(s))
		memcpy(data, want + w->modifier * LFT_BLOCK, LFT_BLOCK);
	else
		memset(data, LFT_NONE, LFT_BLOCK);
}

/* A table of which a block could not be written is written wholly the next time. */
void configure_lft(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	struct net_node *n = &s->net.node[w->node];

	if (data && net_reserve_lft(n, (w->modifier + 1) * LFT_BLOCK)) {
		net_learn(&s->net, n->lft + w->modifier * LFT_BLOCK, data, LFT_BLOCK);
		return;
	}
	s->has_failed = true;
	n->is_stale = true;
}

void configure_trees(struct sm *s)
{
	s->trees_at = WTIME_NEVER;
	if (groups_compute(s)) {
		s->has_failed = true;
		return;
	}
	for (uint32_t n = 0; n < s->net.nodes; n++) {
		const struct net_node *node = &s->net.node[n];

		if (!node->is_here || node->type != NODE_SWITCH)
			continue;
		for (uint32_t block = 0; block < groups_blocks(s, n); block++) {
			for (unsigned position = 0; position <= node->ports / (unsigned)MFT_PORTS; position++) {
				uint32_t modifier = block | (uint32_t)position << 28;

				if (groups_differs(s, n, modifier))
					write_later(s, WORK_SET_MFT, n, 0, modifier);
			}
		}
	}
}

void configure_fill_mft(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	groups_fill(s, w->node, w->modifier, data);
}

void configure_mft(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	if (data && !groups_note(s, w->node, w->modifier, data))
		return;
	s->has_failed = true;
	s->net.node[w->node].is_stale = true;
}

void configure_tables(struct sm *s)
{
	for (uint32_t n = 0; n < s->net.nodes; n++) {
		if (s->net.node[n].is_here && net_is_switch(&s->net, n))
			configure_switch_tables(s, n);
	}
	configure_trees(s);
}

/* ---- ports ---- */

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* What both ends of a link can do (14.2.5.6). */
static void want_link(const struct sm *s, uint32_t port, struct smp_port_info *want)
{
	struct smp_port_info there = *want;
	uint32_t peer = s->net.port[port].peer;

	if (peer != PORT_NONE && s->net.port[peer].is_known)
		smp_port_info_get(&there, s->net.port[peer].info);
	want->mtu = least(want->mtu_cap, there.mtu_cap);
	want->operational_vls = lanes_of_link(s, port);
	want->vl_high_limit = s->qos.high_limit;
	if (!net_is_switch(&s->net, s->net.owner[port]))
		return;
	want->hoq_life = peer != PORT_NONE && net_is_switch(&s->net, s->net.owner[peer]) ? HOQ_LIFE : LEAF_HOQ_LIFE;
	want->vl_stall = VL_STALL;
	/* by tables that another master wrote: ends of a path judge its packets */
	want->enforce_in = want->enforce_out = 0;
}

static void want_address(const struct sm *s, uint32_t port, struct smp_port_info *want)
{
	want->lid = s->net.port[port].lid;
	want->lmc = net_is_switch(&s->net, s->net.owner[port]) ? 0 : s->config.lmc & LMC_MOST;
	want->sm_lid = s->net.port[s->net.own].lid;
	want->sm_sl = lanes_first_level(s);
	want->prefix = s->config.prefix;
	want->m_key = s->config.m_key;
	want->m_key_protect = s->config.m_key_protect & M_KEY_PROTECT;
	want->m_key_lease = s->config.m_key_lease;
	want->subnet_timeout = s->config.subnet_timeout;
}

/* The port as it is to be, but for its state. */
static void want_port(const struct sm *s, uint32_t port, struct smp_port_info *want)
{
	smp_port_info_get(want, s->net.port[port].info);
	if (net_is_end(&s->net, port))
		want_address(s, port, want);
	if (net_port_number(&s->net, port) && s->net.port[port].peer != PORT_NONE)
		want_link(s, port, want);
	want->phy_errors = ERRORS;
	want->overrun_errors = ERRORS;
	want->reregister = s->net.port[port].is_new && net_is_end(&s->net, port) && want->capabilities & CAPABLE_REREGISTER;
}

static bool differs(const struct sm *s, uint32_t port)
{
	struct smp_port_info want;
	uint8_t data[SMP_DATA_BYTES];

	want_port(s, port, &want);
	smp_port_info_put(&want, data);
	return want.reregister || memcmp(data, s->net.port[port].info, SMP_DATA_BYTES) != 0;
}

/* 14.2.5.6: 0 leaves states and what is enabled as they are. */
static void fill(const struct sm *s, const struct sm_work *w, unsigned state, uint8_t data[SMP_DATA_BYTES])
{
	struct smp_port_info want;

	want_port(s, net_port_index(&s->net, w->node, w->number), &want);
	want.state = (uint8_t)state;
	want.phys_state = 0;
	want.down_default = 0;
	want.width_enabled = 0;
	want.speed_enabled = 0;
	want.ext_enabled = 0;
	smp_port_info_put(&want, data);
}

void configure_fill_port(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	fill(s, w, 0, data);
}

void configure_fill_arm(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	fill(s, w, PORT_ARMED, data);
}

void configure_fill_down(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	fill(s, w, PORT_DOWN, data);
}

void configure_fill_activate(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	fill(s, w, PORT_ACTIVE, data);
}

/* A manager has begun behind the question of its port, which sends no trap before it knows its master. */
static void note_manager(struct sm *s, struct net_port *p, const uint8_t *data)
{
	struct smp_port_info was, is;

	smp_port_info_get(&was, p->info);
	smp_port_info_get(&is, data);
	if (is.capabilities & ~was.capabilities & CAPABLE_SM)
		p->is_asked = s->is_poll_due = true;
}

void configure_port(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	struct net_port *p = &s->net.port[net_port_index(&s->net, w->node, w->number)];

	if (!data) {
		s->has_failed = true;
		return;
	}
	note_manager(s, p, data);
	net_learn(&s->net, p->info, data, SMP_DATA_BYTES);
	wire_put(p->info, 0, 51, 0, 1);		/* ClientReregister is told, not kept */
	p->is_new = false;
	p->m_key = 0;
}

/* ---- GUIDs that were added ---- */

void configure_guid_block(struct sm *s, uint32_t port, uint32_t block)
{
	write_later(s, WORK_SET_GUIDS, s->net.owner[port], net_port_number(&s->net, port), block);
}

static void configure_aliases(struct sm *s, uint32_t port)
{
	const struct net_port *p = &s->net.port[port];

	for (uint32_t block = 0; block < p->guid_blocks; block++) {
		if (p->guids_due >> block & 1)
			configure_guid_block(s, port, block);
	}
}

void configure_fill_guids(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	const struct net_port *p = &s->net.port[net_port_index(&s->net, w->node, w->number)];

	for (unsigned i = 0; i < NET_GUIDS; i++)
		wire_put(data + 8 * i, p->guids[w->modifier * NET_GUIDS + i], 0, 0, 64);
}

/* The first GUID is the port's to tell. What was changed meanwhile is written once more; what the port has not taken is read. A
 * port that is silent hears of it by a later sweep. */
void configure_guids(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	uint32_t port = net_port_index(&s->net, w->node, w->number), bit = 1u << w->modifier;
	struct net_port *p = &s->net.port[port];
	unsigned own = w->modifier ? 0 : 8;
	uint8_t wanted[SMP_DATA_BYTES];

	if (!data && s->net.node[w->node].is_silent) {
		s->has_changed = true;
		s->has_failed |= s->phase != SM_IDLE;
		return;
	}
	configure_fill_guids(s, w, wanted);
	p->guids_due &= ~bit;
	if (p->guids_again & bit) {
		p->guids_again &= ~bit;
		p->guids_due |= bit;
		configure_guid_block(s, port, w->modifier);
	} else if (!data || memcmp(wanted + own, data + own, SMP_DATA_BYTES - own) != 0) {
		write_later(s, WORK_GUIDS, w->node, w->number, w->modifier);
	}
}

static unsigned state_of(const struct sm *s, uint32_t port)
{
	struct smp_port_info info;

	smp_port_info_get(&info, s->net.port[port].info);
	return info.state;
}

static bool is_managed(const struct sm *s, uint32_t port)
{
	const struct net_port *p = &s->net.port[port];

	/* an end port without a LID is not set up */
	if (net_is_end(&s->net, port) && !p->lid)
		return false;
	return p->is_known && s->net.node[s->net.owner[port]].is_here && (net_is_here(&s->net, port) || p->peer != PORT_NONE);
}

/* An end port that has lost its LID goes on carrying data by it, and it may be another port's now. No Set takes a LID away, but a
 * link that goes down comes up INIT and carries SMPs alone (7.2). The other end is told: its answer comes by another link. */
static bool must_stop(const struct sm *s, uint32_t port)
{
	const struct net_port *p = &s->net.port[port];

	return net_is_here(&s->net, port) && !p->lid && p->peer != PORT_NONE && is_managed(s, p->peer) &&
	       state_of(s, port) > PORT_INIT;
}

static void take_down(struct sm *s, uint32_t port)
{
	unsigned number = net_port_number(&s->net, port);

	write_later(s, WORK_DOWN, s->net.owner[port], number, number);
}

void configure_ports(struct sm *s)
{
	for (uint32_t port = 0; port < s->net.ports; port++) {
		unsigned number = net_port_number(&s->net, port);
		bool arms = number && s->net.port[port].peer != PORT_NONE && state_of(s, port) == PORT_INIT;

		if (s->is_reregister_due && net_is_end(&s->net, port))
			s->net.port[port].is_new = true;
		if (net_is_here(&s->net, port))
			configure_aliases(s, port);
		if (is_managed(s, port) && (arms || differs(s, port)))
			write_later(s, arms ? WORK_ARM : WORK_SET_PORT, s->net.owner[port], number, number);
		if (must_stop(s, port))
			take_down(s, s->net.port[port].peer);
	}
	s->is_reregister_due = false;
}

void configure_activate(struct sm *s)
{
	for (uint32_t port = 0; port < s->net.ports; port++) {
		unsigned number = net_port_number(&s->net, port);

		if (number && is_managed(s, port) && s->net.port[port].peer != PORT_NONE && state_of(s, port) == PORT_ARMED)
			write_later(s, WORK_ACTIVATE, s->net.owner[port], number, number);
	}
}
