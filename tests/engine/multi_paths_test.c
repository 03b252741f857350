/* The paths of RC QPs of the profile `multipath`: what they carry together, those that are cut, fail on demand and flap, and
 * those that are pairs of LIDs. */
#include "multi_run.h"

#include "ib/path.h"

/* MPT-38, S-46 */
static void throughput_is_the_sum_of_paths(void **state)
{
	unsigned got[5];

	for (paths = 1; paths <= 4; paths *= 2) {
		struct pair *pair = begin(be_slow);
		struct run r = { 0 };

		run_for(pair, &r, 10 * WTIME_MS);
		got[paths] = run_for(pair, &r, 100 * WTIME_MS);
		print_message("%u paths: %u bytes in 100 us\n", paths, got[paths]);
		end(pair);
	}
	assert_true(got[2] * 10 > got[1] * 19);
	assert_true(got[4] * 10 > got[1] * 36);
}

/* S-48: the transfer goes on, the path is probed, and returns. */
static void a_path_is_cut_and_heals(void **state)
{
	struct pair *pair;
	struct run r = { 0 };
	uint64_t sent;

	paths = 4;
	pair = begin(be_slow);
	run_for(pair, &r, 20 * WTIME_MS);
	pair->sim->config.lane[2].is_cut = true;
	r.longest = 0;
	run_for(pair, &r, 300 * WTIME_MS);
	print_message("cut: at most %u us between two completions\n", (unsigned)(r.longest / WTIME_US));
	assert_true(r.longest < 20 * WTIME_MS);		/* T, and three BARRIERs */
	assert_true(pair->side[0].node->ca.counters.paths_set_aside >= 1);
	pair->sim->config.lane[2].is_cut = false;
	run_for(pair, &r, 300 * WTIME_MS);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(state_of(pair, i), "good");
	sent = multi_of(pair->side[0].qp)->packets[0] + multi_of(pair->side[0].qp)->packets[1] +
	       multi_of(pair->side[0].qp)->packets[2] + multi_of(pair->side[0].qp)->packets[3];
	run_for(pair, &r, 50 * WTIME_MS);
	assert_true(multi_of(pair->side[0].qp)->packets[2] * 20 > sent);
	end(pair);
}

static void count_requests(void *arg, int node, const struct packet *p)
{
	unsigned *by_path = arg;

	by_path[p->resv.bth7 % MP_PATHS] += !node && !multi_is_answer(p);
}

/* Those that this side sends by as requests, and the answers to these, are lost; what it answers is not. */
static void a_path_fails_on_demand(void **state)
{
	unsigned by_path[MP_PATHS] = { 0 };
	struct ca *ca;
	struct pair *pair;
	struct run r = { 0 };

	paths = 4;
	pair = begin(be_slow);
	ca = &pair->side[0].node->ca;
	run_for(pair, &r, 20 * WTIME_MS);
	memcpy(ca->cut[0].dgid, pair->side[0].qp->path.dgid, 16);
	ca->cut[0].paths = 1 << 2;
	ca->cuts = 1;
	r.longest = 0;
	pair->sim->tap = count_requests;
	pair->sim->tap_arg = by_path;
	run_for(pair, &r, 300 * WTIME_MS);
	assert_true(by_path[1] > 1000 && !by_path[2]);
	assert_true(r.longest < 20 * WTIME_MS);
	assert_string_equal(state_of(pair, 2), "bad");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(strcmp(state_of(pair, i), "good") == 0, i != 2);
	for (unsigned i = 0; i < 16; i++)
		post_wr(pair, 1, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = 16 });
	run_for(pair, &r, WTIME_MS);
	for (unsigned i = 0; i < 16; i++)
		expect_sent(pair, 1, i, IBV_WC_SUCCESS);
	assert_true(multi_of(pair->side[1].qp)->packets[2] > 2);
	assert_int_equal(pair->side[1].node->ca.counters.multipath_repeats, 0);
	ca->cuts = 0;
	run_for(pair, &r, 300 * WTIME_MS);
	assert_string_equal(state_of(pair, 2), "good");
	end(pair);
}

/* Which packets these are, also where they make no sense. */
static void what_a_failing_path_loses(void **state)
{
	static const struct { enum mp_type type; bool is_answer; } rows[] = {
		{ MP_REQ, false }, { MP_RSP, true }, { MP_NAK, true }, { MP_BARRIER, false }, { MP_BARRIER_RSP, true },
		{ MP_PATH_DOWN, false }, { MP_PATH_DOWN_RSP, true }, { MP_PATH_UP, false }, { MP_PATH_UP_RSP, true },
	};
	struct pair *pair = begin(NULL);
	struct qp *qp = pair->side[0].qp;
	uint8_t bytes[MP_HEADER + MP_CRC];
	struct iovec payload = { bytes, sizeof(bytes) };
	struct packet p = { .form = PACKET_ROCE, .opcode = OPCODE_WEFT_MULTIPATH, .dest_qpn = qp->qpn, .payload = &payload,
			    .payload_iovs = 1, .payload_bytes = sizeof(bytes) };

	memcpy(qp->ca->cut[0].dgid, qp->path.dgid, 16);
	qp->ca->cut[0].paths = 1 << 3;
	qp->ca->cuts = 1;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		mp_packet_build(&(struct mp_packet){ .version = MP_VERSION, .type = (uint8_t)rows[i].type }, bytes);
		p.resv.bth7 = 3;
		assert_int_equal(path_is_cut(qp, &p, true), !rows[i].is_answer);
		assert_int_equal(path_loses(qp->ca, &p), rows[i].is_answer);
		p.resv.bth7 = 2;
		assert_false(path_is_cut(qp, &p, true) || path_loses(qp->ca, &p));
		p.resv.bth7 = 0xfb;	/* no path */
		assert_false(path_is_cut(qp, &p, true) || path_loses(qp->ca, &p));
	}
	p.resv.bth7 = 3;
	p.payload = NULL;
	p.payload_bytes = 0;
	assert_false(path_loses(qp->ca, &p));
	end(pair);
}

static void all_paths_are_cut(void **state)
{
	struct pair *pair = begin(few_retries);
	wtime from;

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		pair->sim->config.lane[i].is_cut = true;
	from = pair->sim->now;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 2, IBV_WC_RETRY_EXC_ERR);
	assert_true(pair->sim->now - from < 100 * WTIME_MS);
	end(pair);
}

static void keep(struct pair_config *c)
{
	few_retries(c);
	c->sim.link.keeps = true;
}

/* Nothing of what a stopped process has not taken is lost, however long that takes. */
static void a_stopped_peer_costs_no_retries(void **state)
{
	struct pair *pair = begin(keep);

	sim_stop(pair->sim, 1);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 * KB });
	sim_run(pair->sim, pair->sim->now + 5 * WTIME_S);
	expect_nothing(pair, 0);
	sim_continue(pair->sim, 1);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[0].node->ca.counters.multipath_repeats, 0);
	end(pair);
}

/* Three of four paths come and go at random. */
static void paths_that_flap(void **state)
{
	struct pair *pair;
	struct run r = { 0 };
	struct rand rand;

	paths = 4;
	pair = begin(be_slow);
	rand_seed(&rand, 9);
	for (unsigned i = 0; i < 200; i++) {
		run_for(pair, &r, 1 + rand_below(&rand, 8 * WTIME_MS));
		pair->sim->config.lane[1 + rand_below(&rand, 3)].is_cut ^= true;
	}
	print_message("%u done, at most %u us between two\n", r.done, (unsigned)(r.longest / WTIME_US));
	assert_true(r.done > 1000);
	assert_true(r.longest < 40 * WTIME_MS);
	end(pair);
}

/* ---- the LIDs of an LMC ---- */

static uint32_t unnamed_at_first;

static void have_lids(struct pair_config *c)
{
	be_slow(c);
	c->sim.unnamed = unnamed_at_first;
	c->sim.form = PACKET_IB;
	c->sim.is_network = false;
	c->sim.lmc = 2;
}

static struct qp_context_way way_of(struct pair *pair, unsigned path)
{
	struct qp_context c;

	qp_context_get(pair->side[0].qp, &c);
	assert_int_equal(c.ways, 4);
	return c.way[path];
}

static void note_answers(void *arg, int node, const struct packet *p)
{
	unsigned *lids = arg;

	if (node == 1 && multi_is_answer(p))
		*lids |= 1u << (p->path.slid % 4) | 16u << (p->path.dlid % 4);
}

/* Each path goes by the pair of LIDs of its number, there and back; one that leads nowhere is left, and returns. */
static void paths_are_pairs_of_lids(void **state)
{
	struct run r = { 0 };
	struct pair *pair;
	unsigned one, four, lids = 0;

	paths = 1;
	pair = begin(have_lids);
	one = run_for(pair, &r, 50 * WTIME_MS);
	end(pair);
	paths = 4;
	r = (struct run){ 0 };
	pair = begin(have_lids);
	pair->sim->tap = note_answers;
	pair->sim->tap_arg = &lids;
	four = run_for(pair, &r, 50 * WTIME_MS);
	print_message("one LID %u, four LIDs %u bytes in 100 us\n", one, four);
	assert_true(four * 10 >= one * 36);
	assert_int_equal(lids, 0xff);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(way_of(pair, i).slid, pair->side[0].node->dev->lid + i);
		assert_int_equal(way_of(pair, i).dlid, pair->side[1].node->dev->lid + i);
	}
	pair->sim->config.lane[way_of(pair, 3).dlid % 4].is_cut = true;
	run_for(pair, &r, 300 * WTIME_MS);
	assert_string_equal(way_of(pair, 3).state, "bad");
	pair->sim->config.lane[way_of(pair, 3).dlid % 4].is_cut = false;
	run_for(pair, &r, 300 * WTIME_MS);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(way_of(pair, i).state, "good");
	end(pair);
}

/* The administration names other pairs after a sweep, and fewer than there are paths: nothing is lost for it. */
static void pairs_of_lids_are_learnt_again(void **state)
{
	static const uint32_t unnamed[] = { ~0u, 0, ~3u, 2, ~9u };
	struct run r = { 0 };
	struct pair *pair;
	unsigned done;

	paths = 4;
	pair = begin(have_lids);
	for (unsigned i = 0; i < 20; i++) {
		pair->sim->config.unnamed = unnamed[i % 5];
		for (int k = 0; k < 2; k++)
			routes_change(&pair->side[k].node->ca.routes);
		done = r.done;
		run_for(pair, &r, 10 * WTIME_MS);
		assert_true(r.done > done + 20);
	}
	end(pair);
}

/* Two pairs for four paths. */
static void paths_share_pairs_of_lids(void **state)
{
	struct run r = { 0 };
	struct pair *pair;

	paths = 4;
	unnamed_at_first = ~3u;
	pair = begin(have_lids);
	unnamed_at_first = 0;
	run_for(pair, &r, 100 * WTIME_MS);
	for (unsigned i = 0; i < 4; i++) {
		assert_string_equal(way_of(pair, i).state, "good");
		assert_int_equal(way_of(pair, i).dlid, pair->side[1].node->dev->lid + i % 2);
	}
	end(pair);
}

static void a_foreign_lid_is_refused(void **state)
{
	struct pair *pair;
	struct packet p = { .form = PACKET_IB, .opcode = OPCODE_WEFT_MULTIPATH };
	const struct qp *qp;

	paths = 4;
	pair = begin(have_lids);
	qp = pair->side[1].qp;
	p.path = (struct packet_path){ .dlid = qp->dev->lid };
	for (unsigned lid = 0; lid < 32; lid++) {
		p.path.slid = (uint16_t)lid;
		assert_int_equal(multi_path_of(qp, &p) == PATH_PRIMARY, lid / 4 == pair->side[0].node->dev->lid / 4u);
	}
	end(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(throughput_is_the_sum_of_paths),
		cmocka_unit_test(a_path_is_cut_and_heals),
		cmocka_unit_test(a_path_fails_on_demand),
		cmocka_unit_test(what_a_failing_path_loses),
		cmocka_unit_test(all_paths_are_cut),
		cmocka_unit_test(a_stopped_peer_costs_no_retries),
		cmocka_unit_test(paths_that_flap),
		cmocka_unit_test(paths_are_pairs_of_lids),
		cmocka_unit_test(pairs_of_lids_are_learnt_again),
		cmocka_unit_test(paths_share_pairs_of_lids),
		cmocka_unit_test(a_foreign_lid_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
