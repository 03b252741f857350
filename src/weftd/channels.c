/* A pair has one channel whoever asked first, so that two processes which ask at once do not end with one each. Between processes
 * that may not have each other's memory (trust.h) a channel is a memory for packets and two timers (peers/channel.c). With other
 * users a process has few: nobody asks whether it wants them. Nor is each of these made anew all the time. */
#include "weftd/channels.h"

#include "base/log.h"
#include "control/limits.h"
#include "link/shm.h"
#include "link/wake.h"
#include "weftd/slots.h"
#include "weftd/trust.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Our choice: a process that did not get a channel asks for it again after two (peers/channel.c). */
static const wtime KEEP_FOREIGN = WTIME_S;

struct channel;

struct channel_end {
	struct list_node node;		/* client.ends */
	struct client *client;		/* borrowed: leaving frees the channel */
	struct channel *channel;
};

struct channel {
	uint32_t id;
	wtime made;		/* 0: by an earlier weftd */
	struct channel_end end[2];
};

static struct client *other_side(const struct channel_end *e)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) ; an end in a client's list is a channel's */
	return e->channel->end[e == &e->channel->end[0]].client;
}

static struct channel *find_channel(struct client *a, struct client *b)
{
	struct client *fewer = a->channels <= b->channels ? a : b;

	list_for_each(e, &fewer->ends, struct channel_end, node) {
		if (other_side(e) == (fewer == a ? b : a))
			return e->channel;
	}
	return NULL;
}

static void add_end(struct channel *ch, int side, struct client *c)
{
	ch->end[side] = (struct channel_end){ .client = c, .channel = ch };
	list_append(&c->ends, &ch->end[side].node);
	c->channels++;
}

/* A channel that one side says it has: the other may never have got it, and then it is of no use. */
struct kept {
	struct list_node node;		/* client.kept */
	uint32_t id, slot;
};

static void join_ends(struct hub *h, struct channel *ch, uint32_t id, struct client *a, struct client *b)
{
	ch->id = id;
	h->channel_count++;
	add_end(ch, 0, a);
	add_end(ch, 1, b);
	hub_acquaint(a, b);
}

static void free_channel(struct hub *h, struct channel *ch)
{
	for (int side = 0; side < 2; side++) {
		list_remove(&ch->end[side].node);
		ch->end[side].client->channels--;
	}
	h->channel_count--;
	free(ch);
}

/* What a channel is made of, besides what its two processes gave. */
struct parts {
	int memory;
	int timer[2];	/* [s]: wakes side s; -1 where nothing is foreign */
	bool is_foreign;
};

static void close_parts(const struct parts *p)
{
	if (p->memory >= 0)
		close(p->memory);
	for (int side = 0; side < 2; side++) {
		if (p->timer[side] >= 0)
			close(p->timer[side]);
	}
}

static int make_parts(struct parts *p, bool is_foreign)
{
	int err = 0;

	*p = (struct parts){ .memory = shm_memory_create(), .timer = { -1, -1 }, .is_foreign = is_foreign };
	if (p->memory < 0)
		err = p->memory;
	for (int side = 0; side < 2 && is_foreign && !err; side++) {
		p->timer[side] = wake_timer_create();
		err = p->timer[side] < 0 ? p->timer[side] : 0;
	}
	if (err) {
		log_line(LOG_WARNING, "no memory for a channel: %s%s", strerror(-err), limits_advice(-err));
		close_parts(p);
	}
	return err;
}

static bool gives_memory(const struct client *c)
{
	return c->direct_fd[0] >= 0 && c->direct_fd[1] >= 0;
}

/* What the process on this side gets of the other. */
static int gather_fds(const struct parts *p, int side, const struct client *from, int fds[CONTROL_FDS])
{
	fds[0] = p->memory;
	if (p->is_foreign) {
		fds[1] = p->timer[side ^ 1];
		fds[2] = p->timer[side];
		return 3;
	}
	fds[1] = from->wake_fd;
	fds[2] = from->direct_fd[0];
	fds[3] = from->direct_fd[1];
	return gives_memory(from) ? 4 : 2;
}

static bool give(struct hub *h, const struct parts *p, int side, const struct client *from, struct client *to,
		 struct control_msg *msg)
{
	int fds[CONTROL_FDS];

	msg->a = (uint32_t)side;
	msg->service = slots_number(h, from);
	msg->c = p->is_foreign ? CHANNEL_FOREIGN : gives_memory(to) ? CHANNEL_SEES_US : 0;
	return h->ops->send(h, to, msg, NULL, fds, gather_fds(p, side, from, fds));
}

/* The asker's answer comes last, so that a peer which cannot be told is never answered for. */
static int hand_out(struct hub *h, struct channel *ch, struct client *asker, struct client *peer, const struct control_msg *msg)
{
	struct control_msg out = *msg;
	struct parts parts;
	int err = make_parts(&parts, !trust_allows(h, asker, peer));

	if (err)
		return err;
	out.status = 0;
	out.b = ch->id;
	out.text_bytes = 0;
	out.seq = 0;
	out.slot = asker->slot;
	if (give(h, &parts, 1, asker, peer, &out)) {
		out.seq = msg->seq;
		out.slot = msg->slot;
		give(h, &parts, 0, peer, asker, &out);
	} else {
		err = -ENOENT;
	}
	close_parts(&parts);
	return err;
}

/* c has its share of channels with others of this user. */
static bool has_enough_with(const struct client *c, const struct account *user)
{
	uint32_t all = 0, with = 0;

	if (c->account == user)
		return false;
	list_for_each(e, &c->ends, struct channel_end, node) {
		const struct account *other = other_side(e)->account;

		all += other != c->account;
		with += other == user;
	}
	return all >= QUOTA_FOREIGN || with >= QUOTA_FOREIGN_USER;
}

static bool have_enough(struct hub *h, const struct client *a, const struct client *b)
{
	return has_enough_with(a, b->account) || has_enough_with(b, a->account) || account_check(h, a, LIMIT_CHANNELS, 1) ||
	       account_check(h, b, LIMIT_CHANNELS, 1);
}

static int open_channel(struct hub *h, struct client *c, struct client *peer, const struct control_msg *msg)
{
	struct channel *ch;
	int err;

	if (have_enough(h, c, peer))
		return -EDQUOT;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return -ENOMEM;
	join_ends(h, ch, ++h->claims->channel_id, c, peer);
	ch->made = h->now;
	err = hand_out(h, ch, c, peer, msg);
	if (err)
		free_channel(h, ch);
	return err;
}

/* May it be made anew? The other end has to map another memory, and to leave this one. */
static bool may_renew(const struct hub *h, const struct channel *ch)
{
	return ch->end[0].client->account == ch->end[1].client->account || h->now - ch->made >= KEEP_FOREIGN;
}

void channels_input(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct client *peer = slots_owner(h, msg->slot);
	struct control_msg answer = *msg;
	struct channel *ch;
	int err;

	if (!peer) {
		hub_answer(h, c, msg, slots_is_awaited(h, msg->slot) ? EAGAIN : ENOENT);
		return;
	}
	if (peer == c) {
		hub_answer(h, c, msg, EINVAL);
		return;
	}
	ch = find_channel(c, peer);
	if (ch && msg->a && !may_renew(h, ch)) {
		hub_answer(h, c, msg, EAGAIN);
		return;
	}
	if (ch && msg->a) {
		free_channel(h, ch);
	} else if (ch) {
		answer.a = ch->end[1].client == c;
		answer.b = ch->id;
		answer.c = CHANNEL_KNOWN;
		hub_answer(h, c, &answer, 0);
		return;
	}
	/* who does not read its messages is asked again later: the packet is lost, as packets may be */
	err = h->ops->has_room(h, peer) ? open_channel(h, c, peer, msg) : -EAGAIN;
	if (err == -EDQUOT)
		hub_refuse(h, c, msg, LIMIT_CHANNELS);
	else if (err)
		hub_answer(h, c, msg, -err);
}

static void free_kept(struct client *c, struct kept *k)
{
	list_remove(&k->node);
	c->kept_count--;
	free(k);
}

static struct kept *find_kept(const struct hub *h, struct client *c, const struct client *other, uint32_t id)
{
	list_for_each(k, &c->kept, struct kept, node) {
		if (k->id == id && slots_owner(h, k->slot) == other)
			return k;
	}
	return NULL;
}

static int note_kept(struct client *c, uint32_t slot, uint32_t id)
{
	struct kept *k;

	if (c->kept_count >= QUOTA_CHANNELS)
		return -EDQUOT;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	*k = (struct kept){ .slot = slot, .id = id };
	list_append(&c->kept, &k->node);
	c->kept_count++;
	return 0;
}

/* c has said all that it has. What others say they share with it, and it has not said, it never got, as weftd was killed before
 * it was told: nobody takes in what they write there, so they are told. */
static void end_of_kept(struct hub *h, struct client *c)
{
	c->told_kept = true;
	list_for_each(other, &h->clients, struct client, node) {
		list_for_each_safe(k, &other->kept, struct kept, node) {
			struct control_msg lost = { .type = CTL_KEPT, .status = ENOENT, .slot = k->slot, .b = k->id };

			if (slots_owner(h, k->slot) != c)
				continue;
			h->ops->send(h, other, &lost, NULL, NULL, 0);
			free_kept(other, k);
		}
	}
}

static int keep(struct hub *h, struct client *c, uint32_t slot, uint32_t id)
{
	struct client *peer = slots_owner(h, slot);
	struct kept *k = peer ? find_kept(h, peer, c, id) : NULL;
	struct control_msg gone = { .type = CTL_PEER_GONE, .slot = slot };
	struct channel *ch;

	if (slot == 0) {
		end_of_kept(h, c);
		return 0;
	}
	if (peer == c || (peer && find_channel(c, peer)))
		return 0;
	/* the slot is free, or another process's by now */
	if (peer ? !peer->has_returned : !slots_is_awaited(h, slot)) {
		h->ops->send(h, c, &gone, NULL, NULL, 0);
		return 0;
	}
	if (!k)
		return peer && peer->told_kept ? -ENOENT : note_kept(c, slot, id);
	if (have_enough(h, c, peer))
		return -EDQUOT;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return -ENOMEM;
	join_ends(h, ch, id, c, peer);
	free_kept(peer, k);
	return 0;
}

void channels_kept(struct hub *h, struct client *c, const struct control_msg *msg)
{
	hub_answer(h, c, msg, -keep(h, c, msg->slot, msg->b));
}

void channels_leave(struct hub *h, struct client *c)
{
	struct list_node *n;

	while ((n = list_first(&c->ends)))
		free_channel(h, container_of(n, struct channel_end, node)->channel);
	while ((n = list_first(&c->kept)))
		free_kept(c, container_of(n, struct kept, node));
}
