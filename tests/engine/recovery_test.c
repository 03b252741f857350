/* How soon losses are repaired, and that nothing is sent twice where nothing is lost, however long the way. */
#include "traffic.h"

enum { MESSAGES = 200, PACKETS = 5, MTU = 1024 };

static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };

struct measure {
	wtime took;
	uint64_t probes, repeats, back;		/* times: probed; requests came twice; the requester went back */
	uint32_t lost;
};

static void take_counters(struct measure *m, const struct pair *pair)
{
	m->probes = pair->side[0].node->ca.counters.probes;
	m->repeats = pair->side[1].node->ca.counters.duplicate_request;
	m->back = pair->side[0].node->ca.counters.completer_retry_err;
	m->lost = pair->sim->dropped;
}

/* Messages from side 0, `at_once` of them under way; for the second half of them the way takes later_delay. */
static struct measure stream(enum ibv_wr_opcode opcode, unsigned at_once, const struct sim_link *link, wtime later_delay,
			     enum ib_profile profile)
{
	struct pair_config config = {
		.sim = { .seed = 6, .link = *link }, .timeout = 18, .retry_cnt = 7, .rd_atomic = 8, .sends = 32,
		.options = ib_default_options,
	};
	struct pair_wr wr = { .opcode = opcode, .flags = IBV_SEND_SIGNALED, .bytes = PACKETS * MTU, .compare_add = 1 };
	struct measure m;
	struct pair *pair;
	unsigned posted = 0;
	wtime start;

	config.options.profile = profile;
	pair = pair_new(&config);
	start = pair->sim->now;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.bytes = sizeof(uint64_t);
	for (unsigned done = 0; done < MESSAGES;) {
		struct cqe cqe;

		if (done == MESSAGES / 2)
			pair->sim->config.link.delay_ns = later_delay;
		while (posted < MESSAGES && posted - done < at_once) {
			post_wr(pair, 0, wr);
			posted++;
		}
		assert_true(sim_step(pair->sim));
		for (; pair_poll_send(pair, 0, &cqe); done++)
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	}
	m.took = pair->sim->now - start;
	take_counters(&m, pair);
	pair_delete(pair);
	return m;
}

static void nothing_is_sent_twice_without_loss(void **state)
{
	static const wtime delays[] = { 1 * WTIME_US, 300 * WTIME_US, 20 * WTIME_MS, 120 * WTIME_MS };

	for (unsigned d = 0; d < sizeof(delays) / sizeof(delays[0]); d++)
		for (unsigned o = 0; o < sizeof(opcodes) / sizeof(opcodes[0]); o++)
			for (int profile = IB_STANDARD; profile <= IB_SEED; profile++)
				for (unsigned at_once = 1; at_once <= 16; at_once *= 16) {
					struct sim_link link = { .delay_ns = delays[d], .byte_ns = 1 };
					struct measure m = stream(opcodes[o], at_once, &link, delays[d],
								  (enum ib_profile)profile);

					assert_int_equal(m.probes + m.repeats + m.back, 0);
				}
}

/* A way that becomes longer is learnt within a few answers. */
static void a_longer_way_is_learnt(void **state)
{
	for (unsigned o = 0; o < sizeof(opcodes) / sizeof(opcodes[0]); o++)
		for (unsigned at_once = 1; at_once <= 16; at_once *= 16) {
			struct sim_link link = { .delay_ns = 1 * WTIME_US };
			struct measure m = stream(opcodes[o], at_once, &link, 20 * WTIME_MS, IB_STANDARD);

			assert_in_range(m.probes, 1, 32);
			assert_in_range(m.back, 0, 4);
		}
}

/* The ACK timeout is a second here: nothing waits for it, and once an answer was timed nothing waits for a part of it. */
static void losses_cost_round_trips(void **state)
{
	for (unsigned o = 0; o < sizeof(opcodes) / sizeof(opcodes[0]); o++)
		for (int profile = IB_STANDARD; profile <= IB_SEED; profile++)
			for (uint32_t loss = 50000; loss <= 200000; loss *= 4) {
				struct sim_link link = { .delay_ns = 1 * WTIME_US, .loss = loss };
				struct measure m = stream(opcodes[o], 8, &link, link.delay_ns, (enum ib_profile)profile);

				assert_true(m.lost > 10);
				assert_true(m.took < (4096ull << 18) / 2 + m.lost * WTIME_MS);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_sent_twice_without_loss),
		cmocka_unit_test(a_longer_way_is_learnt),
		cmocka_unit_test(losses_cost_round_trips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
