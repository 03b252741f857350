#include "fabric/host.h"

#include "fabric/adapters.h"
#include "fabric/speed.h"
#include "wire/field.h"

#include <stdlib.h>
#include <string.h>

/* IBA vol. 1, 4.1.1: a GID is a subnet prefix and a GUID */
#define GID_PREFIX 0, 0, 64
#define GID_GUID 8, 0, 64

static uint32_t known_port(const struct fabric *f, uint32_t node)
{
	for (unsigned i = fabric_is_switch(f, node) ? 0 : 1; i <= f->place[node].ports; i++) {
		uint32_t port = fabric_port_index(f, node, i);

		if (!i || fabric_peer(f, port) != PORT_NONE)
			return port;
	}
	return PORT_NONE;
}

static uint32_t numbered_port(const struct fabric *f, uint32_t node, const char *number)
{
	char *end;
	unsigned long n = strtoul(number, &end, 10);

	return *number >= '0' && *number <= '9' && !*end && n <= f->place[node].ports ?
	       fabric_port_index(f, node, (unsigned)n) : PORT_NONE;
}

/* Is it the node's description? One that another process writes may have lost its end. */
static bool is_named(const struct fabric_node *n, const char *name, size_t length)
{
	return length < sizeof(n->description) && !strncmp(n->description, name, length) && !n->description[length];
}

/* Its adapters have the name, a space and a word as descriptions. NODE_NONE: there is none. */
static uint32_t find_host(const struct fabric *f, const char *text)
{
	size_t length = strlen(text);

	for (uint32_t n = 0; n < f->nodes && !memchr(text, ' ', length); n++) {
		char description[NODE_DESCRIPTION + 1] = "";

		if (f->place[n].host != n || f->place[n].type != NODE_CA || !f->place[n].ports)
			continue;
		memcpy(description, f->node[n].description, NODE_DESCRIPTION);
		if (length && adapters_host(description) == length && !memcmp(description, text, length))
			return n;
	}
	return NODE_NONE;
}

static uint32_t find_exactly(const struct fabric *f, const char *text)
{
	const char *colon = strrchr(text, ':');

	for (uint32_t n = 0; n < f->nodes; n++) {
		if (is_named(&f->node[n], text, strlen(text)))
			return known_port(f, n);
		if (colon && is_named(&f->node[n], text, (size_t)(colon - text)))
			return numbered_port(f, n, colon + 1);
	}
	return PORT_NONE;
}

uint32_t host_find_port(const struct fabric *f, const char *text)
{
	uint32_t port = find_exactly(f, text), host = port == PORT_NONE ? find_host(f, text) : NODE_NONE;

	return host == NODE_NONE ? port : known_port(f, host);
}

/* All ports of it are a place. */
static bool is_adapter(const struct fabric *f, uint32_t place)
{
	return place < f->ports && !fabric_is_switch(f, f->owner[place]) && !fabric_port_number(f, place) &&
	       f->place[f->owner[place]].ports > 1;
}

/* The node of its first adapter, where all adapters of a host are the place; or NODE_NONE. */
static uint32_t first_node(const struct fabric *f, uint32_t place)
{
	uint32_t n = place - f->ports;

	return place >= f->ports && n < f->nodes && f->place[n].host == n && f->place[n].next != NODE_NONE ? n : NODE_NONE;
}

/* All adapters of the host, or the adapter, whose ports are a place; else this port. */
static uint32_t place_of(const struct fabric *f, uint32_t port, bool is_host)
{
	uint32_t node = f->owner[port], adapter = fabric_port_index(f, node, 0);

	if (is_host && host_is_place(f, f->ports + node))
		return f->ports + node;
	if (host_is_place(f, adapter))
		return adapter;
	return host_has_programs(f, port) ? port : PORT_NONE;
}

uint32_t host_find_place(const struct fabric *f, const char *text)
{
	uint32_t port = find_exactly(f, text), host;

	if (port == PORT_NONE) {
		host = find_host(f, text);
		return host == NODE_NONE ? PORT_NONE : place_of(f, fabric_port_index(f, host, 1), true);
	}
	if (fabric_is_switch(f, f->owner[port]))
		return PORT_NONE;
	if (is_named(&f->node[f->owner[port]], text, strlen(text)))
		return place_of(f, port, false);
	return host_has_programs(f, port) ? port : PORT_NONE;
}

static bool is_linked(const struct fabric *f, uint32_t node)
{
	for (unsigned i = 1; i <= f->place[node].ports; i++)
		if (host_has_programs(f, fabric_port_index(f, node, i)))
			return true;
	return false;
}

bool host_is_place(const struct fabric *f, uint32_t place)
{
	uint32_t node = first_node(f, place);

	if (node == NODE_NONE)
		return is_adapter(f, place) ? is_linked(f, f->owner[place]) : host_has_programs(f, place);
	while (node != NODE_NONE && !is_linked(f, node))
		node = f->place[node].next;
	return node != NODE_NONE;
}

unsigned host_ports(const struct fabric *f, uint32_t place)
{
	uint32_t node = first_node(f, place);
	unsigned ports = 0;

	if (node == NODE_NONE)
		return is_adapter(f, place) ? f->place[f->owner[place]].ports : host_has_programs(f, place);
	for (; node != NODE_NONE; node = f->place[node].next)
		ports += f->place[node].ports;
	return ports;
}

uint32_t host_port(const struct fabric *f, uint32_t place, unsigned number)
{
	uint32_t node = first_node(f, place);

	if (!number || number > host_ports(f, place))
		return PORT_NONE;
	if (node == NODE_NONE)
		return is_adapter(f, place) ? place + number : place;
	for (; number > f->place[node].ports; node = f->place[node].next)
		number -= f->place[node].ports;
	return fabric_port_index(f, node, number);
}

unsigned host_port_number(const struct fabric *f, uint32_t place, uint32_t port)
{
	uint32_t node = first_node(f, place);
	unsigned before = 0;

	if (node == NODE_NONE && !is_adapter(f, place))
		return place == port && host_has_programs(f, place);
	if (node == NODE_NONE)
		return f->owner[port] == f->owner[place] ? fabric_port_number(f, port) : 0;
	for (; node != NODE_NONE && node != f->owner[port]; node = f->place[node].next)
		before += f->place[node].ports;
	return node != NODE_NONE && fabric_port_number(f, port) ? before + fabric_port_number(f, port) : 0;
}

struct host_adapter host_adapter(const struct fabric *f, uint32_t place, unsigned adapter)
{
	uint32_t node = first_node(f, place);
	struct host_adapter a = { .first = 1 };

	if (node == NODE_NONE) {
		a.ports = adapter ? 0 : host_ports(f, place);
		return a;
	}
	for (; adapter && node != NODE_NONE; adapter--, node = f->place[node].next)
		a.first += f->place[node].ports;
	a.ports = node == NODE_NONE ? 0 : f->place[node].ports;
	return a;
}

unsigned host_places(const struct fabric *f, uint32_t port, uint32_t place[HOST_PLACES])
{
	uint32_t node = f->owner[port];
	const uint32_t may[HOST_PLACES] = { f->ports + f->place[node].host, fabric_port_index(f, node, 0), port };
	unsigned n = 0;

	for (int i = 0; i < HOST_PLACES; i++)
		if (host_port_number(f, may[i], port))
			place[n++] = may[i];
	return n;
}

void host_name(const struct fabric *f, uint32_t place, char name[NODE_DESCRIPTION + 1])
{
	uint32_t node = first_node(f, place);

	memcpy(name, f->node[node == NODE_NONE ? f->owner[place] : node].description, NODE_DESCRIPTION);
	name[NODE_DESCRIPTION] = '\0';
	if (node != NODE_NONE)
		name[adapters_host(name)] = '\0';
}

bool host_has_programs(const struct fabric *f, uint32_t port)
{
	return port < f->ports && !fabric_is_switch(f, f->owner[port]) && fabric_port_number(f, port) &&
	       (FABRIC_READ(f->port[port].lid) || fabric_peer(f, port) != PORT_NONE);
}

bool host_has_lid(const struct fabric *f, uint32_t port, uint32_t lid)
{
	return lid_is_of(lid, FABRIC_READ(f->port[port].lid), FABRIC_READ(f->port[port].lmc) & LMC_MOST);
}

bool host_has_gid(const struct fabric *f, uint32_t port, const uint8_t gid[16])
{
	uint64_t guid = wire_get(gid, GID_GUID);
	const uint64_t *own = fabric_guids(f, port);

	if (!guid || wire_get(gid, GID_PREFIX) != FABRIC_READ(f->port[port].prefix))
		return false;
	for (int i = 0; i < FABRIC_GUIDS; i++)
		if (FABRIC_READ(own[i]) == guid)
			return true;
	return false;
}

void host_write_gid(const struct fabric *f, uint32_t port, unsigned index, uint8_t gid[16])
{
	wire_put(gid, FABRIC_READ(f->port[port].prefix), GID_PREFIX);
	wire_put(gid, FABRIC_READ(fabric_guids(f, port)[index]), GID_GUID);
}

enum { LOOPBACK = 127, OCTET_MOST = 255, ORDINAL_MOST = 65535 };

bool host_write_ipv4(const struct fabric *f, uint32_t port, uint8_t address[HOST_IPV4_BYTES])
{
	unsigned number = fabric_port_number(f, port);
	uint32_t ordinal = 0;

	for (uint32_t n = 0; n <= f->owner[port]; n++)
		ordinal += !fabric_is_switch(f, n);
	if (number > OCTET_MOST || ordinal > ORDINAL_MOST)
		return false;
	address[0] = LOOPBACK;
	address[1] = (uint8_t)number;
	address[2] = (uint8_t)(ordinal >> 8);
	address[3] = (uint8_t)ordinal;
	return true;
}

bool host_is_ipv4(const uint8_t address[HOST_IPV4_BYTES])
{
	return address[0] == LOOPBACK && address[1];
}

uint32_t host_find_ipv4(const struct fabric *f, const uint8_t address[HOST_IPV4_BYTES])
{
	uint32_t ordinal = (uint32_t)address[2] << 8 | address[3], n = 0, port;

	if (!host_is_ipv4(address) || !ordinal)
		return PORT_NONE;
	while (n < f->nodes && (fabric_is_switch(f, n) || --ordinal))
		n++;
	if (n == f->nodes || address[1] > f->place[n].ports)
		return PORT_NONE;
	port = fabric_port_index(f, n, address[1]);
	return host_has_programs(f, port) ? port : PORT_NONE;
}

uint32_t host_find_gid(const struct fabric *f, const uint8_t gid[16])
{
	uint32_t port = 0;

	while (port < f->ports && !(host_has_programs(f, port) && host_has_gid(f, port, gid)))
		port++;
	return port < f->ports ? port : PORT_NONE;
}

static void set_gids(const struct fabric *f, uint32_t port, struct page_device *d)
{
	const uint64_t *guids = fabric_guids(f, port);

	memset(d->gid, 0, sizeof(d->gid));
	for (int i = 0; i < FABRIC_GUIDS; i++) {
		host_write_gid(f, port, (unsigned)i, d->gid[i].raw);
		d->gid[i].valid = FABRIC_READ(guids[i]) != 0;
	}
}

_Static_assert((int)PORT_PKEYS == PAGE_PKEYS, "a device has the P_Keys of its port");

static void set_pkeys(const struct fabric *f, uint32_t port, struct page_device *d)
{
	const uint16_t *pkeys = fabric_pkeys(f, port);

	d->pkeys = PAGE_PKEYS;
	for (int i = 0; i < PAGE_PKEYS; i++)
		d->pkey[i] = FABRIC_READ(pkeys[i]);
}

/* LinkSpeedActive as verbs has it: a bit for each row of speed.def from the lowest; what an octet has no bit for is its
 * highest. */
static uint8_t speed_bit(unsigned speed)
{
	return speed < SPEED_SDR || speed >= SPEEDS ? 0 : speed > SPEED_NDR ? 1 << 7 : (uint8_t)(1u << (speed - SPEED_SDR));
}

/* A value that no port of verbs has is the nearest that one has. */
static uint8_t within(uint8_t value, uint8_t least, uint8_t most)
{
	return value < least ? least : value > most ? most : value;
}

void host_describe(const struct fabric *f, uint32_t port, struct page_device *d)
{
	const struct fabric_port *p = &f->port[port];
	const struct fabric_node *n = &f->node[f->owner[port]];

	d->guid = FABRIC_READ(n->guid);
	d->system_guid = FABRIC_READ(n->system_guid);
	d->lid = FABRIC_READ(p->lid);
	d->sm_lid = FABRIC_READ(p->sm_lid);
	d->sm_sl = FABRIC_READ(p->sm_sl);
	d->lmc = FABRIC_READ(p->lmc) & LMC_MOST;
	d->active_mtu = within(FABRIC_READ(p->mtu), 1, d->max_mtu);
	d->port_state = within(FABRIC_READ(p->state), PORT_DOWN, PORT_ACTIVE);
	d->phys_state = FABRIC_READ(p->phys_state);
	d->width = FABRIC_READ(p->width);
	d->speed = speed_bit(FABRIC_READ(p->speed));
	set_pkeys(f, port, d);
	d->reregistered = FABRIC_READ(p->reregistered);
	set_gids(f, port, d);
}
