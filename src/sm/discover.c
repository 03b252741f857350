/* A link is crossed once in a heavy sweep: NodeInfo over it tells what is at its other end. In a light one it is crossed when it
 * has come up: it is initialised, or nothing was known of it. */
#include "sm/discover.h"

#include "base/log.h"
#include "sm/request.h"
#include "wire/field.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { ROUNDS_MOST = 2 };	/* our choice: of a light sweep; then everybody is asked */

static void ask(struct sm *s, enum sm_kind kind, uint32_t node, unsigned number, uint32_t modifier)
{
	request_add(s, &(struct sm_work){ .kind = (uint8_t)kind, .node = node, .number = (uint8_t)number, .modifier = modifier });
}

/* Of an adapter a way leads to each port by itself: here it is the first one that was found. */
static void ask_ports(struct sm *s, uint32_t node)
{
	const struct net_node n = s->net.node[node];

	if (n.type != NODE_SWITCH)
		ask(s, WORK_PORT_INFO, node, n.number, n.number);
	for (unsigned i = 0; n.type == NODE_SWITCH && i <= n.ports; i++)
		ask(s, WORK_PORT_INFO, node, i, i);
}

static void ask_node(struct sm *s, uint32_t node)
{
	ask(s, WORK_DESCRIPTION, node, 0, 0);
	if (net_is_switch(&s->net, node))
		ask(s, WORK_SWITCH_INFO, node, 0, 0);
	ask_ports(s, node);
}

/* ---- answers ---- */

/* Where the answer to NodeInfo came from, beside what it says. */
static void place(struct sm *s, const struct sm_work *w, uint32_t node, unsigned number)
{
	struct net_node *n = &s->net.node[node];
	const struct net_node *from = &s->net.node[w->node];

	n->is_seen = true;
	n->is_here = true;
	n->is_silent = false;
	n->number = (uint8_t)number;
	n->hops = 0;
	n->path[0] = 0;
	if (!w->number || from->hops >= SMP_HOPS_MOST)
		return;
	memcpy(n->path, from->path, from->hops + 1u);
	n->hops = (uint8_t)(from->hops + 1);
	n->path[n->hops] = w->number;
}

static void set_link(struct sm *s, uint32_t from, uint32_t end)
{
	s->has_changed |= s->net.port[from].peer != end;
	net_link(&s->net, from, end);
	s->net.port[from].is_crossed = s->net.port[end].is_crossed = true;
}

/* The port that was asked is told too, which is no change of the node. */
static void learn_info(struct net *net, uint8_t *known, const struct smp_node_info *told, const uint8_t *data)
{
	struct smp_node_info was;

	smp_node_info_get(&was, known);
	was.port_guid = told->port_guid;
	was.local_port = told->local_port;
	smp_node_info_put(&was, known);
	net_learn(net, known, data, SMP_DATA_BYTES);
}

/* Told when it begins to be so, not by each sweep. */
static void refuse(struct sm *s, const struct sm_work *w, const struct smp_node_info *info, int err)
{
	const char *why = err == -ENOMEM ? "there is no memory for it" : err == -E2BIG ? "the subnet has too many nodes" :
			  err == -EEXIST ? "another node has this NodeGUID" :
			  err == -EADDRINUSE ? "another node's port has its PortGUID" : "its NodeInfo is not valid";
	uint64_t from = w->number ? s->net.node[w->node].guid : 0;

	if (!s->has_refused && !s->had_refused)
		log_line(LOG_WARNING, "the subnet manager leaves out the node with the NodeGUID 0x%016" PRIx64 " behind port %u "
			 "of the node 0x%016" PRIx64 ": %s", info->node_guid, w->number, from, why);
	s->has_refused = s->has_failed = true;
}

/* The port at the other end has a link to another port. Whether that is so still, all others have said when the sweep comes to
 * settle it. */
static bool is_elsewhere(const struct sm *s, uint32_t from, uint32_t end)
{
	const struct net_port *p = &s->net.port[end];

	return p->peer != PORT_NONE && p->peer != from && (!s->settles || !s->is_heavy || p->is_crossed);
}

static void dispute(struct sm *s, const struct sm_work *w, const struct smp_node_info *info)
{
	if (!s->settles)
		s->net.port[net_port_index(&s->net, w->node, w->number)].is_disputed = true;
	else if (s->is_heavy)
		refuse(s, w, info, -EEXIST);
	else
		s->heavy_is_due = s->is_due = true;
}

void discover_node_info(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	struct smp_node_info info;
	uint32_t end, from, to;
	bool is_seen;
	int node;

	(void)now;
	if (!data)
		return;
	smp_node_info_get(&info, data);
	from = w->number ? net_port_index(&s->net, w->node, w->number) : PORT_NONE;
	node = net_node(&s->net, from, &info);
	if (node < 0) {
		refuse(s, w, &info, node);
		return;
	}
	to = net_port_index(&s->net, (uint32_t)node, info.local_port);
	if (w->number && is_elsewhere(s, from, to)) {
		dispute(s, w, &info);
		return;
	}
	end = net_port_index(&s->net, (uint32_t)node, info.node_type == NODE_SWITCH ? 0 : info.local_port);
	if (net_set_guid(&s->net, end, info.port_guid))
		s->has_failed = true;
	if (!w->number)
		s->net.own = end;
	/* a cable that leads back to where it begins */
	if (w->number && (!info.local_port || to == from))
		return;
	/* where the manager runs no other way leads to, and is not to be sought */
	is_seen = s->net.node[node].is_seen || (w->number && (uint32_t)node == s->net.owner[s->net.own]);
	learn_info(&s->net, s->net.node[node].info, &info, data);
	if (w->number)
		set_link(s, from, to);
	/* another port of an adapter */
	if (is_seen && w->number && info.node_type != NODE_SWITCH)
		ask(s, WORK_PORT_INFO, (uint32_t)node, info.local_port, info.local_port);
	if (is_seen || (w->number && !s->is_heavy && s->net.node[node].is_here && info.node_type == NODE_SWITCH))
		return;
	place(s, w, (uint32_t)node, info.local_port);
	ask_node(s, (uint32_t)node);
}

void discover_description(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	if (data)
		net_learn(&s->net, s->net.node[w->node].description, data, SMP_DATA_BYTES);
}

/* It was switched off, or its link was down: what was written into it may be gone. */
static void distrust(struct net_port *p)
{
	p->lanes = 0;
	p->has_pkeys = false;
	if (net_has_aliases(p))
		p->guids_due = p->guid_blocks < 32 ? (1u << p->guid_blocks) - 1 : UINT32_MAX;
}

/* A switch that was reset forwards nothing: what was written into it is to be written again. */
static void judge_tables(struct sm *s, struct net_node *n, const struct smp_switch_info *was, const struct smp_switch_info *is)
{
	if (was->linear_top == is->linear_top)
		return;
	s->has_changed = true;
	net_node_forget_tables(n);
	for (unsigned i = 0; i <= n->ports; i++)
		distrust(&s->net.port[n->first_port + i]);
}

void discover_switch_info(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	struct net_node *n = &s->net.node[w->node];
	struct smp_switch_info was, is;

	if (!data)
		return;
	smp_switch_info_get(&was, n->switch_info);
	smp_switch_info_get(&is, data);
	judge_tables(s, n, &was, &is);
	net_learn(&s->net, n->switch_info, data, SMP_DATA_BYTES);
	if (!is.port_state_change)
		return;
	/* a master clears it, by a sweep that follows */
	if (s->state != SM_MASTER) {
		s->is_due = true;
		return;
	}
	n->is_asked = true;
	ask(s, WORK_CLEAR_CHANGE, w->node, 0, 0);
}

/* 14.2.5.4: what was read is written, and PortStateChange is cleared by the 1 that was read. */
void discover_fill_switch(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	memcpy(data, s->net.node[w->node].switch_info, SMP_DATA_BYTES);
}

/* Ports are asked now and not before: a change behind the question of its port sets PortStateChange again. */
void discover_cleared(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	if (data)
		net_learn(&s->net, s->net.node[w->node].switch_info, data, SMP_DATA_BYTES);
	ask_ports(s, w->node);
}

/* The port has a link that works, by which others are reached. */
static bool leads(const struct sm *s, uint32_t port, const struct smp_port_info *info)
{
	uint32_t node = s->net.owner[port];

	if (net_is_switch(&s->net, node) ? !net_port_number(&s->net, port) : port != s->net.own)
		return false;
	return info->phys_state == PHYS_LINK_UP && info->state >= PORT_INIT && s->net.node[node].hops < SMP_HOPS_MOST - 1;
}

static void look_at_link(struct sm *s, uint32_t port, const struct smp_port_info *info)
{
	struct net_port *p = &s->net.port[port];
	bool is_fresh = s->is_heavy || p->peer == PORT_NONE || info->state == PORT_INIT;

	if (info->state == PORT_DOWN && net_port_number(&s->net, port)) {
		s->has_changed |= p->peer != PORT_NONE;
		net_unlink(&s->net, port);
		return;
	}
	if (is_fresh && !p->is_crossed && leads(s, port, info))
		ask(s, WORK_NODE_INFO, s->net.owner[port], net_port_number(&s->net, port), 0);
}

/* An end port says which M_Key it has, if it shows it: another one than the manager's opens it (14.2.4). */
static void note_key(const struct sm *s, struct net_port *p, const struct smp_port_info *info)
{
	p->m_key = info->m_key != s->config.m_key ? info->m_key : 0;
}

static void ask_end(struct sm *s, const struct sm_work *w, uint32_t port, const struct smp_port_info *info)
{
	struct net_port *p = &s->net.port[port];

	p->is_sm = false;
	/* its link was down: it has forgotten its groups, and others have forgotten it */
	p->is_new |= info->state == PORT_INIT;
	note_key(s, p, info);
	if (info->capabilities & CAPABLE_SM && port != s->net.own)
		ask(s, WORK_SM_INFO, w->node, w->number, 0);
	for (uint32_t block = 0; !p->has_guids && block < net_guid_blocks(&s->net, port); block++)
		ask(s, WORK_GUIDS, w->node, w->number, block);
}

/* Of a switch's other ports the first block. */
static void ask_pkeys(struct sm *s, const struct sm_work *w, uint32_t port)
{
	uint32_t number = net_is_switch(&s->net, w->node) ? w->number : 0;
	uint32_t blocks = net_is_end(&s->net, port) ? net_pkey_blocks(&s->net, port) : 1;

	/* a node may have fewer than before */
	s->net.port[port].pkeys_behind = 0;
	for (uint32_t block = 0; block < blocks; block++)
		ask(s, WORK_PKEYS, w->node, w->number, number << 16 | block);
}

void discover_port_info(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	uint32_t port = net_port_index(&s->net, w->node, w->number);
	struct net_port *p = &s->net.port[port];
	struct smp_port_info info;

	if (!data)
		return;
	smp_port_info_get(&info, data);
	s->has_changed |= !p->is_known || info.state == PORT_INIT || info.state == PORT_ARMED;
	s->net.changes += !p->is_known;
	net_learn(&s->net, p->info, data, SMP_DATA_BYTES);
	p->is_known = true;
	if (info.state == PORT_INIT)
		distrust(p);
	/* whoever has no M_Key to name may have written others into an end port */
	if (!p->has_pkeys || (s->is_heavy && net_is_end(&s->net, port)))
		ask_pkeys(s, w, port);
	if (net_is_end(&s->net, port))
		ask_end(s, w, port, &info);
	look_at_link(s, port, &info);
}

void discover_pkeys(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	uint32_t port = net_port_index(&s->net, w->node, w->number);

	if (!data)
		return;
	if (net_learn_pkeys(&s->net, port, w->modifier & 0xffff, data))
		s->has_failed = true;
	s->has_changed |= partitions_differ(s, port);
}

/* Of what could not be read the port is asked again by the next sweep that asks it. */
void discover_guids(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	uint32_t port = net_port_index(&s->net, w->node, w->number);
	struct net_port *p = &s->net.port[port];
	uint64_t guids[NET_GUIDS];

	if (!data || w->modifier >= net_guid_blocks(&s->net, port) || p->guids_due >> w->modifier & 1)
		return;
	for (unsigned i = 0; i < NET_GUIDS; i++)
		guids[i] = wire_get(data + 8 * i, 0, 0, 64);
	if (net_set_guids(&s->net, port, w->modifier, guids))
		s->has_failed = true;
	else
		p->has_guids |= w->modifier + 1 == net_guid_blocks(&s->net, port);
}

/* A table of which a block could not be read is written wholly. */
void discover_lft(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	struct net_node *n = &s->net.node[w->node];

	if (data && net_reserve_lft(n, (w->modifier + 1) * LFT_BLOCK))
		net_learn(&s->net, n->lft + w->modifier * LFT_BLOCK, data, LFT_BLOCK);
	else
		n->is_stale = true;
}

/* ---- sweeps ---- */

void discover_tables(struct sm *s)
{
	for (uint32_t n = 0; n < s->net.nodes; n++) {
		const struct net_node *node = &s->net.node[n];
		struct smp_switch_info info;

		if (!node->is_here || node->type != NODE_SWITCH || node->lft || node->is_stale)
			continue;
		smp_switch_info_get(&info, node->switch_info);
		if (!info.linear_top || info.linear_top >= LIDS)
			continue;
		for (uint32_t block = 0; block <= info.linear_top / (uint32_t)LFT_BLOCK; block++)
			ask(s, WORK_LFT, n, 0, block);
	}
}

void discover_all(struct sm *s)
{
	s->others = 0;
	for (uint32_t n = 0; n < s->net.nodes; n++)
		s->net.node[n].is_seen = s->net.node[n].is_silent = false;
	for (uint32_t p = 0; p < s->net.ports; p++)
		s->net.port[p].is_crossed = s->net.port[p].is_disputed = false;
	ask(s, WORK_NODE_INFO, s->net.nodes ? s->net.owner[s->net.own] : 0, 0, 0);
}

void discover_changes(struct sm *s)
{
	for (uint32_t p = 0; p < s->net.ports; p++) {
		s->net.port[p].is_crossed = s->net.port[p].is_disputed = false;
		if (s->net.port[p].is_sm || s->net.port[p].is_asked)
			discover_port(s, p);
		s->net.port[p].is_asked = false;
	}
	for (uint32_t n = 0; n < s->net.nodes; n++) {
		s->net.node[n].is_seen = s->net.node[n].is_silent = s->net.node[n].is_asked = false;
		if (s->net.node[n].is_here && net_is_switch(&s->net, n))
			ask(s, WORK_SWITCH_INFO, n, 0, 0);
	}
	/* two adapters with a link between them have no switch to ask */
	if (s->net.nodes && !net_is_switch(&s->net, s->net.owner[s->net.own]))
		ask_ports(s, s->net.owner[s->net.own]);
}

void discover_port(struct sm *s, uint32_t port)
{
	uint32_t node = s->net.owner[port];

	if (!s->net.node[node].is_here)
		return;
	ask(s, WORK_DESCRIPTION, node, 0, 0);
	ask(s, WORK_PORT_INFO, node, net_port_number(&s->net, port), net_port_number(&s->net, port));
}

/* What was not found again is not there any more: a node that did not answer, a link that did not lead there. */
static void forget_unseen(struct sm *s)
{
	for (uint32_t port = 0; port < s->net.ports; port++) {
		const struct net_port *p = &s->net.port[port];

		if (p->peer == PORT_NONE || (p->is_crossed && s->net.node[s->net.owner[port]].is_seen))
			continue;
		net_unlink(&s->net, port);
		s->has_changed = true;
	}
}

/* Those that did not answer a light sweep, and that there is a way to as before, or another one. A switch that may have been
 * cleared does not say any more that its ports are to be asked. */
static uint32_t ask_silent(struct sm *s)
{
	uint32_t silent = 0;

	for (uint32_t n = 0; n < s->net.nodes; n++) {
		if (!s->net.node[n].is_silent || !s->net.node[n].is_here)
			continue;
		s->net.node[n].is_silent = false;
		silent++;
		if (net_is_switch(&s->net, n) && !s->net.node[n].is_asked)
			ask(s, WORK_SWITCH_INFO, n, 0, 0);
		else
			ask_ports(s, n);
	}
	return silent;
}

static bool any_is_silent(const struct sm *s)
{
	for (uint32_t n = 0; n < s->net.nodes; n++) {
		if (s->net.node[n].is_silent && s->net.node[n].is_here)
			return true;
	}
	return false;
}

/* What leads to ports that were found elsewhere, once: all other links have been looked at. */
static bool ask_disputed(struct sm *s)
{
	bool asks = false;

	for (uint32_t port = 0; port < s->net.ports && !s->settles; port++) {
		if (!s->net.port[port].is_disputed)
			continue;
		ask(s, WORK_NODE_INFO, s->net.owner[port], net_port_number(&s->net, port), 0);
		asks = true;
	}
	s->settles |= asks;
	return asks;
}

bool discover_end(struct sm *s)
{
	if (s->net.own == PORT_NONE)
		return false;
	if (ask_disputed(s))
		return true;
	if (s->is_heavy)
		forget_unseen(s);
	net_find_ways(&s->net);
	s->has_failed |= s->is_heavy && any_is_silent(s);
	/* who is silent and gone is no failure */
	if (s->is_heavy || !ask_silent(s))
		return false;
	if (s->rounds++ < ROUNDS_MOST)
		return true;
	request_drop_all(s);
	s->heavy_is_due = s->is_due = true;
	return false;
}
