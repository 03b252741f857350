/* The contexts of a QP and its work queues, field by field, and what the fields do: IPS-13, IPS-16. */
#include "engine_test.h"

#include "ib/engine.h"
#include "verbs/qp_context.h"

#include <errno.h>

enum { MTU = 1024 };

static struct pair *start(enum packet_form form)
{
	return pair_new(&(struct pair_config){
		.sim = { .seed = 4, .form = form, .link = { .delay_ns = 1000 } }, .retry_cnt = 3, .rnr_retry = 7, .timeout = 8,
	});
}

static struct qp_context get(struct qp *qp)
{
	struct qp_context c;

	qp_context_get(qp, &c);
	return c;
}

static void reset(struct pair *pair, struct qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	assert_int_equal(qp_modify(qp, pair->sim->now, &attr, IBV_QP_STATE), 0);
}

static void the_consumer_writes_its_fields(void **state)
{
	struct pair *pair = start(PACKET_ROCE);
	struct qp *qp = pair->side[0].qp;
	struct qp_context c = get(qp), was = c;

	assert_int_equal(c.engine.state, IBV_QPS_RTS);
	assert_int_equal(c.fixed.type, IBV_QPT_RC);
	assert_int_equal(c.fixed.data_segments, 4);
	assert_int_equal(c.fixed.pd, qp->pd->handle);
	assert_int_equal(c.ulp.pmtu_bytes, MTU);
	assert_int_equal(c.ulp.window_out_bytes, IB_WINDOW * MTU);
	assert_int_equal(c.ulp.ack_wait_ns, 4096 << 8);
	c.ulp.retry_limit = 5;
	c.ulp.ack_wait_ns = (4096 << 9) + 1;
	c.ulp.window_out_bytes = 4 * MTU;
	assert_int_equal(qp_context_set(qp, &c), 0);
	c.ulp.ack_wait_ns = 4096 << 10;
	assert_memory_equal(&c, &(struct qp_context[1]){ get(qp) }, sizeof(c));
	assert_int_equal(qp->attr.retry_cnt, 5);
	for (unsigned i = 0; i < 5; i++) {
		struct qp_context bad = c;
		int error = -EBUSY;

		switch (i) {
		case 0: bad.ulp.port = 2; break;
		case 1: bad.ulp.pmtu_bytes = 512; break;
		case 2: bad.ulp.max_reads = 1; break;
		case 3: bad.ulp.ip_version = 4; break;
		default:
			bad.ulp.retry_limit = 8;
			error = -EINVAL;
		}
		assert_int_equal(qp_context_set(qp, &bad), error);
		assert_memory_equal(&c, &(struct qp_context[1]){ get(qp) }, sizeof(c));
	}
	reset(pair, qp);
	c = get(qp);
	c.ulp.port = 1;
	c.ulp.pmtu_bytes = 512;
	c.ulp.max_reads = 2;
	c.ulp.ip_version = was.ulp.ip_version;
	assert_int_equal(qp_context_set(qp, &c), 0);
	assert_int_equal(qp->attr.path_mtu, IBV_MTU_512);
	c = get(qp);
	c.ulp.pmtu_bytes = 1500;
	assert_int_equal(qp_context_set(qp, &c), -EINVAL);
	pair_delete(pair);
}

static void the_engine_writes_the_others(void **state)
{
	struct pair *pair = start(PACKET_IB);
	struct qp *qp = pair->side[0].qp;
	struct qp_context c = get(qp);

	c.engine.state = IBV_QPS_ERR;
	assert_int_equal(qp_context_set(qp, &c), -EPERM);
	c = get(qp);
	c.engine.retries++;
	assert_int_equal(qp_context_set(qp, &c), -EPERM);
	c = get(qp);
	c.fixed.type = IBV_QPT_UC;
	assert_int_equal(qp_context_set(qp, &c), -EPERM);
	c = get(qp);
	c.send.next_wqe += 64;
	assert_int_equal(qp_context_set(qp, &c), -EPERM);
	c = get(qp);
	c.ulp.ip_version = 4;	/* InfiniBand knows no IP */
	assert_int_equal(qp_context_set(qp, &c), -EINVAL);
	pair_delete(pair);
}

/* The path of a connection must be of the version that was asked for. */
static void ip_version_binds_the_path(void **state)
{
	struct pair *pair = start(PACKET_ROCE);
	struct qp *qp = pair->side[0].qp;
	bool is_ipv4 = qp->path.is_ipv4;
	struct qp_context c;

	for (int right = 0; right < 2; right++) {
		reset(pair, qp);
		c = get(qp);
		c.ulp.ip_version = is_ipv4 == right ? 4 : 6;
		assert_int_equal(qp_context_set(qp, &c), 0);
		assert_int_equal(pair_connect(pair, 0, qp, pair->side[1].qp, IBV_QPS_RTR), right ? 0 : -EINVAL);
	}
	pair_delete(pair);
}

static void tap(void *arg, int node, const struct packet *p)
{
	const struct flight *f = &engine_of(arg)->flight;

	assert_true(f->newest - f->oldest <= 4);
}

/* The window in bytes holds packets back; a silent peer shows in the retries, and its ACKs in what receives await. */
static void windows_and_counts_are_what_happens(void **state)
{
	struct pair *pair = start(PACKET_IB);
	struct qp *qp = pair->side[0].qp, *peer = pair->side[1].qp;
	struct qp_context c = get(qp);

	c.ulp.window_out_bytes = 4 * MTU + 100;
	assert_int_equal(qp_context_set(qp, &c), 0);
	pair->sim->tap = tap;
	pair->sim->tap_arg = qp;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .bytes = 20 * MTU });
	assert_int_equal(pair->side[0].node->sent, 4);
	assert_int_equal(get(qp).send.pending_transfers, 0);	/* begun is what left in full */
	c = get(qp);
	c.ulp.window_out_bytes = 2 * MTU;
	assert_int_equal(qp_context_set(qp, &c), -EBUSY);
	pair_run(pair);
	expect_sent(pair, 0, 1, IBV_WC_SUCCESS);

	assert_int_equal(get(peer).engine.window_in_bytes, 0);
	assert_int_equal(pair_recv(pair, 1, 2, 0, 3000), 0);
	assert_int_equal(pair_recv(pair, 1, 3, 0, 500), 0);
	assert_int_equal(get(peer).engine.window_in_bytes, 3500);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_SEND, .bytes = 10 });
	pair_run(pair);
	assert_int_equal(get(peer).engine.window_in_bytes, 500);
	assert_int_equal(get(peer).engine.receives_awaiting_ack, 0);
	pair->side[1].node->deaf = true;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 3, .opcode = IBV_WR_SEND, .bytes = 10 });
	sim_run(pair->sim, pair->sim->now + 2 * (4096 << 8) + 1000);
	assert_int_equal(get(qp).engine.retries, 2);
	pair_delete(pair);
}

/* An acknowledgement that waits for its consumer leaves a receive awaiting it. */
static void receives_await_their_ack(void **state)
{
	struct pair_config config = { .sim = { .seed = 4 }, .retry_cnt = 3, .options = ib_default_options };
	struct pair *pair;

	config.options.ack_when_consumed = true;
	pair = pair_new(&config);
	pair_recv(pair, 1, 1, 0, 100);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = 100 });
	sim_run(pair->sim, pair->sim->now + 100000);
	assert_int_equal(get(pair->side[1].qp).engine.receives_awaiting_ack, 1);
	expect_received(pair, 1, 1, IBV_WC_SUCCESS);
	pair_run(pair);
	assert_int_equal(get(pair->side[1].qp).engine.receives_awaiting_ack, 0);
	pair_delete(pair);
}

/* IPS-16: heads, counts, the CQ's index, and where the last transfer ended. */
static void work_queues_tell_where_they_are(void **state)
{
	struct pair *pair = start(PACKET_IB);
	struct pair_side *s = pair->side;
	struct qp_context before = get(s[0].qp), c;

	assert_int_equal(before.send.cq, s[0].send_cq->handle);
	assert_int_equal(before.recv.cq, s[0].recv_cq->handle);
	assert_int_equal(before.send.head, before.send.next_wqe);
	assert_int_equal(pair_recv(pair, 1, 1, 4096, 3000), 0);
	c = get(s[1].qp);
	assert_int_equal(c.recv.pending_wqes, 1);
	assert_int_not_equal(c.recv.head, c.recv.next_wqe);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .local = 100, .bytes = 2500, .pieces = 3 });
	c = get(s[0].qp);
	assert_int_equal(c.send.pending_wqes, 1);
	assert_int_equal(c.send.pending_transfers, 1);
	assert_int_equal(c.send.after_logical, PAIR_IOVA + 2600);
	assert_ptr_equal((void *)(uintptr_t)c.send.after_memory, s[0].memory + 2600);
	pair_run(pair);
	c = get(s[0].qp);
	assert_int_equal(c.send.pending_wqes, 0);
	assert_int_equal(c.send.head, c.send.next_wqe);
	assert_int_not_equal(c.send.head, before.send.head);
	c = get(s[1].qp);
	assert_int_equal(c.recv.after_logical, PAIR_IOVA + 4096 + 2500);
	assert_ptr_equal((void *)(uintptr_t)c.recv.after_memory, s[1].memory + 4096 + 2500);
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 2, .opcode = IBV_WR_RDMA_READ, .local = 7, .bytes = 5000 });
	pair_run(pair);
	assert_int_equal(get(s[0].qp).send.after_logical, PAIR_IOVA + 7 + 5000);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_consumer_writes_its_fields),
		cmocka_unit_test(the_engine_writes_the_others),
		cmocka_unit_test(ip_version_binds_the_path),
		cmocka_unit_test(windows_and_counts_are_what_happens),
		cmocka_unit_test(receives_await_their_ack),
		cmocka_unit_test(work_queues_tell_where_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
