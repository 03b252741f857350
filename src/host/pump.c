/* The pump: packets from the engines to the channels and back. Output never recurses into input: what we send to
 * ourselves goes through the loop channel as frames, like anything else. */
#include "host/internal.h"

#include "base/log.h"
#include "host/faults.h"
#include "wire/packet.h"

enum {
	COPY_TURNS = 64,	/* slices that one entry copies for all: our choice, some 20 ms */
	BURST = 32,		/* frames of one channel before its answers are sent: our choice, half a window */
	MULTICAST_QPN = 0xffffff,	/* IBA 9.2.2 */
};

static void note_sent(struct host *h, struct channel *ch, bool sent, size_t bytes)
{
	if (!sent) {
		h->ca.counters.send_err++;
		return;
	}
	if (!list_linked(&ch->dirty))
		list_append(&h->channels.dirty, &ch->dirty);
	h->ca.counters.tx_bytes += bytes;
}

static void send_on(struct host *h, uint32_t slot, const struct packet *p)
{
	struct channel *ch;

	if (h->faults) {
		faults_send(h, slot, p);
		return;
	}
	ch = channel_to(h, slot);
	note_sent(h, ch, ch && ch->link->ops->send(ch->link, p), packet_bytes(p));
}

void pump_send_frame(struct host *h, uint32_t slot, enum packet_form form, const void *frame, size_t bytes)
{
	struct channel *ch = channel_to(h, slot);

	note_sent(h, ch, ch && ch->link->ops->send_frame(ch->link, form, frame, bytes), bytes);
}

static void send_multicast(struct host *h, const struct packet_out *out)
{
	const struct packet *p = &out->packet;
	uint64_t members[PAGE_SLOTS / 64];

	if (!group_members(h->page, (int)(out->dev - h->ca.dev), p->path.has_grh ? p->path.dgid : NULL, p->path.dlid, members))
		return;
	for (uint32_t slot = 0; (slot = group_next(members, slot));)
		send_on(h, slot, p);
}

void pump_flush(struct host *h)
{
	struct list_node *n;

	while ((n = list_pop(&h->channels.dirty))) {
		struct channel *ch = container_of(n, struct channel, dirty);

		list_remove(&ch->told);
		ch->link->ops->flush(ch->link);
	}
	while ((n = list_pop(&h->channels.told))) {
		struct link *l = container_of(n, struct channel, told)->link;

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
		host_give_way(h);
		ca_resume(&h->ca);
		pump(h, h->now);
	} while (!list_empty(&h->ca.later) && ++turns < COPY_TURNS);
	h->copies = false;
	ca_resume(&h->ca);
}

/* What QPs have to send. How many packets; as many as an entry may, when time has passed. */
static unsigned send_ready(struct host *h, wtime now)
{
	unsigned n = 0;

	if (h->now_is_old)
		now = host_tell_time(h);
	for (; n < PUMP_FRAMES && ca_output(&h->ca, now, &h->out); n++) {
		if (h->out.packet.dest_qpn == MULTICAST_QPN)
			send_multicast(h, &h->out);
		else
			send_on(h, QPN_SLOT(h->out.packet.dest_qpn), &h->out.packet);
	}
	if (list_empty(&h->ca.later) || h->copies)
		return n;
	copy_on(h);
	return PUMP_FRAMES;
}

/* How many packets were sent. Ends by itself: a full ring blocks the QPs that lead to it. */
static unsigned output(struct host *h, wtime now)
{
	unsigned n = list_empty(&h->ca.ready) ? 0 : send_ready(h, now);

	if (h->faults)
		n += faults_run(h, IMPAIR_OUT);
	if (!list_empty(&h->channels.dirty))
		pump_flush(h);
	return n;
}

static struct ca_device *device_of(struct host *h, enum packet_form form)
{
	if (form == PACKET_ETHERNET)
		form = PACKET_ROCE;
	for (int i = 0; i < h->ca.devices; i++) {
		if (h->ca.dev[i].form == form)
			return &h->ca.dev[i];
	}
	return NULL;
}

void pump_deliver(struct host *h, enum packet_form form, const void *frame, size_t bytes)
{
	struct ca_device *dev = device_of(h, form);
	struct packet p;
	enum packet_error err;

	if (h->now_is_old)
		host_tell_time(h);
	h->frames++;
	h->ca.counters.rx_bytes += bytes;
	err = packet_parse(&p, form, frame, bytes, true);
	if (err == PACKET_OK && dev)
		ca_input(&h->ca, dev, h->now, &p);
	else if (err == PACKET_BAD_ICRC)
		h->ca.counters.icrc_errors++;
	else
		h->ca.counters.malformed++;
}

unsigned pump_channel(struct host *h, struct channel *ch, unsigned budget)
{
	struct link *l = ch->link;
	const void *frame;
	unsigned kind;
	size_t bytes;
	unsigned n = 0;

	for (; n < budget && link_pending(l) && (frame = l->ops->receive(l, &kind, &bytes)); n++) {
		if (kind == LINK_MESSAGE)
			n += lane_deliver(h, ch, frame, bytes) - 1;
		else if (h->faults)
			faults_receive(h, (enum packet_form)kind, frame, bytes);
		else
			pump_deliver(h, (enum packet_form)kind, frame, bytes);
	}
	l->ops->release(l);
	if (h->faults)
		n += faults_run(h, IMPAIR_IN);
	if (l->broken)
		h->channels.sweep = true;
	return n;
}

static bool waits_no_more(struct host *h, struct channel *ch)
{
	if (!ch->waiting || !ch->link->ops->room(ch->link))
		return false;
	ch->waiting = false;
	h->channels.waiting--;
	return true;
}

/* QPs that found no room may have some now. */
static void retry_waiting(struct host *h)
{
	bool any = waits_no_more(h, h->channels.loop);

	list_for_each(ch, &h->channels.watched, struct channel, watched)
		any |= waits_no_more(h, ch);
	if (any)
		ca_unblock(&h->ca);
}

/* How many frames and messages. *more: a channel has more than its turn. */
static unsigned take_in(struct host *h, bool *more)
{
	unsigned n = 0, taken;

	*more = false;
	if (h->channels.news && news_waits(h->channels.news))
		channels_listen(&h->channels);
	list_for_each_safe(ch, &h->channels.watched, struct channel, watched) {
		taken = pump_channel(h, ch, BURST);
		if (taken)
			ch->idle = 0;
		else
			channel_rest(&h->channels, ch);
		*more |= taken >= BURST;
		n += taken;
	}
	if (h->channels.waiting)
		retry_waiting(h);
	return n;
}

void pump_out(struct host *h, wtime now)
{
	struct channel *loop = h->channels.loop;
	unsigned n = 0, taken;

	do {
		n += output(h, now);
		taken = pump_channel(h, loop, BURST);
		n += taken;
		if (loop->waiting)
			retry_waiting(h);
	} while (taken && pump_has_output(h) && n < PUMP_FRAMES);
	if (n >= PUMP_FRAMES)
		helper_kick(h);
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
			pump_out(h, h->now);
	} while (more && n < PUMP_FRAMES);
	if (h->channels.sweep)
		channels_sweep(h);
	if (more)
		host_give_way(h);
	return more || pump_has_output(h);
}

bool pump_all(struct host *h, wtime now)
{
	h->ca.defers = false;
	ca_settle(&h->ca, now);
	ca_collect(&h->ca, now, UINT32_MAX);
	return pump(h, now);
}

wtime pump_deadline(const struct host *h)
{
	wtime engine = ca_deadline(&h->ca);

	return h->faults ? wtime_min(engine, faults_deadline(h)) : engine;
}

bool pump_pending(const struct host *h)
{
	if (h->channels.news && news_waits(h->channels.news))
		return true;
	list_for_each(ch, &h->channels.watched, struct channel, watched)
		if (link_pending(ch->link))
			return true;
	return false;
}

bool pump_may_sleep(struct host *h)
{
	enum news_wake how = h->watch.listens ? NEWS_WAKE_FUTEX : NEWS_WAKE_FD;
	bool may = !h->channels.news || news_may_sleep(h->channels.news, how);

	list_for_each(ch, &h->channels.watched, struct channel, watched)
		if (!ch->link->ops->may_sleep(ch->link, how))
			may = false;
	/* after the sleeper words: who executes a message of ours now wakes us */
	if (ca_awaits(&h->ca) && ca_collect(&h->ca, h->now, UINT32_MAX))
		may = false;
	return may;
}

void pump_awake(struct host *h)
{
	if (h->channels.news)
		news_awake(h->channels.news);
	list_for_each(ch, &h->channels.watched, struct channel, watched)
		ch->link->ops->awake(ch->link);
}
