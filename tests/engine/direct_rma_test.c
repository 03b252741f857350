/* Where direct messages, direct requests and packets of one QP meet: none overtakes what nobody has heard of, packets that are
 * lost among messages are probed for, and a link that was full once does not make the rest of a long send packets. */
#include "engine_test.h"

#include "ib/engine.h"
#include "verbs/direct.h"
#include "verbs/mr.h"

enum { BYTES = 64, LONG_BYTES = 16 << 20, PARTS = LONG_BYTES / DIRECT_SLICE, FULL_AFTER = 6, TIMEOUT = 14 };

static const wtime TIMEOUT_NS = 4096ull << TIMEOUT;

/* The way to the peer. */
static struct {
	bool executes, sends;	/* direct requests; messages */
	unsigned executed, sent;
	unsigned at_once;	/* of those executed: writes of one piece */
	unsigned full_after;	/* messages; then there is no room, or 0 */
	bool is_full;
	psn_t received;		/* what the peer says that it has executed */
	struct ca_ops ops;
} way;

static bool execute(void *owner, struct qp *qp, struct direct_request *r)
{
	way.executed += way.executes;
	if (way.executes && r && r->op == OP_READ_REQUEST)
		memset(r->iov->iov_base, 0x5a, r->iov->iov_len);
	else if (r)
		r->original = r->op == OP_CMP_SWAP ? r->compare + r->operand : 41 + r->operand;
	return way.executes;
}

static enum direct_write write(void *owner, struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes)
{
	way.at_once++;
	return execute(owner, qp, NULL) ? WRITE_DONE : WRITE_REFUSED;
}

static bool connect(void *owner, struct qp *qp)
{
	qp->direct_path.channel = &way;
	return way.sends;
}

static bool send(void *owner, struct qp *qp, const struct direct_message *m)
{
	if (way.full_after && way.sent == way.full_after) {
		way.full_after = 0;
		way.is_full = true;
	}
	if (way.is_full)
		return false;
	way.sent++;
	return true;
}

static bool send_short(void *owner, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited)
{
	return send(owner, qp, NULL);
}

static bool received(void *owner, struct qp *qp, psn_t *psn)
{
	*psn = way.received;
	return true;
}

static unsigned room(void *owner, const struct ca_device *dev, const struct route *r, const struct av *av)
{
	return !way.is_full;
}

static void hide(void *owner, struct qp *qp)
{
	qp->published = 0;
}

static const struct direct_ops direct = {
	.publish_qp = hide, .unpublish_qp = hide, .execute = execute, .write = write, .connect = connect, .send = send,
	.send_short = send_short, .received = received,
};

static struct pair *start(enum ibv_qp_type type, uint32_t memory)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 9 }, .type = type, .memory_bytes = memory, .timeout = TIMEOUT, .retry_cnt = 7,
		.min_rnr_timer = 1,
	});
	struct ca *ca = &pair->side[0].node->ca;

	memset(&way, 0, sizeof(way));
	way.ops = *ca->ops;
	way.ops.space = room;
	way.received = psn_add(pair->config.psn[0], -1);
	ca->ops = &way.ops;
	ca->direct = &direct;
	return pair;
}

static void finish(struct pair *pair)
{
	pair->side[0].node->ca.direct = NULL;
	pair_delete(pair);
}

static void write_one(struct pair *pair, uint64_t wr_id)
{
	post_wr(pair, 0, (struct pair_wr){ .wr_id = wr_id, .opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES });
}

/* After as many packets as there are PSNs the next PSN is the first again, and the last packet is still on its way. */
static void a_direct_write_of_uc_does_not_overtake_a_packet(void **state)
{
	struct pair *pair = start(IBV_QPT_UC, 0);
	struct flight *f = &engine_of(pair->side[0].qp)->flight;

	write_one(pair, 0);
	f->psn = psn_add(pair->side[0].qp->attr.sq_psn, -1);
	write_one(pair, 1);
	assert_int_equal(f->psn, pair->side[0].qp->attr.sq_psn);
	way.executes = true;
	write_one(pair, 2);
	assert_int_equal(way.executed, 0);
	assert_int_equal(pair->side[0].node->sent, 3);
	finish(pair);
}

/* The program polls all the time: that is no sign of life of the peer. */
static void a_packet_lost_behind_a_message_is_probed_for(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 0);
	struct ca *ca = &pair->side[0].node->ca;
	wtime since;

	assert_int_equal(pair_recv(pair, 1, 1, 0, 4096), 0);
	way.sends = true;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = BYTES });
	assert_int_equal(way.sent, 1);
	way.sends = false;
	sim_fault_add(pair->sim, SIM_DROP, 0, 0);
	write_one(pair, 2);
	assert_int_equal(pair->sim->dropped, 1);
	/* the peer has executed the message, and then one more is under way behind the lost packet */
	way.received = pair->config.psn[0];
	way.sends = true;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_SEND, .bytes = BYTES });
	assert_int_equal(way.sent, 2);
	since = pair->sim->now;
	while (pair->sim->now < since + TIMEOUT_NS && !ca->counters.probes) {
		ca_read_acks(ca, pair->sim->now, UINT32_MAX);
		sim_advance(pair->sim, 50 * WTIME_US);
		ca_expire(ca, pair->sim->now);
		sim_pump(pair->sim);
	}
	assert_true(ca->counters.probes > 0);
	finish(pair);
}

static void a_full_link_does_not_make_a_long_send_packets(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, LONG_BYTES);
	struct ca *ca = &pair->side[0].node->ca;
	struct qp *qp = pair->side[0].qp;

	way.sends = true;
	way.full_after = FULL_AFTER;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = LONG_BYTES });
	/* a few parts may be under way: the peer executes them */
	for (unsigned i = 0; i < 2 * PARTS && way.sent < PARTS; i++) {
		way.received = psn_add(engine_of(qp)->flight.psn, -1);
		ca_read_acks(ca, pair->sim->now, UINT32_MAX);
		sim_pump(pair->sim);
		if (!way.is_full)
			continue;
		assert_int_equal(way.sent, FULL_AFTER);
		way.is_full = false;
		ca_unblock(ca);
		sim_pump(pair->sim);
	}
	assert_int_equal(way.sent, PARTS);
	assert_int_equal(pair->side[0].node->sent, 0);
	way.received = psn_add(engine_of(qp)->flight.psn, -1);
	ca_read_acks(ca, pair->sim->now, UINT32_MAX);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	finish(pair);
}

/* Nobody else gets the process's lock in the middle of one. */
static void a_long_write_is_no_single_copy(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, LONG_BYTES);

	way.executes = true;
	write_one(pair, 1);
	assert_int_equal(way.at_once, 1);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .bytes = LONG_BYTES });
	sim_pump(pair->sim);
	assert_int_equal(way.at_once, 1);
	assert_true(way.executed > 2);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	finish(pair);
}

/* Its WQE is not in the ring, and all that is asked of a completion is known all the same. */
static void a_write_is_executed_and_completed_as_it_is_posted(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 0);
	struct qp *qp = pair->side[0].qp;
	const struct send_wqe *wqe;
	struct cqe cqe;

	way.executes = true;
	write_one(pair, 1);
	assert_int_equal(way.at_once, 1);
	assert_int_equal(qp->messages_sent, 1);
	assert_int_equal(qp->sq.engine.completed, qp->sq.ulp.written);
	assert_true(cq_peek(qp->send_cq, &cqe));
	assert_int_equal(cqe.opcode, IBV_WC_RDMA_WRITE);
	wqe = cq_wqe(qp->send_cq, &cqe);
	assert_non_null(wqe);
	assert_int_equal(wqe->opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(wqe->length, BYTES);
	assert_int_equal(wqe->remote_addr, PAIR_IOVA);
	assert_int_equal(wqe->rkey, pair->side[1].mr->key);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
	/* behind a packet without its ACK, which arrives later, it is a packet too */
	way.executes = false;
	write_one(pair, 2);
	way.executes = true;
	write_one(pair, 3);
	assert_int_equal(way.executed, 1);
	pair_run(pair);
	expect_sent(pair, 0, 2, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 3, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[0].node->ca.counters.direct_writes, 1);
	finish(pair);
}

/* In two pieces they go the longer way. */
static const struct { enum ibv_wr_opcode opcode; enum ibv_wc_opcode completes; uint64_t result; uint32_t bytes; } fetches[] = {
	{ IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, 0x5a5a5a5a5a5a5a5a, BYTES },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, 41 + 7, 8 },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 7 + 9, 8 },
};

static void what_is_fetched_is_executed_as_it_is_posted(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct pair *pair = start(IBV_QPT_RC, 0);
		struct qp *qp = pair->side[0].qp;
		struct pair_wr wr = {
			.wr_id = 1, .opcode = fetches[i].opcode, .bytes = fetches[i].bytes, .local = 64, .remote = 32,
			.compare_add = 7, .swap = 9,
		};
		const struct send_wqe *wqe;
		struct cqe cqe;
		uint64_t got;

		way.executes = true;
		post_wr(pair, 0, wr);
		assert_int_equal(way.executed, 1);
		assert_int_equal(qp->sq.engine.completed, qp->sq.ulp.written);
		wqe = queue_ring_at(&qp->sq.engine.ring, 0);
		assert_int_equal(wqe->length, 0);	/* nothing is there */
		assert_true(cq_peek(qp->send_cq, &cqe));
		assert_int_equal(cqe.opcode, fetches[i].completes);
		assert_int_equal(cqe.byte_len, wr.bytes);
		wqe = cq_wqe(qp->send_cq, &cqe);
		assert_int_equal(wqe->remote_addr, PAIR_IOVA + 32);
		assert_int_equal(wqe->rkey, pair->side[1].mr->key);
		assert_true(i == 0 || (wqe->compare_add == 7 && wqe->swap == 9));
		memcpy(&got, pair->side[0].memory + 64, sizeof(got));
		assert_int_equal(got, fetches[i].result);
		expect_sent(pair, 0, 1, IBV_WC_SUCCESS);
		assert_int_equal(qp->messages_sent, 1);
		assert_int_equal(qp->bytes_received, wr.bytes);
		finish(pair);
	}
}

/* It completes so, and so many were executed by then. */
static void expect_end(struct pair *pair, struct pair_wr wr, enum ibv_wc_status status, unsigned executed)
{
	post_wr(pair, 0, wr);
	pair_run(pair);
	expect_sent(pair, 0, 1, status);
	assert_int_equal(way.executed, executed);
	finish(pair);
}

/* It is executed when its result has a place, and once. */
static void what_cannot_be_fetched_fails_as_ever(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct pair *pair = start(IBV_QPT_RC, 0);
		struct pair_wr wr = { .wr_id = 1, .opcode = fetches[i].opcode, .bytes = fetches[i].bytes };
		struct qp *qp = pair->side[0].qp;
		uint8_t *memory = pair->side[0].memory;
		struct ibv_sge sge = { (uintptr_t)memory, wr.bytes, 0 };
		struct ibv_send_wr *bad, is_inline = { .opcode = wr.opcode, .sg_list = &sge, .num_sge = 1,
						       .send_flags = IBV_SEND_INLINE };
		struct mr *mr;

		way.executes = true;
		qp->ca->direct = NULL;	/* which publishes no region here */
		assert_int_equal(mr_create(pair->side[0].pd, memory, BYTES, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
		qp->ca->direct = &direct;
		sge.lkey = mr->key;
		assert_int_equal(qp_post_send(qp, 0, &is_inline, &bad), -EINVAL);
		qp->attr.max_rd_atomic = 0;
		expect_end(pair, wr, IBV_WC_LOC_QP_OP_ERR, 0);

		pair = start(IBV_QPT_RC, 0);
		way.executes = true;
		pair->side[0].mr->access &= ~IBV_ACCESS_LOCAL_WRITE;
		expect_end(pair, wr, IBV_WC_LOC_PROT_ERR, 0);

		pair = start(IBV_QPT_RC, 0);
		way.executes = true;
		wr.bytes -= 4;
		expect_end(pair, wr, i ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS, i == 0);
	}
}

/* A peer that has no alternate path is published all the same. */
static void what_can_migrate_sends_packets(void **state)
{
	struct pair *pair = start(IBV_QPT_RC, 0);
	struct qp *qp = pair->side[0].qp;
	struct ibv_qp_attr attr = { .alt_ah_attr = qp->attr.ah_attr, .alt_port_num = 1, .path_mig_state = IBV_MIG_REARM };

	way.executes = way.sends = true;
	write_one(pair, 1);
	assert_int_equal(way.executed, 1);
	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
	pair_recv(pair, 1, 7, 0, BYTES);
	write_one(pair, 2);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_SEND, .bytes = BYTES });
	pair_run(pair);
	assert_int_equal(way.executed, 1);
	assert_int_equal(way.sent, 0);
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
		expect_sent(pair, 0, wr_id, IBV_WC_SUCCESS);
	expect_received(pair, 1, 7, IBV_WC_SUCCESS);
	finish(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_direct_write_of_uc_does_not_overtake_a_packet),
		cmocka_unit_test(a_packet_lost_behind_a_message_is_probed_for),
		cmocka_unit_test(a_full_link_does_not_make_a_long_send_packets),
		cmocka_unit_test(a_write_is_executed_and_completed_as_it_is_posted),
		cmocka_unit_test(what_is_fetched_is_executed_as_it_is_posted),
		cmocka_unit_test(what_cannot_be_fetched_fails_as_ever),
		cmocka_unit_test(a_long_write_is_no_single_copy), cmocka_unit_test(what_can_migrate_sends_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
