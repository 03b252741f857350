/* Seeded random runs: any operations, sizes, MTUs, options and faults up to 20 %, in both directions at once. Each ends in
 * exact delivery or a clean error, and the same seed gives the same trace. Arguments: runs, first seed. */
#include "traffic.h"

#include "wire/mtu.h"

static unsigned runs = 30000;
static uint64_t first_seed = 1;

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE,
};
enum { OPCODES = sizeof(opcodes) / sizeof(opcodes[0]) };

/* One of a few magnitudes, so that none, some and many all happen. */
static uint32_t some_ppm(struct rand *r)
{
	static const uint32_t ppm[] = { 0, 0, 0, 1000, 10000, 50000, 200000 };

	return ppm[rand_below(r, sizeof(ppm) / sizeof(ppm[0]))];
}

static uint32_t some_bytes(struct rand *r, uint32_t mtu)
{
	switch (rand_below(r, 5)) {
	case 0:
		return (uint32_t)rand_below(r, 9);
	case 1:
		return mtu * (uint32_t)rand_below(r, 4) + (uint32_t)rand_below(r, 3);
	case 2:
		return (uint32_t)rand_below(r, 12 * mtu);
	default:
		return (uint32_t)rand_below(r, 2 * mtu);
	}
}

static psn_t some_psn(struct rand *r)
{
	return rand_below(r, 2) ? psn_add(0, -(int64_t)rand_below(r, 20)) : (psn_t)rand_below(r, 1 << 24);
}

static void draw_link(struct rand *r, struct sim_link *link)
{
	*link = (struct sim_link){
		.delay_ns = 100 + rand_below(r, 3000), .byte_ns = rand_below(r, 2),
		.loss = some_ppm(r), .duplicate = some_ppm(r), .reorder = some_ppm(r), .corrupt = some_ppm(r),
		.reorder_ns = rand_below(r, 2) ? rand_below(r, 20000) : 0,
		.room = rand_below(r, 3) ? 0 : 1 + (uint32_t)rand_below(r, 8),
	};
}

static void draw(struct rand *r, struct pair_config *c)
{
	*c = (struct pair_config){
		.sim = { .seed = rand_u64(r), .form = rand_below(r, 2) ? PACKET_ROCE : PACKET_IB, .trace = true },
		.type = rand_below(r, 5) ? IBV_QPT_RC : IBV_QPT_XRC_SEND,
		.mtu = IBV_MTU_256 + (enum ibv_mtu)rand_below(r, 5),
		.memory_bytes = 256 << 10,
		.psn = { some_psn(r), some_psn(r) },
		.timeout = 6, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1 + (uint8_t)rand_below(r, 4),
		.rd_atomic = 1 + (uint8_t)rand_below(r, 6), .with_grh = rand_below(r, 2), .shared_receives = rand_below(r, 2),
		.unsignaled = true,
		.options = {
			.profile = rand_below(r, 3) ? IB_STANDARD : IB_SEED, .ack_mode = (enum ib_ack_mode)rand_below(r, 4),
			.window_pkts = (uint16_t)(1 << rand_below(r, 7)), .ack_every = 1 + (uint16_t)rand_below(r, 5),
			.start_msn = some_psn(r), .exchange_start = rand_below(r, 4) == 0,
			.completion = (enum ib_completion)rand_below(r, 4),
			.selective_repeat = rand_below(r, 3) > 0,
		},
	};
	draw_link(r, &c->sim.link);
	if (c->sim.link.reorder && c->options.ack_mode == IB_ACK_COALESCED)
		c->options.ack_mode = IB_ACK_PER_PACKET;	/* refused together: MSN-23 */
}

/* Few, but of many packets: READs that are asked for in pieces. */
static void plan_long(struct traffic *t, struct rand *r)
{
	static const enum ibv_wr_opcode longs[] = {
		IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	for (int side = 0; side < 2; side++)
		for (unsigned i = 0; i < 8; i++) {
			enum ibv_wr_opcode opcode = longs[rand_below(r, sizeof(longs) / sizeof(longs[0]))];
			unsigned flags = (rand_below(r, 4) ? IBV_SEND_SIGNALED : 0) | (rand_below(r, 8) ? 0 : IBV_SEND_FENCE);

			traffic_add(t, side, opcode, (uint32_t)rand_below(r, 60000), flags, rand_below(r, 1000));
		}
}

static void plan(struct traffic *t, struct rand *r)
{
	uint32_t mtu = mtu_bytes(t->pair->config.mtu);

	for (int side = 0; side < 2; side++) {
		unsigned ops = (unsigned)rand_below(r, TRAFFIC_OPS);

		for (unsigned i = 0; i < ops; i++) {
			enum ibv_wr_opcode opcode = opcodes[rand_below(r, OPCODES)];
			unsigned flags = (rand_below(r, 4) ? IBV_SEND_SIGNALED : 0) | (rand_below(r, 8) ? 0 : IBV_SEND_FENCE);

			if (opcode == IBV_WR_ATOMIC_WRITE && t->pair->config.type != IBV_QPT_RC)
				opcode = IBV_WR_RDMA_WRITE;
			if (!traffic_add(t, side, opcode, some_bytes(r, mtu), flags, rand_below(r, 1000)))
				break;
		}
	}
}

/* Posts, receives and steps, in any order, until all is posted. */
static void drive(struct traffic *t, struct rand *r)
{
	bool may_wait = rand_below(r, 2);

	if (!may_wait)
		for (int side = 0; side < 2; side++)
			while (traffic_post_receive(t, side))
				;
	for (unsigned idle = 0; idle < 200; idle++) {
		int side = (int)rand_below(r, 2);
		uint64_t what = rand_below(r, 4);

		if (what < 2) {
			idle = traffic_post_one(t, side, what) ? 0 : idle;
			continue;
		}
		for (uint64_t n = rand_below(r, 6); n; n--)
			sim_step(t->pair->sim);
		traffic_poll(t);
	}
	for (int side = 0; side < 2; side++) {
		while (traffic_post_receive(t, side))
			;
		while (traffic_post(t, side))
			;
	}
	pair_run(t->pair);
}

struct outcome {
	bool delivered;
	const char *fault;
	uint64_t trace_hash;
	uint32_t status;
};

static uint64_t hash(const char *text)
{
	uint64_t h = 14695981039346656037ull;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 1099511628211ull;
	return h;
}

static bool is_faulty(const struct sim_link *link)
{
	return link->loss || link->corrupt || link->reorder || link->duplicate;
}

/* Several paths, each of which is slow, loses, is cut and heals as chance has it. */
static void draw_paths(struct rand *r, struct pair_config *c)
{
	c->sim.form = PACKET_ROCE;
	c->sim.is_network = true;
	c->sim.lanes = 4;
	c->sim.two_addresses = rand_below(r, 2);
	c->type = IBV_QPT_RC;
	c->mtu = IBV_MTU_256;
	c->memory_bytes = 1 << 20;
	c->options.profile = IB_STANDARD;
	c->options.selective_repeat = true;
	c->options.congestion_control = true;
	c->options.completion = IB_COMPLETE_AS_PROFILE;
	c->options.window_pkts = (uint16_t)(1 << rand_below(r, 7));
	c->options.paths = 2 + (uint8_t)rand_below(r, 7);
	for (unsigned i = 0; i < c->sim.lanes; i++)
		c->sim.lane[i] = (struct sim_lane){
			.delay_ns = rand_below(r, 20000), .byte_ns = rand_below(r, 4), .loss = some_ppm(r) / 4,
		};
}

struct cuts {
	struct sim *sim;
	struct rand rand;
	wtime next;
};

static void cut_and_heal(void *arg, int node, const struct packet *p)
{
	struct cuts *cuts = arg;
	unsigned lane;

	if (cuts->sim->now < cuts->next)
		return;
	cuts->next = cuts->sim->now + rand_below(&cuts->rand, WTIME_MS);
	lane = (unsigned)rand_below(&cuts->rand, cuts->sim->config.lanes);
	for (unsigned i = 0; i < cuts->sim->config.lanes; i++)
		cuts->sim->config.lane[i].is_cut = i == lane && rand_below(&cuts->rand, 2);
}

enum kind { SHORT, LONG, SPREAD };

static struct outcome run(uint64_t seed, enum kind kind, bool verbose)
{
	struct cuts cuts = { 0 };
	struct outcome outcome;
	struct pair_config config;
	struct traffic t;
	struct rand r;

	rand_seed(&r, seed);
	draw(&r, &config);
	config.sim.trace = verbose;
	if (kind == SPREAD)
		draw_paths(&r, &config);
	if (kind == LONG) {
		config.mtu = IBV_MTU_256;
		config.memory_bytes = 1 << 20;
		config.rd_atomic = 1 + (uint8_t)rand_below(&r, 16);
		config.options.profile = IB_STANDARD;
	}
	traffic_init(&t, pair_new(&config));
	if (kind == SPREAD) {
		cuts.sim = t.pair->sim;
		rand_seed(&cuts.rand, seed);
		t.pair->sim->tap = cut_and_heal;
		t.pair->sim->tap_arg = &cuts;
	}
	(kind == LONG || (kind == SPREAD && rand_below(&r, 2)) ? plan_long : plan)(&t, &r);
	drive(&t, &r);
	outcome.delivered = traffic_settle(&t);
	outcome.fault = t.fault;
	outcome.status = t.side[0].failed ? t.side[0].status : t.side[1].status;
	outcome.trace_hash = verbose ? hash(sim_trace(t.pair->sim)) : 0;
	/* without faults there is no excuse, and no error is other than the patience running out */
	if (!outcome.delivered && !outcome.fault && !is_faulty(&config.sim.link) && kind != SPREAD)
		outcome.fault = "failed without a fault";
	for (int i = 0; i < 2; i++) {
		enum ibv_wc_status status = t.side[i].status;

		if (t.side[i].failed && status != IBV_WC_RETRY_EXC_ERR && status != IBV_WC_WR_FLUSH_ERR && !outcome.fault)
			outcome.fault = "failed for another reason than retries";
	}
	if (verbose && outcome.fault)
		printf("%s\n", sim_trace(t.pair->sim));
	pair_delete(t.pair);
	return outcome;
}

static void run_all(unsigned count, enum kind kind)
{
	unsigned delivered = 0;

	for (unsigned i = 0; i < count; i++) {
		struct outcome outcome = run(first_seed + i, kind, false);

		if (outcome.fault)
			run(first_seed + i, kind, true);
		if (outcome.fault)
			fail_msg("seed %llu: %s (status %u)", (unsigned long long)(first_seed + i), outcome.fault,
				 outcome.status);
		delivered += outcome.delivered;
	}
	printf("%u runs, %u delivered, %u clean errors\n", count, delivered, count - delivered);
	assert_true(delivered > count * (kind == SPREAD ? 8 : 9) / 10);	/* where ways are cut besides, retries run out oftener */
}

static void every_run_ends_well(void **state)
{
	run_all(runs, SHORT);
}

static void long_messages_end_well(void **state)
{
	run_all(runs / 30, LONG);
}

static void several_paths_end_well(void **state)
{
	run_all(runs / 15, SPREAD);
}

static void the_same_seed_gives_the_same_trace(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		assert_true(run(seed, SHORT, true).trace_hash == run(seed, SHORT, true).trace_hash);
	assert_true(run(1, SHORT, true).trace_hash != run(2, SHORT, true).trace_hash);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_run_ends_well),
		cmocka_unit_test(long_messages_end_well),
		cmocka_unit_test(several_paths_end_well),
		cmocka_unit_test(the_same_seed_gives_the_same_trace),
	};

	if (argc > 1)
		runs = (unsigned)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
