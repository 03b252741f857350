/* Standard profile: a CQ that overran is dead, and each QP that completes into it goes to the error state, IBA 10.10.2.3, over
 * all ways by which a request completes. Nothing that was posted is lost track of, and nobody waits for ever. */
#include "engine_test.h"

#include "ib/completer.h"
#include "verbs/direct.h"
#include "wire/packet.h"

enum { SMALL = 4, MORE = 3, BYTES = 100 };

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND };
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static struct pair *start(enum ibv_qp_type type, bool shared)
{
	return pair_new(&(struct pair_config){
		.sim = { .seed = 11 }, .type = type, .shared_receives = shared, .timeout = 6, .retry_cnt = 2, .rnr_retry = 1,
		.min_rnr_timer = 1,
	});
}

/* How many completions it holds. */
static uint32_t make_small(struct cq *cq)
{
	assert_int_equal(cq_resize(cq, SMALL), 0);
	return cq->engine.ring.capacity;
}

static void send(struct pair *pair, uint64_t wr_id)
{
	post_wr(pair, 0, (struct pair_wr){ .wr_id = wr_id, .opcode = IBV_WR_SEND, .bytes = BYTES });
}

static unsigned polled(struct cq *cq, enum ibv_wc_status status)
{
	struct cqe cqe;
	unsigned n = 0;

	for (; cq_poll(cq, &cqe); n++)
		assert_int_equal(cqe.status, status);
	return n;
}

/* The events of one dead CQ of this side, into which one QP completes. */
static void expect_stopped(struct pair *pair, int side, const struct qp *qp)
{
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(sim_events(pair->side[side].node, IBV_EVENT_CQ_ERR), 1);
	assert_int_equal(sim_events(pair->side[side].node, IBV_EVENT_QP_FATAL), 1);
}

/* A queue that stopped takes requests as one in error does, more than it holds at once. */
static void expect_flushing(struct pair *pair, int side)
{
	struct qp *qp = pair->side[side].qp;

	for (uint32_t i = 0; i < 2 * qp->sq.engine.ring.capacity; i++)
		assert_int_equal(pair_send(pair, side, &(struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND }), 0);
	assert_int_equal(qp->sq.ulp.credits, qp->sq.engine.ring.capacity);
	assert_int_equal(wq_pending(&qp->sq.engine), 0);
	wq_check(&qp->sq);
}

static void receiver_stops(enum ibv_qp_type type, bool shared)
{
	struct pair *pair = start(type, shared);
	struct pair_side *s = &pair->side[1];
	uint32_t room = make_small(s->recv_cq);
	struct cqe cqe;

	for (uint32_t i = 0; i < room + MORE; i++)
		assert_int_equal(pair_recv(pair, 1, i, 0, 4096), 0);
	for (uint32_t i = 0; i < room + MORE; i++)
		send(pair, i);
	pair_run(pair);
	expect_stopped(pair, 1, s->target);
	for (uint32_t i = 0; i < room + MORE; i++) {
		assert_true(pair_poll_send(pair, 0, &cqe));
		if (type == IBV_QPT_UC || type == IBV_QPT_UD || i < room)
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		else
			assert_int_equal(cqe.status, i == room ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR);
	}
	assert_int_equal(polled(s->recv_cq, IBV_WC_SUCCESS), room);
	assert_int_equal(cq_resize(s->recv_cq, 100), -EIO);
	if (s->srq)	/* what no message took stays for other QPs */
		assert_int_equal(s->srq->wq.ulp.credits, s->srq->wq.engine.ring.capacity - (type == IBV_QPT_UD ? 0 : MORE - 1));
	else
		assert_int_equal(s->qp->rq.ulp.credits, s->qp->rq.engine.ring.capacity);
	assert_int_equal(sim_events(s->node, IBV_EVENT_QP_LAST_WQE_REACHED), shared);
	pair_delete(pair);
}

static void a_receiver_whose_completion_finds_its_cq_dead_stops(void **state)
{
	for (unsigned i = 0; i < TYPES; i++)
		receiver_stops(types[i], false);
	receiver_stops(IBV_QPT_RC, true);
	receiver_stops(IBV_QPT_UC, true);
}

static void a_sender_whose_completion_finds_its_cq_dead_stops(void **state)
{
	for (unsigned i = 0; i < TYPES; i++) {
		struct pair *pair = start(types[i], false);
		struct pair_side *s = &pair->side[0];
		uint32_t room = make_small(s->send_cq);

		for (uint32_t j = 0; j < room + MORE; j++)
			assert_int_equal(pair_recv(pair, 1, j, 0, 4096), 0);
		for (uint32_t j = 0; j < room + MORE; j++)
			send(pair, j);
		pair_run(pair);
		expect_stopped(pair, 0, s->qp);
		assert_in_range(polled(pair->side[1].recv_cq, IBV_WC_SUCCESS), room, room + MORE);
		expect_flushing(pair, 0);
		assert_int_equal(polled(s->send_cq, IBV_WC_SUCCESS), room);
		expect_stopped(pair, 0, s->qp);
		pair_delete(pair);
	}
}

/* Its receives are flushed: whoever waits for them hears of it. */
static void receives_of_a_stopped_sender_are_flushed(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, false);
	uint32_t room = make_small(pair->side[0].send_cq);

	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(pair_recv(pair, 0, i, 0, 4096), 0);
	for (uint32_t i = 0; i < room + 1; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES });
	pair_run(pair);
	expect_stopped(pair, 0, pair->side[0].qp);
	assert_int_equal(polled(pair->side[0].recv_cq, IBV_WC_WR_FLUSH_ERR), 5);
	pair_delete(pair);
}

/* One ACK completes many at once, by PSN, by MSN and by descriptor. */
static void one_acknowledgement_overruns_the_cq(void **state)
{
	static const char *const options[] = { "standard", "standard,complete=msn", "standard,complete=wqe",
					       "standard,report=last" };

	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		struct pair_config config = { .sim = { .seed = 3 }, .timeout = 6, .retry_cnt = 2, .unsignaled = true };
		struct pair *pair;
		uint32_t room;

		assert_int_equal(ib_options_parse(options[i], &config.options), 0);
		pair = pair_new(&config);
		room = make_small(pair->side[0].send_cq);
		sim_fault_add(pair->sim, SIM_DROP, 1, 0);	/* ACKs of all but the last */
		for (uint32_t j = 0; j < 3 * room; j++)
			post_wr(pair, 0, (struct pair_wr){ .wr_id = j, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES,
							   .flags = IBV_SEND_SIGNALED });
		pair_run(pair);
		if (i < 3) {
			expect_stopped(pair, 0, pair->side[0].qp);
			expect_flushing(pair, 0);
		}
		wq_check(&pair->side[0].qp->sq);
		assert_int_equal(wq_pending(&pair->side[0].qp->sq.engine), 0);
		pair_delete(pair);
	}
}

/* A QP that does not complete into the dead CQ goes on; when it does, it stops too, and the CQ is not told of again. */
static void each_qp_stops_when_it_completes(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, false);
	struct pair_side *s = &pair->side[0];
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UD, .sq_sig_all = 1, .cap = { 4, 4, 1, 1, 0 } };
	uint32_t room = make_small(s->send_cq);
	struct ibv_qp_attr attr = { .port_num = 1, .qkey = 1 };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ah ah = { .pd = s->pd, .av = { .dlid = 2, .port_num = 1 } };
	struct qp *other;

	assert_int_equal(qp_create(&s->node->ca, s->node->dev, &init, s->pd, s->send_cq, s->recv_cq, NULL, NULL, &other), 0);
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(qp_modify(other, 1, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(qp_modify(other, 1, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(other, 1, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	for (uint32_t i = 0; i < room + MORE; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES });
	pair_run(pair);
	expect_stopped(pair, 0, s->qp);
	assert_int_equal(other->state, IBV_QPS_RTS);
	wr.wr.ud.ah = &ah.ibv;
	wr.wr.ud.remote_qpn = 77;
	assert_int_equal(qp_post_send(other, pair->sim->now, &wr, &bad), 0);
	pair_run(pair);
	assert_int_equal(other->state, IBV_QPS_ERR);
	assert_int_equal(sim_events(s->node, IBV_EVENT_QP_FATAL), 2);
	assert_int_equal(sim_events(s->node, IBV_EVENT_CQ_ERR), 1);
	pair_delete(pair);
}

/* ---- requests that their initiator executes, and direct messages ---- */

static bool execute(void *owner, struct qp *qp, struct direct_request *r)
{
	return r->op == OP_WRITE;
}

static enum direct_write write(void *owner, struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes)
{
	return WRITE_DONE;
}

static bool connect(void *owner, struct qp *qp)
{
	static int channel;

	qp->direct_path.channel = &channel;
	return true;
}

static void nothing(void *owner, struct qp *qp)
{
	qp->published = 0;
}

static void publish(void *owner, struct qp *qp, psn_t received)
{
	assert_int_not_equal(qp->state, IBV_QPS_ERR);
}

static const struct direct_ops direct = {
	.unpublish_qp = nothing, .publish_qp = nothing, .execute = execute, .write = write, .connect = connect,
	.publish = publish,
};

static void a_direct_write_that_finds_its_cq_dead_stops_the_qp(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct pair *pair = start(types[i], false);
		struct pair_side *s = &pair->side[0];
		uint32_t room = make_small(s->send_cq);

		s->node->ca.direct = &direct;
		for (uint32_t j = 0; j < room + MORE; j++)
			assert_int_equal(pair_send(pair, 0, &(struct pair_wr){ .wr_id = j, .opcode = IBV_WR_RDMA_WRITE,
									       .bytes = BYTES }), 0);
		pair_run(pair);
		assert_int_equal(s->node->ca.counters.direct_writes, room + 1);
		expect_stopped(pair, 0, s->qp);
		expect_flushing(pair, 0);
		s->node->ca.direct = NULL;
		pair_delete(pair);
	}
}

/* Plain ones, and one with an immediate. Nothing is published of a QP that stopped. */
static void a_whole_message_that_finds_its_cq_dead_stops_the_qp(void **state)
{
	for (unsigned with_imm = 0; with_imm < 2; with_imm++) {
		struct pair *pair = start(IBV_QPT_RC, false);
		struct pair_side *s = &pair->side[1];
		struct ca *ca = &s->node->ca;
		uint32_t room = make_small(s->recv_cq);
		struct iovec iov = { pair->side[0].memory, BYTES };
		const void *channel;

		ca->direct = &direct;
		s->qp->published = 1;
		connect(NULL, s->qp);
		channel = s->qp->direct_path.channel;
		for (uint32_t i = 0; i < room + MORE; i++)
			assert_int_equal(pair_recv(pair, 1, i, 0, 4096), 0);
		for (uint32_t i = 0; i < room + MORE; i++)
			ca_message(ca, i, channel, &(struct direct_message){
				.opcode = with_imm ? OPCODE_RC_SEND_ONLY_IMM : OPCODE_RC_SEND_ONLY, .dest_qpn = s->qp->qpn,
				.src_qpn = pair->side[0].qp->qpn, .psn = i, .bytes = BYTES, .iov = &iov, .iovs = 1,
			});
		expect_stopped(pair, 1, s->qp);
		assert_int_equal(polled(s->recv_cq, IBV_WC_SUCCESS), room);
		assert_int_equal(s->qp->rq.ulp.credits, s->qp->rq.engine.ring.capacity);
		ca->direct = NULL;
		pair_delete(pair);
	}
}

/* What was executed completes before a QP changes its state; the change is what was asked for, or the error. */
static void a_change_of_state_overruns_the_cq(void **state)
{
	static const enum ibv_qp_state to[] = { IBV_QPS_RESET, IBV_QPS_ERR, IBV_QPS_SQD };

	for (unsigned i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		struct pair *pair = start(IBV_QPT_RC, false);
		struct pair_side *s = &pair->side[0];
		uint32_t room = make_small(s->send_cq);

		for (uint32_t j = 0; j < room + MORE; j++)
			post_wr(pair, 0, (struct pair_wr){ .wr_id = j, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES });
		completer_postpone_ack(s->qp, room + MORE - 1);
		assert_int_equal(qp_modify(s->qp, pair->sim->now, &(struct ibv_qp_attr){ .qp_state = to[i] }, IBV_QP_STATE), 0);
		assert_int_equal(s->qp->state, to[i] == IBV_QPS_RESET ? IBV_QPS_RESET : IBV_QPS_ERR);
		assert_int_equal(sim_events(s->node, IBV_EVENT_CQ_ERR), 1);
		assert_int_equal(sim_events(s->node, IBV_EVENT_QP_FATAL), to[i] == IBV_QPS_SQD);
		assert_int_equal(wq_pending(&s->qp->sq.engine), 0);
		assert_int_equal(s->qp->sq.ulp.credits, s->qp->sq.engine.ring.capacity);
		wq_check(&s->qp->sq);
		pair_delete(pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_receiver_whose_completion_finds_its_cq_dead_stops),
		cmocka_unit_test(a_sender_whose_completion_finds_its_cq_dead_stops),
		cmocka_unit_test(receives_of_a_stopped_sender_are_flushed),
		cmocka_unit_test(one_acknowledgement_overruns_the_cq),
		cmocka_unit_test(each_qp_stops_when_it_completes),
		cmocka_unit_test(a_direct_write_that_finds_its_cq_dead_stops_the_qp),
		cmocka_unit_test(a_whole_message_that_finds_its_cq_dead_stops_the_qp),
		cmocka_unit_test(a_change_of_state_overruns_the_cq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
