#include "fabric/host.h"

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

uint32_t host_find_port(const struct fabric *f, const char *text)
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

bool host_has_programs(const struct fabric *f, uint32_t port)
{
	return port < f->ports && !fabric_is_switch(f, f->owner[port]) && fabric_port_number(f, port) &&
	       (FABRIC_READ(f->port[port].lid) || fabric_peer(f, port) != PORT_NONE);
}

bool host_has_lid(const struct fabric *f, uint32_t port, uint32_t lid)
{
	uint32_t first = FABRIC_READ(f->port[port].lid), lmc = FABRIC_READ(f->port[port].lmc) & LMC_MOST;

	return first && lid - first < 1u << lmc;
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
