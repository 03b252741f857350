/* The pump: packets from the engines to the links and back. Output never recurses into input: what we send to ourselves goes
 * through the link of the loop channel as frames, like anything else. */
#include "runtime/pump.h"

#include "base/log.h"
#include "peers/devices.h"
#include "peers/direct_path.h"
#include "peers/space.h"
#include "peers/route.h"
#include "runtime/faults.h"
#include "runtime/helper.h"
#include "runtime/recorder.h"
#include "runtime/runtime.h"
#include "verbs/transport.h"
#include "wire/packet.h"

enum {
	COPY_TURNS = 64,	/* slices that one entry copies for all: our choice, some 20 ms */
	LEFT_BEHIND = 1 << 15,	/* what a dead peer may have left: a ring full of the shortest records */
	ASKED_IN_VAIN = 1 << 15,	/* looks at a link that must be asked: our choice, some milliseconds of polls */
	TURN = 32,		/* frames of one link before its answers are sent: our choice, half a window */
};

static void note_sent(struct host *h, struct link *l, size_t bytes)
{
	links_note_sent(&h->peers.links, l);
	h->ca.counters.tx_bytes += bytes;
}

static void note_dropped(struct host *h, const struct link *l, unsigned packets)
{
	if (l && !l->broken)
		h->ca.counters.dropped_full += packets;
	else
		h->ca.counters.send_err += packets;
}

static void send_by(struct host *h, const struct route *r, const struct burst *b)
{
	const struct packet *packet[BURST_PACKETS];
	unsigned sent = 0;
	struct link *l;
	size_t bytes = 0;

	for (unsigned i = 0; i < b->packets; i++)
		packet[i] = &b->out[i].packet;
	if (h->faults) {
		for (unsigned i = 0; i < b->packets; i++)
			faults_send(h, r, b->dev, packet[i]);
		return;
	}
	l = route_link(r);
	if (r->kind == ROUTE_LINK && !l->broken)
		links_watch(&h->peers.links, l);	/* an answer comes soon */
	if (l)
		sent = l->ops->send(l, b->dev->index, packet, b->packets);
	for (unsigned i = 0; i < sent; i++)
		bytes += packet_bytes(packet[i]);
	if (sent)
		note_sent(h, l, bytes);
	if (sent < b->packets)
		note_dropped(h, l, b->packets - sent);
}

void pump_send_frame(struct host *h, struct link *l, unsigned kind, const void *frame, size_t bytes)
{
	if (l && l->ops->send_frame(l, kind, frame, bytes))
		note_sent(h, l, bytes);
	else
		note_dropped(h, l, 1);
}

static void send_multicast(struct host *h, const struct burst *b)
{
	const struct packet_path *path = &b->out[0].packet.path;
	uint64_t members[PAGE_SLOTS / 64];

	if (!group_members(h->peers.page, b->dev->index, path->has_grh ? path->dgid : NULL, path->dlid, members))
		return;
	node_filter(&h->peers.node, h->peers.page, b->dev, members);
	for (uint32_t slot = 0; (slot = group_next(members, slot));) {
		const struct route r = route_to_slot(&h->peers, slot);

		send_by(h, &r, b);
	}
}

void pump_flush(struct host *h)
{
	struct list_node *n;

	while ((n = list_pop(&h->peers.links.dirty))) {
		struct link *l = container_of(n, struct link, dirty);

		list_remove(&l->acks_owed);
		l->ops->flush(l);
	}
	while ((n = list_pop(&h->peers.links.acks_owed))) {
		struct link *l = container_of(n, struct link, acks_owed);

		l->ops->flush(l);
	}
}

/* Turn after turn of the copies under way; whoever comes meanwhile finds the lock free after each. Where others post ever more of
 * them, whoever leaves next goes on with the rest. */
static void copy_on(struct host *h)
{
	unsigned turns = 0;

	h->copies = true;
	do {
		host_yield_lock(h);
		if (h->ca.doorbells)	/* what others posted meanwhile, where the engine reads doorbells */
			ca_read_doorbells(&h->ca, h->ca.now);
		ca_resume(&h->ca);
		pump(h, h->ca.now);
	} while (!list_empty(&h->ca.slices) && ++turns < COPY_TURNS);
	h->copies = false;
	ca_resume(&h->ca);
}

/* What QPs have to send. How many packets; as many as an entry may, when time has passed. */
static unsigned send_ready(struct host *h)
{
	struct burst *b = &h->burst;
	unsigned n = 0;

	if (h->now_is_old)
		host_read_clock(h);
	for (; n < PUMP_FRAMES && ca_output(&h->ca, h->ca.now, b); n += b->packets) {
		if (b->route->kind == ROUTE_GROUP)
			send_multicast(h, b);
		else
			send_by(h, b->route, b);
	}
	if (list_empty(&h->ca.slices) || h->copies)
		return n;
	copy_on(h);
	return PUMP_FRAMES;
}

/* How many packets were sent. Ends by itself: a full ring blocks the QPs that lead to it. */
static unsigned output(struct host *h)
{
	unsigned n = list_empty(&h->ca.ready) ? 0 : send_ready(h);

	if (h->faults)
		n += faults_run(h, IMPAIR_OUT);
	if (!list_empty(&h->peers.links.dirty))
		pump_flush(h);
	return n;
}

/* A frame in order that is not taken in. */
static void note_untaken(struct host *h, unsigned kind)
{
	unsigned index = link_device(kind);

	if (index >= (unsigned)h->ca.devices || h->ca.dev[index].port_state != IBV_PORT_DOWN) {
		h->ca.counters.malformed++;
		return;
	}
	h->ca.counters.dropped_port_down++;
	if (h->faults)
		faults_recorder(h)->refused = true;
}

/* The device that a frame of this kind is for; NULL: none of ours takes it. */
static struct ca_device *device_of(struct host *h, unsigned kind)
{
	unsigned index = link_device(kind);
	struct ca_device *dev = index < (unsigned)h->ca.devices ? &h->ca.dev[index] : NULL;

	return dev && dev->transport->packets && device_takes(dev, link_form(kind)) ? dev : NULL;
}

void pump_deliver(struct host *h, origin_t origin, unsigned kind, const void *frame, size_t bytes)
{
	struct ca_device *dev = device_of(h, kind);
	struct packet p;
	enum packet_error err;

	if (h->now_is_old)
		host_read_clock(h);
	h->frames++;
	h->ca.counters.rx_bytes += bytes;
	err = packet_parse(&p, link_form(kind), frame, bytes, true);
	if (err == PACKET_OK && dev)
		ca_input(&h->ca, dev, h->ca.now, origin, &p);
	else if (err == PACKET_BAD_ICRC)
		h->ca.counters.icrc_errors++;
	else if (err == PACKET_OK)
		note_untaken(h, kind);
	else
		h->ca.counters.malformed++;
}

/* How many frames' time it took more than one. */
static unsigned deliver_message(struct host *h, struct channel *ch, const void *record, size_t bytes)
{
	h->frames++;
	return direct_path_deliver(&h->peers, ch, record, bytes) ? PUMP_FRAMES - 1 : 0;
}

/* Whoever owns a link that is no channel's closes it: until then nobody looks at it. QPs that waited for it find room to drop. */
static void note_broken(struct host *h, struct link *l)
{
	if (l->channel) {
		h->peers.channels.sweep = true;
		return;
	}
	log_line(LOG_ERROR, "the %s link is broken: nothing is sent or received by it any more", l->ops->name);
	h->ca.counters.link_downed++;
	links_remove(&h->peers.links, l);
	ca_unblock(&h->ca);
}

/* Takes in at most `budget` frames and messages. How many. */
static unsigned take_in_from(struct host *h, struct link *l, unsigned budget)
{
	const void *frame;
	unsigned kind;
	size_t bytes;
	unsigned n = 0;

	for (; n < budget && link_pending(l) && (frame = l->ops->receive(l, &kind, &bytes)); n++) {
		if (kind == SHM_MESSAGE)
			n += deliver_message(h, l->channel, frame, bytes);
		else if (h->faults)
			faults_receive(h, l->origin, kind, frame, bytes);
		else
			pump_deliver(h, l->origin, kind, frame, bytes);
	}
	l->ops->release(l);
	if (h->faults)
		n += faults_run(h, IMPAIR_IN);
	if (l->broken)
		note_broken(h, l);
	return n;
}

/* Nothing came. A link that must be asked costs a system call each time, so it rests once it was asked for some milliseconds in
 * vain: then its descriptor wakes the helper, which watches it again. Frames that wait in the stage are for a watched link. */
static void note_idle(struct host *h, struct link *l)
{
	struct links *ls = &h->peers.links;

	if (l->channel) {
		if (links_looked_in_vain(ls, l))
			channel_rest(&h->peers.channels, l->channel);
		return;
	}
	if (++l->idle < ASKED_IN_VAIN || h->faults || l->waiting)
		return;
	l->idle = 0;
	if (l->ops->may_sleep(l, false))
		links_rest(ls, l);
}

/* How many frames and messages. *more: a link has more than its turn. */
static unsigned take_in(struct host *h, bool *more)
{
	struct links *ls = &h->peers.links;
	unsigned n = 0, taken;

	*more = false;
	if (h->peers.channels.bells && bells_waits(h->peers.channels.bells))
		channels_listen(&h->peers.channels);
	links_look(ls);
	list_for_each_safe(l, &ls->watched, struct link, watched) {
		taken = take_in_from(h, l, TURN);
		if (taken)
			l->idle = 0;
		else
			note_idle(h, l);
		*more |= taken >= TURN;
		n += taken;
	}
	if (ls->waiting)
		space_retry(&h->peers);
	return n;
}

void pump_out(struct host *h)
{
	struct link *loop = h->peers.channels.loop->link;
	unsigned n = 0, taken;

	do {
		n += output(h);
		taken = take_in_from(h, loop, TURN);
		n += taken;
		if (loop->waiting)
			space_retry(&h->peers);
	} while (taken && pump_has_output(h) && n < PUMP_FRAMES);
	if (n >= PUMP_FRAMES)
		helper_kick(h);
}

/* Closes channels whose peer broke the rules, or is gone: then what it left is taken in. */
static void sweep(struct host *h)
{
	struct channel *ch;

	while ((ch = channels_leaving(&h->peers.channels))) {
		if (ch->gone) {
			take_in_from(h, ch->link, LEFT_BEHIND);
			ca_read_acks(&h->ca, h->ca.now, UINT32_MAX);
		}
		channel_leave(&h->peers, ch);
	}
}

bool pump(struct host *h, wtime now)
{
	unsigned n = 0;
	bool more;

	if (ca_deadline(&h->ca) <= now)
		ca_expire(&h->ca, now);
	do {
		n += take_in(h, &more);
		if (h->faults || pump_has_output(h))
			pump_out(h);
	} while (more && n < PUMP_FRAMES);
	if (h->peers.channels.sweep)
		sweep(h);
	if (more)
		host_yield_lock(h);
	return more || pump_has_output(h);
}

bool pump_all(struct host *h, wtime now)
{
	h->ca.acks.defers = false;
	ca_ack_deferred(&h->ca, now);
	ca_read_acks(&h->ca, now, UINT32_MAX);
	return pump(h, now);
}

wtime pump_deadline(const struct host *h)
{
	wtime engine = wtime_min(ca_deadline(&h->ca), h->peers.links.waiting ? h->peers.channels.give_up_at : WTIME_NEVER);

	return h->faults ? wtime_min(engine, faults_deadline(h)) : engine;
}

bool pump_pending(const struct host *h)
{
	return (h->peers.channels.bells && bells_waits(h->peers.channels.bells)) || links_pending(&h->peers.links);
}

bool pump_look(struct host *h)
{
	links_look(&h->peers.links);
	return pump_pending(h);
}

bool pump_may_sleep(struct host *h)
{
	struct channel_bells *bells = h->peers.channels.bells;
	bool by_futex = progress_has_sleeper(&h->progress);
	bool may = !bells || bells_may_sleep(bells, by_futex ? BELL_WAKE_FUTEX : BELL_WAKE_FD);

	list_for_each(l, &h->peers.links.watched, struct link, watched)
		if (!l->ops->may_sleep(l, by_futex))
			may = false;
	/* after the sleeper words: who executes a message of ours now wakes us */
	if (ca_awaits_acks(&h->ca) && ca_read_acks(&h->ca, h->ca.now, UINT32_MAX))
		may = false;
	return may;
}

void pump_awake(struct host *h)
{
	if (h->peers.channels.bells)
		bells_awake(h->peers.channels.bells);
	list_for_each(l, &h->peers.links.watched, struct link, watched)
		l->ops->awake(l);
}
