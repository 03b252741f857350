/* The engine apart from who posts: posting rings doorbells and does nothing else. Whatever is in the shared memory, the engine
 * takes no more than the rings hold. */
#include "adapter.h"

#include "verbs/doorbells.h"

static struct adapter *apart(void)
{
	struct adapter *a = adapter_new();

	assert_int_equal(ca_open_doorbells(&a->ca), 0);
	return a;
}

static struct qp *ready_qp(struct adapter *a)
{
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 64, NULL);

	adapter_move(qp, IBV_QPS_RTS);
	return qp;
}

static void post(struct qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { 0x1000, 8, 5 };
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
				  .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_send(qp, 1, &wr, &bad), 0);
}

static void post_receive(struct qp *qp, uint64_t wr_id)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id };
	const struct ibv_recv_wr *bad;

	assert_int_equal(qp_post_recv(qp, 1, &wr, &bad), 0);
}

static void posting_only_rings(void **state)
{
	struct adapter *a = apart();
	struct qp *qp = ready_qp(a), *other = ready_qp(a);
	unsigned doorbells = a->doorbells, recv_doorbells = a->recv_doorbells;

	(void)state;
	assert_false(doorbells_any(a->ca.doorbells));
	post(qp, 1);
	post(qp, 2);
	post_receive(qp, 3);
	assert_int_equal(qp->sq.engine.fetched, 0);
	assert_int_equal(wq_pending(&qp->sq.engine), 0);
	assert_int_equal(wq_pending(&qp->rq.engine), 0);
	assert_int_equal(a->doorbells, doorbells);
	assert_int_equal(a->recv_doorbells, recv_doorbells);
	assert_true(doorbells_any(a->ca.doorbells));
	ca_read_doorbells(&a->ca, 5);
	assert_int_equal(wq_pending(&qp->sq.engine), 2);
	assert_int_equal(wq_pending(&qp->rq.engine), 1);
	assert_int_equal(wq_pending(&other->sq.engine), 0);
	assert_int_equal(a->doorbells, doorbells + 1);
	assert_int_equal(a->recv_doorbells, recv_doorbells + 1);
	assert_false(doorbells_any(a->ca.doorbells));
	ca_read_doorbells(&a->ca, 6);
	assert_int_equal(a->doorbells, doorbells + 1);
	wq_check(&qp->sq);
	adapter_delete(a);
}

/* Several QPs have a bit where there are more of them than bits. */
static void queue_pairs_that_share_a_bit_are_all_heard(void **state)
{
	struct adapter *a = apart();
	struct qp *qp = ready_qp(a);
	uint32_t slots = a->ca.qps.slots;

	(void)state;
	post(qp, 1);
	atomic_store(&a->ca.doorbells->words, 0);
	doorbells_ring(a->ca.doorbells, qp->handle + 3 * DOORBELL_BITS);
	ca_read_doorbells(&a->ca, 2);
	assert_int_equal(wq_pending(&qp->sq.engine), 1);
	assert_int_equal(a->ca.qps.slots, slots);
	adapter_delete(a);
}

/* All bits, of queues that are gone too, and doorbells that announce anything. */
static void forged_doorbells_announce_nothing(void **state)
{
	struct adapter *a = apart();
	struct qp *qp = ready_qp(a), *gone = ready_qp(a);
	const uint32_t sends[] = { 0, qp->sq.ulp.ring.capacity + 2, UINT32_MAX }, receives[] = { UINT32_MAX, 1u << 31, 1000 };

	(void)state;
	qp_destroy(gone);
	post(qp, 1);
	ca_read_doorbells(&a->ca, 2);
	for (unsigned i = 0; i < 3; i++) {
		memset(a->ca.doorbells, 0xff, sizeof(*a->ca.doorbells));
		atomic_store(qp->sq.ulp.ring.doorbell, sends[i]);
		atomic_store(qp->rq.ulp.ring.doorbell, receives[i]);
		ca_read_doorbells(&a->ca, 3);
		assert_int_equal(wq_pending(&qp->sq.engine), 1);
		assert_int_equal(wq_pending(&qp->rq.engine), 0);
	}
	adapter_delete(a);
}

/* A message that comes before the engine has read the doorbell finds the receive all the same. */
static void a_receive_is_found_by_its_doorbell(void **state)
{
	struct adapter *a = apart();
	struct qp *qp = ready_qp(a);
	struct recv_ref ref;

	(void)state;
	assert_false(qp_recv_take(qp, NULL, &ref));
	post_receive(qp, 7);
	assert_true(qp_recv_take(qp, NULL, &ref));
	assert_int_equal(ref.wr_id, 7);
	adapter_delete(a);
}

static void what_is_posted_to_a_failed_queue_pair_is_flushed(void **state)
{
	struct adapter *a = apart();
	struct qp *qp = ready_qp(a);
	struct cqe cqe;

	(void)state;
	qp_error(qp, 2, -1);
	post(qp, 1);
	post_receive(qp, 2);
	assert_false(cq_poll(qp->send_cq, &cqe));
	ca_read_doorbells(&a->ca, 3);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(cq_poll(qp->send_cq, &cqe));
		assert_int_equal(cqe.status, IBV_WC_WR_FLUSH_ERR);
	}
	assert_false(cq_poll(qp->send_cq, &cqe));
	adapter_delete(a);
}

/* The CQ's doorbell, too, is read when the engine needs it. */
static void room_in_a_completion_queue_is_found(void **state)
{
	struct adapter *a = apart();
	struct qp *qp = ready_qp(a);
	uint32_t room = qp->send_cq->engine.free_space;
	struct cqe cqe;

	(void)state;
	for (uint32_t i = 0; i < 2 * room; i++) {
		post(qp, i);
		ca_read_doorbells(&a->ca, 2);
		qp_send_complete(qp, IBV_WC_SUCCESS);
		assert_true(cq_poll(qp->send_cq, &cqe));
		assert_int_equal(cqe.wr_id, i);
	}
	assert_int_equal(a->async_events, 0);
	assert_int_equal(qp->sq.ulp.credits, qp->sq.ulp.ring.capacity);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(posting_only_rings),
		cmocka_unit_test(queue_pairs_that_share_a_bit_are_all_heard),
		cmocka_unit_test(forged_doorbells_announce_nothing),
		cmocka_unit_test(a_receive_is_found_by_its_doorbell),
		cmocka_unit_test(what_is_posted_to_a_failed_queue_pair_is_flushed),
		cmocka_unit_test(room_in_a_completion_queue_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
