/* Selective repeat: what it reaches on paths that lose and reorder, that a stranger never sees it, and that nobody can forge what
 * a peer holds. */
#include "traffic.h"

#include "ib/answers.h"
#include "ib/engine.h"
#include "wire/aeth.h"
#include "wire/header.h"
#include "wire/packet.h"

enum { BYTES = 32 << 10, MTU = 4096, RECEIVES = 64 };

struct measure {
	wtime took;
	struct counters sent, received;	/* of the requester and of the responder */
	uint32_t lost;
};

static struct pair_config config_of(const struct sim_link *link, bool selective)
{
	struct pair_config config = {
		.sim = { .seed = 3, .link = *link }, .mtu = IBV_MTU_4096, .memory_bytes = 1 << 20, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .min_rnr_timer = 1, .recvs = RECEIVES, .sends = 128, .options = ib_default_options,
		.rd_atomic = 16,
	};

	config.options.selective_repeat = selective;
	return config;
}

/* Messages from side 0, so many of them posted at a time. */
static struct measure stream_some(unsigned at_once, enum ibv_wr_opcode opcode, const struct sim_link *link, bool selective)
{
	struct pair_config config = config_of(link, selective);
	struct pair *pair = pair_new(&config);
	struct measure m = { .took = pair->sim->now };
	unsigned messages = at_once * 50;
	struct cqe cqe;

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

static void losses_cost_little(void **state)
{
	static const struct { enum ibv_wr_opcode opcode; const char *name; } rows[] = {
		{ IBV_WR_RDMA_WRITE, "write" }, { IBV_WR_SEND, "send" }, { IBV_WR_RDMA_READ, "read" },
	};
	static const uint32_t loss[] = { 1000, 5000, 10000, 20000, 50000 };

	for (unsigned o = 0; o < sizeof(rows) / sizeof(rows[0]); o++) {
		for (unsigned i = 0; i < 5; i++)
			print_message("%s, %u ppm lost: selective %u %%, go-back %u %%\n", rows[o].name, loss[i],
				      goodput(rows[o].opcode, loss[i], true), goodput(rows[o].opcode, loss[i], false));
		assert_true(goodput(rows[o].opcode, 10000, true) >= 90);
		assert_true(goodput(rows[o].opcode, 50000, true) >= 70);
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

/* All responses of a READ may have left before the first question arrives: what is asked for waits behind them, and is not asked
 * for over and over. */
static void long_reads_are_asked_for_with_patience(void **state)
{
	enum { LENGTH = 4 << 20, SMALL_MTU = 1024, RESPONSES = LENGTH / SMALL_MTU };
	static const uint32_t loss[] = { 1000, 5000 };

	for (unsigned i = 0; i < 2; i++) {
		struct sim_link link = { .delay_ns = 10 * WTIME_US, .byte_ns = 1, .loss = loss[i] };
		struct pair_config config = config_of(&link, true);
		struct pair *pair;

		config.mtu = IBV_MTU_1024;
		config.memory_bytes = 8 << 20;
		config.timeout = 16;
		pair = pair_new(&config);
		post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = LENGTH });
		pair_run(pair);
		expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
		print_message("%u ppm lost: %llu responses sent for %d, asked %llu times\n", loss[i],
			      (unsigned long long)pair->side[1].node->ca.counters.sent_pkts, RESPONSES,
			      (unsigned long long)pair->side[0].node->ca.counters.answer_repeats);
		assert_true(pair->side[1].node->ca.counters.sent_pkts <= 4 * RESPONSES);
		pair_delete(pair);
	}
}

/* The frames of responses that a QP holds are free when it goes. */
static void responses_outlive_no_qp(void **state)
{
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, true);
	struct reorder queue[REORDER_FRAMES / 60 + 1] = { 0 };
	struct packet p = { .opcode = OPCODE_RC_SEND_ONLY };
	struct pair *pair = pair_new(&config);
	struct ca *ca = &pair->side[0].node->ca;
	unsigned held = 0;

	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_WRITE, .bytes = MTU });
	pair_run(pair);		/* the peer is known to repeat selectively */
	sim_fault_add(pair->sim, SIM_DROP, 1, pair->side[1].node->sent + 2);
	post_wr(pair, 0, (struct pair_wr){ .opcode = IBV_WR_RDMA_READ, .bytes = 50 * MTU });
	while (!ca->counters.held_response)
		assert_true(sim_step(pair->sim));
	assert_int_equal(qp_destroy(pair->side[0].qp), 0);
	for (unsigned q = 0; q < sizeof(queue) / sizeof(queue[0]); q++)
		for (p.psn = 1; p.psn <= 60; p.psn++)
			held += reorder_hold(ca, &queue[q], 0, &p) == REORDER_HELD;
	assert_int_equal(held, REORDER_FRAMES);
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
	f->rtt.wait_ns = ack_timeout_ns(pair->config.timeout);
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

/* Many QPs of one adapter lose a packet at once, more than there are frames for: those without go back. */
static void frames_run_out(void **state)
{
	enum { QPS = 32, PACKETS = 60 };
	uint64_t bits[HELD_WORDS];
	struct pair *pair[1];
	struct sim_link link = { .delay_ns = 1 * WTIME_US };
	struct pair_config config = config_of(&link, true);
	struct reorder queue[QPS] = { 0 };
	struct packet p = { .opcode = OPCODE_RC_SEND_ONLY };
	unsigned held = 0;
	struct ca *ca;

	pair[0] = pair_new(&config);
	ca = &pair[0]->side[1].node->ca;
	for (unsigned q = 0; q < QPS; q++)
		for (p.psn = 1; p.psn <= PACKETS; p.psn++)
			held += reorder_hold(ca, &queue[q], 0, &p) == REORDER_HELD;
	assert_int_equal(held, REORDER_FRAMES);
	p.psn = 1;
	assert_int_equal(reorder_hold(ca, &queue[QPS - 1], 0, &p), REORDER_FULL);
	assert_int_equal(reorder_hold(ca, &queue[0], 0, &p), REORDER_HAD);
	p.psn = REORDER_SPAN;
	assert_int_equal(reorder_hold(ca, &queue[0], 0, &p), REORDER_FULL);
	reorder_forget(ca, &queue[0]);
	p.psn = 1;
	assert_int_equal(reorder_hold(ca, &queue[QPS - 1], 0, &p), REORDER_HELD);
	reorder_bits(&queue[QPS - 1], 0, bits);
	assert_int_equal(bits[0], 2);
	reorder_bits(&queue[QPS - 1], 0xffffff, bits);
	assert_int_equal(bits[0], 4);
	assert_null(reorder_next(ca, &queue[QPS - 1], 0));
	assert_int_equal(reorder_next(ca, &queue[QPS - 1], 1)->psn, 1);
	/* a read passed what one held */
	assert_true(reorder_holds(&queue[1]));
	assert_null(reorder_next(ca, &queue[1], PACKETS + 1));
	assert_false(reorder_holds(&queue[1]));
	for (unsigned q = 0; q < QPS; q++)
		reorder_forget(ca, &queue[q]);
	pair_delete(pair[0]);
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
	struct reorder queue[REORDER_FRAMES / PACKETS + 1] = { 0 };
	struct packet p = { .opcode = OPCODE_RC_SEND_ONLY };
	unsigned held = 0;

	sim_fault_add(pair->sim, SIM_DROP, 0, 2);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = PACKETS * MTU });
	while (!reorder_holds(engine_of(pair->side[1].qp)->responder.reorder))
		assert_true(sim_step(pair->sim));
	assert_int_equal(qp_destroy(pair->side[1].qp), 0);
	for (unsigned q = 0; q < sizeof(queue) / sizeof(queue[0]); q++)
		for (p.psn = 1; p.psn <= PACKETS; p.psn++)
			held += reorder_hold(ca, &queue[q], 0, &p) == REORDER_HELD;
	assert_int_equal(held, REORDER_FRAMES);
	pair_delete(pair);
}

static void count_reads(void *arg, int node, const struct packet *p)
{
	unsigned *reads = arg;

	*reads += node == 0 && p->opcode == OPCODE_RC_RDMA_READ_REQUEST;
}

static void a_read_that_was_held_is_asked_for_once(void **state)
{
	struct sim_link link = { .delay_ns = 20 * WTIME_US, .byte_ns = 1 };
	struct pair_config config = config_of(&link, true);
	struct pair *pair = pair_new(&config);
	const struct counters *counters = &pair->side[0].node->ca.counters;
	struct pair_wr write = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = MTU };
	struct pair_wr read = { .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .flags = IBV_SEND_SIGNALED, .bytes = 50 * MTU };
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
	assert_int_equal(reads, 1);
	assert_int_equal(counters->selective_repeats, 1);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(losses_cost_little),
		cmocka_unit_test(a_loss_stops_nothing_where_the_window_is_a_round_trip),
		cmocka_unit_test(what_arrived_is_not_sent_again),
		cmocka_unit_test(what_was_read_is_not_asked_for_again),
		cmocka_unit_test(reordering_costs_nothing),
		cmocka_unit_test(late_responses_are_waited_for),
		cmocka_unit_test(long_reads_are_asked_for_with_patience),
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
		cmocka_unit_test(what_was_held_may_be_not_ready),
		cmocka_unit_test(frames_run_out),
		cmocka_unit_test(what_is_held_gives_no_retries_back),
		cmocka_unit_test(no_retries_are_none),
		cmocka_unit_test(frames_outlive_their_qp),
		cmocka_unit_test(a_read_that_was_held_is_asked_for_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
