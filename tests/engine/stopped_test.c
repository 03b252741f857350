/* A peer that stands still: the link keeps what its process has not taken, so nothing is lost, nothing is sent again and no retry
 * is used up, however long it takes. Where the link may lose frames, where the peer has ended, and where it is asked for, the
 * standard's timeouts hold. */
#include "engine_test.h"

#include "ib/engine.h"

enum { BYTES = 3000, TIMEOUT = 8, RETRIES = 2, ROUNDS = 5 };

static const wtime MINUTE = 60 * WTIME_S, TIMEOUT_NS = 4096ull << TIMEOUT;

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
};
enum { OPCODES = sizeof(opcodes) / sizeof(opcodes[0]) };

static struct pair *start(enum ibv_qp_type type, bool keeps, uint8_t retries, const char *options)
{
	struct pair_config config = {
		.sim = { .seed = 7, .link = { .delay_ns = 10 * WTIME_US, .keeps = keeps } }, .type = type, .timeout = TIMEOUT,
		.retry_cnt = retries, .min_rnr_timer = 1, .rnr_retry = 2,
	};
	struct pair *pair;

	assert_int_equal(ib_options_parse(options, &config.options), 0);
	pair = pair_new(&config);
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(pair_recv(pair, 1, i, 0, 4096), 0);
	return pair;
}

/* One request of each kind. */
static void post_all(struct pair *pair)
{
	for (unsigned i = 0; i < OPCODES; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = opcodes[i], .remote = 8192,
						   .bytes = opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : BYTES });
}

static void run_for(struct pair *pair, wtime ns)
{
	wtime until = pair->sim->now + ns;

	sim_run(pair->sim, until);
	if (pair->sim->now < until)
		sim_advance(pair->sim, until - pair->sim->now);
}

static void expect_all_sent(struct pair *pair)
{
	for (unsigned i = 0; i < OPCODES; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_RTS);
}

/* A minute at once, and again and again. */
static void survives(enum ibv_qp_type type, uint8_t retries)
{
	struct pair *pair = start(type, true, retries, "standard");
	struct sim_node *node = pair->side[0].node;
	struct cqe cqe;

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint32_t sent;

		sim_stop(pair->sim, 1);
		post_all(pair);
		sent = node->sent;
		run_for(pair, MINUTE);
		assert_false(pair_poll_send(pair, 0, &cqe));
		assert_int_equal(node->sent, sent);
		sim_continue(pair->sim, 1);
		run_for(pair, MINUTE);
		expect_all_sent(pair);
		assert_int_equal(node->ca.counters.completer_retry_err, 0);
		assert_int_equal(node->ca.counters.probes, 0);
	}
	pair_delete(pair);
}

static void a_peer_that_stops_for_a_minute_costs_no_retry(void **state)
{
	survives(IBV_QPT_RC, RETRIES);
	survives(IBV_QPT_RC, 0);
	survives(IBV_QPT_XRC_SEND, RETRIES);
}

/* It stops in the midst of a stream, at any packet of it: what it has executed it may not have acknowledged yet. */
static void a_peer_that_stops_anywhere_is_waited_for(void **state)
{
	for (unsigned stop = 0; stop < 60; stop++) {
		struct pair *pair = start(IBV_QPT_RC, true, RETRIES, "standard");

		post_all(pair);
		for (unsigned i = 0; i < stop; i++)
			sim_step(pair->sim);
		sim_stop(pair->sim, 1);
		run_for(pair, MINUTE);
		sim_continue(pair->sim, 1);
		run_for(pair, MINUTE);
		expect_all_sent(pair);
		assert_true(pair->side[0].node->ca.counters.completer_retry_err <= 1);
		pair_delete(pair);
	}
}

/* When the answer comes late the standard's time for it begins when the request was taken. */
static void once_taken_the_answer_has_its_time(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, true, 0, "standard");

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 });
	sim_stop(pair->sim, 1);
	run_for(pair, TIMEOUT_NS * 5 / 2);
	sim_continue(pair->sim, 1);
	sim_pump(pair->sim);
	assert_true(sim_delay_next(pair->sim, TIMEOUT_NS * 5 / 4));	/* past the time that runs: there is another */
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[0].node->ca.counters.completer_retry_err, 0);
	pair_delete(pair);
}

static void expect_failed_in(struct pair *pair, wtime longest_ns)
{
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = BYTES });
	run_for(pair, longest_ns);
	expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
	pair_delete(pair);
}

static void the_standards_timeout_is_there(void **state)
{
	const wtime in_all = (RETRIES + 1) * TIMEOUT_NS + WTIME_MS;
	struct pair *pair = start(IBV_QPT_RC, true, RETRIES, "standard,timeout=standard");

	sim_stop(pair->sim, 1);
	expect_failed_in(pair, in_all);
	pair = start(IBV_QPT_RC, false, RETRIES, "standard,timeout=taken");	/* a link that may lose frames */
	sim_stop(pair->sim, 1);
	expect_failed_in(pair, in_all);
}

/* What is to be sent again finds the link full of what was sent before. */
static void a_full_link_costs_retries_too(void **state)
{
	const wtime in_all = (RETRIES + 1) * TIMEOUT_NS + WTIME_MS;
	struct pair_config config = {
		.sim = { .seed = 7, .link = { .delay_ns = 10 * WTIME_US, .keeps = true, .room = 4 } }, .type = IBV_QPT_RC,
		.timeout = TIMEOUT, .retry_cnt = RETRIES,
	};
	struct pair *pair;

	assert_int_equal(ib_options_parse("standard,timeout=standard", &config.options), 0);
	pair = pair_new(&config);
	sim_stop(pair->sim, 1);
	expect_failed_in(pair, in_all);
}

/* The requester itself had no processor for some timeouts: its answers wait, and its timers are looked at first. Where there is
 * no answer the first absence is excused, and the next ones count. */
static void an_absence_of_ones_own_costs_no_retry(void **state)
{
	for (unsigned i = 0; i < 2 * OPCODES; i++) {
		struct pair *pair = start(IBV_QPT_RC, false, RETRIES, i < OPCODES ? "standard" : "standard,timeout=standard");
		struct sim_node *node = pair->side[0].node;
		enum ibv_wr_opcode opcode = opcodes[i % OPCODES];
		uint32_t sent;

		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = opcode, .remote = 8192,
						   .bytes = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : BYTES });
		sim_pump(pair->sim);
		sent = node->sent;
		sim_stop(pair->sim, 0);
		run_for(pair, 3 * TIMEOUT_NS);
		ca_expire(&node->ca, pair->sim->now);
		sim_continue(pair->sim, 0);
		pair_run(pair);
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		assert_int_equal(node->ca.counters.completer_retry_err, i < OPCODES ? 0 : 1);
		assert_true(node->sent == sent || i >= OPCODES);
		pair_delete(pair);
	}
}

static void absences_without_an_answer_count(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, false, RETRIES, "standard");
	struct sim_node *node = pair->side[0].node;
	unsigned looks;

	pair->side[1].node->deaf = true;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = BYTES });
	sim_pump(pair->sim);
	for (looks = 0; pair->side[0].qp->state == IBV_QPS_RTS; looks++) {
		sim_stop(pair->sim, 0);
		run_for(pair, 3 * TIMEOUT_NS);
		ca_expire(&node->ca, pair->sim->now);
		sim_continue(pair->sim, 0);
		sim_pump(pair->sim);
	}
	expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_true(looks <= 2 * (RETRIES + 1));
	pair_delete(pair);
}

/* Its process ends while it is waited for. */
static void a_peer_that_ends_is_not_waited_for(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, true, RETRIES, "standard");

	sim_stop(pair->sim, 1);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = BYTES });
	run_for(pair, MINUTE);
	pair->side[1].node->deaf = true;
	run_for(pair, (RETRIES + 3) * TIMEOUT_NS);
	expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
	pair_delete(pair);
}

/* A QP that is gone does not answer, and the link to its process, which lives, is never empty. IBA 9.7.6.1.3 lets a timeout be up
 * to four times its value. */
static void other_traffic_does_not_hide_a_dead_qp(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, true, RETRIES, "standard");
	struct sim_node *node = pair->side[0].node;
	static const uint8_t frame[64];
	wtime until;

	qp_modify(pair->side[1].qp, 1, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = BYTES });
	until = pair->sim->now + 4 * (RETRIES + 1) * TIMEOUT_NS;
	while (pair->sim->now < until && pair->side[0].qp->state == IBV_QPS_RTS) {
		sim_launch(pair->sim, 0, 1, frame, sizeof(frame));
		run_for(pair, 9 * WTIME_US);
	}
	assert_true(node->ca.counters.retry_exceeded_err == 1);
	expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_that_stops_for_a_minute_costs_no_retry),
		cmocka_unit_test(a_peer_that_stops_anywhere_is_waited_for),
		cmocka_unit_test(once_taken_the_answer_has_its_time),
		cmocka_unit_test(an_absence_of_ones_own_costs_no_retry),
		cmocka_unit_test(absences_without_an_answer_count),
		cmocka_unit_test(the_standards_timeout_is_there),
		cmocka_unit_test(a_full_link_costs_retries_too),
		cmocka_unit_test(a_peer_that_ends_is_not_waited_for),
		cmocka_unit_test(other_traffic_does_not_hide_a_dead_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
