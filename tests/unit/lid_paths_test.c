/* Pairs of LIDs of a QP: whose they are, how they are learnt again, and which of them is taken. */
#include "adapter.h"

#include "verbs/qp_context.h"

enum { OWN = 8, PEER = 16, LMC = 2 };

static struct adapter *set_up(unsigned named)
{
	struct adapter *a = adapter_new();

	a->ib->lid = OWN;
	a->ib->lmc = LMC;
	for (unsigned i = 0; i < named; i++)
		a->pair[i] = (struct lid_pair){ (uint16_t)(OWN + i), (uint16_t)(PEER + i) };
	a->pairs = named;
	return a;
}

static struct qp *connect(struct adapter *a, enum ibv_qp_type type, unsigned most, uint8_t path_bits)
{
	struct qp *qp = adapter_qp(a, type, 8, NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	qp->paths_most = (uint8_t)most;
	assert_int_equal(qp_modify(qp, 1, &attr, mask), 0);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 9,
		.ah_attr = { .dlid = PEER, .src_path_bits = path_bits, .port_num = 1 },
	};
	mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(qp_modify(qp, 1, &attr, mask), 0);
	return qp;
}

static void a_queue_pair_has_the_pairs_that_are_named(void **state)
{
	struct adapter *a = set_up(4);
	struct qp *qp = connect(a, IBV_QPT_RC, 4, 0);

	(void)state;
	assert_non_null(qp->lid_paths);
	assert_int_equal(qp->lid_paths->paths, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(qp->lid_paths->path[i].lids.slid, OWN + i);
		assert_int_equal(qp->lid_paths->path[i].lids.dlid, PEER + i);
	}
	assert_true(lid_paths_have_peer(qp->lid_paths, PEER + 3));
	assert_false(lid_paths_have_peer(qp->lid_paths, PEER + 4));
	adapter_delete(a);
}

/* Who chose a path, has no use for several or has another kind of paths keeps the one. */
static void who_chose_a_path_keeps_it(void **state)
{
	static const struct { enum ibv_qp_type type; unsigned most; uint8_t bits, lmc; unsigned named; } rows[] = {
		{ IBV_QPT_RC, 1, 0, LMC, 4 }, { IBV_QPT_RC, 4, 1, LMC, 4 }, { IBV_QPT_UC, 4, 0, LMC, 4 },
		{ IBV_QPT_RC, 4, 0, 0, 4 }, { IBV_QPT_RC, 4, 0, LMC, 1 }, { IBV_QPT_RC, 4, 0, LMC, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct adapter *a = set_up(rows[i].named);
		struct qp *qp;

		a->ib->lmc = rows[i].lmc;
		qp = connect(a, rows[i].type, rows[i].most, rows[i].bits);
		assert_null(qp->lid_paths);
		adapter_delete(a);
	}
}

static void an_alternate_path_leaves_one(void **state)
{
	struct adapter *a = set_up(4);
	struct qp *qp = connect(a, IBV_QPT_RC, 4, 0);

	(void)state;
	qp->migration = calloc(1, sizeof(*qp->migration));
	assert_non_null(qp->migration);
	routes_change(&a->ca.routes);
	qp_route(qp);
	assert_null(qp->lid_paths);
	adapter_delete(a);
}

/* The first that leads there is the usual one; messages without packets take turns at those that do. */
static void a_path_that_leads_nowhere_is_passed_over(void **state)
{
	struct adapter *a = set_up(4);
	struct qp *qp;
	const struct lid_paths *l;

	(void)state;
	a->cut_lid = PEER;
	qp = connect(a, IBV_QPT_RC, 4, 0);
	l = qp->lid_paths;
	assert_int_equal(qp_route(qp)->kind, ROUTE_CHANNEL);
	assert_int_equal(l->usual, 1);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(lid_paths_next(qp)->kind, ROUTE_CHANNEL);
		assert_ptr_equal(lid_paths_last(qp), &l->path[l->turn].route);
	}
	assert_int_equal(l->path[0].messages, 0);
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(l->path[i].messages, 2);
	a->cut_lid = PEER + 2;
	routes_change(&a->ca.routes);
	assert_ptr_equal(qp_route(qp), &qp->route);
	assert_int_equal(l->usual, 0);
	assert_int_equal(lid_paths_route(qp, OWN + 2, PEER + 2)->kind, ROUTE_CUT);
	assert_int_equal(lid_paths_route(qp, OWN + 1, PEER + 1)->kind, ROUTE_CHANNEL);
	assert_int_equal(lid_paths_route(qp, OWN, PEER + 2)->kind, ROUTE_CUT);	/* no pair that was named */
	adapter_delete(a);
}

/* What is named no more gives its place to what is named for the first time, and keeps it where nothing is. */
static void pairs_keep_their_numbers(void **state)
{
	struct adapter *a = set_up(4);
	struct qp *qp = connect(a, IBV_QPT_RC, 4, 0);
	const struct lid_paths *l = qp->lid_paths;

	(void)state;
	a->pair[1] = a->pair[3];
	a->pairs = 3;
	routes_change(&a->ca.routes);
	qp_route(qp);
	assert_int_equal(l->paths, 4);
	assert_int_equal(l->path[1].lids.dlid, PEER + 1);
	assert_int_equal(l->path[1].epoch, 1);
	a->pair[0] = (struct lid_pair){ OWN + 1, PEER };
	routes_change(&a->ca.routes);
	qp_route(qp);
	assert_int_equal(l->path[0].lids.slid, OWN);	/* the QP's own */
	assert_int_equal(l->path[1].lids.slid, OWN + 1);
	assert_int_equal(l->path[1].lids.dlid, PEER);
	assert_int_equal(l->path[1].epoch, 2);
	assert_int_equal(l->path[3].epoch, 1);
	adapter_delete(a);
}

/* They leave together, and those in a row that go by one pair take one route. */
static void packets_leave_by_the_route_of_their_pair(void **state)
{
	static const struct { unsigned pair, packets; } rows[] = { { 0, 3 }, { 2, 1 }, { 1, 2 }, { 2, 4 } };
	struct adapter *a = set_up(4);
	struct qp *qp = connect(a, IBV_QPT_RC, 4, 0);
	struct burst *b = calloc(1, sizeof(*b));
	unsigned n = 0;

	(void)state;
	assert_non_null(b);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned k = 0; k < rows[i].packets; k++)
			b->out[n++].packet.path = (struct packet_path){ .slid = (uint16_t)(OWN + rows[i].pair),
									.dlid = (uint16_t)(PEER + rows[i].pair) };
	a->to_send[0] = qp;
	a->sends[0] = n;
	qp_ready(qp);
	assert_int_equal(ca_output(&a->ca, 5, b), n);
	n = 0;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct burst_row row = ca_next_row(b, n);

		assert_ptr_equal(row.route, &qp->lid_paths->path[rows[i].pair].route);
		assert_ptr_equal(row.out, &b->out[n]);
		assert_int_equal(row.packets, rows[i].packets);
		n += row.packets;
	}
	assert_int_equal(n, b->packets);
	free(b);
	adapter_delete(a);
}

/* All other packets of a burst take its route. */
static void a_burst_of_one_path_is_one_row(void **state)
{
	struct adapter *a = set_up(1);
	struct qp *qp = connect(a, IBV_QPT_RC, 4, 0);
	struct burst *b = calloc(1, sizeof(*b));

	(void)state;
	assert_non_null(b);
	a->to_send[0] = qp;
	a->sends[0] = 5;
	qp_ready(qp);
	assert_int_equal(ca_output(&a->ca, 5, b), 5);
	assert_int_equal(ca_next_row(b, 0).packets, 5);
	assert_ptr_equal(ca_next_row(b, 0).route, &qp->route);
	free(b);
	adapter_delete(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_pair_has_the_pairs_that_are_named),
		cmocka_unit_test(who_chose_a_path_keeps_it),
		cmocka_unit_test(an_alternate_path_leaves_one),
		cmocka_unit_test(a_path_that_leads_nowhere_is_passed_over),
		cmocka_unit_test(pairs_keep_their_numbers),
		cmocka_unit_test(packets_leave_by_the_route_of_their_pair),
		cmocka_unit_test(a_burst_of_one_path_is_one_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
