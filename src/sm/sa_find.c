/* Records of what the manager knows: nodes, ports, links, tables. A LID that is wanted is looked up; else all are looked at. Each
 * port, and each further record that is made for it, is a step of the search. */
#include "sm/sa_query.h"

#include "sm/groups.h"
#include "sm/lanes.h"
#include "sm/routing.h"
#include "wire/field.h"

#include <string.h>

enum { LID = 0 };	/* the first component of most records */

#define RECORD_LID 0, 0, 16

static void put_lid(uint8_t *record, uint16_t lid)
{
	wire_put(record, lid, RECORD_LID);
}

/* How many other ports stand behind an end port: those of a switch. */
static unsigned others_of(const struct net *net, uint32_t port)
{
	return net_is_switch(net, net->owner[port]) ? net->node[net->owner[port]].ports : 0;
}

/* Goes to the ports of a LID that is wanted. Returns where they end, or all ports do. */
static uint32_t end_of_search(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t port = net_port_of_lid(net, (uint32_t)wire_get(q->wanted, RECORD_LID));

	if (!sa_wants(q, LID))
		return net->ports;
	if (port == PORT_NONE)
		return 0;
	q->at = q->at > port ? q->at : port;
	return port + 1 + others_of(net, port);
}

uint32_t sa_next_end(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t end = end_of_search(q);

	while (!q->status && q->at < end && !sa_pauses(q)) {
		uint32_t port = q->at++;

		if (!net->port[port].lid)
			continue;
		q->steps++;
		if (net_is_here(net, port) && sa_shares(q->s, q->from, port))
			return port;
	}
	return PORT_NONE;
}

void sa_find_nodes(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t port;

	while ((port = sa_next_end(q)) != PORT_NONE) {
		const struct net_node *n = &net->node[net->owner[port]];
		struct smp_node_info info;
		uint8_t record[112] = { 0 };

		smp_node_info_get(&info, n->info);
		info.port_guid = net->port[port].guid;
		info.local_port = (uint8_t)net_port_number(net, port);
		smp_node_info_put(&info, record + 4);
		memmove(record + 44, n->description, SMP_DATA_BYTES);
		put_lid(record, net->port[port].lid);
		sa_emit(q, record);
	}
}

/* 15.2.5.3: with this bit of the modifier, bits of CapabilityMask are wanted, not all of it. */
static bool has_capabilities(const struct sa_query *q, const uint8_t *record)
{
	uint32_t wanted = (uint32_t)wire_get(q->wanted, 24, 0, 32);

	return (wire_get(record, 24, 0, 32) & wanted) == wanted;
}

static void emit_port(struct sa_query *q, uint32_t port, uint16_t lid)
{
	enum { CAPABILITY = 7, MATCH = 1u << 31 };
	uint8_t record[72] = { 0 };
	uint64_t mask = q->mask;

	put_lid(record, lid);
	record[2] = (uint8_t)net_port_number(&q->s->net, port);
	memcpy(record + 4, q->s->net.port[port].info, SMP_DATA_BYTES);
	if (!q->is_trusted)
		memset(record + 4, 0, 8);	/* M_Key */
	if (q->head.attr_modifier & MATCH && sa_wants(q, CAPABILITY)) {
		if (!has_capabilities(q, record))
			return;
		q->mask &= ~(1ull << CAPABILITY);
	}
	sa_emit(q, record);
	q->mask = mask;
}

void sa_find_ports(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t port;

	while ((port = sa_next_end(q)) != PORT_NONE) {
		unsigned others = others_of(net, port);

		q->steps += others;
		for (unsigned i = 0; i <= others; i++) {
			if (net->port[port + i].is_known)
				emit_port(q, port + i, net->port[port].lid);
		}
	}
}

/* Switches, as end ports. */
static uint32_t next_switch(struct sa_query *q)
{
	uint32_t port;

	do
		port = sa_next_end(q);
	while (port != PORT_NONE && !net_is_switch(&q->s->net, q->s->net.owner[port]));
	return port;
}

void sa_find_switches(struct sa_query *q)
{
	enum { BYTES = 20 };	/* of SwitchInfo: 14.2.5.4 */
	const struct net *net = &q->s->net;
	uint32_t port;

	while ((port = next_switch(q)) != PORT_NONE) {
		uint8_t record[24] = { 0 };

		put_lid(record, net->port[port].lid);
		memcpy(record + 4, net->node[net->owner[port]].switch_info, BYTES);
		sa_emit(q, record);
	}
}

void sa_find_lfts(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t port;

	while ((port = next_switch(q)) != PORT_NONE) {
		const struct net_node *n = &net->node[net->owner[port]];
		uint32_t blocks = n->lft ? n->lft_entries / LFT_BLOCK : 0;

		q->steps += blocks;
		for (uint32_t block = 0; block < blocks; block++) {
			uint8_t record[72] = { 0 };

			put_lid(record, net->port[port].lid);
			wire_put(record, block, 2, 0, 16);
			memcpy(record + 8, n->lft + block * LFT_BLOCK, LFT_BLOCK);
			sa_emit(q, record);
		}
	}
}

/* Blocks of a switch's table up to the last group that it passes on. */
static uint32_t used_blocks(const struct net_node *n)
{
	size_t words = n->ports / MFT_PORTS + 1u, i = n->mft_entries * words;

	while (i && !n->mft[i - 1])
		i--;
	return (uint32_t)((i + words * MFT_BLOCK - 1) / (words * MFT_BLOCK));
}

void sa_find_mfts(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t port;

	while ((port = next_switch(q)) != PORT_NONE) {
		uint32_t node = net->owner[port], blocks = used_blocks(&net->node[node]);
		uint32_t records = blocks * (net->node[node].ports / MFT_PORTS + 1u);

		/* blocks that nobody uses are looked at too */
		q->steps += net->node[node].mft_entries / MFT_BLOCK + records;
		for (uint32_t i = 0; i < records; i++) {
			uint32_t position = i / blocks, block = i % blocks;
			uint8_t record[72] = { 0 };

			put_lid(record, net->port[port].lid);
			wire_put(record, position, 2, 0, 4);
			wire_put(record, block, 2, 7, 9);
			groups_fill(q->s, node, block | position << 28, record + 8);
			sa_emit(q, record);
		}
	}
}

static void emit_manager(struct sa_query *q, uint32_t port, const uint8_t info[SMP_DATA_BYTES])
{
	uint8_t record[32] = { 0 };

	put_lid(record, q->s->net.port[port].lid);
	memcpy(record + 4, info, 21);
	if (!q->is_trusted)
		memset(record + 12, 0, 8);	/* SM_Key */
	sa_emit(q, record);
}

void sa_find_managers(struct sa_query *q)
{
	const struct sm *s = q->s;
	uint8_t info[SMP_DATA_BYTES];

	sm_write_info(s, info);
	emit_manager(q, s->net.own, info);
	for (uint32_t i = 0; i < s->others; i++) {
		if (!net_is_here(&s->net, s->other[i].port) || !sa_shares(s, q->from, s->other[i].port))
			continue;
		sm_write_other(s, &s->other[i], info);
		emit_manager(q, s->other[i].port, info);
	}
}

/* Of a port of a link: the LID of its node, by which it is known. */
static uint16_t lid_of(const struct net *net, uint32_t port)
{
	uint32_t node = net->owner[port];

	return net->port[net_is_switch(net, node) ? net->node[node].first_port : port].lid;
}

static uint32_t end_of(const struct net *net, uint32_t port)
{
	return net_is_switch(net, net->owner[port]) ? net->node[net->owner[port]].first_port : port;
}

void sa_find_links(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t end = end_of_search(q);

	while (!q->status && q->at < end && !sa_pauses(q)) {
		uint32_t port = q->at++, peer = net->port[port].peer;
		uint8_t record[8] = { 0 };

		if (peer == PORT_NONE)
			continue;
		q->steps++;
		if (!lid_of(net, port) || !lid_of(net, peer) || !sa_shares(q->s, q->from, end_of(net, port)) ||
		    !sa_shares(q->s, q->from, end_of(net, peer)))
			continue;
		put_lid(record, lid_of(net, port));
		record[2] = (uint8_t)net_port_number(net, port);
		record[3] = (uint8_t)net_port_number(net, peer);
		wire_put(record, lid_of(net, peer), 4, 0, 16);
		sa_emit(q, record);
	}
}

static void emit_pkeys(struct sa_query *q, uint32_t port, uint16_t lid)
{
	const struct net_port *p = &q->s->net.port[port];
	uint8_t record[72] = { 0 };

	if (!p->pkeys)
		return;
	put_lid(record, lid);
	record[4] = (uint8_t)net_port_number(&q->s->net, port);
	for (unsigned i = 0; i < NET_PKEYS; i++)
		wire_put(record + 8 + 2 * i, p->pkeys[i], 0, 0, 16);
	sa_emit(q, record);
}

/* 15.4.1.2: who is in which partition is not for everybody. */
void sa_find_pkeys(struct sa_query *q)
{
	uint32_t port;

	if (!q->is_trusted) {
		q->status = SA_REQUEST_INVALID;
		return;
	}
	while ((port = sa_next_end(q)) != PORT_NONE) {
		unsigned others = others_of(&q->s->net, port);

		q->steps += others;
		for (unsigned i = 0; i <= others; i++)
			emit_pkeys(q, port + i, q->s->net.port[port].lid);
	}
}

/* A port of an adapter is meant by its LID, whatever port numbers (components 1 and 2) are asked for beside it. */
static void emit_lanes(struct sa_query *q, uint32_t port, unsigned numbers, const uint8_t *record)
{
	uint64_t mask = q->mask;

	if (!net_is_switch(&q->s->net, q->s->net.owner[port]))
		q->mask &= ~(uint64_t)numbers;
	sa_emit(q, record);
	q->mask = mask;
}

/* Tables of lanes that the manager has not written nobody knows, and there is no record of them. */
void sa_find_sl2vls(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t port;

	while ((port = sa_next_end(q)) != PORT_NONE) {
		unsigned ports = others_of(net, port) + 1;

		q->steps += ports * ports;
		for (unsigned i = 0; i < ports * ports; i++) {
			uint8_t record[8 + SMP_DATA_BYTES] = { 0 }, lanes = net->port[port + i % ports].lanes;

			if (!lanes)
				continue;
			put_lid(record, net->port[port].lid);
			record[2] = (uint8_t)(i / ports);
			record[3] = (uint8_t)(i % ports);
			lanes_write_levels(q->s, lanes, record + 8);
			emit_lanes(q, port, 1 << 1 | 1 << 2, record);
		}
	}
}

void sa_find_vlarbs(struct sa_query *q)
{
	const struct net *net = &q->s->net;
	uint32_t end;

	while ((end = sa_next_end(q)) != PORT_NONE) {
		unsigned blocks = (others_of(net, end) + 1) * LANES_BLOCKS;

		q->steps += blocks;
		for (unsigned i = 0; i < blocks; i++) {
			uint32_t port = end + i / LANES_BLOCKS;
			unsigned block = i % LANES_BLOCKS + 1;
			uint8_t record[72] = { 0 };

			if (!net->port[port].lanes || !lanes_has_block(q->s, port, block))
				continue;
			put_lid(record, net->port[end].lid);
			record[2] = (uint8_t)net_port_number(net, port);
			record[3] = (uint8_t)block;
			lanes_write_turns(q->s, net->port[port].lanes, block, record + 8);
			emit_lanes(q, port, 1 << 1, record);
		}
	}
}
