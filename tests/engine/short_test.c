/* Short sends have a way of their own through the responder. Twins are given the same receives and messages, of every kind and
 * in any order; one of them takes the general way always, as somebody chose how its requests complete, which is nothing to a
 * responder. All that can be seen of them stays the same. Arguments: runs, first seed. */
#include "direct_stubs.h"
#include "engine_test.h"

#include "direct/record.h"
#include "ib/engine.h"

#include <stdio.h>

enum { STEPS = 120, BYTES = 8192, SEGS = 3, TWINS = 2 };

static unsigned runs = 1500;
static uint64_t first_seed = 1, seed;
static uint64_t odds;		/* of what is unusual in this run: one in so many */

static struct pair *twin[TWINS];
static struct mr *region[TWINS][6];
static uint8_t payload[BYTES];
static psn_t shown[TWINS];
static unsigned shorts;		/* messages that went the short way */
static unsigned handed;		/* their completions that went to who polls, beside the queue */

static bool connect(void *owner, struct qp *qp)
{
	(void)owner;
	qp->direct_path.channel = &twin;
	return true;
}

static bool read_memory(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)(uintptr_t)address;

	(void)peer;
	(void)bytes;
	for (unsigned i = 0; i < iovs; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	return true;
}

static bool pull(void *owner, struct qp *qp, const struct direct_message *m, uint32_t offset, const struct iovec *to,
		 unsigned tos)
{
	static const struct rma_mover mover = { .read = read_memory };

	(void)owner;
	(void)qp;
	return m->psn % 2 && record_pull(m, offset, &mover, NULL, to, tos);	/* the sender's memory is not always there */
}

static void publish(void *owner, struct qp *qp, psn_t received)
{
	(void)qp;
	shown[owner == twin[1]->side[1].node] = received;
}

static const struct direct_ops direct = {
	.publish_mr = show_no_mr, .unpublish_mr = unpublish_mr, .publish_qp = show_no_qp, .unpublish_qp = show_no_qp,
	.connect = connect, .pull = pull,
	.publish = publish,
};

static struct pair *new_twin(uint64_t sim_seed, bool is_general, bool shared, enum ibv_mtu mtu)
{
	struct pair_config config = { .sim = { .seed = sim_seed }, .mtu = mtu, .memory_bytes = BYTES, .recvs = 8, .sges = SEGS,
				      .psn = { 0xfffff0, 0 }, .min_rnr_timer = 1, .shared_receives = shared };
	struct pair *pair;

	assert_int_equal(ib_options_parse(is_general ? "standard,complete=wqe" : "standard", &config.options), 0);
	pair = pair_new(&config);
	pair->side[1].node->ca.direct = &direct;
	pair->side[1].qp->published = 1;
	return pair;
}

static void make_regions(int t)
{
	struct pair_side *s = &twin[t]->side[1];
	struct pd *foreign;

	region[t][0] = s->mr;
	assert_int_equal(pd_create(&s->node->ca, s->node->dev, &foreign), 0);
	assert_int_equal(mr_create(s->pd, s->memory, BYTES, PAIR_IOVA, 0, &region[t][1]), 0);
	assert_int_equal(mr_create(foreign, s->memory, BYTES, PAIR_IOVA, IBV_ACCESS_LOCAL_WRITE, &region[t][2]), 0);
	assert_int_equal(mr_create_kind(s->pd, MR_NULL, NULL, 0, 0, IBV_ACCESS_LOCAL_WRITE, &region[t][3]), 0);
	assert_int_equal(mr_create_kind(s->pd, MR_ON_DEMAND, s->memory, BYTES, PAIR_IOVA, IBV_ACCESS_LOCAL_WRITE,
					&region[t][4]), 0);
	assert_int_equal(mw_create(s->pd, IBV_MW_TYPE_2, &region[t][5]), 0);
}

static bool is_odd(struct rand *r)
{
	return rand_below(r, odds) == 0;
}

static void post_receive(struct rand *r, uint64_t wr_id)
{
	struct ibv_sge sge[SEGS];
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = is_odd(r) ? (int)rand_below(r, SEGS + 1) : 1 };
	const struct ibv_recv_wr *bad;
	int result[TWINS];

	for (int i = 0; i < wr.num_sge; i++)
		sge[i] = (struct ibv_sge){
			.addr = PAIR_IOVA + rand_below(r, is_odd(r) ? 2 * BYTES : BYTES - 4000),
			.length = (uint32_t)rand_below(r, is_odd(r) ? 300 : 4000),
			.lkey = region[0][is_odd(r) ? rand_below(r, 6) : 0]->key,
		};
	for (int t = 0; t < TWINS; t++) {
		struct pair_side *s = &twin[t]->side[1];

		result[t] = s->srq ? srq_post(s->srq, &wr, &bad) : qp_post_recv(s->qp, twin[t]->sim->now, &wr, &bad);
	}
	assert_int_equal(result[0], result[1]);
}

static const struct responder *responder_of(int t)
{
	return &engine_of(twin[t]->side[1].qp)->responder;
}

/* What does not end its message fills packets. */
static uint32_t length_of(struct rand *r, enum opcode_position position)
{
	if ((position == POS_FIRST || position == POS_MIDDLE) && !is_odd(r))
		return (1 + (uint32_t)rand_below(r, 2)) * engine_mtu(twin[0]->side[1].qp);
	return (uint32_t)rand_below(r, is_odd(r) ? 3000 : rand_below(r, 4) ? 200 : 3);
}

/* As the way from the ring does. */
static void give(struct ca *ca, wtime now, const struct direct_message *m)
{
	bool is_short = m->opcode == OPCODE_RC_SEND_ONLY && m->payload == PAYLOAD_EAGER && m->bytes;

	ca->now = now;
	if (is_short && ca_short_message(ca, &twin, m->dest_qpn, m->src_qpn, m->psn, m->received, (struct direct_promise){ 0 },
					 m->iov->iov_base, m->bytes, m->solicited))
		shorts++;
	else
		ca_message(ca, now, &twin, m);
}

/* To a thread that polls. What goes to its list is what the twin, which fills its queue always, has there. */
static void give_awaited(const struct direct_message *m)
{
	struct ibv_wc wc[TWINS];
	struct cqe cqe;
	int n[TWINS];

	for (int t = 0; t < TWINS; t++) {
		struct pair_side *s = &twin[t]->side[1];

		assert_true(cq_await(s->recv_cq, 1, &wc[t]));
		give(&s->node->ca, twin[t]->sim->now, m);
		n[t] = cq_await_end(s->recv_cq, &wc[t]);
	}
	assert_int_equal(n[1], 0);
	if (!n[0])
		return;
	assert_true(pair_poll_recv(twin[1], 1, &cqe));
	assert_memory_equal(&wc[0], &cqe, CQE_WC_BYTES);
	handed++;
}

/* A message of any kind, most often a short send of the PSN expected. */
static void deliver(struct rand *r)
{
	static const uint8_t kinds[] = {
		OPCODE_RC_SEND_ONLY_IMM, OPCODE_RC_SEND_ONLY_INV, OPCODE_RC_RDMA_WRITE_ONLY, OPCODE_RC_RDMA_WRITE_ONLY_IMM,
		OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_LAST, OPCODE_UC_SEND_ONLY,
	};
	uint8_t opcode = is_odd(r) ? kinds[rand_below(r, sizeof(kinds))] : OPCODE_RC_SEND_ONLY;
	const struct qp *qp = twin[0]->side[1].qp;
	uint32_t bytes = length_of(r, opcode_row(opcode)->position);
	bool is_write = opcode_row(opcode)->op == OP_WRITE;
	bool is_carried = opcode_row(opcode)->position == POS_ONLY && (is_write || !is_odd(r));
	struct iovec iov = { payload + rand_below(r, 1000), bytes };
	struct direct_message m = {
		.opcode = opcode, .solicited = rand_below(r, 2), .dest_qpn = qp->qpn, .src_qpn = qp->attr.dest_qp_num,
		.psn = psn_add(responder_of(0)->psn, is_odd(r) ? (int64_t)rand_below(r, 5) - 2 : 0),
		.received = (psn_t)rand_below(r, 1 << 24), .trailer = rand_below(r, 2) ? region[0][5]->key : 7,
		.rkey = region[0][0]->key, .va = PAIR_IOVA + rand_below(r, BYTES), .bytes = bytes,
		.payload = is_carried ? PAYLOAD_EAGER : PAYLOAD_RENDEZVOUS,
		.iov = &iov, .iovs = 1,
	};

	if (rand_below(r, 2)) {
		give_awaited(&m);
		return;
	}
	for (int t = 0; t < TWINS; t++)
		give(&twin[t]->side[1].node->ca, twin[t]->sim->now, &m);
}

static void poll_one(unsigned *received)
{
	struct cqe cqe[TWINS] = { 0 };
	bool found[TWINS];

	for (int t = 0; t < TWINS; t++) {
		found[t] = pair_poll_recv(twin[t], 1, &cqe[t]);
		cqe[t].valid = 0;	/* the lap, which what was handed to who polls is no part of */
	}
	assert_int_equal(found[0], found[1]);
	assert_memory_equal(&cqe[0], &cqe[1], offsetof(struct cqe, srqn) + sizeof(cqe[0].srqn));
	*received += found[0] && cqe[0].status == IBV_WC_SUCCESS;
}

static void do_rarely(struct rand *r)
{
	uint64_t what = rand_below(r, 5);
	bool yes = rand_below(r, 2);

	for (int t = 0; t < TWINS; t++) {
		struct pair_side *s = &twin[t]->side[1];

		if (what == 0)
			cq_arm(s->recv_cq, yes);
		else if (what == 1 && s->srq)
			assert_int_equal(srq_modify(s->srq, &(struct ibv_srq_attr){ .srq_limit = 3 }, IBV_SRQ_LIMIT), 0);
		else if (what == 2)
			s->node->memory_gone = yes;
		else
			pair_run(twin[t]);
	}
}

#define SAME(expression) do {				\
	struct pair_side *s = &twin[0]->side[1];	\
	uint64_t first = (uint64_t)(expression);	\
							\
	s = &twin[1]->side[1];				\
	assert_int_equal(first, (expression));		\
} while (0)

static void compare_queue(const struct wq *a, const struct wq *b)
{
	assert_int_equal(a->engine.started, b->engine.started);
	assert_int_equal(a->engine.completed, b->engine.completed);
	assert_int_equal(a->engine.announced, b->engine.announced);
	assert_int_equal(a->ulp.reaped, b->ulp.reaped);
	assert_int_equal(a->ulp.credits, b->ulp.credits);
	assert_int_equal(a->engine.after, b->engine.after);
	assert_int_equal(a->engine.after_lkey, b->engine.after_lkey);
}

/* What a list was given was never in the queue, of which the rest is told relative to its end. */
static uint32_t solicited_among_waiting(const struct cq *cq)
{
	uint32_t waiting = cq->engine.tail - cq->ulp.head, since = cq->engine.tail - cq->solicited_tail;

	return since < waiting ? since : waiting;
}

static void compare_responders(const struct responder *a, const struct responder *b)
{
	assert_int_equal(a->phase, b->phase);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->msn, b->msn);
	assert_int_equal(a->message, b->message);
	assert_int_equal(a->due, b->due);
	assert_int_equal(a->unacked, b->unacked);
	assert_int_equal(a->unacked_receives, b->unacked_receives);
	assert_int_equal(a->has_receive, b->has_receive);
}

static void compare(void)
{
	struct pair_side *a = &twin[0]->side[1], *b = &twin[1]->side[1];

	compare_responders(responder_of(0), responder_of(1));
	compare_queue(&a->qp->rq, &b->qp->rq);
	if (a->srq)
		compare_queue(&a->srq->wq, &b->srq->wq);
	assert_memory_equal(a->memory, b->memory, BYTES);
	assert_memory_equal(&a->node->ca.counters, &b->node->ca.counters, sizeof(a->node->ca.counters));
	SAME(s->srq ? s->srq->limit : 0);
	assert_int_equal(shown[0], shown[1]);
	SAME(s->qp->state);
	SAME(s->qp->bytes_received);
	SAME(s->qp->messages_received);
	SAME(s->qp->taken.own || s->qp->taken.srq);
	SAME(s->recv_cq->engine.tail - s->recv_cq->ulp.head);
	SAME(s->recv_cq->engine.free_space);
	SAME(s->recv_cq->arm);
	SAME(solicited_among_waiting(s->recv_cq));
	SAME(s->recv_cq->overrun);
	SAME(s->node->cq_events);
	SAME(s->node->events);
	SAME(s->node->sent);
	for (unsigned i = 0; i < a->node->events && i < SIM_EVENTS; i++)
		SAME(s->node->event[i].type);
}

static void run(unsigned *received)
{
	struct rand r;
	bool shared, small;
	enum ibv_mtu mtu;
	uint64_t sim_seed;

	rand_seed(&r, seed);
	odds = 2 + rand_below(&r, 200);
	shared = rand_below(&r, 2);
	small = rand_below(&r, 3) == 0;
	mtu = IBV_MTU_256 + (enum ibv_mtu)rand_below(&r, 3);
	sim_seed = rand_u64(&r);
	for (int t = 0; t < TWINS; t++) {
		twin[t] = new_twin(sim_seed, t, shared, mtu);
		make_regions(t);
		if (small)	/* completions may find no room */
			assert_int_equal(cq_resize(twin[t]->side[1].recv_cq, 4), 0);
	}
	for (unsigned i = 0; i < STEPS; i++) {
		uint64_t what = rand_below(&r, 16);

		if (what < 6)
			post_receive(&r, i);
		else if (what < 11)
			deliver(&r);
		else if (what < 15)
			poll_one(received);
		else
			do_rarely(&r);
		compare();
	}
	for (int t = 0; t < TWINS; t++)
		pair_run(twin[t]);
	compare();
	for (int t = 0; t < TWINS; t++)
		pair_delete(twin[t]);
}

static void both_ways_are_one(void **state)
{
	unsigned received = 0;

	for (int i = 0; i < BYTES; i++)
		payload[i] = pattern_byte(1, (uint32_t)i);
	for (seed = first_seed; seed < first_seed + runs; seed++)
		run(&received);
	printf("%u runs, %u messages received, %u the short way, %u straight to who polls\n", runs, received + handed, shorts,
	       handed);
	assert_true(received + handed > 10 * runs && shorts > (received + handed) / 2 && handed > runs / 2);
}

static int tell_seed(void **state)
{
	if (seed < first_seed + runs)
		printf("seed %llu\n", (unsigned long long)seed);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(both_ways_are_one, tell_seed) };

	if (argc > 1)
		runs = (unsigned)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
