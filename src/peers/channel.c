/* Channels by slot. A channel belongs to a pair of processes, so several slots may lead to one. They are asked for
 * and not waited for: QPs wait for them in ca.blocked. They are closed in sweeps only, as nothing may be taken in while the
 * adapter produces output. */

#include "peers/channel.h"

#include "base/array.h"
#include "base/log.h"
#include "control/clock.h"
#include "control/fds.h"
#include "control/limits.h"
#include "peers/direct_messages.h"
#include "peers/peer.h"
#include "peers/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Our choices. weftd or a process that had no room may have some soon, and asking again costs little. A process that has not
 * come back to the next weftd yet does so at once. */
static const wtime REFUSED_FOR = 2 * WTIME_S, AWAY_FOR = 20 * WTIME_MS;

static void watch(struct channels *cs, struct channel *ch)
{
	if (!ch->is_loop)
		links_watch(cs->links, ch->link);
}

/* A bell may be another channel's that had its place before: then it is a look in vain. */
void channels_listen(struct channels *cs)
{
	int bell;

	while ((bell = bells_take(cs->bells)) >= 0)
		if ((uint32_t)bell < cs->count)
			watch(cs, cs->open[bell]);
}

void channel_rest(struct channels *cs, struct channel *ch)
{
	ch->link->idle = 0;
	if ((cs->bells || ch->is_foreign) && shm_may_rest(ch->shm, ch->bell))
		links_rest(cs->links, ch->link);
}

static struct channel *append(struct channels *cs, struct shm *shm, uint32_t id)
{
	struct channel *ch;

	if (array_reserve(&cs->open, &cs->room, cs->count + 1, sizeof(*cs->open)))
		return NULL;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	*ch = (struct channel){ .shm = shm, .link = &shm->link, .id = id, .bell = cs->count };
	ch->link->channel = ch;
	cs->open[cs->count++] = ch;
	return ch;
}

int channels_init(struct channels *cs, struct links *links, struct channel_bells *bells)
{
	struct shm *shm;
	int err;

	memset(cs, 0, sizeof(*cs));
	cs->links = links;
	cs->bells = bells;
	cs->regain_at = cs->give_up_at = WTIME_NEVER;
	err = shm_open_loop(&shm);
	if (err)
		return err;
	cs->loop = append(cs, shm, 0);
	if (!cs->loop) {
		shm->link.ops->close(&shm->link);
		return -ENOMEM;
	}
	cs->loop->is_loop = true;
	return 0;
}

static void close_at(struct channels *cs, uint32_t i)
{
	struct channel *ch = cs->open[i], *last = cs->open[--cs->count];

	links_remove(cs->links, ch->link);
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

static void forget(struct channel *ch)
{
	peer_forget(ch->peer);
	ch->link->ops->forget(ch->link);
	free(ch);
}

void channels_forget(struct channels *cs, bool is_consistent)
{
	for (uint32_t i = 0; is_consistent && i < cs->count; i++)
		forget(cs->open[i]);
	if (is_consistent)
		free(cs->open);
	cs->count = 0;
	cs->bells = NULL;
}

struct channel *channel_find(const struct channels *cs, uint32_t id)
{
	for (uint32_t i = 0; i < cs->count; i++) {
		if (!cs->open[i]->is_loop && !cs->open[i]->gone && cs->open[i]->id == id)
			return cs->open[i];
	}
	return NULL;
}

/* From now on this one, or none, leads to the slot. */
static void lead(struct peers *ps, uint32_t slot, struct channel *ch)
{
	ps->channels.by_slot[slot] = ch;
	routes_change(&ps->ca->routes);
}

void channels_own(struct peers *ps, uint32_t slot)
{
	lead(ps, slot, ps->channels.loop);
}

/* No longer leads there. A channel that no slot leads to waits for the sweep. */
static void detach(struct peers *ps, uint32_t slot)
{
	struct channels *cs = &ps->channels;
	struct channel *ch = cs->by_slot[slot];

	if (!ch || ch->is_loop)
		return;
	lead(ps, slot, NULL);
	for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
		if (cs->by_slot[i] == ch)
			return;
	}
	ch->gone = cs->sweep = true;
}

/* One leads there now, from the same process: it lost the other, or never had it. */
static void replace(struct peers *ps, struct channel *old, struct channel *now)
{
	if (!old || old == now || old->is_loop)
		return;
	for (uint32_t slot = 0; slot < PAGE_SLOTS; slot++) {
		if (ps->channels.by_slot[slot] == old)
			lead(ps, slot, now);
	}
	old->gone = ps->channels.sweep = true;
}

static bool is_refused(const struct peers *ps, uint32_t slot, wtime now)
{
	const struct refusal *r = &ps->channels.refused[slot];

	return r->why != REFUSED_NEVER && (r->why == REFUSED_FOR_GOOD || now < r->until) &&
	       r->generation == peers_generation(ps, slot);
}

static bool is_cut_off(const struct peers *ps, uint32_t slot)
{
	const struct refusal *r = &ps->channels.refused[slot];

	return r->why == REFUSED_FOR_GOOD && r->generation == peers_generation(ps, slot);
}

/* Who was cut off stays so, whatever an answer says that was on its way. */
static void refuse(struct peers *ps, uint32_t slot, const struct refusal *refusal)
{
	if (!is_cut_off(ps, slot))
		ps->channels.refused[slot] = *refusal;
}

/* A channel to a process of another user, who is to be able to do no more to us than to send, carries packets only: no share, no
 * memory. A wake cannot block, whatever the other does to what it shares with us (link/wake.h). Nothing that the other writes is
 * waited for, but for the room in its own ring (publish.c, space.c). Such channels are few (weftd/channels.c); a resting one
 * costs nothing: its timer wakes the helper, which looks again; and a refusal is forgotten after a while. */
static int open_shm(const struct control_msg *msg, int fds[CONTROL_FDS], int nfds, struct shm **shm)
{
	bool is_foreign = msg->c & CHANNEL_FOREIGN;
	int err;

	if (nfds < 2 + is_foreign)
		return -EPROTO;
	err = is_foreign ? shm_open_foreign(fds[0], fds[1], fds[2], msg->a, shm) : shm_open_channel(fds[0], fds[1], msg->a, shm);
	if (err)
		return err;
	fds[1] = -1;
	if (is_foreign)
		fds[2] = -1;
	return 0;
}

/* What else comes with a channel: to a process of our user, the direct path. */
static int equip(struct peers *ps, struct channel *ch, const struct control_msg *msg, int fds[CONTROL_FDS], int nfds)
{
	ch->link->origin = (origin_t)msg->service;
	ch->is_foreign = msg->c & CHANNEL_FOREIGN;
	if (ch->is_foreign)
		return links_add(&ps->links, ch->link);
	ch->sees_us = msg->c & CHANNEL_SEES_US;
	shm_set_heeds(ch->shm);
	if (nfds >= 4)
		ch->peer = peer_open(ps, ch->shm, msg->slot, fds[2], fds[3]);
	if (ch->peer)
		shm_set_reads(ch->shm);
	return links_add(&ps->links, ch->link);
}

/* What is kept of fds becomes -1. NULL: logged. */
static struct channel *open_given(struct peers *ps, const struct control_msg *msg, int fds[CONTROL_FDS], int nfds)
{
	struct channels *cs = &ps->channels;
	struct channel *ch = NULL;
	struct shm *shm;
	int err = open_shm(msg, fds, nfds, &shm);

	if (!err) {
		ch = append(cs, shm, msg->b);
		err = ch ? equip(ps, ch, msg, fds, nfds) : -ENOMEM;
		if (ch && err)
			close_at(cs, ch->bell);
		else if (err)
			shm->link.ops->close(&shm->link);
	}
	if (err) {
		log_line(LOG_ERROR, "channel to slot %u: %s%s", msg->slot, strerror(-err), limits_advice(-err));
		return NULL;
	}
	log_line(LOG_DEBUG, "channel %u to slot %u is open", ch->id, msg->slot);
	return ch;
}

/* A channel that weftd gives us, asked or unasked. What is kept of fds becomes -1. */
static struct channel *add(struct peers *ps, const struct control_msg *msg, int fds[CONTROL_FDS], int nfds)
{
	struct channels *cs = &ps->channels;
	struct channel *ch = channel_find(cs, msg->b);

	if (msg->slot == 0 || msg->slot >= PAGE_SLOTS)
		return NULL;
	if (!ch && !(msg->c & CHANNEL_KNOWN) && !is_cut_off(ps, msg->slot))
		ch = open_given(ps, msg, fds, nfds);
	if (!ch)
		return NULL;
	replace(ps, cs->by_slot[msg->slot], ch);
	lead(ps, msg->slot, ch);
	return ch;
}

/* Who opened it sends into it, and does not ask again. */
static void note_lost(struct peers *ps, uint32_t slot)
{
	struct channels *cs = &ps->channels;
	uint32_t generation = peers_generation(ps, slot);

	if (!(generation & 1) || cs->by_slot[slot] || is_cut_off(ps, slot))
		return;
	refuse(ps, slot, &(struct refusal){ generation, REFUSED_LOST, clock_now() + REFUSED_FOR });
	cs->regain_at = wtime_min(cs->regain_at, cs->refused[slot].until);
}

/* Its other end never got it. */
static void lose(struct peers *ps, const struct control_msg *msg)
{
	const struct channel *ch = msg->slot < PAGE_SLOTS ? ps->channels.by_slot[msg->slot] : NULL;

	if (!ch || ch->is_loop || ch->id != msg->b)
		return;
	log_line(LOG_INFO, "channel %u to slot %u is known to this side alone: another will be opened", ch->id, msg->slot);
	detach(ps, msg->slot);
}

/* Told once for each process. */
static void note_refusal(struct peers *ps, uint32_t slot, int err)
{
	uint32_t generation = atomic_load_explicit(&ps->page->slot_generation[slot], memory_order_acquire);
	wtime until = clock_now() + (err == -EAGAIN ? AWAY_FOR : REFUSED_FOR);

	if (ps->channels.refused[slot].generation != generation && err != -EAGAIN)
		log_line(LOG_ERROR, "no channel to slot %u: %s%s", slot, strerror(-err), limits_advice(-err));
	refuse(ps, slot, &(struct refusal){ generation, REFUSED_FOR_NOW, until });
}

static bool ask(struct peers *ps, uint32_t slot, enum channel_question question)
{
	struct control_msg msg = { .type = CTL_CHANNEL, .slot = slot, .a = question == ASKED_AGAIN };

	if (session_ask(ps->session, &msg) < 0)
		return false;
	ps->channels.asked[slot] = (uint8_t)question;
	return true;
}

/* The peer may have asked first: then its channel came before the answer, and the answer only names it. What weftd says that we
 * have, and have not, is asked for again. */
static void answered(struct peers *ps, struct mail *mail)
{
	const struct control_msg *msg = &mail->msg;
	enum channel_question question = NOT_ASKED;
	struct channel *ch = NULL;

	if (msg->slot < PAGE_SLOTS) {
		question = ps->channels.asked[msg->slot];
		ps->channels.asked[msg->slot] = NOT_ASKED;
	}
	if (question == NOT_ASKED)
		return;
	if (!msg->status)
		ch = add(ps, msg, mail->fd, mail->fds);
	if (!ch && !msg->status && msg->c & CHANNEL_KNOWN && question != ASKED_AGAIN && ask(ps, msg->slot, ASKED_AGAIN))
		return;
	if (!ch)
		note_refusal(ps, msg->slot, msg->status ? -msg->status : -EPROTO);
	if (!ch && question == ASKED_FOR_LOST)
		note_lost(ps, msg->slot);
	ca_unblock(ps->ca);
}

static void take_file(struct peers *ps, struct mail *mail)
{
	const struct control_msg *msg = &mail->msg;
	struct channel *ch = msg->slot < PAGE_SLOTS ? ps->channels.by_slot[msg->slot] : NULL;

	if (ch && ch->peer)
		mapped_answer(peer_files(ch->peer), msg->b, mail->fds ? mail->fd[0] : -1);
}

static void take(struct peers *ps, struct mail *mail)
{
	if (mail->msg.type == CTL_KEPT) {
		lose(ps, &mail->msg);
	} else if (mail->msg.type == CTL_MAP) {
		take_file(ps, mail);
	} else if (mail->msg.seq) {
		answered(ps, mail);
	} else if (mail->msg.status || !add(ps, &mail->msg, mail->fd, mail->fds)) {
		note_lost(ps, mail->msg.slot);
	} else if (ps->channels.asked[mail->msg.slot]) {
		ca_unblock(ps->ca);	/* it was faster than the answer */
	}
	fds_close(mail->fd, mail->fds);
	mail->fds = 0;
	mail_free(mail);
}

void channels_collect(struct peers *ps)
{
	struct mail *mail;

	while ((mail = session_take_channel(ps->session))) {
		if (mail->msg.type != CTL_PEER_GONE) {
			take(ps, mail);
			continue;
		}
		if (mail->msg.slot < PAGE_SLOTS)
			detach(ps, mail->msg.slot);
		session_pass_on(ps->session, mail);
	}
}

/* While weftd is away it cannot be asked, and the packet is lost, as packets may be. */
bool channel_comes(struct peers *ps, uint32_t slot)
{
	uint32_t generation = slot ? peers_generation(ps, slot) : 0;

	if (!(generation & 1) || ps->channels.by_slot[slot])
		return false;
	if (ps->channels.asked[slot])
		return true;
	return !is_refused(ps, slot, ps->ca->now) && ask(ps, slot, ASKED);
}

bool channels_come(const struct peers *ps)
{
	for (uint32_t slot = 0; slot < PAGE_SLOTS; slot++)
		if (ps->channels.asked[slot])
			return true;
	return false;
}

void channels_unasked(struct peers *ps)
{
	struct channels *cs = &ps->channels;

	memset(cs->asked, NOT_ASKED, sizeof(cs->asked));
	for (uint32_t i = 0; i < cs->count; i++)
		if (cs->open[i]->peer)
			mapped_unasked(peer_files(cs->open[i]->peer));
	ca_unblock(ps->ca);
}

wtime channels_regain(struct peers *ps, wtime now)
{
	struct channels *cs = &ps->channels;

	if (now < cs->regain_at)
		return cs->regain_at;
	cs->regain_at = WTIME_NEVER;
	for (uint32_t slot = 1; slot < PAGE_SLOTS; slot++) {
		if (cs->refused[slot].why != REFUSED_LOST)
			continue;
		cs->refused[slot].why = REFUSED_NEVER;
		if (!cs->by_slot[slot] && !cs->asked[slot] && !ask(ps, slot, ASKED_FOR_LOST))
			note_lost(ps, slot);
	}
	return cs->regain_at;
}

static void cut_off(struct peers *ps, const struct channel *ch)
{
	struct channels *cs = &ps->channels;

	ps->ca->counters.link_downed++;
	log_line(LOG_ERROR, "channel %u: its peer broke the rules of the ring; it is closed", ch->id);
	for (uint32_t slot = 0; slot < PAGE_SLOTS; slot++) {
		if (cs->by_slot[slot] != ch)
			continue;
		lead(ps, slot, NULL);
		refuse(ps, slot, &(struct refusal){ peers_generation(ps, slot), REFUSED_FOR_GOOD, WTIME_NEVER });
	}
}

struct channel *channels_leaving(struct channels *cs)
{
	for (uint32_t i = 0; cs->sweep && i < cs->count; i++)
		if (cs->open[i]->gone || cs->open[i]->link->broken)
			return cs->open[i];
	cs->sweep = false;
	return NULL;
}

void channel_leave(struct peers *ps, struct channel *ch)
{
	if (!ch->gone)
		cut_off(ps, ch);
	direct_messages_forget(ps, ch);
	close_at(&ps->channels, ch->bell);
	ca_unblock(ps->ca);
}
