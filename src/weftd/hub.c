/* One table says for each message who may send it, how many descriptors come with it and which part answers. Whatever does
 * not fit the table costs the sender its connection and nobody else anything. */
#include "weftd/hub.h"

#include "base/log.h"
#include "weftd/channels.h"
#include "weftd/files.h"
#include "weftd/leases.h"
#include "weftd/listeners.h"
#include "weftd/mad.h"
#include "weftd/mcast.h"
#include "weftd/ports.h"
#include "weftd/report.h"
#include "weftd/slots.h"
#include "weftd/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Our choice: a process that dies while no weftd serves is missed by its peers for so long at most. */
#define LOOK_EVERY (250 * WTIME_MS)

void hub_init(struct hub *h, const struct hub_ops *ops, const struct state *state, wtime now)
{
	*h = (struct hub){ .ops = ops, .page = state->page, .claims = state->claims, .page_fd = state->page_fd, .uid = geteuid(),
			   .now = now, .start = now };
	list_init(&h->clients);
	list_init(&h->reports);
	for (int i = 0; i < HUB_BUCKETS; i++) {
		list_init(&h->listeners[i]);
		list_init(&h->ports[i]);
	}
	slots_inherit(h);
	leases_inherit(h);
}

void hub_close(struct hub *h)
{
	h->is_closing = true;
}

void hub_join(struct hub *h, struct client *c)
{
	c->kind = CLIENT_NEW;
	c->wake_fd = c->direct_fd[0] = c->direct_fd[1] = -1;
	list_init(&c->ends);
	list_init(&c->listeners);
	list_init(&c->ports);
	list_init(&c->kept);
	list_append(&h->clients, &c->node);
	h->client_count++;
}

void hub_acquaint(struct client *a, struct client *b)
{
	a->known[b->slot / 64] |= 1ull << b->slot % 64;
	b->known[a->slot / 64] |= 1ull << a->slot % 64;
}

static void tell_gone(struct hub *h, struct client *to, const uint64_t gone[PAGE_SLOTS / 64])
{
	struct control_msg msg = { .type = CTL_PEER_GONE };

	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		if (!(gone[i / 64] >> i % 64 & 1))
			continue;
		msg.slot = i;
		h->ops->send(h, to, &msg, NULL, NULL, 0);
	}
}

void hub_tell_gone(struct hub *h, const uint64_t gone[PAGE_SLOTS / 64])
{
	list_for_each(c, &h->clients, struct client, node) {
		if (c->kind == CLIENT_PROCESS)
			tell_gone(h, c, gone);
	}
}

static void tell_known(struct hub *h, struct client *c, const uint64_t gone[PAGE_SLOTS / 64])
{
	for (uint32_t i = 1; i < PAGE_SLOTS; i++) {
		struct client *to = h->slot_owner[i];

		if (!(c->known[i / 64] >> i % 64 & 1) || !to)
			continue;
		to->known[c->slot / 64] &= ~(1ull << c->slot % 64);
		tell_gone(h, to, gone);
	}
	memset(c->known, 0, sizeof(c->known));
}

static void close_fds(struct client *c)
{
	int *fds[] = { &c->wake_fd, &c->direct_fd[0], &c->direct_fd[1] };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* What an attached process has; a second call finds nothing. */
static void free_process(struct hub *h, struct client *c)
{
	uint64_t gone[PAGE_SLOTS / 64] = { 0 };

	if (c->kind != CLIENT_PROCESS)
		return;
	listeners_leave(h, c);
	ports_leave(h, c);
	channels_leave(h, c);
	files_leave(c);
	report_leave(h, c);
	close_fds(c);
	if (!h->is_closing) {
		mcast_leave(h, c);
		/* dead in the page before anybody hears of it */
		slots_leave(h, c, gone);
		tell_known(h, c, gone);
	}
	c->slot = 0;
	h->process_count--;
	c->kind = CLIENT_COMMAND;
}

void hub_leave(struct hub *h, struct client *c)
{
	free_process(h, c);
	report_leave(h, c);
	if (c->kind == CLIENT_LEASE)
		leases_remove(h, c);
	list_remove(&c->node);
	h->client_count--;
}

void hub_answer(struct hub *h, struct client *c, const struct control_msg *msg, int status)
{
	struct control_msg answer = *msg;

	if (!msg->seq && !status)
		return;
	answer.status = status;
	answer.text_bytes = 0;
	h->ops->send(h, c, &answer, NULL, NULL, 0);
}

bool hub_is_owner(const struct hub *h, const struct client *c)
{
	return c->uid == 0 || c->uid == h->uid;
}

/* Peers write to it, so it must be what it should be: something else might block them. */
static bool is_eventfd(int fd)
{
	char link[48], target[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	return strcmp(target, "anon_inode:[eventfd]") == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* Without descriptors for the direct path the process has packets alone. */
static void keep_direct(struct client *c, const int fds[2])
{
	for (int i = 0; i < 2; i++)
		c->direct_fd[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
}

/* Who was attached to another weftd. All who are here may have dealt with it. */
static int come_back(struct hub *h, struct client *c, const struct control_msg *msg)
{
	int err = slots_return(h, c, msg->slot, msg->gid);

	if (err)
		return err;
	mcast_forget(h->page, c->slot);
	list_for_each(other, &h->clients, struct client, node) {
		if (other->kind == CLIENT_PROCESS)
			hub_acquaint(c, other);
	}
	return 0;
}

static uint32_t least_number(const struct hub *h)
{
	uint64_t taken[QUOTA_CLIENTS / 64] = { 0 };
	uint32_t n = 0;

	list_for_each(c, &h->clients, struct client, node) {
		if (c->kind == CLIENT_PROCESS)
			taken[c->number / 64] |= 1ull << c->number % 64;
	}
	while (taken[n / 64] >> n % 64 & 1)
		n++;
	return n;
}

static int attach(struct hub *h, struct client *c, const struct control_msg *msg, const int *fds, int nfds)
{
	int err;

	if ((nfds != 1 && nfds != 3) || !is_eventfd(fds[0]))
		return -EBADF;
	c->wake_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	if (c->wake_fd < 0)
		return -errno;
	err = msg->a == CONTROL_RETURN ? come_back(h, c, msg) : slots_first(h, c);
	if (err) {
		close_fds(c);
		return err;
	}
	if (nfds == 3)
		keep_direct(c, fds + 1);
	c->number = least_number(h);
	c->kind = CLIENT_PROCESS;
	h->process_count++;
	return 0;
}

static void hello(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	struct control_msg answer = *msg;
	int err = 0;

	if (msg->b != CONTROL_VERSION)
		err = -EPROTO;
	else if (msg->a == CONTROL_PROCESS || msg->a == CONTROL_RETURN)
		err = attach(h, c, msg, fds, nfds);
	else if (msg->a == CONTROL_COMMAND)
		c->kind = CLIENT_COMMAND;
	else if (msg->a == CONTROL_LEASE)
		leases_add(h, c);
	else
		err = -EINVAL;
	if (err) {
		hub_answer(h, c, msg, -err);
		h->ops->drop(h, c, strerror(-err));
		return;
	}
	h->was_used = true;
	answer.status = 0;
	answer.slot = c->slot;
	answer.c = c->number;
	answer.text_bytes = 0;
	if (c->slot)
		memcpy(answer.gid, h->claims->slot[c->slot].secret, sizeof(answer.gid));
	h->ops->send(h, c, &answer, NULL, &h->page_fd, 1);
}

static void goodbye(struct hub *h, struct client *c, const struct control_msg *msg)
{
	free_process(h, c);
	hub_answer(h, c, msg, 0);
}

static void up(struct hub *h, struct client *c, const struct control_msg *msg)
{
	if (hub_is_owner(h, c))
		h->claims->keep = true;
	hub_answer(h, c, msg, hub_is_owner(h, c) ? 0 : EPERM);
}

static void down(struct hub *h, struct client *c, const struct control_msg *msg)
{
	struct control_msg answer = *msg;
	int status = 0;

	answer.b = h->process_count + h->awaited;
	answer.c = h->lease_count + h->awaited_leases;
	if (!hub_is_owner(h, c))
		status = EPERM;
	else if (!msg->a && (answer.b || answer.c))
		status = EBUSY;
	else
		h->stopping = true, h->claims->keep = false;
	hub_answer(h, c, &answer, status);
}

/* The text of a message, where one may come with it. */
static void query(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	report_query(h, c, msg, text);
}

static void reported(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	report_input(h, c, msg, text);
}

enum {
	FROM_NEW = 1 << CLIENT_NEW,
	FROM_PROCESS = 1 << CLIENT_PROCESS,
	FROM_COMMAND = 1 << CLIENT_COMMAND,
	FROM_LEASE = 1 << CLIENT_LEASE,
};

static const struct rule {
	unsigned from;
	int max_fds;
	uint32_t max_text;
	void (*plain)(struct hub *h, struct client *c, const struct control_msg *msg);
	void (*full)(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);
} rules[] = {
	[CTL_HELLO] = { FROM_NEW, 3, 0, .full = hello },
	[CTL_SLOT] = { FROM_PROCESS, .plain = slots_input },
	[CTL_CHANNEL] = { FROM_PROCESS, .plain = channels_input },
	[CTL_MCAST] = { FROM_PROCESS, .plain = mcast_input },
	[CTL_LISTEN] = { FROM_PROCESS, .plain = listeners_add },
	[CTL_UNLISTEN] = { FROM_PROCESS, .plain = listeners_remove },
	[CTL_MAD] = { FROM_PROCESS, .plain = mad_input },
	[CTL_GOODBYE] = { FROM_PROCESS | FROM_COMMAND | FROM_LEASE, .plain = goodbye },
	[CTL_PORT] = { FROM_PROCESS, .plain = ports_add },
	[CTL_UNPORT] = { FROM_PROCESS, .plain = ports_remove },
	[CTL_STATUS] = { FROM_COMMAND, .plain = status_input },
	[CTL_QUERY] = { FROM_COMMAND, 0, REPORT_WHAT, .full = query },
	[CTL_DOWN] = { FROM_COMMAND, .plain = down },
	[CTL_REPORT] = { FROM_PROCESS, 0, CONTROL_TEXT, .full = reported },
	[CTL_UP] = { FROM_COMMAND, .plain = up },
	[CTL_MEMORY] = { FROM_PROCESS, 1, 0, .full = files_add },
	[CTL_MAP] = { FROM_PROCESS, .plain = files_give },
	[CTL_KEPT] = { FROM_PROCESS, .plain = channels_kept },
};

/* What is wrong with the message, or NULL. */
static const char *find_fault(const struct client *c, const struct control_msg *msg, int nfds)
{
	const struct rule *r = &rules[msg->type < sizeof(rules) / sizeof(rules[0]) ? msg->type : 0];

	if (!r->from)
		return "a message of a type that is not for weftd";
	if (!(r->from >> c->kind & 1))
		return c->kind == CLIENT_NEW ? "a message before the first HELLO" :
					       "a message that this kind of client may not send";
	if (nfds > r->max_fds)
		return "descriptors that do not belong to the message";
	if (msg->text_bytes > r->max_text)
		return "a text that is too long for the message";
	return NULL;
}

void hub_input(struct hub *h, struct client *c, wtime now, const struct control_msg *msg, const char *text, const int *fds,
	       int nfds)
{
	const char *fault = find_fault(c, msg, nfds);
	const struct rule *r;

	h->now = now;
	if (fault) {
		h->ops->drop(h, c, fault);
		return;
	}
	r = &rules[msg->type];
	if (r->full)
		r->full(h, c, msg, text, fds, nfds);
	else
		r->plain(h, c, msg);
}

void hub_expire(struct hub *h, wtime now)
{
	h->now = now;
	report_expire(h);
	if (h->look_at > now)
		return;
	slots_expire(h);
	leases_expire(h);
	h->look_at = h->awaited || h->awaited_leases ? now + LOOK_EVERY : WTIME_NEVER;
}

wtime hub_deadline(const struct hub *h)
{
	return wtime_min(report_deadline(h), h->look_at);
}

void hub_page_changed(struct hub *h)
{
	struct control_msg msg = { .type = CTL_PAGE, .a = 1 };

	list_for_each(c, &h->clients, struct client, node) {
		if (c->kind == CLIENT_PROCESS)
			h->ops->send(h, c, &msg, NULL, NULL, 0);
	}
}
