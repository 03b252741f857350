/* A QP that writes or reads 64 KB again and again, over several ways between two nodes. */
#ifndef WEFT_TESTS_ENGINE_SPREAD_RUN_H
#define WEFT_TESTS_ENGINE_SPREAD_RUN_H

#include "stream.h"

#include "ib/engine.h"
#include "ib/pace.h"
#include "ib/spread.h"
#include "verbs/qp_context.h"

enum { MESSAGE = 64 * KB };

static uint64_t seed = 3;

#define DELAY (5 * WTIME_US)

struct setting {
	enum ibv_qp_type type;			/* [RC] */
	unsigned paths, lanes;
	bool two_addresses;
	struct sim_lane lane[SIM_LANES];	/* byte_ns [1], room_bytes [256 KB] */
	uint32_t loss, reorder, duplicate;	/* of all */
	bool stranger;
	enum ibv_mtu mtu;			/* [4096] */
	bool lids;				/* LMC 2: a lane by the path bits */
	uint32_t unnamed;
};

static inline struct pair *begin(const struct setting *s)
{
	struct pair_config config = {
		.sim = { .seed = seed, .form = PACKET_ROCE, .is_network = true, .lanes = s->lanes,
			 .two_addresses = s->two_addresses,
			 .link = { .delay_ns = DELAY, .loss = s->loss, .reorder = s->reorder,
				   .duplicate = s->duplicate } },
		.mtu = s->mtu ? s->mtu : IBV_MTU_4096, .memory_bytes = 2 * MESSAGE, .sends = DEPTH, .recvs = DEPTH, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .rd_atomic = 16, .options = ib_default_options, .stranger = s->stranger,
		.type = s->type,
	};

	for (unsigned i = 0; i < SIM_LANES; i++) {
		config.sim.lane[i] = s->lane[i];
		if (!config.sim.lane[i].byte_ns)
			config.sim.lane[i].byte_ns = 1;
		if (!config.sim.lane[i].room_bytes)
			config.sim.lane[i].room_bytes = 256 * KB;
	}
	config.options.paths = (uint8_t)s->paths;
	if (s->lids) {
		config.sim.form = PACKET_IB;
		config.sim.is_network = false;
		config.sim.lmc = 2;
		config.sim.unnamed = s->unnamed;
	}
	return pair_new(&config);
}

/* Payload in a microsecond, times 100. */
static inline unsigned run_for(struct pair *pair, struct run *r, wtime ns)
{
	wtime from = pair->sim->now, until = from + ns;
	unsigned had = r->done;

	while (pair->sim->now < until) {
		wtime step = pair->sim->now + 5 * WTIME_US;

		refill(pair, r, MESSAGE);
		sim_run(pair->sim, step);
		if (pair->sim->now < step)
			sim_advance(pair->sim, step - pair->sim->now);
		ib_check(pair->side[0].qp);
		ib_check(pair->side[1].target);
	}
	return rate_since(pair, r, from, had, MESSAGE);
}

static inline void show(const struct pair *pair, const char *what)
{
	const struct spread *s = spread_of(pair->side[0].qp);

	print_message("%s: seed %llu\n", what, (unsigned long long)seed);
	if (!s && pace_out(pair->side[0].qp))
		print_message("  one path: round trip %llu ns, window %u\n",
			      (unsigned long long)pace_out(pair->side[0].qp)->smooth_ns,
			      pace_out(pair->side[0].qp)->window / CONGESTION_ONE);
	for (unsigned i = 0; s && i < s->paths; i++) {
		const struct congestion *c = pace_of(pair->side[0].qp, i);

		print_message("  path %u: state %u, sent %llu, lost %llu, aside %llu, round trip %llu ns, window %u\n", i,
			      s->path[i].state, (unsigned long long)s->path[i].sent, (unsigned long long)s->path[i].losses,
			      (unsigned long long)s->path[i].setbacks, (unsigned long long)(c ? c->smooth_ns : 0),
			      c ? c->window / CONGESTION_ONE : 0);
	}
}

static inline unsigned rate_of(const struct setting *s, enum ibv_wr_opcode opcode, const char *what)
{
	struct pair *pair = begin(s);
	struct run r = { .opcode = opcode };
	unsigned rate;

	run_for(pair, &r, 5 * WTIME_MS);
	rate = run_for(pair, &r, 50 * WTIME_MS);
	show(pair, what);
	print_message("  %u.%02u bytes/ns\n", rate / 100 / 1000, rate / 1000 % 100);
	assert_int_equal(r.failed, 0);
	pair_delete(pair);
	return rate;
}

#endif
