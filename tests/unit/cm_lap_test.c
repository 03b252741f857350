/* LAP and APR: a connection's second path is agreed on whatever is lost, the conversation goes over to it, and whoever asks for
 * what cannot be hears why (IBA 12.8). */
#include "cm_net.h"

static const struct cm_path alternate[SIDES] = {
	{ .device = 1, .sgid = { 11 }, .dgid = { 12 }, .slid = 0xffff, .dlid = 0xffff, .pkey = 0xffff, .mtu = 3,
	  .ack_timeout = 18, .hop_limit = 64, .tclass = 5, .flow_label = 0x12345, .sl = 3 },
	{ .device = 1, .sgid = { 12 }, .dgid = { 11 }, .slid = 0xffff, .dlid = 0xffff, .pkey = 0xffff, .mtu = 3,
	  .ack_timeout = 18, .hop_limit = 64 },
};

/* Until both ends are established, and nothing is under way. */
static void connect_both(struct net *n, uint8_t apr)
{
	net_init(n, PLAN_LAP);
	n->side[1].apr = apr;
	open_from(n, 0);
	pull(n);
	while (step(n))
		;
	assert_int_equal(n->side[0].established + n->side[1].established, 2);
}

static int ask(struct net *n, int side)
{
	return cm_lap(n->side[side].id, n->now, &alternate[side], "other way", 9);
}

static void run_out(struct net *n)
{
	pull(n);
	while (step(n))
		;
}

/* The next MAD that this side sends. */
static struct cm_msg said(struct net *n, int side)
{
	struct cm_msg msg;
	struct gmp out;

	assert_true(cm_output(&n->side[side].cm, &out));
	assert_true(cm_parse(&msg, out.mad));
	return msg;
}

static void says_nothing(struct net *n, int side)
{
	struct gmp out;

	assert_false(cm_output(&n->side[side].cm, &out));
}

static bool hand(struct net *n, int side, struct cm_msg msg, struct cm_event *event)
{
	uint8_t mad[MAD_BYTES];

	cm_build(&msg, mad);
	return deliver(&n->side[side].cm, side, n->now, mad, event);
}

/* The path is agreed on, one side goes over to it, then the other, and then they part: `first` goes first. */
static void run_faulty(struct net *n, int first)
{
	struct side *a = &n->side[0], *b = &n->side[1];
	int stage = 0;

	b->apr = CM_APR_SUCCESS;
	open_from(n, 0);
	pull(n);
	while (step(n)) {
		assert_true(n->sent < 1000);
		if (stage == 0 && a->established && b->established) {
			assert_int_equal(ask(n, 0), 0);
			stage++;
		} else if (stage == 1 && a->aprs) {
			assert_int_equal(cm_migrated(n->side[first].id), 0);
			assert_int_equal(cm_dreq(a->id, n->now), 0);
			stage++;
		}
		pull(n);
	}
	assert_int_equal(a->apr, CM_APR_SUCCESS);
	assert_int_equal(a->aprs, 1);
	assert_int_equal(b->laps, 1);
	assert_int_equal(a->disconnected, 1);
	assert_int_equal(b->disconnected, 1);
	assert_int_equal(a->timewaits + b->timewaits, 2);
	assert_int_equal(a->unreachable, 0);
	assert_int_equal(b->unreachable, 0);
	assert_int_equal(a->laps_lost, 0);
}

static void lap_survives_every_double_fault(void **state)
{
	enum { MADS = 12 };
	struct net n;

	for (int i = -1; i < MADS; i++)
		for (int j = i; j < MADS; j++)
			for (int kinds = 0; kinds < (FAULTS - 1) * (FAULTS - 1); kinds++)
				for (int first = 0; first < SIDES; first++) {
					net_init(&n, PLAN_LAP);
					n.fault_at[0] = i;
					n.fault_at[1] = j > i ? j : -1;
					n.faults[0] = FAULT_DROP + kinds % (FAULTS - 1);
					n.faults[1] = FAULT_DROP + kinds / (FAULTS - 1);
					run_faulty(&n, first);
					net_fini(&n);
				}
}

static void both_ends_know_the_path(void **state)
{
	struct net n;
	struct cm_id *a, *b;

	is_abroad = true;
	noted_count[0] = noted_count[1] = 0;
	connect_both(&n, CM_APR_SUCCESS);
	a = n.side[0].id;
	b = n.side[1].id;
	assert_int_equal(cm_migrated(a), -EINVAL);
	assert_int_equal(ask(&n, 0), 0);
	assert_int_equal(cm_migrated(a), -EINVAL);	/* it is asked for only */
	run_out(&n);
	assert_int_equal(n.side[0].apr, CM_APR_SUCCESS);
	assert_memory_equal(b->alternate.sgid, alternate[0].dgid, 16);
	assert_memory_equal(b->alternate.dgid, alternate[0].sgid, 16);
	assert_int_equal(b->alternate.ack_timeout, 18);
	assert_int_equal(b->alternate.tclass, 5);
	assert_int_equal(b->alternate.flow_label, 0x12345);
	assert_int_equal(b->alternate.sl, 3);
	assert_int_equal(b->alternate.pkey, 0xffff);
	for (int i = 0; i < SIDES; i++) {
		assert_int_equal(cm_migrated(n.side[i].id), 0);
		assert_int_equal(cm_migrated(n.side[i].id), -EINVAL);
		assert_int_equal(noted_count[i], 1);
		assert_int_equal(noted_last[i].to.dgid[0], port_of(!i) + ALTERNATE);
	}
	/* and another one, from the other side, back to the first */
	assert_int_equal(cm_lap(b, n.now, &path[1], NULL, 0), 0);
	run_out(&n);
	assert_int_equal(n.side[1].apr, CM_APR_SUCCESS);
	assert_int_equal(n.side[0].laps, 1);
	net_fini(&n);
	is_abroad = false;
}

static void refusals_say_why(void **state)
{
	struct cm_event event;
	struct cm_msg lap;
	struct net n;

	connect_both(&n, CM_APR_UNSUPPORTED);
	assert_int_equal(ask(&n, 0), 0);
	assert_int_equal(ask(&n, 0), -EINVAL);	/* one at a time */
	run_out(&n);
	assert_int_equal(n.side[0].apr, CM_APR_UNSUPPORTED);
	assert_int_equal(n.side[0].id->alternate_is, CM_ALTERNATE_NONE);
	assert_int_equal(cm_lap(n.side[0].id, n.now, &path[0], NULL, 0), 0);
	run_out(&n);
	assert_int_equal(n.side[0].apr, CM_APR_IS_CURRENT);
	assert_int_equal(n.side[1].laps, 1);

	assert_int_equal(ask(&n, 0), 0);
	lap = said(&n, 0);
	assert_int_equal(lap.lap.remote_qpn, n.side[1].id->local_qpn);
	assert_memory_equal(lap.lap.private_data, "other way", 9);
	lap.lap.remote_qpn++;
	assert_false(hand(&n, 1, lap, &event));
	assert_int_equal(said(&n, 1).apr.status, CM_APR_INVALID_QPN);
	lap.lap.remote_qpn--;
	lap.lap.remote_comm_id ^= 1;
	assert_false(hand(&n, 1, lap, &event));
	assert_int_equal(said(&n, 1).apr.status, CM_APR_INVALID_COMM_ID);
	lap.lap.remote_comm_id ^= 1;
	assert_int_equal(cm_apr(n.side[1].id, CM_APR_SUCCESS, NULL, 0), -EINVAL);	/* nobody has asked */
	/* no longer a connection */
	cm_dreq(n.side[1].id, n.now);
	says_nothing(&n, 0);
	said(&n, 1);
	assert_false(hand(&n, 1, lap, &event));
	says_nothing(&n, 1);
	assert_int_equal(ask(&n, 1), -EINVAL);
	net_fini(&n);
}

static void an_unanswered_lap_is_lost_and_the_connection_stands(void **state)
{
	struct net n;

	connect_both(&n, CM_APR_SUCCESS);
	assert_int_equal(ask(&n, 0), 0);
	for (int tries = 0; n.side[0].laps_lost == 0; tries++) {
		struct cm_event event;
		struct gmp out;

		assert_true(tries < 100);
		while (cm_output(&n.side[0].cm, &out))
			;
		n.now = cm_deadline(&n.side[0].cm);
		assert_true(n.now != WTIME_NEVER);
		if (cm_expire(&n.side[0].cm, n.now, &event)) {
			assert_int_equal(event.type, CM_EVENT_LAP_LOST);
			n.side[0].laps_lost++;
		}
	}
	assert_int_equal(n.side[0].id->state, CM_ESTABLISHED);
	assert_true(cm_deadline(&n.side[0].cm) == WTIME_NEVER);
	assert_int_equal(ask(&n, 0), 0);
	run_out(&n);
	assert_int_equal(n.side[0].apr, CM_APR_SUCCESS);
	net_fini(&n);
}

/* It asks for time when the LAP comes again. */
static void a_slow_consumer_is_waited_for(void **state)
{
	struct cm_event event;
	struct cm_msg lap, mra;
	struct net n;
	wtime before;

	connect_both(&n, APR_LATER);
	assert_int_equal(ask(&n, 0), 0);
	lap = said(&n, 0);
	assert_true(hand(&n, 1, lap, &event));
	assert_int_equal(event.type, CM_EVENT_LAP);
	says_nothing(&n, 1);
	assert_false(hand(&n, 1, lap, &event));
	mra = said(&n, 1);
	assert_int_equal(mra.attribute, CM_MRA);
	assert_int_equal(mra.mra.message, CM_ANSWERS_OTHER);
	assert_true(mra.tid == lap.tid);
	before = cm_deadline(&n.side[0].cm);
	mra.tid++;
	assert_false(hand(&n, 0, mra, &event));		/* of another exchange */
	assert_true(cm_deadline(&n.side[0].cm) == before);
	mra.tid--;
	assert_false(hand(&n, 0, mra, &event));
	assert_true(cm_deadline(&n.side[0].cm) > before + 10 * WTIME_S);
	assert_int_equal(cm_lap(n.side[1].id, n.now, &alternate[1], NULL, 0), -EINVAL);
	assert_int_equal(cm_apr(n.side[1].id, CM_APR_SUCCESS, NULL, 0), 0);
	mra = said(&n, 1);
	mra.tid++;
	assert_false(hand(&n, 0, mra, &event));		/* somebody's guess */
	mra.tid--;
	assert_true(hand(&n, 0, mra, &event));
	assert_int_equal(event.type, CM_EVENT_APR);
	assert_false(hand(&n, 0, mra, &event));
	net_fini(&n);
}

static void both_ask_at_once(void **state)
{
	struct net n;

	connect_both(&n, CM_APR_SUCCESS);
	assert_int_equal(ask(&n, 0), 0);
	assert_int_equal(ask(&n, 1), 0);
	run_out(&n);
	for (int i = 0; i < SIDES; i++) {
		assert_int_equal(n.side[i].laps, 0);
		assert_int_equal(n.side[i].aprs, 1);
		assert_int_equal(n.side[i].apr, CM_APR_REJECT);
	}
	n.side[1].apr = CM_APR_SUCCESS;
	assert_int_equal(ask(&n, 0), 0);
	run_out(&n);
	assert_int_equal(n.side[0].apr, CM_APR_SUCCESS);
	net_fini(&n);
}

/* A REQ with an alternate path, up to now. */
static void offer(struct net *n)
{
	struct cm_param param = param_of(0, "hello");

	net_init(n, PLAN_LAP);
	param.alternate = &alternate[0];
	n->side[0].id = cm_id_create(&n->side[0].cm, NULL);
	assert_int_equal(cm_req(n->side[0].id, n->now, SERVICE, &path[0], &param), 0);
	assert_int_equal(n->side[0].id->alternate_is, CM_ALTERNATE_OFFERED);
}

static void a_req_offers_the_path(void **state)
{
	struct net n;

	is_abroad = true;
	offer(&n);
	run_out(&n);
	for (int i = 0; i < SIDES; i++) {
		struct cm_id *id = n.side[i].id;

		assert_int_equal(id->state, CM_ESTABLISHED);
		assert_int_equal(id->alternate_is, CM_ALTERNATE_AGREED);
		assert_memory_equal(id->alternate.sgid, alternate[i].sgid, 16);
		assert_memory_equal(id->alternate.dgid, alternate[i].dgid, 16);
		assert_int_equal(id->alternate.tclass, 5);
		assert_int_equal(id->alternate.ack_timeout, 18);
		assert_int_equal(id->alternate.pkey, 0xffff);
		assert_int_equal(id->alternate.device, 1);
		assert_int_equal(cm_migrated(id), 0);
		assert_int_equal(noted_last[i].to.dgid[0], port_of(!i) + ALTERNATE);
	}
	/* and they part by it */
	assert_int_equal(cm_dreq(n.side[0].id, n.now), 0);
	run_out(&n);
	assert_int_equal(n.side[0].disconnected + n.side[1].disconnected, 2);
	net_fini(&n);
	is_abroad = false;
}

/* Until it is agreed on nobody speaks by it. */
static void an_offered_path_is_not_agreed_on(void **state)
{
	struct cm_event event;
	struct cm_msg req, rep;
	struct gmp in;
	struct net n;

	offer(&n);
	assert_int_equal(cm_migrated(n.side[0].id), -EINVAL);
	req = said(&n, 0);
	assert_int_equal(req.req.alternate.local_gid[0], alternate[0].sgid[0]);
	assert_true(hand(&n, 1, req, &event));
	assert_int_equal(event.id->alternate_is, CM_ALTERNATE_OFFERED);
	assert_int_equal(cm_rep(event.id, n.now, &(struct cm_param){ .qp_type = IBV_QPT_RC, .qpn = 0x5001 }), 0);
	assert_int_equal(event.id->alternate_is, CM_ALTERNATE_AGREED);
	rep = said(&n, 1);
	assert_int_equal(rep.rep.failover_accepted, CM_FAILOVER_ACCEPTED);
	cm_build(&rep, in.mad);
	in = arriving_by(ALTERNATE, 0, port_of(1), in.mad);
	n.side[0].id->remote_id = rep.rep.local_comm_id;	/* as after an MRA */
	assert_false(cm_input(&n.side[0].cm, n.now, &in, &event));
	assert_int_equal(n.side[0].id->state, CM_REQ_SENT);
	rep.rep.failover_accepted = CM_FAILOVER_UNSUPPORTED;
	n.side[0].id->remote_id = 0;
	assert_true(hand(&n, 0, rep, &event));
	assert_int_equal(event.id->alternate_is, CM_ALTERNATE_NONE);
	assert_int_equal(cm_rtu(event.id, n.now), 0);
	assert_int_equal(cm_migrated(event.id), -EINVAL);
	net_fini(&n);
}

static void a_req_without_a_path_offers_none(void **state)
{
	struct cm_path elsewhere = alternate[0];
	struct cm_param param = param_of(0, "hello");
	struct net n;

	connect_both(&n, CM_APR_SUCCESS);
	for (int i = 0; i < SIDES; i++)
		assert_int_equal(n.side[i].id->alternate_is, CM_ALTERNATE_NONE);
	net_fini(&n);

	net_init(&n, PLAN_LAP);
	elsewhere.device = 0;
	param.alternate = &elsewhere;
	n.side[0].id = cm_id_create(&n.side[0].cm, NULL);
	assert_int_equal(cm_req(n.side[0].id, n.now, SERVICE, &path[0], &param), -EINVAL);
	assert_int_equal(n.side[0].id->state, CM_IDLE);
	net_fini(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lap_survives_every_double_fault), cmocka_unit_test(both_ends_know_the_path),
		cmocka_unit_test(refusals_say_why), cmocka_unit_test(an_unanswered_lap_is_lost_and_the_connection_stands),
		cmocka_unit_test(a_slow_consumer_is_waited_for), cmocka_unit_test(both_ask_at_once),
		cmocka_unit_test(a_req_offers_the_path), cmocka_unit_test(an_offered_path_is_not_agreed_on),
		cmocka_unit_test(a_req_without_a_path_offers_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
