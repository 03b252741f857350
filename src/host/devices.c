/* What the fabric page says, copied under its sequence lock and checked: devices and their addresses, and the members of
 * multicast groups. */
#include "host/internal.h"

#include <errno.h>
#include <string.h>

/* weftd's writes take microseconds; one that died half-way leaves the last good state out of reach, not us hanging */
enum { PAGE_TRIES = 100000 };

/* Copies `bytes` at `from` inside the page as they were at one moment. */
static bool page_copy(const struct fabric_page *page, const void *from, void *to, size_t bytes)
{
	for (int i = 0; i < PAGE_TRIES; i++) {
		uint64_t before = atomic_load_explicit(&page->generation, memory_order_acquire);

		if (before & 1)
			continue;
		memcpy(to, from, bytes);
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&page->generation, memory_order_relaxed) == before)
			return true;
	}
	return false;
}

static void take_gids(const struct page_device *from, struct ca_device *to)
{
	for (int i = 0; i < CA_GIDS; i++) {
		const struct page_gid *g = &from->gid[i];

		to->gid[i] = (struct ca_gid){ .valid = g->valid, .type = (enum ibv_gid_type)g->type, .ndev_ifindex = g->ifindex };
		memcpy(to->gid[i].raw, g->raw, sizeof(g->raw));
	}
}

static void take_port(const struct page_device *from, struct ca_device *to)
{
	to->lid = from->lid;
	to->sm_lid = from->sm_lid;
	to->active_mtu = from->active_mtu;
	to->max_mtu = from->max_mtu;
	to->port_state = from->port_state;
	take_gids(from, to);
}

static bool is_sane(const struct page_device *d)
{
	return memchr(d->name, '\0', sizeof(d->name)) && d->active_mtu >= IBV_MTU_256 && d->active_mtu <= d->max_mtu &&
	       d->max_mtu <= IBV_MTU_4096;
}

int devices_read(const struct fabric_page *page, struct ca_device dev[CA_DEVICES])
{
	struct page_device from[PAGE_DEVICES];
	uint32_t n = page->devices;

	if (n > CA_DEVICES || !page_copy(page, page->device, from, sizeof(from)))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!is_sane(&from[i]))
			return 0;
		memset(&dev[i], 0, sizeof(dev[i]));
		memcpy(dev[i].name, from[i].name, sizeof(dev[i].name));
		dev[i].form = from[i].link_layer == IBV_LINK_LAYER_ETHERNET ? PACKET_ROCE : PACKET_IB;
		dev[i].guid = from[i].guid;
		dev[i].pkey[0] = 0xffff;	/* IBA 10.9.1.2: the default partition, full member */
		take_port(&from[i], &dev[i]);
	}
	return (int)n;
}

/* By member: the padding is nobody's. */
static bool same_gids(const struct ca_gid *a, const struct ca_gid *b)
{
	for (int i = 0; i < CA_GIDS; i++)
		if (memcmp(a[i].raw, b[i].raw, sizeof(a[i].raw)) != 0 || a[i].valid != b[i].valid || a[i].type != b[i].type ||
		    a[i].ndev_ifindex != b[i].ndev_ifindex)
			return false;
	return true;
}

void devices_refresh(struct host *h)
{
	struct page_device from;

	for (int i = 0; i < h->ca.devices; i++) {
		struct ca_device *dev = &h->ca.dev[i];
		struct ca_gid old[CA_GIDS];
		enum ibv_port_state state = dev->port_state;

		if (!page_copy(h->page, &h->page->device[i], &from, sizeof(from)) || !is_sane(&from))
			continue;
		memcpy(old, dev->gid, sizeof(old));
		take_port(&from, dev);
		if (!same_gids(old, dev->gid))
			h->ca.host_ops->async_event(h, IBV_EVENT_GID_CHANGE, dev);
		if (state != dev->port_state)
			h->ca.host_ops->async_event(h, dev->port_state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE :
						    IBV_EVENT_PORT_ERR, dev);
	}
}

/* The group's index, or -1. Looks without the sequence lock: who uses the answer copies and looks again. */
static int find_group(const struct fabric_page *page, int device, const uint8_t *dgid, uint16_t mlid)
{
	for (int i = 0; i < PAGE_GROUPS; i++) {
		const struct page_group *g = &page->group[i];

		if (g->used && g->device == device && (dgid ? memcmp(g->gid, dgid, sizeof(g->gid)) == 0 : g->mlid == mlid))
			return i;
	}
	return -1;
}

static bool copy_group(const struct fabric_page *page, int device, const uint8_t *dgid, uint16_t mlid, struct page_group *group)
{
	int i = find_group(page, device, dgid, mlid);

	return i >= 0 && page_copy(page, &page->group[i], group, sizeof(*group)) && group->used && group->device == device &&
	       (dgid ? memcmp(group->gid, dgid, sizeof(group->gid)) == 0 : group->mlid == mlid);
}

bool group_members(const struct fabric_page *page, int device, const uint8_t *dgid, uint16_t mlid,
		   uint64_t members[PAGE_SLOTS / 64])
{
	struct page_group group;

	if (!copy_group(page, device, dgid, mlid, &group))
		return false;
	memcpy(members, group.slots, sizeof(group.slots));
	return true;
}

uint32_t group_next(const uint64_t members[PAGE_SLOTS / 64], uint32_t slot)
{
	while (++slot < PAGE_SLOTS) {
		uint64_t rest = members[slot / 64] >> slot % 64;

		if (rest)
			return slot + (uint32_t)__builtin_ctzll(rest);
		slot |= 63;
	}
	return 0;
}

int host_group_mlid(struct host *h, int device, const uint8_t gid[16], uint16_t *mlid)
{
	struct page_group group;

	if (!copy_group(h->page, device, gid, 0, &group))
		return -ENOENT;
	*mlid = group.mlid;
	return 0;
}
