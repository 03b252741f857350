/* Datagrams that find no receive wait for one, for a while, when their sender can be asked to wait too. */
#include "engine_test.h"
#include "parts.h"

#include "ib/ud_wait.h"

enum { GRH = 40, MTU = 2048, QKEY = 0x1234 };

static struct ca_ops ops;
static bool is_far;		/* the sender is nobody who can be asked */
static unsigned held, let_go;
static uint32_t last_source, last_dest;

static bool hold(void *owner, uint32_t src_qpn, uint32_t dest_qpn)
{
	(void)owner;
	held += !is_far;
	last_source = src_qpn;
	last_dest = dest_qpn;
	return !is_far;
}

static void release(void *owner, uint32_t dest_qpn)
{
	(void)owner;
	assert_int_equal(dest_qpn, last_dest);
	let_go++;
}

static struct pair *start(bool shared)
{
	struct pair *pair = pair_new(&(struct pair_config){
		.sim = { .seed = 5, .mtu = IBV_MTU_2048 }, .type = IBV_QPT_UD, .shared_receives = shared, .recvs = 16,
		.sends = 4096, .psn = { 0xfffff0, 9 },
	});

	ops = *pair->side[1].node->ca.ops;
	ops.hold = hold;
	ops.let_go = release;
	pair->side[1].node->ca.ops = &ops;
	pattern_fill(pair->side[0].memory, 8192, 1);
	is_far = false;
	held = let_go = 0;
	return pair;
}

static const struct counters *counters_of(const struct pair *pair)
{
	return &pair->side[1].node->ca.counters;
}

static void run_for(struct pair *pair, wtime ns)
{
	wtime until = pair->sim->now + ns;

	sim_run(pair->sim, until);
	if (pair->sim->now < until)
		sim_advance(pair->sim, until - pair->sim->now);
}

/* Datagrams of first, first + 1, ... bytes arrive. */
static void send(struct pair *pair, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		post_wr(pair, 0, (struct pair_wr){ .wr_id = i, .opcode = IBV_WR_SEND, .bytes = i, .imm = i });
	run_for(pair, WTIME_MS / 2);
	for (unsigned i = first; i < first + n; i++)
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
}

static void receive(struct pair *pair, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pair_recv(pair, 1, i, i * 2200, GRH + MTU), 0);
}

static void expect(struct pair *pair, unsigned first, unsigned n)
{
	struct cqe cqe;

	for (unsigned i = first; i < first + n; i++) {
		assert_true(pair_poll_recv(pair, 1, &cqe));
		assert_int_equal(cqe.byte_len, GRH + i);
		assert_int_equal(cqe.src_qp, pair->side[0].qp->qpn);
		assert_true(pattern_holds(pair->side[1].memory + cqe.wr_id * 2200 + GRH, i, 1));
	}
	expect_nothing(pair, 1);
}

static void expect_none_waits(const struct pair *pair)
{
	assert_int_equal(pair->side[1].node->ca.waiting_bytes, 0);
	assert_int_equal(ud_wait_deadline(pair->side[1].qp), WTIME_NEVER);
}

/* In order, also with those that come while others wait. */
static void who_is_late_loses_nothing(void **state)
{
	struct pair *pair = start(false);

	receive(pair, 4);
	send(pair, 0, 10);
	expect(pair, 0, 4);
	assert_int_equal(held, 6);
	assert_int_equal(last_source, pair->side[0].qp->qpn);
	assert_int_equal(last_dest, pair->side[1].qp->qpn);
	run_for(pair, 450 * WTIME_MS);
	receive(pair, 2);
	expect(pair, 4, 2);
	assert_int_equal(let_go, 0);
	send(pair, 10, 2);
	receive(pair, 9);
	expect(pair, 6, 6);
	assert_int_equal(let_go, 1);
	expect_none_waits(pair);
	send(pair, 12, 3);
	expect(pair, 12, 3);
	assert_int_equal(counters_of(pair)->waited_datagrams, 8);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 0);
	pair_delete(pair);
}

/* And who waited in vain waits no more, until it has received something. */
static void the_wait_has_an_end(void **state)
{
	struct pair *pair = start(false);

	send(pair, 1, 3);
	run_for(pair, 499 * WTIME_MS);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 0);
	run_for(pair, WTIME_MS);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 3);
	assert_int_equal(let_go, 1);
	expect_none_waits(pair);
	send(pair, 1, 5);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 8);
	assert_int_equal(held, 3);
	receive(pair, 1);
	expect_nothing(pair, 1);
	pair_delete(pair);
}

/* 10 us for each that was received, and no more than there was. */
static void patience_is_used_up_and_comes_back(void **state)
{
	struct pair *pair = start(false);

	send(pair, 1, 1);
	run_for(pair, 501 * WTIME_MS);
	for (unsigned i = 0; i < 20; i++) {
		receive(pair, 16);
		send(pair, 20, 16);
		expect(pair, 20, 16);
	}
	send(pair, 1, 1);
	assert_int_equal(ud_wait_deadline(pair->side[1].qp) - engine_of(pair->side[1].qp)->waiting->since, 320 * 10 * WTIME_US);
	run_for(pair, 2 * WTIME_MS);
	receive(pair, 1);
	expect(pair, 1, 1);
	send(pair, 2, 1);	/* 2.5 ms are used up, and one datagram was received */
	assert_int_equal(counters_of(pair)->dropped_datagrams, 1);
	run_for(pair, WTIME_MS);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 2);
	pair_delete(pair);
}

static void nobody_waits_for_others(void **state)
{
	for (int kind = 0; kind < 3; kind++) {
		struct pair *pair = start(kind == 0);

		is_far = kind == 1;
		if (kind == 2)
			ops.hold = NULL;
		send(pair, 1, 3);
		assert_int_equal(counters_of(pair)->dropped_datagrams, 3);
		assert_int_equal(held, 0);
		assert_null(kind == 0 ? engine_of(pair->side[1].qp)->waiting : NULL);
		expect_none_waits(pair);
		pair_delete(pair);
	}
}

static void of_another_host_they_are_dropped(void **state)
{
	struct pair *pair = start(false);
	uint8_t payload[8] = { 0 };
	struct iovec iov = { payload, sizeof(payload) };
	struct packet p = {
		.path = { .slid = 1, .dlid = 2 }, .opcode = OPCODE_UD_SEND_ONLY, .pkey = 0xffff,
		.dest_qpn = pair->side[1].qp->qpn, .deth = { QKEY, pair->side[0].qp->qpn },
		.payload = &iov, .payload_iovs = 1, .payload_bytes = sizeof(payload),
	};

	assert_false(ud_wait_keep(pair->side[1].qp, ORIGIN_NETWORK, &p));
	p.dest_qpn = 0xffffff;
	assert_false(ud_wait_keep(pair->side[1].qp, node_origin(pair->side[0].node), &p));
	p.dest_qpn = pair->side[1].qp->qpn;
	assert_true(ud_wait_keep(pair->side[1].qp, node_origin(pair->side[0].node), &p));
	pair_delete(pair);
	assert_int_equal(let_go, 1);
}

static void a_qp_that_stops_drops_them(void **state)
{
	for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to += IBV_QPS_ERR) {
		struct pair *pair = start(false);

		send(pair, 1, 3);
		assert_int_equal(held, 3);
		assert_int_equal(qp_modify(pair->side[1].qp, pair->sim->now,
					   &(struct ibv_qp_attr){ .qp_state = (enum ibv_qp_state)to }, IBV_QP_STATE), 0);
		assert_int_equal(let_go, 1);
		assert_int_equal(counters_of(pair)->dropped_datagrams, 3);
		expect_none_waits(pair);
		run_for(pair, 1000 * WTIME_MS);
		pair_delete(pair);
	}
}

/* One that comes when a receive was announced whose memory is refused, which ends the QP. */
static void a_qp_that_fails_keeps_none(void **state)
{
	struct pair *pair = start(false);
	struct pair_side *s = &pair->side[1];
	struct ibv_sge refused = { PAIR_IOVA, GRH + MTU, s->mr->key ^ 1 };
	struct ibv_recv_wr wr = { .sg_list = &refused, .num_sge = 1 };
	struct ud_wait **waiting = &engine_of(s->qp)->waiting, *w;
	const struct ibv_recv_wr *bad;

	(void)state;
	send(pair, 1, 1);
	w = *waiting;
	*waiting = NULL;		/* the engine, apart, has not been told of it yet */
	assert_int_equal(qp_post_recv(s->qp, pair->sim->now, &wr, &bad), 0);
	*waiting = w;
	send(pair, 2, 1);
	assert_int_equal(s->qp->state, IBV_QPS_ERR);
	assert_int_equal(held, 1);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 1);
	expect_none_waits(pair);
	pair_delete(pair);
}

/* What does not fit is dropped; the receive is the next one's. */
static void one_that_is_too_long_is_dropped(void **state)
{
	struct pair *pair = start(false);

	send(pair, 100, 1);
	send(pair, 10, 1);
	assert_int_equal(pair_recv(pair, 1, 0, 0, GRH + 50), 0);
	expect(pair, 10, 1);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 1);
	assert_int_equal(let_go, 1);
	pair_delete(pair);
}

/* 8 MB wait for the QPs of an adapter at most. */
static void they_have_a_quota(void **state)
{
	struct pair *pair = start(false);

	for (unsigned i = 0; i < 4000; i++) {
		post_wr(pair, 0, (struct pair_wr){ .wr_id = 1, .opcode = IBV_WR_SEND, .bytes = MTU });
		run_for(pair, 20 * WTIME_US);
	}
	assert_in_range(pair->side[1].node->ca.waiting_bytes, (8 << 20) - 2 * MTU, 8 << 20);
	assert_int_equal(counters_of(pair)->waited_datagrams, held);
	assert_int_equal(counters_of(pair)->dropped_datagrams, 4000 - held);
	assert_in_range(held, 3000, 3999);
	pair_delete(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_late_loses_nothing),
		cmocka_unit_test(the_wait_has_an_end),
		cmocka_unit_test(patience_is_used_up_and_comes_back),
		cmocka_unit_test(nobody_waits_for_others),
		cmocka_unit_test(of_another_host_they_are_dropped),
		cmocka_unit_test(a_qp_that_stops_drops_them),
		cmocka_unit_test(a_qp_that_fails_keeps_none),
		cmocka_unit_test(one_that_is_too_long_is_dropped),
		cmocka_unit_test(they_have_a_quota),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
