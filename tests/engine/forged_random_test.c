/* Packets of all kinds that the peer of a connection could make up, to both of its ends, between hosts, by one path or several:
 * whatever they say, the books hold (the simulator and this test look), and the connection goes on or ends with an error. Each
 * run is one of its seed. */
#include "engine_test.h"

#include "base/rand.h"
#include "ib/engine.h"
#include "ib/pace.h"
#include "ib/spread.h"
#include "wire/aeth.h"
#include "wire/packet.h"

enum { RUNS = 600, STEPS = 200, SENDS = 32, LONGEST = 40000, NEAR = 24, BEFORE = 4, COUNTS_MOST = 1 << 30 };

struct forger {
	struct pair *pair;
	struct rand rand;
	uint8_t data[PACKET_MAX_PAYLOAD];
	struct iovec payload;
};

static uint64_t first_seed = 1;	/* or the argument */

static unsigned draw(struct forger *f, unsigned below)
{
	return (unsigned)(rand_u64(&f->rand) % below);
}

static void begin(struct forger *f, uint64_t seed)
{
	struct pair_config config = {
		.sim = { .seed = seed, .form = PACKET_ROCE, .is_network = true, .lanes = 2, .link.delay_ns = 5 * WTIME_US },
		.memory_bytes = 1 << 17, .sends = SENDS, .psn = { 0xfffff0, 40 }, .timeout = 10, .retry_cnt = 7, .rnr_retry = 7,
		.min_rnr_timer = 1, .rd_atomic = 8, .options = ib_default_options,
	};

	rand_seed(&f->rand, seed);
	config.sim.two_addresses = draw(f, 2);
	config.sim.link.loss = draw(f, 3) ? 0 : 50000;
	config.options.paths = (uint8_t)(1 + draw(f, 4));
	f->pair = pair_new(&config);
}

/* A path by the second addresses is loaded, of one end or both. */
static void load_alternate(struct forger *f, int side)
{
	struct qp *qp = f->pair->side[side].qp;
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM, .alt_port_num = 1, .alt_timeout = 10,
		.alt_ah_attr = { .is_global = 1, .port_num = 1, .dlid = 1, .grh.sgid_index = 1 },
	};
	int mask = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

	memcpy(attr.alt_ah_attr.grh.dgid.raw, f->pair->side[!side].node->dev->gid[1].raw, 16);
	if (qp->state == IBV_QPS_RTS && f->pair->config.sim.two_addresses && !draw(f, 8))
		(void)qp_modify(qp, f->pair->sim->now, &attr, mask);	/* an armed one is not armed again */
}

/* ---- packets ---- */

/* The path of one end, from the peer's first address or the second to ours. */
static struct packet_path path_to(struct forger *f, int to, bool second)
{
	const struct ca_device *us = f->pair->side[to].node->dev, *peer = f->pair->side[!to].node->dev;
	struct packet_path path = f->pair->side[!to].qp->path;

	if (second) {
		memcpy(path.sgid, peer->gid[1].raw, 16);
		memcpy(path.dgid, us->gid[1].raw, 16);
	}
	path.tclass = (uint8_t)(ECN_ECT0 + draw(f, 2));
	return path;
}

/* What only an answer has, or only a request. */
static void fill(struct forger *f, int to, psn_t near, struct packet *p)
{
	static const enum aeth_kind kinds[] = { AETH_ACK, AETH_ACK, AETH_ACK, AETH_NAK, AETH_RNR_NAK };
	enum aeth_kind kind = kinds[draw(f, sizeof(kinds) / sizeof(kinds[0]))];

	p->aeth.syndrome = aeth_syndrome(kind, kind == AETH_ACK ? AETH_NO_CREDITS : kind == AETH_NAK ? NAK_PSN_SEQUENCE :
					 1 + draw(f, 31));
	p->aeth.msn = draw(f, 64);
	p->heldeth.held[0] = rand_u64(&f->rand) & rand_u64(&f->rand) & 0xfffffe;
	p->heldeth.repeats = (uint8_t)draw(f, 4);
	p->heldeth.repeated = psn_add(near, draw(f, 8));
	p->reth.va = p->atomiceth.va = PAIR_IOVA;
	p->reth.rkey = p->atomiceth.rkey = f->pair->side[to].mr->key;
	p->reth.length = draw(f, 5000);
}

/* A probe or its answer, perhaps of a number that is awaited, and with addresses that there are. */
static void fill_probe(struct forger *f, int to)
{
	const struct ca_device *peer = f->pair->side[!to].node->dev;
	const struct spread *s = spread_of(f->pair->side[to].qp);

	for (unsigned i = 0; i < PATH_PROBE_BYTES; i++)
		f->data[i] = (uint8_t)draw(f, 256);
	if (s && draw(f, 2))
		wire_put(f->data, s->path[draw(f, s->paths)].number, PATH_PROBE_NUMBER);
	if (draw(f, 2))
		return;
	wire_put(f->data, draw(f, PATH_ADDRESSES + 1), PATH_PROBE_ADDRESSES);
	for (unsigned i = 0; i < PATH_ADDRESSES; i++)
		memcpy(f->data + PATH_PROBE_ADDRESS + 16 * i, peer->gid[draw(f, 2)].raw, 16);
}

static uint32_t payload_bytes(struct forger *f, const struct opcode_row *row)
{
	if (row->op == OP_CNP)
		return 16;
	if (row->op == OP_PATH_PROBE || row->op == OP_PATH_ANSWER)
		return PATH_PROBE_BYTES;
	return !(row->headers & HDR_PAYLOAD) ? 0 : draw(f, 2) ? 1024 : draw(f, 1024);
}

/* Near what the end awaits. */
static psn_t near_of(const struct forger *f, int to)
{
	const struct engine *e = engine_of(f->pair->side[to].qp);

	if (to)
		return e->responder.psn;
	return flight_empty(&e->flight) ? e->flight.psn : flight_first_psn(&e->flight);
}

static void forge(struct forger *f)
{
	static const uint8_t answers[] = {
		OPCODE_RC_ACKNOWLEDGE, OPCODE_RC_ACKNOWLEDGE, OPCODE_RC_ACKNOWLEDGE, OPCODE_WEFT_SELECTIVE_ACK,
		OPCODE_WEFT_SELECTIVE_ACK, OPCODE_WEFT_SELECTIVE_ACK, OPCODE_RC_RDMA_READ_RESPONSE_ONLY,
		OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE, OPCODE_RC_RDMA_READ_RESPONSE_FIRST, OPCODE_RC_ATOMIC_ACKNOWLEDGE, OPCODE_CNP,
		OPCODE_WEFT_PATH_ANSWER,
	}, requests[] = {
		OPCODE_RC_SEND_ONLY, OPCODE_RC_RDMA_WRITE_MIDDLE, OPCODE_RC_RDMA_WRITE_ONLY, OPCODE_RC_RDMA_READ_REQUEST,
		OPCODE_RC_FETCH_ADD, OPCODE_CNP, OPCODE_WEFT_PATH_PROBE,
	};
	int to = !draw(f, 3);
	psn_t near = near_of(f, to);
	struct packet p = {
		.form = PACKET_ROCE, .pkey = 0xffff, .dest_qpn = f->pair->side[to].qp->qpn, .payload_iovs = 1,
		.opcode = to ? requests[draw(f, sizeof(requests))] : answers[draw(f, sizeof(answers))],
		.psn = psn_add(near, (int64_t)draw(f, NEAR) - BEFORE), .payload = &f->payload, .migrated = draw(f, 4) > 0,
	};

	p.resv.bth7 = draw(f, 5) ? bth_by_path(draw(f, 3) ? 0 : draw(f, BTH_PATHS)) : (uint8_t)draw(f, 256);
	p.resv.bth6 = (uint8_t)draw(f, BTH_MARKS + 1);
	p.path = path_to(f, to, f->pair->config.sim.two_addresses && !draw(f, 3));
	fill(f, to, near, &p);
	fill_probe(f, to);
	p.payload_bytes = payload_bytes(f, opcode_row(p.opcode));
	f->payload = (struct iovec){ f->data, p.payload_bytes };
	ca_input(&f->pair->side[to].node->ca, f->pair->side[to].node->dev, f->pair->sim->now, (origin_t)!to + 1, &p);
	sim_pump(f->pair->sim);
}

/* ---- what the program and time do ---- */

static void post(struct forger *f, uint64_t id)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct pair_wr wr = { .wr_id = id, .opcode = opcodes[draw(f, 4)], .bytes = draw(f, LONGEST) };

	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.bytes = 8;
	(void)pair_send(f->pair, 0, &wr);	/* the queue may be full */
}

static void step(struct forger *f, unsigned n)
{
	const struct congestion *c;
	struct cqe cqe;

	switch (draw(f, 16)) {
	case 0: case 1: case 2:
		post(f, n);
		break;
	case 3: case 4:
		sim_run(f->pair->sim, f->pair->sim->now + draw(f, 200) * WTIME_US);
		break;
	case 5:
		while (pair_poll_send(f->pair, 0, &cqe))
			;
		break;
	case 6:
		f->pair->side[1].node->deaf = draw(f, 2);
		load_alternate(f, (int)draw(f, 2));
		break;
	default:
		forge(f);
	}
	c = pace_out(f->pair->side[0].qp);
	if (c)
		assert_true(c->arrived < COUNTS_MOST && c->lost < COUNTS_MOST && c->marked <= c->arrived);
}

static void whatever_comes_the_books_hold(void **state)
{
	struct forger *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	for (uint64_t seed = first_seed; seed < first_seed + RUNS; seed++) {
		begin(f, seed);
		for (unsigned n = 0; n < STEPS && f->pair->side[0].qp->state == IBV_QPS_RTS &&
		     f->pair->side[1].qp->state == IBV_QPS_RTS; n++)
			step(f, n);
		assert_int_equal(log_bugs(), 0);
		pair_delete(f->pair);
	}
	free(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_comes_the_books_hold),
	};

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 0);
	print_message("seeds from %llu on\n", (unsigned long long)first_seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
