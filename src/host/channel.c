/* Channels by slot. A channel belongs to a pair of processes, so several slots may lead to one. They are closed in sweeps
 * only: a channel may be asked for while the adapter produces output, where nothing may be taken in. */
#include "host/internal.h"

#include "base/log.h"
#include "host/limits.h"
#include "link/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	LEFT_BEHIND = 1 << 15,	/* what a dead peer may have left: a ring full of the shortest records */
	WATCHED_ALWAYS = 8,	/* our choice: looking at so many costs less than anything else of a poll */
	IDLE_LOOKS = 64,	/* our choice: in vain they cost as much as a bell */
};

static void watch(struct channels *cs, struct channel *ch)
{
	if (ch->is_loop || list_linked(&ch->watched))
		return;
	ch->idle = 0;
	list_append(&cs->watched, &ch->watched);
	cs->watched_count++;
	ch->link->ops->awake(ch->link);
}

static void unwatch(struct channels *cs, struct channel *ch)
{
	if (!list_linked(&ch->watched))
		return;
	list_remove(&ch->watched);
	cs->watched_count--;
}

/* A bell may be another channel's that had its place before: then it is a look in vain. */
void channels_listen(struct channels *cs)
{
	int bell;

	while ((bell = news_take(cs->news)) >= 0)
		if ((uint32_t)bell < cs->count)
			watch(cs, cs->open[bell]);
}

void channel_rest(struct channels *cs, struct channel *ch)
{
	if (++ch->idle < IDLE_LOOKS || cs->watched_count <= WATCHED_ALWAYS || !cs->news)
		return;
	ch->idle = 0;
	if (ch->link->ops->may_rest(ch->link, ch->bell))
		unwatch(cs, ch);
}

static struct channel *append(struct channels *cs, struct link *link, uint32_t id, bool is_loop)
{
	struct channel *ch;

	if (cs->count == cs->room) {
		uint32_t room = cs->room ? 2 * cs->room : 16;
		struct channel **open = realloc(cs->open, room * sizeof(*open));

		if (!open)
			return NULL;
		cs->open = open;
		cs->room = room;
	}
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	*ch = (struct channel){ .link = link, .id = id, .is_loop = is_loop, .bell = cs->count };
	cs->open[cs->count++] = ch;
	watch(cs, ch);
	return ch;
}

int channels_init(struct channels *cs, struct news *news)
{
	struct link *link;
	int err;

	memset(cs, 0, sizeof(*cs));
	cs->news = news;
	list_init(&cs->dirty);
	list_init(&cs->told);
	list_init(&cs->watched);
	err = shm_open_loop(&link);
	if (err)
		return err;
	cs->loop = append(cs, link, 0, true);
	if (!cs->loop) {
		link->ops->close(link);
		return -ENOMEM;
	}
	return 0;
}

static void close_at(struct channels *cs, uint32_t i)
{
	struct channel *ch = cs->open[i], *last = cs->open[--cs->count];

	cs->waiting -= ch->waiting;
	list_remove(&ch->dirty);
	list_remove(&ch->told);
	unwatch(cs, ch);
	if (last != ch) {
		cs->open[i] = last;
		last->bell = i;
		watch(cs, last);	/* it may have rested with its old bell */
	}
	peer_close(ch->peer);
	ch->link->ops->close(ch->link);
	free(ch);
}

void channels_fini(struct channels *cs)
{
	while (cs->count)
		close_at(cs, 0);
	free(cs->open);
}

void channels_forget(struct channels *cs)
{
	cs->count = 0;
	cs->news = NULL;
	list_init(&cs->dirty);
	list_init(&cs->told);
	list_init(&cs->watched);
}

static struct channel *find_id(const struct channels *cs, uint32_t id)
{
	for (uint32_t i = 0; i < cs->count; i++) {
		if (!cs->open[i]->is_loop && !cs->open[i]->gone && cs->open[i]->id == id)
			return cs->open[i];
	}
	return NULL;
}

/* No longer leads there. A channel that no slot leads to waits for the sweep. */
static void detach(struct channels *cs, uint32_t slot)
{
	struct channel *ch = cs->by_slot[slot];

	if (!ch || ch->is_loop)
		return;
	cs->by_slot[slot] = NULL;
	for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
		if (cs->by_slot[i] == ch)
			return;
	}
	ch->gone = cs->sweep = true;
}

/* A channel that weftd gives us, asked or unasked. What is kept of fds becomes -1. */
static struct channel *add(struct host *h, const struct control_msg *msg, int fds[CONTROL_FDS], int nfds)
{
	struct channels *cs = &h->channels;
	struct channel *ch = find_id(cs, msg->b);
	struct link *link;
	int err;

	if (msg->slot == 0 || msg->slot >= PAGE_SLOTS || (!ch && nfds < 2))
		return NULL;
	if (!ch) {
		err = shm_open_channel(fds[0], fds[1], msg->a, &link);
		if (err) {
			log_line(LOG_ERROR, "channel to slot %u: %s", msg->slot, strerror(-err));
			return NULL;
		}
		fds[1] = -1;
		ch = append(cs, link, msg->b, false);
		if (!ch) {
			link->ops->close(link);
			return NULL;
		}
		if (nfds >= 4)
			ch->peer = peer_open(h, link, msg->slot, fds[2], fds[3]);
		if (ch->peer)
			shm_set_reads(link);
		if (!h->attention.program_polls)
			helper_kick(h);		/* so that this one's sleeper word is set too */
		log_line(LOG_DEBUG, "channel %u to slot %u is open", ch->id, msg->slot);
	}
	if (cs->by_slot[msg->slot] != ch)
		detach(cs, msg->slot);
	return cs->by_slot[msg->slot] = ch;
}

static void close_fds(int *fds, int nfds)
{
	for (int i = 0; i < nfds; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

void channels_collect(struct host *h)
{
	struct mail *mail;

	while ((mail = session_take_channel(&h->session))) {
		if (mail->msg.type == CTL_PEER_GONE) {
			if (mail->msg.slot < PAGE_SLOTS)
				detach(&h->channels, mail->msg.slot);
			session_pass_on(&h->session, mail);
			continue;
		}
		if (mail->msg.status == 0)
			add(h, &mail->msg, mail->fd, mail->fds);
		close_fds(mail->fd, mail->fds);
		mail->fds = 0;
		mail_free(mail);
	}
}

static struct channel *open_channel(struct host *h, uint32_t slot)
{
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = slot };
	uint32_t generation = slot ? atomic_load_explicit(&h->page->slot_generation[slot], memory_order_acquire) : 0;
	struct channel *ch = NULL;
	int fds[CONTROL_FDS], nfds = 0, err;

	if (!(generation & 1) || h->channels.refused[slot] == generation)
		return NULL;
	err = session_try(&h->session, &msg, NULL, 0, fds, &nfds);
	if (err == -ENOTCONN || err == -EAGAIN)
		return NULL;	/* weftd or the peer is away for a moment: the packet is lost, as packets may be */
	/* the peer may have asked first: then its channel came before the answer, and the answer only names it */
	channels_collect(h);
	if (err == 0) {
		msg.slot = slot;
		ch = add(h, &msg, fds, nfds);
		close_fds(fds, nfds);
	}
	if (!ch) {
		h->channels.refused[slot] = generation;
		err = err ? -err : EPROTO;
		log_line(LOG_ERROR, "no channel to slot %u: %s%s", slot, strerror(err), limits_advice(err));
	}
	return ch;
}

struct channel *channel_to(struct host *h, uint32_t slot)
{
	struct channel *ch = h->channels.by_slot[slot];

	return ch ? ch : open_channel(h, slot);
}

static void cut_off(struct host *h, const struct channel *ch)
{
	struct channels *cs = &h->channels;

	h->ca.counters.link_downed++;
	log_line(LOG_ERROR, "channel %u: its peer broke the rules of the ring; it is closed", ch->id);
	for (uint32_t slot = 0; slot < PAGE_SLOTS; slot++) {
		if (cs->by_slot[slot] != ch)
			continue;
		cs->by_slot[slot] = NULL;
		cs->refused[slot] = atomic_load(&h->page->slot_generation[slot]);
	}
}

void channels_sweep(struct host *h)
{
	struct channels *cs = &h->channels;

	cs->sweep = false;
	for (uint32_t i = 0; i < cs->count; i++) {
		struct channel *ch = cs->open[i];

		if (ch->gone) {
			pump_channel(h, ch, LEFT_BEHIND);
			ca_collect(&h->ca, h->now, UINT32_MAX);
		} else if (ch->link->broken) {
			cut_off(h, ch);
		} else {
			continue;
		}
		lane_forget(h, ch);
		close_at(cs, i--);
		ca_unblock(&h->ca);
	}
}
