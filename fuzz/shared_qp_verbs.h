/* What shared_qp_fuzz.c has beneath a UD QP that clients share, in place of verbs: the QP's receives, its completions, and where
 * each buffer is. */
#ifndef WEFT_FUZZ_SHARED_QP_VERBS_H
#define WEFT_FUZZ_SHARED_QP_VERBS_H

#include "fuzz.h"

#include "abi/verbs/object.h"
#include "control/clock.h"
#include "mgmt/gsa_tunables.h"
#include "runtime/entry.h"
#include "weft/weft.h"

#include <errno.h>
#include <string.h>

enum {
	GRH = GSA_GRH_BYTES, BYTES_MOST = 4096,
	STEPS = 400,
	BUFFERS = 96,			/* at most */
	KEYS = 24, CLIENTS = 32,	/* more than gsa has places for at first */
	ENTRIES = 256,			/* of the CQ */
	TEXT = 256,			/* of all tunables */
	LKEY = 0x77,
	ANY_FAILURE = ENXIO,		/* of verbs that fail because the input says so */
};

/* LOST: its QP was reset, and it has no completion. */
enum where { FREE, POSTED, COMPLETED, HELD, LOST };

struct buffer {
	enum where where;
	int client;
	uint8_t *at;
	uint8_t copy[GRH + BYTES_MOST];	/* of what has come */
	struct ibv_wc wc;
};

struct client {
	bool is_used, is_told;
	uint32_t key;
	uint64_t arrivals, discards;
	uint32_t held;
};

static struct {
	struct input in;
	wtime now;
	/* verbs */
	struct ibv_context ctx;
	struct ibv_pd pd;
	struct ibv_cq cq;
	struct abi_qp abi;
	struct qp qp;
	enum ibv_qp_state state;
	uint32_t receives_most;
	struct ibv_mr mr;
	bool is_registered;
	uint32_t queue[BUFFERS], queued;
	struct ibv_wc entry[ENTRIES];
	uint32_t entries;
	bool cq_fails, query_fails, registration_fails;
	unsigned posts_fail;		/* so many more */
	/* the program */
	struct weft_shared *shared;
	uint32_t bytes, buffers;
	bool has_key;
	struct buffer buffer[BUFFERS];
	struct client client[CLIENTS];
	uint64_t arrivals, unknown, discards, dropped;
	/* the call that is being made */
	bool is_in_poll, has_failed, was_flushed;
	uint32_t last;			/* the buffer whose completion was polled last; BUFFERS: nobody's message */
	bool is_behind;			/* something may be missing in the queue until the next call that posts */
} w;

/* ---- what weft calls ---- */

wtime clock_now(void)
{
	return w.now;
}

wtime runtime_enter(struct runtime *rt)
{
	return w.now;
}

void runtime_leave(struct runtime *rt)
{
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	REQUIRE(qp == &w.abi.ibv.qp_base);
	memset(attr, 0xa5, sizeof(*attr));
	memset(init, 0xa5, sizeof(*init));
	if (w.query_fails)
		return ANY_FAILURE;
	attr->qp_state = w.state;
	init->cap.max_recv_wr = w.receives_most;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	REQUIRE(pd == &w.pd && !w.is_registered && access == IBV_ACCESS_LOCAL_WRITE);
	if (w.registration_fails) {
		errno = ANY_FAILURE;
		return NULL;
	}
	w.mr = (struct ibv_mr){ .addr = addr, .length = length, .lkey = LKEY };
	w.is_registered = true;
	return &w.mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	REQUIRE(mr == &w.mr && w.is_registered);
	w.is_registered = false;
	return 0;
}

static unsigned count(enum where where)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < w.buffers; i++)
		n += w.buffer[i].where == where;
	return n;
}

/* What the QP has, as far as its user knows. */
static unsigned outstanding(void)
{
	return count(POSTED) + count(COMPLETED) + count(LOST);
}

static void complete(const struct ibv_wc *wc)
{
	REQUIRE(w.entries < ENTRIES);
	w.entry[w.entries++] = *wc;
}

/* The oldest receive ends so. */
static void complete_first(struct ibv_wc wc)
{
	struct buffer *b = &w.buffer[w.queue[0]];

	wc.wr_id = w.queue[0];
	wc.qp_num = w.abi.ibv.qp_base.qp_num;
	w.queued--;
	memmove(w.queue, w.queue + 1, w.queued * sizeof(w.queue[0]));
	REQUIRE(b->where == POSTED);
	b->where = COMPLETED;
	b->wc = wc;
	memcpy(b->copy, b->at, GRH + w.bytes);
	complete(&wc);
}

static void flush(void)
{
	while (w.queued && w.entries < ENTRIES)
		complete_first((struct ibv_wc){ .status = IBV_WC_WR_FLUSH_ERR, .byte_len = UINT32_MAX });
}

static int take_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct ibv_sge *sge = wr->sg_list;
	uint64_t first = (uintptr_t)w.mr.addr;
	struct buffer *b;

	REQUIRE(qp == &w.abi.ibv.qp_base && w.is_registered && !wr->next && wr->num_sge == 1);
	REQUIRE(wr->wr_id < w.buffers && sge->lkey == LKEY && sge->length == GRH + w.bytes);
	REQUIRE(sge->addr >= first && sge->addr + sge->length <= first + w.mr.length);
	REQUIRE(sge->addr == first + wr->wr_id * sge->length);	/* so that no two meet */
	b = &w.buffer[wr->wr_id];
	REQUIRE(b->where == FREE && outstanding() < w.receives_most);
	if (w.posts_fail || w.state == IBV_QPS_RESET) {
		w.posts_fail -= w.posts_fail != 0;
		w.has_failed = w.is_behind = true;
		*bad = wr;
		return w.state == IBV_QPS_RESET ? EINVAL : ANY_FAILURE;
	}
	b->where = POSTED;
	b->at = (uint8_t *)(uintptr_t)sge->addr;
	w.queue[w.queued++] = (uint32_t)wr->wr_id;
	if (w.state == IBV_QPS_ERR)
		flush();
	return 0;
}

static uint32_t key_of(const uint8_t *message, size_t bytes)
{
	if (!w.has_key)
		return bytes > 1 ? message[1] : 0;
	return bytes && message[0] != 0xff ? message[0] : GSA_NONE;
}

static struct client *client_of(uint32_t key)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		if (w.client[i].is_used && w.client[i].key == key)
			return &w.client[i];
	return NULL;
}

static uint32_t message_bytes(const struct ibv_wc *wc)
{
	return wc->byte_len < GRH ? 0 : wc->byte_len - GRH;
}

/* Weft has this completion. What is a client's counts as discarded until weft says that it is not. */
static void account(const struct ibv_wc *wc)
{
	struct buffer *b = &w.buffer[wc->wr_id];
	struct client *c;

	REQUIRE(b->where == COMPLETED);
	b->where = FREE;
	w.last = BUFFERS;
	w.was_flushed = w.is_behind = wc->status == IBV_WC_WR_FLUSH_ERR;
	if (wc->status != IBV_WC_SUCCESS)
		return;
	w.arrivals++;
	c = client_of(key_of(b->copy + GRH, message_bytes(wc)));
	w.unknown += !c;
	if (!c)
		return;
	b->client = (int)(c - w.client);
	c->arrivals++;
	c->discards++;
	w.discards++;
	w.last = (uint32_t)wc->wr_id;
}

static int give_completion(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	REQUIRE(cq == &w.cq && most == 1 && w.is_in_poll);
	if (w.cq_fails)
		return -1;
	if (!w.entries)
		return 0;
	*wc = w.entry[0];
	w.entries--;
	memmove(w.entry, w.entry + 1, w.entries * sizeof(w.entry[0]));
	if (wc->qp_num == w.abi.ibv.qp_base.qp_num && wc->wr_id < w.buffers)
		account(wc);
	if (w.state == IBV_QPS_ERR)
		flush();
	return 1;
}

#endif
