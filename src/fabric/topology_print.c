/* A fabric in ibnetdiscover's format. */
#include "fabric/topology_file.h"

#include "fabric/speed.h"

#include <stdio.h>

enum { LINE = 400 };

struct print {
	const struct fabric *f;
	void (*put)(void *to, const char *text);
	void *to;
};

/* How a type of node is written: its header, the setting with its GUID, and the first letter of ids. */
static const struct {
	const char *header, *guid;
	char letter;
} types[] = {
	[NODE_CA] = { "Ca", "caguid", 'H' },
	[NODE_SWITCH] = { "Switch", "switchguid", 'S' },
	[NODE_ROUTER] = { "Rt", "rtguid", 'R' },
};

static unsigned long long guid_of(const struct print *p, uint32_t node)
{
	return p->f->node[node].guid;
}

static void print_head(const struct print *p, uint32_t node)
{
	const struct fabric_node *n = &p->f->node[node];
	const struct fabric_port *port = &p->f->port[fabric_port_index(p->f, node, 0)];
	unsigned type = p->f->place[node].type;
	char line[LINE];

	snprintf(line, sizeof(line), "vendid=0x%x\ndevid=0x%x\nsysimgguid=0x%llx\n%s=0x%llx", (unsigned)n->vendor, n->device,
		 (unsigned long long)n->system_guid, types[type].guid, guid_of(p, node));
	p->put(p->to, line);
	if (type == NODE_SWITCH)
		snprintf(line, sizeof(line), "(%llx)\nSwitch\t%u \"S-%016llx\"\t\t# \"%.*s\" %s port 0 lid %u lmc %u\n",
			 (unsigned long long)port->guid, p->f->place[node].ports, guid_of(p, node), NODE_DESCRIPTION,
			 n->description, n->enhanced_port0 ? "enhanced" : "base", port->lid, port->lmc);
	else
		snprintf(line, sizeof(line), "\n%s\t%u \"%c-%016llx\"\t\t# \"%.*s\"\n", types[type].header,
			 p->f->place[node].ports, types[type].letter, guid_of(p, node), NODE_DESCRIPTION, n->description);
	p->put(p->to, line);
}

/* The port that a subnet knows by its LID: a switch's port 0. */
static unsigned lid_of(const struct print *p, uint32_t port)
{
	uint32_t node = p->f->owner[port];

	return p->f->port[fabric_is_switch(p->f, node) ? fabric_port_index(p->f, node, 0) : port].lid;
}

static void print_link(const struct print *p, uint32_t port, uint32_t peer)
{
	const struct fabric *f = p->f;
	uint32_t node = f->owner[port], other = f->owner[peer];
	const struct fabric_port *at = &f->port[port];
	char line[LINE], guid[24] = "", mine[24] = "", lid[40] = "";

	if (!fabric_is_switch(f, other))
		snprintf(guid, sizeof(guid), "(%llx)", (unsigned long long)f->port[peer].guid);
	if (!fabric_is_switch(f, node)) {
		snprintf(mine, sizeof(mine), "(%llx)", (unsigned long long)at->guid);
		snprintf(lid, sizeof(lid), "lid %u lmc %u ", at->lid, at->lmc);
	}
	snprintf(line, sizeof(line), "[%u]%s\t\"%c-%016llx\"[%u]%s\t\t# %s\"%.*s\" lid %u %ux%s\n",
		 fabric_port_number(f, port), mine, types[f->place[other].type].letter, guid_of(p, other),
		 fabric_port_number(f, peer), guid, lid, NODE_DESCRIPTION, f->node[other].description, lid_of(p, peer),
		 width_lanes(at->width), speed_name(at->speed));
	p->put(p->to, line);
}

void topology_print(const struct fabric *f, void (*put)(void *to, const char *text), void *to)
{
	struct print p = { f, put, to };

	for (uint32_t n = 0; n < f->nodes; n++) {
		if (n)
			put(to, "\n");
		print_head(&p, n);
		for (unsigned i = 1; i <= f->place[n].ports; i++) {
			uint32_t port = fabric_port_index(f, n, i), peer = fabric_peer(f, port);

			if (peer != PORT_NONE)
				print_link(&p, port, peer);
		}
	}
}
