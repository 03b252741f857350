/* Space on the way of a packet. A connected QP waits for it as long as it takes: nobody else stands still. A datagram's receiver
 * cannot stop its sender, which has other receivers too: what is for one whose ring stays full is dropped, as by a switch, and
 * counted (dropped_full), until it takes something. A process of our user is waited for meanwhile, for so long as one that runs
 * at all needs to get its turn; one of another user is not, as its word is not to be waited for (channel.c). So is a QP that has
 * no receive for its datagrams and asks for that (ib/ud_wait.h), and the two take turns at one patience. A link to other
 * hosts has room again when a socket takes what waits: connected QPs and datagrams wait alike. */
#include "peers/space.h"

#include "base/qpn.h"
#include "control/networks.h"
#include "peers/devices.h"
#include "peers/peer.h"
#include "peers/peers.h"
#include "peers/route.h"

#include <limits.h>
#include <stdio.h>

/* For packets that nobody waits for. */
static const unsigned ROOM_TO_DROP = UINT_MAX;

/* What is for a process that has left, which empties no ring, is dropped, also while weftd cannot tell that it has. */
static bool has_left(const struct channel *ch)
{
	return ch && ch->peer && peer_has_left(ch->peer);
}

/* The QPs that want room are told when there is some. */
static unsigned no_room(struct peers *ps, struct link *l)
{
	if (has_left(l->channel))
		return ROOM_TO_DROP;
	if (!l->waiting) {
		l->waiting = true;
		ps->links.waiting++;
	}
	return 0;
}

static inline unsigned link_room(struct peers *ps, struct link *l)
{
	unsigned room = l->broken ? ROOM_TO_DROP : l->ops->room(l);

	return room ? room : no_room(ps, l);
}

static unsigned channel_room(struct peers *ps, struct channel *ch)
{
	unsigned room = link_room(ps, ch->link);

	if (room && !shm_is_held(ch->shm, 0))
		ch->full_since = 0;
	return room;
}

/* As channel_room; a datagram for whose receiver nobody waits any more goes, and is dropped. qpn: the receiver; 0: it is for a
 * group, which asks for nothing. */
static unsigned datagram_room(struct peers *ps, struct channel *ch, uint32_t qpn)
{
	struct channels *cs = &ps->channels;
	unsigned room = channel_room(ps, ch), least = room ? room : ROOM_TO_DROP;

	if (ch->is_foreign || (room && !(qpn && shm_is_held(ch->shm, qpn))))
		return least;
	if (!ch->full_since)
		ch->full_since = ps->ca->now;
	if (ps->ca->now >= ch->full_since + CA_PATIENCE)
		return least;
	cs->give_up_at = wtime_min(cs->give_up_at, ch->full_since + CA_PATIENCE);
	return no_room(ps, ch->link);
}

/* On the link to members on other hosts, if there is one. */
static unsigned spread_room(struct peers *ps, const struct ca_device *dev, const struct av *av)
{
	const struct ca_gid *from = &dev->gid[av->sgid_index % CA_GIDS];
	struct link *l = av->is_global ? roce_socket_spreads(ps, dev, from->raw, av->dgid) : NULL;

	return l ? link_room(ps, l) : ROOM_TO_DROP;
}

/* Of those that listen at ports of this index. */
static unsigned members_room(struct peers *ps, const struct ca_device *dev, const struct av *av, const struct route *to_group,
			     unsigned index)
{
	uint64_t members[PAGE_SLOTS / 64];
	unsigned room = ROOM_TO_DROP;
	const struct tree *tree;
	uint16_t mlid;

	if (!group_members(ps->page, (int)index, av->is_global ? av->dgid : NULL, av->dlid, members, &mlid))
		return room;
	tree = node_find_tree(&ps->node, dev, to_group, av->dlid, av->sl, mlid);
	node_filter(&ps->node, ps->page, dev, tree, page_port_number(ps->page, index), members);
	for (uint32_t slot = 0; room && (slot = group_next(members, slot));) {
		const struct route r = route_to_slot(ps, slot);
		struct channel *ch = route_channel(&r);
		unsigned of_member = ch ? datagram_room(ps, ch, 0) : !channel_comes(ps, slot) ? ROOM_TO_DROP : 0;

		room = of_member < room ? of_member : room;
	}
	return room;
}

/* A group waits for whichever of its members is waited for, and has the room that all have. */
static unsigned group_room(struct peers *ps, const struct ca_device *dev, const struct av *av,
			   const struct route *to_group)
{
	const uint8_t *dgid = av->is_global ? av->dgid : NULL;
	unsigned room = spread_room(ps, dev, av);
	uint32_t indexes = room ? group_indexes(ps->page, dev, dgid, av->dlid) : 0;

	for (unsigned index = 0; room && indexes >> index; index++) {
		unsigned of_members = indexes >> index & 1 ? members_room(ps, dev, av, to_group, index) : ROOM_TO_DROP;

		room = of_members < room ? of_members : room;
	}
	return room;
}

/* An address that is no port's, or a slot that nobody has had since the network is there: the peer is in another network. Told
 * once. */
static void tell_missing(struct peers *ps, const struct route *r)
{
	char what[32];

	if (ps->channels.told_missing || (r->kind == ROUTE_NONE &&
	    atomic_load_explicit(&ps->page->slot_owner[route_slot(r)], memory_order_relaxed)))
		return;
	ps->channels.told_missing = true;
	snprintf(what, sizeof(what), "QP 0x%06x", r->qpn);
	networks_tell_missing(ps->session->dir, what);
}

static unsigned room_of_channel(struct peers *ps, const struct route *r, const struct av *av)
{
	return av ? datagram_room(ps, r->place, r->qpn) : channel_room(ps, r->place);
}

/* A destination that nobody owns has room: the packet is dropped on its way, as a fabric would. */
unsigned space_for(struct peers *ps, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	if (ps->in_forked_child)
		return 0;
	switch (r->kind) {
	case ROUTE_ONE_WAY:
	case ROUTE_PACKETS:
	case ROUTE_LOOP:
	case ROUTE_CHANNEL:
		return room_of_channel(ps, r, av);
	case ROUTE_NO_LINK:
		return roce_socket_comes(ps) ? 0 : ROOM_TO_DROP;
	case ROUTE_LINK:
		return link_room(ps, r->place);
	case ROUTE_GROUP:
		return av ? group_room(ps, dev, av, r) : ROOM_TO_DROP;
	case ROUTE_NONE:
		if (channel_comes(ps, route_slot(r)))
			return 0;
		tell_missing(ps, r);
		return ROOM_TO_DROP;
	case ROUTE_NOWHERE:
		tell_missing(ps, r);
		return ROOM_TO_DROP;
	default:
		return ROOM_TO_DROP;
	}
}

static bool waits_no_more(struct peers *ps, struct link *l)
{
	if (!l->waiting || (!l->ops->room(l) && !has_left(l->channel)))
		return false;
	l->waiting = false;
	if (l->channel && !shm_is_held(l->channel->shm, 0))
		l->channel->full_since = 0;
	ps->links.waiting--;
	return true;
}

void space_retry(struct peers *ps)
{
	bool any = waits_no_more(ps, ps->channels.loop->link);

	if (ps->ca->now >= ps->channels.give_up_at) {
		ps->channels.give_up_at = WTIME_NEVER;
		any = true;
	}
	list_for_each(l, &ps->links.watched, struct link, watched)
		any |= waits_no_more(ps, l);
	if (any)
		ca_unblock(ps->ca);
}

bool space_hold(struct peers *ps, uint32_t src_qpn, uint32_t dest_qpn)
{
	const struct channel *ch = channel_to(&ps->channels, qpn_slot(src_qpn));

	if (!ch || ch->gone || ch->is_loop || ch->is_foreign)
		return false;
	shm_hold(ch->shm, dest_qpn);
	return true;
}

void space_let_go(struct peers *ps, uint32_t dest_qpn)
{
	const struct channels *cs = &ps->channels;

	for (uint32_t i = 0; i < cs->count; i++)
		shm_let_go(cs->open[i]->shm, dest_qpn);
}
