/* Growing a topology, and the LIDs of its ports. */
#include "fabric/topology.h"

#include "base/array.h"
#include "fabric/speed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	LFT_BLOCK = 64,			/* LIDs in a block of LinearForwardingTable (IBA 14.2.5.10) */
	MLIDS_DEFAULT = 256,		/* entries of an MFT; our choice */
	VLS_DEFAULT = 8,		/* our choice */
	SUBNET_TIMEOUT_DEFAULT = 18,	/* 4.096 us << 18: a second, as adapters have it (14.2.5.6) */
	DOWN_DEFAULT_POLLING = 2,	/* LinkDownDefaultState */
};

void topology_init(struct topology *t)
{
	*t = (struct topology){ .lids = LFT_BLOCK, .mlids = MLIDS_DEFAULT };
}

void topology_fini(struct topology *t)
{
	free(t->node);
	free(t->port);
	topology_init(t);
}

/* All widths and speeds up to these are supported, and enabled. */
static void port_set_capable(struct fabric_port *p, uint8_t width, uint8_t speed)
{
	p->width_most = width;
	p->speed_most = speed;
	p->width_enabled = widths_supported(width);
	p->speed_enabled = speeds_supported(speed);
	p->ext_enabled = ext_speeds_supported(speed);
}

/* What its link can do is set as if there were no link: 4xQDR. */
static void add_port(struct fabric_port *p, uint32_t capabilities)
{
	*p = (struct fabric_port){
		.prefix = PREFIX_DEFAULT, .peer = PORT_NONE, .state = PORT_DOWN, .phys_state = PHYS_POLLING, .vls = VLS_DEFAULT,
		.mtu = MTU_4096, .capabilities = capabilities, .subnet_timeout = SUBNET_TIMEOUT_DEFAULT,
		.down_default = DOWN_DEFAULT_POLLING,
	};
	port_set_capable(p, WIDTH_4X, SPEED_QDR);
}

int topology_add(struct topology *t, enum node_type type, unsigned ports)
{
	struct fabric_node *n;

	if (t->nodes >= TOPOLOGY_NODES || ports > NODE_PORTS || t->ports + ports + 1 > TOPOLOGY_PORTS)
		return -E2BIG;
	if (array_reserve(&t->node, &t->nodes_room, t->nodes + 1, sizeof(*t->node)) ||
	    array_reserve(&t->port, &t->ports_room, t->ports + ports + 1, sizeof(*t->port)))
		return -ENOMEM;
	n = &t->node[t->nodes];
	memset(n, 0, sizeof(*n));
	n->type = (uint8_t)type;
	n->ports = (uint8_t)ports;
	n->first_port = t->ports;
	for (unsigned i = 0; i <= ports; i++)
		add_port(&t->port[t->ports + i], type == NODE_SWITCH ? PORT_CAPABILITIES : PORT_CAPABILITIES | CAPABLE_CM);
	t->ports += ports + 1;
	return (int)t->nodes++;
}

void topology_set_guid(struct topology *t, uint32_t node, uint64_t guid)
{
	struct fabric_node *n = &t->node[node];

	n->guid = n->system_guid = guid;
	for (unsigned i = 0; i <= n->ports; i++)
		t->port[n->first_port + i].guid = n->type == NODE_SWITCH ? guid : guid + i;
}

static const struct fabric_node *node_of(const struct topology *t, uint32_t port)
{
	uint32_t low = 0, high = t->nodes;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (t->node[middle].first_port <= port)
			low = middle;
		else
			high = middle;
	}
	return &t->node[low];
}

int topology_link(struct topology *t, uint32_t a, uint32_t b, uint8_t width, uint8_t speed)
{
	uint32_t ends[2] = { a, b };

	if (a == b || a >= t->ports || b >= t->ports || !link_mbps(width, speed))
		return -EINVAL;
	for (int i = 0; i < 2; i++) {
		if (ends[i] == node_of(t, ends[i])->first_port)
			return -EINVAL;
		if (t->port[ends[i]].peer != PORT_NONE)
			return -EBUSY;
	}
	for (int i = 0; i < 2; i++) {
		struct fabric_port *p = &t->port[ends[i]];

		p->peer = ends[!i];
		p->width = width;
		p->speed = speed;
		port_set_capable(p, width, speed);
		p->state = PORT_INIT;
		p->phys_state = PHYS_LINK_UP;
	}
	return 0;
}

static bool has_lid(const struct fabric_node *n, unsigned number, const struct fabric_port *p)
{
	return n->type == NODE_SWITCH ? number == 0 : number > 0 && p->peer != PORT_NONE;
}

/* Marks the LIDs that a port has. False: one of them is another port's, or none. */
static bool take_lids(uint8_t *taken, const struct fabric_port *p)
{
	for (uint32_t lid = p->lid; lid < p->lid + (1u << p->lmc); lid++) {
		if (lid >= LIDS || taken[lid])
			return false;
		taken[lid] = 1;
	}
	return true;
}

static bool are_free(const uint8_t *taken, uint32_t first, uint32_t count)
{
	return first + count <= LIDS && !memchr(taken + first, 1, count);
}

/* The first free range from *next on that is aligned to its length, as an LMC wants. */
static bool choose_lid(uint8_t *taken, struct fabric_port *p, uint32_t *next)
{
	uint32_t count = 1u << p->lmc;

	for (uint32_t lid = (*next + count - 1) & ~(count - 1); lid < LIDS; lid += count) {
		if (!are_free(taken, lid, count))
			continue;
		p->lid = (uint16_t)lid;
		*next = count == 1 ? lid : *next;
		return take_lids(taken, p);
	}
	return false;
}

static int set_lids(struct topology *t, uint8_t *taken, uint32_t *port)
{
	uint32_t next = 1;

	taken[0] = 1;
	for (*port = 0; *port < t->ports; ++*port) {
		if (t->port[*port].lid && !take_lids(taken, &t->port[*port]))
			return -EEXIST;
	}
	for (uint32_t n = 0; n < t->nodes; n++) {
		for (unsigned i = 0; i <= t->node[n].ports; i++) {
			struct fabric_port *p = &t->port[t->node[n].first_port + i];

			if (has_lid(&t->node[n], i, p) && !p->lid && !choose_lid(taken, p, &next))
				return -E2BIG;
		}
	}
	return 0;
}

int topology_set_lids(struct topology *t, uint32_t *port)
{
	uint8_t *taken = calloc(LIDS, 1);
	uint32_t most = LIDS - 1;
	int err;

	if (!taken)
		return -ENOMEM;
	err = set_lids(t, taken, port);
	while (!taken[most])
		most--;
	t->lids = (most / LFT_BLOCK + 1) * LFT_BLOCK;
	free(taken);
	return err;
}

int topology_set_lmc(struct topology *t, unsigned lmc)
{
	uint32_t port;

	for (uint32_t n = 0; n < t->nodes; n++) {
		for (unsigned i = 0; i <= t->node[n].ports; i++) {
			struct fabric_port *p = &t->port[t->node[n].first_port + i];

			p->lid = 0;
			p->lmc = t->node[n].type == NODE_SWITCH ? 0 : (uint8_t)lmc;
		}
	}
	return topology_set_lids(t, &port);
}
