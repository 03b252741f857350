/* A pair has one channel whoever asked first, so that two processes which ask at once do not end with one each. */
#include "weftd/channels.h"

#include "base/log.h"
#include "host/limits.h"
#include "link/shm.h"
#include "weftd/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct channel;

struct channel_end {
	struct list_node node;		/* client.ends */
	struct client *client;		/* borrowed: leaving frees the channel */
	struct channel *channel;
};

struct channel {
	uint32_t id;
	struct channel_end end[2];
};

static struct client *other_side(const struct channel_end *e)
{
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

/* What one side gets of the other. The memory of a process is for its own user alone. */
static int gather_fds(int memory, const struct client *from, const struct client *to, int fds[CONTROL_FDS])
{
	bool direct = from->uid == to->uid && from->direct_fd[0] >= 0 && from->direct_fd[1] >= 0;

	fds[0] = memory;
	fds[1] = from->wake_fd;
	fds[2] = from->direct_fd[0];
	fds[3] = from->direct_fd[1];
	return direct ? 4 : 2;
}

/* Both sides get the memory and the other's wake eventfd; the asker's answer comes last, so that a peer which cannot be
 * told is never answered for. */
static int hand_out(struct hub *h, struct channel *ch, struct client *asker, struct client *peer, const struct control_msg *msg)
{
	struct control_msg out = *msg;
	int memory = shm_memory_create();
	int fds[CONTROL_FDS];

	if (memory < 0) {
		log_line(LOG_WARNING, "no memory for a channel: %s%s", strerror(-memory), limits_advice(-memory));
		return memory;
	}
	out.status = 0;
	out.b = ch->id;
	out.c = 0;
	out.text_bytes = 0;
	out.seq = 0;
	out.a = 1;
	out.slot = asker->slot;
	if (!h->ops->send(h, peer, &out, NULL, fds, gather_fds(memory, asker, peer, fds))) {
		close(memory);
		return -ENOENT;
	}
	out.seq = msg->seq;
	out.a = 0;
	out.slot = msg->slot;
	h->ops->send(h, asker, &out, NULL, fds, gather_fds(memory, peer, asker, fds));
	close(memory);
	return 0;
}

static int open_channel(struct hub *h, struct client *c, struct client *peer, const struct control_msg *msg)
{
	struct channel *ch;
	int err;

	if (c->channels >= QUOTA_CHANNELS || peer->channels >= QUOTA_CHANNELS)
		return -EDQUOT;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return -ENOMEM;
	join_ends(h, ch, ++h->claims->channel_id, c, peer);
	err = hand_out(h, ch, c, peer, msg);
	if (err)
		free_channel(h, ch);
	return err;
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
	if (ch) {
		answer.a = ch->end[1].client == c;
		answer.b = ch->id;
		answer.c = 1;
		hub_answer(h, c, &answer, 0);
		return;
	}
	err = open_channel(h, c, peer, msg);
	if (err)
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

static int keep(struct hub *h, struct client *c, uint32_t slot, uint32_t id)
{
	struct client *peer = slots_owner(h, slot);
	struct kept *k = peer ? find_kept(h, peer, c, id) : NULL;
	struct control_msg gone = { .type = CTL_PEER_GONE, .slot = slot };
	struct channel *ch;

	if (!peer && !slots_is_awaited(h, slot)) {
		h->ops->send(h, c, &gone, NULL, NULL, 0);
		return 0;
	}
	if (peer == c || (peer && find_channel(c, peer)))
		return 0;
	if (!k)
		return note_kept(c, slot, id);
	if (c->channels >= QUOTA_CHANNELS || peer->channels >= QUOTA_CHANNELS)
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
