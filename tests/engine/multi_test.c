/* RC QPs of the profile `multipath`: what verbs promise over several paths that lose, reorder, spoil and are cut. */
#include "multi_run.h"

/* ---- every operation ---- */

static void be_infiniband(struct pair_config *c)
{
	c->sim.form = PACKET_IB;
	c->sim.two_addresses = true;
	c->sim.lanes = 2;
}

static void be_bad(struct pair_config *c)
{
	c->sim.link.loss = 50000;
	c->sim.link.duplicate = c->sim.link.reorder = c->sim.link.corrupt = 20000;
	c->sim.link.reorder_ns = 40 * WTIME_US;
}

static void be_silent(struct pair_config *c)
{
	be_bad(c);
	c->options.refuses_silently = true;
	c->options.spread_by = MP_RANDOM;
}

static void be_renumbering(struct pair_config *c)
{
	be_bad(c);
	c->options.renumbers = true;
	c->options.spread_by = MP_LEAST_LOADED;
}

static void be_single(struct pair_config *c)
{
	c->options.paths = 1;
	c->options.window_pkts = 1;
}

static void be_shared(struct pair_config *c)
{
	c->shared_receives = true;
	c->sges = 4;
}

static uint64_t word_at(const struct pair *pair, int side, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, pair->side[side].memory + offset, 8);
	return word;
}

static void do_everything(struct pair *pair)
{
	uint8_t *from = pair->side[0].memory, *to = pair->side[1].memory;
	uint64_t word = 40;
	struct cqe cqe;

	pattern_fill(from, HALF, 1);
	memcpy(to + HALF, &word, 8);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(pair_recv(pair, 1, i, (uint32_t)(HALF + 16 * KB + i * 32 * KB), 20 * KB), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 0, .opcode = IBV_WR_RDMA_WRITE, .remote = 0, .bytes = 60 * KB, .pieces = 3 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 20 * KB - 1, .pieces = 2 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .local = 60 * KB, .remote = 60 * KB,
					   .bytes = 20 * KB, .imm = 0x1234 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .local = HALF, .remote = HALF,
					   .bytes = 8, .compare_add = 2 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 4, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .local = HALF + 8, .remote = HALF,
					   .bytes = 8, .compare_add = 42, .swap = 7 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 5, .opcode = IBV_WR_RDMA_READ, .local = HALF + 16, .remote = HALF,
					   .bytes = 8 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 6, .opcode = IBV_WR_SEND_WITH_IMM, .bytes = 40, .imm = 99,
					   .flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 7, .opcode = IBV_WR_RDMA_READ, .local = HALF + 32, .remote = 0,
					   .bytes = 60 * KB, .flags = IBV_SEND_FENCE, .pieces = 2 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 8, .opcode = IBV_WR_RDMA_WRITE, .remote = 0, .bytes = 0 });
	pair_run(pair);
	for (uint64_t i = 0; i < 9; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	cqe = expect_received(pair, 1, 0, IBV_WC_SUCCESS);
	assert_int_equal(cqe.byte_len, 20 * KB - 1);
	cqe = expect_received(pair, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(cqe.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(cqe.byte_len, 20 * KB);
	assert_int_equal(be32toh(cqe.imm), 0x1234);
	cqe = expect_received(pair, 1, 2, IBV_WC_SUCCESS);
	assert_int_equal(cqe.byte_len, 40);
	assert_int_equal(be32toh(cqe.imm), 99);
	expect_nothing(pair, 0);
	expect_nothing(pair, 1);
	assert_true(pattern_holds(to, 80 * KB, 1));
	assert_true(pattern_holds(to + HALF + 16 * KB, 20 * KB - 1, 1));
	assert_true(pattern_holds(to + HALF + 80 * KB, 40, 1));
	assert_true(pattern_holds(from + HALF + 32, 60 * KB, 1));
	assert_int_equal(word_at(pair, 1, HALF), 7);
	assert_int_equal(word_at(pair, 0, HALF), 40);
	assert_int_equal(word_at(pair, 0, HALF + 8), 42);
	assert_int_equal(word_at(pair, 0, HALF + 16), 7);
	assert_int_equal(multi_of(pair->side[0].qp)->requester.rqn, multi_of(pair->side[1].qp)->responder.rsn);	/* MPT-11 */
}

static void every_operation_works(void **state)
{
	void (*const changes[])(struct pair_config *) = {
		NULL, be_infiniband, be_bad, be_silent, be_renumbering, be_single, be_shared,
	};

	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct pair_config config = config_of(changes[i]);

		for (uint64_t seed = 1; seed <= 20; seed++) {
			struct pair *pair;

			config.sim.seed = seed;
			pair = pair_new(&config);
			do_everything(pair);
			end(pair);
		}
	}
}

static void a_key_goes_with_its_send(void **state)
{
	struct pair *pair = begin(NULL);
	struct mr *window;
	struct send_wqe bind = { .bind_access = IBV_ACCESS_REMOTE_WRITE };
	struct cqe cqe;

	assert_int_equal(mw_create(pair->side[1].pd, IBV_MW_TYPE_2, &window), 0);
	bind.bind_mw_rkey = window->key;
	bind.bind_new_rkey = (window->key & ~0xffu) | ((window->key + 1) & 0xff);
	bind.bind_mr_lkey = pair->side[1].mr->key;
	bind.bind_addr = PAIR_IOVA;
	bind.bind_length = 4 * KB;
	assert_int_equal(mw_bind(pair->side[1].qp, &bind), IBV_WC_SUCCESS);
	assert_int_equal(pair_recv(pair, 1, 1, 0, 64), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 4 * KB, .rkey = window->key });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_SEND_WITH_INV, .bytes = 64, .imm = window->key });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64, .rkey = window->key });
	pair_run(pair);
	cqe = expect_received(pair, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(cqe.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(cqe.imm, bind.bind_new_rkey);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 3, IBV_WC_REM_ACCESS_ERR);
	end(pair);
}

/* ---- errors, as with any other profile ---- */

static void no_access(struct pair_config *c)
{
	c->qp_access = IBV_ACCESS_REMOTE_WRITE;
}

static void few_retries(struct pair_config *c)
{
	c->rnr_retry = 2;
	c->timeout = 10;
	c->retry_cnt = 2;
}

static void errors_have_their_statuses(void **state)
{
	static const struct {
		struct pair_wr wr;
		uint32_t recv_bytes;
		bool bad_key;
		void (*change)(struct pair_config *);
		enum ibv_wc_status status, recv_status;
		enum ibv_event_type event;	/* at the target, if any */
		bool has_event;
	} rows[] = {
		{ .wr = { .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB }, .bad_key = true,
		  .status = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR, .has_event = true },
		{ .wr = { .opcode = IBV_WR_RDMA_READ, .bytes = 8 * KB, .remote = MEMORY - 4 * KB },
		  .status = IBV_WC_REM_ACCESS_ERR, .event = IBV_EVENT_QP_ACCESS_ERR, .has_event = true },
		{ .wr = { .opcode = IBV_WR_RDMA_READ, .bytes = 8 }, .change = no_access,
		  .status = IBV_WC_REM_INV_REQ_ERR, .event = IBV_EVENT_QP_REQ_ERR, .has_event = true },
		{ .wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .remote = 4 },
		  .status = IBV_WC_REM_INV_REQ_ERR, .event = IBV_EVENT_QP_REQ_ERR, .has_event = true },
		{ .wr = { .opcode = IBV_WR_SEND, .bytes = 8 * KB }, .recv_bytes = 4 * KB,
		  .status = IBV_WC_REM_INV_REQ_ERR, .recv_status = IBV_WC_LOC_LEN_ERR },
		{ .wr = { .opcode = IBV_WR_SEND, .bytes = 8 }, .change = few_retries, .status = IBV_WC_RNR_RETRY_EXC_ERR },
		{ .wr = { .opcode = IBV_WR_SEND, .bytes = 8 * KB, .local = MEMORY - 4 * KB }, .status = IBV_WC_LOC_PROT_ERR },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = begin(rows[i].change);
		struct pair_wr wr = rows[i].wr;

		print_message("row %u\n", i);
		if (rows[i].recv_bytes)
			assert_int_equal(pair_recv(pair, 1, 9, 0, rows[i].recv_bytes), 0);
		if (rows[i].bad_key)
			wr.rkey = pair->side[1].mr->key ^ 1;
		wr.wr_id = 2;
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 });
		pair_run(pair);
		post_wr(pair, 0, wr);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 });
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_sent(pair, 0, 2, rows[i].status);
		expect_sent(pair, 0, 3, IBV_WC_WR_FLUSH_ERR);
		if (rows[i].recv_bytes)
			expect_received(pair, 1, 9, rows[i].recv_status);
		assert_int_equal(sim_events(pair->side[1].node, rows[i].event), rows[i].has_event);
		assert_int_equal(pair->side[0].qp->state, IBV_QPS_ERR);
		end(pair);
	}
}

/* Nothing of a WRITE that leaves its region is placed, however long it is. */
static void a_write_beyond_its_region_leaves_no_trace(void **state)
{
	struct pair *pair = begin(NULL);

	pattern_fill(pair->side[0].memory, 64 * KB, 3);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 * KB,
					   .remote = MEMORY - 63 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_REM_ACCESS_ERR);
	for (uint32_t i = 0; i < MEMORY; i++)
		assert_int_equal(pair->side[1].memory[i], 0);
	end(pair);
}

static void a_send_waits_for_its_receive(void **state)
{
	struct pair *pair = begin(NULL);
	wtime until;

	pattern_fill(pair->side[0].memory, 8 * KB, 4);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 8 * KB });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB, .remote = 64 * KB });
	until = pair->sim->now + 20 * WTIME_MS;
	sim_run(pair->sim, until);
	expect_nothing(pair, 0);
	assert_true(pair->side[1].node->ca.counters.send_rnr_err > 200);	/* every 10 us, and a round trip */
	assert_int_equal(pair->side[1].memory[64 * KB], 0);	/* MPT-16: not before the SEND */
	assert_int_equal(pair_recv(pair, 1, 7, 0, 8 * KB), 0);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[1].memory, 8 * KB, 4));
	assert_true(pattern_holds(pair->side[1].memory + 64 * KB, 8 * KB, 4));
	end(pair);
}

/* IBA 10.8.3.3 */
static void a_fenced_write_waits_for_reads(void **state)
{
	struct pair *pair = begin(be_bad);

	pattern_fill(pair->side[1].memory, 60 * KB, 5);
	pattern_fill(pair->side[0].memory + HALF, 60 * KB, 6);
	for (unsigned i = 0; i < 20; i++) {
		uint32_t tag = 5 + i % 2;

		memset(pair->side[0].memory, 0, 60 * KB);
		pattern_fill(pair->side[0].memory + HALF, 60 * KB, 11 - tag);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 60 * KB });
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 60 * KB, .local = HALF,
						   .flags = IBV_SEND_FENCE });
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[0].memory, 60 * KB, tag));
		assert_true(pattern_holds(pair->side[1].memory, 60 * KB, 11 - tag));
	}
	end(pair);
}

/* A READ finds what the WRITE before it wrote, also when that goes by a slow path. */
static void a_read_finds_what_was_written(void **state)
{
	struct pair *pair = begin(NULL);

	pair->sim->config.lane[0].delay_ns = WTIME_MS;
	pair->sim->config.lane[2].delay_ns = 300 * WTIME_US;
	for (uint32_t i = 0; i < 20; i++) {
		pattern_fill(pair->side[0].memory, 4 * KB, i);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 4 * KB });
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .local = HALF, .bytes = 4 * KB });
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[0].memory + HALF, 4 * KB, i));
	}
	end(pair);
}

static void one_path(struct pair_config *c)
{
	c->options.paths = 1;
}

/* MPT-18: the network changes the order of a path, and the path does not. */
static void what_was_overtaken_is_dropped(void **state)
{
	struct pair *pair = begin(one_path);
	struct counters *seen = &pair->side[1].node->ca.counters;

	pattern_fill(pair->side[0].memory, 8 * KB, 8);
	sim_fault_add(pair->sim, SIM_SWAP, 0, 3);
	sim_fault_add(pair->sim, SIM_DUPLICATE, 0, 6);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(seen->multipath_foreign, 2);
	assert_int_equal(seen->multipath_not_executed, 0);
	assert_true(pattern_holds(pair->side[1].memory, 8 * KB, 8));
	end(pair);
}

/* SQD: what has begun ends, the rest waits. Then RESET, and a new connection of the same QPs. */
static void queues_drain_and_begin_anew(void **state)
{
	struct pair *pair = begin(NULL);
	struct ibv_qp_attr attr = { .en_sqd_async_notify = 1 };
	const int drain = IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;

	for (unsigned round = 0; round < 2; round++) {
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 60 * KB });
		attr.qp_state = IBV_QPS_SQD;
		assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &attr, drain), 0);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 60 * KB });
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		expect_nothing(pair, 0);
		assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), round + 1);
		attr.qp_state = IBV_QPS_RTS;
		assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
		pair_run(pair);
		expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
		attr.qp_state = IBV_QPS_RESET;
		for (int i = 0; i < 2; i++)
			assert_int_equal(qp_modify(pair->side[i].qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pair_connect(pair, i, pair->side[i].qp, pair->side[!i].qp, IBV_QPS_RTS), 0);
	}
	end(pair);
}

/* ---- strangers ---- */

static void two_profiles_do_not_speak(void **state)
{
	for (int which = 0; which < 2; which++) {
		struct pair *pair = begin(few_retries);
		struct ib_options options = ib_default_options;
		struct pair_side *s = &pair->side[which];
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

		assert_int_equal(qp_modify(s->qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
		assert_int_equal(ib_set_options(s->qp, &options), 0);
		assert_int_equal(pair_connect(pair, which, s->qp, pair->side[!which].qp, IBV_QPS_RTS), 0);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB });
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(pair->side[1].qp->state, IBV_QPS_RTS);
		assert_int_equal(pair->side[1].memory[0], 0);
		end(pair);
	}
}

/* ---- paths ---- */

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

/* ---- forged packets ---- */

static void forged_packets_change_nothing(void **state)
{
	struct pair *pair = begin(NULL);
	const struct mp_responder *target = &multi_of(pair->side[1].qp)->responder;
	struct counters *seen = &pair->side[1].node->ca.counters;
	struct mp_packet p = { .version = MP_VERSION, .type = MP_PATH_DOWN, .path = 1, .epoch = 1 };
	struct forgery f = { 0 };

	pair->sim->tap = remember;
	pair->sim->tap_arg = &f;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	p.connection = target->config.connection ^ 1;		/* who does not know the PSN */
	forge(pair, &f, 0, 1, &p);
	assert_int_equal(seen->multipath_foreign, 1);
	p.connection ^= 1;
	forge(pair, &f, 0, -3, &p);				/* one that is repeated */
	assert_int_equal(seen->multipath_foreign, 2);
	p.epoch = 3;						/* of the future */
	forge(pair, &f, 0, 1, &p);
	assert_int_equal(target->count[MP_PATH_OLD], 1);
	p = (struct mp_packet){ .version = MP_VERSION, .type = MP_PATH_UP, .connection = p.connection, .path = 200, .epoch = 0 };
	forge(pair, &f, 0, 2, &p);				/* there is no such path */
	assert_int_equal(target->count[MP_FOREIGN], 1);
	forge(pair, &f, 8, 3, &p);				/* nor this */
	p = (struct mp_packet){ .version = MP_VERSION, .type = MP_REQ, .code = MP_ATOMIC_WRITE, .order = MP_ORDERED, .last = 1,
				.connection = p.connection, .pkn = 1, .length = 8, .total = 8, .payload = f.bytes };
	forge(pair, &f, 0, 4, &p);				/* without its payload */
	assert_int_equal(seen->multipath_foreign, 3);
	for (unsigned i = 0; i < MP_PATHS; i++)
		assert_int_equal(target->epoch[i], 0);
	multi_of(pair->side[0].qp)->sent[0] = psn_add(multi_of(pair->side[0].qp)->sent[0], 5);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	end(pair);
}

/* Whoever asks without end is answered as far as there is room, and what comes meanwhile counts as lost. */
static void questions_without_end_take_no_more_room(void **state)
{
	struct pair *pair = begin(NULL);
	struct sim_node *node = pair->side[1].node;
	const struct multi *m = multi_of(pair->side[1].qp);
	struct mp_packet p = { .version = MP_VERSION, .type = MP_BARRIER, .connection = m->responder.config.connection };
	uint8_t bytes[MP_HEADER + MP_CRC];
	struct iovec payload = { bytes, mp_packet_build(&p, bytes) };
	struct packet packet;
	uint32_t sent;

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 64 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	packet = (struct packet){ .form = PACKET_ROCE, .opcode = OPCODE_WEFT_MULTIPATH, .pkey = 0xffff, .resv.bth7 = 3,
				  .dest_qpn = pair->side[1].qp->qpn, .path = pair->side[0].qp->path, .payload = &payload,
				  .payload_iovs = 1, .payload_bytes = (uint32_t)payload.iov_len };
	sent = node->sent;
	for (psn_t i = 0; i < 4 * MULTI_REPLIES; i++) {
		packet.psn = i % 2 ? i : 0;	/* and half of them overtaken */
		ca_input(&node->ca, node->dev, pair->sim->now, 1, &packet);
		ib_check(pair->side[1].qp);
	}
	assert_int_equal(m->replies, MULTI_REPLIES);
	pair_run(pair);
	assert_int_equal(node->sent - sent, MULTI_REPLIES);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 * KB });
	pair_run(pair);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	end(pair);
}

/* ---- bulk data, then a flag ---- */

enum { BULK = 8 * KB };

static void flags_with(void (*change)(struct pair_config *), unsigned flags, enum ibv_wr_opcode flag)
{
	struct pair *pair = begin(change);
	uint32_t posted = 0, seen = 0, sent = 0;
	const uint32_t *data = (const uint32_t *)(const void *)pair->side[1].memory;
	struct cqe cqe;

	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(pair_recv(pair, 1, i, HALF, 64), 0);
	while (seen < flags) {
		while (posted - sent < 2 && posted < flags) {
			uint32_t slot = posted % 4 * BULK;

			for (uint32_t i = 0; i < BULK; i += 4)
				memcpy(pair->side[0].memory + slot + i, &posted, 4);
			if (flag != IBV_WR_RDMA_WRITE_WITH_IMM)
				post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .local = slot, .remote = slot,
								   .bytes = BULK });
			post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = flag, .local = slot, .remote = slot,
							   .bytes = flag == IBV_WR_SEND ? 4 : BULK, .imm = posted });
			posted++;
			sim_touch(pair->sim, 0);
		}
		assert_true(sim_step(pair->sim));
		while (pair_poll_send(pair, 0, &cqe)) {
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
			sent += (uint32_t)cqe.wr_id;
		}
		while (pair_poll_recv(pair, 1, &cqe)) {
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
			for (uint32_t i = 0; i < BULK / 4; i++)
				assert_int_equal(data[seen % 4 * BULK / 4 + i], seen);
			seen++;
			assert_int_equal(pair_recv(pair, 1, 0, HALF, 64), 0);
			sim_touch(pair->sim, 1);
		}
	}
	end(pair);
}

static unsigned flags = 400;

static void no_flag_comes_before_its_data(void **state)
{
	flags_with(be_slow, flags, IBV_WR_SEND);
	flags_with(be_bad, flags, IBV_WR_SEND);
	flags_with(be_bad, flags, IBV_WR_RDMA_WRITE_WITH_IMM);
	flags_with(be_silent, flags, IBV_WR_SEND);
	flags_with(be_renumbering, flags, IBV_WR_RDMA_WRITE_WITH_IMM);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_works),
		cmocka_unit_test(a_key_goes_with_its_send),
		cmocka_unit_test(errors_have_their_statuses),
		cmocka_unit_test(a_write_beyond_its_region_leaves_no_trace),
		cmocka_unit_test(a_send_waits_for_its_receive),
		cmocka_unit_test(a_fenced_write_waits_for_reads),
		cmocka_unit_test(a_read_finds_what_was_written),
		cmocka_unit_test(what_was_overtaken_is_dropped),
		cmocka_unit_test(queues_drain_and_begin_anew),
		cmocka_unit_test(two_profiles_do_not_speak),
		cmocka_unit_test(throughput_is_the_sum_of_paths),
		cmocka_unit_test(a_path_is_cut_and_heals),
		cmocka_unit_test(a_path_fails_on_demand),
		cmocka_unit_test(what_a_failing_path_loses),
		cmocka_unit_test(paths_are_pairs_of_lids),
		cmocka_unit_test(pairs_of_lids_are_learnt_again),
		cmocka_unit_test(paths_share_pairs_of_lids),
		cmocka_unit_test(a_foreign_lid_is_refused),
		cmocka_unit_test(all_paths_are_cut),
		cmocka_unit_test(a_stopped_peer_costs_no_retries),
		cmocka_unit_test(paths_that_flap),
		cmocka_unit_test(forged_packets_change_nothing),
		cmocka_unit_test(questions_without_end_take_no_more_room),
		cmocka_unit_test(no_flag_comes_before_its_data),
	};

	if (argc > 1)
		flags = (unsigned)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
