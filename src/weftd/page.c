/* Every change is between an odd and an even generation. */
#include "weftd/page.h"

#include "control/devices.h"
#include "wire/pkey.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

/* As struct ibv_port_attr has them: PortPhysicalState. */
enum { PHYS_DISABLED = 3, PHYS_LINK_UP = 5 };

void page_repair(struct fabric_page *p)
{
	if (atomic_load(&p->generation) & 1)
		page_write_end(p);
}

void page_write_begin(struct fabric_page *p)
{
	atomic_fetch_add_explicit(&p->generation, 1, memory_order_relaxed);
	/* the odd generation is seen before any part of the change */
	atomic_thread_fence(memory_order_seq_cst);
}

void page_write_end(struct fabric_page *p)
{
	atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
}

/* IBA vol. 1, 4.1.1: a subnet's prefix, of which FE80::/64 is the default, and the port's GUID. */
static void set_own_gid(struct page_gid *g, uint8_t subnet, uint64_t guid, enum ibv_gid_type type)
{
	memset(g, 0, sizeof(*g));
	g->raw[0] = 0xfe;
	g->raw[1] = 0x80;
	g->raw[7] = subnet;
	for (int i = 0; i < 8; i++)
		g->raw[8 + i] = (uint8_t)(guid >> (56 - 8 * i));
	g->valid = 1;
	g->type = (uint8_t)type;
}

/* subnet: how many devices with LIDs were before it. Each of those is on a subnet of its own, as a device reaches those of its
 * index alone, and programs tell by the prefix which ports reach each other. */
static void set_device(struct page_device *d, const struct control_device *from, uint8_t subnet, uint64_t guid)
{
	const struct device_protocol *protocol;

	memcpy(d->name, from->name, sizeof(d->name));
	memcpy(d->netdev, from->netdev, sizeof(d->netdev));
	d->protocol = from->protocol;
	protocol = control_device_protocol(d);
	d->active_mtu = d->max_mtu = IBV_MTU_4096;
	d->port_state = IBV_PORT_ACTIVE;
	d->guid = d->system_guid = guid;
	d->phys_state = PHYS_LINK_UP;
	d->width = from->width;
	d->speed = from->speed;
	d->pkeys = 1;
	d->pkey[0] = PKEY_DEFAULT;
	d->lid = d->sm_lid = protocol->caps & DEVICE_LIDS ? 1 : 0;
	set_own_gid(&d->gid[0], protocol->caps & DEVICE_LIDS ? subnet : 0, guid, protocol->gid_type);
}

void page_set_devices(struct fabric_page *p, const struct control_table *t, uint64_t guid)
{
	uint8_t subnets = 0;

	page_write_begin(p);
	for (uint32_t i = 0; i < t->devices; i++) {
		set_device(&p->device[i], &t->device[i], subnets, guid + i);
		subnets += p->device[i].lid != 0;
	}
	p->devices = t->devices;
	p->version = PAGE_VERSION;
	page_write_end(p);
	/* last: without it a weftd that finds the page begins anew */
	p->magic = PAGE_MAGIC;
}

static bool is_same(const struct page_gid *g, const struct page_address *a)
{
	return g->valid && g->ifindex == a->ifindex && memcmp(g->raw, a->raw, 16) == 0 &&
	       strncmp(g->ifname, a->ifname, sizeof(g->ifname)) == 0;
}

/* 127.0.0.0/8 is given while the host has no other IPv4 address, and stays then: connections of this host are at it. */
static bool is_loopback(const struct page_gid *g)
{
	static const uint8_t mapped[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 };

	return memcmp(g->raw, mapped, sizeof(mapped)) == 0;
}

static bool remove_gone(struct page_device *d, const struct page_address *addresses, int n)
{
	bool is_changed = false;

	for (int i = 1; i < PAGE_GIDS; i++) {
		bool is_there = !d->gid[i].valid || is_loopback(&d->gid[i]);

		for (int k = 0; k < n && !is_there; k++)
			is_there = is_same(&d->gid[i], &addresses[k]);
		if (is_there)
			continue;
		memset(&d->gid[i], 0, sizeof(d->gid[i]));
		is_changed = true;
	}
	return is_changed;
}

static bool add_new(struct page_device *d, const struct page_address *a)
{
	struct page_gid *free_entry = NULL;

	for (int i = PAGE_GIDS - 1; i > 0; i--) {
		if (is_same(&d->gid[i], a))
			return false;
		if (!d->gid[i].valid)
			free_entry = &d->gid[i];
	}
	if (!free_entry)
		return false;
	memcpy(free_entry->raw, a->raw, 16);
	memcpy(free_entry->ifname, a->ifname, sizeof(free_entry->ifname));
	free_entry->ifindex = a->ifindex;
	free_entry->type = IBV_GID_TYPE_ROCE_V2;
	free_entry->valid = 1;
	return true;
}

/* The device's own GID belongs to the first interface that has an address. */
static bool set_interface(struct page_gid *own, const struct page_address *a)
{
	if (own->ifindex == a->ifindex && strncmp(own->ifname, a->ifname, sizeof(own->ifname)) == 0)
		return false;
	own->ifindex = a->ifindex;
	memcpy(own->ifname, a->ifname, sizeof(own->ifname));
	return true;
}

static bool has_addresses(const struct page_device *d)
{
	return control_device_has(d, DEVICE_IP_GIDS);
}

/* The device that has this interface's addresses, or p->devices. */
static uint32_t device_of(const struct fabric_page *p, const char *ifname)
{
	uint32_t of_rest = p->devices;

	for (uint32_t i = p->devices; i-- > 0;) {
		const struct page_device *d = &p->device[i];

		if (has_addresses(d) && strncmp(d->netdev, ifname, sizeof(d->netdev)) == 0)
			return i;
		if (has_addresses(d) && !d->netdev[0])
			of_rest = i;
	}
	return of_rest;
}

/* Those of them that are this device's; how many. */
static int choose(const struct fabric_page *p, uint32_t device, const struct page_address *addresses, int n,
		  struct page_address chosen[PAGE_GIDS])
{
	int count = 0;

	for (int i = 0; i < n && count < PAGE_GIDS; i++)
		if (device_of(p, addresses[i].ifname) == device)
			chosen[count++] = addresses[i];
	return count;
}

static bool set_addresses(struct page_device *d, const struct page_address *addresses, int n)
{
	bool is_changed = remove_gone(d, addresses, n);

	for (int i = 0; i < n; i++)
		is_changed |= add_new(d, &addresses[i]);
	if (n > 0)
		is_changed |= set_interface(&d->gid[0], &addresses[0]);
	return is_changed;
}

bool page_set_addresses(struct fabric_page *p, const struct page_address *addresses, int n)
{
	struct page_address own[PAGE_GIDS];
	bool is_changed = false;

	page_write_begin(p);
	for (uint32_t i = 0; i < p->devices && i < PAGE_NAMED; i++)
		if (has_addresses(&p->device[i]))
			is_changed |= set_addresses(&p->device[i], own, choose(p, i, addresses, n, own));
	page_write_end(p);
	return is_changed;
}

void page_set_link(struct fabric_page *p, uint32_t device, bool is_up)
{
	page_write_begin(p);
	p->device[device].port_state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	p->device[device].phys_state = is_up ? PHYS_LINK_UP : PHYS_DISABLED;
	page_write_end(p);
}

bool page_is_any_down(const struct fabric_page *p)
{
	for (uint32_t i = 0; i < p->devices && i < PAGE_NAMED; i++)
		if (p->device[i].port_state != IBV_PORT_ACTIVE)
			return true;
	return false;
}

static int find_cut(const struct fabric_page *p, const uint8_t gid[16])
{
	int place = -1;

	for (int i = PAGE_CUTS; i--;) {
		if (p->cut[i].paths && !memcmp(p->cut[i].gid, gid, sizeof(p->cut[i].gid)))
			return i;
		if (!p->cut[i].paths)
			place = i;
	}
	return place;
}

int page_cut_path(struct fabric_page *p, const uint8_t gid[16], unsigned path, bool fails)
{
	int i = find_cut(p, gid);

	if (i < 0)
		return fails ? -EBUSY : 0;
	page_write_begin(p);
	memcpy(p->cut[i].gid, gid, sizeof(p->cut[i].gid));
	p->cut[i].paths = fails ? p->cut[i].paths | 1u << path : p->cut[i].paths & ~(1u << path);
	page_write_end(p);
	return 0;
}

uint32_t page_cut_paths(const struct fabric_page *p, const uint8_t gid[16])
{
	int i = find_cut(p, gid);

	return i < 0 ? 0 : p->cut[i].paths;
}

bool page_is_any_cut(const struct fabric_page *p)
{
	for (int i = 0; i < PAGE_CUTS; i++)
		if (p->cut[i].paths)
			return true;
	return false;
}
