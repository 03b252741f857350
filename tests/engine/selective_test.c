/* Selective repeat: what it reaches on paths that lose and reorder, that a stranger never sees it, and that nobody can forge what
 * a peer holds. */
#include "traffic.h"

#include "ib/answers.h"
#include "ib/engine.h"
#include "wire/aeth.h"
#include "wire/header.h"
#include "wire/packet.h"

enum { BYTES = 32 << 10, MTU = 4096, RECEIVES = 64 };

static uint64_t sim_seed = 3;

struct measure {
	wtime took;
	struct counters sent, received;	/* of the requester and of the responder */
	uint32_t lost;
};

static struct pair_config config_of(const struct sim_link *link, bool selective)
{
	struct pair_config config = {
		.sim = { .seed = sim_seed, .link = *link }, .mtu = IBV_MTU_4096, .memory_bytes = 1 << 20, .timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7, .min_rnr_timer = 1, .recvs = RECEIVES, .sends = 128, .options = ib_default_options,
		.rd_atomic = 16,
	};

	config.options.selective_repeat = selective;
	return config;
}

/* Messages from side 0, so many of them posted at a time. */
static struct measure stream_of(enum ibv_qp_type type, unsigned at_once, enum ibv_wr_opcode opcode, const struct sim_link *link,
				bool selective)
{
	struct pair_config config = config_of(link, selective);
	unsigned messages = at_once * 50;
	struct pair *pair;
	struct measure m;
	struct cqe cqe;

	config.type = type;
	pair = pair_new(&config);
	m.took = pair->sim->now;
	for (unsigned i = 0; i < RECEIVES; i++)
		assert_int_equal(pair_recv(pair, 1, i, 0, BYTES), 0);
	for (unsigned posted = 0, done = 0; done < messages;) {
		for (; posted < messages && posted - done < at_once; posted++)
			post_wr(pair, 0, (struct pair_wr){ .opcode = opcode, .flags = IBV_SEND_SIGNALED, .bytes = BYTES });
		assert_true(sim_step(pair->sim));
		for (; pair_poll_send(pair, 0, &cqe); done++)
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		while (pair_poll_recv(pair, 1, &cqe))
			assert_int_equal(pair_recv(pair, 1, cqe.wr_id, 0, BYTES), 0);
	}
	m.took = pair->sim->now - m.took;
	m.sent = pair->side[0].node->ca.counters;
	m.received = pair->side[1].node->ca.counters;
	m.lost = pair->sim->dropped;
	pair_delete(pair);
	return m;
}

static struct measure stream_some(unsigned at_once, enum ibv_wr_opcode opcode, const struct sim_link *link, bool selective)
{
	return stream_of(IBV_QPT_RC, at_once, opcode, link, selective);
}

static struct measure stream(enum ibv_wr_opcode opcode, const struct sim_link *link, bool selective)
{
	return stream_some(8, opcode, link, selective);
}

/* Goodput in percent of that without losses, where this is the way to the peer or back. */
static unsigned goodput_over(wtime delay_ns, unsigned at_once, enum ibv_wr_opcode opcode, uint32_t loss, bool selective)
{
	struct sim_link link = { .delay_ns = delay_ns, .byte_ns = 1 };
	wtime least = stream_some(at_once, opcode, &link, selective).took;

	link.loss = loss;
	return (unsigned)(100 * least / stream_some(at_once, opcode, &link, selective).took);
}

static unsigned goodput(enum ibv_wr_opcode opcode, uint32_t loss, bool selective)
{
	return goodput_over(5 * WTIME_US, 8, opcode, loss, selective);
}

static const struct { enum ibv_wr_opcode opcode; const char *name; } operations[] = {
	{ IBV_WR_RDMA_WRITE, "write" }, { IBV_WR_SEND, "send" }, { IBV_WR_RDMA_READ, "read" },
};

static unsigned mean_goodput(enum ibv_wr_opcode opcode, uint32_t loss, bool selective)
{
	enum { SEEDS = 8 };
	unsigned sum = 0;

	for (sim_seed = 1; sim_seed <= SEEDS; sim_seed++)
		sum += goodput(opcode, loss, selective);
	sim_seed = 3;
	return (sum + SEEDS / 2) / SEEDS;
}

/* For scripts/goodput. */
static void print_goodput(void)
{
	static const uint32_t loss[] = { 1000, 2000, 5000, 10000, 20000, 30000, 50000 };

	for (unsigned o = 0; o < 3; o++)
		for (unsigned i = 0; i < sizeof(loss) / sizeof(loss[0]); i++)
			for (unsigned selective = 0; selective < 2; selective++)
				printf("%s %s %u %u\n", operations[o].name, selective ? "selective" : "go-back", loss[i],
				       mean_goodput(operations[o].opcode, loss[i], selective));
}

static void losses_cost_little(void **state)
{
	for (unsigned o = 0; o < 3; o++) {
		assert_true(mean_goodput(operations[o].opcode, 10000, true) >= 94);
		assert_true(mean_goodput(operations[o].opcode, 50000, true) >= 88);
	}
}

/* A window is a round trip, as between processes that take in and answer what came meanwhile: each packet that is lost would stop
 * the sender for another, if what the peer holds were under way. */
static void a_loss_stops_nothing_where_the_window_is_a_round_trip(void **state)
{
	static const struct { uint32_t loss; unsigned least; } rows[] = { { 10000, 90 }, { 50000, 70 } };
	const wtime delay_ns = IB_WINDOW * MTU / 2;

	for (unsigned i = 0; i < 2; i++) {
		struct sim_link link = { .delay_ns = delay_ns, .byte_ns = 1, .loss = rows[i].loss };
		unsigned selective = goodput_over(delay_ns, 40, IBV_WR_RDMA_WRITE, rows[i].loss, true);
		struct measure m = stream_some(40, IBV_WR_RDMA_WRITE, &link, true);

		print_message("%u ppm lost: selective %u %%, go-back %u %%\n", rows[i].loss, selective,
			      goodput_over(delay_ns, 40, IBV_WR_RDMA_WRITE, rows[i].loss, false));
		assert_true(selective >= rows[i].least);
		assert_int_equal(m.sent.rcvd_seq_err, 0);	/* nothing left further ahead than the peer holds */
	}
}

/* Only what is lost is sent again. */
static void what_arrived_is_not_sent_again(void **state)
{
	struct sim_link link = { .delay_ns = 5 * WTIME_US, .byte_ns = 1, .loss = 20000 };
	struct measure m = stream(IBV_WR_RDMA_WRITE, &link, true);

	assert_true(m.sent.selective_repeats > 30 && m.sent.selective_repeats <= m.lost);
	assert_int_equal(m.sent.rcvd_seq_err + m.sent.completer_retry_err, 0);
	assert_true(m.received.held_request > 30);
	assert_true(m.received.duplicate_request <= m.sent.probes + m.sent.spurious_repeats);
}

/* Of a READ's responses too: what was lost alone is asked for, and sent, again, and no retry is used up. */
static void what_was_read_is_not_asked_for_again(void **state)
{
	struct sim_link link = { .delay_ns = 5 * WTIME_US, .byte_ns = 1, .loss = 50000 };
	struct measure m = stream(IBV_WR_RDMA_READ, &link, true);
	uint64_t responses = 400 * BYTES / MTU;

	print_message("%u lost, %llu asked for again, %llu held, %llu sent of %llu, %llu retries\n", m.lost,
		      (unsigned long long)m.sent.answer_repeats, (unsigned long long)m.sent.held_response,
		      (unsigned long long)m.received.sent_pkts, (unsigned long long)responses,
		      (unsigned long long)m.sent.completer_retry_err);
	assert_true(m.sent.held_response > 1000);
	assert_true(m.sent.answer_repeats > 100 && m.sent.answer_repeats <= m.lost);
	assert_int_equal(m.sent.completer_retry_err, 0);
	assert_true(m.received.sent_pkts <= responses + 3 * m.lost);	/* acknowledgements are among them */
}

/* The window of the first packet that is late is too narrow; it is learnt. */
static void reordering_costs_nothing(void **state)
{
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .reorder = 50000 };

	for (link.reorder_ns = 4 * WTIME_US; link.reorder_ns <= 64 * WTIME_US; link.reorder_ns *= 4) {
		struct measure m = stream(IBV_WR_RDMA_WRITE, &link, true);

		print_message("up to %llu ns late: %llu held, %llu sent again\n", (unsigned long long)link.reorder_ns,
			      (unsigned long long)m.received.held_request, (unsigned long long)m.sent.selective_repeats);
		assert_true(m.received.held_request > 100);
		assert_int_equal(m.sent.selective_repeats, m.sent.spurious_repeats);
		assert_true(m.sent.selective_repeats <= 16);
		assert_true(link.reorder_ns > 4 * WTIME_US || m.sent.selective_repeats == 0);
	}
}

/* Responses that are no later than a part of the round trip are waited for; how late they may be is learnt. */
static void late_responses_are_waited_for(void **state)
{
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .reorder = 50000 };

	for (link.reorder_ns = 4 * WTIME_US; link.reorder_ns <= 64 * WTIME_US; link.reorder_ns *= 4) {
		struct measure m = stream(IBV_WR_RDMA_READ, &link, true);

		print_message("up to %llu ns late: %llu held, %llu asked for again\n", (unsigned long long)link.reorder_ns,
			      (unsigned long long)m.sent.held_response, (unsigned long long)m.sent.answer_repeats);
		assert_true(m.sent.held_response > 100);
		assert_true(m.sent.answer_repeats <= 16);
		assert_true(link.reorder_ns > 4 * WTIME_US || m.sent.answer_repeats == 0);
	}
}

enum { READ_ALL = 16 << 20 };

struct reads {
	wtime took;
	uint64_t responses, repeats, retries;	/* that left; questions for them besides; retries used up */
};

/* What is asked for is never more than can be held, than the peer has places for, or than fills the path. */
static void expect_bounds(const struct pair *pair)
{
	const struct flight *f = &engine_of(pair->side[0].qp)->flight;
	int32_t span = psn_diff(f->psn, flight_first_psn(f)), held = f->answers ? f->answers->early.count : 0;

	assert_true(f->unanswered <= pair->config.rd_atomic);
	assert_true(span <= ANSWERS_REACH);
	assert_true(span - held <= IB_WINDOW || pair->config.rd_atomic == 1);
}

/* READ_ALL in READs of this length, eight of them posted at a time. */
static struct reads read_all(uint32_t length, enum ibv_mtu mtu, uint32_t loss, uint8_t rd_atomic)
{
	struct sim_link link = { .delay_ns = 10 * WTIME_US, .byte_ns = 1, .loss = loss };
	struct pair_config config = config_of(&link, true);
	unsigned reads = READ_ALL / length, posted = 0, done = 0;
	struct pair_wr wr = { .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = length };
	struct pair *pair;
	struct reads r;
	struct cqe cqe;

	config.mtu = mtu;
	config.memory_bytes = length;
	config.timeout = 16;
	config.rd_atomic = rd_atomic;
	pair = pair_new(&config);
	pattern_fill(pair->side[1].memory, length, 9);
	while (done < reads) {
		for (; posted < reads && posted - done < 8; posted++)
			post_wr(pair, 0, wr);
		assert_true(sim_step(pair->sim));
		expect_bounds(pair);
		for (; pair_poll_send(pair, 0, &cqe); done++)
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	}
	assert_true(pattern_holds(pair->side[0].memory, length, 9));
	r.took = pair->sim->now;
	r.responses = pair->side[1].node->ca.counters.sent_pkts;
	r.repeats = pair->side[0].node->ca.counters.answer_repeats;
	r.retries = pair->side[0].node->ca.counters.completer_retry_err;
	pair_delete(pair);
	return r;
}

static const struct { enum ibv_mtu mtu; uint32_t bytes; } read_mtus[] = { { IBV_MTU_1024, 1024 }, { IBV_MTU_4096, 4096 } };

static void read_with_losses(uint32_t length, unsigned m, uint32_t loss, unsigned most, wtime least)
{
	struct reads r = read_all(length, read_mtus[m].mtu, loss, 16);
	uint64_t needed = READ_ALL / read_mtus[m].bytes;

	print_message("%u bytes, MTU %u, %u ppm lost: %llu responses for %llu, asked %llu times, goodput %llu %%\n", length,
		      read_mtus[m].bytes, loss, (unsigned long long)r.responses, (unsigned long long)needed,
		      (unsigned long long)r.repeats, (unsigned long long)(100 * least / r.took));
	assert_true(100 * r.responses <= needed * most);
	assert_true(100 * least / r.took >= 90);
	assert_int_equal(r.retries, 0);
}

/* A READ is asked for in pieces, so what is lost is asked for while the rest is under way, and nothing that arrives has to be
 * dropped. */
static void long_reads_send_little_again(void **state)
{
	static const struct { uint32_t loss; unsigned most; } rows[] = { { 1000, 110 }, { 10000, 115 }, { 50000, 130 } };
	static const uint32_t lengths[] = { 64 << 10, 1 << 20, 16 << 20 };

	for (unsigned m = 0; m < 2; m++) {
		for (unsigned n = 0; n < 3; n++) {
			wtime least = read_all(lengths[n], read_mtus[m].mtu, 0, 16).took;

			for (unsigned i = 0; i < 3; i++)
				read_with_losses(lengths[n], m, rows[i].loss, rows[i].most, least);
		}
	}
}

/* Each piece is a READ for the peer, which has room for so many. */
static void pieces_keep_to_the_depth(void **state)
{
	static const struct { uint8_t depth; unsigned least; } rows[] = { { 1, 70 }, { 2, 80 }, { 4, 90 } };
	wtime without = read_all(1 << 20, IBV_MTU_4096, 0, 16).took;

	for (unsigned i = 0; i < 3; i++) {
		wtime took = read_all(1 << 20, IBV_MTU_4096, 0, rows[i].depth).took;
		struct reads r = read_all(1 << 20, IBV_MTU_4096, 10000, rows[i].depth);

		print_message("depth %u: %llu %% of depth 16, %llu %% with 1 %% lost\n", rows[i].depth,
			      (unsigned long long)(100 * without / took), (unsigned long long)(100 * took / r.took));
		assert_true(100 * without / took >= 95);
		assert_true(100 * took / r.took >= rows[i].least);
		assert_int_equal(r.retries, 0);
	}
}

static void count_reads(void *arg, int node, const struct packet *p)
{
	unsigned *reads = arg;

	*reads += node == 0 && p->opcode == OPCODE_RC_RDMA_READ_REQUEST;
}

/* A READ of 50 responses takes so many requests: the first of a connection, and the second. */
static void expect_requests(const char *who, struct pair_config *config, unsigned first, unsigned second)
{
	struct pair *pair = pair_new(config);
	unsigned reads = 0;

	print_message("%s\n", who);
	pair->sim->tap = count_reads;
	pair->sim->tap_arg = &reads;
	for (unsigned i = 0; i < 2; i++) {
		reads = 0;
		post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = 50 * MTU });
		pair_run(pair);
		expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
		assert_int_equal(reads, i ? second : first);
	}
	pair_delete(pair);
}

static void strangers_are_asked_for_all_at_once(void **state)
{
	enum { PIECES = (50 + ANSWERS_LEAST - 1) / ANSWERS_LEAST };
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config known = config_of(&link, true), stranger = known, all = known, seed = known, no_retries = known;

	stranger.stranger = true;
	all.options.selective_repeat = false;
	seed.options.profile = IB_SEED;
	no_retries.retry_cnt = 0;
	expect_requests("a peer that repeats selectively", &known, PIECES, PIECES);
	expect_requests("a stranger, which nobody knows at first", &stranger, PIECES, 1);
	expect_requests("repeat=all", &all, 1, 1);
	expect_requests("the seed's profile", &seed, 1, 1);
	expect_requests("without retries", &no_retries, 1, 1);
}

/* A peer that has no CPU for a while has lost nothing. */
static void who_stands_still_is_asked_with_patience(void **state)
{
	enum { STILL_MS = 20 };
	struct sim_link link = { .delay_ns = 10 * WTIME_US, .byte_ns = 1 };
	struct pair_config config = config_of(&link, true);
	const struct counters *counters;
	struct pair *pair;

	config.timeout = 16;
	pair = pair_new(&config);
	counters = &pair->side[0].node->ca.counters;
	sim_fault_add(pair->sim, SIM_DROP, 1, 3);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = 50 * MTU });
	while (!counters->answer_repeats)
		assert_true(sim_step(pair->sim));
	sim_stop(pair->sim, 1);
	sim_run(pair->sim, pair->sim->now + STILL_MS * WTIME_MS);
	sim_continue(pair->sim, 1);
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	print_message("asked %llu times\n", (unsigned long long)counters->answer_repeats);
	assert_true(counters->answer_repeats <= 12);
	pair_delete(pair);
}

/* The QP that posts and the one that takes are two. */
static void xrc_repeats_selectively(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct sim_link link = { .delay_ns = 5 * WTIME_US, .byte_ns = 1, .loss = 20000 };

	for (unsigned i = 0; i < 2; i++) {
		struct measure m = stream_of(IBV_QPT_XRC_SEND, 8, opcodes[i], &link, true);

		print_message("%u lost, %llu sent again, %llu asked for again\n", m.lost,
			      (unsigned long long)m.sent.selective_repeats, (unsigned long long)m.sent.answer_repeats);
		assert_true(m.sent.selective_repeats + m.sent.answer_repeats > 30);
		assert_true(m.sent.selective_repeats + m.sent.answer_repeats <= m.lost + m.lost / 4);
		assert_true(m.received.held_request + m.sent.held_response > 100);
		assert_int_equal(m.sent.rcvd_seq_err + m.sent.completer_retry_err, 0);
	}
}

/* The frames of responses that a QP holds are free when it goes. */
static void responses_outlive_no_qp(void **state)
{
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, true);
	struct pair *pair = pair_new(&config);
	struct ca *ca = &pair->side[0].node->ca;

	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .bytes = MTU });
	pair_run(pair);		/* the peer is known to repeat selectively */
	sim_fault_add(pair->sim, SIM_DROP, 1, pair->side[1].node->sent + 2);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_READ, .bytes = 50 * MTU });
	while (!ca->counters.held_response)
		assert_true(sim_step(pair->sim));
	assert_true(reorder_spare(ca) < REORDER_FRAMES);
	assert_int_equal(qp_destroy(pair->side[0].qp), 0);
	assert_int_equal(reorder_spare(ca), REORDER_FRAMES);
	pair_delete(pair);
}

static struct pair *pair_that_is_timed(const struct sim_link *link)
{
	struct pair_config config = config_of(link, true);
	struct pair *pair = pair_new(&config);

	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = MTU });
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	return pair;
}

/* The second response of four is lost: it alone is asked for, once, without a probe. */
static void read_with_a_loss(struct pair *pair)
{
	const struct counters *counters = &pair->side[0].node->ca.counters;
	struct counters before = *counters;

	sim_fault_add(pair->sim, SIM_DROP, 1, pair->side[1].node->sent + 1);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = 4 * MTU });
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	assert_int_equal(counters->answer_repeats - before.answer_repeats, 1);
	assert_int_equal(counters->held_response - before.held_response, 2);
	assert_int_equal(counters->probes - before.probes, 0);
	assert_int_equal(counters->completer_retry_err - before.completer_retry_err, 0);
}

static void connect_again(struct pair *pair, psn_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	for (int side = 0; side < 2; side++)
		assert_int_equal(qp_modify(pair->side[side].qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
	pair->config.psn[0] = psn;
	for (int side = 0; side < 2; side++)
		assert_int_equal(pair_connect(pair, side, pair->side[side].qp, pair->side[!side].qp, IBV_QPS_RTS), 0);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = MTU });
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
}

/* What is known of responses ends with the connection, whatever PSNs the next one has. */
static void a_qp_that_is_used_again_asks_for_what_is_lost(void **state)
{
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
	static const psn_t psn[] = { 0x600000, 0x600000, 0x500000, 0x10 };
	struct pair *pair = pair_that_is_timed(&link);

	for (unsigned i = 0; i < sizeof(psn) / sizeof(psn[0]); i++) {
		print_message("from PSN %#x\n", psn[i]);
		connect_again(pair, psn[i]);
		read_with_a_loss(pair);
	}
	pair_delete(pair);
}

/* More than half of all PSNs passed since a response was lost last. */
static void losses_are_noticed_however_long_there_was_none(void **state)
{
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
	struct pair *pair = pair_that_is_timed(&link);
	struct flight *f = &engine_of(pair->side[0].qp)->flight;

	read_with_a_loss(pair);
	f->answers->dated = psn_add(f->psn, -FLIGHT_SPAN_MOST - 100);
	read_with_a_loss(pair);
	pair_delete(pair);
}

/* A busy peer answered late, so the next question waits long: the ACK timer does not, and uses up no retry in vain. */
static void an_ack_timeout_asks_for_what_is_missing(void **state)
{
	enum { LOST_QUESTIONS = 6 };
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
	struct pair *pair = pair_that_is_timed(&link);
	struct flight *f = &engine_of(pair->side[0].qp)->flight;
	const struct counters *counters = &pair->side[0].node->ca.counters;
	uint64_t held = counters->held_response + 2;

	sim_fault_add(pair->sim, SIM_DROP, 1, pair->side[1].node->sent + 1);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = 4 * MTU });
	while (counters->held_response < held)
		assert_true(sim_step(pair->sim));
	f->rtt.wait_ns = f->rtt.smooth_ns = ack_timeout_ns(pair->config.timeout);
	for (unsigned i = 0; i < LOST_QUESTIONS; i++)
		sim_fault_add(pair->sim, SIM_DROP, 0, pair->side[0].node->sent + i);
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	assert_true(counters->completer_retry_err <= LOST_QUESTIONS);
	pair_delete(pair);
}

/* The response of a READ is lost, and what follows the READ was executed: one response proves both. */
static void what_follows_a_read_completes_with_it(void **state)
{
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
	struct pair *pair = pair_that_is_timed(&link);
	const struct counters *counters = &pair->side[0].node->ca.counters;
	wtime start = pair->sim->now;
	struct cqe cqe;

	sim_fault_add(pair->sim, SIM_DROP, 1, pair->side[1].node->sent);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = MTU });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = MTU });
	while (!pair_poll_send(pair, 0, &cqe))
		assert_true(sim_step(pair->sim));
	assert_int_equal(cqe.wr_id, 1);
	assert_true(pair_poll_send(pair, 0, &cqe));
	assert_int_equal(cqe.wr_id, 2);
	assert_true(pair->sim->now - start <= 120 * WTIME_US);
	assert_int_equal(counters->probes, 0);
	assert_int_equal(counters->answer_repeats, 1);
	pair_delete(pair);
}

struct seen {
	unsigned selective_acks, naks;
	bool marked[2];
};

static void look(void *arg, int node, const struct packet *p)
{
	struct seen *seen = arg;

	seen->selective_acks += p->opcode == OPCODE_WEFT_SELECTIVE_ACK;
	seen->naks += p->opcode == OPCODE_RC_ACKNOWLEDGE && p->aeth.syndrome == aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE);
	seen->marked[node] |= p->resv.bth7 != 0;
}

static void lose_one(enum ib_profile profile, bool selective, bool stranger, int from, struct seen *seen)
{
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, selective);
	struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = 8 * MTU };
	struct pair *pair;

	config.stranger = stranger;
	config.options.profile = profile;
	pair = pair_new(&config);
	*seen = (struct seen){ 0 };
	pair->sim->tap = look;
	pair->sim->tap_arg = seen;
	sim_fault_add(pair->sim, SIM_DROP, from, 1);
	pattern_fill(pair->side[from].memory, 8 * MTU, 7);
	post_wr(pair, from, wr);
	pair_run(pair);
	expect_sent(pair, from, 1, IBV_WC_SUCCESS);
	assert_true(pattern_holds(pair->side[!from].memory, 8 * MTU, 7));
	pair_delete(pair);
}

static void a_stranger_never_sees_it(void **state)
{
	struct seen seen;

	for (int from = 0; from < 2; from++) {
		lose_one(IB_STANDARD, true, true, from, &seen);
		assert_int_equal(seen.selective_acks, 0);
		assert_int_equal(seen.naks, 1);
		assert_true(seen.marked[0] && !seen.marked[1]);
	}
	lose_one(IB_STANDARD, true, false, 0, &seen);
	assert_true(seen.selective_acks && !seen.naks && seen.marked[0] && seen.marked[1]);
	lose_one(IB_SEED, true, false, 0, &seen);
	assert_true(!seen.selective_acks && seen.naks && !seen.marked[0] && !seen.marked[1]);
	lose_one(IB_STANDARD, false, false, 0, &seen);
	assert_true(!seen.selective_acks && seen.naks && !seen.marked[0] && !seen.marked[1]);
}

static void answer(struct pair *pair, uint8_t opcode, psn_t psn, uint64_t held, bool marked)
{
	struct packet p = {
		.opcode = opcode, .psn = psn, .pkey = 0xffff, .aeth = { aeth_syndrome(AETH_ACK, AETH_NO_CREDITS), 0 },
		.heldeth.held = { held }, .dest_qpn = pair->side[0].qp->qpn, .resv.bth7 = marked ? BTH_SELECTIVE : 0,
		.path = { .slid = pair->side[1].node->dev->lid, .dlid = pair->side[0].node->dev->lid },
	};

	ca_input(&pair->side[0].node->ca, pair->side[0].node->dev, pair->sim->now, 2, &p);
	sim_pump(pair->sim);
}

/* So many packets are to be written, from PSN 0 on, the peer hears nothing and answers what the test says. */
static struct pair *start_many(bool selective, unsigned packets)
{
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, selective);
	struct pair *pair = pair_new(&config);
	struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = packets * MTU };

	pair->side[1].node->deaf = true;
	post_wr(pair, 0, wr);
	return pair;
}

static struct pair *start(bool selective)
{
	return start_many(selective, 8);
}

static void forged_acknowledgements_change_nothing(void **state)
{
	static const struct { const char *name; psn_t psn; uint64_t held; bool selective, marked, counts; } rows[] = {
		{ "the packet that is expected", 0xffffff, 0x3, true, true, true },
		{ "a packet that never left", 0xffffff, 0x100, true, true, true },
		{ "the last of all", 0xffffff, UINT64_C(1) << 63, true, true, true },
		{ "beyond the flight", 8, 0x2, true, true, true },
		{ "half the numbers beyond", 0x7ffffe, UINT64_C(1) << 63, true, true, true },
		{ "before the flight", 0xfffffe, 0x4, true, true, false },
		{ "from one who does not know it", 0xffffff, 0x2, true, false, true },
		{ "to one who does not know it", 0xffffff, 0x2, false, true, false },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start(rows[i].selective);
		const struct flight *f = &engine_of(pair->side[0].qp)->flight;
		uint32_t sent = pair->side[0].node->sent;

		print_message("%s\n", rows[i].name);
		if (rows[i].marked)
			answer(pair, OPCODE_RC_ACKNOWLEDGE, 0xffffff, 0, true);
		answer(pair, OPCODE_WEFT_SELECTIVE_ACK, rows[i].psn, rows[i].held, rows[i].marked);
		assert_int_equal(pair->side[0].node->ca.counters.bad_selective_acks, rows[i].counts);
		assert_int_equal(f->newest - f->oldest, 8);
		for (uint32_t n = f->oldest; n != f->newest && f->loss; n++)
			assert_false(loss_is_held(f, n));
		sim_run(pair->sim, pair->sim->now + 10 * WTIME_US);
		assert_int_equal(pair->side[0].node->sent, sent);
		pair_delete(pair);
	}
}

/* Whoever guesses PSNs can say that the peer holds what it does not; the ACK timer sends all of it again. */
static void a_lie_ends_with_the_ack_timer(void **state)
{
	struct pair *pair = start(true);

	answer(pair, OPCODE_WEFT_SELECTIVE_ACK, 0xffffff, 0xfe, true);
	pair->side[1].node->deaf = false;
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* Nothing came for an ACK timeout: the path may be full, or cut. */
static void a_timeout_sends_two_packets(void **state)
{
	struct pair *pair = start_many(true, 200);
	const struct flight *f = &engine_of(pair->side[0].qp)->flight;
	const struct counters *counters = &pair->side[0].node->ca.counters;
	uint32_t sent = 0;

	answer(pair, OPCODE_WEFT_SELECTIVE_ACK, 0xffffff, ~UINT64_C(1), true);
	assert_int_equal(f->newest - f->oldest, 63 + IB_WINDOW);
	while (!counters->completer_retry_err) {
		sent = pair->side[0].node->sent;
		assert_true(sim_step(pair->sim));
	}
	sim_pump(pair->sim);
	sim_run(pair->sim, pair->sim->now + 20 * WTIME_US);
	assert_int_equal(pair->side[0].node->sent - sent, LOSS_RESTART);
	/* and more with each that arrives */
	pair->side[1].node->deaf = false;
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_true(counters->completer_retry_err <= 2);
	pair_delete(pair);
}

/* Some time later the peer answers: so many packets leave. */
static uint32_t leave_after(struct pair *pair, uint8_t opcode, psn_t psn, uint64_t held)
{
	uint32_t sent;

	sim_run(pair->sim, pair->sim->now + 2 * WTIME_US);
	sent = pair->side[0].node->sent;
	answer(pair, opcode, psn, held, true);
	return pair->side[0].node->sent - sent;
}

static uint32_t leave_after_nak(struct pair *pair, psn_t psn)
{
	uint32_t sent = pair->side[0].node->sent;
	struct packet p = {
		.opcode = OPCODE_RC_ACKNOWLEDGE, .psn = psn, .pkey = 0xffff,
		.aeth = { aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE), 0 },
		.dest_qpn = pair->side[0].qp->qpn, .resv.bth7 = BTH_SELECTIVE,
		.path = { .slid = pair->side[1].node->dev->lid, .dlid = pair->side[0].node->dev->lid },
	};

	ca_input(&pair->side[0].node->ca, pair->side[0].node->dev, pair->sim->now, 2, &p);
	sim_pump(pair->sim);
	return pair->side[0].node->sent - sent;
}

/* After an ACK timeout: what leaves is paid for by what is told to have arrived, once, and nothing fresh leaves meanwhile. */
static void each_arrival_lets_two_packets_leave(void **state)
{
	struct pair *pair = start_many(true, 200);
	const struct flight *f = &engine_of(pair->side[0].qp)->flight;
	const struct counters *counters = &pair->side[0].node->ca.counters;
	uint32_t end = f->newest;

	answer(pair, OPCODE_RC_ACKNOWLEDGE, 0xffffff, 0, true);
	while (!counters->completer_retry_err)
		assert_true(sim_step(pair->sim));
	sim_pump(pair->sim);
	assert_int_equal(f->loss->allowance, 0);
	assert_int_equal(leave_after(pair, OPCODE_RC_ACKNOWLEDGE, 0, 0), LOSS_PER_ARRIVAL);
	assert_int_equal(leave_after(pair, OPCODE_RC_ACKNOWLEDGE, 0, 0), 0);
	assert_int_equal(leave_after(pair, OPCODE_WEFT_SELECTIVE_ACK, 0, 2), LOSS_PER_ARRIVAL);
	assert_int_equal(leave_after(pair, OPCODE_WEFT_SELECTIVE_ACK, 0, 2), 0);
	/* one that was missing, and one that was told of before */
	assert_int_equal(leave_after(pair, OPCODE_RC_ACKNOWLEDGE, 2, 0), LOSS_PER_ARRIVAL);
	assert_int_equal(leave_after_nak(pair, 3), LOSS_PER_ARRIVAL);
	assert_int_equal(f->newest, end);
	for (psn_t psn = 3; f->newest == end && psn < end; psn++)
		leave_after(pair, OPCODE_RC_ACKNOWLEDGE, psn, 0);
	assert_int_equal(f->loss->allowance, LOSS_UNBOUND);
	pair->side[1].node->deaf = false;
	pair_delete(pair);
}

/* From the other side, with data that it never sent. */
static void forge(struct pair *pair, int to, struct packet p)
{
	static uint8_t data[MTU];
	struct sim_node *node = pair->side[to].node;
	struct iovec payload = { data, MTU };

	memset(data, 0xee, sizeof(data));
	p.pkey = 0xffff;
	p.resv.bth7 = BTH_SELECTIVE;
	p.dest_qpn = pair->side[to].qp->qpn;
	p.path = (struct packet_path){ .slid = pair->side[!to].node->dev->lid, .dlid = node->dev->lid };
	p.payload = &payload;
	p.payload_iovs = 1;
	p.payload_bytes = MTU;
	ca_input(&node->ca, node->dev, pair->sim->now, (origin_t)(2 - to), &p);
	sim_pump(pair->sim);
}

/* Whoever guesses a PSN that is not expected yet puts nothing in the place of what comes, before it or after: where two packets
 * of a PSN differ, neither is taken. */
static void a_forged_packet_takes_no_place(void **state)
{
	enum { PACKETS = 8, FORGED = 3 };
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	static const uint8_t packets[] = { OPCODE_RC_RDMA_WRITE_MIDDLE, OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE };
	struct pair_wr wr = { .flags = IBV_SEND_SIGNALED, .bytes = PACKETS * MTU };

	for (unsigned i = 0; i < 4; i++) {
		bool is_read = i & 1, comes_late = i & 2;
		struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
		struct pair *pair = pair_that_is_timed(&link);
		const struct flight *f = &engine_of(pair->side[0].qp)->flight;
		psn_t psn = f->psn;
		int from = is_read, to = !is_read;

		print_message("%s, %s\n", is_read ? "read" : "write", comes_late ? "after" : "before");
		pattern_fill(pair->side[from].memory, PACKETS * MTU, 7);
		sim_fault_add(pair->sim, SIM_DROP, from, pair->side[from].node->sent);
		wr.opcode = opcodes[is_read];
		post_wr(pair, 0, wr);
		sim_run(pair->sim, pair->sim->now + (comes_late ? (is_read ? 60 : 45) : 15) * WTIME_US);
		forge(pair, to, (struct packet){ .opcode = packets[is_read], .psn = psn_add(psn, FORGED) });
		pair_run(pair);
		expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[to].memory, PACKETS * MTU, 7));
		assert_int_equal(pair->side[0].node->ca.counters.completer_retry_err, 0);
		assert_true(!is_read || !pair->side[0].node->ca.counters.probes);
		pair_delete(pair);
	}
}

/* A receive that is not there when a held message's turn comes: the standard's RNR NAK, and only that message is sent again. */
static void what_was_held_may_be_not_ready(void **state)
{
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, true);
	struct pair *pair = pair_new(&config);

	sim_fault_add(pair->sim, SIM_DROP, 0, 0);
	for (unsigned i = 0; i < 4; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .bytes = 100 });
	assert_int_equal(pair_recv(pair, 1, 0, 0, 100), 0);
	sim_run(pair->sim, pair->sim->now + 25 * WTIME_US);
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(pair_recv(pair, 1, i, 0, 100), 0);
	pair_run(pair);
	assert_true(pair->side[1].node->ca.counters.send_rnr_err > 0);
	for (unsigned i = 0; i < 4; i++) {
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		expect_received(pair, 1, i, IBV_WC_SUCCESS);
	}
	pair_delete(pair);
}

static unsigned hold_some(struct ca *ca, struct reorder *r, unsigned packets)
{
	struct packet p = { .opcode = OPCODE_RC_SEND_ONLY };
	unsigned held = 0;

	for (p.psn = 1; p.psn <= packets; p.psn++)
		held += reorder_hold(ca, r, 0, &p) == REORDER_HELD;
	return held;
}

/* QPs of one adapter that lose more than there are frames for leave some for those that lose little. */
static void frames_are_shared(void **state)
{
	enum { GREEDY = 4, MODEST = 8, PACKETS = 8 };
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, true);
	struct pair *pair = pair_new(&config);
	struct ca *ca = &pair->side[1].node->ca;
	struct reorder greedy[GREEDY] = { 0 }, modest[MODEST] = { 0 };
	struct packet p = { .opcode = OPCODE_RC_SEND_ONLY, .psn = REORDER_SPAN - 1 };

	assert_int_equal(reorder_spare(ca), REORDER_FRAMES);
	for (unsigned q = 0; q < GREEDY; q++)
		print_message("greedy: %u\n", hold_some(ca, &greedy[q], REORDER_SPAN - 1));
	assert_int_equal(greedy[0].count, REORDER_SPAN - 1);
	assert_true(greedy[GREEDY - 1].count <= reorder_spare(ca) + 1);
	assert_int_equal(reorder_hold(ca, &greedy[GREEDY - 1], 0, &p), REORDER_FULL);
	for (unsigned q = 0; q < MODEST; q++)
		assert_int_equal(hold_some(ca, &modest[q], PACKETS), PACKETS);
	/* what one gives back is for all */
	reorder_forget(ca, &greedy[0]);
	assert_int_equal(reorder_hold(ca, &greedy[GREEDY - 1], 0, &p), REORDER_HELD);
	for (unsigned q = 1; q < GREEDY; q++)
		reorder_forget(ca, &greedy[q]);
	for (unsigned q = 0; q < MODEST; q++)
		reorder_forget(ca, &modest[q]);
	assert_int_equal(reorder_spare(ca), REORDER_FRAMES);
	pair_delete(pair);
}

/* What finds no frame is lost like others: nothing else is sent again for it, and no retry is used up. */
static void without_a_frame_a_packet_is_lost(void **state)
{
	enum { GREEDY = 16, PACKETS = 40 };
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
	struct pair *pair = pair_that_is_timed(&link);
	struct ca *ca = &pair->side[1].node->ca;
	const struct counters *counters = &pair->side[0].node->ca.counters;
	struct reorder greedy[GREEDY] = { 0 };

	for (unsigned q = 0; q < GREEDY && reorder_spare(ca) > PACKETS / 2; q++)
		hold_some(ca, &greedy[q], REORDER_SPAN - 1);
	sim_fault_add(pair->sim, SIM_DROP, 0, pair->side[0].node->sent);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = PACKETS * MTU });
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	print_message("%llu sent again\n", (unsigned long long)counters->selective_repeats);
	assert_true(counters->selective_repeats > 1 && counters->selective_repeats <= PACKETS);
	assert_int_equal(counters->rcvd_seq_err + counters->completer_retry_err, 0);
	for (unsigned q = 0; q < GREEDY; q++)
		reorder_forget(ca, &greedy[q]);
	pair_delete(pair);
}

static void held_packets_are_found(void **state)
{
	enum { PACKETS = 60 };
	uint64_t bits[HELD_WORDS];
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, true);
	struct pair *pair = pair_new(&config);
	struct ca *ca = &pair->side[1].node->ca;
	struct reorder one = { 0 }, many = { 0 };
	struct packet p = { .opcode = OPCODE_RC_SEND_ONLY, .psn = 1 };

	assert_int_equal(hold_some(ca, &many, PACKETS), PACKETS);
	assert_int_equal(reorder_hold(ca, &many, 0, &p), REORDER_HAD);
	p.psn = REORDER_SPAN;
	assert_int_equal(reorder_hold(ca, &many, 0, &p), REORDER_FULL);
	assert_int_equal(hold_some(ca, &one, 1), 1);
	reorder_bits(&one, 0, bits);
	assert_int_equal(bits[0], 2);
	reorder_bits(&one, 0xffffff, bits);
	assert_int_equal(bits[0], 4);
	assert_null(reorder_next(ca, &one, 0));
	assert_int_equal(reorder_next(ca, &one, 1)->psn, 1);
	/* a read passed what one held */
	assert_true(reorder_holds(&many));
	assert_null(reorder_next(ca, &many, PACKETS + 1));
	assert_false(reorder_holds(&many));
	assert_int_equal(reorder_spare(ca), REORDER_FRAMES - 1);	/* what reorder_next gave */
	pair_delete(pair);
}

/* A peer that gets all but the first two packets, however often they are sent: what it holds is no reason to go on for ever. */
static void what_is_held_gives_no_retries_back(void **state)
{
	struct pair *pair = start(true);
	struct cqe cqe;
	bool has_ended = false;

	engine_of(pair->side[0].qp)->options.timeout_as_standard = true;	/* the peer is there, though deaf */
	for (int i = 0; i < 200 && !has_ended; i++) {
		answer(pair, OPCODE_WEFT_SELECTIVE_ACK, 1, i < 30 ? 0x1e : 0x3e, true);
		sim_run(pair->sim, (wtime)i * 10 * WTIME_MS);
		has_ended = pair_poll_send(pair, 0, &cqe);
	}
	assert_true(has_ended);
	assert_int_equal(cqe.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(pair->side[0].node->ca.counters.completer_retry_err, 7);
	pair_delete(pair);
}

/* Who allows no retries gets none, selectively neither. */
static void no_retries_are_none(void **state)
{
	struct sim_link link = { .delay_ns = 1 * WTIME_US };

	for (int selective = 0; selective < 2; selective++) {
		struct pair_config config = config_of(&link, selective);
		struct pair *pair;

		config.retry_cnt = 0;
		pair = pair_new(&config);
		sim_fault_add(pair->sim, SIM_DROP, 0, 2);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED,
						   .bytes = 8 * MTU });
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
		pair_delete(pair);
	}
}

/* Of a QP that is destroyed while it holds packets the frames are free again. */
static void frames_outlive_their_qp(void **state)
{
	enum { PACKETS = 60 };
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, true);
	struct pair *pair = pair_new(&config);
	struct ca *ca = &pair->side[1].node->ca;

	sim_fault_add(pair->sim, SIM_DROP, 0, 2);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = PACKETS * MTU });
	while (!reorder_holds(engine_of(pair->side[1].qp)->responder.reorder))
		assert_true(sim_step(pair->sim));
	assert_true(reorder_spare(ca) < REORDER_FRAMES);
	assert_int_equal(qp_destroy(pair->side[1].qp), 0);
	assert_int_equal(reorder_spare(ca), REORDER_FRAMES);
	pair_delete(pair);
}

static void a_read_that_was_held_is_asked_for_once(void **state)
{
	enum { PACKETS = 50, PIECES = (PACKETS + ANSWERS_LEAST - 1) / ANSWERS_LEAST };
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
	struct pair_config config = config_of(&link, true);
	struct pair *pair = pair_new(&config);
	const struct counters *counters = &pair->side[0].node->ca.counters;
	struct pair_wr write = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = MTU };
	struct pair_wr read = { .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = PACKETS * MTU };
	unsigned reads = 0;

	/* the round trip is known then */
	post_wr(pair, 0, write);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	pair->sim->tap = count_reads;
	pair->sim->tap_arg = &reads;
	sim_fault_add(pair->sim, SIM_DROP, 0, pair->side[0].node->sent);
	post_wr(pair, 0, write);
	post_wr(pair, 0, read);
	post_wr(pair, 0, write);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(reads, PIECES);
	assert_int_equal(counters->selective_repeats, 1);
	pair_delete(pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(losses_cost_little),
		cmocka_unit_test(a_loss_stops_nothing_where_the_window_is_a_round_trip),
		cmocka_unit_test(what_arrived_is_not_sent_again),
		cmocka_unit_test(what_was_read_is_not_asked_for_again),
		cmocka_unit_test(reordering_costs_nothing),
		cmocka_unit_test(late_responses_are_waited_for),
		cmocka_unit_test(long_reads_send_little_again),
		cmocka_unit_test(pieces_keep_to_the_depth),
		cmocka_unit_test(strangers_are_asked_for_all_at_once),
		cmocka_unit_test(who_stands_still_is_asked_with_patience),
		cmocka_unit_test(xrc_repeats_selectively),
		cmocka_unit_test(responses_outlive_no_qp),
		cmocka_unit_test(a_qp_that_is_used_again_asks_for_what_is_lost),
		cmocka_unit_test(losses_are_noticed_however_long_there_was_none),
		cmocka_unit_test(an_ack_timeout_asks_for_what_is_missing),
		cmocka_unit_test(what_follows_a_read_completes_with_it),
		cmocka_unit_test(a_stranger_never_sees_it),
		cmocka_unit_test(forged_acknowledgements_change_nothing),
		cmocka_unit_test(a_lie_ends_with_the_ack_timer),
		cmocka_unit_test(a_timeout_sends_two_packets),
		cmocka_unit_test(each_arrival_lets_two_packets_leave),
		cmocka_unit_test(a_forged_packet_takes_no_place),
		cmocka_unit_test(what_was_held_may_be_not_ready),
		cmocka_unit_test(frames_are_shared),
		cmocka_unit_test(without_a_frame_a_packet_is_lost),
		cmocka_unit_test(held_packets_are_found),
		cmocka_unit_test(what_is_held_gives_no_retries_back),
		cmocka_unit_test(no_retries_are_none),
		cmocka_unit_test(frames_outlive_their_qp),
		cmocka_unit_test(a_read_that_was_held_is_asked_for_once),
	};

	if (argc > 1 && strcmp(argv[1], "--goodput") == 0) {
		print_goodput();
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
