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
	to->sm_sl = from->sm_sl;
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

static void take_device(const struct page_device *from, uint32_t network, struct ca_device *to)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->name, from->name, sizeof(to->name));
	to->protocol = control_device_protocol(from);
	to->guid = from->guid;
	to->system_guid = from->system_guid;
	to->device = to->network = (uint8_t)network;
	to->port_num = CA_PORT;
	to->place_number = 1;
	to->ports = 1;
	take_port(from, to);
}

/* What devices_read has: the page's devices, and as many ports as were found. */
struct reading {
	const struct node *node;
	struct page_device device[PAGE_NAMED];
	struct control_table names;
	struct ca_device *dev;
	uint32_t n;
};

/* The port that has this number at the place, of a device of the network, behind those that there are. */
static struct ca_device *add_port(struct reading *r, uint32_t network, unsigned number)
{
	struct page_device at = r->device[network];
	struct ca_device *port = &r->dev[r->n++];

	node_describe(r->node, number, &at);
	take_device(&at, network, port);
	port->place_number = (uint8_t)number;
	return port;
}

/* Those from 2 on of the device whose first port is there. */
static void add_ports(struct reading *r, const struct host_adapter *a, struct ca_device *first)
{
	uint32_t second = r->n;

	for (unsigned number = 2; number <= a->ports && r->n < CA_DEVICES; number++) {
		struct ca_device *port = add_port(r, first->network, a->first + number - 1);

		memcpy(port->name, first->name, sizeof(port->name));
		port->device = first->device;
		port->port_num = (uint8_t)number;
		first->ports = (uint8_t)number;
	}
	first->second = (uint8_t)second;
	for (uint32_t i = second; i < r->n; i++) {
		r->dev[i].ports = first->ports;
		r->dev[i].second = first->second;
	}
}

/* Further adapters of the host are devices of the same network. */
static void add_adapters(struct reading *r, uint32_t network)
{
	const struct page_device *of = &r->device[network];
	struct host_adapter a = node_adapter(r->node, of, 0);

	add_ports(r, &a, &r->dev[network]);
	for (unsigned i = 1; (a = node_adapter(r->node, of, i)).ports && r->n < CA_DEVICES; i++) {
		struct ca_device *first = add_port(r, network, a.first);

		control_adapter_name(&r->names, i, first->name);
		first->device = (uint8_t)(first - r->dev);
		add_ports(r, &a, first);
	}
}

int devices_read(const struct fabric_page *page, const struct node *node, struct ca_device dev[CA_DEVICES])
{
	struct reading r = { .node = node, .dev = dev };
	uint32_t devices = page->devices;

	if (devices > PAGE_NAMED || !page_copy(page, page->device, r.device, sizeof(r.device)))
		return 0;
	for (uint32_t i = 0; i < devices; i++) {
		if (!is_sane(&r.device[i]))
			return 0;
		add_port(&r, i, 1);
	}
	control_table_of(r.device, devices, &r.names);
	for (uint32_t i = 0; i < devices; i++)
		add_adapters(&r, i);
	for (uint32_t i = devices; i < r.n; i++)
		dev[i].shares_network = dev[dev[i].network].shares_network = true;
	return (int)r.n;
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
static void leave_paths(struct ca *ca, const struct ca_device *dev)
{
	list_for_each(qp, &ca->all_qps, struct qp, all)
		if (qp->dev == dev && qp->direct_path.channel && !still_leads(qp_route(qp), qp->direct_path.channel)) {
			qp_break_promise(qp);
			qp->direct_path = (struct direct_path){ 0 };
		}
}

/* Peers see the P_Key of a QP that is published, and the QP's own path was found with it. */
static void show_pkeys(struct ca *ca, const struct ca_device *dev, const struct ca_device *old)
{
	wtime give_up = WTIME_NEVER;

	list_for_each(qp, &ca->all_qps, struct qp, all) {
		if (qp->dev != dev || old->pkey[qp->attr.pkey_index] == qp_pkey(qp))
			continue;
		qp_break_promise(qp);
		qp->direct_path = (struct direct_path){ 0 };
		if (ca->direct && qp->published)
			ca->direct->republish_qp(ca->direct_arg, qp, &give_up);
	}
}

static void forget_routes(struct ca *ca, const struct ca_device *dev)
{
	routes_change(&ca->routes);
	leave_paths(ca, dev);
}

void devices_forget_routes(struct ca *ca)
{
	routes_change(&ca->routes);
	for (int i = 0; i < ca->devices; i++)
		leave_paths(ca, &ca->dev[i]);
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
		{ old->sm_lid != dev->sm_lid || old->sm_sl != dev->sm_sl, IBV_EVENT_SM_CHANGE },
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

		if (!page_copy(page, &page->device[dev->network], &from, sizeof(from)) || !is_sane(&from))
			continue;
		node_describe(node, dev->place_number, &from);
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

		if (g->used && index < PAGE_DEVICES && (index == dev->network || (has_more && index >= page->devices)) &&
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
