/* Packets that parse and that no engine of ours sends: lengths that disagree, answers of another operation, requests that name
 * what another made, refusals of what is not in flight. The other side hears nothing, so that only what the test injects is said.
 * IBA 9.7.4.1, 9.7.5, 9.7.7, 9.8.3.1. */
#include "engine_test.h"

#include "ib/engine.h"
#include "wire/addr.h"
#include "wire/aeth.h"
#include "wire/header.h"
#include "wire/packet.h"

enum { PSN = 0xfffffe, MTU = 1024, QKEY = 0x1234 };

/* What side 1 sent. */
static unsigned said;
static uint8_t syndrome;	/* of the last */

static void listen(void *arg, int node, const struct packet *p)
{
	(void)arg;
	if (node != 1)
		return;
	said++;
	syndrome = p->aeth.syndrome;
}

static struct pair *start(enum ibv_qp_type type)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 6, .mtu = IBV_MTU_2048 }, .type = type, .psn = { PSN, PSN }, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .min_rnr_timer = 1,
	});

	pair->sim->tap = listen;
	said = 0;
	return pair;
}

/* To a side, from the other one. */
static void deliver(struct pair *pair, int side, struct packet p)
{
	static uint8_t data[PACKET_MAX_PAYLOAD];
	struct sim_node *node = pair->side[side].node;
	struct iovec payload = { data, p.payload_bytes };

	memset(data, 0x5a, sizeof(data));
	pair->side[!side].node->deaf = true;
	p.pkey = 0xffff;
	if (!p.dest_qpn)
		p.dest_qpn = pair->side[side].qp->qpn;
	p.path.slid = pair->side[!side].node->dev->lid;
	p.path.dlid = node->dev->lid;
	p.payload = &payload;
	p.payload_iovs = 1;
	ca_input(&node->ca, node->dev, pair->sim->now, (origin_t)(2 - side), &p);
	sim_pump(pair->sim);
}

/* 9.7.4.1.6: what is too long is invalid, whether memory and rights are there or not. */
static void lengths_have_a_bound(void **state)
{
	static const struct { uint8_t opcode; uint32_t payload; } rows[] = {
		{ OPCODE_RC_RDMA_READ_REQUEST, 0 }, { OPCODE_RC_RDMA_WRITE_FIRST, MTU },
	};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct pair *pair = start(IBV_QPT_RC);

		deliver(pair, 1, (struct packet){ .opcode = rows[i].opcode, .psn = PSN, .payload_bytes = rows[i].payload,
						  .reth = { PAIR_IOVA, pair->side[1].mr->key, MESSAGE_MAX_BYTES + 1u } });
		assert_int_equal(syndrome, aeth_syndrome(AETH_NAK, NAK_INVALID_REQUEST));
		assert_int_equal(pair->side[1].qp->state, IBV_QPS_ERR);
		pair_delete(pair);
	}
}

/* 2 GB of a send have come, into a receive of more. */
static void a_send_has_a_bound(void **state)
{
	struct pair *pair = start(IBV_QPT_RC);
	struct responder *r = &engine_of(pair->side[1].qp)->responder;

	(void)state;
	pair_recv(pair, 1, 7, 0, 4 * MTU);
	deliver(pair, 1, (struct packet){ .opcode = OPCODE_RC_SEND_FIRST, .psn = PSN, .payload_bytes = MTU });
	r->offset = MESSAGE_MAX_BYTES;
	r->receive.length = UINT32_MAX;
	deliver(pair, 1, (struct packet){ .opcode = OPCODE_RC_SEND_MIDDLE, .psn = psn_add(PSN, 1), .payload_bytes = MTU });
	assert_int_equal(syndrome, aeth_syndrome(AETH_NAK, NAK_INVALID_REQUEST));
	pair_delete(pair);
}

/* An atomic write is of eight bytes, as its header has to say. */
static void an_atomic_write_says_its_length(void **state)
{
	static const uint32_t lengths[] = { 0, 4, 16, 8 };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct pair *pair = start(IBV_QPT_RC);
		bool right = lengths[i] == 8;

		deliver(pair, 1, (struct packet){ .opcode = OPCODE_RC_ATOMIC_WRITE, .psn = PSN, .payload_bytes = 8,
						  .reth = { PAIR_IOVA, pair->side[1].mr->key, lengths[i] } });
		assert_int_equal(pair->side[1].memory[0], right ? 0x5a : 0);
		assert_int_equal(pair->side[1].qp->state, right ? IBV_QPS_RTS : IBV_QPS_ERR);
		assert_int_equal(said, 1);
		pair_delete(pair);
	}
}

/* 9.7.5.1.5: what is asked for again is what was asked for, by the same operation and key. */
static void a_repeated_request_is_the_same(void **state)
{
	struct pair *pair = start(IBV_QPT_RC);
	uint32_t key = pair->side[1].mr->key;
	struct packet read = { .opcode = OPCODE_RC_RDMA_READ_REQUEST, .psn = PSN, .reth = { PAIR_IOVA, key, 8 } };
	struct packet add = { .opcode = OPCODE_RC_FETCH_ADD, .psn = psn_add(PSN, 1), .atomiceth = { PAIR_IOVA, key, 1, 0 } };

	(void)state;
	deliver(pair, 1, read);
	deliver(pair, 1, add);
	assert_int_equal(said, 2);
	read.psn = add.psn;
	add.psn = PSN;
	deliver(pair, 1, read);
	deliver(pair, 1, add);
	read.psn = PSN;
	read.reth.rkey ^= 1;
	deliver(pair, 1, read);
	assert_int_equal(said, 2);
	read.reth.rkey = key;
	deliver(pair, 1, read);
	assert_int_equal(said, 3);
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_RTS);
	pair_delete(pair);
}

/* The value of an atomic write is read from where the program has it. */
static void post_eight(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint64_t value = 0;
	struct ibv_sge sge = { (uintptr_t)&value, sizeof(value), 0 };
	struct ibv_send_wr *bad, wr = { .wr_id = 1, .opcode = opcode, .sg_list = &sge, .num_sge = 1 };

	if (opcode != IBV_WR_ATOMIC_WRITE) {
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = opcode, .bytes = bytes });
		return;
	}
	wr.wr.rdma.remote_addr = PAIR_IOVA;
	wr.wr.rdma.rkey = pair->side[1].mr->key;
	assert_int_equal(qp_post_send(pair->side[0].qp, pair->sim->now, &wr, &bad), 0);
	sim_pump(pair->sim);
}

/* 9.7.7.1: each operation has its own answer. */
static void answers_are_of_the_operation(void **state)
{
	static const struct { enum ibv_wr_opcode posted; uint32_t bytes; uint8_t opcode; uint32_t payload; } rows[] = {
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, OPCODE_RC_RDMA_READ_RESPONSE_ONLY, 8 },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, 8, OPCODE_RC_RDMA_READ_RESPONSE_ONLY, 8 },
		{ IBV_WR_RDMA_READ, 0, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0 },
		{ IBV_WR_RDMA_READ, 8, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0 },
		{ IBV_WR_ATOMIC_WRITE, 8, OPCODE_RC_RDMA_READ_RESPONSE_ONLY, 8 },
		{ IBV_WR_ATOMIC_WRITE, 8, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start(IBV_QPT_RC);

		print_message("row %u\n", i);
		post_eight(pair, rows[i].posted, rows[i].bytes);
		deliver(pair, 0, (struct packet){ .opcode = rows[i].opcode, .psn = PSN, .payload_bytes = rows[i].payload,
						  .atomicack = ~0ull });
		expect_sent(pair, 0, 1, IBV_WC_BAD_RESP_ERR);
		assert_int_equal(pair->side[0].memory[0], 0);
		pair_delete(pair);
	}
}

/* Of the packets that are in flight something can be refused, and of no others; what is before a refusal arrived. */
static void what_was_not_sent_is_not_refused(void **state)
{
	static const uint8_t kinds[] = { AETH_RNR_NAK, AETH_NAK };
	struct pair *pair = start(IBV_QPT_RC);

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
	for (unsigned i = 0; i < 2; i++)
		for (int later = 2; later < 5; later++)
			deliver(pair, 0, (struct packet){ .opcode = OPCODE_RC_ACKNOWLEDGE, .psn = psn_add(PSN, later),
							  .aeth = { aeth_syndrome(kinds[i], NAK_PSN_SEQUENCE), 0 } });
	expect_nothing(pair, 0);
	assert_int_equal(engine_of(pair->side[0].qp)->flight.phase, FLIGHT_OPEN);
	pair_delete(pair);
}

/* A response acknowledges what is before it, if it is one to what is in flight. */
static void answers_to_nothing_acknowledge_nothing(void **state)
{
	struct pair *pair = start(IBV_QPT_RC);

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_WRITE, .bytes = 1 });
	for (int later = 2; later < 5; later++) {
		deliver(pair, 0, (struct packet){ .opcode = OPCODE_RC_RDMA_READ_RESPONSE_ONLY, .psn = psn_add(PSN, later),
						  .payload_bytes = 8 });
		deliver(pair, 0, (struct packet){ .opcode = OPCODE_RC_ATOMIC_ACKNOWLEDGE, .psn = psn_add(PSN, later) });
	}
	expect_nothing(pair, 0);
	pair_delete(pair);
}

/* A frame of another link layer is no port's that has not that one. */
static void another_link_layer_is_not_heard(void **state)
{
	struct pair *pair = start(IBV_QPT_RC);
	struct packet p = { .form = PACKET_ROCE, .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .psn = PSN, .payload_bytes = 8,
			    .ack_requested = true, .reth = { PAIR_IOVA, pair->side[1].mr->key, 8 } };

	(void)state;
	deliver(pair, 1, p);
	assert_int_equal(said, 0);
	assert_int_equal(pair->side[1].memory[0], 0);
	p.form = PACKET_IB;
	deliver(pair, 1, p);
	assert_int_equal(said, 1);
	pair_delete(pair);
}

static struct packet datagram(const struct pair *pair, uint32_t bytes)
{
	return (struct packet){ .opcode = OPCODE_UD_SEND_ONLY, .payload_bytes = bytes,
				.deth = { QKEY, pair->side[0].qp->qpn } };
}

/* 9.8.3.1: a datagram is of no more than the port's MTU. */
static void datagrams_have_the_ports_mtu(void **state)
{
	struct pair *pair = start(IBV_QPT_UD);

	(void)state;
	pair_recv(pair, 1, 7, 0, 8192);
	deliver(pair, 1, datagram(pair, 4096));
	expect_nothing(pair, 1);
	deliver(pair, 1, datagram(pair, 2048));
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	pair_delete(pair);
}

/* 9.6.1.2: to a group go datagrams alone, even where no Q_Key is asked for. */
static void groups_take_datagrams_alone(void **state)
{
	static const uint8_t gid[16] = { 0xff, 0x12, [15] = 7 };
	struct pair *pair = start(IBV_QPT_UD);
	struct packet p = datagram(pair, 8);
	struct ibv_qp_attr attr = { .qkey = 0 };

	(void)state;
	assert_int_equal(qp_modify(pair->side[1].qp, pair->sim->now, &attr, IBV_QP_QKEY), 0);
	assert_int_equal(mcast_attach(pair->side[1].qp, gid, MLID_FIRST), 0);
	pair_recv(pair, 1, 7, 0, 4096);
	p.dest_qpn = MULTICAST_QPN;
	p.deth.qkey = 0;
	p.path.has_grh = true;
	memcpy(p.path.sgid, pair->side[0].node->dev->gid[0].raw, 16);
	memcpy(p.path.dgid, gid, 16);
	p.opcode = OPCODE_RC_SEND_ONLY;
	deliver(pair, 1, p);
	expect_nothing(pair, 1);
	p.opcode = OPCODE_UD_SEND_ONLY;
	deliver(pair, 1, p);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_have_a_bound),
		cmocka_unit_test(a_send_has_a_bound),
		cmocka_unit_test(an_atomic_write_says_its_length),
		cmocka_unit_test(a_repeated_request_is_the_same),
		cmocka_unit_test(answers_are_of_the_operation),
		cmocka_unit_test(what_was_not_sent_is_not_refused),
		cmocka_unit_test(answers_to_nothing_acknowledge_nothing),
		cmocka_unit_test(another_link_layer_is_not_heard),
		cmocka_unit_test(datagrams_have_the_ports_mtu),
		cmocka_unit_test(groups_take_datagrams_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
