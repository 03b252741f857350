/* What answers say besides that something arrived: how long to wait for a receive, which message they complete; and answers that
 * are not believed. Whatever other tests take as it comes. */
#include "engine_test.h"

#include "ib/answers.h"
#include "ib/engine.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#include <fcntl.h>

enum { BYTES = 2500, FRAMES = 64 };

/* What both sides sent, and when. */
static struct {
	struct pair *pair;
	struct { int node; wtime at; struct packet p; } frame[FRAMES];
	unsigned frames;
} wire;

static void listen(void *arg, int node, const struct packet *p)
{
	if (wire.frames == FRAMES)
		return;
	wire.frame[wire.frames].node = node;
	wire.frame[wire.frames].at = wire.pair->sim->now;
	wire.frame[wire.frames++].p = *p;
}

static struct pair *start(enum ibv_qp_type type, uint8_t min_rnr_timer)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 21 }, .type = type, .timeout = 18, .retry_cnt = 3, .rnr_retry = 7,
		.min_rnr_timer = min_rnr_timer,
		.psn = { 0xfffffe, 7 },
	});

	memset(&wire, 0, sizeof(wire));
	wire.pair = pair;
	pair->sim->tap = listen;
	return pair;
}

/* IBA 9.7.5.2.8: the NAK says how long the responder wants to be left alone, table 47; no sooner is it asked again. */
static void a_requester_waits_as_long_as_the_responder_says(void **state)
{
	static const struct { uint8_t code; wtime least; } rows[] = {
		{ 0, 655360 * WTIME_US }, { 1, 10 * WTIME_US }, { 6, 80 * WTIME_US }, { 14, 1280 * WTIME_US },
		{ 20, 10240 * WTIME_US }, { 31, 491520 * WTIME_US },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start(IBV_QPT_RC, rows[i].code);
		wtime told = 0, again = 0;

		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 100 });
		sim_run(pair->sim, pair->sim->now + 3 * WTIME_US);
		assert_int_equal(pair_recv(pair, 1, 1, 0, 4096), 0);
		pair_run(pair);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		for (unsigned j = 0; j < wire.frames; j++) {
			const struct packet *p = &wire.frame[j].p;

			if (wire.frame[j].node == 0 && told && !again)
				again = wire.frame[j].at;
			if (wire.frame[j].node == 0 || aeth_kind(p->aeth.syndrome) != AETH_RNR_NAK)
				continue;
			assert_int_equal(aeth_value(p->aeth.syndrome), rows[i].code);
			told = wire.frame[j].at;
		}
		assert_true(told && again);
		assert_in_range(again - told, rows[i].least, rows[i].least + rows[i].least / 2 + 100 * WTIME_US);
		pair_delete(pair);
	}
}

/* MSN-47: each answer counts the messages that are complete with it, those of reads and atomics too. */
static void responses_tell_which_message_they_complete(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct pair *pair = start(IBV_QPT_RC, 1);
	unsigned responses = 0;

	sim_stop(pair->sim, 1);		/* it takes all in before it answers */
	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = opcodes[i], .remote = 8192,
						   .bytes = i == 2 || i == 4 ? 8 : BYTES });
	sim_run(pair->sim, pair->sim->now + WTIME_MS);
	sim_continue(pair->sim, 1);
	pair_run(pair);
	for (unsigned i = 0; i < wire.frames; i++) {
		const struct packet *p = &wire.frame[i].p;
		const struct opcode_row *row = opcode_row(p->opcode);
		int since = psn_diff(p->psn, 0xfffffe);

		if (wire.frame[i].node == 0 || !(row->headers & HDR_AETH) || row->op == OP_ACK)
			continue;
		/* three packets each of the write and the reads, one each of the atomics */
		assert_int_equal(p->aeth.msn, since < 6 ? 2 : since == 6 ? 3 : since < 10 ? 4 : 5);
		responses++;
	}
	assert_int_equal(responses, 2 * 2 + 2);
	pair_delete(pair);
}

/* It names the PSN that comes next: a responder that has it is not this one's. */
static void an_answer_to_what_was_not_sent_is_not_believed(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 1);
	struct qp *qp = pair->side[0].qp;
	const struct ca_device *us = pair->side[0].node->dev, *peer = pair->side[1].node->dev;
	struct packet p = {
		.form = us->protocol->form, .opcode = OPCODE_RC_ACKNOWLEDGE, .pkey = 0xffff, .dest_qpn = qp->qpn,
		.path = qp->path, .aeth = { .syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS), .msn = 1 },
	};
	uint8_t frame[PACKET_MAX_BYTES];
	struct cqe cqe;

	sim_fault_add(pair->sim, SIM_DROP, 0, 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 100 });
	p.path.slid = peer->lid;
	p.path.dlid = us->lid;
	p.psn = engine_of(qp)->flight.psn;
	sim_inject(pair->sim, 1, 0, frame, packet_build(&p, frame, sizeof(frame)));
	assert_false(pair_poll_send(pair, 0, &cqe));
	p.psn = psn_add(p.psn, -1);	/* it would have been believed for what was sent */
	sim_inject(pair->sim, 1, 0, frame, packet_build(&p, frame, sizeof(frame)));
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* A14: a packet may name only SRQs of its QP's domain. */
static void a_shared_queue_of_another_domain_gives_no_receive(void **state)
{
	struct pair *pair = start(IBV_QPT_XRC_SEND, 1);
	struct pair_side *s = &pair->side[1];
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 4, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
	};
	struct srq *own = s->srq, *foreign;
	struct xrcd *other;

	assert_int_equal(xrcd_open(&s->node->ca, s->node->dev, 0, 0, O_CREAT, &other), 0);
	assert_int_equal(srq_create(s->pd, &attr, other, s->recv_cq, &foreign), 0);
	s->srq = foreign;
	assert_int_equal(pair_recv(pair, 1, 1, 0, 4096), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 100 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(foreign->wq.engine.started, 0);
	assert_int_equal(s->target->state, IBV_QPS_ERR);
	s->srq = own;
	pair_delete(pair);
}

/* Of connections and of datagrams. */
static void the_traffic_class_is_in_each_packet(void **state)
{
	static const struct device_protocol *const protocols[] = { &protocol_ib, &protocol_roce_v2 };
	enum { CLASS = 0x5a };

	for (unsigned i = 0; i < 2; i++) {
		struct ca_device dev = {
			.protocol = protocols[i], .lid = 1, .gid[0] = { .valid = true, .raw = { 0xfe, 0x80, [15] = 1 } },
		};
		struct ibv_ah_attr attr = {
			.dlid = 2, .port_num = 1, .is_global = 1, .grh = { .traffic_class = CLASS, .hop_limit = 3 },
		};
		struct packet_path path;
		struct av av;

		memcpy(attr.grh.dgid.raw, dev.gid[0].raw, 16);
		assert_int_equal(av_from_attr(&dev, &attr, &av), 0);
		assert_int_equal(av_path(&dev, &av, 0, &path), 0);
		assert_int_equal(path.tclass, CLASS);
	}
}

/* 9.7.1, MSN-46: at the least MTU the longest READ takes half of all PSNs, one more than may be under way. */
static void the_longest_read_is_asked_for_in_two(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 1);
	struct qp *qp = pair->side[0].qp;

	(void)state;
	engine_of(qp)->selective = false;
	assert_int_equal(answers_piece(qp, 1 << 23), FLIGHT_SPAN_MOST);
	assert_int_equal(answers_piece(qp, 1), 1);
	engine_of(qp)->flight.unanswered = qp->attr.max_rd_atomic;
	assert_int_equal(answers_piece(qp, 1), 0);	/* as many as the peer executes at once */
	engine_of(qp)->flight.unanswered = 0;
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_requester_waits_as_long_as_the_responder_says),
		cmocka_unit_test(responses_tell_which_message_they_complete),
		cmocka_unit_test(an_answer_to_what_was_not_sent_is_not_believed),
		cmocka_unit_test(a_shared_queue_of_another_domain_gives_no_receive),
		cmocka_unit_test(the_traffic_class_is_in_each_packet),
		cmocka_unit_test(the_longest_read_is_asked_for_in_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
