/* What goes wrong for good: the requester's status, the responder's event and state, and that memory stays as it was. */
#include "engine_test.h"

#include "wire/aeth.h"
#include "wire/packet.h"

enum { BYTES = 2500 };

static struct pair *start(enum ibv_qp_type type, int qp_access, uint8_t rd_atomic)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 3 }, .type = type, .qp_access = qp_access, .dest_rd_atomic = rd_atomic,
		.timeout = 6, .retry_cnt = 2, .rnr_retry = 1, .min_rnr_timer = 1, .psn = { 77, 0xffffff },
	});

	pattern_fill(pair->side[0].memory, 8192, 1);
	return pair;
}

/* The second of three WQEs fails: the first succeeded, the third is flushed. */
static void expect_failed(struct pair *pair, enum ibv_wc_status status, enum ibv_event_type event)
{
	struct pair_side *peer = &pair->side[1];

	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, status);
	expect_sent(pair, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_ERR);
	assert_int_equal(peer->target->state, IBV_QPS_ERR);
	assert_int_equal(sim_events(peer->node, event), event ? 1 : 0);
	assert_int_equal(sim_events(pair->side[0].node, IBV_EVENT_QP_FATAL), 0);
}

static void post_around(struct pair *pair, const struct pair_wr *wr)
{
	struct pair_wr around = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 100, .remote = 60000 };

	post_wr(pair, 0, around);
	assert_int_equal(pair_send(pair, 0, wr), 0);
	around.wr_id = 3;
	post_wr(pair, 0, around);
}

#define BAD_ACCESS IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR
#define BAD_REQUEST IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR

static const struct refusal {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t remote, bytes;
	uint32_t key_xor;
	int qp_access;
	enum ibv_wc_status status;
	enum ibv_event_type event;
} refusals[] = {
	{ "one byte too far", IBV_WR_RDMA_WRITE, (64 << 10) - BYTES + 1, BYTES, 0, 0, BAD_ACCESS },
	{ "read too far", IBV_WR_RDMA_READ, (64 << 10) - 1, BYTES, 0, 0, BAD_ACCESS },
	{ "stale key", IBV_WR_RDMA_WRITE, 10000, BYTES, 0x01, 0, BAD_ACCESS },
	{ "foreign key", IBV_WR_RDMA_READ, 10000, BYTES, 0x10000, 0, BAD_ACCESS },
	{ "atomic, stale key", IBV_WR_ATOMIC_FETCH_AND_ADD, 10000, 8, 0x01, 0, BAD_ACCESS },
	{ "immediate, stale key", IBV_WR_RDMA_WRITE_WITH_IMM, 10000, BYTES, 0x01, 0, BAD_ACCESS },
	{ "misaligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 10004, 8, 0, 0, BAD_REQUEST },
	{ "reads off", IBV_WR_RDMA_READ, 10000, BYTES, 0, IBV_ACCESS_REMOTE_WRITE, BAD_REQUEST },
	{ "atomics off", IBV_WR_ATOMIC_CMP_AND_SWP, 10000, 8, 0, IBV_ACCESS_REMOTE_WRITE, BAD_REQUEST },
};

static void remote_refusals(void **state)
{
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *row = &refusals[i];
		struct pair *pair = start(i % 2 ? IBV_QPT_XRC_SEND : IBV_QPT_RC, row->qp_access, 4);
		struct pair_wr wr = { .wr_id = 2, .opcode = row->opcode, .remote = row->remote, .bytes = row->bytes };

		print_message("%s\n", row->name);
		wr.rkey = pair->side[1].mr->key ^ row->key_xor;
		pair_recv(pair, 1, 9, 20000, 4096);
		post_around(pair, &wr);
		expect_failed(pair, row->status, row->event);
		for (uint32_t at = 8000; at < 59000; at++)
			assert_int_equal(pair->side[1].memory[at], 0);
		pair_delete(pair);
	}
}

static void writes_off(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, IBV_ACCESS_REMOTE_READ, 4);

	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 10 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	pair_delete(pair);
}

/* Two reads at a responder that holds one. */
static void too_many_reads(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 1, .link = { .room = 4 } }, .rd_atomic = 8, .dest_rd_atomic = 1,
	});

	for (unsigned i = 0; i < 8; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_RDMA_READ, .bytes = 8000 });
	pair_run(pair);
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_QP_REQ_ERR), 1);
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_ERR);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_ERR);
	pair_delete(pair);
}

/* The receive is too small: the receiver learns it, the sender's request was invalid. */
static void receive_too_small(void **state)
{
	for (uint32_t room = 0; room < BYTES; room += 1249) {
		struct pair *pair = start(IBV_QPT_RC, 0, 4);

		pair_recv(pair, 1, 9, 20000, room);
		pair_recv(pair, 1, 10, 40000, 100);
		post_around(pair, &(struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_SEND, .bytes = BYTES });
		expect_failed(pair, IBV_WC_REM_INV_REQ_ERR, 0);
		expect_received(pair, 1, 9, IBV_WC_LOC_LEN_ERR);
		expect_received(pair, 1, 10, IBV_WC_WR_FLUSH_ERR);
		for (uint32_t at = 20000 + room; at < 40000; at++)
			assert_int_equal(pair->side[1].memory[at], 0);
		pair_delete(pair);
	}
}

static void receive_buffer_gone(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 0, 4);
	struct ibv_sge sge = { PAIR_IOVA, 4096, pair->side[1].mr->key ^ 1 };
	struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	const struct ibv_recv_wr *bad;

	assert_int_equal(qp_post_recv(pair->side[1].qp, 1, &wr, &bad), 0);
	post_around(pair, &(struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_SEND, .bytes = BYTES });
	expect_failed(pair, IBV_WC_REM_OP_ERR, 0);
	expect_received(pair, 1, 9, IBV_WC_LOC_PROT_ERR);
	pair_delete(pair);
}

/* The region goes while a read is being answered: what was not sent yet is refused. */
static void region_goes_during_a_read(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 1, .link = { .room = 2 } }, .mtu = IBV_MTU_256 });
	struct mr *mr;

	assert_int_equal(mr_create(pair->side[1].pd, pair->side[1].memory, 32768, PAIR_IOVA, PAIR_ACCESS, &mr), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 8192, .rkey = mr->key });
	sim_run(pair->sim, pair->sim->now + 5000);
	assert_int_equal(mr_destroy(mr), 0);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_QP_ACCESS_ERR), 1);
	pair_delete(pair);
}

/* The same for a write: each packet is checked, nothing is placed after the key is dead. */
static void region_goes_during_a_write(void **state)
{
	struct pair *pair = pair_new(&(struct pair_config){ .sim = { .seed = 1, .link = { .room = 2 } }, .mtu = IBV_MTU_256 });
	struct mr *mr;

	pattern_fill(pair->side[0].memory, 8192, 1);
	assert_int_equal(mr_create(pair->side[1].pd, pair->side[1].memory, 32768, PAIR_IOVA, PAIR_ACCESS, &mr), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 8192, .rkey = mr->key });
	sim_run(pair->sim, pair->sim->now + 5000);
	assert_int_equal(mr_destroy(mr), 0);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_true(pattern_holds(pair->side[1].memory, 256, 1));
	assert_int_equal(pair->side[1].memory[8191], 0);
	pair_delete(pair);
}

/* On-demand memory that is not there. */
static void memory_gone(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 0, 4);
	struct mr *mr;

	assert_int_equal(mr_create(pair->side[1].pd, pair->side[1].memory, 32768, PAIR_IOVA,
				   PAIR_ACCESS | IBV_ACCESS_ON_DEMAND, &mr), 0);
	pair->side[1].node->memory_gone = true;
	post_around(pair, &(struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = 100, .rkey = mr->key });
	expect_failed(pair, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
	pair_delete(pair);
}

/* ---- the requester's own faults: nothing goes out, earlier requests complete first ---- */

static void local_fault(struct ibv_sge sge, enum ibv_wr_opcode opcode, enum ibv_wc_status status)
{
	struct pair *pair = start(IBV_QPT_RC, 0, 4);
	struct ibv_send_wr *bad, wr = { .wr_id = 2, .opcode = opcode, .sg_list = &sge, .num_sge = 1 };

	wr.wr.rdma.remote_addr = PAIR_IOVA;
	wr.wr.rdma.rkey = pair->side[1].mr->key;
	if (!sge.lkey)
		sge.lkey = pair->side[0].mr->key;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES, .remote = 30000 });
	assert_int_equal(qp_post_send(pair->side[0].qp, 1, &wr, &bad), 0);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES, .remote = 30000 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 2, status);
	expect_sent(pair, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_ERR);
	assert_int_equal(pair->side[1].qp->state, IBV_QPS_RTS);
	pair_delete(pair);
}

static void local_faults(void **state)
{
	local_fault((struct ibv_sge){ PAIR_IOVA + 65530, 100, 0 }, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR);
	local_fault((struct ibv_sge){ PAIR_IOVA + 60000, 20000, 0 }, IBV_WR_SEND, IBV_WC_LOC_PROT_ERR);
	local_fault((struct ibv_sge){ PAIR_IOVA, 100, 0x12345 }, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR);
	local_fault((struct ibv_sge){ PAIR_IOVA, 100, 0 }, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_LOC_LEN_ERR);
}

static void no_initiator_depth(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 0, 4);

	pair->side[0].qp->attr.max_rd_atomic = 0;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 10 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_LOC_QP_OP_ERR);
	pair_delete(pair);
}

/* ---- packets that a well-behaved peer does not send ---- */

static void forge(struct pair *pair, uint8_t opcode, psn_t psn, uint32_t bytes)
{
	static uint8_t data[PACKET_MAX_PAYLOAD];
	struct packet p = {
		.opcode = opcode, .dest_qpn = pair->side[1].qp->qpn, .pkey = 0xffff, .psn = psn, .path = { .slid = 1, .dlid = 2 },
		.reth = { PAIR_IOVA, pair->side[1].mr->key, 3000 },
		.payload = &(struct iovec){ data, bytes }, .payload_iovs = 1, .payload_bytes = bytes,
	};

	ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &p);
	sim_pump(pair->sim);
}

static const struct forgery {
	const char *name;
	struct { uint8_t opcode; uint32_t bytes; } packet[2];
	bool refused;
} forgeries[] = {
	{ "middle first", { { OPCODE_RC_SEND_MIDDLE, 1024 } }, true },
	{ "last first", { { OPCODE_RC_RDMA_WRITE_LAST, 10 } }, true },
	{ "short first", { { OPCODE_RC_SEND_FIRST, 1000 } }, true },
	{ "long only", { { OPCODE_RC_SEND_ONLY, 1025 } }, true },
	{ "only beside its length", { { OPCODE_RC_RDMA_WRITE_ONLY, 1000 } }, true },
	{ "first after first", { { OPCODE_RC_SEND_FIRST, 1024 }, { OPCODE_RC_SEND_FIRST, 1024 } }, true },
	{ "write in a send", { { OPCODE_RC_SEND_FIRST, 1024 }, { OPCODE_RC_RDMA_WRITE_MIDDLE, 1024 } }, true },
	{ "read in a send", { { OPCODE_RC_SEND_FIRST, 1024 }, { OPCODE_RC_RDMA_READ_REQUEST, 0 } }, true },
	{ "empty last", { { OPCODE_RC_SEND_FIRST, 1024 }, { OPCODE_RC_SEND_LAST, 0 } }, true },
	{ "write ends early", { { OPCODE_RC_RDMA_WRITE_FIRST, 1024 }, { OPCODE_RC_RDMA_WRITE_LAST, 1000 } }, true },
	{ "flush", { { OPCODE_RC_FLUSH, 0 } }, true },
	{ "another service", { { OPCODE_UC_SEND_ONLY, 10 } }, false },
	{ "an answer to nothing", { { OPCODE_RC_ACKNOWLEDGE, 0 } }, false },
	{ "a response to nothing", { { OPCODE_RC_RDMA_READ_RESPONSE_ONLY, 10 } }, false },
};

static void forged_requests(void **state)
{
	for (unsigned i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
		const struct forgery *f = &forgeries[i];
		struct pair *pair = start(IBV_QPT_RC, 0, 4);
		unsigned n = f->packet[1].opcode || f->packet[1].bytes ? 2 : 1;

		print_message("%s\n", f->name);
		pair_recv(pair, 1, 9, 20000, 4096);
		for (unsigned k = 0; k < n; k++)
			forge(pair, f->packet[k].opcode, 77 + k, f->packet[k].bytes);
		assert_int_equal(pair->side[1].qp->state, f->refused ? IBV_QPS_ERR : IBV_QPS_RTS);
		assert_int_equal(sim_events(pair->side[1].node, IBV_EVENT_QP_REQ_ERR), f->refused);
		pair_delete(pair);
	}
}

/* Wrong source, partition, queue pair or state: as if nothing had come. A packet of the peer's comes first, so that the host is
 * not asked again whose packets these are. */
static void foreign_packets(void **state)
{
	for (unsigned i = 0; i < 5; i++) {
		struct pair *pair = start(IBV_QPT_RC, 0, 4);
		struct packet p = { .opcode = OPCODE_RC_SEND_ONLY, .dest_qpn = pair->side[1].qp->qpn, .pkey = 0xffff, .psn = 77,
				    .path = { .slid = 1, .dlid = 2 },
				    .payload = &(struct iovec){ "x", 1 }, .payload_iovs = 1, .payload_bytes = 1 };

		pair_recv(pair, 1, 8, 20000, 4096);
		pair_recv(pair, 1, 9, 20000, 4096);
		ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &p);
		expect_received(pair, 1, 8, IBV_WC_SUCCESS);
		p.psn++;
		p.path.slid = i == 0 ? 3 : 1;
		p.pkey = i == 1 ? 0x8001 : i == 2 ? 0x7fff : 0xffff;
		p.dest_qpn ^= i == 3;
		if (i == 4)
			qp_modify(pair->side[1].qp, 1, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE);
		ca_input(&pair->side[1].node->ca, pair->side[1].node->dev, pair->sim->now, 1, &p);
		if (i == 2)	/* a limited member may talk to a full one */
			expect_received(pair, 1, 9, IBV_WC_SUCCESS);
		else if (i == 4)
			expect_received(pair, 1, 9, IBV_WC_WR_FLUSH_ERR);
		expect_nothing(pair, 1);
		pair_delete(pair);
	}
}

/* A response of the wrong size or kind. */
static void bad_responses(void **state)
{
	static const uint8_t opcode[] = {
		OPCODE_RC_RDMA_READ_RESPONSE_ONLY, OPCODE_RC_RDMA_READ_RESPONSE_LAST, OPCODE_RC_ATOMIC_ACKNOWLEDGE,
	};

	for (unsigned i = 0; i < 3; i++) {
		struct pair *pair = start(IBV_QPT_RC, 0, 4);
		uint8_t data[1024] = { 0 };
		struct packet p = { .opcode = opcode[i], .dest_qpn = pair->side[0].qp->qpn, .pkey = 0xffff, .psn = 77,
				    .path = { .slid = 2, .dlid = 1 },
				    .payload = &(struct iovec){ data, 1024 }, .payload_iovs = 1, .payload_bytes = 1024 };

		pair->side[1].node->deaf = true;
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_READ, .bytes = 3000 });
		ca_input(&pair->side[0].node->ca, pair->side[0].node->dev, pair->sim->now, 2, &p);
		expect_sent(pair, 0, 1, IBV_WC_BAD_RESP_ERR);
		pair_delete(pair);
	}
}

/* XRC: an SRQ that does not exist, and one that goes while a message is under way: then the QP dies with it, silently. */
static void xrc_without_srq(void **state)
{
	struct pair *pair = start(IBV_QPT_XRC_SEND, 0, 4);
	uint32_t srqn = pair->side[1].srq->srqn;

	assert_int_equal(srq_destroy(pair->side[1].srq), 0);
	pair->side[1].srq = &(struct srq){ .srqn = srqn };
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 100 });
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	pair_delete(pair);

	pair = pair_new(&(struct pair_config){
		.sim = { .seed = 1, .link = { .room = 1 } }, .type = IBV_QPT_XRC_SEND, .retry_cnt = 1,
	});
	pair_recv(pair, 1, 1, 0, 8192);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 8192 });
	sim_run(pair->sim, pair->sim->now + 3000);
	assert_int_equal(srq_destroy(pair->side[1].srq), 0);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(pair->side[1].target->state, IBV_QPS_ERR);
	pair_delete(pair);
}

static void destroyed_while_the_peer_sends(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 0, 4);

	pair_recv(pair, 1, 9, 20000, 8192);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 8192 });
	assert_int_equal(qp_destroy(pair->side[1].qp), 0);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_RETRY_EXC_ERR);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(remote_refusals),
		cmocka_unit_test(writes_off),
		cmocka_unit_test(too_many_reads),
		cmocka_unit_test(receive_too_small),
		cmocka_unit_test(receive_buffer_gone),
		cmocka_unit_test(region_goes_during_a_read),
		cmocka_unit_test(region_goes_during_a_write),
		cmocka_unit_test(memory_gone),
		cmocka_unit_test(local_faults),
		cmocka_unit_test(no_initiator_depth),
		cmocka_unit_test(forged_requests),
		cmocka_unit_test(foreign_packets),
		cmocka_unit_test(bad_responses),
		cmocka_unit_test(xrc_without_srq),
		cmocka_unit_test(destroyed_while_the_peer_sends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
