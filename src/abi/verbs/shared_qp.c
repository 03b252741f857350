/* A UD QP that several clients of one program share: include/weft/weft.h. mgmt/gsa.h says how many receive buffers there are and
 * whose; here they are memory that is registered once, posted, and handed to clients. What gsa counts as posted is posted, but
 * for what the receive queue has no room for. Over the QP's own calls, so that it is a user of verbs as any other. */
#include "abi/verbs/object.h"

#include "control/clock.h"
#include "mgmt/gsa_tunables.h"
#include "runtime/entry.h"
#include "weft/weft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRH = GSA_GRH_BYTES, USUAL_BYTES = GSA_MAD_BYTES, BYTES_MOST = 4096 };	/* the last: the largest MTU */

struct weft_shared {
	pthread_mutex_t lock;
	struct gsa gsa;
	struct ibv_qp *qp;		/* borrowed */
	struct ibv_mr *mr;		/* owned */
	weft_shared_key *key;
	weft_shared_told *told;
	void *arg;
	uint32_t bytes;			/* of a message */
	uint32_t posted, posted_most;	/* receives in the queue; what it has room for */
	uint32_t buffers;
	uint64_t dropped_before;	/* by the QP, before it was shared */
	uint32_t frees;
	uint32_t *free;			/* owned: buffers that are neither posted nor held */
	uint32_t *holder;		/* owned: by buffer, the client that holds it, or GSA_NONE */
	uint8_t *memory;		/* owned */
};

static uint8_t *buffer_at(const struct weft_shared *s, uint32_t i)
{
	return s->memory + (size_t)i * (GRH + s->bytes);
}

static int post(struct weft_shared *s, uint32_t i)
{
	struct ibv_sge sge = { .addr = (uintptr_t)buffer_at(s, i), .length = GRH + s->bytes, .lkey = s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(s->qp, &wr, &bad);
}

/* Posts what is to be posted. 0 or an errno of ibv_post_recv. */
static int post_all(struct weft_shared *s)
{
	uint32_t most = s->gsa.posted < s->posted_most ? s->gsa.posted : s->posted_most;
	int err = 0;

	while (!err && s->posted < most && s->frees) {
		err = post(s, s->free[s->frees - 1]);
		s->frees -= !err;
		s->posted += !err;
	}
	return err;
}

static void tell(void *arg, uint32_t client, uint32_t asked, uint32_t arrived, uint32_t should)
{
	struct weft_shared *s = arg;

	if (s->told)
		s->told(s->arg, (int)client, asked == GSA_NONE ? -1 : (int)asked, arrived, should);
}

/* ---- making one ---- */

static void free_shared(struct weft_shared *s)
{
	if (s->mr)
		ibv_dereg_mr(s->mr);
	gsa_fini(&s->gsa);
	free(s->free);
	free(s->holder);
	free(s->memory);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int allocate(struct weft_shared *s)
{
	s->memory = calloc(s->buffers, GRH + s->bytes);
	s->free = calloc(s->buffers, sizeof(*s->free));
	s->holder = calloc(s->buffers, sizeof(*s->holder));
	if (!s->memory || !s->free || !s->holder)
		return ENOMEM;
	for (uint32_t i = 0; i < s->buffers; i++) {
		s->free[s->frees++] = i;
		s->holder[i] = GSA_NONE;
	}
	s->mr = ibv_reg_mr(s->qp->pd, s->memory, (size_t)s->buffers * (GRH + s->bytes), IBV_ACCESS_LOCAL_WRITE);
	return s->mr ? 0 : errno;
}

/* Datagrams for which the QP had no receive, or one that was too short. */
static uint64_t dropped(struct ibv_qp *ibv)
{
	struct abi_qp *qp = to_qp(ibv);
	uint64_t n;

	runtime_enter(qp->rt);
	n = qp->qp->datagrams_dropped;
	runtime_leave(qp->rt);
	return n;
}

static int set_up(struct weft_shared *s, struct ibv_qp *qp, const struct weft_shared_options *o)
{
	struct gsa_tunables t = gsa_defaults;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(qp, &attr, IBV_QP_CAP | IBV_QP_STATE, &init);

	if (err)
		return err;
	if (qp->qp_type != IBV_QPT_UD || qp->srq || attr.qp_state == IBV_QPS_RESET || attr.qp_state == IBV_QPS_ERR ||
	    o->message_bytes > BYTES_MOST || o->most > GSA_MOST)
		return EINVAL;
	t.most = o->most ? o->most : init.cap.max_recv_wr;
	t.each = o->each ? o->each : t.each < t.most ? t.each : t.most;
	t.fixed = o->fixed;
	if (gsa_init(&s->gsa, clock_now(), &t, tell, s))
		return EINVAL;
	s->qp = qp;
	s->dropped_before = dropped(qp);
	s->bytes = o->message_bytes ? o->message_bytes : USUAL_BYTES;
	s->posted_most = init.cap.max_recv_wr;
	s->buffers = t.most;
	s->key = o->key;
	s->told = o->told;
	s->arg = o->arg;
	err = allocate(s);
	/* memory into which the QP may write stays: what is not posted now is later */
	if (!err)
		post_all(s);
	return err;
}

ABI_EXPORT struct weft_shared *weft_shared_create(struct ibv_qp *qp, const struct weft_shared_options *options)
{
	static const struct weft_shared_options none;
	struct weft_shared *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		errno = ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	err = set_up(s, qp, options ? options : &none);
	if (!err)
		return s;
	free_shared(s);
	errno = err;
	return NULL;
}

ABI_EXPORT int weft_shared_destroy(struct weft_shared *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	/* the QP may write into what is posted */
	if (s->posted && !ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state != IBV_QPS_ERR &&
	    attr.qp_state != IBV_QPS_RESET)
		return -EBUSY;
	free_shared(s);
	return 0;
}

/* ---- clients ---- */

/* What a change of gsa's leaves to be posted. The change is made whatever posting says, which weft_shared_poll tells. */
static int end_change(struct weft_shared *s, int result)
{
	if (result >= 0)
		post_all(s);
	pthread_mutex_unlock(&s->lock);
	return result;
}

ABI_EXPORT int weft_shared_register(struct weft_shared *s, uint32_t key, int buffers)
{
	uint32_t client;
	int err;

	if (key == GSA_ANY_CLASS || buffers < -1)
		return -EINVAL;
	pthread_mutex_lock(&s->lock);
	err = gsa_register(&s->gsa, key, buffers < 0 ? GSA_NONE : (uint32_t)buffers, &client);
	return end_change(s, err ? err : (int)client);
}

static void take_back(struct weft_shared *s, uint32_t i)
{
	s->holder[i] = GSA_NONE;
	s->free[s->frees++] = i;
}

ABI_EXPORT int weft_shared_unregister(struct weft_shared *s, int client)
{
	int err;

	pthread_mutex_lock(&s->lock);
	err = gsa_unregister(&s->gsa, (uint32_t)client);
	for (uint32_t i = 0; !err && i < s->buffers; i++) {
		if (s->holder[i] == (uint32_t)client)
			take_back(s, i);
	}
	return end_change(s, err);
}

ABI_EXPORT int weft_shared_change(struct weft_shared *s, int client, int more)
{
	pthread_mutex_lock(&s->lock);
	return end_change(s, gsa_change(&s->gsa, (uint32_t)client, more));
}

ABI_EXPORT int weft_shared_counts(struct weft_shared *s, int client, struct weft_shared_counts *counts)
{
	const struct gsa *g = &s->gsa;
	const struct gsa_client *c;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	c = (uint32_t)client < g->places && g->client[client].is_used ? &g->client[client] : NULL;
	if (client >= 0 && !c)
		err = -ENOENT;
	else if (client < 0)
		*counts = (struct weft_shared_counts){ g->arrivals, g->discards, g->unknown, g->additions, g->trims, g->posted,
						       g->target, g->automatic, g->held };
	else
		*counts = (struct weft_shared_counts){ c->arrivals, c->discards, 0, 0, 0, 0, c->target, c->raised, c->held };
	pthread_mutex_unlock(&s->lock);
	return err;
}

ABI_EXPORT uint64_t weft_shared_drops(struct weft_shared *s)
{
	return dropped(s->qp) - s->dropped_before;
}

/* ---- tunables ---- */

/* Of datagrams in segments, which are for weftd's QPs alone. */
static bool is_of_segments(unsigned i)
{
	return i == GSA_TUNABLE_window || i == GSA_TUNABLE_longest_kb || i == GSA_TUNABLE_program_kb;
}

/* NAME=VALUE, with blanks or commas between them. As gsa_tunables_parse; what the text changed before an error stays changed. */
static int parse(struct gsa_tunables *t, const char *text)
{
	size_t bytes;
	int err = -EINVAL;

	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		bytes = strcspn(text, " ");
		err = gsa_tunables_parse(t, text, bytes);
		if (err)
			return err;
		text += bytes;
	}
	return err;
}

/* Parses the text on top of what holds, in *t. 0; -ENOSPC: more buffers than were allocated; else as weft_shared_set. */
static int change_tunables(const struct weft_shared *s, const char *text, struct gsa_tunables *t)
{
	int err;

	*t = s->gsa.tunables;
	err = parse(t, text);
	if (err)
		return err;
	for (unsigned i = 0; i < GSA_TUNABLES; i++) {
		if (is_of_segments(i) && gsa_tunable_get(t, i) != gsa_tunable_get(&s->gsa.tunables, i))
			return -EINVAL;
	}
	return t->most > s->buffers ? -ENOSPC : 0;
}

ABI_EXPORT int weft_shared_set(struct weft_shared *s, const char *tunables)
{
	struct gsa_tunables t;
	int err;

	pthread_mutex_lock(&s->lock);
	err = change_tunables(s, tunables, &t);
	if (!err)
		err = gsa_set(&s->gsa, &t);
	if (!err && post_all(s))
		err = -EIO;
	pthread_mutex_unlock(&s->lock);
	return err;
}

ABI_EXPORT size_t weft_shared_get(struct weft_shared *s, char *tunables, size_t room)
{
	size_t at = 0;

	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < GSA_TUNABLES; i++) {
		if (is_of_segments(i))
			continue;
		at += (size_t)snprintf(at < room ? tunables + at : NULL, at < room ? room - at : 0, "%s%s=%llu", at ? " " : "",
				       gsa_tunable_name(i), (unsigned long long)gsa_tunable_get(&s->gsa.tunables, i));
	}
	pthread_mutex_unlock(&s->lock);
	return at;
}

/* ---- messages ---- */

/* The management class, as QP1 tells its clients apart. */
static uint32_t usual_key(const uint8_t *message, size_t bytes)
{
	return bytes > 1 ? message[1] : 0;
}

static uint32_t find_client(const struct weft_shared *s, const uint8_t *message, size_t bytes)
{
	uint32_t key = s->key ? s->key(s->arg, message, bytes) : usual_key(message, bytes);

	return gsa_find(&s->gsa, key);
}

/* What has come in this buffer is a client's, or it is free again. */
static bool take_in(struct weft_shared *s, const struct ibv_wc *wc, struct weft_shared_message *m)
{
	uint32_t i = (uint32_t)wc->wr_id, client;
	const uint8_t *message = buffer_at(s, i) + GRH;
	size_t bytes = wc->byte_len < GRH ? 0 : wc->byte_len - GRH;
	wtime at = clock_now();

	s->posted--;
	gsa_expire(&s->gsa, at);
	client = wc->status == IBV_WC_SUCCESS ? find_client(s, message, bytes) : GSA_NONE;
	if (wc->status != IBV_WC_SUCCESS || !gsa_arrive_at(&s->gsa, at, client)) {
		s->free[s->frees++] = i;
		return false;
	}
	s->holder[i] = client;
	*m = (struct weft_shared_message){ .client = (int)client, .buffer = i, .data = message, .bytes = (uint32_t)bytes,
					   .grh = wc->wc_flags & IBV_WC_GRH ? message - GRH : NULL, .src_qp = wc->src_qp,
					   .slid = wc->slid, .sl = wc->sl };
	return true;
}

ABI_EXPORT int weft_shared_poll(struct weft_shared *s, struct weft_shared_message *m)
{
	bool is_there = false, is_flushed = false;
	struct ibv_wc wc;
	int n, err;

	pthread_mutex_lock(&s->lock);
	err = post_all(s);	/* what was refused before */
	while (!is_there && (n = ibv_poll_cq(s->qp->recv_cq, 1, &wc)) > 0) {
		if (wc.qp_num != s->qp->qp_num || wc.wr_id >= s->buffers)
			continue;
		is_flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
		is_there = take_in(s, &wc, m);
		if (!is_flushed)
			err = post_all(s);
	}
	pthread_mutex_unlock(&s->lock);
	if (is_there)
		return 1;
	return err ? -err : is_flushed ? -EIO : n < 0 ? -EIO : 0;
}

ABI_EXPORT int weft_shared_release(struct weft_shared *s, const struct weft_shared_message *m)
{
	int err = -EINVAL;

	pthread_mutex_lock(&s->lock);
	if (m->buffer < s->buffers && s->holder[m->buffer] != GSA_NONE && s->holder[m->buffer] == (uint32_t)m->client)
		err = gsa_release(&s->gsa, (uint32_t)m->client);
	if (!err)
		take_back(s, m->buffer);
	return end_change(s, err);
}
