/* Figures of several paths, for scripts/paths: bandwidth over their number and over those that fail, latency beside a slow one,
 * and goodput over reordering (of the seed's
 * unordered mode: multipath_reorder_test.c). --figures: they are printed, and less is asserted. */
#include "engine_test.h"

#include "ib/engine.h"
#include "ib/spread.h"

#include <stdio.h>

enum { KB = 1 << 10, LANES = 8, MTU = 4096 };

static uint64_t seed = 3;
static bool prints;

static const wtime DELAY = 5 * WTIME_US, STEP = WTIME_US;

static struct pair *begin(unsigned paths, unsigned lanes, bool two_addresses, wtime second_byte_ns, unsigned sends)
{
	struct pair_config config = {
		.sim = { .seed = seed, .form = PACKET_ROCE, .is_network = true, .lanes = lanes, .two_addresses = two_addresses,
			 .link = { .delay_ns = DELAY } },
		.mtu = IBV_MTU_4096, .memory_bytes = 128 * KB, .sends = sends, .recvs = 16, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .rd_atomic = 16, .options = ib_default_options,
	};

	for (unsigned i = 0; i < SIM_LANES; i++)
		config.sim.lane[i] = (struct sim_lane){ .byte_ns = 1, .room_bytes = 256 * KB };
	config.sim.lane[1].byte_ns = second_byte_ns;
	config.options.paths = (uint8_t)paths;
	return pair_new(&config);
}

static void pass(struct pair *pair, wtime until)
{
	sim_run(pair->sim, until);
	if (pair->sim->now < until)
		sim_advance(pair->sim, until - pair->sim->now);
}

/* ---- bandwidth ---- */

enum { DEPTH = 32, MESSAGE = 64 * KB };

/* Payload in a second, of messages that are posted as others complete. */
static uint64_t bandwidth(struct pair *pair, enum ibv_wr_opcode opcode, wtime ns, unsigned *under_way)
{
	wtime from = pair->sim->now;
	uint64_t done = 0;
	struct cqe cqe;

	while (pair->sim->now < from + ns) {
		for (; pair_poll_send(pair, 0, &cqe); done++, --*under_way)
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		for (; *under_way < DEPTH; ++*under_way)
			post_wr(pair, 0, (struct pair_wr){ .opcode = opcode, .flags = IBV_SEND_SIGNALED, .bytes = MESSAGE });
		sim_touch(pair->sim, 0);
		pass(pair, pair->sim->now + 5 * STEP);
	}
	return done * MESSAGE * WTIME_S / (pair->sim->now - from);
}

static unsigned over_paths(unsigned paths, enum ibv_wr_opcode opcode, uint64_t one)
{
	struct pair *pair = begin(paths, LANES, true, 1, DEPTH);
	unsigned under_way = 0;
	uint64_t got;

	bandwidth(pair, opcode, 10 * WTIME_MS, &under_way);
	got = bandwidth(pair, opcode, 50 * WTIME_MS, &under_way);
	pair_delete(pair);
	return (unsigned)((got * 100 + one / 2) / one);
}

/* What one path carries at most, with headers: 1 byte a ns. */
static const uint64_t LINE = 1000000000ull * MTU / (MTU + 14 + 20 + 8 + 12 + 4);

static void paths_add_up(void **state)
{
	static const unsigned least[] = { 0, 95, 190, 280, 360, 0, 520, 0, 650 };

	for (unsigned paths = 1; paths <= LANES; paths++) {
		unsigned write = over_paths(paths, IBV_WR_RDMA_WRITE, LINE), read = over_paths(paths, IBV_WR_RDMA_READ, LINE);

		printf("paths write %u %u\npaths read %u %u\n", paths, write, paths, read);
		if (!prints)
			assert_true(write >= least[paths] && read >= least[paths]);
	}
}

/* Of four paths so many are cut, one after another, while data flows. */
static void what_is_left_is_used(void **state)
{
	struct pair *pair = begin(4, 4, false, 1, DEPTH);
	unsigned under_way = 0;

	bandwidth(pair, IBV_WR_RDMA_WRITE, 10 * WTIME_MS, &under_way);
	for (unsigned cut = 0; cut < 4; cut++) {
		unsigned got;

		if (cut) {
			pair->sim->config.lane[cut - 1].is_cut = true;
			bandwidth(pair, IBV_WR_RDMA_WRITE, 10 * WTIME_MS, &under_way);
		}
		got = (unsigned)(bandwidth(pair, IBV_WR_RDMA_WRITE, 50 * WTIME_MS, &under_way) * 100 / LINE);
		printf("failing write %u %u\n", cut, got);
		assert_true(got >= (4 - cut) * 88);
	}
	pair_delete(pair);
}

/* ---- latency ---- */

enum { SHORT = 16 * KB, SAMPLES = 20000 };

struct samples {
	unsigned n;
	wtime ns[2 * SAMPLES];
};

static int compare(const void *a, const void *b)
{
	wtime x = *(const wtime *)a, y = *(const wtime *)b;

	return x < y ? -1 : x > y;
}

static unsigned percentile_us(struct samples *s, unsigned permille)
{
	qsort(s->ns, s->n, sizeof(s->ns[0]), compare);
	return (unsigned)(s->ns[(uint64_t)s->n * permille / 1000] / WTIME_US);
}

/* A message each `every` ns, whatever has become of those before; adds how long each took. */
static void post_steadily(struct pair *pair, wtime every, unsigned count, struct samples *s)
{
	static wtime posted_at[SAMPLES];
	unsigned posted = 0, done = 0;
	wtime next = pair->sim->now;
	struct cqe cqe;

	while (done < count) {
		for (; pair_poll_send(pair, 0, &cqe); done++) {
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
			s->ns[s->n++] = pair->sim->now - posted_at[done];
		}
		for (; posted < count && next <= pair->sim->now && posted - done < 1024; next += every) {
			posted_at[posted++] = next;
			post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
							   .bytes = SHORT });
			sim_touch(pair->sim, 0);
		}
		pass(pair, pair->sim->now + STEP);
	}
}

/* One path: that of the lane. By the lane whose number the source port says. */
static void on_one(bool is_slow, wtime every, struct samples *s)
{
	struct pair *pair = begin(1, 2, false, 1, 1024);
	unsigned lane = pair->side[0].qp->path.udp_sport % 2;

	if (is_slow)
		pair->sim->config.lane[lane].byte_ns = 10;
	post_steadily(pair, every, SAMPLES / 2, s);
	pair_delete(pair);
}

static void on_both(wtime every, struct samples *s)
{
	struct pair *pair = begin(2, 2, true, 10, 1024);

	post_steadily(pair, every, SAMPLES / 2, s);
	pair_delete(pair);
}

/* Two ways, of which one is ten times slower: a QP over both; over the good one alone; and flows of which a switch's hash puts
 * half on each (ECMP), which have the load of one between them. */
static void a_slow_path_has_no_tail(void **state)
{
	static const unsigned loads[] = { 8, 50, 80 };	/* percent of the good path */
	static struct samples both, good, ecmp;

	for (unsigned i = 0; i < 3; i++) {
		wtime every = SHORT * 100 / loads[i];
		bool keeps_up = loads[i] < 20;

		both.n = good.n = ecmp.n = 0;
		on_both(every, &both);
		on_one(false, every, &good);
		on_one(false, 2 * every, &ecmp);
		if (keeps_up)
			on_one(true, 2 * every, &ecmp);
		printf("# load %u %%: p50 %u us, p99.9 %u us; the good path alone %u, %u", loads[i], percentile_us(&both, 500),
		       percentile_us(&both, 999), percentile_us(&good, 500), percentile_us(&good, 999));
		if (keeps_up)
			printf("; ECMP %u, %u\n", percentile_us(&ecmp, 500), percentile_us(&ecmp, 999));
		else
			printf("; ECMP does not keep up\n");
		assert_true(percentile_us(&both, 999) <= 2 * percentile_us(&good, 999) + 30);
		assert_true(!keeps_up || 2 * percentile_us(&both, 999) < percentile_us(&ecmp, 999));
	}
}

/* ---- reordering ---- */

enum { BULK = 32 * KB, AT_ONCE = 24, MESSAGES = 400 };

static const wtime LATE = 64 * WTIME_US, WAY = 150 * WTIME_US;

static wtime stream_standard(uint32_t late_ppm, bool selective)
{
	struct pair_config config = {
		.sim = { .seed = seed, .link = { .delay_ns = WAY, .byte_ns = 1, .reorder = late_ppm, .reorder_ns = LATE } },
		.mtu = IBV_MTU_4096, .memory_bytes = 1 << 20, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
		.sends = AT_ONCE, .recvs = 16, .options = ib_default_options,
	};
	unsigned posted = 0, done = 0;
	struct pair *pair;
	struct cqe cqe;
	wtime took;

	config.options.selective_repeat = selective;
	pair = pair_new(&config);
	while (done < MESSAGES) {
		for (; posted < MESSAGES && posted - done < AT_ONCE; posted++)
			post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
							   .bytes = BULK });
		assert_true(sim_step(pair->sim));
		for (; pair_poll_send(pair, 0, &cqe); done++)
			if (cqe.status != IBV_WC_SUCCESS) {	/* the retries have run out */
				pair_delete(pair);
				return WTIME_NEVER;
			}
	}
	took = pair->sim->now;
	pair_delete(pair);
	return took;
}

static void reordering_costs_go_back_alone(void **state)
{
	static const uint32_t late[] = { 1000, 5000, 10000, 20000, 50000, 100000, 200000, 500000 };
	enum { SEEDS = 4 };

	for (unsigned i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
		uint64_t sum[2] = { 0 };

		for (seed = 1; seed <= SEEDS; seed++) {
			wtime selective = stream_standard(late[i], true), back = stream_standard(late[i], false);

			sum[0] += stream_standard(0, true) * 100 / selective;
			sum[1] += back == WTIME_NEVER ? 0 : stream_standard(0, false) * 100 / back;
		}
		printf("reorder selective %u %u\nreorder go-back %u %u\n", late[i], (unsigned)(sum[0] / SEEDS), late[i],
		       (unsigned)(sum[1] / SEEDS));
		assert_true(sum[0] / SEEDS >= 80);
	}
	seed = 3;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_add_up),
		cmocka_unit_test(what_is_left_is_used),
		cmocka_unit_test(a_slow_path_has_no_tail),
		cmocka_unit_test(reordering_costs_go_back_alone),
	};

	prints = argc > 1 && strcmp(argv[1], "--figures") == 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
