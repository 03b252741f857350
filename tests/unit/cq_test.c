/* Completion queues: IPS-36..49, the CQ half of vector 10.10, both overflow profiles, arming, resizing, cleaning. */
#include "adapter.h"

static void push(struct cq *cq, uint64_t wr_id)
{
	cq_push(cq, &(struct cqe){ .wr_id = wr_id, .kind = CQE_SEND, .wqn = 1 }, false);
	cq_check(cq);
}

static void expect(struct cq *cq, uint64_t wr_id)
{
	struct cqe cqe;

	assert_true(cq_poll(cq, &cqe));
	assert_int_equal(cqe.wr_id, wr_id);
	cq_check(cq);
}

static void expect_empty(struct cq *cq)
{
	struct cqe cqe;

	assert_false(cq_peek(cq, &cqe));
	assert_false(cq_poll(cq, &cqe));
}

static struct cq *cq_new(struct adapter *a, int cqe)
{
	struct cq *cq;

	assert_int_equal(cq_create(&a->ca, a->ib, cqe, &cq), 0);
	return cq;
}

static void sizes_out_of_range_are_refused(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = NULL;

	(void)state;
	assert_int_equal(cq_create(&a->ca, a->ib, 0, &cq), -EINVAL);
	assert_int_equal(cq_create(&a->ca, a->ib, -1, &cq), -EINVAL);
	assert_int_equal(cq_create(&a->ca, a->ib, a->ib->attr.orig_attr.max_cqe + 1, &cq), -EINVAL);
	assert_int_equal(cq_create(&a->ca, a->ib, a->ib->attr.orig_attr.max_cqe, &cq), -ENOMEM);
	assert_null(cq);
	adapter_delete(a);
}

/* Vector 10.10: two receives of a queue complete, are reaped, and the CQ doorbell gives their room back. */
static void vector_10_10(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 21, NULL);
	struct ibv_recv_wr wr[5] = { { .wr_id = 100 }, { .wr_id = 101 }, { .wr_id = 102 }, { .wr_id = 103 }, { .wr_id = 104 } };
	const struct ibv_recv_wr *bad;
	uint32_t room = qp->recv_cq->engine.free_space, cq = qp->rq.engine.cq;
	struct recv_ref ref;
	struct cqe cqe;

	(void)state;
	wq_fini(&qp->rq);
	assert_int_equal(wq_init_pages(&qp->rq, &a->ca.arena, 3, 8, 64), 0);
	qp->rq.engine.cq = cq;
	assert_int_equal(qp->rq.ulp.credits, 21);
	for (int i = 0; i < 4; i++)
		wr[i].next = &wr[i + 1];
	adapter_move(qp, IBV_QPS_RTS);
	assert_int_equal(qp_post_recv(qp, 1, wr, &bad), 0);
	assert_int_equal(qp->rq.ulp.credits, 16);
	assert_int_equal(wq_pending(&qp->rq.engine), 5);
	for (int i = 0; i < 2; i++) {
		struct cqe done = { .opcode = IBV_WC_RECV };

		assert_true(qp_recv_take(qp, NULL, &ref));
		qp_recv_complete(qp, &ref, &done, false);
	}
	assert_int_equal(wq_pending(&qp->rq.engine), 3);
	assert_int_equal(qp->recv_cq->engine.free_space, room - 2);
	assert_true(cq_take(qp->recv_cq, &cqe));
	assert_int_equal(cqe.wr_id, 100);
	assert_true(cq_take(qp->recv_cq, &cqe));
	assert_int_equal(cqe.wr_id, 101);
	assert_int_equal(qp->rq.ulp.credits, 18);
	assert_int_equal(qp->recv_cq->ulp.credit_count, 2);
	assert_int_equal(qp->recv_cq->engine.free_space, room - 2);
	cq_doorbell(qp->recv_cq);
	assert_int_equal(qp->recv_cq->ulp.credit_count, 0);
	assert_int_equal(qp->recv_cq->engine.free_space, room);
	wq_check(&qp->rq);
	cq_check(qp->recv_cq);
	adapter_delete(a);
}

static void entries_carry_the_time_and_the_phase(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = cq_new(a, 3);
	struct cqe cqe;

	(void)state;
	for (uint32_t i = 0; i < 3 * cq->engine.ring.capacity; i++) {
		a->ca.now = 1000 + i;
		push(cq, i);
		assert_true(cq_peek(cq, &cqe));
		assert_int_equal(cqe.timestamp_ns, 1000 + i);
		assert_int_equal(cqe.valid, i / cq->engine.ring.capacity % 2 ? 2 : 1);
		expect(cq, i);
		expect_empty(cq);
	}
	adapter_delete(a);
}

/* IPS-49 */
static void many_completions_pass_through_a_small_queue(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = cq_new(a, 4);
	uint64_t in = 0, out = 0;
	struct rand rand;

	(void)state;
	rand_seed(&rand, 3);
	while (out < (1 << 16) + 100) {
		for (uint64_t n = rand_below(&rand, cq->engine.free_space + 1); n--;)
			push(cq, in++);
		for (uint64_t n = rand_below(&rand, in - out + 1); n--;)
			expect(cq, out++);
	}
	assert_int_equal(a->async_events, 0);
	adapter_delete(a);
}

static void standard_overrun_is_fatal_and_told_once(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = cq_new(a, 4);
	uint32_t room = cq->engine.ring.capacity;

	(void)state;
	for (uint32_t i = 0; i < room; i++)
		push(cq, i);
	assert_int_equal(a->async_events, 0);
	push(cq, 900);
	push(cq, 901);
	assert_true(cq->overrun);
	assert_int_equal(a->async_events, 1);
	assert_int_equal(a->last_event, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(a->last_object, cq);
	for (uint32_t i = 0; i < room; i++)
		expect(cq, i);
	push(cq, 902);
	expect_empty(cq);
	adapter_delete(a);
}

static void ignored_overrun_keeps_the_newest(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = cq_new(a, 4);
	uint32_t room = cq->engine.ring.capacity;

	(void)state;
	cq->ignore_overrun = true;
	for (uint32_t i = 0; i < room + 2; i++)
		push(cq, i);
	assert_int_equal(a->async_events, 0);
	for (uint32_t i = 0; i < room; i++)
		expect(cq, i + 2);
	expect_empty(cq);
	adapter_delete(a);
}

/* IPS-40..42, A-25: size 4; the fifth completion interrupts once, none is lost, order is kept, enlarging makes room. */
static void seed_overflow_is_kept_and_asked_for(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq;

	(void)state;
	a->ca.seed_cq_profile = true;
	cq = cq_new(a, 4);
	assert_int_equal(cq_attach(cq, 20), 0);
	assert_int_equal(cq->engine.free_space, 4);
	for (unsigned i = 0; i < 5; i++)
		push(cq, i);
	assert_int_equal(a->async_events, 1);
	for (unsigned i = 5; i < 12; i++)
		push(cq, i);
	assert_int_equal(a->async_events, 1);
	assert_int_equal(cq->engine.free_space, 0);
	assert_int_equal(cq_resize(cq, 8), 0);
	assert_int_equal(cq->engine.tail - cq->ulp.head, 8);
	for (unsigned i = 0; i < 6; i++)
		expect(cq, i);
	assert_int_equal(cq->engine.free_space, 2);
	for (unsigned i = 12; i < 15; i++)
		push(cq, i);
	assert_int_equal(a->async_events, 2);
	for (unsigned i = 6; i < 15; i++)
		expect(cq, i);
	expect_empty(cq);
	assert_false(cq->overrun);
	cq_detach(cq, 20);
	adapter_delete(a);
}

/* On the first lap through its ring a CQ is written in another way. */
static void turn_lap(struct cq *cq)
{
	for (uint32_t i = 0; i < cq->engine.ring.capacity; i++) {
		push(cq, i);
		expect(cq, i);
	}
}

static void arming_fires_once(void **state)
{
	static const struct { bool arm_any, arm_solicited, solicited, failed; unsigned events; } row[] = {
		{ false, false, true, true, 0 },
		{ true, false, false, false, 1 },
		{ false, true, false, false, 0 },
		{ false, true, true, false, 1 },
		{ false, true, false, true, 1 },
		{ true, true, false, false, 1 },
	};

	(void)state;
	for (unsigned turn = 0; turn < 2 * sizeof(row) / sizeof(row[0]); turn++) {
		unsigned i = turn / 2;
		struct adapter *a = adapter_new();
		struct cq *cq = cq_new(a, 8);
		struct cqe cqe = { .status = row[i].failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS };

		if (turn % 2)
			turn_lap(cq);
		push(cq, 1);
		expect(cq, 1);	/* what was removed does not fire */
		if (row[i].arm_any)
			cq_arm(cq, false);
		if (row[i].arm_solicited)
			cq_arm(cq, true);
		cq_push(cq, &cqe, row[i].solicited);
		assert_int_equal(a->cq_events, row[i].events);
		cq_push(cq, &cqe, row[i].solicited);
		assert_int_equal(a->cq_events, row[i].events);
		adapter_delete(a);
	}
}

static void arming_fires_for_what_waits(void **state)
{
	static const struct { bool solicited, failed, solicited_only; unsigned events; } row[] = {
		{ false, false, false, 1 },
		{ true, false, false, 1 },
		{ false, false, true, 0 },
		{ true, false, true, 1 },
		{ false, true, true, 1 },
	};

	(void)state;
	for (unsigned turn = 0; turn < 2 * sizeof(row) / sizeof(row[0]); turn++) {
		unsigned i = turn / 2;
		struct adapter *a = adapter_new();
		struct cq *cq = cq_new(a, 8);
		struct cqe cqe = { .status = row[i].failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS };

		if (turn % 2)
			turn_lap(cq);
		cq_push(cq, &cqe, row[i].solicited);
		cq_arm(cq, row[i].solicited_only);
		assert_int_equal(a->cq_events, row[i].events);
		cq_arm(cq, row[i].solicited_only);
		assert_int_equal(a->cq_events, row[i].events);	/* announced once is enough */
		assert_true(cq_poll(cq, &cqe));
		cq_arm(cq, row[i].solicited_only);
		assert_int_equal(a->cq_events, row[i].events);
		adapter_delete(a);
	}
}

static void resizing_keeps_what_waits(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = cq_new(a, 100);
	uint32_t first = 0;

	(void)state;
	for (unsigned i = 0; i < 90; i++)
		push(cq, i);
	for (; first < 60; first++)
		expect(cq, first);
	for (unsigned i = 90; i < 130; i++)
		push(cq, i);
	assert_int_equal(cq_resize(cq, 69), -EINVAL);
	assert_int_equal(cq_resize(cq, 0), -EINVAL);
	assert_int_equal(cq_resize(cq, 70), 0);
	cq_check(cq);
	assert_int_equal(cq_resize(cq, 1000), 0);
	for (unsigned i = 130; i < 900; i++)
		push(cq, i);
	for (; first < 900; first++)
		expect(cq, first);
	expect_empty(cq);
	adapter_delete(a);
}

static void cleaning_removes_one_queue_pair_only(void **state)
{
	(void)state;
	for (uint32_t start = 0; start < 130; start++) {
		struct adapter *a = adapter_new();
		struct cq *cq = cq_new(a, 40);

		for (uint32_t i = 0; i < start; i++) {
			push(cq, i);
			expect(cq, i);
		}
		for (uint32_t i = 0; i < 30; i++)
			cq_push(cq, &(struct cqe){ .wr_id = i, .kind = CQE_SEND, .wqn = i % 3 }, false);
		cq_clean(cq, 1);
		cq_check(cq);
		push(cq, 1000);
		for (uint32_t i = 0; i < 30; i++)
			if (i % 3 != 1)
				expect(cq, i);
		expect(cq, 1000);
		expect_empty(cq);
		adapter_delete(a);
	}
}

/* What a queue pair leaves when it goes is room for the others. */
static void cleaning_gives_the_room_back(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = cq_new(a, 8);
	uint32_t capacity = cq->engine.ring.capacity;

	(void)state;
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < capacity; i++)
			push(cq, i);
		cq_clean(cq, 1);
		assert_int_equal(cq->engine.free_space, capacity);
	}
	assert_int_equal(a->async_events, 0);
	adapter_delete(a);
}

/* The doorbell is in memory that the consumer writes: one that returns more than was ever there is not believed. */
static void a_doorbell_of_too_much_is_not_believed(void **state)
{
	struct adapter *a = adapter_new();
	struct cq *cq = cq_new(a, 8);
	uint32_t capacity = cq->engine.ring.capacity;

	(void)state;
	for (uint32_t i = 0; i < capacity; i++)
		push(cq, i);
	atomic_store(cq->engine.ring.doorbell, capacity + 1);
	push(cq, 1000);
	assert_true(cq->overrun);
	expect(cq, 0);
	adapter_delete(a);
}

static void a_queue_in_use_stays(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_UD, 8, NULL);
	struct cq *cq = qp->send_cq;

	(void)state;
	assert_int_equal(cq_destroy(cq), -EBUSY);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(cq_destroy(cq), 0);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_out_of_range_are_refused),
		cmocka_unit_test(vector_10_10),
		cmocka_unit_test(entries_carry_the_time_and_the_phase),
		cmocka_unit_test(many_completions_pass_through_a_small_queue),
		cmocka_unit_test(standard_overrun_is_fatal_and_told_once),
		cmocka_unit_test(ignored_overrun_keeps_the_newest),
		cmocka_unit_test(seed_overflow_is_kept_and_asked_for),
		cmocka_unit_test(arming_fires_once),
		cmocka_unit_test(arming_fires_for_what_waits),
		cmocka_unit_test(resizing_keeps_what_waits),
		cmocka_unit_test(cleaning_removes_one_queue_pair_only),
		cmocka_unit_test(cleaning_gives_the_room_back),
		cmocka_unit_test(a_doorbell_of_too_much_is_not_believed),
		cmocka_unit_test(a_queue_in_use_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
