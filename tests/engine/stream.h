/* Messages of one size that side 0 of a pair sends without end, each posted as one before has completed. */
#ifndef WEFT_TESTS_ENGINE_STREAM_H
#define WEFT_TESTS_ENGINE_STREAM_H

#include "engine_test.h"

enum { KB = 1 << 10, DEPTH = 16 };

struct run {
	enum ibv_wr_opcode opcode;	/* [RDMA WRITE] */
	unsigned posted, done, failed;
	wtime longest;			/* between two completions */
	wtime last;
};

/* Nothing is posted after a failure. */
static inline void refill(struct pair *pair, struct run *r, uint32_t bytes)
{
	struct cqe cqe;

	while (pair_poll_send(pair, 0, &cqe)) {
		if (cqe.status != IBV_WC_SUCCESS) {
			r->failed++;
			continue;
		}
		assert_int_equal(cqe.wr_id, r->done);		/* in the order of posting */
		r->done++;
		if (r->last && pair->sim->now - r->last > r->longest)
			r->longest = pair->sim->now - r->last;
		r->last = pair->sim->now;
	}
	while (!r->failed && r->posted - r->done < DEPTH) {
		post_wr(pair, 0, (struct pair_wr){ .wr_id = r->posted, .opcode = r->opcode, .flags = IBV_SEND_SIGNALED,
						   .bytes = bytes });
		r->posted++;
		sim_touch(pair->sim, 0);
	}
}

/* Payload in a microsecond, times 100, since `from`, when `done` were done. */
static inline unsigned rate_since(const struct pair *pair, const struct run *r, wtime from, unsigned done, uint32_t bytes)
{
	return (unsigned)((uint64_t)(r->done - done) * bytes * 100 * WTIME_US / (pair->sim->now - from));
}

#endif
