/* Requests beyond what was granted, to queue pairs that are not for them, and the marks that a request leaves at its receiver.
 * The requester hears nothing, so that only what the test injects is said. IBA 9.6.1, 9.7.4.1, 9.7.5.1. */
#include "engine_test.h"

#include "ib/engine.h"
#include "wire/aeth.h"
#include "wire/header.h"
#include "wire/packet.h"

#include <endian.h>

enum { PSN = 0xfffffe, MTU = 1024, QKEY = 0x1234 };

/* What the responder sent. */
static unsigned said;
static struct packet last;	/* without its payload */

static void listen(void *arg, int node, const struct packet *p)
{
	(void)arg;
	if (node != 1)
		return;
	said++;
	last = *p;
}

static struct pair *start(void)
{
	struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 6 }, .psn = { PSN, 40 } });

	pair->sim->tap = listen;
	pair->side[0].node->deaf = true;
	said = 0;
	return pair;
}

/* Nothing is answered yet. */
static void arrive(struct pair *pair, struct ca_device *dev, struct packet p)
{
	static uint8_t data[PACKET_MAX_PAYLOAD];
	struct iovec payload = { data, p.payload_bytes };

	memset(data, 0x5a, sizeof(data));
	p.pkey = 0xffff;
	p.path = (struct packet_path){ .slid = pair->side[0].node->dev->lid, .dlid = pair->side[1].node->dev->lid };
	p.payload = &payload;
	p.payload_iovs = 1;
	ca_input(&pair->side[1].node->ca, dev, pair->sim->now, 1, &p);
}

static void request_of(struct pair *pair, struct ca_device *dev, struct packet p)
{
	arrive(pair, dev, p);
	sim_pump(pair->sim);
}

static void request(struct pair *pair, struct packet p)
{
	p.dest_qpn = pair->side[1].qp->qpn;
	request_of(pair, pair->side[1].node->dev, p);
}

static struct packet read_of(const struct pair *pair, uint32_t bytes)
{
	return (struct packet){ .opcode = OPCODE_RC_RDMA_READ_REQUEST, .psn = PSN,
				.reth = { PAIR_IOVA, pair->side[1].mr->key, bytes } };
}

/* 9.7.5.1.5: a repeated read may ask for the rest of what it asked for, and for nothing else. */
static void a_repeated_read_asks_for_no_more(void **state)
{
	static const struct { int later; uint64_t offset; uint32_t bytes; unsigned responses; } rows[] = {
		{ 0, 0, 2 * MTU, 2 }, { 1, MTU, MTU, 1 }, { 0, 0, 3 * MTU, 0 }, { 0, 8, 2 * MTU, 0 }, { 1, MTU, 2 * MTU, 0 },
		{ 1, 0, MTU, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start();
		struct packet again = read_of(pair, rows[i].bytes);

		request(pair, read_of(pair, 2 * MTU));
		assert_int_equal(said, 2);
		again.psn = psn_add(PSN, rows[i].later);
		again.reth.va += rows[i].offset;
		request(pair, again);
		assert_int_equal(said - 2, rows[i].responses);
		pair_delete(pair);
	}
}

/* 9.7.5.1.2: a READ and an atomic are acknowledged by their responses. A requester that lost one, and gets an ACK of that PSN,
 * may take it for all that comes, as rdma_rxe does. */
static void an_ack_does_not_stand_for_a_response(void **state)
{
	struct pair *pair = start();
	struct packet write = { .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .psn = PSN, .ack_requested = true, .payload_bytes = 8,
				.reth = { PAIR_IOVA, pair->side[1].mr->key, 8 } };
	struct packet read = read_of(pair, 2 * MTU);

	(void)state;
	write.dest_qpn = pair->side[1].qp->qpn;
	arrive(pair, pair->side[1].node->dev, write);
	read.psn = psn_add(PSN, 1);
	request(pair, read);
	assert_int_equal(said, 3);
	assert_int_equal(last.opcode, OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(last.psn, PSN);
	assert_int_equal(last.aeth.msn, 1);
	request(pair, write);		/* again, as if all answers had been lost */
	assert_int_equal(last.opcode, OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(last.psn, PSN);
	write.resv.bth7 = BTH_SELECTIVE;
	request(pair, write);
	assert_int_equal(last.psn, psn_add(PSN, 2));
	assert_int_equal(last.aeth.msn, 2);
	pair_delete(pair);
}

/* The READ's PSNs come again, 2^24 later. */
static void a_read_of_long_ago_is_acknowledged_long_since(void **state)
{
	struct pair *pair = start();
	struct packet write = { .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .psn = psn_add(PSN, 2), .ack_requested = true,
				.payload_bytes = 8, .reth = { PAIR_IOVA, pair->side[1].mr->key, 8 } };

	(void)state;
	request(pair, read_of(pair, 2 * MTU));
	request(pair, write);
	assert_int_equal(last.psn, psn_add(PSN, 2));
	engine_of(pair->side[1].qp)->responder.psn = PSN;
	for (int i = 0; i < 2; i++) {
		write.psn = psn_add(PSN, i);
		request(pair, write);
		assert_int_equal(last.opcode, OPCODE_RC_ACKNOWLEDGE);
		assert_int_equal(last.psn, write.psn);
		assert_int_equal(last.aeth.msn, 3 + i);
		request(pair, write);
		assert_int_equal(last.psn, write.psn);
	}
	pair_delete(pair);
}

/* An atomic that comes again gets the original of its own, not of one that had its PSN 2^24 before. */
static void of_atomics_of_one_psn_the_newest_is_answered_again(void **state)
{
	struct pair *pair = start();
	struct packet add = { .opcode = OPCODE_RC_FETCH_ADD, .psn = PSN,
			      .atomiceth = { .va = PAIR_IOVA, .rkey = pair->side[1].mr->key, .swap_add = 5 } };

	(void)state;
	memset(pair->side[1].memory, 0, 8);
	for (int i = 0; i < 2; i++) {
		engine_of(pair->side[1].qp)->responder.psn = PSN;
		for (int times = 0; times < 2; times++) {
			request(pair, add);
			assert_int_equal(last.opcode, OPCODE_RC_ATOMIC_ACKNOWLEDGE);
			assert_int_equal(last.psn, PSN);
			assert_int_equal(last.atomicack, 5 * i);
		}
	}
	pair_delete(pair);
}

/* A part that does not end the READ: whole packets of it, for those alone who say that they repeat selectively. */
static void a_part_of_a_read_is_for_peers_that_know_parts(void **state)
{
	static const struct { int later; uint64_t offset; uint32_t bytes; bool marked; unsigned responses; } rows[] = {
		{ 0, 0, MTU, true, 1 }, { 1, MTU, 2 * MTU, true, 2 }, { 1, MTU, 2 * MTU, false, 0 }, { 1, MTU, MTU + 4, true, 0 },
		{ 1, MTU, 0, true, 0 }, { 1, 0, MTU, true, 0 }, { 3, 3 * MTU, 2 * MTU, true, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start();
		struct packet part = read_of(pair, rows[i].bytes);

		request(pair, read_of(pair, 4 * MTU));
		assert_int_equal(said, 4);
		part.psn = psn_add(PSN, rows[i].later);
		part.reth.va += rows[i].offset;
		part.resv.bth7 = rows[i].marked ? BTH_SELECTIVE : 0;
		request(pair, part);
		assert_int_equal(said - 4, rows[i].responses);
		assert_true(!rows[i].responses || last.opcode == OPCODE_RC_RDMA_READ_RESPONSE_ONLY);
		pair_delete(pair);
	}
}

/* A READ of four packets is answered. What asks for so many bytes of it again. */
static struct packet part_of_read(struct pair *pair, uint32_t bytes)
{
	struct packet p = read_of(pair, 4 * MTU);

	request(pair, p);
	p.resv.bth7 = BTH_SELECTIVE;
	p.reth.length = bytes;
	return p;
}

/* So many parts are kept at a time, whoever asks; those that find no room are asked for again. */
static void parts_have_a_bound(void **state)
{
	struct pair *pair = start();
	struct packet p = part_of_read(pair, MTU);

	(void)state;
	p.dest_qpn = pair->side[1].qp->qpn;
	for (unsigned i = 0; i < 3 * READ_PARTS; i++)
		arrive(pair, pair->side[1].node->dev, p);
	assert_int_equal(engine_of(pair->side[1].qp)->responder.parts, READ_PARTS);
	sim_pump(pair->sim);
	assert_int_equal(said, 4 + READ_PARTS);
	assert_int_equal(engine_of(pair->side[1].qp)->responder.owing, 0);
	pair_delete(pair);
}

/* 9.7.4.1.5: of a part too. */
static void a_right_that_goes_ends_parts(void **state)
{
	struct pair *pair = start();
	struct packet p = part_of_read(pair, 2 * MTU);

	(void)state;
	pair->side[1].mr->access &= ~IBV_ACCESS_REMOTE_READ;
	request(pair, p);
	assert_int_equal(said, 5);
	assert_int_equal(last.aeth.syndrome, aeth_syndrome(AETH_NAK, NAK_REMOTE_ACCESS));
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_ERR);
	pair_delete(pair);
}

/* 9.7.4.1.5: the right counts when the response leaves, not only when it was asked for. */
static void a_right_that_goes_ends_the_responses(void **state)
{
	struct pair *pair = start();
	struct packet p = read_of(pair, 2 * MTU);

	(void)state;
	p.dest_qpn = pair->side[1].qp->qpn;
	arrive(pair, pair->side[1].node->dev, p);
	pair->side[1].mr->access &= ~IBV_ACCESS_REMOTE_READ;
	sim_pump(pair->sim);
	assert_int_equal(said, 1);
	assert_int_equal(last.opcode, OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(last.aeth.syndrome, aeth_syndrome(AETH_NAK, NAK_REMOTE_ACCESS));
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_QP_ACCESS_ERR), 1);
	pair_delete(pair);
}

/* 9.7.4.1.4: who takes no reads refuses them. */
static void reads_need_a_depth(void **state)
{
	struct pair *pair = start();

	(void)state;
	engine_of(pair->side[1].qp)->responder.depth = 0;
	request(pair, read_of(pair, 8));
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_ERR);
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_QP_REQ_ERR), 1);
	pair_delete(pair);
}

/* A QP number is its device's: what comes in at another device is not for it. */
static void another_device_has_other_queue_pairs(void **state)
{
	struct pair *pair = start();
	struct ca_device other = *pair->side[1].node->dev;
	struct packet p = { .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .psn = PSN, .dest_qpn = pair->side[1].qp->qpn,
			    .reth = { PAIR_IOVA, pair->side[1].mr->key, 4 }, .payload_bytes = 4, .ack_requested = true };

	(void)state;
	request_of(pair, &other, p);
	assert_int_equal(said, 0);
	assert_int_equal(pair->side[1].memory[0], 0);
	request(pair, p);
	assert_int_equal(said, 1);
	assert_int_equal(pair->side[1].memory[0], 0x5a);
	pair_delete(pair);
}

/* 10.3.1: in INIT receives can be posted, and nothing arrives. */
static void nothing_arrives_in_init(void **state)
{
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct pair *pair = start();
	struct pair_side *side = &pair->side[1];
	struct ibv_sge sge = { PAIR_IOVA, 100, side->mr->key };
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;
	struct packet p = { .opcode = OPCODE_UD_SEND_ONLY, .deth = { QKEY, pair->side[0].qp->qpn }, .payload_bytes = 4 };
	struct ca *ca = &side->node->ca;
	struct qp *ud;

	(void)state;
	assert_int_equal(qp_create(ca, side->node->dev, &init, side->pd, side->send_cq, side->recv_cq, NULL, NULL, &ud), 0);
	assert_int_equal(qp_modify(ud, 1, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	assert_int_equal(qp_post_recv(ud, 1, &wr, &bad), 0);
	p.dest_qpn = ud->qpn;
	request_of(pair, side->node->dev, p);
	expect_nothing(pair, 1);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(qp_modify(ud, 1, &attr, IBV_QP_STATE), 0);
	request_of(pair, side->node->dev, p);
	expect_received(pair, 1, 3, IBV_WC_SUCCESS);
	/* one that does not fit behind the room for a GRH leaves no trace */
	memset(side->memory, 0, 200);
	sge.length = 50;
	assert_int_equal(qp_post_recv(ud, 1, &wr, &bad), 0);
	p.payload_bytes = 20;
	request_of(pair, side->node->dev, p);
	expect_nothing(pair, 1);
	for (int i = 0; i < 200; i++)
		assert_int_equal(side->memory[i], 0);
	pair_delete(pair);
}

/* 9.7.4.1.6: a write that has all its bytes must end there. */
static void a_write_does_not_go_on_beyond_its_length(void **state)
{
	struct pair *pair = start();

	(void)state;
	request(pair, (struct packet){ .opcode = OPCODE_RC_RDMA_WRITE_FIRST, .psn = PSN, .payload_bytes = MTU,
				       .reth = { PAIR_IOVA, pair->side[1].mr->key, MTU } });
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_ERR);
	assert_int_equal(pair->side[1].memory[0], 0);
	pair_delete(pair);
}

/* 9.6.1.3: a packet of another service is nobody's. */
static void another_service_is_not_heard(void **state)
{
	struct pair *pair = start();

	(void)state;
	pair_recv(pair, 1, 5, 2000, 100);
	request(pair, (struct packet){ .opcode = OPCODE_UC_SEND_ONLY, .psn = PSN, .payload_bytes = 8 });
	expect_nothing(pair, 1);
	assert_int_equal(said, 0);
	pair_delete(pair);
}

/* A17.9.3: whoever sends congestion notifications to a QP, it neither answers nor stops. */
static void a_forged_congestion_notification_changes_nothing(void **state)
{
	struct pair *pair = start();

	(void)state;
	for (int later = -1; later < 3; later++)
		request(pair, (struct packet){ .opcode = OPCODE_CNP, .psn = psn_add(PSN, later), .payload_bytes = 16 });
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_RTS);
	assert_int_equal(said, 0);
	request(pair, (struct packet){ .opcode = OPCODE_RC_RDMA_WRITE_ONLY, .psn = PSN, .payload_bytes = 8, .ack_requested = true,
				       .reth = { PAIR_IOVA, pair->side[1].mr->key, 8 } });
	assert_int_equal(said, 1);
	assert_int_equal(last.aeth.syndrome >> 5, AETH_ACK);
	pair_delete(pair);
}

/* 9.7.4.1.5: an address and a length whose sum begins again at 0 are in no region, nor is a message of which a part is. */
static void no_address_begins_again_at_zero(void **state)
{
	static const struct { uint8_t opcode; bool at_the_end; uint64_t va; uint32_t length, payload; bool refused; } rows[] = {
		{ OPCODE_RC_RDMA_WRITE_ONLY, false, -8ull, 8, 8, true },
		{ OPCODE_RC_RDMA_WRITE_ONLY, false, -8ull, 16, 16, true },
		{ OPCODE_RC_RDMA_READ_REQUEST, false, -8ull, 8, 0, true },
		{ OPCODE_RC_RDMA_READ_REQUEST, false, -8ull, 16, 0, true },
		{ OPCODE_RC_RDMA_WRITE_ONLY, true, -8ull, 8, 8, false },
		{ OPCODE_RC_RDMA_WRITE_ONLY, true, -8ull, 9, 9, true },
		{ OPCODE_RC_RDMA_READ_REQUEST, true, -8ull, 8, 0, false },
		{ OPCODE_RC_RDMA_READ_REQUEST, true, -8ull, 9, 0, true },
		{ OPCODE_RC_RDMA_WRITE_FIRST, true, -(uint64_t)MTU, 2 * MTU, MTU, true },
		{ OPCODE_RC_RDMA_WRITE_FIRST, true, -2ull * MTU, 2 * MTU, MTU, false },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start();
		struct mr *mr = pair->side[1].mr;
		uint64_t iova = mr->iova;

		mr->iova = rows[i].at_the_end ? -mr->length : iova;
		request(pair, (struct packet){ .opcode = rows[i].opcode, .psn = PSN, .payload_bytes = rows[i].payload,
					       .ack_requested = true, .reth = { rows[i].va, mr->key, rows[i].length } });
		assert_int_equal(said, 1);
		assert_int_equal(last.aeth.syndrome == aeth_syndrome(AETH_NAK, NAK_REMOTE_ACCESS), rows[i].refused);
		assert_int_equal(pair->side[1].qp->state, rows[i].refused ? IBV_QPS_ERR : IBV_QPS_RTS);
		mr->iova = iova;
		pair_delete(pair);
	}
}

/* Memory that is not borrowed has no CPU's atomics: the comparison is ours. */
static void a_swap_on_demand_compares(void **state)
{
	struct pair *pair = start();
	uint64_t word = 7;

	(void)state;
	pair->side[1].mr->kind = MR_ON_DEMAND;
	memcpy(pair->side[1].memory, &word, sizeof(word));
	for (uint64_t compare = 6; compare < 8; compare++) {
		request(pair, (struct packet){ .opcode = OPCODE_RC_CMP_SWAP, .psn = psn_add(PSN, (int64_t)compare - 6),
			.atomiceth = { .va = PAIR_IOVA, .rkey = pair->side[1].mr->key, .compare = compare, .swap_add = 9 } });
		assert_int_equal(last.atomicack, 7);
		memcpy(&word, pair->side[1].memory, sizeof(word));
		assert_int_equal(word, compare == 7 ? 9 : 7);
	}
	pair_delete(pair);
}

/* 10.2.3: the receives of an SRQ lie in its protection domain, whatever the QP's. */
static void shared_receives_lie_in_their_own_domain(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 6 }, .psn = { PSN, 40 }, .shared_receives = true });
	struct qp *qp = pair->side[1].qp;
	struct pd *own = qp->pd, *other;

	(void)state;
	assert_int_equal(pd_create(&pair->side[1].node->ca, pair->side[1].node->dev, &other), 0);
	qp->pd = other;
	pair_recv(pair, 1, 5, 0, 4096);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 2000 });
	pair_run(pair);
	expect_received(pair, 1, 5, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	qp->pd = own;
	pair_delete(pair);
}

static struct packet asked;

static void listen_to_requests(void *arg, int node, const struct packet *p)
{
	(void)arg;
	if (node == 0)
		asked = *p;
}

/* 9.2.3: the bit is for what uses up a receive. */
static void only_what_completes_a_receive_is_solicited(void **state)
{
	static const struct { enum ibv_wr_opcode op; unsigned flags; bool solicited; } rows[] = {
		{ IBV_WR_SEND, 0, false }, { IBV_WR_SEND, IBV_SEND_SOLICITED, true },
		{ IBV_WR_RDMA_WRITE, IBV_SEND_SOLICITED, false }, { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED, true },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start();

		pair->sim->tap = listen_to_requests;
		post_wr(pair, 0, (struct pair_wr){ .opcode = rows[i].op, .flags = rows[i].flags, .bytes = 8 });
		assert_int_equal(asked.solicited, rows[i].solicited);
		pair_delete(pair);
	}
}

/* What the completion says of the immediate data. */
static void receives_tell_of_immediate_data(void **state)
{
	static const struct { uint8_t opcode; enum ibv_wc_opcode wc; unsigned flags; uint32_t imm; } rows[] = {
		{ OPCODE_RC_SEND_ONLY, IBV_WC_RECV, 0, 0 },
		{ OPCODE_RC_SEND_ONLY_IMM, IBV_WC_RECV, IBV_WC_WITH_IMM, 0x01020304 },
		{ OPCODE_RC_RDMA_WRITE_ONLY_IMM, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, 0x01020304 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pair *pair = start();
		struct cqe cqe;

		pair_recv(pair, 1, 5, 2000, 100);
		request(pair, (struct packet){ .opcode = rows[i].opcode, .psn = PSN, .imm = 0x01020304, .payload_bytes = 8,
					       .reth = { PAIR_IOVA, pair->side[1].mr->key, 8 } });
		cqe = expect_received(pair, 1, 5, IBV_WC_SUCCESS);
		assert_int_equal(cqe.opcode, rows[i].wc);
		assert_int_equal(cqe.wc_flags, rows[i].flags);
		assert_int_equal(be32toh(cqe.imm), rows[i].imm);
		assert_int_equal(cqe.byte_len, 8);
		pair_delete(pair);
	}
}

/* 9.7.3.1: a read whose sink may not be written is never asked for. */
static void a_read_into_read_only_memory_is_not_asked_for(void **state)
{
	struct pair *pair = start();

	(void)state;
	pair->side[0].mr->access &= ~IBV_ACCESS_LOCAL_WRITE;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 100 });
	expect_sent(pair, 0, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(pair->side[0].node->sent, 0);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_repeated_read_asks_for_no_more),
		cmocka_unit_test(an_ack_does_not_stand_for_a_response),
		cmocka_unit_test(a_read_of_long_ago_is_acknowledged_long_since),
		cmocka_unit_test(of_atomics_of_one_psn_the_newest_is_answered_again),
		cmocka_unit_test(a_part_of_a_read_is_for_peers_that_know_parts),
		cmocka_unit_test(parts_have_a_bound),
		cmocka_unit_test(a_right_that_goes_ends_parts),
		cmocka_unit_test(a_right_that_goes_ends_the_responses),
		cmocka_unit_test(reads_need_a_depth),
		cmocka_unit_test(another_device_has_other_queue_pairs),
		cmocka_unit_test(nothing_arrives_in_init),
		cmocka_unit_test(a_write_does_not_go_on_beyond_its_length),
		cmocka_unit_test(another_service_is_not_heard),
		cmocka_unit_test(a_forged_congestion_notification_changes_nothing),
		cmocka_unit_test(no_address_begins_again_at_zero),
		cmocka_unit_test(a_swap_on_demand_compares),
		cmocka_unit_test(shared_receives_lie_in_their_own_domain),
		cmocka_unit_test(only_what_completes_a_receive_is_solicited),
		cmocka_unit_test(receives_tell_of_immediate_data),
		cmocka_unit_test(a_read_into_read_only_memory_is_not_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
