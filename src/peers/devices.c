/* What the fabric page says, copied under its sequence lock and checked: devices and their addresses, and the members of
 * multicast groups. */
#include "peers/devices.h"

#include "control/devices.h"
#include "verbs/qp.h"

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
	to->lmc = from->lmc;
	to->pkeys = from->pkeys;
	memcpy(to->pkey, from->pkey, sizeof(to->pkey));
	to->phys_state = from->phys_state;
	to->width = from->width;
	to->speed = from->speed;
	to->active_mtu = from->active_mtu;
	to->max_mtu = from->max_mtu;
	to->port_state = from->port_state;
	to->reregistered = from->reregistered;
	take_gids(from, to);
}

static bool is_sane(const struct page_device *d)
{
	return memchr(d->name, '\0', sizeof(d->name)) && d->active_mtu >= IBV_MTU_256 && d->active_mtu <= d->max_mtu &&
	       d->max_mtu <= IBV_MTU_4096 && d->pkeys >= 1 && d->pkeys <= PAGE_PKEYS && control_device_protocol(d);
}

_Static_assert((int)CA_DEVICES == PAGE_DEVICES && (int)CA_GIDS == PAGE_GIDS && (int)CA_PKEYS == PAGE_PKEYS,
	       "an adapter has what the page has");

static void take_device(const struct page_device *from, uint32_t index, struct ca_device *to)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->name, from->name, sizeof(to->name));
	to->protocol = control_device_protocol(from);
	to->guid = from->guid;
	to->system_guid = from->system_guid;
	to->device = (uint8_t)index;
	to->port_num = CA_PORT;
	to->ports = 1;
	take_port(from, to);
}

/* Those from 2 on of a device, behind the n that there are. How many there are then. */
static uint32_t add_ports(const struct node *node, const struct page_device *of, uint32_t n, struct ca_device dev[CA_DEVICES],
			  struct ca_device *first)
{
	unsigned ports = node_ports(node, of);
	uint32_t second = n;

	for (unsigned number = 2; number <= ports && n < CA_DEVICES; number++) {
		struct page_device at = *of;

		node_describe(node, number, &at);
		take_device(&at, first->device, &dev[n]);
		dev[n++].port_num = (uint8_t)number;
		first->ports = (uint8_t)number;
	}
	first->second = (uint8_t)second;
	for (uint32_t i = second; i < n; i++) {
		dev[i].ports = first->ports;
		dev[i].second = first->second;
	}
	return n;
}

int devices_read(const struct fabric_page *page, const struct node *node, struct ca_device dev[CA_DEVICES])
{
	struct page_device from[PAGE_DEVICES], at;
	uint32_t n = page->devices;

	if (n > CA_DEVICES || !page_copy(page, page->device, from, sizeof(from)))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!is_sane(&from[i]))
			return 0;
		at = from[i];
		node_describe(node, CA_PORT, &at);
		take_device(&at, i, &dev[i]);
	}
	for (uint32_t i = 0; i < page->devices; i++)
		n = add_ports(node, &from[i], n, dev, &dev[i]);
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

static bool still_leads(const struct route *r, const void *channel)
{
	return route_goes_both_ways(r->kind) && r->place == channel;
}

/* A QP's peer may be at an address that is gone, or behind a link that is down. A path that still leads there stays: it knows
 * which messages its peer has executed, also when that has gone meanwhile. */
static void forget_routes(struct ca *ca, const struct ca_device *dev)
{
	routes_change(&ca->routes);
	list_for_each(qp, &ca->all_qps, struct qp, all)
		if (qp->dev == dev && qp->direct_path.channel && !still_leads(qp_route(qp), qp->direct_path.channel))
			qp->direct_path = (struct direct_path){ 0 };
}

/* Peers see the P_Key of a QP that is published, and the QP's own path was found with it. */
static void show_pkeys(struct ca *ca, const struct ca_device *dev, const struct ca_device *old)
{
	wtime give_up = WTIME_NEVER;

	list_for_each(qp, &ca->all_qps, struct qp, all) {
		if (qp->dev != dev || old->pkey[qp->attr.pkey_index] == qp_pkey(qp))
			continue;
		qp->direct_path = (struct direct_path){ 0 };
		if (ca->direct && qp->published)
			ca->direct->republish_qp(ca->direct_arg, qp, &give_up);
	}
}

void devices_forget_routes(struct ca *ca)
{
	for (int i = 0; i < ca->devices; i++)
		forget_routes(ca, &ca->dev[i]);
}

/* What has changed at a port, as an adapter tells it. */
static void tell_changes(struct ca *ca, struct ca_device *dev, const struct ca_device *old)
{
	const struct {
		bool has_changed;
		enum ibv_event_type event;
	} rows[] = {
		{ !same_gids(old->gid, dev->gid), IBV_EVENT_GID_CHANGE },
		{ old->lid != dev->lid || old->lmc != dev->lmc, IBV_EVENT_LID_CHANGE },
		{ old->sm_lid != dev->sm_lid, IBV_EVENT_SM_CHANGE },
		{ memcmp(old->pkey, dev->pkey, sizeof(old->pkey)) != 0, IBV_EVENT_PKEY_CHANGE },
		{ old->port_state != dev->port_state,
		  dev->port_state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR },
		{ old->reregistered != dev->reregistered, IBV_EVENT_CLIENT_REREGISTER },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].has_changed)
			ca->ops->async_event(ca->owner, rows[i].event, dev);
	}
}

_Static_assert((int)CA_CUTS == PAGE_CUTS, "an adapter has what the page has");

void devices_take_cuts(const struct fabric_page *page, struct ca *ca)
{
	struct page_cut from[PAGE_CUTS];

	if (!page_copy(page, page->cut, from, sizeof(from)))
		return;
	ca->cuts = 0;
	for (int i = 0; i < PAGE_CUTS; i++) {
		if (!from[i].paths)
			continue;
		memcpy(ca->cut[ca->cuts].dgid, from[i].gid, sizeof(from[i].gid));
		ca->cut[ca->cuts++].paths = from[i].paths;
	}
}

void devices_refresh(const struct fabric_page *page, const struct node *node, struct ca *ca)
{
	struct page_device from;

	devices_take_cuts(page, ca);

	for (int i = 0; i < ca->devices; i++) {
		struct ca_device *dev = &ca->dev[i];
		struct ca_device old = *dev;

		if (!page_copy(page, &page->device[dev->device], &from, sizeof(from)) || !is_sane(&from))
			continue;
		node_describe(node, dev->port_num, &from);
		take_port(&from, dev);
		device_set_link(dev);
		ca->counters.link_downed += old.port_state == IBV_PORT_ACTIVE && dev->port_state != old.port_state;
		if (!same_gids(old.gid, dev->gid) || old.port_state != dev->port_state ||
		    (node_is_somewhere(node) && device_has(dev, DEVICE_LIDS)))
			forget_routes(ca, dev);
		show_pkeys(ca, dev, &old);
		tell_changes(ca, dev, &old);
	}
}

bool devices_has_gid(const struct fabric_page *page, int device, const uint8_t gid[16])
{
	struct page_device now;

	return page_copy(page, &page->device[device], &now, sizeof(now)) && page_device_has_gid(&now, gid);
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
		   uint64_t members[PAGE_SLOTS / 64], uint16_t *own_mlid)
{
	struct page_group group;

	if (!copy_group(page, device, dgid, mlid, &group))
		return false;
	*own_mlid = group.mlid;
	memcpy(members, group.slots, sizeof(group.slots));
	return true;
}

/* Where ports have LIDs, a fabric may have ports of one adapter and another. */
uint32_t group_indexes(const struct fabric_page *page, const struct ca_device *dev, const uint8_t *dgid, uint16_t mlid)
{
	bool has_more = device_has(dev, DEVICE_LIDS);
	uint32_t indexes = 0;

	for (int i = 0; i < PAGE_GROUPS; i++) {
		const struct page_group *g = &page->group[i];
		uint8_t index = g->device;

		if (g->used && index < PAGE_DEVICES && (index == dev->device || (has_more && index >= page->devices)) &&
		    (dgid ? memcmp(g->gid, dgid, sizeof(g->gid)) == 0 : g->mlid == mlid))
			indexes |= 1u << index;
	}
	return indexes;
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

int group_mlid(const struct fabric_page *page, int device, const uint8_t gid[16], uint16_t *mlid)
{
	struct page_group group;

	if (!copy_group(page, device, gid, 0, &group))
		return -ENOENT;
	*mlid = group.mlid;
	return 0;
}
