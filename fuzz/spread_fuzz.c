/* Two QPs over several paths, and somebody who forges: probes, answers to them and acknowledgements, by any path and from any
 * address, beside losses, cuts, delays and doubles of what is under way. Where no acknowledgement is forged every request
 * succeeds or its retries run out, and memory is as written; and the time of a request has a bound in any case. */
#include "fuzz.h"
#include "pair.h"

#include "base/log.h"
#include "ib/engine.h"
#include "ib/reflect.h"
#include "ib/spread.h"
#include "wire/header.h"
#include "wire/packet.h"

#include <string.h>

enum {
	CELL = 1024, CELLS = 8, MEMORY = 2 * CELL * CELLS, POSTS = 64, FRAMES = 60000,
	POST = 0, DELIVER, DROP, DOUBLE, DELAY, PASS_TIME, CUT, FORGE_PROBE, FORGE_ANSWER, FORGE_ACK, MOVE, COMMANDS,
};
/* Retries of 4 ms, eight of them and more where they are given back; probes are 100 ms apart at most. */
#define PATIENCE (20 * WTIME_S)

struct fuzz {
	struct pair *pair;
	struct input in;
	bool is_forged;			/* an acknowledgement was */
	unsigned posted, done, failed;
	uint8_t tag[CELLS];		/* of the last write to each cell */
};

static void log_bug_line(void *arg, enum log_level level, const char *line)
{
	abort();
}

static void post(struct fuzz *f)
{
	uint8_t what = take_byte(&f->in), cell = what % CELLS;
	struct pair_wr wr = {
		.wr_id = f->posted, .opcode = what & 0x80 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
		.bytes = CELL, .local = (what & 0x80 ? CELLS + cell : cell) * CELL, .remote = cell * CELL,
	};

	/* what is under way is not written over: each cell is filled once */
	if (f->posted == POSTS || f->failed || (wr.opcode == IBV_WR_RDMA_WRITE && f->tag[cell]))
		return;
	if (wr.opcode == IBV_WR_RDMA_WRITE) {
		f->tag[cell] = (uint8_t)(f->posted + 1);
		memset(f->pair->side[0].memory + cell * CELL, f->tag[cell], CELL);
	}
	if (pair_send(f->pair, 0, &wr) == 0) {
		f->posted++;
		sim_touch(f->pair->sim, 0);
	} else if (wr.opcode == IBV_WR_RDMA_WRITE) {
		f->tag[cell] = 0;
	}
}

static void reap(struct fuzz *f)
{
	struct cqe cqe;

	while (pair_poll_send(f->pair, 0, &cqe)) {
		REQUIRE(cqe.wr_id == f->done);
		REQUIRE(f->is_forged || cqe.status == IBV_WC_SUCCESS || cqe.status == IBV_WC_RETRY_EXC_ERR ||
			cqe.status == IBV_WC_WR_FLUSH_ERR);
		f->done++;
		f->failed += cqe.status != IBV_WC_SUCCESS;
	}
	ib_check(f->pair->side[0].qp);
	ib_check(f->pair->side[1].qp);
}

/* What has the right QP number and check value, and else is the input's. */
static struct packet forged(struct fuzz *f, int to, uint8_t opcode)
{
	const struct sim_node *peer = f->pair->side[!to].node;
	uint8_t from = take_byte(&f->in);
	struct packet p = {
		.form = PACKET_ROCE, .opcode = opcode, .pkey = 0xffff, .dest_qpn = f->pair->side[to].qp->qpn,
		.path = f->pair->side[!to].qp->path, .resv.bth7 = bth_by_path(from % BTH_PATHS),
	};

	if (from & 0x10)
		memcpy(p.path.sgid, peer->dev->gid[1].raw, 16);
	if (from & 0x20)
		memcpy(p.path.dgid, f->pair->side[to].node->dev->gid[1].raw, 16);
	if (from & 0x40)
		p.path.sgid[15] ^= 0x40;
	if (from & 0x80)
		p.resv.bth7 = take_byte(&f->in) & 0x7f;
	return p;
}

static void inject(struct fuzz *f, int to, const struct packet *p)
{
	static uint8_t frame[PACKET_MAX_BYTES];

	sim_inject(f->pair->sim, !to, to, frame, packet_build(p, frame, sizeof(frame)));
}

/* Probes reach the responder, answers the requester: with the number of a probe under way, or another. */
static void forge(struct fuzz *f, int to, uint8_t opcode)
{
	const struct spread *s = spread_of(f->pair->side[0].qp);
	uint8_t payload[PATH_PROBE_BYTES] = { 0 }, what = take_byte(&f->in);
	struct iovec iov = { payload, sizeof(payload) };
	uint32_t number = s && what & 1 ? s->path[what / 2 % s->paths].number : (uint32_t)take(&f->in, 4);
	struct packet p = forged(f, to, opcode);

	p.payload = &iov;
	p.payload_iovs = 1;
	p.payload_bytes = sizeof(payload);
	p.psn = psn_add(engine_of(f->pair->side[1].qp)->responder.psn, (int16_t)take(&f->in, 2));
	wire_put(payload, number, PATH_PROBE_NUMBER);
	wire_put(payload, take_byte(&f->in), PATH_PROBE_ADDRESSES);
	wire_put(payload, take_byte(&f->in), PATH_PROBE_VARIANT);
	memcpy(payload + PATH_PROBE_ADDRESS, f->pair->side[!to].node->dev->gid[0].raw, 16);
	memcpy(payload + PATH_PROBE_ADDRESS + 16, f->pair->side[!to].node->dev->gid[1].raw, 16);
	memcpy(payload + PATH_PROBE_ADDRESS + 32, p.path.sgid, 16);
	inject(f, to, &p);
}

static void forge_ack(struct fuzz *f)
{
	struct packet p = forged(f, 0, OPCODE_RC_ACKNOWLEDGE);

	if (take_byte(&f->in) & 1) {
		p.opcode = OPCODE_WEFT_SELECTIVE_ACK;
		for (unsigned i = 0; i < HELD_WORDS; i++)
			p.heldeth.held[i] = take(&f->in, 4) << 1;
		p.heldeth.repeats = take_byte(&f->in);
	}
	p.psn = psn_add(flight_first_psn(&engine_of(f->pair->side[0].qp)->flight), (int8_t)take(&f->in, 1));
	p.heldeth.repeated = p.psn;
	p.aeth.syndrome = take_byte(&f->in);
	p.aeth.msn = (uint32_t)take(&f->in, 1);
	f->is_forged = true;
	inject(f, 0, &p);
}

/* A host's second address becomes another, and back. */
static void move(struct fuzz *f)
{
	f->pair->side[take_byte(&f->in) & 1].node->dev->gid[1].raw[15] ^= 0x20;
}

static void obey(struct fuzz *f)
{
	struct sim *sim = f->pair->sim;
	uint8_t lane;

	switch (take_byte(&f->in) % COMMANDS) {
	case POST: post(f); break;
	case DELIVER:
		for (unsigned n = take_byte(&f->in) % 32; n; n--)
			sim_step(sim);
		break;
	case DROP: sim_lose_next(sim); break;
	case DOUBLE: sim_double_next(sim); break;
	case DELAY: sim_delay_next(sim, take(&f->in, 2)); break;
	case PASS_TIME:
		sim_advance(sim, take(&f->in, 3));
		sim_step(sim);
		break;
	case CUT:
		lane = take_byte(&f->in);
		sim->config.lane[lane % 4].is_cut = lane & 0x10;
		sim->config.lane[lane % 4].is_cut_back = lane & 0x20;
		break;
	case FORGE_PROBE: forge(f, 1, OPCODE_WEFT_PATH_PROBE); break;
	case FORGE_ANSWER: forge(f, 0, OPCODE_WEFT_PATH_ANSWER); break;
	case FORGE_ACK: forge_ack(f); break;
	case MOVE: move(f); break;
	}
	reap(f);
}

static void heal(struct fuzz *f)
{
	for (unsigned i = 0; i < 4; i++)
		f->pair->sim->config.lane[i].is_cut = f->pair->sim->config.lane[i].is_cut_back = false;
}

/* All that was posted ends within its time. */
static void settle(struct fuzz *f)
{
	struct sim *sim = f->pair->sim;
	wtime until = sim->now + PATIENCE;

	for (unsigned n = 0; f->done < f->posted && n < FRAMES && sim->now < until && sim_step(sim); n++)
		reap(f);
	REQUIRE(f->done == f->posted);
	for (unsigned i = 0; !f->is_forged && !f->failed && i < CELLS; i++)
		for (unsigned k = 0; f->tag[i] && k < CELL; k++)
			REQUIRE(f->pair->side[1].memory[i * CELL + k] == f->tag[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz f = { .in = { data, data + bytes } };
	uint8_t how = take_byte(&f.in);
	struct pair_config config = {
		.sim = {
			.seed = 1, .form = PACKET_ROCE, .is_network = true, .arena_bytes = 1 << 20, .lanes = 4,
			.two_addresses = true,
			.link = { .delay_ns = WTIME_US },
		},
		.mtu = IBV_MTU_256, .memory_bytes = MEMORY, .sends = POSTS, .psn = { 0xfffffe, 5 }, .timeout = 10, .retry_cnt = 7,
		.rnr_retry = 7, .rd_atomic = 4, .options = ib_default_options,
	};

	for (unsigned i = 0; i < 4; i++)
		config.sim.lane[i] = (struct sim_lane){ .byte_ns = 1 + i * (how & 1), .room_bytes = how & 2 ? 4096 : 0 };
	config.options.paths = (uint8_t)(1 + how / 4 % 8);
	log_set_sink(log_bug_line, NULL, LOG_ERROR);
	f.pair = pair_new(&config);
	while (f.in.at < f.in.end)
		obey(&f);
	heal(&f);
	settle(&f);
	pair_delete(f.pair);
	return 0;
}
