/* Bulk data by all paths of a QP of the profile `multipath`, then a flag: the target sees no flag before its data (MPT-38). The
 * argument is how many flags each of five networks has. */
#include "multi_run.h"

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

/* So that of millions of packets none is lost eight times in a row, which ends a connection (MPT-36). */
static void be_less_bad(struct pair_config *c)
{
	be_bad(c);
	c->sim.link.loss = 20000;
	c->sim.link.duplicate = c->sim.link.reorder = c->sim.link.corrupt = 5000;
}

static void be_silent_and_bad(struct pair_config *c)
{
	be_silent(c);
	be_less_bad(c);
}

static void be_renumbering_and_bad(struct pair_config *c)
{
	be_renumbering(c);
	be_less_bad(c);
}

static void no_flag_comes_before_its_data(void **state)
{
	paths = 4;
	flags_with(be_slow, flags, IBV_WR_SEND);
	flags_with(be_less_bad, flags, IBV_WR_SEND);
	flags_with(be_less_bad, flags, IBV_WR_RDMA_WRITE_WITH_IMM);
	flags_with(be_silent_and_bad, flags, IBV_WR_SEND);
	flags_with(be_renumbering_and_bad, flags, IBV_WR_RDMA_WRITE_WITH_IMM);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_flag_comes_before_its_data),
	};

	if (argc > 1)
		flags = (unsigned)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
