/* XRC over several ways between two nodes: the initiator's QP is spread as an RC QP is, over addresses and over LIDs. */
#include "spread_run.h"

#include "ib/reflect.h"

static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

static void links_add_up(void **state)
{
	for (int lids = 0; lids < 2; lids++)
		for (int i = 0; i < 2; i++) {
			unsigned rate[5];

			for (unsigned paths = 1; paths <= 4; paths *= 2)
				rate[paths] = rate_of(&(struct setting){ .type = IBV_QPT_XRC_SEND, .paths = paths, .lanes = 4,
									 .lids = lids }, opcodes[i], "XRC");
			print_message("%s: two %u %%, four %u %%\n", lids ? "LIDs" : "ports", rate[2] * 100 / rate[1],
				      rate[4] * 100 / rate[1]);
			assert_true(rate[2] * 100 >= rate[1] * 190 && rate[4] * 100 >= rate[1] * 360);
		}
}

/* Whichever it is, also the first, by which the QP is connected. */
static void a_cut_path_is_left_and_taken_again(void **state)
{
	for (unsigned i = 0; i < 8; i++) {
		bool lids = i / 4;
		struct pair *pair = begin(&(struct setting){ .type = IBV_QPT_XRC_SEND, .paths = 4, .lanes = 4, .lids = lids });
		struct run r = { .opcode = opcodes[i % 2] };
		const struct spread *s;
		unsigned cut = i % 4, done;

		run_for(pair, &r, 10 * WTIME_MS);
		s = spread_of(pair->side[0].qp);
		assert_non_null(s);
		assert_int_equal(s->paths, 4);
		assert_null(spread_of(pair->side[1].target));
		assert_non_null(reflect_of(pair->side[1].target));
		if (!lids)
			cut = (pair->side[0].qp->path.udp_sport ^ s->path[cut].variant) % 4;
		pair->sim->config.lane[cut].is_cut = true;
		run_for(pair, &r, 20 * WTIME_MS);
		assert_int_equal(s->path[i % 4].state, SPREAD_ASIDE);
		done = r.done;
		run_for(pair, &r, 20 * WTIME_MS);
		assert_true(r.done > done + 100);
		pair->sim->config.lane[cut].is_cut = false;
		run_for(pair, &r, 2 * SPREAD_PROBE_MOST);
		for (unsigned path = 0; path < 4; path++)
			assert_int_equal(s->path[path].state, SPREAD_UP);
		assert_int_equal(r.failed, 0);
		pair_delete(pair);
	}
}

/* Sends take receives of the SRQ in their order, whichever path brings them first; the one by which they are slow too. */
static void sends_keep_their_order(void **state)
{
	enum { SENDS = 2000, BYTES = 12 * KB };
	struct pair *pair = begin(&(struct setting){ .type = IBV_QPT_XRC_SEND, .paths = 4, .lanes = 4, .loss = 10000,
						     .lane[1].byte_ns = 10, .lane[2].delay_ns = 3 * DELAY });
	unsigned posted = 0, seen = 0, done = 0, used = 0;
	struct cqe cqe;

	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(pair_recv(pair, 1, i, 0, BYTES), 0);
	while (seen < SENDS || done < SENDS) {
		for (; posted < SENDS && posted - done < DEPTH; posted++)
			post_wr(pair, 0, (struct pair_wr){ .wr_id = posted, .opcode = IBV_WR_SEND_WITH_IMM,
							   .flags = IBV_SEND_SIGNALED, .bytes = BYTES, .imm = posted });
		sim_touch(pair->sim, 0);
		assert_true(sim_step(pair->sim));
		for (; pair_poll_send(pair, 0, &cqe); done++) {
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
			assert_int_equal(cqe.wr_id, done);
		}
		for (; pair_poll_recv(pair, 1, &cqe); seen++) {
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
			assert_int_equal(be32toh(cqe.imm), seen);
			assert_int_equal(pair_recv(pair, 1, 0, 0, BYTES), 0);
			sim_touch(pair->sim, 1);
		}
	}
	show(pair, "XRC sends");
	for (unsigned i = 0; i < 4; i++)
		used += spread_of(pair->side[0].qp)->path[i].sent > 100;
	assert_true(used >= 2);
	pair_delete(pair);
}

/* The profile `multipath` is of RC: XRC goes by one path beside it, as ever. */
static void xrc_is_unharmed_by_the_profile_multipath(void **state)
{
	struct pair_config config = {
		.sim = { .seed = seed, .form = PACKET_ROCE, .is_network = true, .lanes = 4,
			 .link = { .delay_ns = DELAY, .loss = 5000 } },
		.type = IBV_QPT_XRC_SEND, .mtu = IBV_MTU_4096, .memory_bytes = 2 * MESSAGE, .sends = DEPTH, .recvs = DEPTH,
		.timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .rd_atomic = 16, .options = ib_default_options,
	};
	struct run r = { .opcode = IBV_WR_RDMA_WRITE };
	struct pair *pair;

	config.options.profile = IB_MULTIPATH;
	config.options.paths = 4;
	pair = pair_new(&config);
	for (unsigned i = 0; i < 2; i++) {
		unsigned done = r.done;

		r.opcode = opcodes[i];
		run_for(pair, &r, 50 * WTIME_MS);
		assert_true(r.done > done + 50);
	}
	assert_null(engine_of(pair->side[0].qp)->multi);
	assert_null(spread_of(pair->side[0].qp));
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_add_up),
		cmocka_unit_test(a_cut_path_is_left_and_taken_again),
		cmocka_unit_test(sends_keep_their_order),
		cmocka_unit_test(xrc_is_unharmed_by_the_profile_multipath),
	};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
