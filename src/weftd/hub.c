/* One table says for each message who may send it, how many descriptors come with it and which part answers. Whatever does
 * not fit the table costs the sender its connection and nobody else anything. */
#include "weftd/hub.h"

#include "base/log.h"
#include "control/fds.h"
#include "weftd/bad_keys.h"
#include "weftd/captures.h"
#include "weftd/channels.h"
#include "weftd/farewells.h"
#include "weftd/files.h"
#include "weftd/impairs.h"
#include "weftd/intake.h"
#include "weftd/history.h"
#include "weftd/late_frames.h"
#include "weftd/leases.h"
#include "weftd/link_states.h"
#include "weftd/listeners.h"
#include "weftd/mads.h"
#include "weftd/manager.h"
#include "weftd/mcast.h"
#include "weftd/page.h"
#include "weftd/paths.h"
#include "weftd/pings.h"
#include "weftd/port_counts.h"
#include "weftd/probes.h"
#include "weftd/ports.h"
#include "weftd/qp1.h"
#include "weftd/report.h"
#include "weftd/seed_sa.h"
#include "weftd/slots.h"
#include "weftd/status.h"
#include "weftd/subnet.h"
#include "weftd/umad.h"
#include "weftd/roce_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Our choice: a process that dies while no weftd serves is missed by its peers for so long at most. */
#define LOOK_EVERY (250 * WTIME_MS)

void hub_init(struct hub *h, const struct hub_ops *ops, const struct state *state, wtime now)
{
	struct rlimit files = { 0 };

	*h = (struct hub){ .ops = ops, .page = state->page, .claims = state->claims, .page_fd = state->page_fd, .uid = geteuid(),
			   .now = now, .start = now, .loads.fd = -1, .sa_tunables = sa_defaults };
	list_init(&h->clients);
	list_init(&h->accounts);
	list_init(&h->reports);
	hash_table_init(&h->listeners);
	hash_table_init(&h->tallies);
	hash_table_init(&h->ports);
	memset(h->group_user, 0xff, sizeof(h->group_user));
	getrlimit(RLIMIT_NOFILE, &files);
	h->descriptors = files.rlim_cur;
	h->last_fabric = atomic_load(&h->page->fabric);
	slots_inherit(h);
	mcast_inherit(h);
	leases_inherit(h);
	captures_start(h);
	timer_heap_init(&h->late_frames);
	umad_start(h);
}

void hub_close(struct hub *h)
{
	h->is_closing = true;
	manager_close(h);
	history_free(h);
	seed_sa_end(h);
	farewells_say_all(h);
	list_for_each(c, &h->clients, struct client, node)
		farewells_leave(h, c);
	farewells_free(h);
	probes_free(h);
	roce_port_close(h);
}

int hub_join(struct hub *h, struct client *c, enum control_limit *limit)
{
	c->account = account_get(h, c->uid);
	if (!c->account)
		return -ENOMEM;
	*limit = account_check(h, c, LIMIT_CONNECTIONS, 1);
	if (!*limit)
		*limit = account_check(h, c, LIMIT_DESCRIPTORS, 1);
	if (*limit) {
		account_put(c->account);
		return -EDQUOT;
	}
	c->kind = CLIENT_NEW;
	c->wake_fd = c->direct_fd[0] = c->direct_fd[1] = -1;
	list_init(&c->ends);
	list_init(&c->listeners);
	list_init(&c->ports);
	list_init(&c->connections);
	list_init(&c->kept);
	list_append(&h->clients, &c->node);
	h->client_count++;
	return 0;
}

void hub_acquaint(struct client *a, struct client *b)
{
	a->known[b->slot / 64] |= 1ull << b->slot % 64;
	b->known[a->slot / 64] |= 1ull << a->slot % 64;
}

/* The lowest slot of the set, which is taken out; 0: there is none. */
static uint32_t take_slot(uint64_t set[PAGE_SLOTS / 64])
{
	for (uint32_t w = 0; w < PAGE_SLOTS / 64; w++) {
		uint32_t slot = w * 64 + (set[w] ? (uint32_t)__builtin_ctzll(set[w]) : 0);

		if (!set[w])
			continue;
		set[w] &= set[w] - 1;
		return slot;
	}
	return 0;
}

static void tell_gone(struct hub *h, struct client *to, const uint64_t gone[PAGE_SLOTS / 64])
{
	struct control_msg msg = { .type = CTL_PEER_GONE };
	uint64_t left[PAGE_SLOTS / 64];

	memcpy(left, gone, sizeof(left));
	while ((msg.slot = take_slot(left)))
		h->ops->send(h, to, &msg, NULL, NULL, 0);
}

void hub_tell_gone(struct hub *h, const uint64_t gone[PAGE_SLOTS / 64])
{
	list_for_each(c, &h->clients, struct client, node) {
		if (c->kind == CLIENT_PROCESS)
			tell_gone(h, c, gone);
	}
}

/* As many steps as there are processes to tell. */
static void tell_known(struct hub *h, struct client *c, const uint64_t gone[PAGE_SLOTS / 64])
{
	uint32_t slot;

	while ((slot = take_slot(c->known))) {
		struct client *to = h->slot_owner[slot];

		if (!to)
			continue;
		to->known[c->slot / 64] &= ~(1ull << c->slot % 64);
		tell_gone(h, to, gone);
	}
}

static void close_fds(struct client *c)
{
	fds_close(&c->wake_fd, 1);
	fds_close(c->direct_fd, 2);
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
	farewells_leave(h, c);
	captures_leave(h, c);
	roce_port_leave(h, c);
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
	umad_leave(h, c);
	late_frames_leave(h, c);
	pings_leave(h, c);
	probes_leave(h, c);
	paths_forget(h, c);
	captures_leave(h, c);
	if (c->kind == CLIENT_LEASE)
		leases_remove(h, c);
	list_remove(&c->node);
	account_put(c->account);
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

void hub_refuse(struct hub *h, struct client *c, const struct control_msg *msg, enum control_limit limit)
{
	struct control_msg answer = *msg;

	answer.c = limit;
	hub_answer(h, c, &answer, EDQUOT);
}

bool hub_stays(const struct hub *h)
{
	return h->claims->keep || page_is_any_down(h->page) || page_is_any_cut(h->page);
}

bool hub_is_owner(const struct hub *h, const struct client *c)
{
	return c->uid == 0 || c->uid == h->uid;
}

/* Peers write to it, so it must be what it should be: something else might block them. */
static bool is_fit_to_wake(int fd)
{
	return intake_is_eventfd(fd) && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
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
	mcast_forget(h, c->slot);
	list_for_each(other, &h->clients, struct client, node) {
		if (other->kind == CLIENT_PROCESS)
			hub_acquaint(c, other);
	}
	return 0;
}

static void note_number(uint64_t taken[QUOTA_CLIENTS / 64], uint32_t number)
{
	taken[number % QUOTA_CLIENTS / 64] |= 1ull << number % 64;
}

/* Who has not come back yet has kept its own: two processes never draw the same faults. There is one: each number taken stands
 * for a slot, and there are fewer slots. */
static uint32_t least_number(const struct hub *h)
{
	uint64_t taken[QUOTA_CLIENTS / 64] = { 0 };
	uint32_t n = 0;

	list_for_each(c, &h->clients, struct client, node) {
		if (c->kind == CLIENT_PROCESS)
			note_number(taken, c->number);
	}
	for (uint32_t i = 1; h->awaited && i < PAGE_SLOTS; i++) {
		if (slots_is_awaited(h, i))
			note_number(taken, h->claims->slot[i].number);
	}
	while (taken[n / 64] >> n % 64 & 1)
		n++;
	return n;
}

/* -EDQUOT: *limit says which. */
static int attach(struct hub *h, struct client *c, const struct control_msg *msg, const int *fds, int nfds, uint32_t *limit)
{
	int err;

	*limit = msg->a == CONTROL_PROCESS ? account_check(h, c, LIMIT_SLOTS, 1) : 0;
	if (!*limit)
		*limit = account_check(h, c, LIMIT_DESCRIPTORS, (uint64_t)nfds);
	if (*limit)
		return -EDQUOT;

	if ((nfds != 1 && nfds != 3) || !is_fit_to_wake(fds[0]))
		return -EBADF;
	c->wake_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
	if (c->wake_fd < 0)
		return -errno;
	if (msg->a == CONTROL_PROCESS)
		c->number = least_number(h);
	err = msg->a == CONTROL_RETURN ? come_back(h, c, msg) : slots_first(h, c);
	if (err) {
		close_fds(c);
		return err;
	}
	if (nfds == 3)
		keep_direct(c, fds + 1);
	c->has_returned = msg->a == CONTROL_RETURN;
	c->told_kept = !c->has_returned;
	c->kind = CLIENT_PROCESS;
	h->process_count++;
	return 0;
}

static void hello(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	const int given[] = { h->page_fd, h->loads.fd };
	struct control_msg answer = *msg;
	int err = 0;

	if (msg->b != CONTROL_VERSION)
		err = -EPROTO;
	else if (msg->a == CONTROL_PROCESS || msg->a == CONTROL_RETURN)
		err = attach(h, c, msg, fds, nfds, &answer.c);
	else if (msg->a == CONTROL_COMMAND)
		c->kind = CLIENT_COMMAND;
	else if (msg->a == CONTROL_MADS)
		c->kind = CLIENT_MADS;
	else if (msg->a == CONTROL_LEASE)
		leases_add(h, c);
	else
		err = -EINVAL;
	if (err) {
		hub_answer(h, c, &answer, -err);
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
	h->ops->send(h, c, &answer, NULL, given, c->kind == CLIENT_PROCESS && h->loads.fd >= 0 ? 2 : 1);
	if (c->kind == CLIENT_PROCESS)
		captures_join(h, c);
}

static void goodbye(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	if (c->kind == CLIENT_PROCESS && msg->text_bytes)
		history_add(h, c, text, msg->text_bytes);
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

	if (hub_is_owner(h, c)) {
		/* those whom this weftd awaits may have ended since it looked last */
		slots_expire(h);
		leases_expire(h);
	}
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

static void frame(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	qp1_input(h, c, msg, text);
}

static void impair(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds)
{
	impairs_input(h, c, msg, text);
}

enum {
	FROM_NEW = 1 << CLIENT_NEW,
	FROM_PROCESS = 1 << CLIENT_PROCESS,
	FROM_COMMAND = 1 << CLIENT_COMMAND,
	FROM_LEASE = 1 << CLIENT_LEASE,
	FROM_MADS = 1 << CLIENT_MADS,
};

static const struct rule {
	unsigned from;
	int max_fds;
	uint32_t max_text;
	void (*plain)(struct hub *h, struct client *c, const struct control_msg *msg);
	void (*full)(struct hub *h, struct client *c, const struct control_msg *msg, const char *text, const int *fds, int nfds);
	enum control_limit takes;	/* one more of these; 0: nothing, or the part looks itself */
} rules[] = {
	[CTL_HELLO] = { FROM_NEW, 3, 0, .full = hello },
	[CTL_SLOT] = { FROM_PROCESS, .plain = slots_input, .takes = LIMIT_SLOTS },
	[CTL_CHANNEL] = { FROM_PROCESS, .plain = channels_input },
	[CTL_MCAST] = { FROM_PROCESS, .plain = mcast_input },
	[CTL_LISTEN] = { FROM_PROCESS, .plain = listeners_add, .takes = LIMIT_LISTENERS },
	[CTL_UNLISTEN] = { FROM_PROCESS, .plain = listeners_remove },
	[CTL_FRAME] = { FROM_PROCESS, 0, GMP_FRAME, .full = frame },
	[CTL_GOODBYE] = { FROM_PROCESS | FROM_COMMAND | FROM_LEASE, 0, CONTROL_LAST_WORDS, .full = goodbye },
	[CTL_PORT] = { FROM_PROCESS, .plain = ports_add, .takes = LIMIT_PORTS },
	[CTL_UNPORT] = { FROM_PROCESS, .plain = ports_remove },
	[CTL_STATUS] = { FROM_COMMAND, .plain = status_input },
	[CTL_QUERY] = { FROM_COMMAND, 0, REPORT_WHAT, .full = query },
	[CTL_DOWN] = { FROM_COMMAND, .plain = down },
	[CTL_REPORT] = { FROM_PROCESS, 0, CONTROL_TEXT, .full = reported },
	[CTL_UP] = { FROM_COMMAND, .plain = up },
	[CTL_MEMORY] = { FROM_PROCESS, 1, 0, .full = files_add, .takes = LIMIT_DESCRIPTORS },
	[CTL_MAP] = { FROM_PROCESS, .plain = files_give },
	[CTL_KEPT] = { FROM_PROCESS, .plain = channels_kept },
	[CTL_ROCE_SOCKET] = { FROM_PROCESS, .plain = roce_port_input },
	[CTL_CONN] = { FROM_PROCESS, .plain = farewells_add },
	[CTL_UNCONN] = { FROM_PROCESS, .plain = farewells_remove },
	[CTL_FABRIC] = { FROM_COMMAND, 1, 0, .full = subnet_load, .takes = LIMIT_DESCRIPTORS },
	[CTL_NODE] = { FROM_PROCESS | FROM_COMMAND | FROM_LEASE, .plain = subnet_node },
	[CTL_IMPAIR] = { FROM_COMMAND, 0, IMPAIRS_TEXT, .full = impair },
	[CTL_CAPTURE] = { FROM_COMMAND, .plain = captures_input },
	[CTL_LINK] = { FROM_COMMAND, .plain = link_states_input },
	[CTL_LINK_FAULT] = { FROM_COMMAND, .plain = link_states_fault },
	[CTL_LINK_ERROR] = { FROM_COMMAND, .plain = link_states_error },
	[CTL_PATH_CUT] = { FROM_COMMAND, .plain = link_states_cut },
	[CTL_MAD_PORT] = { FROM_MADS, 0, NODE_DESCRIPTION + 8, .full = umad_port },
	[CTL_MAD] = { FROM_MADS, 0, sizeof(struct control_mad) + CONTROL_MAD_PIECE, .full = umad_input },
	[CTL_PING] = { FROM_COMMAND, .plain = pings_input },
	[CTL_PATH_MTU] = { FROM_PROCESS, .plain = probes_input },
	[CTL_PATH] = { FROM_PROCESS, .plain = paths_input },
	[CTL_PATHS] = { FROM_PROCESS, .plain = paths_input },
	[CTL_MAD_AGENT] = { FROM_COMMAND, 0, sizeof(struct control_agent), .full = umad_agent },
	[CTL_BAD_KEY] = { FROM_PROCESS, .plain = bad_keys_input },
	[CTL_MAD_DONE] = { FROM_MADS, .plain = umad_done },
	[CTL_MADS] = { FROM_COMMAND, 0, MADS_TEXT, .full = mads_input },
	[CTL_COUNTS] = { FROM_COMMAND | FROM_LEASE, .plain = subnet_counts },
	[CTL_PORT_COUNTS] = { FROM_COMMAND, .plain = port_counts_input },
};

static const struct rule *find_rule(const struct control_msg *msg)
{
	return &rules[msg->type < sizeof(rules) / sizeof(rules[0]) ? msg->type : 0];
}

bool hub_takes_fds(const struct client *c, const struct control_msg *msg)
{
	const struct rule *r = find_rule(msg);

	return r->from >> c->kind & 1 && r->max_fds;
}

/* What is wrong with the message, or NULL. */
static const char *find_fault(const struct client *c, const struct control_msg *msg, int nfds)
{
	const struct rule *r = find_rule(msg);

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
	enum control_limit limit;
	const struct rule *r;

	h->now = now;
	if (fault) {
		h->ops->drop(h, c, fault);
		return;
	}
	r = &rules[msg->type];
	limit = r->takes ? account_check(h, c, r->takes, 1) : 0;
	if (limit)
		hub_refuse(h, c, msg, limit);
	else if (r->full)
		r->full(h, c, msg, text, fds, nfds);
	else
		r->plain(h, c, msg);
}

void hub_expire(struct hub *h, wtime now)
{
	h->now = now;
	report_expire(h);
	link_states_expire(h);
	umad_expire(h);
	late_frames_expire(h);
	roce_port_expire(h);
	farewells_expire(h);
	probes_expire(h);
	impairs_expire(h);
	if (h->look_at > now)
		return;
	slots_expire(h);
	leases_expire(h);
	h->look_at = h->awaited || h->awaited_leases ? now + LOOK_EVERY : WTIME_NEVER;
}

wtime hub_deadline(const struct hub *h)
{
	wtime parts = wtime_min(report_deadline(h), umad_deadline(h));

	parts = wtime_min(parts, wtime_min(link_states_deadline(h), roce_port_deadline(h)));
	parts = wtime_min(wtime_min(parts, farewells_deadline(h)), impairs_deadline(h));
	parts = wtime_min(parts, wtime_min(probes_deadline(h), late_frames_deadline(h)));
	return wtime_min(parts, h->look_at);
}

void hub_page_changed(struct hub *h, enum control_page what)
{
	struct control_msg msg = { .type = CTL_PAGE, .a = what };

	list_for_each(c, &h->clients, struct client, node) {
		if (c->kind == CLIENT_PROCESS)
			h->ops->send(h, c, &msg, NULL, NULL, 0);
	}
}
