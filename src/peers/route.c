#include "peers/route.h"

#include "peers/devices.h"
#include "peers/peers.h"
#include "wire/addr.h"

/* What a peer tells us of may be newer than our look at the page. */
static bool is_port(const struct peers *ps, const struct ca_device *dev, const struct packet_path *path)
{
	return device_is_port(dev, path->dlid, NULL) &&
	       (!path->has_grh || device_gid_index(dev, path->dgid) >= 0 || devices_has_gid(ps->page, dev->index, path->dgid));
}

/* On InfiniBand processes reach each other when both are at nodes of the fabric, or neither is. */
static enum route_kind find_kind(const struct peers *ps, const struct ca_device *dev, uint16_t pkey,
				const struct packet_path *path, uint32_t slot)
{
	bool is_own;

	if (slot < PAGE_SLOTS && device_has(dev, DEVICE_LIDS)) {
		if (node_is_somewhere(&ps->node))
			return node_way(&ps->node, ps->page, dev, pkey, path, slot);
		if (atomic_load_explicit(&ps->page->slot_port[slot], memory_order_relaxed))
			return ROUTE_NOWHERE;
	}
	is_own = is_port(ps, dev, path);
	if (roce_socket_leads_to(ps, dev, path, is_own) && !(is_own && slot == 0))
		return ROUTE_LINK;
	return is_own ? ROUTE_LOOP : ROUTE_NOWHERE;
}

static void lead_to_slot(const struct peers *ps, struct route *r)
{
	struct channel *ch = channel_to(&ps->channels, route_slot(r));

	r->place = ch;
	r->kind = !ch ? ROUTE_NONE : ch->is_loop ? ROUTE_LOOP : ROUTE_CHANNEL;
}

static bool wants_packets(const struct peers *ps, uint32_t slot)
{
	return atomic_load_explicit(&ps->page->slot_packets[slot], memory_order_relaxed);
}

/* What is sent directly passes no stage, at either end, and no link with a fault. */
static void prefer_packets(const struct peers *ps, struct route *r)
{
	if (route_goes_both_ways(r->kind) &&
	    (wants_packets(ps, route_slot(r)) || wants_packets(ps, ps->session->slot) ||
	     (r->way && ways_at(&ps->node.ways, r->way)->has_faults)))
		r->kind = ROUTE_PACKETS;
}

/* Whoever is at the other end may send first, so the link is wanted from now on. */
static void lead_over_wire(struct peers *ps, struct route *r)
{
	roce_socket_need(ps);
	r->place = ps->roce.link;
	r->kind = r->place ? ROUTE_LINK : ROUTE_NO_LINK;
}

void route_find(struct peers *ps, const struct ca_device *dev, const struct packet_path *path, struct route *r)
{
	enum route_kind kind;

	r->place = NULL;
	if (dev->port_state == IBV_PORT_DOWN) {
		r->kind = ROUTE_CUT;
		return;
	}
	if (r->qpn == MULTICAST_QPN) {
		r->kind = ROUTE_GROUP;
		return;
	}
	r->way = ps->in_forked_child || !ps->node.traffic ? 0 : node_find_way(&ps->node, dev, r->pkey, path, r->generation);
	kind = ps->in_forked_child ? ROUTE_NOWHERE : find_kind(ps, dev, r->pkey, path, route_slot(r));
	if (kind == ROUTE_LINK) {
		lead_over_wire(ps, r);
	} else if (!route_has_channel(kind)) {
		r->kind = kind;
	} else if (route_slot(r) == 0) {
		r->kind = ROUTE_MANAGEMENT;
	} else {
		lead_to_slot(ps, r);
		if (r->kind != ROUTE_NONE && !route_goes_both_ways(kind))
			r->kind = kind;
		prefer_packets(ps, r);
	}
}

struct route route_to_slot(const struct peers *ps, uint32_t slot)
{
	struct route r = { .kind = ROUTE_NOWHERE, .qpn = qpn_make(slot, 0) };

	if (slot > 0 && slot < PAGE_SLOTS)
		lead_to_slot(ps, &r);
	return r;
}

/* All processes of this host have its addresses; the QP number tells which of them it is. */
bool route_leads_to(const struct peers *ps, const struct route *back, origin_t origin)
{
	if (back->kind == ROUTE_LINK)
		return route_link(back)->origin == origin;
	if (back->kind == ROUTE_MANAGEMENT)
		return origin == ORIGIN_OWNER;
	return (back->kind == ROUTE_NONE || back->kind == ROUTE_CUT || route_channel(back)) &&
	       atomic_load_explicit(&ps->page->slot_owner[route_slot(back)], memory_order_acquire) == origin;
}

const char *route_name(const struct route *r)
{
	static const char *const names[ROUTE_KINDS] = {
		[ROUTE_NOWHERE] = "nowhere", [ROUTE_NONE] = "none", [ROUTE_CUT] = "cut", [ROUTE_ONE_WAY] = "one way",
		[ROUTE_PACKETS] = "channel",
		[ROUTE_LOOP] = "loop", [ROUTE_CHANNEL] = "channel", [ROUTE_GROUP] = "group", [ROUTE_MANAGEMENT] = "weftd",
		[ROUTE_NO_LINK] = "none",
	};

	return r->kind == ROUTE_LINK ? route_link(r)->ops->name : names[r->kind];
}
