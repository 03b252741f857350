/* Every change is between an odd and an even generation. */
#include "weftd/page.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

enum { IB = 0, ETHERNET = 1 };

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

/* IBA vol. 1, 4.1.1: the link-local prefix FE80::/64 and the port's GUID. */
static void set_link_local(struct page_gid *g, uint64_t guid, enum ibv_gid_type type)
{
	memset(g, 0, sizeof(*g));
	g->raw[0] = 0xfe;
	g->raw[1] = 0x80;
	for (int i = 0; i < 8; i++)
		g->raw[8 + i] = (uint8_t)(guid >> (56 - 8 * i));
	g->valid = 1;
	g->type = (uint8_t)type;
}

void page_set_devices(struct fabric_page *p, uint64_t guid)
{
	page_write_begin(p);
	for (int i = 0; i < PAGE_DEVICES; i++) {
		struct page_device *d = &p->device[i];

		snprintf(d->name, sizeof(d->name), "weft%d", i);
		d->active_mtu = d->max_mtu = IBV_MTU_4096;
		d->port_state = IBV_PORT_ACTIVE;
		d->guid = guid + (uint64_t)i;
	}
	p->device[IB].link_layer = IBV_LINK_LAYER_INFINIBAND;
	p->device[IB].lid = p->device[IB].sm_lid = 1;
	set_link_local(&p->device[IB].gid[0], guid, IBV_GID_TYPE_IB);
	p->device[ETHERNET].link_layer = IBV_LINK_LAYER_ETHERNET;
	set_link_local(&p->device[ETHERNET].gid[0], guid + 1, IBV_GID_TYPE_ROCE_V2);
	p->devices = PAGE_DEVICES;
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

static bool remove_gone(struct page_device *d, const struct page_address *addresses, int n)
{
	bool is_changed = false;

	for (int i = 1; i < PAGE_GIDS; i++) {
		bool is_there = !d->gid[i].valid;

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

bool page_set_addresses(struct fabric_page *p, const struct page_address *addresses, int n)
{
	struct page_device *d = &p->device[ETHERNET];
	bool is_changed;

	page_write_begin(p);
	is_changed = remove_gone(d, addresses, n);
	for (int i = 0; i < n; i++)
		is_changed |= add_new(d, &addresses[i]);
	if (n > 0)
		is_changed |= set_interface(&d->gid[0], &addresses[0]);
	page_write_end(p);
	return is_changed;
}
