/* Queue pairs as objects: what creation refuses and reports, numbers, references, and that failing leaks nothing. */
#include "adapter.h"

struct parts {
	struct adapter *a;
	struct pd *pd, *pd1;
	struct cq *cq, *cq1;
	struct srq *srq, *xrc_srq;
	struct xrcd *xrcd;
};

static int open_parts(void **state)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_BASIC };
	struct parts *p = calloc(1, sizeof(*p));

	p->a = adapter_new();
	assert_int_equal(pd_create(&p->a->ca, p->a->ib, &p->pd), 0);
	assert_int_equal(pd_create(&p->a->ca, p->a->roce, &p->pd1), 0);
	assert_int_equal(cq_create(&p->a->ca, p->a->ib, 8, &p->cq), 0);
	assert_int_equal(cq_create(&p->a->ca, p->a->roce, 8, &p->cq1), 0);
	assert_int_equal(xrcd_open(&p->a->ca, p->a->ib, 0, 0, 0100, &p->xrcd), 0);
	assert_int_equal(srq_create(p->pd, &attr, NULL, NULL, &p->srq), 0);
	attr.srq_type = IBV_SRQT_XRC;
	assert_int_equal(srq_create(p->pd, &attr, p->xrcd, p->cq, &p->xrc_srq), 0);
	*state = p;
	return 0;
}

static int close_parts(void **state)
{
	struct parts *p = *state;

	adapter_delete(p->a);
	free(p);
	return 0;
}

static void types_need_their_objects(void **state)
{
	const struct parts *p = *state;
	const struct {
		enum ibv_qp_type type;
		struct pd *pd;
		struct cq *send, *recv;
		struct srq *srq;
		struct xrcd *xrcd;
		int result;
	} row[] = {
		{ IBV_QPT_RC, p->pd, p->cq, p->cq, NULL, NULL, 0 },
		{ IBV_QPT_UC, p->pd, p->cq, p->cq, NULL, NULL, 0 },
		{ IBV_QPT_UD, p->pd, p->cq, p->cq, p->srq, NULL, 0 },
		{ IBV_QPT_XRC_SEND, p->pd, p->cq, NULL, NULL, NULL, 0 },
		{ IBV_QPT_XRC_SEND, p->pd, p->cq, p->cq, NULL, NULL, 0 },
		{ IBV_QPT_XRC_RECV, NULL, NULL, NULL, NULL, p->xrcd, 0 },
		{ IBV_QPT_XRC_RECV, p->pd, p->cq, p->cq, NULL, p->xrcd, 0 },
		{ IBV_QPT_RC, NULL, p->cq, p->cq, NULL, NULL, -EINVAL },
		{ IBV_QPT_RC, p->pd, NULL, p->cq, NULL, NULL, -EINVAL },
		{ IBV_QPT_RC, p->pd, p->cq, NULL, NULL, NULL, -EINVAL },
		{ IBV_QPT_RC, p->pd, p->cq, p->cq, p->xrc_srq, NULL, -EINVAL },
		{ IBV_QPT_RC, p->pd1, p->cq, p->cq, NULL, NULL, -EINVAL },
		{ IBV_QPT_RC, p->pd, p->cq1, p->cq, NULL, NULL, -EINVAL },
		{ IBV_QPT_RC, p->pd, p->cq, p->cq1, NULL, NULL, -EINVAL },
		{ IBV_QPT_XRC_RECV, NULL, NULL, NULL, NULL, NULL, -EINVAL },
		{ IBV_QPT_XRC_SEND, p->pd, p->cq, NULL, p->srq, NULL, -EINVAL },
		{ IBV_QPT_RAW_PACKET, p->pd, p->cq, p->cq, NULL, NULL, -EOPNOTSUPP },
		{ IBV_QPT_DRIVER, p->pd, p->cq, p->cq, NULL, NULL, -EOPNOTSUPP },
		{ (enum ibv_qp_type)77, p->pd, p->cq, p->cq, NULL, NULL, -EOPNOTSUPP },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ibv_qp_init_attr_ex init = { .qp_type = row[i].type, .cap = { 1, 1, 1, 1, 0 } };
		struct qp *qp = NULL;

		assert_int_equal(qp_create(&p->a->ca, p->a->ib, &init, row[i].pd, row[i].send, row[i].recv, row[i].srq,
					   row[i].xrcd, &qp), row[i].result);
		assert_true(!qp == (row[i].result < 0));
		if (!qp)
			continue;
		assert_ptr_equal(qp_find(&p->a->ca, qp->qpn), qp);
		assert_int_equal(qp->state, IBV_QPS_RESET);
		assert_int_equal(qp_destroy(qp), 0);
	}
	assert_int_equal(p->pd->refs, 2);
	assert_int_equal(p->cq->refs, 1);
	assert_int_equal(p->srq->refs, 0);
	assert_int_equal(p->xrcd->users, 1);
}

static void sizes_are_limited_and_reported(void **state)
{
	const struct parts *p = *state;
	static const struct { struct ibv_qp_cap cap; int result; } row[] = {
		{ { 0, 0, 0, 0, 0 }, 0 },
		{ { 1, 1, 1, 1, 0 }, 0 },
		{ { 100, 200, 32, 32, 1024 }, 0 },
		{ { 32769, 1, 1, 1, 0 }, -EINVAL },
		{ { 1, 32769, 1, 1, 0 }, -EINVAL },
		{ { 1, 1, 33, 1, 0 }, -EINVAL },
		{ { 1, 1, 1, 33, 0 }, -EINVAL },
		{ { 1, 1, 1, 1, 1025 }, -EINVAL },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = row[i].cap };
		struct ibv_qp_init_attr asked;
		struct ibv_qp_attr attr;
		struct qp *qp;

		assert_int_equal(qp_create(&p->a->ca, p->a->ib, &init, p->pd, p->cq, p->cq, NULL, NULL, &qp), row[i].result);
		if (row[i].result < 0) {
			assert_memory_equal(&init.cap, &row[i].cap, sizeof(init.cap));
			continue;
		}
		assert_true(init.cap.max_send_wr >= row[i].cap.max_send_wr && init.cap.max_recv_wr >= row[i].cap.max_recv_wr);
		assert_true(init.cap.max_send_sge >= row[i].cap.max_send_sge);
		assert_true(init.cap.max_inline_data >= row[i].cap.max_inline_data);
		assert_int_equal(qp_query(qp, &attr, 0, &asked), 0);
		assert_memory_equal(&asked.cap, &init.cap, sizeof(init.cap));
		assert_int_equal(attr.qp_state, IBV_QPS_RESET);
		assert_int_equal(qp_destroy(qp), 0);
	}
}

static void extras_are_refused(void **state)
{
	const struct parts *p = *state;
	static const struct { struct ibv_qp_init_attr_ex init; int result; } row[] = {
		{ { .qp_type = IBV_QPT_RC, .comp_mask = 1 << 7 }, -EINVAL },
		{ { .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS }, 0 },
		{ { .qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
		    .create_flags = IBV_QP_CREATE_SCATTER_FCS }, -EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_MAX_TSO_HEADER, .max_tso_header = 1 }, -EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_RX_HASH }, -EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_IND_TABLE }, -EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		    .send_ops_flags = IBV_QP_EX_WITH_SEND }, 0 },
		{ { .qp_type = IBV_QPT_UD, .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		    .send_ops_flags = IBV_QP_EX_WITH_RDMA_READ }, -EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		    .send_ops_flags = IBV_QP_EX_WITH_TSO }, -EOPNOTSUPP },
		{ { .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		    .send_ops_flags = 1ull << 40 }, -EOPNOTSUPP },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ibv_qp_init_attr_ex init = row[i].init;
		struct qp *qp;

		assert_int_equal(qp_create(&p->a->ca, p->a->ib, &init, p->pd, p->cq, p->cq, NULL, NULL, &qp), row[i].result);
	}
}

/* The arena runs out at every possible point, then the transport refuses: everything is given back each time. */
static void failing_leaks_nothing(void **state)
{
	(void)state;
	for (unsigned pages = 1; pages < 30; pages++) {
		struct adapter *a = adapter_new_sized(pages * ARENA_PAGE);
		struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 60, 90, 1, 1, 0 } };
		struct qp *qp = NULL;
		struct pd *pd;
		struct cq *cq;
		uint64_t rest;
		int err;

		assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
		if (cq_create(&a->ca, a->ib, 100, &cq) < 0) {
			adapter_delete(a);
			continue;
		}
		a->init_error = pages % 3 == 1 ? -ENOMEM : 0;
		a->no_number = pages % 3 == 2;
		err = qp_create(&a->ca, a->ib, &init, pd, cq, cq, NULL, NULL, &qp);
		assert_true(err == 0 || err == -ENOMEM);
		if (qp)
			assert_int_equal(qp_destroy(qp), 0);
		assert_int_equal(a->qpns, 0);
		assert_int_equal(cq_destroy(cq), 0);
		assert_int_equal(pd_destroy(pd), 0);
		assert_int_equal(arena_alloc(&a->ca.arena, pages * ARENA_PAGE, &rest), 0);
		adapter_delete(a);
	}
}

/* SAN-16: thousands of queue pairs, found by number. */
/* IPS-18: what a QP's queues take is counted while it exists. */
static void pinned_bytes_are_counted(void **state)
{
	struct adapter *a = adapter_new();
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 60, 90, 1, 1, 0 } };
	uint64_t before, rings;
	struct qp *qp;
	struct pd *pd;
	struct cq *cq;

	(void)state;
	assert_int_equal(a->ca.arena.pinned, 0);
	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->ib, 100, &cq), 0);
	before = a->ca.arena.pinned;
	assert_true(before >= 100 * sizeof(struct cqe));
	assert_int_equal(qp_create(&a->ca, a->ib, &init, pd, cq, cq, NULL, NULL, &qp), 0);
	rings = (uint64_t)qp->sq.engine.ring.pages * qp->sq.engine.ring.slots_per_page * qp->sq.engine.ring.stride +
		(uint64_t)qp->rq.engine.ring.pages * qp->rq.engine.ring.slots_per_page * qp->rq.engine.ring.stride;
	assert_true(a->ca.arena.pinned >= before + rings);
	assert_int_equal(ca_counters(&a->ca).queue_bytes, a->ca.arena.pinned);
	assert_int_equal(a->ca.arena.pinned % ARENA_UNIT, 0);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(a->ca.arena.pinned, before);
	assert_int_equal(cq_destroy(cq), 0);
	assert_int_equal(a->ca.arena.pinned, 0);
	adapter_delete(a);
}

static void thousands_are_found_by_number(void **state)
{
	struct adapter *a = adapter_new_sized(ADAPTER_BYTES);
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	static struct qp *qp[4096];
	struct pd *pd;
	struct cq *cq;

	(void)state;
	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(cq_create(&a->ca, a->ib, 4096, &cq), 0);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(qp_create(&a->ca, a->ib, &init, pd, cq, cq, NULL, NULL, &qp[i]), 0);
	for (unsigned i = 0; i < 4096; i++) {
		assert_ptr_equal(qp_find(&a->ca, qp[i]->qpn), qp[i]);
		assert_null(qp_find(&a->ca, qp[i]->qpn | 1u << 24));
	}
	for (unsigned i = 0; i < 4096; i += 2) {
		uint32_t qpn = qp[i]->qpn;

		assert_int_equal(qp_destroy(qp[i]), 0);
		assert_null(qp_find(&a->ca, qpn));
	}
	adapter_delete(a);
}

/* By its number, and only from the domain that it is in. */
static void shared_queue_pairs_are_opened_within_their_domain(void **state)
{
	struct adapter *a = ((struct parts *)*state)->a;
	struct qp *qp = adapter_qp(a, IBV_QPT_XRC_RECV, 8, NULL), *rc = adapter_qp(a, IBV_QPT_RC, 8, NULL), *opened = NULL;
	struct xrcd *other;

	assert_int_equal(xrcd_open(&a->ca, a->ib, 0, 0, 0100, &other), 0);
	assert_int_equal(qp_open(other, qp->qpn, &opened), -EINVAL);
	assert_int_equal(qp_open(qp->xrcd, rc->qpn, &opened), -EINVAL);
	assert_int_equal(qp_open(qp->xrcd, qp->qpn ^ 1, &opened), -ENOENT);
	assert_null(opened);
	assert_int_equal(qp_open(qp->xrcd, qp->qpn, &opened), 0);
	assert_ptr_equal(opened, qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_ptr_equal(qp_find(&a->ca, qp->qpn), qp);
	assert_int_equal(qp_destroy(qp), 0);
}

#define PARTS(test) cmocka_unit_test_setup_teardown(test, open_parts, close_parts)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PARTS(types_need_their_objects),
		PARTS(sizes_are_limited_and_reported),
		PARTS(extras_are_refused),
		PARTS(shared_queue_pairs_are_opened_within_their_domain),
		cmocka_unit_test(failing_leaks_nothing),
		cmocka_unit_test(pinned_bytes_are_counted),
		cmocka_unit_test(thousands_are_found_by_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
