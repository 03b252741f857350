/* Timers: a request has one, set when it is sent and when it is sent again: its timeout, or the next ACK while its segments are
 * on their way; what comes of its answer sets it anew. A datagram that comes in segments has the timer of rmpp.c; when it is
 * whole it is forgotten after DONE_KEPT_NS without another segment. A MAD on slow links has one: when it is there.
 *
 * What is to be sent is put into the list of hops and leaves in turn (run), so that answers to answers do not nest. A call
 * carries MAD_CARRIED_MOST of them; the rest is due at once, so that other work comes between. */
#include "mgmt/mad_clients.h"

#include "mgmt/mad_agents.h"
#include "mgmt/mad_hops.h"
#include "mgmt/mad_late.h"
#include "mgmt/mad_requests.h"
#include "mgmt/mad_under_way.h"
#include "mgmt/series.h"
#include "wire/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TID_UPPER 8, 0, 32

#define DONE_KEPT_NS (10 * WTIME_S)	/* our choice: longer than a sender repeats its last segment */

#define NOWHERE UINT32_MAX		/* no port of which is known what it has */

_Static_assert((int)GSA_WINDOW_MOST == (int)RMPP_WINDOW_MOST && (int)GSA_WINDOW == (int)RMPP_WINDOW, "told by both");

static bool segments(const struct mad_agent *a, uint8_t mgmt_class)
{
	return a->what.rmpp_version && !a->what.is_user_rmpp && mad_class_has_rmpp(mgmt_class);
}

/* ---- files ---- */

void mad_clients_init(struct mad_clients *c, const struct mad_ops *ops, void *arg, const struct siphash_key *key)
{
	*c = (struct mad_clients){ .ops = ops, .arg = arg };
	rand_key(&c->rand, key);
	list_init(&c->files);
	timer_heap_init(&c->requests);
	timer_heap_init(&c->transfers);
	timer_heap_init(&c->late);
	list_init(&c->hops);
	mad_buffers_init(&c->buffers);
}

void mad_file_open(struct mad_clients *c, struct mad_file *f, uint32_t port)
{
	f->port = port;
	list_init(&f->request_list);
	list_init(&f->transfer_list);
	list_append(&c->files, &f->node);
}

static void give_window_back(struct transfer *t)
{
	if (t->lent)
		mad_agent_lend(t->file, t->agent, -(int32_t)t->lent);
	t->lent = 0;
}

static void transfer_free(struct mad_clients *c, struct transfer *t)
{
	give_window_back(t);
	list_remove(&t->node);
	timer_heap_remove(&c->transfers, &t->timer);
	rmpp_recv_fini(&t->rmpp);
	t->file->transfers--;
	t->file->bytes_in -= t->counted;
	free(t);
}

/* agent MAD_AGENTS: of all. */
static void forget(struct mad_clients *c, const struct mad_file *f, uint32_t agent)
{
	list_for_each_safe(r, &f->request_list, struct request, node) {
		if (agent == MAD_AGENTS || r->agent == agent)
			mad_request_free(c, r);
	}
	list_for_each_safe(t, &f->transfer_list, struct transfer, node) {
		if (agent == MAD_AGENTS || t->agent == agent)
			transfer_free(c, t);
	}
}

void mad_file_close(struct mad_clients *c, struct mad_file *f)
{
	forget(c, f, MAD_AGENTS);
	list_remove(&f->node);
	for (uint32_t i = 0; i < MAD_AGENTS; i++) {
		if (f->agent[i].is_used)
			mad_agent_leave(c, f, i);
	}
	if (!list_empty(&c->files))
		return;
	timer_heap_fini(&c->requests);
	timer_heap_fini(&c->transfers);
}

void mad_clients_fini(struct mad_clients *c)
{
	struct mad_file *f;

	while ((f = list_first_entry(&c->files, struct mad_file, node)))
		mad_file_close(c, f);
	for (struct mad_hop *h; (h = mad_hop_take(c));)
		free(h);
	mad_late_fini(c);
	mad_buffers_fini(&c->buffers);
}

int mad_unregister(struct mad_clients *c, struct mad_file *f, uint32_t agent)
{
	if (agent >= MAD_AGENTS || !f->agent[agent].is_used)
		return -ENOENT;
	forget(c, f, agent);
	mad_agent_leave(c, f, agent);
	return 0;
}

/* ---- what goes out ---- */

/* A program may use an id again: what came for the last question is not repeated then, and what still comes for it is over. */
static void forget_answer(struct mad_clients *c, const struct mad_file *f, uint64_t tid, uint8_t mgmt_class)
{
	list_for_each_safe(t, &f->transfer_list, struct transfer, node) {
		if (t->tid == tid && t->mgmt_class == mgmt_class && (t->is_done || t->is_answer))
			transfer_free(c, t);
	}
}

/* Two of them cannot be told apart by their answers. */
static bool is_asked(const struct mad_file *f, const struct mad_agent *a, const uint8_t *mad)
{
	uint8_t head[MAD_HEADER_BYTES];

	memcpy(head, mad, sizeof(head));
	wire_put(head, a->tid, TID_UPPER);
	return !is_response(mad) && mad_request_find(f, head);
}

static unsigned run(struct mad_clients *c, wtime now, unsigned most);

int mad_send(struct mad_clients *c, wtime now, struct mad_file *f, const struct mad_letter *l)
{
	const struct mad_agent *a = l->agent < MAD_AGENTS ? &f->agent[l->agent] : NULL;
	struct rmpp_header h = { 0 };
	struct request *r;
	int err;

	if (!a || !a->is_used || l->bytes < MAD_HEADER_BYTES || l->bytes > mad_longest(c, l->data) ||
	    mad_class_qpn(mad_class(l->data)) != mad_class_qpn(a->what.mgmt_class))
		return -EINVAL;
	if (l->bytes >= RMPP_HEADER_END && segments(a, mad_class(l->data)))
		rmpp_parse(&h, l->data);
	if ((!h.is_active && l->bytes > MAD_BYTES) || is_asked(f, a, l->data))
		return -EINVAL;
	if (l->source && (!h.is_active || !is_response(l->data)))
		return -EINVAL;
	err = mad_request_make(c, f, l, &r);
	if (err)
		return err;
	r->own_tid = r->tid = wire_get(r->data, TID);
	if (!is_response(r->data)) {
		wire_put(r->data, a->tid, TID_UPPER);
		r->tid = wire_get(r->data, TID);
		forget_answer(c, f, r->tid, mad_class(r->data));
	}
	r->is_segmented = h.is_active;
	mad_request_send(c, now, r);
	if (!r->is_segmented && !r->timeout_ms)
		mad_request_free(c, r);
	run(c, now, MAD_CARRIED_MOST);
	return 0;
}

/* ---- what comes in ---- */

/* Gives a whole datagram to its agent; the first answer to a request ends that. Of a program that segments by itself, more than
 * one may come, as one. data is changed. True: the file has it now, and its buffer. */
static bool give(struct mad_clients *c, struct mad_file *f, struct mad_letter *l, uint8_t *data, bool is_one_of_many)
{
	struct request *r = is_response(data) ? mad_request_find(f, data) : NULL;

	l->data = data;
	if (is_response(data) && !r && !is_one_of_many) {
		f->agent[l->agent].unasked++;
		return false;
	}
	if (r) {
		wire_put(data, r->own_tid, TID);
		l->timeout_ms = r->timeout_ms;
		mad_request_free(c, r);
	}
	return c->ops->deliver(c->arg, f, l);
}

static struct transfer *find_transfer(const struct mad_file *f, const struct mad_remote *sender, const uint8_t *mad)
{
	list_for_each(t, &f->transfer_list, struct transfer, node) {
		if (t->tid == wire_get(mad, TID) && t->sender.lid == sender->lid && t->mgmt_class == mad_class(mad) &&
		    t->method == mad_method(mad))
			return t;
	}
	return NULL;
}

/* Those that are done are kept to acknowledge what comes again: the oldest one of them makes room. */
static void make_place(struct mad_clients *c, const struct mad_file *f)
{
	if (f->transfers < MAD_TRANSFERS)
		return;
	list_for_each_safe(t, &f->transfer_list, struct transfer, node) {
		if (t->is_done) {
			transfer_free(c, t);
			return;
		}
	}
}

/* What comes to a file without a request. */
struct unasked {
	uint32_t transfers, of_one;
	size_t bytes, bytes_of_one;
};

static struct unasked unasked(const struct mad_file *f, uint16_t lid)
{
	struct unasked u = { 0 };

	list_for_each(t, &f->transfer_list, struct transfer, node) {
		if (t->is_done || t->is_answer)
			continue;
		u.transfers++;
		u.bytes += t->counted;
		u.of_one += t->sender.lid == lid;
		u.bytes_of_one += t->sender.lid == lid ? t->counted : 0;
	}
	return u;
}

/* What is not asked for leaves places for answers, and one sender's for others. */
static bool has_place(const struct mad_file *f, const struct mad_remote *sender, const uint8_t *mad)
{
	struct unasked u = unasked(f, sender->lid);

	return f->transfers < MAD_TRANSFERS &&
	       (is_response(mad) || (u.transfers < MAD_TRANSFERS_UNASKED && u.of_one < MAD_TRANSFERS_OF_ONE));
}

static struct transfer *make_transfer(struct mad_clients *c, struct mad_file *f, uint32_t agent, const struct mad_remote *sender,
				      const uint8_t *mad)
{
	uint32_t window = c->buffers.tunables.window;
	struct transfer *t;

	make_place(c, f);
	if (!has_place(f, sender, mad) || timer_heap_reserve(&c->transfers, c->transfers.count + 1))
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->file = f;
	t->agent = agent;
	t->tid = wire_get(mad, TID);
	t->sender = *sender;
	t->mgmt_class = mad_class(mad);
	t->method = mad_method(mad);
	t->is_answer = is_response(mad);
	rmpp_recv_init(&t->rmpp, &(struct rmpp_config){ .window = window, .most = mad_longest(c, mad) });
	t->lent = mad_agent_lend(f, agent, (int32_t)window) ? window : 0;
	f->transfers++;
	list_append(&f->transfer_list, &t->node);
	timer_heap_insert(&c->transfers, &t->timer, WTIME_NEVER);
	return t;
}

/* 0, or -EDQUOT: that is too much, and it is to be freed. */
static int count(const struct mad_clients *c, struct transfer *t)
{
	bool grows = t->rmpp.room > t->counted;
	struct unasked u;

	t->file->bytes_in += t->rmpp.room - t->counted;
	t->counted = t->rmpp.room;
	if (t->file->bytes_in + t->file->unread > mad_file_bytes(c) || !c->ops->may_hold(c->arg, t->file, 0))
		return -EDQUOT;
	if (!grows || t->is_answer)
		return 0;
	u = unasked(t->file, t->sender.lid);
	return u.bytes <= MAD_BYTES_UNASKED && u.bytes_of_one <= MAD_BYTES_OF_ONE ? 0 : -EDQUOT;
}

static bool finish(struct mad_clients *c, wtime now, struct transfer *t, const struct mad_remote *sender)
{
	struct mad_letter letter = { .agent = t->agent, .remote = *sender, .bytes = t->rmpp.bytes, .gift = &t->rmpp.data };
	bool is_held;

	t->is_done = true;
	timer_heap_update(&c->transfers, &t->timer, now + DONE_KEPT_NS);
	give_window_back(t);
	t->file->bytes_in -= t->counted;
	t->counted = 0;
	is_held = give(c, t->file, &letter, t->rmpp.data, false);
	rmpp_recv_fini(&t->rmpp);
	return is_held;
}

/* A segment, or what ends a datagram that comes. True: it was the last one, and the file has the datagram. */
static bool take_into(struct mad_clients *c, wtime now, struct transfer *t, const struct mad_remote *sender,
		      const uint8_t mad[MAD_BYTES])
{
	uint8_t reply[MAD_BYTES];
	uint32_t before = t->rmpp.last + t->rmpp.kept;
	enum rmpp_verdict verdict;
	bool answers;

	verdict = rmpp_recv_input(&t->rmpp, now, mad, &answers, reply);
	if (verdict != RMPP_FAILED && count(c, t)) {
		rmpp_end(mad, RMPP_NO_RESOURCES, reply);
		verdict = RMPP_FAILED;
		answers = true;
	}
	if (answers)
		mad_hop_put(c, t->file->port, sender, reply);
	if (verdict == RMPP_FAILED) {
		transfer_free(c, t);
		return false;
	}
	timer_heap_update(&c->transfers, &t->timer, t->rmpp.deadline);
	if (t->rmpp.last + t->rmpp.kept > before)
		mad_request_hear_answer(c, now, t->file, mad);
	return verdict == RMPP_DONE && finish(c, now, t, sender);
}

/* Without a request nobody waits for the answer, and a request has one: while that comes, no other one of who was asked begins,
 * by another method or from another of its LIDs. */
static bool may_begin(const struct mad_file *f, const uint8_t *mad)
{
	if (!is_response(mad))
		return true;
	list_for_each(t, &f->transfer_list, struct transfer, node) {
		if (t->tid == wire_get(mad, TID) && t->mgmt_class == mad_class(mad) && t->is_answer && !t->is_done)
			return false;
	}
	return mad_request_find(f, mad);
}

static bool take_segment(struct mad_clients *c, wtime now, struct mad_file *f, uint32_t agent, const struct mad_remote *sender,
			 const uint8_t mad[MAD_BYTES])
{
	struct transfer *t = find_transfer(f, sender, mad);
	uint8_t reply[MAD_BYTES];
	struct rmpp_header h;

	rmpp_parse(&h, mad);
	if (!t && h.segment == 1 && may_begin(f, mad)) {
		t = make_transfer(c, f, agent, sender, mad);
		if (!t) {
			rmpp_end(mad, RMPP_NO_RESOURCES, reply);
			mad_hop_put(c, f->port, sender, reply);
		}
	}
	if (!t) {
		f->agent[agent].unasked += is_response(mad);
		return false;
	}
	if (!t->is_done)
		return take_into(c, now, t, sender, mad);
	timer_heap_update(&c->transfers, &t->timer, now + DONE_KEPT_NS);
	rmpp_ack(mad, t->rmpp.last, t->rmpp.window_last, reply);
	mad_hop_put(c, f->port, sender, reply);
	return false;
}

/* Of a request that is whole: its answer may begin. */
static void take_leave(struct transfer *t, const uint8_t mad[MAD_BYTES])
{
	if (wire_get(mad, RMPP_TYPE) == RMPP_ACK && !wire_get(mad, RMPP_DATA1))
		t->answer_window = (uint32_t)wire_get(mad, RMPP_DATA2);
}

/* ACK, STOP or ABORT: of what the agent sends, or of what comes. */
static void take_reply(struct mad_clients *c, wtime now, struct mad_file *f, uint32_t agent, const struct mad_remote *sender,
		       const uint8_t mad[MAD_BYTES])
{
	struct request *r = mad_request_find_sent(f, sender, mad);
	struct transfer *t = r && r->is_sending ? NULL : find_transfer(f, sender, mad);

	f->agent[agent].unasked += !r && !t && is_response(mad);
	if (t && !t->is_done)
		take_into(c, now, t, sender, mad);
	else if (t)
		take_leave(t, mad);
	else if (r)
		mad_request_input(c, now, r, sender, mad);
}

/* Answers of the seed's subnet administration are packets that the program puts together by itself (transaction.h). */
static bool is_series(const struct mad_agent *a)
{
	return a->what.mgmt_class == MAD_CLASS_SA && a->what.class_version == SERIES_CLASS_VERSION && !a->what.rmpp_version;
}

/* True: the file has it now, and its buffer. */
static bool take_for(struct mad_clients *c, wtime now, struct mad_file *f, uint32_t agent, const struct mad_remote *sender,
		     const uint8_t mad[MAD_BYTES])
{
	bool segments_here = segments(&f->agent[agent], mad_class(mad));
	struct rmpp_header h = { 0 };
	struct mad_letter letter = { .agent = agent, .remote = *sender, .bytes = MAD_BYTES };
	uint8_t copy[MAD_BYTES];

	if (mad_class_has_rmpp(mad_class(mad)))
		rmpp_parse(&h, mad);
	if (segments_here && h.is_active && h.type == RMPP_DATA)
		return take_segment(c, now, f, agent, sender, mad);
	if (segments_here && h.is_active) {
		take_reply(c, now, f, agent, sender, mad);
		return false;
	}
	memcpy(copy, mad, MAD_BYTES);
	return give(c, f, &letter, copy, !segments_here && (h.is_active || is_series(&f->agent[agent])));
}

/* Who was asked answers, by whichever of its LIDs; an id is no secret to those that an agent has asked before. SMPs by directed
 * routes have no addresses. from: the sender's port, or NOWHERE: it is not known. */
static bool is_of_who_was_asked(const struct mad_clients *c, const struct mad_file *f, uint32_t from,
				const struct mad_remote *sender, const uint8_t *mad)
{
	const struct request *r = mad_request_find(f, mad);

	return !r || r->remote.lid == sender->lid || mad_class(mad) == MAD_CLASS_SUBN_DIRECTED ||
	       (from != NOWHERE && c->ops->has_lid(c->arg, from, r->remote.lid));
}

static void take_buffer(struct mad_clients *c, wtime now, struct mad_file *f, uint32_t agent, const struct mad_remote *sender,
			const uint8_t mad[MAD_BYTES])
{
	struct mad_agent *a = &f->agent[agent];
	unsigned qpn = mad_class_qpn(mad_class(mad));

	if (!is_response(mad) && !c->buffers.tunables.fixed && mad_agent_held(a, sender->lid) >= MAD_HELD_OF_ONE)
		mad_pool_discard(now, f->pool, qpn, a->client);
	else if (mad_pool_arrive(now, f->pool, qpn, a->client))
		mad_agent_took(f, agent, sender->lid, take_for(c, now, f, agent, sender, mad));
}

/* False: nobody is registered for it. */
static bool take(struct mad_clients *c, wtime now, uint32_t port, uint32_t from, const struct mad_remote *sender,
		 const uint8_t mad[MAD_BYTES])
{
	struct mad_file *f = NULL;
	struct mad_agent *a = is_response(mad) ? mad_agent_of_tid(c, port, (uint32_t)wire_get(mad, TID_UPPER), &f) :
						 mad_agent_of_method(c, port, mad, &f);
	unsigned qpn = mad_class_qpn(mad_class(mad));

	if (!a && !is_response(mad))
		return false;
	if (!a || qpn != mad_class_qpn(a->what.mgmt_class)) {
		mad_buffers_discard(&c->buffers, now, port, qpn);
	} else if (is_response(mad) && !is_of_who_was_asked(c, f, from, sender, mad)) {
		a->unasked++;
		mad_pool_discard(now, f->pool, qpn, a->client);
	} else {
		take_buffer(c, now, f, (uint32_t)(a - f->agent), sender, mad);
	}
	return true;
}

static void arrive(struct mad_clients *c, wtime now, uint32_t from, struct mad_coming *at, uint8_t mad[MAD_BYTES])
{
	unsigned qpn = mad_class_qpn(mad_class(mad));
	uint32_t here = at->port;
	enum mad_fate fate;

	if (take(c, now, at->port, from, &at->sender, mad))
		return;
	fate = c->ops->refuse(c->arg, now, at, mad);
	if (fate != MAD_HAS_ARRIVED)
		mad_buffers_discard(&c->buffers, now, here, qpn);
	if (fate == MAD_WAS_ANSWERED && at->due > now)
		mad_late_put(c, fate, here, at, mad);
	else if (fate != MAD_WAS_LOST)
		take(c, now, at->port, fate == MAD_HAS_ARRIVED ? from : NOWHERE, &at->sender, mad);
}

/* from: the port that has sent it, or NOWHERE. */
static void come(struct mad_clients *c, wtime now, enum mad_fate fate, uint32_t from, struct mad_coming *at,
		 uint8_t mad[MAD_BYTES])
{
	if (fate == MAD_WAS_LOST)
		return;
	if (at->due > now)
		mad_late_put(c, fate, from, at, mad);
	else if (fate == MAD_WAS_ANSWERED)
		take(c, now, at->port, NOWHERE, &at->sender, mad);
	else
		arrive(c, now, from, at, mad);
}

/* Carries at most so many; how many is returned. */
static unsigned run(struct mad_clients *c, wtime now, unsigned most)
{
	struct mad_hop *h;
	unsigned carried = 0;

	for (; carried < most && (h = mad_hop_take(c)); carried++) {
		struct mad_coming at = { 0 };

		come(c, now, c->ops->carry(c->arg, now, h->from, mad_class_qpn(mad_class(h->mad)), &h->to, h->mad, &at),
		     h->from, &at, h->mad);
		free(h);
	}
	return carried;
}

void mad_comes(struct mad_clients *c, wtime now, const struct mad_coming *at, const uint8_t mad[MAD_BYTES])
{
	struct mad_coming where = *at;
	uint8_t copy[MAD_BYTES];

	memcpy(copy, mad, MAD_BYTES);
	come(c, now, MAD_HAS_ARRIVED, NOWHERE, &where, copy);
	run(c, now, MAD_CARRIED_MOST);
}

/* ---- time ---- */

/* One that is whole was kept for its ACKs alone. */
static void expire_transfer(struct mad_clients *c, wtime now, struct transfer *t)
{
	uint8_t reply[MAD_BYTES];

	if (!t->is_done && rmpp_recv_expire(&t->rmpp, now, reply) == RMPP_FAILED)
		mad_hop_put(c, t->file->port, &t->sender, reply);
	transfer_free(c, t);
}

void mad_clients_expire(struct mad_clients *c, wtime now)
{
	struct timer_heap_node *n;
	struct mad_late *l;
	unsigned left = MAD_CARRIED_MOST - run(c, now, MAD_CARRIED_MOST);

	for (unsigned came = 0; list_empty(&c->hops) && came < MAD_CARRIED_MOST && (l = mad_late_take(c, now)); came++) {
		come(c, now, l->fate, l->from, &l->at, l->mad);
		free(l);
		left -= run(c, now, left);
	}
	/* the segments of one are many: they leave before those of the next are made */
	while (list_empty(&c->hops) && (n = timer_heap_min(&c->requests)) && n->at <= now) {
		mad_request_expire(c, now, container_of(n, struct request, timer));
		left -= run(c, now, left);
	}
	while ((n = timer_heap_min(&c->transfers)) && n->at <= now)
		expire_transfer(c, now, container_of(n, struct transfer, timer));
	run(c, now, left);
}

wtime mad_clients_deadline(const struct mad_clients *c)
{
	wtime first = wtime_min(timer_heap_first(&c->requests), timer_heap_first(&c->transfers));

	return list_empty(&c->hops) ? wtime_min(first, timer_heap_first(&c->late)) : 0;
}
