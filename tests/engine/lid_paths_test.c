/* A QP over the LIDs that two ports of LMC 2 have: the pairs are those that the subnet administration names. */
#include "spread_run.h"

#include "ib/reflect.h"

static void lids_add_up(void **state)
{
	unsigned one = rate_of(&(struct setting){ .paths = 1, .lanes = 4, .lids = true }, IBV_WR_RDMA_WRITE, "one LID");
	unsigned four = rate_of(&(struct setting){ .paths = 4, .lanes = 4, .lids = true }, IBV_WR_RDMA_WRITE, "four LIDs");

	(void)state;
	print_message("four LIDs %u %%\n", four * 100 / one);
	assert_true(four * 100 >= one * 360);
}

/* What was posted while its process stood still leaves: how many packets, and in how many bursts. */
static void leave_together(unsigned paths, uint32_t *packets, uint32_t *bursts)
{
	struct pair *pair = begin(&(struct setting){ .paths = paths, .lanes = 4, .lids = true });
	struct sim_node *node = pair->side[0].node;
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct cqe cqe;

	run_for(pair, &r, 5 * WTIME_MS);
	pair_run(pair);
	while (pair_poll_send(pair, 0, &cqe))
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	sim_stop(pair->sim, 0);
	for (unsigned i = 0; i < DEPTH; i++)
		post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = 64 });
	*packets = node->sent;
	*bursts = node->bursts;
	sim_continue(pair->sim, 0);
	sim_pump(pair->sim);
	*packets = node->sent - *packets;
	*bursts = node->bursts - *bursts;
	pair_delete(pair);
}

/* As those by one LID do. */
static void packets_by_several_lids_leave_in_bursts(void **state)
{
	for (unsigned paths = 1; paths <= 4; paths += 3) {
		uint32_t packets, bursts;

		(void)state;
		leave_together(paths, &packets, &bursts);
		print_message("%u LIDs: %u packets in %u bursts\n", paths, packets, bursts);
		assert_int_equal(packets, DEPTH);
		assert_true(bursts <= 2);
	}
}

/* Also the first one, by which the QP is connected. */
static void a_cut_lid_is_left_and_taken_again(void **state)
{
	(void)state;
	for (unsigned cut = 0; cut < 4; cut++) {
		struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4, .lids = true });
		struct run r = { .opcode = cut % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ };
		const struct spread *s;
		unsigned done;

		run_for(pair, &r, 5 * WTIME_MS);
		s = spread_of(pair->side[0].qp);
		assert_non_null(s);
		assert_int_equal(s->paths, 4);
		pair->sim->config.lane[cut].is_cut = true;
		run_for(pair, &r, 20 * WTIME_MS);
		assert_int_equal(s->path[cut].state, SPREAD_ASIDE);
		done = r.done;
		run_for(pair, &r, 20 * WTIME_MS);
		assert_true(r.done > done + 100);
		pair->sim->config.lane[cut].is_cut = false;
		run_for(pair, &r, 2 * SPREAD_PROBE_MOST);
		show(pair, "LID cut and healed");
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(s->path[i].state, SPREAD_UP);
		assert_int_equal(r.failed, 0);
		pair_delete(pair);
	}
}

static void name_others(struct pair *pair, uint32_t unnamed)
{
	pair->sim->config.unnamed = unnamed;
	for (int i = 0; i < 2; i++)
		routes_change(&pair->side[i].node->ca.routes);
}

/* The administration answers late, and after a sweep otherwise. */
static void pairs_of_lids_are_learnt_again(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 2, .lanes = 4, .lids = true, .unnamed = ~0u });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	const struct qp *qp = pair->side[0].qp;
	struct qp_context c;

	(void)state;
	run_for(pair, &r, 5 * WTIME_MS);
	assert_null(spread_of(qp));
	for (unsigned bits = 1; bits < 4; bits++) {
		name_others(pair, ~(1u | 1u << bits));
		run_for(pair, &r, 20 * WTIME_MS);
		assert_non_null(spread_of(qp));
		qp_context_get(qp, &c);
		assert_int_equal(c.ways, 2);
		assert_true(c.way[0].sent && c.way[1].sent);
		assert_string_equal(c.way[0].state, "up");
		assert_string_equal(c.way[1].state, "up");
		assert_int_equal(c.way[0].dlid, pair->side[1].node->dev->lid);
		assert_int_equal(c.way[1].slid, pair->side[0].node->dev->lid + bits);
		assert_int_equal(c.way[1].dlid, pair->side[1].node->dev->lid + bits);
	}
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

/* 17.2.8: a QP that may migrate has its two paths. */
static void an_alternate_path_ends_the_others(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4, .lids = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	const struct ibv_qp_attr attr = {
		.alt_ah_attr = { .dlid = pair->side[1].node->dev->lid + 1, .src_path_bits = 1, .port_num = 1 }, .alt_port_num = 1,
	};

	(void)state;
	run_for(pair, &r, 5 * WTIME_MS);
	assert_non_null(spread_of(pair->side[0].qp));
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp_modify(pair->side[i].qp, pair->sim->now, &attr, IBV_QP_ALT_PATH), 0);
	assert_null(spread_of(pair->side[0].qp));
	assert_null(reflect_of(pair->side[1].qp));
	run_for(pair, &r, 20 * WTIME_MS);
	assert_null(spread_of(pair->side[0].qp));
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

/* The first path is the QP's own, which a drained QP may be given anew. */
static void another_address_is_another_first_path(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4, .lids = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct qp *qp = pair->side[0].qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD };
	uint16_t dlid = (uint16_t)(pair->side[1].node->dev->lid + 2);

	(void)state;
	run_for(pair, &r, 5 * WTIME_MS);
	assert_non_null(spread_of(qp));
	pair_run(pair);
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
	attr.ah_attr = (struct ibv_ah_attr){ .dlid = dlid, .port_num = 1 };
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE | IBV_QP_AV), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
	run_for(pair, &r, 20 * WTIME_MS);
	assert_non_null(spread_of(qp));
	assert_int_equal(spread_of(qp)->path[0].lids.dlid, dlid);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

/* The other end need not go by several paths itself. */
static void a_peer_of_one_path_answers_by_all(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4, .lids = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };

	(void)state;
	pair->side[1].qp->paths_most = 1;
	lid_paths_forget(pair->side[1].qp);
	run_for(pair, &r, 10 * WTIME_MS);
	assert_int_equal(spread_of(pair->side[0].qp)->paths, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(spread_of(pair->side[0].qp)->path[i].state, SPREAD_UP);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

static void a_stranger_sees_one_lid(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4, .lids = true, .stranger = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };

	(void)state;
	run_for(pair, &r, 10 * WTIME_MS);
	assert_null(spread_of(pair->side[0].qp));
	assert_true(r.done > 10);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

/* A packet by a LID that no path has is not the peer's, whatever it says. */
static void a_foreign_lid_is_refused(void **state)
{
	struct pair *pair = begin(&(struct setting){ .paths = 4, .lanes = 4, .lids = true });
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	const struct qp *qp = pair->side[1].qp;
	uint64_t sent;

	(void)state;
	run_for(pair, &r, 5 * WTIME_MS);
	pair_run(pair);
	for (unsigned i = 0; i < 8; i++) {
		unsigned path = i % 4;
		bool is_foreign = i < 4;
		struct packet p = { .form = PACKET_IB, .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .pkey = 0xffff, .dest_qpn = qp->qpn,
				    .path = pair->side[0].qp->path, .resv.bth7 = bth_by_path(path),
				    .psn = psn_add(engine_of(qp)->responder.psn, -1) };

		sent = pair->side[1].node->sent;
		p.path.slid = (uint16_t)(pair->side[0].node->dev->lid + path + (is_foreign ? 4 : 0));
		p.path.dlid = (uint16_t)(pair->side[1].node->dev->lid + path);
		ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &p);
		pair_run(pair);
		assert_int_equal(pair->side[1].node->sent == sent, is_foreign);
	}
	pair_delete(pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lids_add_up),
		cmocka_unit_test(packets_by_several_lids_leave_in_bursts),
		cmocka_unit_test(a_cut_lid_is_left_and_taken_again),
		cmocka_unit_test(pairs_of_lids_are_learnt_again),
		cmocka_unit_test(an_alternate_path_ends_the_others),
		cmocka_unit_test(another_address_is_another_first_path),
		cmocka_unit_test(a_peer_of_one_path_answers_by_all),
		cmocka_unit_test(a_stranger_sees_one_lid),
		cmocka_unit_test(a_foreign_lid_is_refused),
	};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
