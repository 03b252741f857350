#include "sm/lanes.h"

#include "sm/request.h"
#include "wire/field.h"

#include <string.h>

/* Of PortInfo (14.2.5.6), and of SwitchInfo (14.2.5.4) */
#define INFO_CAPABILITIES 20, 0, 32
#define INFO_VL_CAP 37, 0, 4
#define INFO_HIGH_CAP 39, 0, 8
#define INFO_LOW_CAP 40, 0, 8
#define SWITCH_OPTIMIZED_SL2VL 11, 7, 1

/* 14.2.5.8: the modifier of a Set for all output ports of a switch, or all input ports of one output port */
enum { ALL_OUT = 1 << 16, ALL_IN = 1 << 17 };
/* 14.2.5.9: blocks of low priority, then of high; entries of one */
enum { BLOCKS = LANES_BLOCKS, LOW_BLOCKS = BLOCKS / 2, ENTRIES = 32 };

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static uint8_t vl_cap(const struct sm *s, uint32_t port)
{
	return (uint8_t)wire_get(s->net.port[port].info, INFO_VL_CAP);
}

uint8_t lanes_of_link(const struct sm *s, uint32_t port)
{
	uint32_t peer = s->net.port[port].peer;
	uint8_t lanes = least(vl_cap(s, port), qos_code(s->qos.max_vls));

	return peer != PORT_NONE && s->net.port[peer].is_known ? least(lanes, vl_cap(s, peer)) : lanes;
}

void lanes_init(struct sm *s, const struct fabric_qos *qos)
{
	unsigned levels = 0;

	if (qos)
		qos_read(qos, &s->qos);
	else
		qos_default(&s->qos);
	for (unsigned i = 0; i < QOS_LEVELS; i++)
		levels |= (unsigned)(s->qos.sl2vl[i] != QOS_NO_LANE) << i;
	s->levels = (uint16_t)levels;
}

bool lanes_has_level(const struct sm *s, unsigned level)
{
	return s->levels >> level & 1;
}

uint8_t lanes_first_level(const struct sm *s)
{
	return s->levels ? (uint8_t)__builtin_ctz(s->levels) : 0;
}

bool lanes_has_block(const struct sm *s, uint32_t port, unsigned block)
{
	const uint8_t *info = s->net.port[port].info;
	unsigned cap = (unsigned)(block > LOW_BLOCKS ? wire_get(info, INFO_HIGH_CAP) : wire_get(info, INFO_LOW_CAP));

	return cap > (block + 1) % LOW_BLOCKS * ENTRIES;
}

/* ---- what is written ---- */

/* VL 15 stays: such packets are dropped. */
static uint8_t fold(uint8_t vl, uint8_t lanes)
{
	return vl == QOS_NO_LANE ? vl : (uint8_t)(vl % qos_lanes(lanes));
}

void lanes_write_levels(const struct sm *s, uint8_t lanes, uint8_t data[SMP_DATA_BYTES])
{
	memset(data, 0, SMP_DATA_BYTES);
	for (unsigned i = 0; i < QOS_LEVELS; i += 2)
		data[i / 2] = (uint8_t)(fold(s->qos.sl2vl[i], lanes) << 4 | fold(s->qos.sl2vl[i + 1], lanes));
}

void lanes_write_turns(const struct sm *s, uint8_t lanes, unsigned block, uint8_t data[SMP_DATA_BYTES])
{
	const struct fabric_vlarb *entry = block > LOW_BLOCKS ? s->qos.high : s->qos.low;

	entry += (block + 1) % LOW_BLOCKS * ENTRIES;
	for (unsigned i = 0; i < ENTRIES; i++) {
		data[2 * i] = fold(entry[i].vl, lanes);
		data[2 * i + 1] = entry[i].weight;
	}
}

/* ---- who is written to ---- */

static void write_later(struct sm *s, enum sm_kind kind, uint32_t port, uint32_t modifier)
{
	request_add(s, &(struct sm_work){ .kind = (uint8_t)kind, .node = s->net.owner[port],
					  .number = (uint8_t)net_port_number(&s->net, port), .modifier = modifier });
}

/* A port that packets leave by, or a switch's own, whose tables nobody knows or that has other lanes now. */
static bool is_due(const struct sm *s, uint32_t port)
{
	const struct net_port *p = &s->net.port[port];
	bool is_own = net_is_switch(&s->net, s->net.owner[port]) && !net_port_number(&s->net, port);

	return p->is_known && s->net.node[s->net.owner[port]].is_here && (is_own || p->peer != PORT_NONE) &&
	       p->lanes != lanes_of_link(s, port);
}

/* 14.2.5.6: a port that has one lane alone need not have tables. */
static bool maps_levels(const struct sm *s, uint32_t port)
{
	uint32_t end = net_is_switch(&s->net, s->net.owner[port]) ? s->net.node[s->net.owner[port]].first_port : port;

	return wire_get(s->net.port[end].info, INFO_CAPABILITIES) & CAPABLE_SL_MAPPING;
}

static void write_turns(struct sm *s, uint32_t port)
{
	unsigned number = net_is_switch(&s->net, s->net.owner[port]) ? net_port_number(&s->net, port) : 0;

	for (unsigned block = 1; block <= BLOCKS; block++) {
		if (lanes_has_block(s, port, block))
			write_later(s, WORK_SET_VLARB, port, block << 16 | number);
	}
}

/* Of a switch by each input port, or all of them at once where it can. */
static void write_levels(struct sm *s, uint32_t port)
{
	const struct net_node *n = &s->net.node[s->net.owner[port]];
	unsigned number = net_port_number(&s->net, port);

	if (n->type != NODE_SWITCH)
		write_later(s, WORK_SET_SL2VL, port, 0);
	else if (wire_get(n->switch_info, SWITCH_OPTIMIZED_SL2VL))
		write_later(s, WORK_SET_SL2VL, port, ALL_IN | number);
	else
		for (unsigned in = 0; in <= n->ports; in++)
			write_later(s, WORK_SET_SL2VL, port, in << 8 | number);
}

/* Several ports of a switch are due, and all that have a link have as many lanes: one SMP tells. */
static bool write_at_once(struct sm *s, uint32_t node)
{
	const struct net_node *n = &s->net.node[node];
	unsigned due = 0;

	if (n->type != NODE_SWITCH || !wire_get(n->switch_info, SWITCH_OPTIMIZED_SL2VL) || !maps_levels(s, n->first_port))
		return false;
	for (uint32_t port = n->first_port; port <= n->first_port + n->ports; port++) {
		due += is_due(s, port);
		if (s->net.port[port].peer != PORT_NONE && lanes_of_link(s, port) != lanes_of_link(s, n->first_port))
			return false;
	}
	if (due > 1)
		write_later(s, WORK_SET_SL2VL, n->first_port, ALL_IN | ALL_OUT);
	return due > 1;
}

static void configure_node(struct sm *s, uint32_t node)
{
	uint32_t first = s->net.node[node].first_port;
	bool is_told = write_at_once(s, node);

	for (uint32_t port = first; port <= first + s->net.node[node].ports; port++) {
		if (!is_due(s, port) || !maps_levels(s, port))
			continue;
		s->net.port[port].lanes = lanes_of_link(s, port);
		if (!is_told)
			write_levels(s, port);
		write_turns(s, port);
	}
}

void lanes_configure(struct sm *s)
{
	for (uint32_t n = 0; n < s->net.nodes; n++) {
		if (s->net.node[n].is_here)
			configure_node(s, n);
	}
}

/* ---- SMPs ---- */

void lanes_fill_levels(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	lanes_write_levels(s, lanes_of_link(s, net_port_index(&s->net, w->node, w->number)), data);
}

void lanes_fill_turns(const struct sm *s, const struct sm_work *w, uint8_t data[SMP_DATA_BYTES])
{
	lanes_write_turns(s, lanes_of_link(s, net_port_index(&s->net, w->node, w->number)), w->modifier >> 16, data);
}

/* What was refused is as it was: packets of some levels may be dropped there, which is no reason to leave the subnet as it is. */
static void forget(struct sm *s, uint32_t port)
{
	s->has_failed |= s->was_silent;
	s->net.port[port].lanes = 0;
}

void lanes_end_levels(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	uint32_t port = net_port_index(&s->net, w->node, w->number);
	unsigned all = w->modifier & ALL_OUT ? s->net.node[w->node].ports : 0;

	for (unsigned i = 0; !data && i <= all; i++)
		forget(s, port + i);
}

void lanes_end_turns(struct sm *s, wtime now, const struct sm_work *w, const uint8_t *data)
{
	if (!data)
		forget(s, net_port_index(&s->net, w->node, w->number));
}
