/* What a completion says, in which order things happen when it is made, and that none is lost in a small queue:
 * IPS-19, IPS-29, IPS-36, IPS-38, IPS-40 to IPS-42, SAN-26. */
#include "adapter.h"

/* What the engine's counts were when the owner was told. */
struct moment {
	const struct wq *wq;
	uint32_t pending, free_space, waiting;
	unsigned times;
};

static struct moment told;

static void note_moment(void *owner, struct cq *cq)
{
	(void)owner;
	told.pending = wq_pending(&told.wq->engine);
	told.free_space = cq->engine.free_space;
	told.waiting = cq->engine.tail - cq->ulp.head;
	told.times++;
}

static struct ca_ops noting_host(void)
{
	struct ca_ops ops = adapter_host;

	ops.cq_event = note_moment;
	return ops;
}

static void post_receives(struct qp *qp, uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct ibv_recv_wr wr = { .wr_id = first + i };
		const struct ibv_recv_wr *bad;

		assert_int_equal(qp_post_recv(qp, 1, &wr, &bad), 0);
	}
}

static void receive(struct qp *qp)
{
	struct cqe cqe = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV };
	struct recv_ref ref;

	assert_true(qp_recv_take(qp, NULL, &ref));
	qp_recv_complete(qp, &ref, &cqe, false);
	cq_check(qp->recv_cq);
}

/* IPS-29: pending falls, the entry is written, free space falls, and only then the owner is told. */
static void the_owner_is_told_last(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	struct ca_ops ops = noting_host();
	uint32_t room = qp->recv_cq->engine.free_space;

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	a->ca.ops = &ops;
	told = (struct moment){ .wq = &qp->rq };
	post_receives(qp, 0, 3);
	cq_arm(qp->recv_cq, false);
	receive(qp);
	assert_int_equal(told.times, 1);
	assert_int_equal(told.pending, 2);
	assert_int_equal(told.waiting, 1);
	assert_int_equal(told.free_space, room - 1);
	a->ca.ops = &adapter_host;
	adapter_delete(a);
}

/* SAN-26, IPS-37, IPS-38: three queue pairs share a queue; each entry says whose it is, which WQE, which side, how it ended. */
static void entries_name_their_queue_pair(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp[3] = { adapter_qp(a, IBV_QPT_RC, 64, NULL) };
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 }, .sq_sig_all = 1 };
	struct cq *cq = qp[0]->send_cq;
	struct cqe cqe;

	(void)state;
	for (unsigned i = 1; i < 3; i++)
		assert_int_equal(qp_create(&a->ca, a->ib, &init, qp[0]->pd, cq, cq, NULL, NULL, &qp[i]), 0);
	for (unsigned i = 0; i < 3; i++) {
		adapter_move(qp[i], IBV_QPS_RTS);
		post_receives(qp[i], 0xfedcba9800000000 + i * 100, 2);
	}
	for (unsigned i = 0; i < 6; i++)
		receive(qp[i % 3]);
	for (unsigned i = 1; i < 3; i++) {
		struct ibv_send_wr *bad, wr = { .wr_id = 500 + i, .opcode = IBV_WR_RDMA_READ };

		assert_int_equal(qp_post_send(qp[i], 1, &wr, &bad), 0);
		qp_send_complete(qp[i], i == 1 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	}
	for (unsigned i = 0; i < 6; i++) {
		assert_true(cq_poll(cq, &cqe));
		assert_int_equal(cqe.wqn, qp[i % 3]->qpn);
		assert_int_equal(cqe.wqe_index, i / 3);
		assert_int_equal(cqe.kind, CQE_RECV);
		assert_int_equal(cqe.wr_id, 0xfedcba9800000000 + i % 3 * 100 + i / 3);
	}
	for (unsigned i = 0; i < 3; i++) {	/* six work queues name one CQ, by its index */
		assert_int_equal(qp[i]->sq.engine.cq, cq->handle);
		assert_int_equal(qp[i]->rq.engine.cq, cq->handle);
		assert_ptr_equal(table_get(&a->ca.cqs, qp[i]->sq.engine.cq), cq);
	}
	for (unsigned i = 1; i < 3; i++) {
		assert_true(cq_poll(cq, &cqe));
		assert_int_equal(cqe.wqn, qp[i]->qpn);
		assert_int_equal(cqe.kind, CQE_SEND);
		assert_int_equal(cqe.opcode, IBV_WC_RDMA_READ);
		assert_int_equal(cqe.status, i == 1 ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(cqe.wr_id, 500 + i);
	}
	adapter_delete(a);
}

/* IPS-38: until it is removed, an entry leads to the fields of its WQE. */
static void entries_lead_to_their_wqe(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	struct ibv_sge sge[2] = { { 0x1000, 0x100, 7 }, { 0x2000, 0x200, 8 } };
	struct ibv_recv_wr recv = { .wr_id = 5, .sg_list = sge, .num_sge = 2 };
	struct ibv_send_wr *bad, send = { .wr_id = 6, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { 0x3000, 9 } };
	const struct ibv_recv_wr *bad_recv;
	const struct send_wqe *sent;
	const struct recv_wqe *received;
	struct cqe cqe;

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	assert_int_equal(qp_post_recv(qp, 1, &recv, &bad_recv), 0);
	assert_int_equal(qp_post_send(qp, 1, &send, &bad), 0);
	qp_send_complete(qp, IBV_WC_SUCCESS);
	receive(qp);
	assert_true(cq_peek(qp->send_cq, &cqe));
	sent = cq_wqe(qp->send_cq, &cqe);
	assert_non_null(sent);
	assert_int_equal(sent->opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(sent->remote_addr, 0x3000);
	assert_int_equal(sent->rkey, 9);
	assert_int_equal(sent->num_sge, 1);
	assert_int_equal(sent->seg[0].addr, 0x1000);
	assert_true(cq_poll(qp->send_cq, &cqe));
	assert_null(cq_wqe(qp->send_cq, &cqe));
	assert_true(cq_peek(qp->recv_cq, &cqe));
	received = cq_wqe(qp->recv_cq, &cqe);
	assert_non_null(received);
	assert_int_equal(received->length, 0x300);
	assert_int_equal(received->seg[1].lkey, 8);
	cqe.wqe_index++;
	assert_null(cq_wqe(qp->recv_cq, &cqe));
	cqe.wqn++;
	assert_null(cq_wqe(qp->recv_cq, &cqe));
	adapter_delete(a);
}

static void post_sends(struct qp *qp, uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct ibv_send_wr *bad, wr = { .wr_id = first + i, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

		assert_int_equal(qp_post_send(qp, 1, &wr, &bad), 0);
	}
}

static unsigned waiting_in(const struct cq *cq)
{
	cq_check(cq);
	return cq->engine.tail - cq->ulp.head;
}

/* Who polls an empty queue gets what comes as if it had been in the queue, with its credit, as long as the list has room; what
 * comes behind an entry of the queue, or wakes somebody, or tells of an error, is an entry itself. */
static void who_polls_gets_what_comes(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	struct cq *cq = qp->send_cq;
	struct ibv_wc wc[2];
	struct cqe cqe;
	uint32_t credits;

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	credits = qp->sq.ulp.credits;
	post_sends(qp, 10, 5);
	assert_true(cq_await(cq, 2, wc));
	assert_false(cq_await(cq, 2, wc));	/* another thread */
	for (unsigned i = 0; i < 3; i++)
		qp_send_complete(qp, IBV_WC_SUCCESS);
	assert_int_equal(cq_await_end(cq, wc), 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(wc[i].wr_id, 10 + i);
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
		assert_int_equal(wc[i].opcode, IBV_WC_SEND);
		assert_int_equal(wc[i].qp_num, qp->qpn);
	}
	assert_int_equal(waiting_in(cq), 1);
	assert_int_equal(qp->sq.ulp.credits, credits - 3);
	assert_true(cq_await(cq, 2, wc));	/* one lies there */
	qp_send_complete(qp, IBV_WC_SUCCESS);
	assert_int_equal(cq_await_end(cq, wc), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(cq_poll(cq, &cqe));
		assert_int_equal(cqe.wr_id, 12 + i);
	}
	cq_arm(cq, false);
	assert_true(cq_await(cq, 2, wc));
	qp_send_complete(qp, IBV_WC_SUCCESS);
	assert_int_equal(cq_await_end(cq, wc), 0);
	assert_int_equal(a->cq_events, 1);
	assert_true(cq_poll(cq, &cqe));
	post_sends(qp, 20, 1);
	assert_true(cq_await(cq, 2, wc));
	qp_send_complete(qp, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(cq_await_end(cq, wc), 0);
	assert_true(cq_poll(cq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(qp->sq.ulp.credits, credits);
	wq_check(&qp->sq);
	adapter_delete(a);
}

/* Nothing is free but every other page. */
static void take_every_other_page(struct arena *arena)
{
	uint64_t offset;
	uint32_t pages = 0;

	while (arena_alloc(arena, ARENA_PAGE, &offset) == 0)
		assert_int_equal(offset, (uint64_t)pages++ * ARENA_PAGE);
	for (uint32_t i = 0; i < pages; i += 2)
		arena_free(arena, (uint64_t)i * ARENA_PAGE);
}

/* IPS-36: where the arena is in pieces, the completion queue's pages, like a work queue's, are chained by their last slots into a
 * circle. */
static void completion_pages_form_a_circle(void **state)
{
	struct adapter *a = adapter_new();
	const struct queue_ring *ring;
	struct cq *cq;
	uint64_t offset;

	(void)state;
	take_every_other_page(&a->ca.arena);
	assert_int_equal(cq_create(&a->ca, a->ib, 500, &cq), 0);
	assert_true(cq->engine.ring.pages > 1 && cq->engine.ring.capacity >= 500);
	ring = &cq->ulp.ring;
	offset = ring->offset;
	for (uint32_t i = 0; i < ring->pages; i++) {
		assert_int_equal(offset, ring->page[i] - a->ca.arena.base);
		offset = *(uint64_t *)(a->ca.arena.base + offset + (uint64_t)(ring->slots_per_page - 1) * ring->stride);
	}
	assert_int_equal(offset, ring->offset);
	assert_int_equal(cq_destroy(cq), 0);
	adapter_delete(a);
}

/* In the seed profile: a QP with a completion queue of four, and so many receives posted. */
static struct qp *seed_qp(struct adapter *a, unsigned receives)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 1, receives, 1, 1, 0 } };
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;

	a->ca.seed_cq_profile = true;
	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->ib, 4, &cq), 0);
	assert_int_equal(qp_create(&a->ca, a->ib, &init, pd, cq, cq, NULL, NULL, &qp), 0);
	adapter_move(qp, IBV_QPS_RTS);
	post_receives(qp, 0, receives);
	return qp;
}

/* IPS-42, A-25: twenty receives complete into a queue of four that is reaped late. The fifth completion is kept and the receive
 * queue stops until there is room again, after two were reaped. All come out once each and in order, with one interrupt for each
 * time the queue filled up. */
static void twenty_pass_through_four(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = seed_qp(a, 20);
	struct cq *cq = qp->recv_cq;
	unsigned received = 0;
	struct recv_ref ref;
	struct cqe cqe;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		for (; received < 20 && !cq->asked; received++)
			receive(qp);
		if (received < 20) {
			assert_int_equal(received, 5 + 2 * (i / 2));
			assert_false(qp_recv_take(qp, NULL, &ref));
			assert_false(qp_recv_short(qp, NULL, 0, false));
			assert_int_equal(a->async_events, 1 + i / 2);
		}
		assert_true(cq_poll(cq, &cqe));
		assert_int_equal(cqe.wr_id, i);
		cq_check(cq);
		wq_check(&qp->rq);
	}
	assert_false(cq_poll(cq, &cqe));
	assert_int_equal(cq->engine.free_space, 4);
	assert_int_equal(qp->rq.ulp.credits, qp->rq.engine.ring.capacity);
	adapter_delete(a);
}

/* IPS-42: what a QP that goes to ERR flushes is kept too, though there is room for four only; one interrupt. */
static void a_flush_of_twenty_passes_through_four(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = seed_qp(a, 20);
	struct cq *cq = qp->recv_cq;
	struct cqe cqe;

	(void)state;
	assert_int_equal(qp_modify(qp, 1, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE), 0);
	assert_int_equal(a->async_events, 1);
	for (unsigned i = 0; i < 20; i++) {
		assert_true(cq_poll(cq, &cqe));
		assert_int_equal(cqe.wr_id, i);
		assert_int_equal(cqe.status, IBV_WC_WR_FLUSH_ERR);
		cq_check(cq);
	}
	assert_false(cq_poll(cq, &cqe));
	assert_int_equal(a->async_events, 1);
	assert_int_equal(qp->rq.ulp.credits, qp->rq.engine.ring.capacity);
	adapter_delete(a);
}

/* IPS-40, IPS-41: size 4 and 5 completions give one interrupt; enlarging by 4 adds that to the free space, less what was kept. */
static void enlarging_makes_room(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = seed_qp(a, 5);
	struct cq *cq = qp->recv_cq;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		receive(qp);
	assert_int_equal(a->async_events, 0);
	receive(qp);
	assert_int_equal(a->async_events, 1);
	assert_int_equal(a->last_event, IBV_EVENT_CQ_ERR);
	assert_int_equal(cq_resize(cq, 8), 0);
	assert_int_equal(cq->engine.free_space, 8 - 5);
	cq_check(cq);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_owner_is_told_last),
		cmocka_unit_test(entries_name_their_queue_pair),
		cmocka_unit_test(entries_lead_to_their_wqe),
		cmocka_unit_test(who_polls_gets_what_comes),
		cmocka_unit_test(completion_pages_form_a_circle),
		cmocka_unit_test(twenty_pass_through_four), cmocka_unit_test(a_flush_of_twenty_passes_through_four),
		cmocka_unit_test(enlarging_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
