/* Posting and completing: what each opcode, flag and state answers, what is copied, and the four-way ledger of credits. */
#include "adapter.h"

static struct qp *ready_qp(struct adapter *a, enum ibv_qp_type type)
{
	struct qp *qp = adapter_qp(a, type, 64, NULL);

	adapter_move(qp, IBV_QPS_RTS);
	return qp;
}

static int post_one(struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int err = qp_post_send(qp, 1, wr, &bad);

	assert_ptr_equal(bad, err ? wr : NULL);
	wq_check(&qp->sq);
	return err;
}

/* As the engine has it once it starts. */
static const struct send_wqe *started(struct qp *qp, uint32_t index)
{
	while (qp->sq.engine.fetched <= index)
		qp_send_fetch(qp);
	return qp_send_wqe(qp, index);
}

static void opcodes_depend_on_the_type(void **state)
{
	/* which of RC, UC, UD, XRC_SEND may post it */
	static const struct { enum ibv_wr_opcode opcode; bool may[4]; } row[] = {
		{ IBV_WR_SEND, { 1, 1, 1, 1 } }, { IBV_WR_SEND_WITH_IMM, { 1, 1, 1, 1 } },
		{ IBV_WR_SEND_WITH_INV, { 1, 0, 0, 1 } }, { IBV_WR_RDMA_WRITE, { 1, 1, 0, 1 } },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, { 1, 1, 0, 1 } }, { IBV_WR_RDMA_READ, { 1, 0, 0, 1 } },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, { 1, 0, 0, 1 } }, { IBV_WR_ATOMIC_FETCH_AND_ADD, { 1, 0, 0, 1 } },
		{ IBV_WR_LOCAL_INV, { 1, 1, 0, 1 } }, { IBV_WR_TSO, { 0, 0, 0, 0 } }, { IBV_WR_DRIVER1, { 0, 0, 0, 0 } },
		{ (enum ibv_wr_opcode)14, { 0, 0, 0, 0 } }, { (enum ibv_wr_opcode)16, { 0, 0, 0, 0 } },
		{ (enum ibv_wr_opcode)-1, { 0, 0, 0, 0 } },
	};
	static const enum ibv_qp_type type[4] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND };
	struct adapter *a = adapter_new();

	(void)state;
	for (unsigned t = 0; t < 4; t++) {
		struct qp *qp = ready_qp(a, type[t]);
		struct ah ah = { .pd = qp->pd };

		for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
			struct ibv_send_wr wr = { .opcode = row[i].opcode };

			if (type[t] == IBV_QPT_UD)
				wr.wr.ud.ah = &ah.ibv;
			assert_int_equal(post_one(qp, &wr), row[i].may[t] ? 0 : -EINVAL);
			if (qp->sq.ulp.credits < 2) {
				qp_flush_send(qp);
				cq_clean(qp->send_cq, qp->qpn);
				wq_reset(&qp->sq);
			}
		}
	}
	adapter_delete(a);
}

static void states_decide_who_may_post(void **state)
{
	static const struct { enum ibv_qp_state state; int send, recv; } row[] = {
		{ IBV_QPS_RESET, -EINVAL, -EINVAL }, { IBV_QPS_INIT, -EINVAL, 0 }, { IBV_QPS_RTR, -EINVAL, 0 },
		{ IBV_QPS_RTS, 0, 0 }, { IBV_QPS_SQD, 0, 0 }, { IBV_QPS_SQE, 0, 0 }, { IBV_QPS_ERR, 0, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct adapter *a = adapter_new();
		struct qp *qp = adapter_qp(a, IBV_QPT_RC, 16, NULL);
		struct ibv_recv_wr recv = { .wr_id = 1 };
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
		const struct ibv_recv_wr *bad = NULL;

		qp->state = row[i].state;
		assert_int_equal(post_one(qp, &wr), row[i].send);
		assert_int_equal(qp_post_recv(qp, 1, &recv, &bad), row[i].recv);
		assert_ptr_equal(bad, row[i].recv ? &recv : NULL);
		assert_int_equal(a->doorbells, row[i].send == 0 && row[i].state != IBV_QPS_SQE && row[i].state != IBV_QPS_ERR);
		adapter_delete(a);
	}
}

static void bad_requests_are_refused(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_RC), *ud = ready_qp(a, IBV_QPT_UD);
	struct ibv_sge sge[6] = { { 0 } };
	uint8_t data[100] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 11; i++) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1 };
		struct qp *at = qp;

		sge[0] = (struct ibv_sge){ .addr = (uintptr_t)data, .length = 8 };
		switch (i) {
		case 0: wr.num_sge = 5; break;
		case 1: wr.num_sge = -1; break;
		case 2: wr.send_flags = 1 << 4; break;		/* IP checksum: not offered */
		case 3: wr.send_flags = 1 << 9; break;
		case 4: wr.send_flags = IBV_SEND_INLINE; sge[0].length = 65; break;
		case 5: wr.send_flags = IBV_SEND_INLINE; wr.opcode = IBV_WR_RDMA_READ; break;
		case 6: wr.send_flags = IBV_SEND_INLINE; wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD; break;
		case 7: at = ud; break;				/* no address handle */
		case 8: wr.opcode = IBV_WR_ATOMIC_WRITE; sge[0].length = 4; break;
		case 9: wr.opcode = IBV_WR_BIND_MW; break;	/* no window */
		case 10: wr.send_flags = 1u << 31 | IBV_SEND_SIGNALED; break;
		}
		assert_int_equal(post_one(at, &wr), -EINVAL);
		assert_int_equal(at->sq.ulp.written, 0);
	}
	assert_int_equal(a->doorbells, 0);
	adapter_delete(a);
}

static void a_list_is_posted_up_to_the_bad_one(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_RC);
	struct ibv_send_wr wr[4] = { { .opcode = IBV_WR_SEND, .next = &wr[1] }, { .opcode = IBV_WR_RDMA_WRITE, .next = &wr[2] },
				     { .opcode = IBV_WR_TSO, .next = &wr[3] }, { .opcode = IBV_WR_SEND } }, *bad = NULL;
	struct ibv_recv_wr recv[3] = { { .next = &recv[1] }, { .next = &recv[2], .num_sge = 9 }, { 0 } };
	const struct ibv_recv_wr *bad_recv = NULL;
	struct ibv_send_wr one = { .opcode = IBV_WR_SEND };

	(void)state;
	assert_int_equal(qp_post_send(qp, 1, wr, &bad), -EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(qp->sq.engine.announced, 2);
	assert_int_equal(a->doorbells, 1);
	assert_int_equal(qp_post_recv(qp, 1, recv, &bad_recv), -EINVAL);
	assert_ptr_equal(bad_recv, &recv[1]);
	assert_int_equal(qp->rq.engine.announced, 1);
	while (qp->sq.ulp.credits)
		assert_int_equal(post_one(qp, &one), 0);
	assert_int_equal(post_one(qp, &one), -ENOMEM);
	adapter_delete(a);
}

static void wqes_hold_what_was_posted(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_RC);
	char text[] = "inline", more[] = " data";
	struct ibv_sge sge[2] = { { (uintptr_t)text, 6, 0 }, { (uintptr_t)more, 6, 0 } };
	struct ibv_send_wr wr = { .wr_id = 42, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = 0x01020304,
				  .sg_list = sge, .num_sge = 2,
				  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
				  .wr.rdma = { 0x1234567890, 0xabcdef01 } };
	const struct send_wqe *wqe;

	(void)state;
	assert_int_equal(post_one(qp, &wr), 0);
	memset(text, 0, sizeof(text));
	wqe = started(qp, 0);
	assert_int_equal(wqe->wr_id, 42);
	assert_int_equal(wqe->imm, 0x01020304);
	assert_int_equal(wqe->length, 12);
	assert_int_equal(wqe->num_sge, 0);
	assert_string_equal((char *)wqe->seg, "inline data");
	assert_int_equal(wqe->remote_addr, 0x1234567890);
	assert_int_equal(wqe->rkey, 0xabcdef01);
	assert_int_equal(wqe->flags, wr.send_flags);
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .sg_list = sge, .num_sge = 1,
				   .wr.atomic = { 0x88, 5, 6, 7 } };
	sge[0] = (struct ibv_sge){ 0x1000, 8, 3 };
	assert_int_equal(post_one(qp, &wr), 0);
	wqe = started(qp, 1);
	assert_int_equal(wqe->remote_addr, 0x88);
	assert_int_equal(wqe->compare_add, 5);
	assert_int_equal(wqe->swap, 6);
	assert_int_equal(wqe->rkey, 7);
	assert_int_equal(wqe->seg[0].lkey, 3);
	assert_false(wqe->bad_status);
	sge[0].length = 4;
	assert_int_equal(post_one(qp, &wr), 0);
	wqe = started(qp, 2);
	assert_int_equal(wqe->bad_status, IBV_WC_LOC_LEN_ERR);
	adapter_delete(a);
}

static void datagrams_carry_their_address(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_UD);
	struct pd other = { 0 };
	struct ah ah = { .pd = qp->pd, .av = { .dlid = 9, .port_num = 1 } };
	struct ibv_sge sge = { 0x1000, 2048, 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .wr.ud = { &ah.ibv, 0x123456, 0x22222222 } };
	const struct send_wqe *wqe;

	(void)state;
	assert_int_equal(post_one(qp, &wr), 0);
	wqe = started(qp, 0);
	assert_int_equal(wqe->av.dlid, 9);
	assert_int_equal(wqe->remote_qpn, 0x123456);
	assert_int_equal(wqe->qkey, 0x22222222);
	assert_false(wqe->bad_status);
	wr.wr.ud.remote_qkey = 0x80000000;	/* IBA 10.2.5 */
	sge.length++;				/* more than the port's MTU */
	assert_int_equal(post_one(qp, &wr), 0);
	wqe = started(qp, 1);
	assert_int_equal(wqe->qkey, 0x11111111);
	assert_int_equal(wqe->bad_status, IBV_WC_LOC_LEN_ERR);
	sge.length = 1;
	ah.pd = &other;
	assert_int_equal(post_one(qp, &wr), 0);
	assert_int_equal(started(qp, 2)->bad_status, IBV_WC_LOC_QP_OP_ERR);
	adapter_delete(a);
}

/* IPS-31: 7 unsignaled and 1 signaled give 8 credits with one completion. */
static void unsignaled_sends_return_with_the_next_signaled_one(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_RC);
	uint32_t credits = qp->sq.ulp.credits;
	struct cqe cqe;

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_one(qp, &(struct ibv_send_wr){ .wr_id = i, .opcode = IBV_WR_SEND,
								     .send_flags = i == 7 ? IBV_SEND_SIGNALED : 0 }), 0);
	for (unsigned i = 0; i < 8; i++)
		qp_send_complete(qp, IBV_WC_SUCCESS);
	assert_int_equal(qp->sq.ulp.credits, credits - 8);
	assert_true(cq_poll(qp->send_cq, &cqe));
	assert_int_equal(cqe.wr_id, 7);
	assert_int_equal(cqe.opcode, IBV_WC_SEND);
	assert_int_equal(qp->sq.ulp.credits, credits);
	assert_false(cq_poll(qp->send_cq, &cqe));
	adapter_delete(a);
}

/* What has one segment is the engine's when it is posted, unless something before it is not. */
static void requests_are_copied_in_their_turn(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_RC);
	struct ibv_sge sge[2] = { { 0x1000, 8, 5 }, { 0x2000, 8, 6 } };
	static const int sges[] = { 1, 2, 1, 0, 1 };

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(post_one(qp, &(struct ibv_send_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .sg_list = sge,
								     .num_sge = sges[i] }), 0);
		assert_int_equal(qp->sq.engine.fetched, 1);
	}
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(started(qp, i)->wr_id, i);
		assert_int_equal(started(qp, i)->num_sge, sges[i]);
	}
	adapter_delete(a);
}

static void builders_write_abort_and_ring(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_RC);
	const struct ibv_sge huge[3] = { { 0x1000, UINT32_MAX, 5 }, { 0x1000, UINT32_MAX, 5 }, { 0x1000, 2, 5 } };
	struct send_wqe *wqe;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		const struct ibv_sge sge[2] = { { 0x1000, 10, 5 }, { 0x2000, i, 6 } };

		wqe = qp_send_slot(qp);
		wqe->opcode = IBV_WR_SEND;
		qp_send_data(wqe, sge, 2);
		assert_int_equal(qp_send_written(qp, wqe), 0);
		assert_int_equal(wqe->num_sge, 2);
		assert_int_equal(wqe->seg[1].lkey, 6);
		assert_int_equal(wqe->length, 10 + i);
		assert_int_equal(wqe->bad_status, 0);
	}
	wqe = qp_send_slot(qp);
	wqe->opcode = IBV_WR_SEND;
	qp_send_data(wqe, huge, 3);
	assert_int_equal(qp_send_written(qp, wqe), 0);
	assert_int_equal(wqe->length, UINT32_MAX);
	qp_send_abort(qp, 1);
	qp_send_abort(qp, 3);
	qp_send_ring(qp, 1);
	assert_int_equal(a->doorbells, 0);
	wqe = qp_send_slot(qp);
	wqe->opcode = IBV_WR_TSO;
	assert_int_equal(qp_send_written(qp, wqe), -EINVAL);
	wqe->opcode = IBV_WR_SEND;
	assert_int_equal(qp_send_written(qp, wqe), 0);
	qp_send_ring(qp, 1);
	assert_int_equal(a->doorbells, 1);
	assert_int_equal(wq_pending(&qp->sq.engine), 1);
	qp->state = IBV_QPS_INIT;
	assert_int_equal(qp_send_written(qp, qp_send_slot(qp)), -EINVAL);
	adapter_delete(a);
}

/* A receive WQE's count of segments is in memory that others can map. */
static void hostile_receives_are_bounded(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = ready_qp(a, IBV_QPT_RC);
	struct ibv_sge sge = { 0x1000, 100, 7 };
	const struct ibv_recv_wr *bad;
	struct recv_ref ref;
	struct recv_wqe *wqe;

	(void)state;
	assert_int_equal(qp_post_recv(qp, 1, &(struct ibv_recv_wr){ .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, &bad), 0);
	wqe = wq_ulp_at(&qp->rq.ulp, 0);
	wqe->num_sge = 1 << 30;
	wqe->seg[1].length = UINT32_MAX;
	assert_true(qp_recv_take(qp, NULL, &ref));
	assert_int_equal(ref.num_sge, 4);
	assert_int_equal(ref.length, UINT32_MAX);
	qp_recv_untake(qp, &ref);
	assert_true(qp_recv_take(qp, NULL, &ref));
	assert_int_equal(ref.wr_id, 3);
	assert_false(qp_recv_take(qp, NULL, &ref));
	adapter_delete(a);
}

/* IPS-46: the four counts over a random run of posts, doorbells, completions and polls on two QPs that share a CQ. */
static void ledger_of_a_random_run(uint64_t seed)
{
	struct adapter *a = adapter_new();
	struct qp *qp[2] = { ready_qp(a, IBV_QPT_RC), NULL };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 } };
	struct cq *cq = qp[0]->send_cq;
	struct rand rand;

	rand_seed(&rand, seed);
	assert_int_equal(qp_create(&a->ca, a->ib, &init, qp[0]->pd, cq, cq, NULL, NULL, &qp[1]), 0);
	adapter_move(qp[1], IBV_QPS_RTS);
	for (unsigned step = 0; step < 3000; step++) {
		struct qp *at = qp[rand_below(&rand, 2)];
		unsigned flags = rand_below(&rand, 2) ? IBV_SEND_SIGNALED : 0;
		struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = flags }, *bad;
		struct ibv_recv_wr recv = { 0 };
		const struct ibv_recv_wr *bad_recv;
		struct recv_ref ref;
		struct cqe cqe = { .opcode = IBV_WC_RECV };
		bool takes_send = at->sq.ulp.credits, takes_recv = at->rq.ulp.credits;

		switch (rand_below(&rand, 6)) {
		case 0:
			assert_int_equal(qp_post_send(at, step, &send, &bad), takes_send ? 0 : -ENOMEM);
			break;
		case 1:
			assert_int_equal(qp_post_recv(at, step, &recv, &bad_recv), takes_recv ? 0 : -ENOMEM);
			break;
		case 2:
			if (wq_pending(&at->sq.engine) && cq->engine.free_space)
				qp_send_complete(at, IBV_WC_SUCCESS);
			break;
		case 3:
			if (!qp_recv_take(at, NULL, &ref))
				break;
			if (cq->engine.free_space && rand_below(&rand, 4))
				qp_recv_complete(at, &ref, &cqe, false);
			else
				qp_recv_untake(at, &ref);
			break;
		case 4:
			(void)cq_take(cq, &cqe);
			break;
		default:
			cq_doorbell(cq);
		}
		for (unsigned i = 0; i < 2; i++) {
			wq_check(&qp[i]->sq);
			wq_check(&qp[i]->rq);
		}
		cq_check(cq);
	}
	assert_int_equal(a->async_events, 0);
	adapter_delete(a);
}

static void random_ledgers(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++)
		ledger_of_a_random_run(seed);
}

/* A queue without memory has no doorbell that could be rung. */
static void a_queue_for_none_touches_nobody_elses_memory(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp;
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 8, .max_send_sge = 1 } };
	struct cqe cqe = { .wr_id = 0x1122334455667788, .status = IBV_WC_SUCCESS }, polled;
	struct ibv_recv_wr wr = { .wr_id = 1 };
	const struct ibv_recv_wr *bad;
	struct pd *pd;
	struct cq *cq;

	(void)state;
	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->ib, 8, &cq), 0);	/* the first queue, at the beginning of the arena */
	assert_int_equal(qp_create(&a->ca, a->ib, &init, pd, cq, cq, NULL, NULL, &qp), 0);
	adapter_move(qp, IBV_QPS_RTS);
	cq_push(cq, &cqe, false);
	assert_int_equal(qp_post_recv(qp, 1, &wr, &bad), -ENOMEM);
	assert_int_equal(qp_post_recv(qp, 1, NULL, &bad), 0);
	assert_true(cq_poll(cq, &polled));
	assert_int_equal(polled.wr_id, cqe.wr_id);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opcodes_depend_on_the_type),
		cmocka_unit_test(a_queue_for_none_touches_nobody_elses_memory),
		cmocka_unit_test(states_decide_who_may_post),
		cmocka_unit_test(bad_requests_are_refused),
		cmocka_unit_test(a_list_is_posted_up_to_the_bad_one),
		cmocka_unit_test(wqes_hold_what_was_posted),
		cmocka_unit_test(datagrams_carry_their_address),
		cmocka_unit_test(unsignaled_sends_return_with_the_next_signaled_one),
		cmocka_unit_test(requests_are_copied_in_their_turn),
		cmocka_unit_test(builders_write_abort_and_ring),
		cmocka_unit_test(hostile_receives_are_bounded),
		cmocka_unit_test(random_ledgers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
