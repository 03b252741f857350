/* Channels by slot. A channel belongs to a pair of processes, so several slots may lead to one. Closing happens between
 * pumps only: inside one, a broken channel is just silent. */
#include "host/internal.h"

#include "base/log.h"
#include "link/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* what a dead peer may have left: a ring full of the shortest records */
enum { LEFT_BEHIND = 1 << 15 };

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
	*ch = (struct channel){ .link = link, .id = id, .is_loop = is_loop };
	cs->open[cs->count++] = ch;
	return ch;
}

int channels_init(struct channels *cs)
{
	struct link *link;
	int err;

	memset(cs, 0, sizeof(*cs));
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
	struct channel *ch = cs->open[i];

	cs->waiting -= ch->waiting;
	ch->link->ops->close(ch->link);
	free(ch);
	cs->open[i] = cs->open[--cs->count];
}

void channels_fini(struct channels *cs)
{
	while (cs->count)
		close_at(cs, 0);
	free(cs->open);
}

struct channel *channel_add(struct host *h, const struct control_msg *msg, int fds[CONTROL_FDS], int nfds)
{
	struct channels *cs = &h->channels;
	struct channel *ch = NULL;
	struct link *link;
	int err;

	if (msg->slot == 0 || msg->slot >= PAGE_SLOTS)
		return NULL;
	for (uint32_t i = 0; i < cs->count && !ch; i++) {
		if (!cs->open[i]->is_loop && cs->open[i]->id == msg->b)
			ch = cs->open[i];
	}
	if (ch)
		return cs->by_slot[msg->slot] = ch;
	if (nfds < 2)
		return NULL;
	err = shm_open_channel(fds[0], fds[1], msg->a, &link);
	if (err) {
		log_line(LOG_ERROR, "channel to slot %u: %s", msg->slot, strerror(-err));
		return NULL;
	}
	ch = append(cs, link, msg->b, false);
	fds[1] = -1;
	if (!ch) {
		link->ops->close(link);
		return NULL;
	}
	if (cs->by_slot[msg->slot])
		channel_peer_gone(h, msg->slot);
	cs->by_slot[msg->slot] = ch;
	log_line(LOG_DEBUG, "channel %u to slot %u is open", ch->id, msg->slot);
	if (!h->attention.program_polls)
		helper_kick(h);		/* so that this one's sleeper word is set too */
	return ch;
}

static struct channel *open_channel(struct host *h, uint32_t slot)
{
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = slot };
	uint32_t generation = slot ? atomic_load_explicit(&h->page->slot_generation[slot], memory_order_acquire) : 0;
	struct channel *ch = NULL;
	int fds[CONTROL_FDS], nfds = 0, err;

	if (!(generation & 1) || h->channels.refused[slot] == generation)
		return NULL;
	err = session_call(&h->session, &msg, NULL, 0, fds, &nfds);
	if (err == 0) {
		msg.slot = slot;
		ch = channel_add(h, &msg, fds, nfds);
		while (nfds > 0) {
			if (fds[--nfds] >= 0)
				close(fds[nfds]);
		}
	}
	if (!ch) {
		h->channels.refused[slot] = generation;
		log_line(LOG_ERROR, "no channel to slot %u: %s", slot, strerror(err ? -err : EPROTO));
	}
	return ch;
}

struct channel *channel_to(struct host *h, uint32_t slot)
{
	struct channel *ch = h->channels.by_slot[slot];

	return ch ? ch : open_channel(h, slot);
}

static bool is_in_use(const struct channels *cs, const struct channel *ch)
{
	for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
		if (cs->by_slot[i] == ch)
			return true;
	}
	return false;
}

static void close_channel(struct channels *cs, const struct channel *ch)
{
	for (uint32_t i = 0; i < cs->count; i++) {
		if (cs->open[i] == ch) {
			close_at(cs, i);
			return;
		}
	}
}

void channel_peer_gone(struct host *h, uint32_t slot)
{
	struct channels *cs = &h->channels;
	struct channel *ch = slot < PAGE_SLOTS ? cs->by_slot[slot] : NULL;

	if (!ch || ch->is_loop)
		return;
	pump_channel(h, ch, h->now, LEFT_BEHIND);
	cs->by_slot[slot] = NULL;
	if (!is_in_use(cs, ch)) {
		close_channel(cs, ch);
		ca_unblock(&h->ca);
	}
}

void channels_sweep(struct host *h)
{
	struct channels *cs = &h->channels;

	for (uint32_t i = 0; i < cs->count; i++) {
		struct channel *ch = cs->open[i];

		if (!ch->link->ops->broken(ch->link))
			continue;
		h->ca.counters.link_downed++;
		log_line(LOG_ERROR, "channel %u: its peer broke the rules of the ring; it is closed", ch->id);
		for (uint32_t s = 0; s < PAGE_SLOTS; s++) {
			if (cs->by_slot[s] != ch)
				continue;
			cs->by_slot[s] = NULL;
			cs->refused[s] = atomic_load(&h->page->slot_generation[s]);
		}
		close_at(cs, i--);
		ca_unblock(&h->ca);
	}
}
