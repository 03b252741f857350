/* The pump: packets from the engines to the links and back. Output never recurses into input: what we send to ourselves goes
 * through the link of the loop channel as frames, like anything else. */
#include "runtime/pump.h"

#include "base/log.h"
#include "ib/path.h"
#include "peers/devices.h"
#include "peers/direct_messages.h"
#include "peers/space.h"
#include "peers/route.h"
#include "runtime/bad_keys.h"
#include "runtime/faults.h"
#include "runtime/gsi.h"
#include "runtime/helper.h"
#include "runtime/recorder.h"
#include "runtime/state.h"
#include "verbs/cq.h"
#include "verbs/transport.h"
#include "wire/addr.h"
#include "wire/packet.h"

#include <string.h>

enum {
	COPY_TURNS = 64,	/* slices that one entry copies for all: our choice, some 20 ms */
	LEFT_BEHIND = 1 << 15,	/* what a dead peer may have left: a ring full of the shortest records */
	ASKED_IN_VAIN = 1 << 15,	/* looks at a link that must be asked: our choice, some milliseconds of polls */
	TURN = 32,		/* frames of one link before its answers are sent: our choice, half a window */
};

static void note_sent(struct runtime *rt, struct link *l, size_t bytes)
{
	links_note_sent(&rt->peers.links, l);
	rt->ca.counters.tx_bytes += bytes;
}

static void note_dropped(struct runtime *rt, const struct ca_device *dev, const struct link *l, unsigned packets)
{
	if (l && !l->broken)
		rt->ca.counters.dropped_full += packets;
	else
		ca_count(&rt->ca, dev, COUNTER_INDEX(send_err), packets);
}

static struct wire_load load_of(const struct burst_row *b, unsigned packets)
{
	struct wire_load load = { .packets = packets };

	for (unsigned i = 0; i < packets; i++)
		load.words += packet_bytes(&b->out[i].packet) / 4;
	return load;
}

/* At the ports on their way. What the process's own faults do to packets comes after that; links with faults count by themselves
 * (runtime/link_faults.c). */
static void count_on_way(struct runtime *rt, uint32_t number, const struct burst_row *b, unsigned packets)
{
	const struct way *way = ways_at(&rt->peers.node.ways, number);
	const struct wire_load load = load_of(b, packets);

	node_count(&rt->peers.node, &way->there, &load);
}

/* A packet for which the receiver's ring has no room is lost where it begins; what is cut is counted where its way ends. */
static unsigned packets_on_way(const struct route *r, const struct burst_row *b, unsigned sent)
{
	return r->kind == ROUTE_CUT || r->kind == ROUTE_NOWHERE || r->kind == ROUTE_NONE ? b->packets : sent;
}

/* At our port, where it is no fabric's. */
static void count_at_port(const struct burst_row *b, enum port_load_way way, unsigned packets)
{
	struct port_load *at = b->dev->load;
	struct wire_load load;

	if (!at)
		return;
	if (b->dev->port_state == IBV_PORT_DOWN)
		packets = 0;
	load = load_of(b, packets);
	port_load_pass(at, way, load.words, load.packets, b->route->kind == ROUTE_GROUP);
	port_load_add(at, PORT_LOAD_XMIT_DISCARDS, b->packets - packets);
}

/* On the way to another host, where somebody wants to see what comes of it. */
static bool loses(const struct runtime *rt, const struct route *r, const struct packet_out *out)
{
	return __builtin_expect(rt->ca.cuts, 0) && r->kind == ROUTE_LINK && out->is_cut;
}

/* Datagrams for QP1 of a port of this host, which weftd counts on their way. */
static __attribute__((noinline)) unsigned send_to_owner(struct runtime *rt, const struct route *r, const struct burst_row *b)
{
	for (unsigned i = 0; i < b->packets; i++) {
		const struct packet *p = &b->out[i].packet;

		if (rt->faults)
			faults_send(rt, r, b->dev, p, CA_PORT, 0);
		else if (gsi_is_for_qp1(p))
			gsi_send_packet(rt, link_kind(b->dev->index, p->form), p);
		else
			ca_count(&rt->ca, b->dev, COUNTER_INDEX(send_err), 1);
	}
	return b->packets;
}

/* How many packets left our port. number: of a group's member's port; what is for one QP is for the port of its address. */
static unsigned send_by(struct runtime *rt, const struct route *r, const struct burst_row *b, unsigned number)
{
	const struct packet *packet[BURST_PACKETS];
	static const struct route nowhere = { .kind = ROUTE_NOWHERE };
	unsigned sent = 0, left = 0, passing;
	struct link *l;
	size_t bytes = 0;

	if (__builtin_expect(r->kind == ROUTE_MANAGEMENT, 0))
		return send_to_owner(rt, r, b);
	for (unsigned i = 0; i < b->packets; i++)
		if (!loses(rt, r, &b->out[i]))
			packet[left++] = &b->out[i].packet;
	rt->ca.counters.path_cut_packets += b->packets - left;
	if (rt->faults) {
		if (r->kind == ROUTE_CUT)
			bad_keys_sent(rt, r, b);
		if (r->way && !ways_at(&rt->peers.node.ways, r->way)->has_faults)
			count_on_way(rt, r->way, b, b->packets);
		for (unsigned i = 0; i < b->packets; i++)
			 faults_send(rt, loses(rt, r, &b->out[i]) ? &nowhere : r, b->dev, &b->out[i].packet, number, 0);
		return b->packets;
	}
	l = route_link(r);
	if (r->kind == ROUTE_LINK && !l->broken)
		links_watch(&rt->peers.links, l);	/* an answer comes soon */
	if (l && left)
		sent = l->ops->send(l, pump_index(rt, b->dev, number), packet, left);
	for (unsigned i = 0; i < sent; i++)
		bytes += packet_bytes(packet[i]);
	if (sent)
		note_sent(rt, l, bytes);
	sent += b->packets - left;
	if (r->kind == ROUTE_CUT)
		bad_keys_sent(rt, r, b);
	passing = packets_on_way(r, b, sent);
	if (r->way) {
		count_on_way(rt, r->way, b, passing);
		if (passing < b->packets)
			node_count_discards(&rt->peers.node, r->way, b->packets - passing);
	}
	if (sent < b->packets)
		note_dropped(rt, b->dev, l, b->packets - sent);
	return passing;
}

unsigned pump_index(const struct runtime *rt, const struct ca_device *dev, unsigned number)
{
	return number == CA_PORT ? dev->network : page_index(rt->peers.page, number);
}

void pump_send_frame(struct runtime *rt, struct link *l, unsigned kind, unsigned number, const void *frame, size_t bytes)
{
	unsigned index = pump_index(rt, &rt->ca.dev[link_device(kind)], number);

	if (l && l->ops->send_frame(l, link_kind(index, link_form(kind)), frame, bytes))
		note_sent(rt, l, bytes);
	else
		note_dropped(rt, &rt->ca.dev[link_device(kind)], l, 1);
}

/* Those members of a group that listen at ports of one index, and which the tree reaches. */
struct listeners {
	unsigned number;	/* of these ports */
	uint64_t slots[PAGE_SLOTS / 64];
};

static bool find_listeners(struct runtime *rt, const struct burst_row *b, const struct tree *tree, unsigned index,
			   struct listeners *l)
{
	const struct packet_path *path = &b->out[0].packet.path;
	const struct fabric_page *page = rt->peers.page;
	uint16_t mlid;

	l->number = page_port_number(page, index);
	if (!group_members(page, (int)index, path->has_grh ? path->dgid : NULL, path->dlid, l->slots, &mlid))
		return false;
	node_filter(&rt->peers.node, page, b->dev, tree, l->number, l->slots);
	return true;
}

/* Each packet gets to those members that no link loses it before, when it has passed those that are slow. */
static void send_over_faults(struct runtime *rt, const struct burst_row *b, const struct tree *tree, uint32_t indexes)
{
	struct node *node = &rt->peers.node;
	const wtime now = rt->ca.now;
	struct listeners l;

	for (unsigned i = 0; i < b->packets; i++) {
		node_draw_tree(node, tree, rt->session.number, now, packet_bytes(&b->out[i].packet) / 4);
		for (unsigned index = 0; indexes >> index; index++) {
			if (!(indexes >> index & 1) || !find_listeners(rt, b, tree, index, &l))
				continue;
			for (uint32_t slot = 0; (slot = group_next(l.slots, slot));) {
				const struct route r = route_to_slot(&rt->peers, slot);

				if (!node_tree_got(node, rt->peers.page, tree, slot, l.number))
					continue;
				faults_send(rt, &r, b->dev, &b->out[i].packet, l.number,
					    node_tree_arrival(node, rt->peers.page, tree, slot, l.number, now));
			}
		}
	}
}

/* To the members here. Were there any? */
static bool send_to_members(struct runtime *rt, const struct burst_row *b, const struct tree *tree, uint32_t indexes)
{
	struct listeners l;
	bool any = false;

	for (unsigned index = 0; indexes >> index; index++) {
		if (!(indexes >> index & 1) || !find_listeners(rt, b, tree, index, &l))
			continue;
		for (uint32_t slot = 0; (slot = group_next(l.slots, slot));) {
			const struct route r = route_to_slot(&rt->peers, slot);

			send_by(rt, &r, b, l.number);
			any = true;
		}
	}
	return any;
}

/* The LID by which weftd knows the group, where no manager gives it one. */
static uint16_t own_mlid(const struct runtime *rt, const struct packet_path *path, uint32_t indexes)
{
	uint64_t members[PAGE_SLOTS / 64];
	uint16_t mlid = path->dlid;

	if (indexes)
		(void)group_members(rt->peers.page, __builtin_ctz(indexes), path->has_grh ? path->dgid : NULL, path->dlid,
				    members, &mlid);
	return mlid;
}

/* A group's packet is one at our port, which hands it to those members that are here; the network hands it to those on other
 * hosts. A group that nobody has joined is nowhere in the page, and its packets go through the fabric all the same. */
static void send_multicast(struct runtime *rt, const struct burst_row *b)
{
	const struct packet_path *path = &b->out[0].packet.path;
	struct node *node = &rt->peers.node;
	uint32_t indexes = group_indexes(rt->peers.page, b->dev, path->has_grh ? path->dgid : NULL, path->dlid);
	enum port_load_way way = PORT_LOAD_XMIT;
	struct route out = { .kind = ROUTE_LINK };
	const struct tree *tree;

	tree = node_find_tree(node, b->dev, b->route, path->dlid, path->sl, own_mlid(rt, path, indexes));
	if (tree && rt->faults && node->traffic && tree_has_faults(tree)) {
		send_over_faults(rt, b, tree, indexes);
		count_at_port(b, way, b->packets);
		return;
	}
	if (tree) {
		const struct wire_load load = load_of(b, b->packets);

		node_count_tree(node, tree, &load);
	}
	if (send_to_members(rt, b, tree, indexes))
		way = PORT_LOAD_LOOP;
	out.place = path->has_grh ? roce_socket_spreads(&rt->peers, b->dev, path->sgid, path->dgid) : NULL;
	if (out.place)
		send_by(rt, &out, b, CA_PORT);
	count_at_port(b, way, b->packets);
}

void pump_flush(struct runtime *rt)
{
	struct list_node *n;

	while ((n = list_pop(&rt->peers.links.dirty))) {
		struct link *l = container_of(n, struct link, dirty);

		list_remove(&l->acks_owed);
		l->ops->flush(l);
	}
	while ((n = list_pop(&rt->peers.links.acks_owed))) {
		struct link *l = container_of(n, struct link, acks_owed);

		l->ops->flush(l);
	}
}

/* Turn after turn of the copies under way; whoever comes meanwhile finds the lock free after each. Where others post ever more of
 * them, whoever leaves next goes on with the rest. */
static void copy_on(struct runtime *rt)
{
	unsigned turns = 0;

	rt->copies = true;
	do {
		runtime_yield_lock(rt);
		if (ca_is_apart(&rt->ca))	/* what others posted meanwhile, where the engine reads doorbells */
			ca_read_doorbells(&rt->ca, rt->ca.now);
		ca_resume(&rt->ca);
		pump(rt, rt->ca.now);
	} while (!list_empty(&rt->ca.slices) && ++turns < COPY_TURNS);
	rt->copies = false;
	ca_resume(&rt->ca);
}

/* Apart, as most polls send nothing. */
static __attribute__((noinline)) void send_burst(struct runtime *rt, const struct burst *b)
{
	struct burst_row row;

	for (unsigned first = 0; first < b->packets; first += row.packets) {
		row = ca_next_row(b, first);
		if (row.route->kind == ROUTE_GROUP)
			send_multicast(rt, &row);
		else
			count_at_port(&row, PORT_LOAD_XMIT, send_by(rt, row.route, &row, CA_PORT));
	}
}

/* What QPs have to send. How many packets; as many as an entry may, when time has passed. */
static unsigned send_ready(struct runtime *rt)
{
	struct burst *b = &rt->burst;
	unsigned n = 0;

	if (rt->now_is_old)
		runtime_read_clock(rt);
	for (; n < PUMP_FRAMES && ca_output(&rt->ca, rt->ca.now, b); n += b->packets)
		send_burst(rt, b);
	if (list_empty(&rt->ca.slices) || rt->copies)
		return n;
	copy_on(rt);
	return PUMP_FRAMES;
}

/* How many packets were sent. Ends by itself: a full ring blocks the QPs that lead to it. */
static unsigned output(struct runtime *rt)
{
	unsigned n = list_empty(&rt->ca.ready) ? 0 : send_ready(rt);

	if (rt->faults)
		n += faults_run(rt, IMPAIR_OUT);
	if (!list_empty(&rt->peers.links.dirty))
		pump_flush(rt);
	return n;
}

/* A frame in order that is not taken in. */
static void note_untaken(struct runtime *rt, const struct ca_device *dev)
{
	if (!dev || dev->port_state != IBV_PORT_DOWN) {
		rt->ca.counters.malformed++;
		return;
	}
	rt->ca.counters.dropped_port_down++;
	if (rt->faults)
		faults_recorder(rt)->refused = true;
}

/* Ports of all adapters of a host are in one network. */
static struct ca_device *addressed(struct runtime *rt, unsigned network, const struct packet *p)
{
	const uint8_t *gid = p->path.has_grh ? p->path.dgid : NULL;

	for (int i = 0; i < rt->ca.devices; i++)
		if (rt->ca.dev[i].network == network && device_is_addressed(&rt->ca.dev[i], p->path.dlid, gid))
			return &rt->ca.dev[i];
	return &rt->ca.dev[network];
}

/* The port that a frame of this kind is for: of a group's, what the kind says; else that of its address. NULL: none of ours. */
static struct ca_device *port_of(struct runtime *rt, unsigned kind, const struct packet *p)
{
	unsigned index = link_device(kind);
	struct ca_device *dev = index < (unsigned)rt->ca.devices ? &rt->ca.dev[index] : NULL;

	if (!dev || !dev->shares_network || p->form == PACKET_ETHERNET || p->dest_qpn == MULTICAST_QPN)
		return dev;
	return addressed(rt, dev->network, p);
}

/* What a process of this host sent to a group was counted there. */
static void note_received(struct ca_device *dev, origin_t origin, const struct packet *p, size_t bytes)
{
	bool is_to_group = p->form == PACKET_ETHERNET || p->dest_qpn == MULTICAST_QPN;

	if (!is_to_group || origin == ORIGIN_NETWORK)
		port_load_pass(dev->load, PORT_LOAD_RCV, bytes / 4, 1, is_to_group);
}

void pump_deliver(struct runtime *rt, origin_t origin, unsigned kind, const void *frame, size_t bytes)
{
	struct ca_device *dev = NULL;
	enum packet_error err;
	struct packet p;

	if (rt->now_is_old)
		runtime_read_clock(rt);
	rt->frames++;
	rt->ca.counters.rx_bytes += bytes;
	err = packet_parse(&p, link_form(kind), frame, bytes, true);
	if (err == PACKET_OK)
		dev = port_of(rt, kind, &p);
	if (dev && __builtin_expect(rt->ca.cuts, 0) && origin == ORIGIN_NETWORK && path_loses(&rt->ca, &p)) {
		rt->ca.counters.path_cut_packets++;
		if (rt->faults)
			faults_recorder(rt)->refused = true;
	} else if (dev && dev->transport->packets && device_takes(dev, link_form(kind))) {
		note_received(dev, origin, &p, bytes);
		ca_input(&rt->ca, dev, rt->ca.now, origin, &p);
	} else if (err == PACKET_BAD_ICRC) {
		rt->ca.counters.icrc_errors++;
	} else if (err == PACKET_OK) {
		note_untaken(rt, dev);
	} else {
		rt->ca.counters.malformed++;
	}
}

/* How many frames' time it took more than one. */
static unsigned deliver_message(struct runtime *rt, struct channel *ch, const void *record, size_t bytes)
{
	rt->frames++;
	return direct_messages_deliver(&rt->peers, ch, record, bytes) ? PUMP_FRAMES - 1 : 0;
}

/* Whoever owns a link that is no channel's closes it: until then nobody looks at it. QPs that waited for it find room to drop. */
static void note_broken(struct runtime *rt, struct link *l)
{
	if (l->channel) {
		rt->peers.channels.sweep = true;
		return;
	}
	log_line(LOG_ERROR, "the %s link is broken: nothing is sent or received by it any more", l->ops->name);
	rt->ca.counters.link_downed++;
	links_remove(&rt->peers.links, l);
	ca_unblock(&rt->ca);
}

/* Takes in at most `budget` frames and messages. How many. */
static unsigned take_in_from(struct runtime *rt, struct link *l, unsigned budget)
{
	const void *frame;
	unsigned kind;
	size_t bytes;
	unsigned n = 0;

	rt->gathers = !l->channel;	/* peers of this host learn at once what was executed */
	for (; n < budget && link_pending(l) && (frame = l->ops->receive(l, &kind, &bytes)); n++) {
		if (kind == SHM_MESSAGE)
			n += deliver_message(rt, l->channel, frame, bytes);
		else if (rt->faults)
			faults_receive(rt, l->origin, kind, frame, bytes);
		else
			pump_deliver(rt, l->origin, kind, frame, bytes);
	}
	l->ops->release(l);
	if (rt->faults)
		n += faults_run(rt, IMPAIR_IN);
	memory_settle(&rt->copy_file);
	rt->gathers = false;
	if (l->broken)
		note_broken(rt, l);
	return n;
}

/* Nothing came. A link that must be asked costs a system call each time, so it rests once it was asked for some milliseconds in
 * vain: then its descriptor wakes the helper, which watches it again. Frames that wait in the stage are for a watched link. */
static void note_idle(struct runtime *rt, struct link *l)
{
	struct links *ls = &rt->peers.links;

	if (l->channel) {
		if (links_looked_in_vain(ls, l))
			channel_rest(&rt->peers.channels, l->channel);
		return;
	}
	if (++l->idle < ASKED_IN_VAIN || rt->faults || l->waiting)
		return;
	l->idle = 0;
	if (l->ops->may_sleep(l, false))
		links_rest(ls, l);
}

/* How many frames and messages. *more: a link has more than its turn. */
static unsigned take_in(struct runtime *rt, bool *more)
{
	struct links *ls = &rt->peers.links;
	unsigned n = 0, taken;

	*more = false;
	if (rt->peers.channels.bells && bells_any(rt->peers.channels.bells))
		channels_listen(&rt->peers.channels);
	links_look(ls);
	list_for_each_safe(l, &ls->watched, struct link, watched) {
		taken = take_in_from(rt, l, TURN);
		if (taken)
			l->idle = 0;
		else
			note_idle(rt, l);
		*more |= taken >= TURN;
		n += taken;
	}
	if (ls->waiting)
		space_retry(&rt->peers);
	return n;
}

/* Has the poll what it came for? Else to look once more would fetch the line that the peer writes next. Who has waited for a
 * message most likely answers it before the next one comes. */
static bool is_served(const struct runtime *rt, const struct cq *cq, const struct ibv_wc *list)
{
	return cq->awaiting == cq->awaiting_end || (cq->awaiting == list ? !list_empty(&rt->ca.acks.postponed) : rt->waited);
}

bool pump_take_short(struct runtime *rt, const struct cq *cq)
{
	const struct ibv_wc *list = cq->awaiting;
	unsigned n = 0;

	list_for_each(l, &rt->peers.links.watched, struct link, watched) {
		if (!link_pending(l))
			continue;
		if (!l->channel || !direct_messages_take_short(&rt->peers, l->channel))
			return false;
		l->idle = 0;
		do
			n++;
		while (n < TURN && !is_served(rt, cq, list) && link_pending(l) &&
		       direct_messages_take_short(&rt->peers, l->channel));
		rt->frames += n;
		return true;
	}
	return false;
}

/* Short messages of this process to itself, as in pump_take_short. */
static void take_own_short(struct runtime *rt)
{
	struct channel *loop = rt->peers.channels.loop;
	unsigned n = 0;

	do {
		if (!direct_messages_take_short(&rt->peers, loop))
			break;
		n++;
	} while (n < TURN && link_pending(loop->link));
	if (!n)
		return;
	rt->frames += n;
	loop->link->ops->release(loop->link);
	if (loop->link->waiting)
		space_retry(&rt->peers);
}

static __attribute__((noinline)) void send_and_take_own(struct runtime *rt)
{
	struct link *loop = rt->peers.channels.loop->link;
	unsigned n = 0, taken;
	do {
		n += output(rt);
		taken = take_in_from(rt, loop, TURN);
		n += taken;
		if (loop->waiting)
			space_retry(&rt->peers);
	} while (taken && pump_has_output(rt) && n < PUMP_FRAMES);
	if (n >= PUMP_FRAMES)
		helper_kick(rt);
}

void pump_out(struct runtime *rt)
{
	bool sends = !list_empty(&rt->ca.ready) || !list_empty(&rt->peers.links.dirty) || rt->faults;

	if (!sends && link_pending(rt->peers.channels.loop->link))
		take_own_short(rt);
	if (sends || pump_has_output(rt))
		send_and_take_own(rt);
}

/* Closes channels whose peer broke the rules, or is gone: then what it left is taken in. */
static void sweep(struct runtime *rt)
{
	struct channel *ch;

	while ((ch = channels_leaving(&rt->peers.channels))) {
		if (ch->gone) {
			take_in_from(rt, ch->link, LEFT_BEHIND);
			ca_read_acks(&rt->ca, rt->ca.now, UINT32_MAX);
		}
		channel_leave(&rt->peers, ch);
	}
}

bool pump(struct runtime *rt, wtime now)
{
	unsigned n = 0;
	bool more;

	if (ca_deadline(&rt->ca) <= now)
		ca_expire(&rt->ca, now);
	do {
		n += take_in(rt, &more);
		if (rt->faults || pump_has_output(rt))
			pump_out(rt);
	} while (more && n < PUMP_FRAMES);
	if (rt->peers.channels.sweep)
		sweep(rt);
	if (more)
		runtime_yield_lock(rt);
	return more || pump_has_output(rt);
}

bool pump_all(struct runtime *rt, wtime now)
{
	rt->ca.acks.postpones = false;
	ca_ack_postponed(&rt->ca, now);
	ca_read_acks(&rt->ca, now, UINT32_MAX);
	return pump(rt, now);
}

bool pump_look(struct runtime *rt)
{
	links_look(&rt->peers.links);
	return pump_pending(rt);
}

bool pump_may_sleep(struct runtime *rt)
{
	struct channel_bells *bells = rt->peers.channels.bells;
	bool by_futex = progress_has_sleeper(&rt->progress);
	bool may = !bells || bells_may_sleep(bells, by_futex ? BELL_WAKE_FUTEX : BELL_WAKE_FD);

	list_for_each(l, &rt->peers.links.watched, struct link, watched)
		if (!l->ops->may_sleep(l, by_futex))
			may = false;
	/* after the sleeper words: who executes a message of ours now wakes us */
	if (ca_awaits_acks(&rt->ca) && ca_read_acks(&rt->ca, rt->ca.now, UINT32_MAX))
		may = false;
	return may;
}

void pump_awake(struct runtime *rt)
{
	if (rt->peers.channels.bells)
		bells_awake(rt->peers.channels.bells);
	list_for_each(l, &rt->peers.links.watched, struct link, watched)
		l->ops->awake(l);
}
