/* Two connected QPs and a hostile network. The input's first bytes choose the connection, the others are commands: post,
 * receive, deliver, drop, double, delay, spoil, let time pass, forge a packet whose ICRC is right, change a QP's state,
 * take its memory away, destroy it. The engine's own checks and the sanitizers say what is wrong. */
#include "fuzz.h"
#include "pair.h"

#include "base/log.h"
#include "ib/multi.h"
#include "wire/header.h"
#include "wire/packet.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

enum {
	MEMORY = 16 << 10, MAX_FRAMES = 2000,
	POST = 0, RECEIVE, DELIVER, DROP, DOUBLE, DELAY, SPOIL, PASS_TIME, FORGE, STATE, TAKE_MEMORY, DESTROY, COMMANDS,
};

struct fuzz {
	struct pair *pair;
	struct input in;
	bool gone[2];			/* the side's QP was destroyed */
	struct mr *extra[2];		/* a region that may go */
};

static void log_bug_line(void *arg, enum log_level level, const char *line)
{
	abort();
}

static void post(struct fuzz *f)
{
	int side = (int)take(&f->in, 1) & 1;
	uint32_t bytes = take(&f->in, 2) % MEMORY;
	struct pair_wr wr = {
		.wr_id = bytes, .opcode = (enum ibv_wr_opcode)(take(&f->in, 1) % (IBV_WR_ATOMIC_WRITE + 1)),
		.flags = take(&f->in, 1) & 0xf,
		.bytes = bytes, .remote = take(&f->in, 2) % (MEMORY + 100), .local = take(&f->in, 2) % (MEMORY + 100),
		.imm = take(&f->in, 1), .compare_add = 3, .swap = 5, .pieces = 1 + bytes % 3,
	};

	if (f->gone[side] || wr.opcode == IBV_WR_BIND_MW || wr.opcode == IBV_WR_TSO)
		return;
	if (wr.opcode == IBV_WR_ATOMIC_WRITE || wr.flags & IBV_SEND_INLINE)
		return;		/* these read the program's memory at once */
	if (wr.imm & 1 && f->extra[!side])
		wr.rkey = f->extra[!side]->key;
	if (wr.imm & 2 && (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)) {
		wr.bytes = 8;
		wr.remote &= ~7u;
	}
	pair_send(f->pair, side, &wr);
}

static void receive(struct fuzz *f)
{
	int side = (int)take(&f->in, 1) & 1;
	uint32_t bytes = take(&f->in, 2) % MEMORY;

	if (!f->gone[side])
		pair_recv(f->pair, side, bytes, take(&f->in, 1), bytes);
}

/* Of the profile for several paths: a packet of the protocol, of which the input says all but its connection, as a rule. */
static uint32_t forge_multipath(struct fuzz *f, struct qp *qp, struct packet *p, uint8_t *data)
{
	const struct multi *m = multi_of(qp);
	unsigned type = take(&f->in, 1), flags = take(&f->in, 1);
	struct mp_packet packet = {
		.version = MP_VERSION, .type = (uint8_t)(1 + type % MP_PATH_UP_RSP), .code = (uint8_t)take(&f->in, 1) % 16,
		.order = flags & 1 ? MP_ORDERED : MP_UNORDERED, .last = flags >> 1 & 1, .solicited = flags >> 2 & 1,
		.trailer = flags >> 3 & 3, .path = (uint8_t)take(&f->in, 1), .number = take(&f->in, 1), .key = p->reth.rkey,
		.address = p->reth.va, .length = p->payload_bytes, .total = p->reth.length, .epoch = take(&f->in, 1),
		.extra = p->ieth_rkey, .attempt = flags >> 5 & 3, .payload = data,
	};
	bool is_request = packet.type == MP_REQ || packet.type == MP_BARRIER || packet.type == MP_PATH_DOWN ||
			  packet.type == MP_PATH_UP;

	if (packet.type == MP_REQ || packet.type == MP_RSP)
		packet.payload_bytes = p->payload_bytes <= PACKET_MAX_PAYLOAD - MP_HEADER - MP_CRC ? p->payload_bytes : 0;
	packet.connection = is_request ? m->responder.config.connection : m->requester.config.connection;
	packet.connection ^= flags >> 7;
	packet.pkn = (is_request ? m->responder.rsn : m->requester.rqn) + take(&f->in, 1) % 4;
	packet.pkn = psn_add(packet.pkn, -1);
	if (!is_request && m->sends && m->requester.config.flights)
		packet.tag = m->requester.flight[type % m->requester.config.flights].tag;
	p->resv.bth7 = packet.path % (MP_PATHS + 1);
	p->psn = psn_add(m->heard[p->resv.bth7 % MP_PATHS], (int8_t)take(&f->in, 1));
	memmove(data + MP_HEADER, data, packet.payload_bytes);
	packet.payload = data + MP_HEADER;
	return (uint32_t)mp_packet_build(&packet, data);
}

/* A packet that the peer might have sent, or that somebody else sends in its name: all but the addresses is the input's. */
static void forge(struct fuzz *f)
{
	static uint8_t data[PACKET_MAX_PAYLOAD], frame[PACKET_MAX_BYTES];
	int who = (int)take(&f->in, 1), side = who & 1, from = who & 0x80 ? side : !side;
	struct pair_side *to = &f->pair->side[side];
	uint64_t refused = to->node->ca.counters.dropped_source, taken = to->node->ca.counters.rcvd_pkts;
	struct iovec payload = { data, 0 };
	struct packet p = {
		.form = f->pair->config.sim.form, .opcode = (uint8_t)take(&f->in, 1), .pkey = 0xffff, .solicited = true,
		.ack_requested = true, .payload = &payload, .payload_iovs = 1,
	};
	const struct opcode_row *row = opcode_row(p.opcode);
	struct qp *qp = to->target;
	bool is_taken;

	if (!row || f->gone[side])
		return;
	if (row->is_response)
		qp = to->qp;
	is_taken = !qp_is_datagram(qp) && !multi_of(qp) && row->service == engine_service(qp) && engine_receives(qp);
	p.path = qp->path;
	p.path.slid = qp->path.dlid;
	p.path.dlid = qp->path.slid;
	memcpy(p.path.sgid, qp->path.dgid, 16);
	memcpy(p.path.dgid, qp->path.sgid, 16);
	p.dest_qpn = qp->qpn;
	p.psn = psn_add(f->pair->config.psn[row->is_response ? side : !side], (int8_t)take(&f->in, 1));
	p.payload_bytes = take(&f->in, 2) % (PACKET_MAX_PAYLOAD + 1);
	if (p.payload_bytes > row->payload_max)
		p.payload_bytes = row->payload_max;
	if (p.payload_bytes < row->payload_min)
		p.payload_bytes = row->payload_min;
	payload.iov_len = p.payload_bytes;
	p.reth.va = p.atomiceth.va = PAIR_IOVA + take(&f->in, 2);
	p.reth.rkey = p.atomiceth.rkey = to->mr->key ^ (take(&f->in, 1) & 1);
	p.reth.length = take(&f->in, 1) & 1 ? p.payload_bytes : take(&f->in, 4);
	p.aeth.syndrome = (uint8_t)take(&f->in, 1);
	p.aeth.msn = take(&f->in, 1);
	p.xrceth.srqn = f->pair->side[side].srq ? f->pair->side[side].srq->srqn : 0;
	p.deth.qkey = 0x1234;
	p.deth.src_qpn = f->pair->side[!side].target_qpn;
	p.ieth_rkey = take(&f->in, 4);
	if (p.aeth.msn & 2) {	/* marked on its way; it may say that any number was */
		p.path.tclass |= ECN_CE;
		p.resv.bth6 = p.aeth.msn >> 2;
	}
	if (p.aeth.msn & 1)	/* as of a peer that repeats selectively; it may say that it holds anything */
		p.resv.bth7 = BTH_SELECTIVE;
	if (row->op == OP_SELECTIVE_ACK) {
		p.heldeth.held[0] = (uint64_t)p.ieth_rkey << 1;
		p.heldeth.held[p.aeth.msn % HELD_WORDS] ^= p.reth.va;
		p.heldeth.repeats = p.aeth.syndrome;
		p.heldeth.repeated = p.psn;
	}
	if (row->op == OP_MULTIPATH && multi_of(qp))
		payload.iov_len = p.payload_bytes = forge_multipath(f, qp, &p, data);
	sim_inject(f->pair->sim, from, side, frame, packet_build(&p, frame, sizeof(frame)));
	if (from == side && to->node->ca.counters.rcvd_pkts != taken && is_taken)
		assert(to->node->ca.counters.dropped_source == refused + 1);
}

static void change_state(struct fuzz *f)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR };
	int side = (int)take(&f->in, 1) & 1;
	struct pair_side *s = &f->pair->side[side];
	struct ibv_qp_attr attr = { .qp_state = states[take(&f->in, 1) % 4] };
	struct qp *peer = f->pair->side[!side].target;

	if (f->gone[side])
		return;
	(void)qp_modify(s->qp, f->pair->sim->now, &attr, IBV_QP_STATE);
	if (s->qp->state == IBV_QPS_RESET && !f->gone[!side])
		(void)pair_connect(f->pair, side, s->qp, peer, IBV_QPS_RTS);
}

static void take_memory(struct fuzz *f)
{
	int side = (int)take(&f->in, 1) & 1;

	if (f->extra[side])
		mr_destroy(f->extra[side]);
	f->extra[side] = NULL;
}

static void destroy(struct fuzz *f)
{
	int side = (int)take(&f->in, 1) & 1;
	struct pair_side *s = &f->pair->side[side];

	if (f->gone[side])
		return;
	f->gone[side] = true;
	if (s->target != s->qp)
		qp_destroy(s->target);
	qp_destroy(s->qp);
}

static void obey(struct fuzz *f)
{
	struct sim *sim = f->pair->sim;

	switch (take(&f->in, 1) % COMMANDS) {
	case POST:
		post(f);
		break;
	case RECEIVE:
		receive(f);
		break;
	case DELIVER:
		for (uint32_t n = take(&f->in, 1) % 16; n; n--)
			sim_step(sim);
		break;
	case DROP:
		sim_lose_next(sim);
		break;
	case DOUBLE:
		sim_double_next(sim);
		break;
	case DELAY:
		sim_delay_next(sim, take(&f->in, 2));
		break;
	case SPOIL:
		sim_spoil_next(sim, take(&f->in, 2));
		break;
	case PASS_TIME:
		sim_advance(sim, take(&f->in, 3));
		sim_step(sim);
		break;
	case FORGE:
		forge(f);
		break;
	case STATE:
		change_state(f);
		break;
	case TAKE_MEMORY:
		take_memory(f);
		break;
	case DESTROY:
		destroy(f);
		break;
	}
}

static void check(const struct fuzz *f)
{
	struct cqe cqe;

	for (int i = 0; i < 2; i++) {
		while (pair_poll_send(f->pair, i, &cqe) || pair_poll_recv(f->pair, i, &cqe))
			;
		cq_check(f->pair->side[i].send_cq);
		cq_check(f->pair->side[i].recv_cq);
		if (f->gone[i])
			continue;
		wq_check(&f->pair->side[i].qp->sq);
		wq_check(&f->pair->side[i].qp->rq);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_SEND, IBV_QPT_UD };
	struct fuzz f = { .in = { data, data + bytes } };
	uint32_t how = take(&f.in, 2), kind = (how >> 1) % 5;
	/* the first RC: one end repeats selectively; XRC: both do, as those of the second RC; and the window is longer */
	bool more = how & 0x8000;
	struct pair_config config = {
		.sim = {
			.seed = 1, .form = how & 1 ? PACKET_ROCE : PACKET_IB, .arena_bytes = 1 << 20,
			.is_network = how & 0x4000,
		},
		.type = types[kind], .mtu = IBV_MTU_256, .memory_bytes = MEMORY, .psn = { 0xfffffe, 5 },
		.timeout = 6, .retry_cnt = 2, .rnr_retry = how & 0x100 ? 7 : 1, .min_rnr_timer = 1,
		.rd_atomic = 1 + how / 0x200 % 3, .dest_rd_atomic = 2, .shared_receives = how & 0x800,
		.options = {
			.profile = !(how & 0x1000) ? IB_STANDARD : (how >> 13 & 3) == 3 ? IB_MULTIPATH : IB_SEED,
			.ack_mode = (enum ib_ack_mode)(how >> 13 & 3),
			.window_pkts = more ? 64 : 8, .ack_every = 2, .selective_repeat = kind == 1 || more,
			.congestion_control = true, .paths = (how & 0x1000) ? 3 : 1, .renumbers = how & 0x8000,
		},
		.stranger = more && kind == 0,
	};

	log_set_sink(log_bug_line, NULL, LOG_ERROR);
	f.pair = pair_new(&config);
	for (int i = 0; i < 2; i++)
		if (mr_create(f.pair->side[i].pd, f.pair->side[i].memory, MEMORY, PAIR_IOVA, PAIR_ACCESS, &f.extra[i]) < 0)
			abort();
	while (f.in.at < f.in.end) {
		obey(&f);
		check(&f);
	}
	for (unsigned n = 0; n < MAX_FRAMES && sim_step(f.pair->sim); n++)
		;
	check(&f);
	pair_delete(f.pair);
	return 0;
}
