/* Every single and every double fault (drop, duplicate, swap with the next, corrupt) of an exchange of 12 packets, for each
 * operation, in both directions and both profiles. All of them end in exact delivery.
 * engine_sweep_test [N]: each Nth fault, alone and with each that follows it. */
#include "traffic.h"

#include <stdlib.h>

enum { FRAMES = 12, FRAMES_MOST = 20 };

static unsigned stride = 1;

/* Messages such that requests and answers are 12 frames in all. */
static const struct exchange {
	const char *name;
	enum ibv_wr_opcode opcode;
	unsigned messages, packets;	/* packets: of each message's payload */
} exchanges[] = {
	{ "send", IBV_WR_SEND, 1, 11 },
	{ "send with immediate", IBV_WR_SEND_WITH_IMM, 3, 3 },
	{ "write", IBV_WR_RDMA_WRITE, 2, 5 },
	{ "write with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, 6, 1 },
	{ "read", IBV_WR_RDMA_READ, 1, 11 },
	{ "short reads", IBV_WR_RDMA_READ, 4, 2 },
	{ "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, 6, 1 },
	{ "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, 6, 1 },
	{ "atomic write", IBV_WR_ATOMIC_WRITE, 6, 1 },
};

/* Two requests, and 18 responses. */
static const struct exchange pieces = { "read in pieces", IBV_WR_RDMA_READ, 1, 18 };

/* How losses are repaired, and what an acknowledgement means. */
struct style {
	enum ib_profile profile;
	bool selective;
};

struct frame {
	int node;
	uint32_t nth;
};

/* Which frames a run without faults sends. */
struct order {
	struct frame frame[4 * FRAMES_MOST];
	uint32_t count[2];
	unsigned frames;
};

static void note(void *arg, int node, const struct packet *p)
{
	struct order *order = arg;

	if (order->frames < sizeof(order->frame) / sizeof(order->frame[0]))
		order->frame[order->frames++] = (struct frame){ node, order->count[node]++ };
}

static bool run(const struct exchange *e, int from, struct style style, const struct sim_fault *fault, unsigned faults,
		struct order *order)
{
	struct pair_config config = {
		.sim = { .seed = 7 }, .mtu = IBV_MTU_256, .memory_bytes = 16 << 10, .psn = { 0xfffffb, 0xfffff9 },
		.timeout = 5, .retry_cnt = 7, .rd_atomic = 16,
		.options = {
			.profile = style.profile, .window_pkts = IB_WINDOW, .ack_every = 1, .start_msn = 0xfffffe,
			.selective_repeat = style.selective,
		},
	};
	struct traffic t;
	bool delivered;

	traffic_init(&t, pair_new(&config));
	for (unsigned i = 0; i < faults; i++)
		sim_fault_add(t.pair->sim, fault[i].kind, fault[i].node, fault[i].nth);
	if (order) {
		*order = (struct order){ 0 };
		t.pair->sim->tap = note;
		t.pair->sim->tap_arg = order;
	}
	for (unsigned i = 0; i < e->messages; i++)
		assert_true(traffic_add(&t, from, e->opcode, 256 * e->packets - 3, IBV_SEND_SIGNALED, 1 + i));
	while (traffic_post_receive(&t, !from))
		;
	while (traffic_post(&t, from))
		;
	pair_run(t.pair);
	delivered = traffic_settle(&t);
	if (t.fault)
		print_error("%s\n", t.fault);
	pair_delete(t.pair);
	return delivered && !t.fault;
}

static struct sim_fault fault_at(const struct order *order, unsigned frame, unsigned kind)
{
	return (struct sim_fault){ (enum sim_fault_kind)kind, order->frame[frame].node, order->frame[frame].nth };
}

static void must(const struct exchange *e, int from, struct style style, const struct sim_fault *fault, unsigned faults)
{
	static const char *const kind[SIM_FAULT_KINDS] = { "drop", "duplicate", "swap", "corrupt" };

	if (run(e, from, style, fault, faults, NULL))
		return;
	for (unsigned i = 0; i < faults; i++)
		print_error("%s frame %u of node %d\n", kind[fault[i].kind], fault[i].nth, fault[i].node);
	fail_msg("%s from node %d, profile %d, selective %d: not delivered", e->name, from, style.profile, style.selective);
}

static unsigned sweep(const struct exchange *e, unsigned frames, int from, struct style style)
{
	struct sim_fault fault[2];
	struct order order;
	unsigned done = 0;

	assert_true(run(e, from, style, NULL, 0, &order));
	assert_int_equal(order.frames, frames);
	for (unsigned a = 0; a < order.frames * SIM_FAULT_KINDS; a += stride) {
		fault[0] = fault_at(&order, a / SIM_FAULT_KINDS, a % SIM_FAULT_KINDS);
		must(e, from, style, fault, 1);
		done++;
		for (unsigned b = (a / SIM_FAULT_KINDS + 1) * SIM_FAULT_KINDS; b < order.frames * SIM_FAULT_KINDS; b++) {
			fault[1] = fault_at(&order, b / SIM_FAULT_KINDS, b % SIM_FAULT_KINDS);
			must(e, from, style, fault, 2);
			done++;
		}
	}
	return done;
}

static void sweep_all(struct style style)
{
	unsigned done = 0;

	for (unsigned i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++)
		for (int from = 0; from < 2; from++)
			done += sweep(&exchanges[i], FRAMES, from, style);
	print_message("%u exchanges\n", done);
}

static void standard_profile(void **state)
{
	sweep_all((struct style){ IB_STANDARD, false });
}

static void seed_profile(void **state)
{
	sweep_all((struct style){ IB_SEED, false });
}

static void selective_repeat(void **state)
{
	struct style style = { IB_STANDARD, true };

	sweep_all(style);
	print_message("%u exchanges of pieces\n", sweep(&pieces, FRAMES_MOST, 0, style));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(standard_profile), cmocka_unit_test(seed_profile), cmocka_unit_test(selective_repeat),
	};

	if (argc > 1)
		stride = (unsigned)strtoul(argv[1], NULL, 0);
	if (!stride) {
		fprintf(stderr, "engine_sweep_test: '%s' is no number above 0\n", argv[1]);
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
