/* UD: what is delivered and what is dropped, the GRH's 40 bytes, multicast. UC: a fault loses messages, never order. */
#include "engine_test.h"

#include "wire/packet.h"

enum { GRH = 40, QKEY = 0x1234 };

static struct pair *start(enum ibv_qp_type type, enum packet_form form, bool with_grh)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 5, .form = form, .mtu = IBV_MTU_2048 }, .type = type, .with_grh = with_grh,
		.psn = { 0xffffff, 9 },
	});

	pattern_fill(pair->side[0].memory, 8192, 1);
	return pair;
}

static void send(struct pair *pair, uint64_t wr_id, uint32_t bytes)
{
	struct pair_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND, .bytes = bytes, .pieces = bytes > 8 ? 3 : 1 };

	post_wr(pair, 0, wr);
}

static void local_datagram_has_no_grh(void **state)
{
	struct pair *pair = start(IBV_QPT_UD, PACKET_IB, false);
	struct cqe cqe;

	memset(pair->side[1].memory, 0xee, 100);
	pair_recv(pair, 1, 7, 0, 4096);
	send(pair, 1, 100);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	cqe = expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	assert_int_equal(cqe.byte_len, GRH + 100);
	assert_int_equal(cqe.wc_flags, 0);
	assert_int_equal(cqe.src_qp, pair->side[0].qp->qpn);
	assert_int_equal(cqe.slid, 1);
	assert_int_equal(pair->side[1].memory[0], 0xee);	/* left as it was */
	assert_true(pattern_holds(pair->side[1].memory + GRH, 100, 1));
	pair_delete(pair);
}

static void global_datagram_has_a_grh(void **state)
{
	struct pair *pair = start(IBV_QPT_UD, PACKET_IB, true);
	const uint8_t *grh = pair->side[1].memory;
	struct cqe cqe;

	pair_recv(pair, 1, 7, 0, 4096);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND_WITH_IMM, .bytes = 101, .imm = 0x11223344 });
	pair_run(pair);
	cqe = expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	assert_int_equal(cqe.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(cqe.imm), 0x11223344);
	assert_int_equal(grh[0] >> 4, 6);
	assert_int_equal(grh[4] << 8 | grh[5], 12 + 8 + 4 + 104 + 4);	/* BTH, DETH, ImmDt, payload and pad, ICRC */
	assert_int_equal(grh[6], 0x1b);
	assert_int_equal(grh[7], 64);
	assert_memory_equal(grh + 8, pair->side[0].node->dev->gid[0].raw, 16);
	assert_memory_equal(grh + 24, pair->side[1].node->dev->gid[0].raw, 16);
	assert_true(pattern_holds(grh + GRH, 101, 1));
	pair_delete(pair);
}

/* A17: an IPv4 header stands in the last 20 of the 40 bytes. */
static void roce_datagram_has_an_ip_header(void **state)
{
	static const uint8_t source[4] = { 10, 0, 0, 1 }, destination[4] = { 10, 0, 0, 2 };
	struct pair *pair = start(IBV_QPT_UD, PACKET_ROCE, false);
	const uint8_t *ip = pair->side[1].memory + 20;
	struct cqe cqe;

	pair_recv(pair, 1, 7, 0, 4096);
	send(pair, 1, 64);
	pair_run(pair);
	cqe = expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	assert_int_equal(cqe.wc_flags, IBV_WC_GRH);
	assert_int_equal(cqe.byte_len, GRH + 64);
	assert_int_equal(cqe.sl, 2);	/* what UCX knows IPv4 by */
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[2] << 8 | ip[3], 20 + 8 + 12 + 8 + 64 + 4);
	assert_int_equal(ip[9], 17);
	assert_memory_equal(ip + 12, source, 4);
	assert_memory_equal(ip + 16, destination, 4);
	assert_true(pattern_holds(ip + 20, 64, 1));
	pair_delete(pair);
}

static void sizes_up_to_the_mtu(void **state)
{
	static const uint32_t bytes[] = { 0, 1, 3, 4, 2047, 2048 };
	struct pair *pair = start(IBV_QPT_UD, PACKET_ROCE, false);

	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		pair_recv(pair, 1, i, 0, 4096);
		send(pair, i, bytes[i]);
		pair_run(pair);
		assert_int_equal(expect_received(pair, 1, i, IBV_WC_SUCCESS).byte_len, GRH + bytes[i]);
		assert_true(pattern_holds(pair->side[1].memory + GRH, bytes[i], 1));
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	}
	pair_delete(pair);
}

/* A datagram longer than the MTU fails at home, and only the send queue stops: IBA 10.3.1.6. */
static void too_long_to_send(void **state)
{
	struct pair *pair = start(IBV_QPT_UD, PACKET_IB, false);
	struct qp *qp = pair->side[0].qp;

	send(pair, 1, 100);
	send(pair, 2, 2049);
	send(pair, 3, 100);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_LOC_LEN_ERR);
	expect_sent(pair, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp->state, IBV_QPS_SQE);
	/* it still receives, and goes on when told */
	pair_recv(pair, 0, 8, 0, 4096);
	post_wr(pair, 1, (struct pair_wr){ .wr_id = 4, .opcode = IBV_WR_SEND, .bytes = 10 });
	pair_run(pair);
	expect_received(pair, 0, 8, IBV_WC_SUCCESS);
	assert_int_equal(qp_modify(qp, 1, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE), 0);
	pair_recv(pair, 1, 9, 0, 4096);
	send(pair, 5, 10);
	pair_run(pair);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	expect_received(pair, 1, 9, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* SAN-29: 10 sent, 4 receives. And a receive that is too small, or of another Q_Key, leaves no trace. */
static void what_does_not_fit_is_dropped(void **state)
{
	struct pair *pair = start(IBV_QPT_UD, PACKET_IB, false);

	for (unsigned i = 0; i < 4; i++)
		pair_recv(pair, 1, i, i * 4096, 4096);
	for (unsigned i = 0; i < 10; i++)
		send(pair, i, 100 + i);
	pair_run(pair);
	for (unsigned i = 0; i < 10; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(expect_received(pair, 1, i, IBV_WC_SUCCESS).byte_len, GRH + 100 + i);
	expect_nothing(pair, 1);
	assert_int_equal(pair->side[1].node->ca.counters.dropped_datagrams, 6);

	pair_recv(pair, 1, 20, 0, GRH + 50);
	pair->side[1].qp->attr.qkey = QKEY + 1;
	send(pair, 20, 50);
	pair_run(pair);
	expect_nothing(pair, 1);
	pair->side[1].qp->attr.qkey = QKEY;
	assert_int_equal(pair->side[1].node->ca.counters.dropped_datagrams, 6);
	send(pair, 21, 51);
	pair_run(pair);
	expect_nothing(pair, 1);
	assert_int_equal(pair->side[1].node->ca.counters.dropped_datagrams, 7);
	send(pair, 22, 50);
	pair_run(pair);
	expect_received(pair, 1, 20, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* 9.9.3: its own fault is told by its completion. What is behind it is flushed. */
static void a_receive_whose_memory_is_refused_stops_the_qp(void **state)
{
	(void)state;
	for (unsigned with_grh = 0; with_grh < 2; with_grh++) {
		struct pair *pair = start(IBV_QPT_UD, PACKET_IB, with_grh);
		struct pair_side *s = &pair->side[1];

		for (unsigned i = 0; i < 2; i++)
			pair_recv(pair, 1, i, 0, 4096);
		s->mr->access &= ~IBV_ACCESS_LOCAL_WRITE;
		send(pair, 1, 100);
		send(pair, 2, 100);
		pair_run(pair);
		expect_received(pair, 1, 0, IBV_WC_LOC_PROT_ERR);
		expect_received(pair, 1, 1, IBV_WC_WR_FLUSH_ERR);
		expect_nothing(pair, 1);
		assert_int_equal(s->qp->state, IBV_QPS_ERR);
		assert_int_equal(s->node->ca.history.stops, 1);
		pair_delete(pair);
	}
}

static struct qp *another_ud(struct pair *pair, int side)
{
	struct pair_side *s = &pair->side[side];
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_UD, .cap = { 8, 8, 1, 1, 0 } };
	struct qp *qp;

	assert_int_equal(qp_create(&s->node->ca, s->node->dev, &attr, s->pd, s->send_cq, s->recv_cq, NULL, NULL, &qp), 0);
	assert_int_equal(pair_connect(pair, side, qp, qp, IBV_QPS_RTS), 0);
	return qp;
}

static void receive_at(struct pair *pair, int side, struct qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { PAIR_IOVA + wr_id * 1024, 1024, pair->side[side].mr->key };
	const struct ibv_recv_wr *bad;

	assert_int_equal(qp_post_recv(qp, 1, &(struct ibv_recv_wr){ .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, &bad), 0);
}

/* SAN-24: one send, three receives, on this node and the other; the sender itself gets nothing back. */
static void multicast(void **state)
{
	static const uint8_t ib_group[16] = { 0xff, 0x12, 0x40, 0x1b, [15] = 7 };
	static const uint8_t roce_group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };

	for (int form = PACKET_IB; form <= PACKET_ROCE; form++) {
		struct pair *pair = pair_new(&(struct pair_config){
			.sim = { .seed = 5, .form = (enum packet_form)form, .mtu = IBV_MTU_2048, .lmc = form == PACKET_IB },
			.type = IBV_QPT_UD, .with_grh = true, .psn = { 0xffffff, 9 },
		});
		struct qp *here = another_ud(pair, 0), *there = another_ud(pair, 1);
		const uint8_t *group = form == PACKET_IB ? ib_group : roce_group;
		struct ibv_ah_attr attr = { .dlid = 0xc003, .src_path_bits = 1, .port_num = 1, .is_global = 1,
					    .grh = { .hop_limit = 1 } };
		struct ibv_sge sge = { PAIR_IOVA + 32768, 200, pair->side[0].mr->key };
		struct ibv_send_wr *bad, wr = { .wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };
		struct ah ah = { .pd = pair->side[0].pd };

		memcpy(attr.grh.dgid.raw, group, 16);
		assert_int_equal(av_from_attr(pair->side[0].node->dev, &attr, &ah.av), 0);
		wr.wr.ud.ah = &ah.ibv;
		wr.wr.ud.remote_qpn = 0xffffff;
		wr.wr.ud.remote_qkey = QKEY;
		pattern_fill(pair->side[0].memory + 32768, 200, 4);
		assert_int_equal(mcast_attach(pair->side[0].qp, group, 0xc003), 0);
		assert_int_equal(mcast_attach(pair->side[1].qp, group, 0xc003), 0);
		assert_int_equal(mcast_attach(here, group, 0xc003), 0);
		assert_int_equal(mcast_attach(there, group, 0xc003), 0);
		receive_at(pair, 0, pair->side[0].qp, 1);
		receive_at(pair, 0, here, 2);
		receive_at(pair, 1, pair->side[1].qp, 3);
		receive_at(pair, 1, there, 4);
		assert_int_equal(qp_post_send(pair->side[0].qp, 1, &wr, &bad), 0);
		pair_run(pair);
		assert_int_equal(expect_received(pair, 0, 2, IBV_WC_SUCCESS).byte_len, GRH + 200);
		assert_int_equal(expect_received(pair, 1, 3, IBV_WC_SUCCESS).dlid_path_bits, 0);
		expect_received(pair, 1, 4, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[1].memory + 4 * 1024 + GRH, 200, 4));
		assert_int_equal(mcast_detach(there, group, 0xc003), 0);
		receive_at(pair, 1, pair->side[1].qp, 5);
		receive_at(pair, 1, there, 6);
		assert_int_equal(qp_post_send(pair->side[0].qp, 1, &wr, &bad), 0);
		pair_run(pair);
		expect_received(pair, 1, 5, IBV_WC_SUCCESS);
		assert_false(pair_poll_recv(pair, 1, &(struct cqe){ 0 }));
		mcast_detach(pair->side[0].qp, group, 0xc003);
		mcast_detach(pair->side[1].qp, group, 0xc003);
		mcast_detach(here, group, 0xc003);
		pair_delete(pair);
	}
}

/* ---- UC ---- */

/* Messages of one and of three packets; frame n of them is lost, doubled, swapped or spoiled. Those that come, come whole,
 * in order, into receives in order. */
static void uc_faults(void **state)
{
	for (unsigned kind = 0; kind < SIM_FAULT_KINDS; kind++)
		for (uint32_t nth = 0; nth < 12; nth++) {
			struct pair *pair = start(IBV_QPT_UC, PACKET_IB, false);
			int last = -1;
			struct cqe cqe;

			sim_fault_add(pair->sim, (enum sim_fault_kind)kind, 0, nth);
			for (unsigned i = 0; i < 8; i++)
				pair_recv(pair, 1, i, 8192 + i * 4096, 4096);
			for (unsigned i = 0; i < 6; i++)
				post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND_WITH_IMM, .imm = i,
					.bytes = i % 2 ? 2500 : 500 });
			pair_run(pair);
			for (unsigned i = 0; i < 6; i++)
				expect_sent(pair, 0, i, IBV_WC_SUCCESS);
			for (unsigned n = 0; pair_poll_recv(pair, 1, &cqe); n++) {
				int message = (int)be32toh(cqe.imm);

				assert_int_equal(cqe.status, IBV_WC_SUCCESS);
				assert_int_equal(cqe.wr_id, n);
				assert_int_equal(cqe.byte_len, message % 2 ? 2500 : 500);
				assert_true(pattern_holds(pair->side[1].memory + 8192 + n * 4096, cqe.byte_len, 1));
				if (kind == SIM_DROP || kind == SIM_CORRUPT)
					assert_true(message > last);
				last = message;
			}
			assert_true(last >= 4);
			assert_int_equal(pair->side[1].qp->state, IBV_QPS_RTS);
			pair_delete(pair);
		}
}

/* No receive, a receive that is too small, a wrong key: the message is gone, the connection stays. */
static void uc_errors_drop_the_message(void **state)
{
	struct pair *pair = start(IBV_QPT_UC, PACKET_IB, false);

	send(pair, 1, 2500);
	pair_run(pair);
	pair_recv(pair, 1, 1, 8192, 2499);
	send(pair, 2, 2500);
	pair_run(pair);
	expect_nothing(pair, 1);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .bytes = 3000, .remote = 30000,
		.rkey = pair->side[1].mr->key ^ 1 });
	send(pair, 4, 2499);
	pair_run(pair);
	assert_int_equal(expect_received(pair, 1, 1, IBV_WC_SUCCESS).byte_len, 2499);
	assert_int_equal(pair->side[1].memory[30000], 0);
	for (unsigned i = 1; i <= 4; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_RTS);
	pair_delete(pair);
}

static void uc_writes(void **state)
{
	struct pair *pair = start(IBV_QPT_UC, PACKET_ROCE, false);

	pair_recv(pair, 1, 5, 0, 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 5000,
		.remote = 20000, .imm = 6 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(expect_received(pair, 1, 5, IBV_WC_SUCCESS).byte_len, 5000);
	assert_true(pattern_holds(pair->side[1].memory + 20000, 5000, 1));
	pair_delete(pair);
}

/* The requester's own fault stops the send queue alone. */
static void uc_send_error(void **state)
{
	struct pair *pair = start(IBV_QPT_UC, PACKET_IB, false);

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .local = (64 << 10) - 10, .bytes = 20 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_SQE);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_datagram_has_no_grh),
		cmocka_unit_test(global_datagram_has_a_grh),
		cmocka_unit_test(roce_datagram_has_an_ip_header),
		cmocka_unit_test(sizes_up_to_the_mtu),
		cmocka_unit_test(too_long_to_send),
		cmocka_unit_test(what_does_not_fit_is_dropped),
		cmocka_unit_test(a_receive_whose_memory_is_refused_stops_the_qp),
		cmocka_unit_test(multicast),
		cmocka_unit_test(uc_faults),
		cmocka_unit_test(uc_errors_drop_the_message),
		cmocka_unit_test(uc_writes),
		cmocka_unit_test(uc_send_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
