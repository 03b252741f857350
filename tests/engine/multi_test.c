/* RC QPs of the profile `multipath`: what verbs promise over several paths that lose, reorder and spoil. */
#include "multi_run.h"

/* ---- every operation ---- */

static void be_infiniband(struct pair_config *c)
{
	c->sim.form = PACKET_IB;
	c->sim.two_addresses = true;
	c->sim.lanes = 2;
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

/* IBA 11.2.5.2: they are of what is sent after SQD. */
static void retries_of_a_drained_queue_count(void **state)
{
	struct pair *pair = begin(NULL);
	struct qp *qp = pair->side[0].qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .timeout = 10, .retry_cnt = 1, .rnr_retry = 0 };

	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 8 });
	sim_run(pair->sim, pair->sim->now + 20 * WTIME_MS);
	expect_sent(pair, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(pair->side[1].node->ca.counters.send_rnr_err, 1);
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

int main(void)
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
		cmocka_unit_test(retries_of_a_drained_queue_count),
		cmocka_unit_test(two_profiles_do_not_speak),
		cmocka_unit_test(forged_packets_change_nothing),
		cmocka_unit_test(questions_without_end_take_no_more_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
