/* Datagrams between processes of a host are direct messages. Twins send the same datagrams to the same receives: one by messages,
 * the other by packets. All that can be seen of both ends stays the same. Arguments: runs, first seed. */
#include "direct_stubs.h"
#include "engine_test.h"
#include "parts.h"

#include "direct/record.h"
#include "ib/engine.h"

#include <stdio.h>

enum { STEPS = 100, BYTES = 16384, GRH = 40, MTU = 1024, QKEY = 0x1234, TWINS = 2 };

static unsigned runs = 1000;
static uint64_t first_seed = 1, seed, odds;
static struct pair *twin[TWINS];
static unsigned messages;	/* datagrams that went as messages */
static bool is_full;		/* the ring between the two processes */
static origin_t origin;		/* what messages say that they come from */

static void show_nothing(void *owner, struct qp *qp, psn_t received)
{
	(void)owner;
	(void)qp;
	(void)received;
}

static bool connects_not(void *owner, struct qp *qp)
{
	(void)owner;
	(void)qp;
	return false;
}

/* As over the ring. */
static bool send_datagram(void *owner, const struct route *r, const struct direct_message *m)
{
	static uint8_t record[RECORD_MAX_BYTES];
	struct sim_node *to = r->place;
	struct iovec iov[DIRECT_IOVS];
	struct direct_message got;

	(void)owner;
	if (is_full)
		return false;
	record_build(m, record);
	assert_true(record_is_datagram(record));
	assert_true(record_parse(&got, record, record_bytes(m), iov));
	got.datagram.origin = origin;
	messages++;
	ca_message(&to->ca, to->sim->now, &twin, &got);
	return true;
}

static const struct direct_ops direct = {
	.publish_mr = show_no_mr, .unpublish_mr = unpublish_mr, .publish_qp = show_no_qp, .unpublish_qp = show_no_qp,
	.connect = connects_not, .publish = show_nothing, .send_datagram = send_datagram,
};

static struct pair *new_pair(enum packet_form form, bool with_grh, bool shared, bool directly)
{
	struct pair_config config = { .sim = { .seed = 3, .form = form, .mtu = IBV_MTU_1024 }, .type = IBV_QPT_UD, .recvs = 8,
				      .with_grh = with_grh, .shared_receives = shared, .memory_bytes = BYTES,
				      .psn = { 0xfffffe, 0 } };
	struct pair *pair = pair_new(&config);

	pattern_fill(pair->side[0].memory, BYTES, 1);
	if (directly)
		pair->side[0].node->ca.direct = &direct;
	origin = node_origin(pair->side[0].node);
	return pair;
}

static bool is_odd(struct rand *r)
{
	return rand_below(r, odds) == 0;
}

static void post_receive(struct rand *r, uint64_t wr_id)
{
	uint32_t at = (uint32_t)rand_below(r, BYTES / 2), bytes = is_odd(r) ? (uint32_t)rand_below(r, 100) : GRH + MTU;
	int result[TWINS];

	for (int t = 0; t < TWINS; t++)
		result[t] = pair_recv(twin[t], 1, wr_id, at, bytes);
	assert_int_equal(result[0], result[1]);
}

static void send(struct rand *r, uint64_t wr_id)
{
	uint32_t bytes = (uint32_t)rand_below(r, is_odd(r) ? MTU + 2 : rand_below(r, 2) ? 60 : 9);
	struct pair_wr wr = {
		.wr_id = wr_id, .opcode = is_odd(r) ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, .bytes = bytes, .imm = (uint32_t)wr_id,
		.local = (uint32_t)rand_below(r, BYTES - MTU - 2), .pieces = is_odd(r) && bytes > 4 ? 3 : 1,
		.flags = (is_odd(r) ? IBV_SEND_SOLICITED : 0) | (is_odd(r) && bytes < 100 ? IBV_SEND_INLINE : 0),
	};
	int result[TWINS];

	is_full = is_odd(r);
	for (int t = 0; t < TWINS; t++) {
		result[t] = pair_send(twin[t], 0, &wr);
		pair_run(twin[t]);
	}
	assert_int_equal(result[0], result[1]);
}

/* What the receiver's keys are from now on. */
static void change_keys(struct rand *r)
{
	static const uint16_t pkeys[] = { 0xffff, 0xffff, 0x7fff, 0x8001 };
	uint16_t pkey = pkeys[rand_below(r, 4)];
	uint32_t qkey = QKEY + !rand_below(r, 4);

	for (int t = 0; t < TWINS; t++) {
		twin[t]->side[1].node->dev->pkey[0] = pkey;
		twin[t]->side[1].qp->attr.qkey = qkey;
	}
}

static void arm(bool solicited)
{
	for (int t = 0; t < TWINS; t++)
		cq_arm(twin[t]->side[1].recv_cq, solicited);
}

static void poll_all(unsigned *received)
{
	for (int side = 0; side < 2; side++)
		for (bool found = true; found;) {
			struct cqe cqe[TWINS] = { 0 };

			for (int t = 0; t < TWINS; t++) {
				found = side ? pair_poll_recv(twin[t], 1, &cqe[t]) : pair_poll_send(twin[t], 0, &cqe[t]);
				cqe[t].timestamp_ns = 0;
			}
			assert_memory_equal(&cqe[0], &cqe[1], sizeof(cqe[0]));
			*received += found && side;
		}
}

/* But for those of packets and of what went without. */
static struct counters seen(const struct pair *pair, int side)
{
	struct counters c = pair->side[side].node->ca.counters;

	c.sent_pkts = c.rcvd_pkts = c.direct_sends = c.direct_bytes = 0;
	return c;
}

static void compare_side(int side)
{
	const struct pair_side *a = &twin[0]->side[side], *b = &twin[1]->side[side];
	struct counters x = seen(twin[0], side), y = seen(twin[1], side);

	assert_memory_equal(&x, &y, sizeof(x));
	assert_memory_equal(a->memory, b->memory, BYTES);
	assert_int_equal(a->qp->state, b->qp->state);
	assert_int_equal(engine_of(a->qp)->flight.psn, engine_of(b->qp)->flight.psn);
	assert_int_equal(a->qp->sq.engine.after, b->qp->sq.engine.after);
	assert_int_equal(a->qp->rq.engine.after, b->qp->rq.engine.after);
	assert_int_equal(a->qp->bytes_sent, b->qp->bytes_sent);
	assert_int_equal(a->qp->messages_sent, b->qp->messages_sent);
	assert_int_equal(a->qp->bytes_received, b->qp->bytes_received);
	assert_int_equal(a->qp->messages_received, b->qp->messages_received);
	assert_int_equal(a->node->cq_events, b->node->cq_events);
	assert_int_equal(a->node->events, b->node->events);
}

static void run(unsigned *received)
{
	struct rand r;
	bool shared;

	rand_seed(&r, seed);
	odds = 2 + rand_below(&r, 50);
	shared = rand_below(&r, 2);
	for (int t = 0; t < TWINS; t++)
		twin[t] = new_pair(PACKET_IB, false, shared, t == 0);
	for (unsigned i = 0; i < STEPS; i++) {
		uint64_t what = rand_below(&r, 20);

		if (what < 8)
			post_receive(&r, i);
		else if (what < 15)
			send(&r, i);
		else if (what < 18)
			poll_all(received);
		else if (what < 19)
			arm(rand_below(&r, 2));
		else
			change_keys(&r);
		compare_side(0);
		compare_side(1);
	}
	for (int t = 0; t < TWINS; t++)
		pair_delete(twin[t]);
}

static void both_ways_are_one(void **state)
{
	unsigned received = 0;

	for (seed = first_seed; seed < first_seed + runs; seed++)
		run(&received);
	printf("%u runs, %u datagrams received, %u went as messages\n", runs, received, messages);
	assert_true(received > 5 * runs && messages > received);
}

/* A GRH is shown to the receiver as it was in the packet. */
static void with_a_grh_they_are_packets(void **state)
{
	for (int form = 0; form < 2; form++) {
		struct pair *pair = new_pair(form ? PACKET_ROCE : PACKET_IB, true, false, true);

		messages = 0;
		is_full = false;
		pair_recv(pair, 1, 7, 0, GRH + 64);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 64 });
		pair_run(pair);
		assert_int_equal(messages, 0);
		assert_int_equal(expect_received(pair, 1, 7, IBV_WC_SUCCESS).wc_flags, IBV_WC_GRH);
		pair_delete(pair);
	}
}

/* The helper thread enters while the program may unmap what it has registered. */
static void whose_memory_may_go_are_packets(void **state)
{
	struct pair *pair = new_pair(PACKET_IB, false, false, true);

	messages = 0;
	is_full = false;
	pair->side[0].node->ca.memory_may_go = true;
	pair_recv(pair, 1, 7, 0, GRH + 64);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 64 });
	pair_run(pair);
	assert_int_equal(messages, 0);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* By path bits, also beyond those of the LMC: IBA 11.2.2.1. */
static void sender_and_receiver_are_known_by_their_lids(void **state)
{
	for (unsigned directly = 0; directly < 2; directly++) {
		struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 3, .lmc = 2 }, .type = IBV_QPT_UD });
		struct pair_side *from = &pair->side[0], *to = &pair->side[1];
		struct ibv_ah_attr attr = { .dlid = (uint16_t)(to->node->dev->lid + 3), .src_path_bits = 0xfe, .port_num = 1 };
		struct ah ah = { .pd = from->pd };
		struct ibv_sge sge = { PAIR_IOVA, 64, from->mr->key };
		struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
						.wr.ud = { &ah.ibv, to->qp->qpn, QKEY } };
		struct cqe cqe;

		assert_int_equal(av_from_attr(from->node->dev, &attr, &ah.av), 0);
		messages = 0;
		is_full = false;
		origin = node_origin(from->node);
		if (directly)
			from->node->ca.direct = &direct;
		for (uint64_t i = 0; i < 3; i++) {	/* the source is known from the second on */
			pair_recv(pair, 1, i, 0, GRH + 64);
			assert_int_equal(qp_post_send(from->qp, 1, &wr, &bad), 0);
			pair_run(pair);
			cqe = expect_received(pair, 1, i, IBV_WC_SUCCESS);
			assert_int_equal(cqe.slid, from->node->dev->lid + 2);
			assert_int_equal(cqe.dlid_path_bits, 3);
		}
		assert_int_equal(messages, directly ? 3 : 0);
		pair_delete(pair);
	}
}

/* Who sends says which QP it is; whose channel it came over it does not say. */
static void of_another_source_they_are_dropped(void **state)
{
	struct pair *pair = new_pair(PACKET_IB, false, false, true);
	const struct counters *c = &pair->side[1].node->ca.counters;

	is_full = false;
	for (unsigned i = 0; i < 3; i++) {
		origin = node_origin(pair->side[0].node) + (i == 1);
		pair_recv(pair, 1, i, 0, GRH + 8);
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .bytes = 8 });
		assert_int_equal(c->dropped_source, i > 0);
	}
	expect_received(pair, 1, 0, IBV_WC_SUCCESS);
	expect_received(pair, 1, 1, IBV_WC_SUCCESS);
	expect_nothing(pair, 1);
	pair_delete(pair);
}

/* Nor is it taken for another network's or port's. */
static void of_another_port_they_are_dropped(void **state)
{
	struct pair *pair = new_pair(PACKET_IB, false, false, true);
	struct sim_node *to = pair->side[1].node;

	is_full = false;
	for (unsigned i = 0; i < 2; i++) {
		to->dev->network += !i;
		to->dev->lid += (uint16_t)i;
		pair_recv(pair, 1, i, 0, GRH + 8);
		ca_message(&to->ca, to->sim->now, &twin, &(struct direct_message){
			.opcode = OPCODE_UD_SEND_ONLY, .dest_qpn = pair->side[1].qp->qpn, .src_qpn = pair->side[0].qp->qpn,
			.bytes = 8, .iov = &(struct iovec){ pair->side[0].memory, 8 }, .iovs = 1,
			.datagram = { .origin = origin, .qkey = QKEY, .slid = 1, .dlid = 2, .pkey = 0xffff },
		});
		assert_int_equal(to->ca.counters.dropped_no_qp, i + 1);
		to->dev->network -= !i;
	}
	expect_nothing(pair, 1);
	pair_delete(pair);
}

static int tell_seed(void **state)
{
	if (seed < first_seed + runs)
		printf("seed %llu\n", (unsigned long long)seed);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(both_ways_are_one, tell_seed),
		cmocka_unit_test(with_a_grh_they_are_packets),
		cmocka_unit_test(whose_memory_may_go_are_packets),
		cmocka_unit_test(sender_and_receiver_are_known_by_their_lids),
		cmocka_unit_test(of_another_source_they_are_dropped),
		cmocka_unit_test(of_another_port_they_are_dropped),
	};

	if (argc > 1)
		runs = (unsigned)strtoul(argv[1], NULL, 0);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
