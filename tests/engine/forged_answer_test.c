/* Answers that a well-behaved responder does not give, and those whose meaning is easily lost: what a requester makes of each.
 * The other side hears nothing, so that only what the test injects answers. IBA 9.7.5, 9.7.7, 9.7.8. */
#include "engine_test.h"

#include "ib/answers.h"
#include "ib/engine.h"
#include "ib/pace.h"
#include "wire/aeth.h"
#include "wire/header.h"
#include "wire/packet.h"

enum { PSN = 0xfffffe, THIRD_PSN = 0, MTU = 1024, MSN_EXCHANGE_TELL = 1, MSN_EXCHANGE_HEARD = 2 };

static struct pair *start_with(const struct ib_options *options, bool with_grh)
{
	struct pair_config config = {
		.sim = { .seed = 5 }, .psn = { PSN, 40 }, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
		.with_grh = with_grh,
	};
	struct pair *pair;

	if (options)
		config.options = *options;
	pair = pair_new(&config);
	pair->side[1].node->deaf = true;
	return pair;
}

static struct pair *start(const struct ib_options *options)
{
	return start_with(options, false);
}

/* From the other side; the packet's path and partition are the caller's. */
static void deliver(struct pair *pair, struct packet p)
{
	static uint8_t data[PACKET_MAX_PAYLOAD];
	struct iovec payload = { data, p.payload_bytes };

	memset(data, 0x5a, sizeof(data));
	p.dest_qpn = pair->side[0].qp->qpn;
	p.payload = &payload;
	p.payload_iovs = 1;
	ca_input(&pair->side[0].node->ca, pair->side[0].node->dev, pair->sim->now, 2, &p);
	sim_pump(pair->sim);
}

static void answer(struct pair *pair, struct packet p)
{
	p.pkey = 0xffff;
	p.path = (struct packet_path){ .slid = pair->side[1].node->dev->lid, .dlid = pair->side[0].node->dev->lid };
	deliver(pair, p);
}

static void acknowledge(struct pair *pair, psn_t psn, uint8_t syndrome)
{
	answer(pair, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = psn, .aeth = { syndrome, 0 } });
}

/* Each is the answer to a read of three packets, of 2500 bytes. */
static void responses_of_another_form_end_the_read(void **state)
{
	static const struct { const char *name; uint8_t opcode; uint32_t bytes; enum ibv_wc_status status; } rows[] = {
		{ "a first one that is short", OPCODE_RC_RDMA_READ_RESPONSE_FIRST, MTU - 4, IBV_WC_BAD_RESP_ERR },
		{ "an only one of the right length", OPCODE_RC_RDMA_READ_RESPONSE_ONLY, MTU, IBV_WC_BAD_RESP_ERR },
		{ "a last one of the right length", OPCODE_RC_RDMA_READ_RESPONSE_LAST, MTU, IBV_WC_BAD_RESP_ERR },
		{ "an atomic's", OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0, IBV_WC_BAD_RESP_ERR },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start(NULL);

		print_message("%s\n", rows[i].name);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 2500 });
		answer(pair, (struct packet){ .opcode = rows[i].opcode, .psn = PSN, .payload_bytes = rows[i].bytes });
		expect_sent(pair, 0, 1, rows[i].status);
		assert_int_equal(pair->side[0].memory[0], 0);
		pair_delete(pair);
	}
}

/* Table 46: each code has its status. */
static void each_nak_has_its_status(void **state)
{
	static const enum ibv_wc_status status[] = {
		[NAK_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR, [NAK_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[NAK_REMOTE_OPERATIONAL] = IBV_WC_REM_OP_ERR, [NAK_INVALID_RD_REQUEST] = IBV_WC_REM_INV_RD_REQ_ERR,
	};

	(void)state;
	for (unsigned code = NAK_INVALID_REQUEST; code < NAK_CODES; code++) {
		struct pair *pair = start(NULL);

		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
		acknowledge(pair, PSN, aeth_syndrome(AETH_NAK, code));
		expect_sent(pair, 0, 1, status[code]);
		pair_delete(pair);
	}
}

/* A RNR NAK acknowledges what was before it, not what it refuses; and what is acknowledged was sent and is not yet. */
static void answers_acknowledge_what_they_say(void **state)
{
	struct pair *pair = start(NULL);

	(void)state;
	for (uint64_t id = 0; id < 3; id++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
	acknowledge(pair, psn_add(PSN, -1), aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	acknowledge(pair, psn_add(PSN, -500), aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	acknowledge(pair, psn_add(PSN, -500), aeth_syndrome(AETH_NAK, NAK_REMOTE_ACCESS));
	acknowledge(pair, psn_add(PSN, 3), aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	acknowledge(pair, PSN, 0x80);
	expect_nothing(pair, 0);
	acknowledge(pair, psn_add(PSN, 1), aeth_syndrome(AETH_RNR_NAK, 1));
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	expect_nothing(pair, 0);
	pair_delete(pair);
}

/* rdma_rxe answers packets behind one that it is not ready for with a sequence NAK, once, behind its RNR NAK. It comes when all
 * was sent again. */
static void a_receiver_that_stays_unready_costs_no_retries(void **state)
{
	struct pair *pair = start(NULL);

	(void)state;
	for (uint64_t id = 0; id < 2; id++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = id, .opcode = IBV_WR_SEND, .bytes = 1 });
	for (unsigned round = 0; round < 50; round++) {
		acknowledge(pair, PSN, aeth_syndrome(AETH_RNR_NAK, 1));
		sim_run(pair->sim, pair->sim->now + 20 * WTIME_US);	/* the RNR timer is of 10 us */
		acknowledge(pair, PSN, aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE));
		expect_nothing(pair, 0);
	}
	assert_int_equal(pair->side[0].node->ca.counters.rcvd_rnr_err, 50);
	acknowledge(pair, psn_add(PSN, 1), aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	for (uint64_t id = 0; id < 2; id++)
		expect_sent(pair, 0, id, IBV_WC_SUCCESS);
	pair_delete(pair);
}

static struct packet ack_over(const struct pair *pair, uint16_t pkey)
{
	struct packet p = { .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = PSN, .pkey = pkey,
			    .aeth = { aeth_syndrome(AETH_ACK, AETH_NO_CREDITS), 0 } };

	p.path = (struct packet_path){ .slid = pair->side[1].node->dev->lid, .dlid = pair->side[0].node->dev->lid };
	return p;
}

/* IBA 10.9.3: of two members of a partition one at least is a full one. */
static void limited_members_do_not_talk_to_each_other(void **state)
{
	static const struct { uint16_t ours, theirs; bool match; } rows[] = {
		{ 0x7fff, 0x7fff, false }, { 0x7fff, 0x8001, false }, { 0xffff, 0x8001, false },
		{ 0xffff, 0x7fff, true }, { 0x7fff, 0xffff, true }, { 0xffff, 0xffff, true },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start(NULL);
		struct cqe cqe;

		pair->side[0].node->dev->pkey[0] = rows[i].ours;
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
		deliver(pair, ack_over(pair, rows[i].theirs));
		assert_int_equal(pair_poll_send(pair, 0, &cqe), rows[i].match);
		pair_delete(pair);
	}
}

/* IBA 9.6.1.4.1: a global path is known by both GIDs, and by that there are any. The peer is heard once before: what comes from
 * where it is is then its own, so that only the path tells the packets apart. */
static void global_paths_are_known_by_their_gids(void **state)
{
	(void)state;
	for (int fault = 0; fault < 4; fault++) {
		struct pair *pair = start_with(NULL, true);
		struct packet p = ack_over(pair, 0xffff);
		struct cqe cqe;

		p.path.has_grh = true;
		memcpy(p.path.sgid, pair->side[1].node->dev->gid[0].raw, 16);
		memcpy(p.path.dgid, pair->side[0].node->dev->gid[0].raw, 16);
		for (uint64_t id = 1; id <= 2; id++)
			post_wr(pair, 0, (struct pair_wr){ .wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
		deliver(pair, p);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		p.psn = psn_add(p.psn, 1);
		p.path.has_grh = fault != 1;
		p.path.sgid[15] ^= fault == 2;
		p.path.dgid[15] ^= fault == 3;
		deliver(pair, p);
		assert_int_equal(pair_poll_send(pair, 0, &cqe), fault == 0);
		pair_delete(pair);
	}
}

/* IBA 10.3.1.5: the send queue is drained when the last answer is there, and the program is told once. */
static void drained_means_answered(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct pair *pair = start(NULL);

	(void)state;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
	assert_int_equal(qp_modify(pair->side[0].qp, pair->sim->now, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), 0);
	acknowledge(pair, PSN, aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_SQ_DRAINED), 1);
	pair_delete(pair);
}

/* What follows a lost response tells of the loss once: the read is asked for again, and then its answer is awaited. */
static void a_lost_response_is_asked_for_once(void **state)
{
	struct pair *pair = start(NULL);
	uint64_t again;

	(void)state;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 3 * MTU });
	for (int i = 1; i < 3; i++)
		answer(pair, (struct packet){ .psn = psn_add(PSN, i), .payload_bytes = MTU,
			.opcode = i == 1 ? OPCODE_RC_RDMA_READ_RESPONSE_MIDDLE : OPCODE_RC_RDMA_READ_RESPONSE_LAST });
	again = pair->side[0].node->ca.counters.completer_retry_err;
	assert_int_equal(again, 1);
	pair_delete(pair);
}

/* What is asked for again begins where the answer broke off. */
static void a_read_goes_on_where_it_broke_off(void **state)
{
	struct pair *pair = start(NULL);
	const struct flight *f = &engine_of(pair->side[0].qp)->flight;

	(void)state;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 3 * MTU });
	answer(pair, (struct packet){ .psn = PSN, .payload_bytes = MTU, .opcode = OPCODE_RC_RDMA_READ_RESPONSE_FIRST });
	assert_int_equal(flight_at(f, f->oldest)->packet, 1);
	assert_int_equal(flight_at(f, f->oldest)->span, 2);
	pair_delete(pair);
}

static struct ib_options exchanging(void)
{
	struct ib_options options = ib_default_options;

	options.profile = IB_SEED;
	options.exchange_start = true;
	return options;
}

/* Seed profile: the answer to another number than ours is not ours. */
static void only_our_own_starting_msn_opens(void **state)
{
	struct ib_options options = exchanging();
	struct pair *pair = start(&options);
	const struct flight *f = &engine_of(pair->side[0].qp)->flight;
	uint8_t heard = aeth_syndrome(AETH_RESERVED, MSN_EXCHANGE_HEARD);

	(void)state;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
	assert_int_equal(f->phase, FLIGHT_AWAITING_MSN);
	answer(pair, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = PSN,
				      .aeth = { heard, psn_add(f->start_msn, 1) } });
	assert_int_equal(f->phase, FLIGHT_AWAITING_MSN);
	answer(pair, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = PSN, .aeth = { heard, f->start_msn } });
	assert_int_equal(f->phase, FLIGHT_OPEN);
	pair_delete(pair);
}

/* Once requests have come, their number stands. */
static void a_starting_msn_that_comes_late_changes_nothing(void **state)
{
	struct ib_options options = exchanging();
	struct pair *pair = start(&options);
	const struct responder *r = &engine_of(pair->side[0].qp)->responder;
	uint8_t tell = aeth_syndrome(AETH_RESERVED, MSN_EXCHANGE_TELL);
	psn_t msn;

	(void)state;
	answer(pair, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = psn_add(r->psn, 1), .aeth = { tell, 999 } });
	assert_int_not_equal(r->start_msn, 999);
	answer(pair, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = r->psn, .aeth = { tell, 1000 } });
	assert_int_equal(r->start_msn, 1000);
	answer(pair, (struct packet){ .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .psn = r->psn,
				      .reth = { PAIR_IOVA, pair->side[0].mr->key, 1 }, .payload_bytes = 1 });
	msn = r->msn;
	answer(pair, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = r->psn, .aeth = { tell, 2000 } });
	assert_int_equal(r->start_msn, 1000);
	assert_int_equal(r->msn, msn);
	pair_delete(pair);
}

/* How many packets leave when this PSN and all before it are acknowledged. */
static unsigned sent_at(struct pair *pair, psn_t psn)
{
	const struct counters *c = &pair->side[0].node->ca.counters;
	uint64_t before = c->sent_pkts;

	acknowledge(pair, psn, aeth_syndrome(AETH_ACK, AETH_NO_CREDITS));
	return (unsigned)(c->sent_pkts - before);
}

/* To another host a burst costs as much as a packet, so it is not cut to pieces by the room that answers happen to make. */
static void room_for_a_few_packets_is_kept_for_a_burst(void **state)
{
	for (unsigned is_network = 0; is_network <= 1; is_network++) {
		struct pair_config config = {
			.sim = { .seed = 5, .is_network = is_network }, .psn = { PSN, 40 }, .timeout = 14, .retry_cnt = 7,
			.memory_bytes = 256 << 10, .options = ib_default_options,
		};
		struct pair *pair;

		config.options.congestion_control = false;
		pair = pair_new(&config);
		pair->side[1].node->deaf = true;
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 90 * MTU });
		assert_int_equal(pair->side[0].node->ca.counters.sent_pkts, IB_WINDOW);
		assert_int_equal(sent_at(pair, psn_add(PSN, 13)), is_network ? 0 : 14);	/* 14 have arrived */
		assert_int_equal(sent_at(pair, psn_add(PSN, 14)), is_network ? 15 : 1);
		assert_int_equal(sent_at(pair, psn_add(PSN, 15)), is_network ? 0 : 1);
		assert_int_equal(sent_at(pair, psn_add(PSN, 26)), is_network ? 11 : 10);	/* all that is left */
		assert_int_equal(sent_at(pair, psn_add(PSN, 89)), 0);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		pair_delete(pair);
	}
}

/* From a peer that repeats selectively: it expects `psn`, and holds what `held` says of those from there on. */
static void hold(struct pair *pair, psn_t psn, uint64_t held)
{
	answer(pair, (struct packet){ .opcode = OPCODE_WEFT_SELECTIVE_ACK, .psn = psn_add(psn, -1), .resv.bth7 = BTH_SELECTIVE,
				      .aeth = { aeth_syndrome(AETH_ACK, AETH_NO_CREDITS), 0 }, .heldeth.held = { held } });
}

/* A READ stands before packets that the peer says to hold, and then that it lost: fewer have arrived than before, and what holds
 * the QP back counts no arrivals that there were not. */
static void who_takes_back_what_it_held_ends_nobody(void **state)
{
	struct pair_config config = {
		.sim = { .seed = 5, .is_network = true }, .psn = { PSN, 40 }, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	};
	struct pair *pair = pair_new(&config);
	const struct congestion *c;

	(void)state;
	pair->side[1].node->deaf = true;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 1 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 12 * MTU });
	hold(pair, PSN, 0xe);
	c = pace_out(pair->side[0].qp);
	assert_non_null(c);
	acknowledge(pair, psn_add(PSN, 2), aeth_syndrome(AETH_RNR_NAK, 31));
	acknowledge(pair, psn_add(PSN, 3), aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE));
	assert_int_equal(c->arrived, 0);
	assert_int_equal(c->lost, 1);
	hold(pair, PSN, 0x12);
	expect_nothing(pair, 0);
	pair_delete(pair);
}

/* It would stay when the READ and the WRITE are answered, and stand for a later response of the same place. */
static void a_response_to_a_write_is_not_kept(void **state)
{
	static const struct { psn_t psn; unsigned kept; } rows[] = { { PSN + 1, 0 }, { THIRD_PSN, 1 } };
	struct pair *pair = start(NULL);

	(void)state;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 1 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_READ, .bytes = 1 });
	hold(pair, PSN, 0);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		answer(pair, (struct packet){ .opcode = OPCODE_RC_RDMA_READ_RESPONSE_ONLY, .psn = rows[i].psn, .payload_bytes = 1,
					      .resv.bth7 = BTH_SELECTIVE });
		assert_int_equal(engine_of(pair->side[0].qp)->flight.answers->early.count, rows[i].kept);
	}
	expect_nothing(pair, 0);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room_for_a_few_packets_is_kept_for_a_burst),
		cmocka_unit_test(responses_of_another_form_end_the_read),
		cmocka_unit_test(each_nak_has_its_status),
		cmocka_unit_test(answers_acknowledge_what_they_say),
		cmocka_unit_test(a_receiver_that_stays_unready_costs_no_retries),
		cmocka_unit_test(limited_members_do_not_talk_to_each_other),
		cmocka_unit_test(global_paths_are_known_by_their_gids),
		cmocka_unit_test(drained_means_answered),
		cmocka_unit_test(a_lost_response_is_asked_for_once),
		cmocka_unit_test(a_read_goes_on_where_it_broke_off),
		cmocka_unit_test(a_response_to_a_write_is_not_kept),
		cmocka_unit_test(who_takes_back_what_it_held_ends_nobody),
		cmocka_unit_test(only_our_own_starting_msn_opens),
		cmocka_unit_test(a_starting_msn_that_comes_late_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
