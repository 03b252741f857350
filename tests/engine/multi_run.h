/* A pair of RC QPs of the profile `multipath`, and writes that follow each other without end. */
#ifndef WEFT_TESTS_ENGINE_MULTI_RUN_H
#define WEFT_TESTS_ENGINE_MULTI_RUN_H

#include "stream.h"

#include "ib/multi.h"
#include "verbs/qp_context.h"
#include "wire/packet.h"

#include <stdio.h>

enum { MEMORY = 256 * KB, HALF = MEMORY / 2, MESSAGE = 32 * KB };

static inline struct pair_config config_of(void (*change)(struct pair_config *))
{
	struct pair_config config = {
		.sim = { .seed = 5, .form = PACKET_ROCE, .is_network = true, .lanes = 4, .link = { .delay_ns = 5 * WTIME_US } },
		.mtu = IBV_MTU_1024, .memory_bytes = MEMORY, .sends = DEPTH, .recvs = DEPTH, .psn = { 0xfffffe, 77 },
		.timeout = 12, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1, .rd_atomic = 4,
		.options = ib_default_options,
	};

	config.options.profile = IB_MULTIPATH;
	config.options.paths = 4;
	if (change)
		change(&config);
	return config;
}

static inline struct pair *begin(void (*change)(struct pair_config *))
{
	struct pair_config config = config_of(change);

	return pair_new(&config);
}

static inline void end(struct pair *pair)
{
	pair_delete(pair);
}

/* ---- networks, and attributes ---- */

static inline void be_bad(struct pair_config *c)
{
	c->sim.link.loss = 50000;
	c->sim.link.duplicate = c->sim.link.reorder = c->sim.link.corrupt = 20000;
	c->sim.link.reorder_ns = 40 * WTIME_US;
}

static inline void be_silent(struct pair_config *c)
{
	be_bad(c);
	c->options.refuses_silently = true;
	c->options.spread_by = MP_RANDOM;
}

static inline void be_renumbering(struct pair_config *c)
{
	be_bad(c);
	c->options.renumbers = true;
	c->options.spread_by = MP_LEAST_LOADED;
}

static inline void few_retries(struct pair_config *c)
{
	c->rnr_retry = 2;
	c->timeout = 10;
	c->retry_cnt = 2;
}

/* ---- writes ---- */

/* Payload in a microsecond, times 100. */
static inline unsigned run_for(struct pair *pair, struct run *r, wtime ns)
{
	wtime from = pair->sim->now, until = from + ns;
	unsigned had = r->done;

	refill(pair, r, MESSAGE);
	while (pair->sim->now < until && sim_step(pair->sim))
		refill(pair, r, MESSAGE);
	assert_int_equal(r->failed, 0);
	return rate_since(pair, r, from, had, MESSAGE);
}

static unsigned paths;

static inline void be_slow(struct pair_config *c)
{
	c->mtu = IBV_MTU_4096;
	c->options.paths = (uint8_t)paths;
	c->options.spread_by = MP_LEAST_LOADED;
	for (unsigned i = 0; i < 4; i++)
		c->sim.lane[i].byte_ns = 10;	/* 100 bytes in a microsecond */
}

static inline const char *state_of(struct pair *pair, unsigned path)
{
	struct qp_context c = { 0 };

	multi_describe(pair->side[0].qp, &c);
	assert_int_equal(c.ways, 4);
	return c.way[path].state;
}

/* ---- forged packets ---- */

struct forgery {
	int from;			/* a side */
	struct packet like;		/* its last packet */
	struct iovec payload;
	uint8_t bytes[MP_HEADER + MP_CRC];
};

static inline void remember(void *arg, int node, const struct packet *p)
{
	struct forgery *f = arg;

	if (node == f->from && p->opcode == OPCODE_WEFT_MULTIPATH)
		f->like = *p;
}

/* As a packet of that side by this path, so many after its last one there. */
static inline void forge(struct pair *pair, struct forgery *f, unsigned path, int later, const struct mp_packet *packet)
{
	const struct multi *m = multi_of(pair->side[f->from].qp);
	uint8_t frame[PACKET_MAX_BYTES];
	struct packet p = f->like;

	p.resv.bth7 = (uint8_t)path;
	p.psn = psn_add(m->sent[path % MP_PATHS], later);
	f->payload = (struct iovec){ f->bytes, mp_packet_build(packet, f->bytes) };
	p.payload = &f->payload;
	p.payload_iovs = 1;
	p.payload_bytes = (uint32_t)f->payload.iov_len;
	sim_launch(pair->sim, f->from, !f->from, frame, (uint32_t)packet_build(&p, frame, sizeof(frame)));
	sim_run(pair->sim, pair->sim->now + 100 * WTIME_US);
}

#endif
