/* Operations with their expected outcome: each has its own piece of both memories, so that the end does not depend on
 * timing, and atomics are followed in a model. A run ends in exact delivery or in a clean error: what succeeded was
 * delivered once and in order, what failed is followed by flushes only. */
#ifndef WEFT_TESTS_ENGINE_TRAFFIC_H
#define WEFT_TESTS_ENGINE_TRAFFIC_H

#include "engine_test.h"

#include <stdio.h>

enum { TRAFFIC_OPS = 24, TRAFFIC_SLICE = 64 };

struct traffic_op {
	enum ibv_wr_opcode opcode;
	uint32_t bytes, local, remote;
	unsigned flags;
	uint64_t operand, compare, original;	/* atomics: original is what must come back */
	int receive;			/* which receive of the other side it uses, or -1 */
};

struct traffic_side {
	struct traffic_op op[TRAFFIC_OPS];
	unsigned ops, posted, done;	/* done: seen, completed or known to be */
	uint32_t used;			/* memory given away, this side's */
	uint32_t word;			/* where this side's atomics aim, in the other's memory */
	uint64_t word_model;
	struct { uint32_t at, bytes; int from_op; } recv[TRAFFIC_OPS];
	unsigned recvs, recvs_posted, recvs_done;
	bool failed;
	enum ibv_wc_status status;
};

struct traffic {
	struct pair *pair;
	struct traffic_side side[2];
	const char *fault;		/* what was found wrong, or NULL */
};

static inline uint32_t traffic_tag(int side, unsigned op)
{
	return (uint32_t)side * 1000 + op + 1;
}

static inline uint32_t traffic_take(struct traffic *t, int side, uint32_t bytes)
{
	uint32_t at = t->side[side].used;

	t->side[side].used += (bytes + TRAFFIC_SLICE - 1) / TRAFFIC_SLICE * TRAFFIC_SLICE;
	return at;
}

static inline bool traffic_fits(const struct traffic *t, uint32_t bytes)
{
	uint32_t room = t->pair->config.memory_bytes;

	return t->side[0].used + bytes + TRAFFIC_SLICE < room && t->side[1].used + bytes + TRAFFIC_SLICE < room;
}

static inline void traffic_init(struct traffic *t, struct pair *pair)
{
	*t = (struct traffic){ .pair = pair };
	for (int i = 0; i < 2; i++)
		t->side[i].word = traffic_take(t, !i, sizeof(uint64_t));
}

static inline bool traffic_uses_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static inline uint64_t *traffic_word(struct traffic *t, int side, uint32_t at)
{
	return (uint64_t *)(t->pair->side[side].memory + at);
}

/* The receive for a message: of the size it needs, or a little more. */
static inline int traffic_add_receive(struct traffic *t, int side, int from_op, uint32_t bytes, uint32_t at)
{
	struct traffic_side *s = &t->side[side];

	s->recv[s->recvs].at = at;
	s->recv[s->recvs].bytes = bytes;
	s->recv[s->recvs].from_op = from_op;
	return (int)s->recvs++;
}

/* Plans an operation; false when there is no memory left for it. */
static inline bool traffic_add(struct traffic *t, int side, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned flags,
			       uint64_t operand)
{
	struct traffic_side *s = &t->side[side];
	struct traffic_op *op = &s->op[s->ops];
	bool is_atomic = opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (is_atomic || opcode == IBV_WR_ATOMIC_WRITE)
		bytes = sizeof(uint64_t);
	if (s->ops == TRAFFIC_OPS || !traffic_fits(t, bytes))
		return false;
	*op = (struct traffic_op){ .opcode = opcode, .bytes = bytes, .flags = flags, .operand = operand, .receive = -1 };
	op->local = traffic_take(t, side, bytes);
	op->remote = is_atomic ? s->word : traffic_take(t, !side, bytes);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		op->original = s->word_model;
		s->word_model += operand;
	} else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		/* every third one does not match */
		op->compare = operand % 3 ? s->word_model : s->word_model + 1;
		op->original = s->word_model;
		if (operand % 3)
			s->word_model = operand;
	} else if (opcode == IBV_WR_RDMA_READ) {
		pattern_fill(t->pair->side[!side].memory + op->remote, bytes, traffic_tag(side, s->ops));
	} else {
		pattern_fill(t->pair->side[side].memory + op->local, bytes, traffic_tag(side, s->ops));
	}
	if (traffic_uses_receive(opcode))
		op->receive = traffic_add_receive(t, !side, (int)s->ops, opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 0 : bytes,
						  op->remote);
	s->ops++;
	return true;
}

/* Posts the next planned operation or receive; false when all are posted, or the queue is full. */
static inline bool traffic_post(struct traffic *t, int side)
{
	struct traffic_side *s = &t->side[side];
	struct traffic_op *op = &s->op[s->posted];
	struct pair_wr wr = {
		.wr_id = s->posted, .opcode = op->opcode, .flags = op->flags, .local = op->local, .remote = op->remote,
		.bytes = op->bytes, .imm = 0xabcd0000 + s->posted, .pieces = 1 + s->posted % 3,
	};

	if (s->posted == s->ops)
		return false;
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.compare_add = op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? op->compare : op->operand;
		wr.swap = op->operand;
	}
	if (op->opcode == IBV_WR_ATOMIC_WRITE || op->bytes < 8)
		wr.pieces = 1;
	/* the data of an atomic write is read at once, from where the program has it */
	if (op->opcode == IBV_WR_ATOMIC_WRITE) {
		struct ibv_sge sge = { (uintptr_t)t->pair->side[side].memory + op->local, op->bytes, 0 };
		struct ibv_send_wr *bad, raw = {
			.wr_id = wr.wr_id, .opcode = wr.opcode, .send_flags = wr.flags, .sg_list = &sge, .num_sge = 1,
		};

		raw.wr.rdma.remote_addr = PAIR_IOVA + op->remote;
		raw.wr.rdma.rkey = t->pair->side[!side].mr->key;
		if (qp_post_send(t->pair->side[side].qp, t->pair->sim->now, &raw, &bad) < 0)
			return false;
		sim_pump(t->pair->sim);
	} else if (pair_send(t->pair, side, &wr) < 0) {
		return false;
	}
	s->posted++;
	return true;
}

static inline bool traffic_post_receive(struct traffic *t, int side)
{
	struct traffic_side *s = &t->side[side];

	if (s->recvs_posted == s->recvs)
		return false;
	if (pair_recv(t->pair, side, s->recvs_posted, s->recv[s->recvs_posted].at, s->recv[s->recvs_posted].bytes) < 0)
		return false;
	s->recvs_posted++;
	return true;
}

/* 0: an operation, else a receive. */
static inline bool traffic_post_one(struct traffic *t, int side, uint64_t kind)
{
	return kind ? traffic_post_receive(t, side) : traffic_post(t, side);
}

#define TRAFFIC_EXPECT(cond) do { if (!(cond) && !t->fault) t->fault = #cond; } while (0)

static inline void traffic_check_op(struct traffic *t, int side, unsigned i)
{
	struct traffic_side *s = &t->side[side];
	const struct traffic_op *op = &s->op[i];
	uint8_t *local = t->pair->side[side].memory + op->local, *remote = t->pair->side[!side].memory + op->remote;

	if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		TRAFFIC_EXPECT(*(uint64_t *)local == op->original);
	else
		TRAFFIC_EXPECT(pattern_holds(op->opcode == IBV_WR_RDMA_READ ? local : remote, op->bytes, traffic_tag(side, i)));
}

/* Completions come in order; one that says success speaks for the unsignaled ones before it. */
static inline void traffic_sent(struct traffic *t, int side, const struct cqe *cqe)
{
	struct traffic_side *s = &t->side[side];

	TRAFFIC_EXPECT(cqe->wr_id >= s->done && cqe->wr_id < s->posted);
	if (cqe->status == IBV_WC_SUCCESS) {
		TRAFFIC_EXPECT(!s->failed);
		for (; s->done <= cqe->wr_id; s->done++)
			traffic_check_op(t, side, s->done);
		return;
	}
	if (!s->failed)
		s->status = cqe->status;
	else
		TRAFFIC_EXPECT(cqe->status == IBV_WC_WR_FLUSH_ERR && cqe->wr_id == s->done);
	for (unsigned i = s->done; i < cqe->wr_id; i++)
		TRAFFIC_EXPECT(!s->failed && !(s->op[i].flags & IBV_SEND_SIGNALED));
	s->failed = true;
	s->done = (unsigned)cqe->wr_id + 1;
}

static inline void traffic_received(struct traffic *t, int side, const struct cqe *cqe)
{
	struct traffic_side *s = &t->side[side];
	unsigned i = s->recvs_done++;
	const struct traffic_op *op = &t->side[!side].op[s->recv[i].from_op];

	TRAFFIC_EXPECT(cqe->wr_id == i && i < s->recvs_posted);
	if (cqe->status != IBV_WC_SUCCESS) {
		TRAFFIC_EXPECT(cqe->status == IBV_WC_WR_FLUSH_ERR);
		return;
	}
	TRAFFIC_EXPECT(cqe->byte_len == op->bytes);
	TRAFFIC_EXPECT(cqe->opcode == (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	if (op->opcode != IBV_WR_SEND)
		TRAFFIC_EXPECT(cqe->imm == htobe32(0xabcd0000 + (uint32_t)s->recv[i].from_op));
	TRAFFIC_EXPECT(pattern_holds(t->pair->side[side].memory + op->remote, op->bytes,
				     traffic_tag(!side, (unsigned)s->recv[i].from_op)));
}

static inline void traffic_poll(struct traffic *t)
{
	struct cqe cqe;

	for (int i = 0; i < 2; i++) {
		while (pair_poll_send(t->pair, i, &cqe))
			traffic_sent(t, i, &cqe);
		while (pair_poll_recv(t->pair, i, &cqe))
			traffic_received(t, i, &cqe);
	}
}

static inline unsigned traffic_receives_used(const struct traffic *t, int side)
{
	const struct traffic_side *s = &t->side[!side];
	unsigned n = 0;

	for (unsigned i = 0; i < s->done && !s->failed; i++)
		n += s->op[i].receive >= 0;
	return n;
}

/* After everything came to rest: everything is done, once, and delivered. True when no side failed. */
static inline bool traffic_settle(struct traffic *t)
{
	bool good = true;

	traffic_poll(t);
	for (int i = 0; i < 2; i++) {
		struct traffic_side *s = &t->side[i];

		good = good && !s->failed;
		wq_check(&t->pair->side[i].qp->sq);
		TRAFFIC_EXPECT(wq_pending(&t->pair->side[i].qp->sq.engine) == 0);
	}
	for (int i = 0; i < 2 && good; i++) {
		struct traffic_side *s = &t->side[i];

		for (; s->done < s->posted; s->done++) {
			TRAFFIC_EXPECT(!(s->op[s->done].flags & IBV_SEND_SIGNALED));
			traffic_check_op(t, i, s->done);
		}
		TRAFFIC_EXPECT(*traffic_word(t, !i, s->word) == s->word_model || s->posted != s->ops);
	}
	for (int i = 0; i < 2 && good; i++)
		TRAFFIC_EXPECT(t->side[i].recvs_done == traffic_receives_used(t, i));
	return good;
}

#endif
