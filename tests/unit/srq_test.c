/* Shared receive queues and XRC domains. */
#include "adapter.h"

#include <fcntl.h>

static struct srq *srq_new(struct adapter *a, struct pd **pd, uint32_t max_wr)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = max_wr, .max_sge = 2 }, .srq_type = IBV_SRQT_BASIC };
	struct srq *srq;

	assert_int_equal(pd_create(&a->ca, a->ib, pd), 0);
	assert_int_equal(srq_create(*pd, &attr, NULL, NULL, &srq), 0);
	return srq;
}

static void post(struct srq *srq, uint64_t first, unsigned n)
{
	const struct ibv_recv_wr *bad;

	for (struct ibv_recv_wr wr = { .wr_id = first }; wr.wr_id < first + n; wr.wr_id++)
		assert_int_equal(srq_post(srq, &wr, &bad), 0);
	wq_check(&srq->wq);
}

static void expect(struct qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
	struct cqe cqe;

	assert_true(cq_poll(qp->recv_cq, &cqe));
	assert_int_equal(cqe.wr_id, wr_id);
	assert_int_equal(cqe.status, status);
	assert_int_equal(cqe.wqn, qp->qpn);
	assert_int_not_equal(cqe.srqn, 0);
}

static void creation_checks_its_arguments(void **state)
{
	struct adapter *a = adapter_new();
	struct srq *srq = NULL;
	struct xrcd *xrcd;
	struct cq *cq;
	struct pd *pd;

	(void)state;
	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->ib, 8, &cq), 0);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 0, 0, O_CREAT, &xrcd), 0);
	const struct { struct ibv_srq_init_attr_ex attr; struct xrcd *xrcd; struct cq *cq; int result; } row[] = {
		{ { .attr = { 0, 1, 0 } }, NULL, NULL, -EINVAL },
		{ { .attr = { 1 << 16, 1, 0 } }, NULL, NULL, -EINVAL },
		{ { .attr = { 1, 33, 0 } }, NULL, NULL, -EINVAL },
		{ { .attr = { 1, 1, 0 }, .srq_type = IBV_SRQT_TM }, NULL, NULL, -EOPNOTSUPP },
		{ { .attr = { 1, 1, 0 }, .srq_type = IBV_SRQT_XRC }, NULL, NULL, -EINVAL },
		{ { .attr = { 1, 1, 0 }, .srq_type = IBV_SRQT_XRC }, xrcd, NULL, -EINVAL },
		{ { .attr = { 1, 1, 0 }, .srq_type = IBV_SRQT_BASIC }, xrcd, cq, -EINVAL },
		{ { .attr = { 1, 1, 0 }, .srq_type = IBV_SRQT_XRC }, xrcd, cq, 0 },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		assert_int_equal(srq_create(pd, &row[i].attr, row[i].xrcd, row[i].cq, &srq), row[i].result);
	assert_true(srq->srqn > 0 && srq->srqn <= PSN_MASK);
	assert_ptr_equal(srq_find(&a->ca, srq->srqn), srq);
	assert_int_equal(xrcd_close(xrcd), -EBUSY);
	assert_int_equal(cq_destroy(cq), -EBUSY);
	assert_int_equal(pd_destroy(pd), -EBUSY);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(xrcd_close(xrcd), 0);
	assert_int_equal(cq_destroy(cq), 0);
	assert_int_equal(pd_destroy(pd), 0);
	adapter_delete(a);
}

/* Two QPs hold receives at once and finish in the other order; credits come back one by one. */
static void receives_complete_out_of_order(void **state)
{
	struct adapter *a = adapter_new();
	struct pd *pd;
	struct srq *srq = srq_new(a, &pd, 8);
	struct qp *one = adapter_qp(a, IBV_QPT_RC, 128, srq), *two = adapter_qp(a, IBV_QPT_RC, 128, srq);
	uint32_t capacity = srq->wq.engine.ring.capacity;
	struct recv_ref first, second;
	struct cqe cqe = { .opcode = IBV_WC_RECV };

	(void)state;
	adapter_move(one, IBV_QPS_RTS);
	adapter_move(two, IBV_QPS_RTS);
	post(srq, 10, 2);
	assert_true(qp_recv_take(one, NULL, &first));
	/* `one` sits on its receive while the ring goes round under it */
	for (unsigned i = 0; i < 5 * capacity; i++) {
		assert_true(qp_recv_take(two, NULL, &second));
		assert_int_equal(second.wr_id, 11 + i);
		qp_recv_complete(two, &second, &cqe, false);
		expect(two, 11 + i, IBV_WC_SUCCESS);
		post(srq, 12 + i, 1);
	}
	assert_int_equal(srq->wq.ulp.credits, capacity - 2);
	qp_recv_untake(one, &first);
	assert_true(qp_recv_take(two, NULL, &second));
	assert_int_equal(second.wr_id, 10);
	qp_recv_complete(two, &second, &cqe, false);
	expect(two, 10, IBV_WC_SUCCESS);
	assert_int_equal(srq->wq.ulp.credits, capacity - 1);
	wq_check(&srq->wq);
	adapter_delete(a);
}

static void the_queue_fills_up_and_says_so(void **state)
{
	struct adapter *a = adapter_new();
	struct pd *pd;
	struct srq *srq = srq_new(a, &pd, 8);
	struct ibv_recv_wr wr = { 0 }, fat = { .num_sge = 3 };
	const struct ibv_recv_wr *bad;

	(void)state;
	assert_int_equal(srq_post(srq, &fat, &bad), -EINVAL);
	post(srq, 0, srq->wq.engine.ring.capacity);
	assert_int_equal(srq_post(srq, &wr, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr);
	adapter_delete(a);
}

static void the_limit_fires_once(void **state)
{
	struct adapter *a = adapter_new();
	struct pd *pd;
	struct srq *srq = srq_new(a, &pd, 8);
	struct qp *qp = adapter_qp(a, IBV_QPT_UD, 128, srq);
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct recv_ref ref;
	struct cqe cqe = { 0 };

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	post(srq, 0, 5);
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(a->async_events, i >= 3);
		assert_true(qp_recv_take(qp, NULL, &ref));
		qp_recv_complete(qp, &ref, &cqe, false);
	}
	assert_int_equal(a->async_events, 1);
	assert_int_equal(a->last_event, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(a->last_object, srq);
	srq_query(srq, &attr);
	assert_int_equal(attr.srq_limit, 0);
	/* arming above what is there fires at once */
	attr.srq_limit = 1;
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(a->async_events, 2);
	attr.srq_limit = 1 << 20;
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_LIMIT), -EINVAL);
	assert_int_equal(srq_modify(srq, &attr, 8), -EINVAL);
	adapter_delete(a);
}

static void resizing_keeps_the_receives(void **state)
{
	struct adapter *a = adapter_new();
	struct pd *pd;
	struct srq *srq = srq_new(a, &pd, 100);
	struct qp *qp = adapter_qp(a, IBV_QPT_UD, 1024, srq);
	struct ibv_srq_attr attr = { .max_wr = 300 };
	struct recv_ref ref;
	struct cqe cqe = { 0 };

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	post(srq, 0, 90);
	assert_true(qp_recv_take(qp, NULL, &ref));
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_true(srq->max_wr >= 300);
	qp_recv_complete(qp, &ref, &cqe, false);
	post(srq, 90, 200);
	attr.max_wr = 100;
	assert_int_equal(srq_modify(srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	for (uint64_t i = 1; i < 290; i++) {
		assert_true(qp_recv_take(qp, NULL, &ref));
		assert_int_equal(ref.wr_id, i);
		qp_recv_complete(qp, &ref, &cqe, false);
	}
	for (uint64_t i = 0; i < 290; i++)
		expect(qp, i, IBV_WC_SUCCESS);
	assert_int_equal(srq->wq.ulp.credits, srq->wq.engine.ring.capacity);
	adapter_delete(a);
}

/* A QP that fails with a half-arrived message flushes that receive, leaves the others, and says it was the last. */
static void errors_flush_the_taken_receive_only(void **state)
{
	struct adapter *a = adapter_new();
	struct pd *pd;
	struct srq *srq = srq_new(a, &pd, 8);
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 64, srq);
	const struct ibv_recv_wr *bad;
	struct recv_ref ref;
	struct cqe cqe = { 0 };

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	assert_int_equal(qp_post_recv(qp, 1, &(struct ibv_recv_wr){ 0 }, &bad), -EINVAL);
	post(srq, 5, 3);
	assert_true(qp_recv_take(qp, NULL, &ref));
	qp_error(qp, 1, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(a->async_events, 2);
	assert_int_equal(a->last_event, IBV_EVENT_QP_LAST_WQE_REACHED);
	expect(qp, 5, IBV_WC_WR_FLUSH_ERR);
	assert_false(cq_poll(qp->recv_cq, &cqe));
	/* what the transport says about it afterwards is too late */
	qp_recv_complete(qp, &ref, &cqe, false);
	assert_false(cq_poll(qp->recv_cq, &cqe));
	assert_int_equal(srq->wq.ulp.credits, srq->wq.engine.ring.capacity - 2);
	assert_int_equal(srq_destroy(srq), -EBUSY);
	adapter_delete(a);
}

static void destroying_a_queue_pair_returns_its_credits(void **state)
{
	struct adapter *a = adapter_new();
	struct pd *pd;
	struct srq *srq = srq_new(a, &pd, 8);
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 64, srq);
	struct recv_ref ref;
	struct cqe cqe = { 0 };

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	post(srq, 0, 4);
	assert_true(qp_recv_take(qp, NULL, &ref));
	qp_recv_complete(qp, &ref, &cqe, false);	/* its completion is never polled */
	assert_true(qp_recv_take(qp, NULL, &ref));
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq->wq.ulp.credits, srq->wq.engine.ring.capacity - 2);
	wq_check(&srq->wq);
	adapter_delete(a);
}

static void xrc_receives_go_to_the_queue_named(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_XRC_RECV, 0, NULL), *again, *rc = adapter_qp(a, IBV_QPT_RC, 8, NULL);
	struct ibv_srq_init_attr_ex attr = { .attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_XRC };
	struct recv_ref ref;
	struct cqe cqe = { 0 };
	struct srq *srq;
	struct pd *pd;
	struct cq *cq;

	(void)state;
	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->ib, 8, &cq), 0);
	assert_int_equal(srq_create(pd, &attr, qp->xrcd, cq, &srq), 0);
	post(srq, 7, 2);
	adapter_move(qp, IBV_QPS_RTS);
	assert_true(qp_recv_take(qp, srq, &ref));
	qp_recv_complete(qp, &ref, &cqe, false);
	assert_true(cq_poll(cq, &cqe));
	assert_int_equal(cqe.wr_id, 7);
	assert_int_equal(cqe.wqn, qp->qpn);
	assert_int_equal(srq->wq.ulp.credits, srq->wq.engine.ring.capacity - 1);
	/* the SRQ goes while a message is half arrived */
	assert_true(qp_recv_take(qp, srq, &ref));
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(a->last_event, IBV_EVENT_QP_FATAL);
	assert_false(cq_poll(cq, &cqe));
	/* shared by number */
	assert_int_equal(qp_open(qp->xrcd, rc->qpn, &again), -EINVAL);
	assert_int_equal(qp_open(qp->xrcd, qp->qpn ^ 1, &again), -ENOENT);
	assert_int_equal(qp_open(qp->xrcd, qp->qpn, &again), 0);
	assert_ptr_equal(again, qp);
	assert_int_equal(qp_destroy(again), 0);
	assert_ptr_equal(qp_find(&a->ca, qp->qpn), qp);
	adapter_delete(a);
}

static void domains_are_shared_by_file(void **state)
{
	struct adapter *a = adapter_new();
	struct xrcd *one, *two;

	(void)state;
	assert_int_equal(xrcd_open(&a->ca, a->ib, 0, 0, 0, &one), -EINVAL);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 1, 2, O_RDWR, &one), -EINVAL);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 1, 2, 0, &one), -EAGAIN);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 1, 2, O_CREAT | O_EXCL, &one), 0);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 1, 2, O_CREAT | O_EXCL, &two), -EINVAL);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 1, 2, O_CREAT, &two), 0);
	assert_ptr_equal(one, two);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 1, 3, O_CREAT, &two), 0);
	assert_ptr_not_equal(one, two);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 0, 0, O_CREAT, &two), 0);
	assert_int_equal(xrcd_close(one), 0);
	assert_int_equal(xrcd_close(one), 0);
	assert_int_equal(xrcd_open(&a->ca, a->ib, 1, 2, 0, &one), -EAGAIN);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(creation_checks_its_arguments),
		cmocka_unit_test(receives_complete_out_of_order),
		cmocka_unit_test(the_queue_fills_up_and_says_so),
		cmocka_unit_test(the_limit_fires_once),
		cmocka_unit_test(resizing_keeps_the_receives),
		cmocka_unit_test(errors_flush_the_taken_receive_only),
		cmocka_unit_test(destroying_a_queue_pair_returns_its_credits),
		cmocka_unit_test(xrc_receives_go_to_the_queue_named),
		cmocka_unit_test(domains_are_shared_by_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
