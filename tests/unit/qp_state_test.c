/* The QP state machine: every transition of every type with every single attribute missing or too many; values; what
 * entering RESET, ERR and SQE does to the queues. */
#include "adapter.h"

enum { TYPES = 5 };

static const enum ibv_qp_type types[TYPES] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };

/* The attributes by letters, so that the expectations below do not repeat the masks of the code; by bit number from
 * cur_state (C), async notify (B), access (A), pkey (K), port (P), qkey (Q), av (V), mtu (M), timeout (T), retry (R), rnr
 * retry (N), rq_psn (O), initiator depth (I), alt path (X), rnr timer (E), sq_psn (S), responder depth (U), migration (G)
 * to dest_qpn (D). */
static const char letter[] = ".CBAKPQVMTRNOIXESUG.D";

static int mask_of(const char *letters)
{
	int mask = 0;

	for (; *letters; letters++)
		mask |= 1 << (strchr(letter, *letters) - letter);
	return mask;
}

/* Per type RC, UC, UD, XRC_SEND, XRC_RECV: required and optional; NULL: the transition does not exist. */
static const struct expectation {
	enum ibv_qp_state from, to;
	const char *required[TYPES], *optional[TYPES];
} expectation[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, { "KPA", "KPA", "KPQ", "KPA", "KPA" }, { "", "", "", "", "" } },
	{ IBV_QPS_INIT, IBV_QPS_INIT, { "", "", "", "", "" }, { "KPA", "KPA", "KPQ", "KPA", "KPA" } },
	{ IBV_QPS_INIT, IBV_QPS_RTR, { "VMDOUE", "VMDO", "", "VMDO", "VMDOUE" }, { "XAK", "XAK", "KQ", "XAK", "XAK" } },
	{ IBV_QPS_RTR, IBV_QPS_RTS, { "STRNI", "S", "S", "STRNI", "ST" }, { "CXAEG", "CXAG", "CQ", "CXAG", "CXAEG" } },
	{ IBV_QPS_RTS, IBV_QPS_RTS, { "", "", "", "", "" }, { "CXAEG", "CXAG", "CQ", "CXAG", "CXAEG" } },
	{ IBV_QPS_RTS, IBV_QPS_SQD, { "", "", "", "", "" }, { "B", "B", "B", "B", "B" } },
	{ IBV_QPS_SQD, IBV_QPS_RTS, { "", "", "", "", "" }, { "CXAEG", "CXAG", "CQ", "CXAG", "CXAEG" } },
	{ IBV_QPS_SQD, IBV_QPS_SQD, { "", "", "", "", "" },
	  { "PVTRNIUXAKEG", "VXAKG", "KQ", "PVTRNIXAKG", "PVTUXAKEG" } },
	{ IBV_QPS_SQE, IBV_QPS_RTS, { NULL, "", "", NULL, NULL }, { NULL, "CA", "CQ", NULL, NULL } },
};

static const struct expectation *expected(enum ibv_qp_state from, enum ibv_qp_state to, unsigned type)
{
	for (unsigned i = 0; i < sizeof(expectation) / sizeof(expectation[0]); i++)
		if (expectation[i].from == from && expectation[i].to == to && expectation[i].required[type])
			return &expectation[i];
	return NULL;
}

static void expect_answer(enum ibv_qp_type type, int from, int to, int mask, bool is_good)
{
	assert_int_equal(transition_check(&qp_iba_transitions, type, from, to, IBV_QP_STATE | mask), is_good ? 0 : -EINVAL);
}

static void check_transition(unsigned type, int from, int to)
{
	const struct expectation *e = expected(from, to, type);
	bool exists = e || to == IBV_QPS_RESET || to == IBV_QPS_ERR;
	int required = e ? mask_of(e->required[type]) : 0, optional = e ? mask_of(e->optional[type]) : 0;

	expect_answer(types[type], from, to, required, exists);
	expect_answer(types[type], from, to, required | optional, exists);
	for (unsigned bit = 1; bit < 31; bit++) {
		expect_answer(types[type], from, to, required | 1 << bit, (required | optional) & 1 << bit);
		if (required & 1 << bit)
			expect_answer(types[type], from, to, required & ~(1 << bit), false);
	}
}

static void masks_follow_the_table(void **state)
{
	(void)state;
	for (unsigned type = 0; type < TYPES; type++)
		for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
			for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++)
				check_transition(type, from, to);
}

static void every_type_walks_to_rts_and_back(void **state)
{
	struct adapter *a = adapter_new();

	(void)state;
	for (unsigned i = 0; i < TYPES; i++) {
		struct qp *qp = adapter_qp(a, types[i], 16, NULL);
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .cur_qp_state = IBV_QPS_SQD };

		adapter_move(qp, IBV_QPS_RTS);
		assert_int_equal(qp->state, IBV_QPS_RTS);
		assert_int_equal(qp_modify(qp, 2, &attr, IBV_QP_STATE), 0);
		attr.qp_state = IBV_QPS_RTS;
		assert_int_equal(qp_modify(qp, 2, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
		assert_int_equal(qp_modify(qp, 2, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), -EINVAL);
		attr.qp_state = IBV_QPS_ERR;
		assert_int_equal(qp_modify(qp, 2, &attr, IBV_QP_STATE), 0);
		attr.qp_state = IBV_QPS_RTS;
		assert_int_equal(qp_modify(qp, 2, &attr, IBV_QP_STATE), -EINVAL);
		attr.qp_state = IBV_QPS_RESET;
		assert_int_equal(qp_modify(qp, 2, &attr, IBV_QP_STATE), 0);
		assert_int_equal(qp->attr.dest_qp_num, 0);
		adapter_move(qp, IBV_QPS_RTS);
	}
	adapter_delete(a);
}

/* One bad value in the attributes of each step; nothing may have changed. */
static void bad_values_change_nothing(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 16, NULL);
	const struct ibv_qp_attr good = {
		.qp_state = IBV_QPS_SQD, .port_num = 1, .path_mtu = IBV_MTU_1024, .ah_attr = { .dlid = 1, .port_num = 1 },
	};
	int all = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		  IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
		  IBV_QP_DEST_QPN | IBV_QP_AV | IBV_QP_PATH_MIG_STATE;

	(void)state;
	assert_int_equal(qp_attr_check(qp, &good, all), 0);
	for (unsigned i = 0; i < 20; i++) {
		struct ibv_qp_attr attr = good;

		switch (i) {
		case 0: attr.port_num = 0; break;
		case 1: attr.port_num = 2; break;
		case 2: attr.pkey_index = 1; break;
		case 3: attr.qp_access_flags = 1 << 15; break;
		case 4: attr.path_mtu = 0; break;
		case 5: attr.path_mtu = IBV_MTU_4096; break;	/* the port's is 2048 */
		case 6: attr.timeout = 32; break;
		case 7: attr.retry_cnt = 8; break;
		case 8: attr.rnr_retry = 8; break;
		case 9: attr.min_rnr_timer = 32; break;
		case 10: attr.max_rd_atomic = 17; break;
		case 11: attr.max_dest_rd_atomic = 17; break;
		case 12: attr.dest_qp_num = 1 << 24; break;
		case 13: attr.ah_attr.dlid = 0; break;
		case 14: attr.ah_attr.port_num = 0; break;
		case 15: attr.ah_attr.sl = 16; break;
		case 16: attr.ah_attr.dlid = 0xc000; break;
		case 17: attr.ah_attr.is_global = 1; attr.ah_attr.grh.sgid_index = 1; break;
		case 18: attr.ah_attr.is_global = 1; attr.ah_attr.grh.dgid.raw[0] = 0xff; break;
		case 19: attr.path_mig_state = IBV_MIG_REARM; break;
		}
		assert_int_equal(qp_attr_check(qp, &attr, all), -EINVAL);
	}
	/* the alternate path's values: engine/migration_test */
	assert_int_equal(qp_attr_check(qp, &good, all | IBV_QP_ALT_PATH), -EINVAL);
	/* the rights to FLUSH, which pyverbs 56 gives to each of its QPs */
	assert_int_equal(qp_attr_check(qp, &(struct ibv_qp_attr){ .qp_access_flags = 3 << 8 }, IBV_QP_ACCESS_FLAGS), 0);
	adapter_move(qp, IBV_QPS_INIT);
	struct ibv_qp_attr bad = good;

	bad.qp_state = IBV_QPS_RTR;
	bad.dest_qp_num = 1 << 24;
	unsigned told = a->modified;

	assert_int_equal(qp_modify(qp, 1, &bad, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), -EINVAL);
	assert_int_equal(a->modified, told);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(qp->attr.dest_qp_num, 0);
	adapter_delete(a);
}

static void paths_are_derived_on_both_link_layers(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 16, NULL);
	struct ibv_qp_attr attr = { .dest_qp_num = 0x112233, .ah_attr = { .dlid = 9, .sl = 3, .port_num = 1 } };

	(void)state;
	qp_attr_store(qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN);
	assert_int_equal(qp->path.slid, ADAPTER_LID);
	assert_int_equal(qp->path.dlid, 9);
	assert_int_equal(qp->path.sl, 3);
	assert_false(qp->path.has_grh);
	qp->dev = a->roce;
	assert_int_equal(qp_attr_check(qp, &attr, IBV_QP_AV), -EINVAL);
	attr.ah_attr.is_global = 1;
	memcpy(attr.ah_attr.grh.dgid.raw, (uint8_t[16]){ [10] = 0xff, 0xff, 10, 0, 0, 2 }, 16);
	assert_int_equal(qp_attr_check(qp, &attr, IBV_QP_AV), 0);
	qp_attr_store(qp, &attr, IBV_QP_AV);
	assert_true(qp->path.has_grh && qp->path.is_ipv4);
	assert_int_equal(qp->path.hop_limit, 64);
	assert_int_equal(av_flow_label(5, 7), av_flow_label(7, 5));
	/* rxe's port for a flow label: notes/wire.md's rule */
	attr.ah_attr.grh.flow_label = 0xabcde;
	qp_attr_store(qp, &attr, IBV_QP_AV);
	assert_int_equal(qp->path.udp_sport, 0xc000 | ((0xabcde & 0x3fff) ^ (0xabcde >> 14)));
	qp->dev = a->ib;
	adapter_delete(a);
}

static void post(struct qp *qp, unsigned sends, unsigned recvs)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad;
	const struct ibv_recv_wr *bad_recv;

	for (unsigned i = 0; i < sends; i++, send.wr_id++)
		assert_int_equal(qp_post_send(qp, 1, &send, &bad), 0);
	for (struct ibv_recv_wr recv = { .wr_id = 100 }; recv.wr_id < 100 + recvs; recv.wr_id++)
		assert_int_equal(qp_post_recv(qp, 1, &recv, &bad_recv), 0);
}

static void expect_flushed(struct qp *qp, uint64_t first, unsigned n)
{
	struct cqe cqe;

	for (unsigned i = 0; i < n; i++) {
		assert_true(cq_poll(qp->send_cq, &cqe));
		assert_int_equal(cqe.wr_id, first + i);
		assert_int_equal(cqe.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(cqe.wqn, qp->qpn);
	}
	wq_check(&qp->sq);
	wq_check(&qp->rq);
}

static void a_cq_that_fails_stops_its_queues(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 64, NULL);

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	cq_fail(qp->send_cq, 9);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(a->last_event, IBV_EVENT_QP_FATAL);
	adapter_delete(a);
}

static void error_flushes_sends_then_receives(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 64, NULL);
	struct recv_ref ref;
	struct cqe cqe;

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	post(qp, 5, 4);
	assert_true(qp_recv_take(qp, NULL, &ref));	/* a message is half arrived */
	qp_send_complete(qp, IBV_WC_RETRY_EXC_ERR);
	qp_error(qp, 9, IBV_EVENT_QP_FATAL);
	assert_int_equal(a->async_events, 1);
	assert_int_equal(a->last_event, IBV_EVENT_QP_FATAL);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_true(cq_poll(qp->send_cq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_RETRY_EXC_ERR);
	expect_flushed(qp, 1, 4);
	expect_flushed(qp, 100, 4);
	assert_false(cq_poll(qp->send_cq, &cqe));
	/* what is posted now is flushed at once */
	post(qp, 2, 1);
	expect_flushed(qp, 0, 2);
	expect_flushed(qp, 100, 1);
	qp_error(qp, 9, -1);
	assert_int_equal(a->async_events, 1);
	adapter_delete(a);
}

/* IBA 11.6.3.4: told when the QP enters the error state, not again when it is moved there once more. */
static void the_last_wqe_is_told_once(void **state)
{
	struct ibv_srq_init_attr_ex init = { .attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_BASIC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct adapter *a = adapter_new();
	struct srq *srq;
	struct pd *pd;
	struct qp *qp;

	(void)state;
	assert_int_equal(pd_create(&a->ca, a->ib, &pd), 0);
	assert_int_equal(srq_create(pd, &init, NULL, NULL, &srq), 0);
	qp = adapter_qp(a, IBV_QPT_RC, 8, srq);
	adapter_move(qp, IBV_QPS_RTS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(qp_modify(qp, 1, &attr, IBV_QP_STATE), 0);
		assert_int_equal(a->async_events, 1);
		assert_int_equal(a->last_event, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	adapter_delete(a);
}

/* PSNs have 24 bits: consumers pass random words. */
static void starting_psns_are_cut_to_24_bits(void **state)
{
	struct ibv_qp_attr attr = { .rq_psn = 0x12345678, .sq_psn = 0x87654321 };
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_RC, 8, NULL);

	(void)state;
	qp_attr_store(qp, &attr, IBV_QP_RQ_PSN | IBV_QP_SQ_PSN);
	assert_int_equal(qp->attr.rq_psn, 0x345678);
	assert_int_equal(qp->attr.sq_psn, 0x654321);
	adapter_delete(a);
}

static void reset_forgets_everything(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_UC, 64, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct cqe cqe;

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	post(qp, 5, 4);
	qp_send_complete(qp, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(qp_modify(qp, 3, &attr, IBV_QP_STATE), 0);
	assert_false(cq_poll(qp->send_cq, &cqe));
	assert_int_equal(qp->sq.ulp.credits, qp->sq.engine.ring.capacity);
	assert_int_equal(qp->rq.ulp.credits, qp->rq.engine.ring.capacity);
	wq_check(&qp->sq);
	adapter_move(qp, IBV_QPS_RTS);
	post(qp, qp->sq.engine.ring.capacity, qp->rq.engine.ring.capacity);
	adapter_delete(a);
}

/* IBA 10.3.1.6: a datagram QP's failed send stops its send queue alone. */
static void datagram_send_errors_lead_to_sqe(void **state)
{
	struct adapter *a = adapter_new();
	struct qp *qp = adapter_qp(a, IBV_QPT_UC, 64, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	(void)state;
	adapter_move(qp, IBV_QPS_RTS);
	post(qp, 3, 2);
	qp_send_complete(qp, IBV_WC_LOC_PROT_ERR);
	qp_send_error(qp, 2, -1);
	assert_int_equal(qp->state, IBV_QPS_SQE);
	assert_int_equal(wq_pending(&qp->sq.engine), 0);
	assert_int_equal(wq_pending(&qp->rq.engine), 2);
	post(qp, 1, 0);
	assert_int_equal(wq_pending(&qp->sq.engine), 0);
	assert_int_equal(qp_modify(qp, 3, &attr, IBV_QP_STATE), 0);
	post(qp, 1, 0);
	assert_int_equal(wq_pending(&qp->sq.engine), 1);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masks_follow_the_table),
		cmocka_unit_test(every_type_walks_to_rts_and_back),
		cmocka_unit_test(bad_values_change_nothing),
		cmocka_unit_test(paths_are_derived_on_both_link_layers),
		cmocka_unit_test(a_cq_that_fails_stops_its_queues),
		cmocka_unit_test(error_flushes_sends_then_receives),
		cmocka_unit_test(the_last_wqe_is_told_once),
		cmocka_unit_test(starting_psns_are_cut_to_24_bits),
		cmocka_unit_test(reset_forgets_everything),
		cmocka_unit_test(datagram_send_errors_lead_to_sqe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
