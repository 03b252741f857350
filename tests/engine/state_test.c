/* The QP's states as the engine lives them: send-queue drain, the first packet, reset and again; local operations in their
 * turn, a fence's effect on data, back-pressure, and that nothing is allocated where data flows. */
#include "engine_test.h"

#include "wire/packet.h"

#include <errno.h>
#include <malloc.h>

struct tape {
	unsigned frames[2];
};

static void tap(void *arg, int node, const struct packet *p)
{
	((struct tape *)arg)->frames[node]++;
}

static struct pair *start(struct tape *tape, uint8_t rd_atomic)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 2 }, .timeout = 8, .retry_cnt = 3, .rnr_retry = 7, .rd_atomic = rd_atomic,
	});

	*tape = (struct tape){ 0 };
	pair->sim->tap = tap;
	pair->sim->tap_arg = tape;
	pattern_fill(pair->side[0].memory, 16384, 1);
	pattern_fill(pair->side[1].memory + 32768, 16384, 2);
	return pair;
}

static void fenced_send_carries_what_was_read(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);

	pair_recv(pair, 1, 9, 0, 4096);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .local = 20000, .remote = 32768,
					   .bytes = 3000 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .remote = 60000, .bytes = 10 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_SEND, .flags = IBV_SEND_FENCE, .local = 20000,
					   .bytes = 3000 });
	assert_int_equal(tape.frames[0], 2);
	pair_run(pair);
	expect_received(pair, 1, 9, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory, 3000, 2));	/* what was read is what was sent */
	for (unsigned i = 1; i <= 3; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* SAN-23: increments add up, and each sees the sum of those before. */
static void atomics_count(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	uint64_t *word = (uint64_t *)(pair->side[1].memory + 64);

	*word = 1000;
	for (unsigned i = 0; i < 30; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .local = 20000 + i * 8,
						   .remote = 64, .bytes = 8, .compare_add = 3 });
	pair_run(pair);
	for (unsigned i = 0; i < 30; i++) {
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		assert_int_equal(*(uint64_t *)(pair->side[0].memory + 20000 + i * 8), 1000 + 3 * i);
	}
	assert_int_equal(*word, 1090);
	pair_delete(pair);
}

static void inline_data_is_taken_when_posted(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	uint8_t data[100];
	struct ibv_sge sge = { (uintptr_t)data, sizeof(data), 0xdead };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE, .sg_list = &sge, .num_sge = 1,
	};

	pattern_fill(data, sizeof(data), 6);
	wr.wr.rdma.remote_addr = PAIR_IOVA;
	wr.wr.rdma.rkey = pair->side[1].mr->key;
	assert_int_equal(qp_post_send(pair->side[0].qp, 1, &wr, &bad), 0);
	memset(data, 0, sizeof(data));
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory, 100, 6));
	pair_delete(pair);
}

static int post_local(struct pair *pair, int side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = qp_post_send(pair->side[side].qp, pair->sim->now, wr, &bad);

	sim_pump(pair->sim);
	return err;
}

/* A window is bound, used, invalidated from afar and dead. All in the order of the send queue. */
static void window_is_bound_used_and_invalidated(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	struct ibv_mr stock_mr = { .lkey = pair->side[1].mr->key };
	struct ibv_send_wr bind = { .wr_id = 1, .opcode = IBV_WR_BIND_MW };
	struct ibv_mw stock_mw;
	struct mr *mw;

	assert_int_equal(mw_create(pair->side[1].pd, IBV_MW_TYPE_2, &mw), 0);
	stock_mw = (struct ibv_mw){ .rkey = mw->key, .type = IBV_MW_TYPE_2 };
	bind.bind_mw.mw = &stock_mw;
	bind.bind_mw.rkey = (mw->key & ~0xffu) | ((mw->key + 1) & 0xff);
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){ &stock_mr, PAIR_IOVA + 1000, 500, IBV_ACCESS_REMOTE_WRITE };
	assert_int_equal(post_local(pair, 1, &bind), 0);
	expect_sent(pair, 1, 1, IBV_WC_SUCCESS);

	pair_recv(pair, 1, 9, 8000, 100);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .remote = 1000, .bytes = 500,
					   .rkey = mw->key });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_SEND_WITH_INV, .bytes = 10, .imm = mw->key });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory + 1000, 500, 1));
	struct cqe cqe = expect_received(pair, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(cqe.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(cqe.imm, mw->key);

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .remote = 1000, .bytes = 500,
					   .rkey = mw->key });
	pair_run(pair);
	expect_sent(pair, 0, 3, IBV_WC_REM_ACCESS_ERR);
	pair_delete(pair);
}

/* A local operation completes after what stands before it, and fails in its turn. */
static void local_operations_keep_their_place(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	struct ibv_send_wr invalidate = { .wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x12345 };

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 3000 });
	assert_int_equal(post_local(pair, 0, &invalidate), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .bytes = 3000 });
	expect_nothing(pair, 0);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_MW_BIND_ERR);
	expect_sent(pair, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(tape.frames[0], 3);
	pair_delete(pair);
}

/* rdma_rxe's meaning of the counter: sends that were completed, signalled or not, and no other operation. */
static void completed_sends_are_counted(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);

	for (unsigned i = 1; i <= 3; i++) {
		pair_recv(pair, 1, i, i * 4096, 4096);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .bytes = 3000 });
	}
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 4, .opcode = IBV_WR_RDMA_WRITE, .bytes = 3000 });
	assert_int_equal(pair->side[0].node->ca.counters.rdma_sends, 0);
	pair_run(pair);
	assert_int_equal(pair->side[0].node->ca.counters.rdma_sends, 3);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 5, .opcode = IBV_WR_SEND, .bytes = 3000 });
	assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
				   IBV_QP_STATE), 0);
	assert_int_equal(pair->side[0].node->ca.counters.rdma_sends, 3);
	pair_delete(pair);
}

static void modify(struct pair *pair, int side, enum ibv_qp_state to, bool notify)
{
	struct ibv_qp_attr attr = { .qp_state = to, .en_sqd_async_notify = notify };
	int mask = IBV_QP_STATE | (notify ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0);

	assert_int_equal(qp_modify(pair->side[side].qp, pair->sim->now, &attr, mask), 0);
	sim_pump(pair->sim);
}

/* SQD: what was begun is finished, then the event; nothing new begins until RTS. */
static void send_queue_drains(void **state)
{
	struct tape tape;
	struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 1, .link = { .room = 1 } } });

	tape = (struct tape){ 0 };
	pair->sim->tap = tap;
	pair->sim->tap_arg = &tape;
	for (unsigned i = 0; i < 3; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = 3000 });
	modify(pair, 0, IBV_QPS_SQD, true);
	assert_int_equal(pair->side[0].qp->attr.sq_draining, 1);
	assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), 0);
	pair_run(pair);
	assert_int_equal(tape.frames[0], 3);
	assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), 1);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	expect_nothing(pair, 0);
	modify(pair, 0, IBV_QPS_RTS, false);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	modify(pair, 0, IBV_QPS_SQD, true);
	assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), 2);
	pair_delete(pair);
}

/* IBA 11.2.5.2: the event is for who asked, and for this time. */
static void drained_send_queue_tells_only_who_asked(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 1, .link = { .room = 1 } } });

	for (unsigned asked = 0; asked < 2; asked++) {
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 3000 });
		modify(pair, 0, IBV_QPS_SQD, asked);
		assert_int_equal(pair->side[0].qp->attr.sq_draining, 1);
		pair_run(pair);
		assert_int_equal(pair->side[0].qp->attr.sq_draining, 0);
		assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), asked);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		modify(pair, 0, IBV_QPS_RTS, false);
	}
	modify(pair, 0, IBV_QPS_SQD, false);
	assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), 1);
	pair_delete(pair);
}

/* Of what is sent after SQD (IBA 11.2.5.2), also before anything is acknowledged. */
static void retries_of_a_drained_send_queue_count(void **state)
{
	static const struct {
		int mask;
		enum ibv_wc_status status;
	} rows[] = {
		{ IBV_QP_RNR_RETRY, IBV_WC_RNR_RETRY_EXC_ERR },
		{ IBV_QP_RETRY_CNT, IBV_WC_RETRY_EXC_ERR },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tape tape;
		struct pair *pair = start(&tape, 4);
		struct ibv_qp_attr none = { .retry_cnt = 0, .rnr_retry = 0 };

		modify(pair, 0, IBV_QPS_SQD, false);
		assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &none, rows[i].mask), 0);
		modify(pair, 0, IBV_QPS_RTS, false);
		if (rows[i].mask == IBV_QP_RETRY_CNT)
			pair->sim->config.link.loss = 1000000;
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 100 });
		pair_run(pair);
		expect_sent(pair, 0, 1, rows[i].status);
		assert_int_equal(tape.frames[0], 1);
		pair_delete(pair);
	}
}

/* A QP in RTR takes packets in; the first tells COMM_EST, once. */
static void first_packet_in_rtr(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	struct qp *qp = pair->side[1].qp;

	modify(pair, 1, IBV_QPS_RESET, false);
	assert_int_equal(pair_connect(pair, 1, qp, pair->side[0].qp, IBV_QPS_RTR), 0);
	pair_recv(pair, 1, 1, 0, 100);
	pair_recv(pair, 1, 2, 0, 100);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 100 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_SEND, .bytes = 100 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_received(pair, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_COMM_EST), 1);
	assert_int_equal(pair_connect(pair, 1, qp, pair->side[0].qp, IBV_QPS_RTS), 0);
	pair_delete(pair);
}

/* Reset in the middle of everything, connect again, and it works from fresh numbers. */
static void reset_and_again(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);

	pair_recv(pair, 1, 1, 0, 16384);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 16384 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .bytes = 16384 });
	sim_run(pair->sim, pair->sim->now + 1005);
	for (int i = 0; i < 2; i++)
		modify(pair, i, IBV_QPS_RESET, false);
	pair_run(pair);
	expect_nothing(pair, 0);
	expect_nothing(pair, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pair_connect(pair, i, pair->side[i].qp, pair->side[!i].qp, IBV_QPS_RTS), 0);
	pattern_fill(pair->side[0].memory, 16384, 1);
	pair_recv(pair, 1, 3, 0, 16384);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_SEND, .bytes = 16384 });
	pair_run(pair);
	expect_sent(pair, 0, 3, IBV_WC_SUCCESS);
	expect_received(pair, 1, 3, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory, 16384, 1));
	pair_delete(pair);
}

/* A sender that finds no room waits, and is woken. */
static void back_pressure(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 1, .link = { .room = 1 } } });

	pattern_fill(pair->side[0].memory, 60000, 3);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 60000 });
	assert_false(list_empty(&pair->side[0].node->ca.blocked));
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory, 60000, 3));
	pair_delete(pair);
}

/* The engine's state of a QP: 10,000 of them beside their queues in 64 MiB. */
static void state_is_small(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	struct pair_side *s = &pair->side[0];
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	size_t before = mallinfo2().uordblks;
	struct qp *qp[100];

	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(qp_create(&s->node->ca, s->node->dev, &attr, s->pd, s->send_cq, s->recv_cq, NULL, NULL,
					   &qp[i]), 0);
	assert_true((mallinfo2().uordblks - before) / 100 < (64 << 20) / 10000);
	print_message("%zu bytes a QP\n", (mallinfo2().uordblks - before) / 100);
	pair_delete(pair);
}

static void carry_burst(const struct burst *b, struct pair_side *to, origin_t origin)
{
	for (unsigned i = 0; i < b->packets; i++) {
		static uint8_t frame[PACKET_MAX_BYTES];
		size_t bytes = packet_build(&b->out[i].packet, frame, sizeof(frame));
		struct packet p;

		assert_int_equal(packet_parse(&p, PACKET_IB, frame, bytes, true), PACKET_OK);
		ca_input(&to->node->ca, to->node->dev, 1, origin, &p);
	}
}

/* Where data flows nothing is allocated but the requester's book, with its first packet (ib/loss.h). */
static void data_flows_without_allocation(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	struct burst burst;
	size_t before;

	pair_recv(pair, 1, 1, 0, 16384);
	for (int i = 0; i < 2; i++)
		sim_stop(pair->sim, i);	/* the test carries the frames itself */
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE });
	assert_int_equal(ca_output(&pair->side[0].node->ca, 1, &burst), 1);
	carry_burst(&burst, &pair->side[1], 1);
	before = mallinfo2().uordblks;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_SEND, .bytes = 16384 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_READ, .bytes = 16384 });
	for (bool moved = true; moved;) {
		moved = false;
		for (int i = 0; i < 2; i++)
			while (ca_output(&pair->side[i].node->ca, 1, &burst)) {
				carry_burst(&burst, &pair->side[!i], (origin_t)i + 1);
				moved = true;
			}
	}
	assert_int_equal(mallinfo2().uordblks, before);
	for (int i = 0; i < 2; i++)
		sim_continue(pair->sim, i);
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
		expect_sent(pair, 0, wr_id, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* One input batch, one ACK: what came before it left. */
static void acknowledgements_merge(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	struct packet p = { .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .dest_qpn = pair->side[1].qp->qpn, .pkey = 0xffff,
			    .path = { .slid = 1, .dlid = 2 }, .ack_requested = true,
			    .reth = { PAIR_IOVA, pair->side[1].mr->key, 1 },
			    .payload = &(struct iovec){ "x", 1 }, .payload_iovs = 1, .payload_bytes = 1 };

	for (p.psn = 0; p.psn < 10; p.psn++)
		ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &p);
	sim_pump(pair->sim);
	assert_int_equal(tape.frames[1], 1);
	assert_int_equal(pair->side[1].node->ca.counters.ack_deferred, 9);
	pair_delete(pair);
}

static void options_are_checked(void **state)
{
	struct tape tape;
	struct pair *pair = start(&tape, 4);
	struct qp *qp = pair->side[0].qp;
	struct ib_options options = ib_default_options;

	assert_int_equal(ib_set_options(qp, &options), -EINVAL);	/* connected */
	modify(pair, 0, IBV_QPS_RESET, false);
	assert_int_equal(ib_set_options(qp, &options), 0);
	options.window_pkts = 3;
	assert_int_equal(ib_set_options(qp, &options), -EINVAL);
	options.window_pkts = 0;
	assert_int_equal(ib_set_options(qp, &options), -EINVAL);
	options.window_pkts = IB_WINDOW_MAX;
	assert_int_equal(ib_set_options(qp, &options), 0);
	options.start_msn = 1 << 24;
	assert_int_equal(ib_set_options(qp, &options), -EINVAL);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fenced_send_carries_what_was_read),
		cmocka_unit_test(atomics_count),
		cmocka_unit_test(inline_data_is_taken_when_posted),
		cmocka_unit_test(window_is_bound_used_and_invalidated),
		cmocka_unit_test(local_operations_keep_their_place),
		cmocka_unit_test(completed_sends_are_counted),
		cmocka_unit_test(send_queue_drains),
		cmocka_unit_test(drained_send_queue_tells_only_who_asked),
		cmocka_unit_test(retries_of_a_drained_send_queue_count),
		cmocka_unit_test(first_packet_in_rtr),
		cmocka_unit_test(reset_and_again),
		cmocka_unit_test(back_pressure),
		cmocka_unit_test(state_is_small),
		cmocka_unit_test(data_flows_without_allocation),
		cmocka_unit_test(acknowledgements_merge),
		cmocka_unit_test(options_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
