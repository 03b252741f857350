/* The acknowledgement profiles: vectors 10.1, 10.2 and 10.3, MSN-08 to MSN-37, MSN-47. Messages of 3, 6 and 2 packets go
 * from node 0 to node 1, which starts at PSN 1. */
#include "engine_test.h"

#include "ib/engine.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#include <errno.h>

enum { MTU = 256, TAPPED = 64 };

static const uint32_t packets[3] = { 3, 6, 2 };

/* What node 1 answered, and what node 0 asked, in order. */
struct tape {
	struct { psn_t psn; uint32_t msn; uint8_t syndrome; } ack[TAPPED];
	unsigned acks;
	struct { psn_t psn; bool is_last; } request[TAPPED];
	unsigned requests;
	unsigned outstanding, most_outstanding;
};

static void tap(void *arg, int node, const struct packet *p)
{
	const struct opcode_row *row = opcode_row(p->opcode);
	struct tape *tape = arg;

	if (node == 1 && tape->acks < TAPPED) {
		tape->ack[tape->acks].psn = p->psn;
		tape->ack[tape->acks].msn = p->aeth.msn;
		tape->ack[tape->acks++].syndrome = p->aeth.syndrome;
	} else if (node == 0 && tape->requests < TAPPED) {
		tape->request[tape->requests].psn = p->psn;
		tape->request[tape->requests++].is_last = row->position == POS_LAST || row->position == POS_ONLY;
	}
	if (node == 0 && ++tape->outstanding > tape->most_outstanding)
		tape->most_outstanding = tape->outstanding;
	if (node == 1)
		tape->outstanding = 0;
}

static struct pair *start(struct tape *tape, const struct ib_options *options)
{
	struct pair_config config = {
		.sim = { .seed = 1, .link = { .delay_ns = 1000 } }, .mtu = IBV_MTU_256, .psn = { 1, 100 },
		.timeout = 6, .retry_cnt = 2, .rnr_retry = 7, .options = *options,
	};
	struct pair *pair = pair_new(&config);

	*tape = (struct tape){ 0 };
	pair->sim->tap = tap;
	pair->sim->tap_arg = tape;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pair_recv(pair, 1, i, 8192 + i * 2048, 2048), 0);
	return pair;
}

/* Message i of the vector; all three at once. */
static void post(struct pair *pair, unsigned i)
{
	struct pair_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND, .bytes = packets[i] * MTU, .local = i * 2048 };

	post_wr(pair, 0, wr);
}

static void post_all(struct pair *pair)
{
	for (unsigned i = 0; i < 3; i++)
		post(pair, i);
}

static void expect_all_sent(struct pair *pair)
{
	for (unsigned i = 0; i < 3; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(expect_received(pair, 1, i, IBV_WC_SUCCESS).byte_len, packets[i] * MTU);
	expect_nothing(pair, 0);
}

static struct ib_options options_of(enum ib_profile profile, enum ib_ack_mode mode, uint32_t start_msn)
{
	return (struct ib_options){
		.profile = profile, .ack_mode = mode, .window_pkts = 64, .ack_every = 3, .start_msn = start_msn,
		.selective_repeat = profile == IB_STANDARD,
	};
}

/* 10.1: an ACK for each packet. */
static void expect_acks(enum ib_profile profile, uint32_t start_msn, const uint32_t msn[11])
{
	struct ib_options options = options_of(profile, IB_ACK_PER_PACKET, start_msn);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	post_all(pair);
	pair_run(pair);
	assert_int_equal(tape.acks, 11);
	for (unsigned i = 0; i < 11; i++) {
		assert_int_equal(tape.ack[i].psn, i + 1);
		assert_int_equal(tape.ack[i].msn, msn[i]);
		assert_int_equal(aeth_kind(tape.ack[i].syndrome), AETH_ACK);
	}
	for (unsigned i = 0; i < 11; i++)	/* MSN-02, MSN-03 */
		assert_int_equal(tape.request[i].is_last, i == 2 || i == 8 || i == 10);
	expect_all_sent(pair);
	pair_delete(pair);
}

static void vector_10_1_seed(void **state)
{
	static const uint32_t msn[11] = { 0xffffff, 0xffffff, 0, 0, 0, 0, 0, 0, 1, 1, 2 };

	expect_acks(IB_SEED, 0, msn);
}

static void vector_10_1_standard(void **state)
{
	static const uint32_t msn[11] = { 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 3 };

	expect_acks(IB_STANDARD, 0, msn);
}

static void start_msn_wraps(void **state)
{
	static const uint32_t msn[11] = {
		0xfffffd, 0xfffffd, 0xfffffe, 0xfffffe, 0xfffffe, 0xfffffe, 0xfffffe, 0xfffffe, 0xffffff, 0xffffff, 0,
	};

	expect_acks(IB_SEED, 0xfffffe, msn);
}

static void vector_10_2_message_ends(void **state)
{
	static const psn_t psn[3] = { 3, 9, 11 };
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	post_all(pair);
	pair_run(pair);
	assert_int_equal(tape.acks, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(tape.ack[i].psn, psn[i]);
		assert_int_equal(tape.ack[i].msn, i);
	}
	expect_all_sent(pair);
	pair_delete(pair);
}

/* MSN-21: every third packet, and where AckReq forces one. The completions are the same. */
static void coalesced(void **state)
{
	static const psn_t psn[4] = { 3, 6, 9, 11 };
	struct ib_options options = options_of(IB_SEED, IB_ACK_COALESCED, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	post_all(pair);
	pair_run(pair);
	assert_int_equal(tape.acks, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(tape.ack[i].psn, psn[i]);
	expect_all_sent(pair);
	pair_delete(pair);
}

/* Feeds ACKs for PSN 1 to 11 with these MSNs; message k must be complete at PSN ends[k], and not before. */
static void feed_acks(const struct ib_options *options, const uint32_t msn[11], const psn_t ends[3])
{
	struct tape tape;
	struct pair *pair = start(&tape, options);
	struct qp *qp = pair->side[0].qp;
	unsigned completed = 0;
	struct cqe cqe;

	pair->side[1].node->deaf = true;
	post_all(pair);
	for (psn_t psn = 1; psn <= 11; psn++) {
		struct packet ack = { .opcode = OPCODE_RC_ACKNOWLEDGE, .dest_qpn = qp->qpn, .pkey = 0xffff, .psn = psn,
				      .path = { .slid = 2, .dlid = 1 }, .aeth = { aeth_syndrome(AETH_ACK, 31), msn[psn - 1] } };

		ca_input(qp->ca, qp->dev, pair->sim->now, qp->attr.dest_qp_num >> 20, &ack);
		while (pair_poll_send(pair, 0, &cqe))
			assert_int_equal(cqe.wr_id, completed++);
		assert_int_equal(completed, (psn >= ends[0]) + (psn >= ends[1]) + (psn >= ends[2]));
	}
	pair_delete(pair);
}

static const psn_t message_ends[3] = { 3, 9, 11 };

/* MSN-16: the ACKs of 10.1, fed by hand, complete messages at exactly three of them. Where the MSN moves one ACK later, so do the
 * completions, whatever the PSN says. */
static void completion_is_the_change_of_the_msn(void **state)
{
	static const uint32_t msn[11] = { 0xffffff, 0xffffff, 0, 0, 0, 0, 0, 0, 1, 1, 2 };
	static const uint32_t later[11] = { 0xffffff, 0xffffff, 0xffffff, 0, 0, 0, 0, 0, 0, 1, 1 };
	struct ib_options options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0);

	feed_acks(&options, msn, message_ends);
	feed_acks(&options, later, (psn_t[3]){ 4, 10, 12 });
}

/* MSN-36: stop and wait, a sliding window and coalesced ACKs complete by the MSN alike: of a responder that counts one message
 * too few the last message never completes, though each of its packets was acknowledged. */
static void every_method_completes_by_the_msn(void **state)
{
	static const struct { uint16_t window; enum ib_ack_mode mode; unsigned completed; } row[] = {
		{ 1, IB_ACK_PER_PACKET, 0 }, { 16, IB_ACK_PER_PACKET, 2 }, { 64, IB_ACK_COALESCED, 2 },
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ib_options options = options_of(IB_SEED, row[i].mode, 0);
		struct responder *responder;
		struct tape tape;
		struct pair *pair;

		options.window_pkts = row[i].window;
		pair = start(&tape, &options);
		responder = &engine_of(pair->side[1].qp)->responder;
		responder->msn = psn_add(responder->msn, -1);
		post_all(pair);
		pair_run(pair);
		for (unsigned k = 0; k < row[i].completed; k++)
			expect_sent(pair, 0, k, IBV_WC_SUCCESS);
		expect_sent(pair, 0, row[i].completed, IBV_WC_RETRY_EXC_ERR);
		pair_delete(pair);
	}
}

/* Table 1 as printed names the message under way. Taken for the change of the MSN it completes messages too early;
 * the dialect takes the PSN of the last packet. */
static void printed_table_is_read_by_psn(void **state)
{
	static const uint32_t printed[11] = { 0xffffff, 0xffffff, 0, 1, 1, 1, 1, 1, 1, 2, 2 };
	struct ib_options options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0);

	feed_acks(&options, printed, (psn_t[3]){ 3, 4, 10 });
	options.completion = IB_COMPLETE_BY_PSN;
	feed_acks(&options, printed, message_ends);
}

/* MSN-18: with the book no ACK makes the adapter read a descriptor; without it each one does. */
static void no_ack_reads_a_descriptor(void **state)
{
	static const enum ib_completion ways[] = { IB_COMPLETE_BY_MSN, IB_COMPLETE_BY_PSN, IB_COMPLETE_BY_WQE };

	for (unsigned i = 0; i < 3; i++) {
		struct ib_options options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0);
		struct tape tape;
		struct pair *pair;

		options.completion = ways[i];
		pair = start(&tape, &options);
		post_all(pair);
		pair_run(pair);
		assert_int_equal(tape.acks, 11);
		assert_int_equal(pair->side[0].node->ca.counters.ack_wqe_reads, ways[i] == IB_COMPLETE_BY_WQE ? 11 : 0);
		expect_all_sent(pair);
		pair_delete(pair);
	}
}

/* MSN-18: what descriptors say once their packets have left decides nothing. */
static void descriptors_are_not_asked_when_acks_come(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);
	const struct wq *sq = &pair->side[0].qp->sq;

	post_all(pair);
	assert_int_equal(tape.requests, 11);
	for (uint32_t i = 0; i < 3; i++) {
		struct send_wqe *wqe = wq_copy_at(&sq->engine, wq_position(&sq->engine, i));
		struct send_wqe kept = { .wr_id = wqe->wr_id, .opcode = wqe->opcode, .flags = wqe->flags };

		memset(wqe, 0xff, sq->engine.ring.stride);
		*wqe = kept;
	}
	pair_run(pair);
	for (unsigned i = 0; i < 3; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	expect_nothing(pair, 0);
	pair_delete(pair);
}

/* MSN-23 */
static void coalescing_needs_an_ordered_link(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_COALESCED, 0);
	struct pair_config config = { .sim = { .seed = 1, .link = { .delay_ns = 1000, .reorder = 1000 } } };
	struct pair *pair = pair_new(&config);
	struct qp *qp = pair->side[0].qp;
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	assert_int_equal(qp_modify(qp, pair->sim->now, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ib_set_options(qp, &options), -EOPNOTSUPP);
	options.ack_mode = IB_ACK_PER_PACKET;
	assert_int_equal(ib_set_options(qp, &options), 0);
	pair_delete(pair);
}

/* MSN-17, MSN-18: the MSN alone completes, whatever the PSN says. */
static void msn_that_moved_by_d_completes_d(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);
	struct qp *qp = pair->side[0].qp;
	struct packet ack = { .opcode = OPCODE_RC_ACKNOWLEDGE, .dest_qpn = qp->qpn, .pkey = 0xffff, .psn = 1,
			      .path = { .slid = 2, .dlid = 1 }, .aeth = { aeth_syndrome(AETH_ACK, 31), 1 } };

	pair->side[1].node->deaf = true;
	post_all(pair);
	ca_input(qp->ca, qp->dev, pair->sim->now, qp->attr.dest_qp_num >> 20, &ack);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_nothing(pair, 0);
	pair_delete(pair);
}

/* 10.3: PSN 2 is lost. One NAK with the last good PSN, go-back, then ACK(3, 0). */
static void vector_10_3_lost_packet(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	sim_fault_add(pair->sim, SIM_DROP, 0, 1);
	post_all(pair);
	pair_run(pair);
	assert_int_equal(tape.acks, 4);
	assert_int_equal(tape.ack[0].syndrome, aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE));
	assert_int_equal(tape.ack[0].psn, 1);
	assert_int_equal(tape.ack[0].msn, 0xffffff);
	assert_int_equal(tape.requests, 11 + 10);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(tape.request[11 + i].psn, i + 2);
	assert_int_equal(tape.ack[1].psn, 3);
	assert_int_equal(tape.ack[1].msn, 0);
	expect_all_sent(pair);
	pair_delete(pair);
}

static void first_packet_lost(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	sim_fault_add(pair->sim, SIM_DROP, 0, 0);
	post_all(pair);
	pair_run(pair);
	assert_int_equal(tape.ack[0].psn, 0);	/* MSN-26: the starting PSN minus one */
	assert_int_equal(tape.ack[0].msn, 0xffffff);
	expect_all_sent(pair);
	pair_delete(pair);
}

/* the standard's NAK names the expected PSN. */
static void standard_nak_names_the_expected(void **state)
{
	struct ib_options options = options_of(IB_STANDARD, IB_ACK_ON_REQUEST, 0);
	struct tape tape;
	struct pair *pair;

	options.selective_repeat = false;
	pair = start(&tape, &options);
	sim_fault_add(pair->sim, SIM_DROP, 0, 1);
	post_all(pair);
	pair_run(pair);
	assert_int_equal(tape.ack[0].psn, 2);
	assert_int_equal(tape.ack[0].msn, 0);
	assert_int_equal(tape.requests, 11 + 10);
	expect_all_sent(pair);
	pair_delete(pair);
}

/* 10.3, MSN-30, MSN-31: ACK(3, 0) is lost, ACK(9, 1) completes two messages. */
static void lost_ack_is_implied(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	sim_fault_add(pair->sim, SIM_DROP, 1, 0);
	post_all(pair);
	while (pair->side[0].send_cq->engine.tail == 0)
		assert_true(sim_step(pair->sim));
	assert_int_equal(pair->side[0].send_cq->engine.tail, 2);
	pair_run(pair);
	assert_int_equal(tape.acks, 3);
	assert_int_equal(tape.requests, 11);
	expect_all_sent(pair);
	pair_delete(pair);
}

/* MSN-32: only the newest is reported; the credits of all come back with it. */
static void report_last_only(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair;

	options.report_last_only = true;
	pair = start(&tape, &options);
	sim_fault_add(pair->sim, SIM_DROP, 1, 0);
	post_all(pair);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	assert_false(pair_poll_send(pair, 0, &(struct cqe){ 0 }));
	assert_int_equal(pair->side[0].qp->sq.ulp.credits, pair->side[0].qp->sq.engine.ring.capacity);
	pair_delete(pair);
}

/* MSN-33 */
static void duplicate_is_acknowledged_and_not_executed(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	sim_fault_add(pair->sim, SIM_DUPLICATE, 0, 10);
	post_all(pair);
	pair_run(pair);
	assert_int_equal(tape.acks, 4);
	assert_int_equal(tape.ack[3].psn, 11);
	assert_int_equal(tape.ack[3].msn, 2);
	expect_all_sent(pair);
	pair_delete(pair);
}

/* MSN-33: the last packet comes once more when all is done. Its bytes, which differ, are not placed, and no receive is used. */
static void a_late_duplicate_changes_nothing(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);
	static uint8_t other[MTU] = { 0xee };
	struct packet late = { .opcode = OPCODE_RC_SEND_LAST, .dest_qpn = pair->side[1].qp->qpn, .pkey = 0xffff, .psn = 11,
			       .path = { .slid = 1, .dlid = 2 }, .ack_requested = true,
			       .payload = &(struct iovec){ other, MTU }, .payload_iovs = 1, .payload_bytes = MTU };
	uint8_t *memory = pair->side[1].memory + 8192 + 2 * 2048;

	pattern_fill(pair->side[0].memory + 2 * 2048, 2 * MTU, 5);
	post_all(pair);
	pair_run(pair);
	expect_all_sent(pair);
	assert_int_equal(pair_recv(pair, 1, 9, 8192 + 2 * 2048, 2048), 0);
	ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &late);
	sim_pump(pair->sim);
	pair_run(pair);
	assert_true(pattern_holds(memory, 2 * MTU, 5));
	expect_nothing(pair, 1);
	assert_int_equal(tape.acks, 4);
	assert_int_equal(tape.ack[3].psn, 11);
	assert_int_equal(tape.ack[3].msn, 2);
	pair_delete(pair);
}

/* MSN-28: one NAK however many follow the gap. MSN-29: it acknowledges what came before. */
static void one_nak_per_gap(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	sim_fault_add(pair->sim, SIM_DROP, 0, 5);	/* PSN 6 */
	sim_fault_add(pair->sim, SIM_DROP, 1, 0);	/* ACK(3, 0) */
	post_all(pair);
	sim_run(pair->sim, pair->sim->now + 2500);
	expect_sent(pair, 0, 0, IBV_WC_SUCCESS);
	assert_int_equal(tape.acks, 2);
	assert_int_equal(tape.ack[1].psn, 5);
	assert_int_equal(tape.ack[1].msn, 0);
	pair_run(pair);
	assert_int_equal(tape.acks, 4);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* MSN-34, MSN-36: one packet at a time, in both profiles; a lost ACK means the packet is sent again after the time. */
static void stop_and_wait(void **state)
{
	for (int profile = IB_STANDARD; profile <= IB_SEED; profile++) {
		struct ib_options options = options_of((enum ib_profile)profile, IB_ACK_ON_REQUEST, 0);
		struct tape tape;
		struct pair *pair;

		options.window_pkts = 1;
		pair = start(&tape, &options);
		sim_fault_add(pair->sim, SIM_DROP, 1, 4);
		post_all(pair);
		pair_run(pair);
		assert_int_equal(tape.most_outstanding, 1);
		assert_int_equal(tape.requests, 12);
		assert_int_equal(tape.request[5].psn, 5);
		assert_true(pair->sim->now > 2 * 11 * 1000 + 200 * WTIME_US);	/* rtt.c's least wait */
		expect_all_sent(pair);
		pair_delete(pair);
	}
}

/* MSN-35: never more than the window; more window, less time. */
static void sliding_window(void **state)
{
	wtime before = WTIME_NEVER;

	for (uint16_t window = 2; window <= 16; window *= 2) {
		struct ib_options options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0);
		struct tape tape;
		struct pair *pair;

		options.window_pkts = window;
		pair = start(&tape, &options);
		post_all(pair);
		pair_run(pair);
		assert_true(tape.most_outstanding <= window);
		assert_true(pair->sim->now < before);
		before = pair->sim->now;
		expect_all_sent(pair);
		pair_delete(pair);
	}
}

/* MSN-37: a lost tail is repaired by the timer; a peer that is gone ends in errors and flushes. */
static void tail_loss(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_MESSAGE_END, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);

	sim_fault_add(pair->sim, SIM_DROP, 0, 10);
	post_all(pair);
	pair_run(pair);
	expect_all_sent(pair);
	pair->side[1].node->deaf = true;
	post(pair, 0);
	post(pair, 1);
	pair_run(pair);
	expect_sent(pair, 0, 0, IBV_WC_RETRY_EXC_ERR);
	expect_sent(pair, 0, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_ERR);
	pair_delete(pair);
}

/* MSN-42, third way: each side's requester draws a number, and the other side's responder holds the same afterwards. Loss,
 * doubling and reordering of the exchange change nothing. */
static void adapters_exchange_the_starting_msn(void **state)
{
	for (int fault = -1; fault < 4 * SIM_FAULT_KINDS; fault++) {
		struct ib_options options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0);
		struct tape tape;
		struct pair *pair;

		options.exchange_start = true;
		pair = start(&tape, &options);
		if (fault >= 0)
			sim_fault_add(pair->sim, (enum sim_fault_kind)(fault / 4), fault & 1, (uint32_t)fault / 2 % 2);
		post_all(pair);
		pair_run(pair);
		expect_all_sent(pair);
		assert_int_equal(pair_recv(pair, 0, 9, 0, 2048), 0);
		post_wr(pair, 1, (struct pair_wr){ .wr_id = 9, .opcode = IBV_WR_SEND, .bytes = 1 });
		pair_run(pair);
		expect_sent(pair, 1, 9, IBV_WC_SUCCESS);
		for (int i = 0; i < 2; i++) {
			const struct engine *from = engine_of(pair->side[i].qp), *to = engine_of(pair->side[!i].qp);

			assert_int_equal(from->flight.start_msn, to->responder.start_msn);
			assert_int_equal(to->responder.msn, psn_add(from->flight.start_msn, i == 0 ? 2 : 0));
			assert_int_equal(from->flight.msn, to->responder.msn);
		}
		assert_int_not_equal(engine_of(pair->side[0].qp)->flight.start_msn,
				     engine_of(pair->side[1].qp)->flight.start_msn);
		pair_delete(pair);
	}
}

/* A peer that does not take part, or is gone, is found out like any other silence. */
static void exchange_with_nobody_fails(void **state)
{
	struct ib_options options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0);
	struct tape tape;
	struct pair *pair;

	options.exchange_start = true;
	pair = start(&tape, &options);
	pair->side[1].node->deaf = true;
	post(pair, 0);
	pair_run(pair);
	assert_int_equal(tape.requests, 3);
	expect_sent(pair, 0, 0, IBV_WC_RETRY_EXC_ERR);
	pair_delete(pair);
}

/* SAN-31: an acknowledgement of the process waits for its consumer, one of the end point does not. */
static void process_level_waits_for_the_consumer(void **state)
{
	for (int level = 0; level < 2; level++) {
		struct ib_options options = options_of(IB_STANDARD, IB_ACK_ON_REQUEST, 0);
		struct tape tape;
		struct pair *pair;

		options.ack_when_consumed = level;
		pair = start(&tape, &options);
		post_all(pair);
		sim_run(pair->sim, pair->sim->now + 100000);
		assert_int_equal(tape.acks > 0, !level);
		for (unsigned i = 0; i < 3; i++)
			expect_received(pair, 1, i, IBV_WC_SUCCESS);
		sim_pump(pair->sim);
		sim_run(pair->sim, pair->sim->now + 100000);
		assert_int_equal(tape.ack[tape.acks - 1].psn, 11);
		assert_int_equal(tape.requests, 11);
		for (unsigned i = 0; i < 3; i++)
			expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		pair_delete(pair);
	}
}

/* MSN-43: every frame finds its own way through a datagram network that loses, doubles, reorders and spoils them. */
static void stop_and_wait_over_a_datagram_network(void **state)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct pair_config config = {
			.sim = { .seed = seed, .form = seed & 1 ? PACKET_ROCE : PACKET_IB,
				 .link = { .delay_ns = 1000, .loss = 50000, .duplicate = 50000, .corrupt = 20000,
					   .reorder = 50000, .reorder_ns = 5000 } },
			.mtu = IBV_MTU_256, .psn = { 1, 100 }, .timeout = 6, .retry_cnt = 7, .rnr_retry = 7,
			.options = options_of(IB_SEED, IB_ACK_PER_PACKET, 0),
		};
		struct pair_wr wr = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 10 * 256 };
		struct pair *pair;

		config.options.window_pkts = 1;
		pair = pair_new(&config);
		pattern_fill(pair->side[0].memory, 10 * 256, 7);
		print_message("seed %llu\n", (unsigned long long)seed);
		post_wr(pair, 0, wr);
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[1].memory, 10 * 256, 7));
		pair_delete(pair);
	}
}

/* MSN-44: a packet of the connection before is not accepted. */
static void old_packets_are_not_accepted(void **state)
{
	struct ib_options options = options_of(IB_STANDARD, IB_ACK_ON_REQUEST, 0);
	struct tape tape;
	struct pair *pair = start(&tape, &options);
	struct packet old = { .opcode = OPCODE_RC_SEND_ONLY, .dest_qpn = pair->side[1].qp->qpn, .pkey = 0xffff,
			      .psn = psn_add(1, -500), .path = { .slid = 1, .dlid = 2 },
			      .payload = &(struct iovec){ "x", 1 }, .payload_iovs = 1, .payload_bytes = 1 };

	ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &old);
	expect_nothing(pair, 1);
	post_all(pair);
	pair_run(pair);
	expect_all_sent(pair);
	pair_delete(pair);
}

/* The frames of a connection. */
struct recording {
	struct { uint8_t bytes[PACKET_MAX_BYTES]; size_t length; } frame[TAPPED];
	unsigned frames;
};

static void record(void *arg, int node, const struct packet *p)
{
	struct recording *r = arg;

	if (node == 0 && r->frames < TAPPED) {
		r->frame[r->frames].length = packet_build(p, r->frame[r->frames].bytes, PACKET_MAX_BYTES);
		r->frames++;
	}
}

/* MSN-44: the same two QPs connect again, from other PSNs. All frames of the first connection come once more. */
static void a_replayed_connection_is_not_accepted(void **state)
{
	struct ib_options options = options_of(IB_STANDARD, IB_ACK_ON_REQUEST, 0);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	static struct recording recording;
	struct tape tape;
	struct pair *pair = start(&tape, &options);
	struct pair_side *side = pair->side;

	recording.frames = 0;
	pair->sim->tap = record;
	pair->sim->tap_arg = &recording;
	post_all(pair);
	pair_run(pair);
	expect_all_sent(pair);
	assert_int_equal(recording.frames, 11);
	pair->sim->tap = NULL;
	pair->config.psn[0] = 5000;
	pair->config.psn[1] = 9000;
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp_modify(side[i].qp, pair->sim->now, &reset, IBV_QP_STATE), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pair_connect(pair, i, side[i].qp, side[!i].qp, IBV_QPS_RTS), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pair_recv(pair, 1, i, 8192 + i * 2048, 2048), 0);
	memset(side[1].memory, 0xaa, pair->config.memory_bytes);
	for (unsigned i = 0; i < recording.frames; i++)
		sim_inject(pair->sim, 0, 1, recording.frame[i].bytes, recording.frame[i].length);
	pair_run(pair);
	expect_nothing(pair, 1);
	for (uint32_t i = 0; i < pair->config.memory_bytes; i++)
		assert_int_equal(side[1].memory[i], 0xaa);
	post_all(pair);
	pair_run(pair);
	expect_all_sent(pair);
	pair_delete(pair);
}

/* with a completion queue of four, either side's work queue stops at the fifth completion, which is kept, and goes on when
 * there is room: nothing is lost. The first entry that is reaped makes room for the completion that was kept, the second for
 * another. */
static struct pair *start_with_four_entries(struct tape *tape)
{
	struct pair_config config = {
		.sim = { .seed = 1, .link = { .delay_ns = 1000 } }, .mtu = IBV_MTU_256, .psn = { 1, 100 }, .cqes = 4,
		.timeout = 12, .retry_cnt = 2, .rnr_retry = 7, .min_rnr_timer = 1,
		.options = options_of(IB_SEED, IB_ACK_ON_REQUEST, 0),
	};
	struct pair *pair = pair_new(&config);

	*tape = (struct tape){ 0 };
	pair->sim->tap = tap;
	pair->sim->tap_arg = tape;
	return pair;
}

static void a_send_queue_stops_while_its_cq_awaits_room(void **state)
{
	struct tape tape;
	struct pair *pair = start_with_four_entries(&tape);
	struct cq *cq = pair->side[0].send_cq;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 });
		pair_run(pair);
		assert_int_equal(tape.requests, i < 5 ? i + 1 : 5);
	}
	assert_true(cq->asked);
	for (unsigned i = 0; i < 20; i++) {
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		pair_run(pair);
		assert_int_equal(tape.requests, i + 1 < 2 ? 5 : 20);	/* what has begun completes, with or without room */
	}
	expect_nothing(pair, 0);
	pair_delete(pair);
}

static void a_receive_queue_stops_while_its_cq_awaits_room(void **state)
{
	struct tape tape;
	struct pair *pair = start_with_four_entries(&tape);
	const struct qp *target = pair->side[1].qp;
	unsigned executed;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(pair_recv(pair, 1, i, i * 64, 64), 0);
	for (unsigned i = 0; i < 20; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .bytes = 8 });
	for (unsigned i = 0; i < 20; i++) {
		sim_run(pair->sim, pair->sim->now + 10 * WTIME_MS);
		executed = 5 + 2 * (i / 2);	/* of two more the second finds no room */
		assert_int_equal(target->messages_received, executed < 20 ? executed : 20);
		expect_received(pair, 1, i, IBV_WC_SUCCESS);
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
	}
	pair_run(pair);
	expect_nothing(pair, 0);
	expect_nothing(pair, 1);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector_10_1_seed),
		cmocka_unit_test(vector_10_1_standard),
		cmocka_unit_test(start_msn_wraps),
		cmocka_unit_test(printed_table_is_read_by_psn),
		cmocka_unit_test(no_ack_reads_a_descriptor),
		cmocka_unit_test(descriptors_are_not_asked_when_acks_come),
		cmocka_unit_test(coalescing_needs_an_ordered_link),
		cmocka_unit_test(adapters_exchange_the_starting_msn),
		cmocka_unit_test(exchange_with_nobody_fails),
		cmocka_unit_test(process_level_waits_for_the_consumer),
		cmocka_unit_test(stop_and_wait_over_a_datagram_network),
		cmocka_unit_test(vector_10_2_message_ends),
		cmocka_unit_test(coalesced),
		cmocka_unit_test(completion_is_the_change_of_the_msn),
		cmocka_unit_test(every_method_completes_by_the_msn),
		cmocka_unit_test(msn_that_moved_by_d_completes_d),
		cmocka_unit_test(vector_10_3_lost_packet),
		cmocka_unit_test(first_packet_lost),
		cmocka_unit_test(standard_nak_names_the_expected),
		cmocka_unit_test(lost_ack_is_implied),
		cmocka_unit_test(report_last_only),
		cmocka_unit_test(duplicate_is_acknowledged_and_not_executed),
		cmocka_unit_test(a_late_duplicate_changes_nothing),
		cmocka_unit_test(one_nak_per_gap),
		cmocka_unit_test(stop_and_wait),
		cmocka_unit_test(sliding_window),
		cmocka_unit_test(tail_loss),
		cmocka_unit_test(old_packets_are_not_accepted),
		cmocka_unit_test(a_replayed_connection_is_not_accepted),
		cmocka_unit_test(a_send_queue_stops_while_its_cq_awaits_room),
		cmocka_unit_test(a_receive_queue_stops_while_its_cq_awaits_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
