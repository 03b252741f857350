/* Send queues whose ring somebody writes at will, as another process may whose queue the engine runs. What a WQE says counts as
 * it was when it started. One that no consumer's library would have posted ends in a local error. */
#include "engine_test.h"

#include "verbs/qp.h"

enum { BYTES = 5000, FAR = 20000, TAG = 7 };

static struct pair *pair_of(enum ibv_qp_type type)
{
	struct pair_config config = { .sim = { .seed = 3, .link = { .delay_ns = 1000 } }, .type = type, .retry_cnt = 7,
				      .rnr_retry = 7 };
	struct pair *pair = pair_new(&config);

	pattern_fill(pair->side[0].memory, BYTES, TAG);
	return pair;
}

/* The slot in the ring, as the consumer has it mapped. */
static struct send_wqe *ring_slot(struct pair *pair, uint32_t index)
{
	return wq_ulp_at(&pair->side[0].qp->sq.ulp, index);
}

static void overwrite(struct pair *pair, uint32_t index)
{
	memset(ring_slot(pair, index), 0xff, pair->side[0].qp->sq.engine.ring.stride);
}

static void a_write_that_started_is_not_changed(void **state)
{
	struct pair *pair = pair_of(IBV_QPT_RC);

	(void)state;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 5, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES, .remote = FAR, .pieces = 3 });
	sim_lose_next(pair->sim);
	sim_step(pair->sim);
	overwrite(pair, 0);
	pair_run(pair);
	expect_sent(pair, 0, 5, IBV_WC_SUCCESS);
	expect_nothing(pair, 0);
	assert_true(pattern_holds(pair->side[1].memory + FAR, BYTES, TAG));
	pair_delete(pair);
}

static void a_read_that_started_is_not_changed(void **state)
{
	struct pair *pair = pair_of(IBV_QPT_RC);

	(void)state;
	pattern_fill(pair->side[1].memory + FAR, BYTES, TAG + 1);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 6, .opcode = IBV_WR_RDMA_READ, .bytes = BYTES, .remote = FAR, .pieces = 2 });
	sim_step(pair->sim);
	overwrite(pair, 0);
	pair_run(pair);
	expect_sent(pair, 0, 6, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[0].memory, BYTES, TAG + 1));
	pair_delete(pair);
}

/* The engine's flag that a window was invalidated stood in the ring. */
static void the_engine_writes_nothing_into_a_wqe(void **state)
{
	struct pair *pair = pair_of(IBV_QPT_RC);
	struct pair_side *s = &pair->side[0];
	struct send_wqe bind, *wqe;
	struct mr *mw;

	(void)state;
	assert_int_equal(mw_create(s->pd, IBV_MW_TYPE_2, &mw), 0);
	wqe = qp_send_slot(s->qp);
	wqe->opcode = IBV_WR_BIND_MW;
	wqe->bind_mw_rkey = mw->key;
	wqe->bind_new_rkey = mw->key ^ 1;
	wqe->bind_mr_lkey = s->mr->key;
	wqe->bind_addr = PAIR_IOVA;
	wqe->bind_length = BYTES;
	assert_int_equal(qp_send_written(s->qp, wqe), 0);
	bind = *wqe;
	qp_send_ring(s->qp, pair->sim->now);
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	assert_memory_equal(ring_slot(pair, 0), &bind, sizeof(bind));
	pair_delete(pair);
}

/* As a library would that does not check: straight into the ring, then the doorbell. */
static void announce(struct pair *pair, const struct send_wqe *fields, const struct wqe_seg *seg)
{
	struct qp *qp = pair->side[0].qp;
	struct send_wqe *wqe = qp_send_slot(qp);

	*wqe = *fields;
	for (unsigned i = 0; i < pair->config.sges; i++)
		wqe->seg[i] = *seg;
	wq_written(&qp->sq.ulp);
	qp_send_ring(qp, pair->sim->now);
}

static void what_no_library_posts_ends_in_a_local_error(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		struct send_wqe wqe;
		enum ibv_wc_status status;
	} row[] = {
		{ IBV_QPT_RC, { .opcode = IBV_WR_SEND, .num_sge = 255, .length = 4096 }, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_RDMA_READ, .num_sge = 5, .length = 4096 }, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_SEND, .flags = IBV_SEND_INLINE, .length = 1u << 31 }, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_INLINE, .length = 129 }, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_INLINE, .num_sge = 200, .length = 8 },
		  IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_RC, { .opcode = 200, .num_sge = 1, .length = 8 }, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_ATOMIC_WRITE, .length = 1u << 30 }, IBV_WC_LOC_LEN_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .num_sge = 1, .length = 4096 }, IBV_WC_LOC_LEN_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_SEND, .num_sge = 1, .length = UINT32_MAX }, IBV_WC_LOC_LEN_ERR },
		{ IBV_QPT_RC, { .opcode = IBV_WR_SEND, .num_sge = 1, .length = 9000 }, IBV_WC_LOC_LEN_ERR },
		{ IBV_QPT_UC, { .opcode = IBV_WR_RDMA_READ, .num_sge = 1, .length = 8 }, IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UD, { .opcode = IBV_WR_RDMA_WRITE, .num_sge = 1, .length = 8, .av = { .dlid = 1, .port_num = 1 } },
		  IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UD, { .opcode = IBV_WR_SEND, .num_sge = 1, .length = 8, .av = { .dlid = 1, .sl = 16, .port_num = 1 } },
		  IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UD, { .opcode = IBV_WR_SEND, .num_sge = 1, .length = 8,
				.av = { .dlid = 1, .port_num = 1, .is_global = 2, .flow_label = 1u << 20 } },
		  IBV_WC_LOC_QP_OP_ERR },
		{ IBV_QPT_UD, { .opcode = IBV_WR_SEND, .num_sge = 1, .length = 8,
				.av = { .dlid = 1, .port_num = 1, .is_global = 1, .sgid_index = 200 } },
		  IBV_WC_LOC_QP_OP_ERR },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct pair *pair = pair_of(row[i].type);
		struct wqe_seg seg = { PAIR_IOVA, 4096, pair->side[0].mr->key };

		announce(pair, &row[i].wqe, &seg);
		pair_run(pair);
		expect_sent(pair, 0, 0, row[i].status);
		expect_nothing(pair, 0);
		expect_nothing(pair, 1);
		pair_delete(pair);
	}
}

/* IBA 10.2.5: a consumer cannot send another Q_Key of those with the highest bit than its QP's own. */
static void a_privileged_qkey_in_the_ring_is_replaced(void **state)
{
	struct pair *pair = pair_of(IBV_QPT_UD);
	struct qp *qp = pair->side[0].qp;
	struct wqe_seg seg = { PAIR_IOVA, 8, pair->side[0].mr->key };
	struct send_wqe send = {
		.opcode = IBV_WR_SEND, .num_sge = 1, .length = 8, .remote_qpn = 0xff000000 | pair->side[1].qp->qpn,
		.qkey = 0x80000001, .av = { .dlid = pair->side[1].node->dev->lid, .port_num = 1 },
	};

	(void)state;
	assert_int_equal(pair_recv(pair, 1, 9, 0, 100), 0);
	announce(pair, &send, &seg);
	assert_int_equal(qp_send_wqe(qp, 0)->qkey, qp->attr.qkey);
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	expect_received(pair, 1, 9, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* The host looks up the way to a datagram's QP before the WQE fails. */
static void a_refused_datagram_names_a_qp_number(void **state)
{
	struct pair *pair = pair_of(IBV_QPT_UD);
	struct wqe_seg seg = { PAIR_IOVA, 8, pair->side[0].mr->key };
	struct send_wqe send = { .opcode = IBV_WR_SEND, .num_sge = 255, .length = 8, .remote_qpn = 0xffffffff,
				 .av = { .dlid = 1, .port_num = 1 } };

	(void)state;
	announce(pair, &send, &seg);
	assert_int_equal(qp_send_wqe(pair->side[0].qp, 0)->remote_qpn, 0xffffff);
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_LOC_QP_OP_ERR);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_that_started_is_not_changed),
		cmocka_unit_test(a_read_that_started_is_not_changed),
		cmocka_unit_test(the_engine_writes_nothing_into_a_wqe),
		cmocka_unit_test(what_no_library_posts_ends_in_a_local_error),
		cmocka_unit_test(a_privileged_qkey_in_the_ring_is_replaced),
		cmocka_unit_test(a_refused_datagram_names_a_qp_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
