/* Two communication managers over a simulated path in virtual time, with every single and double fault of an exchange. */
#include "mgmt/cm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

enum { SIDES = 2, FLIGHTS = 64, SERVICE = 0x1061234, DELAY = 1000000 };
enum fault { FAULT_NONE, FAULT_DROP, FAULT_DUPLICATE, FAULT_DELAY, FAULTS };
enum plan { PLAN_CONNECT, PLAN_REJECT, PLAN_SIDR, PLAN_BOTH_DISCONNECT, PLAN_SYMMETRIC, PLANS };

struct flight {
	bool used;
	int to;
	wtime at;
	uint8_t mad[MAD_BYTES];
};

struct side {
	struct cm cm;
	struct cm_id *id;
	int established, disconnected, rejected, unreachable, requests, sidr, timewaits;
	uint16_t reason;
	uint8_t heard;		/* first byte of the last private data */
};

struct net {
	struct side side[SIDES];
	struct flight flight[FLIGHTS];
	wtime now;
	enum plan plan;
	int sent;
	enum fault faults[2];
	int fault_at[2];
	uint64_t trace;		/* of everything sent */
};

static const struct cm_path path[SIDES] = {
	{ .device = 1, .sgid = { 1 }, .dgid = { 2 }, .target = { 2 }, .slid = 0xffff, .dlid = 0xffff, .pkey = 0xffff, .mtu = 3,
	  .ack_timeout = 19, .hop_limit = 64 },
	{ .device = 1, .sgid = { 2 }, .dgid = { 1 }, .target = { 1 }, .slid = 0xffff, .dlid = 0xffff, .pkey = 0xffff, .mtu = 3,
	  .ack_timeout = 19, .hop_limit = 64 },
};

static uint32_t slot_of(int side)
{
	return (uint32_t)side + 5;
}

static struct cm_param param_of(int side, const char *words)
{
	return (struct cm_param){ .qp_type = IBV_QPT_RC, .qpn = 0x5000u + (uint32_t)side, .psn = 0x1234, .responder_resources = 3,
				  .initiator_depth = 4, .retry_count = 7, .rnr_retry_count = 6, .qkey = 0x01234567,
				  .private_data = (const uint8_t *)words, .private_bytes = (uint32_t)strlen(words) };
}

static void launch(struct net *n, int from, const struct cm_out *out)
{
	enum fault fault = FAULT_NONE;

	for (int i = 0; i < 2; i++)
		if (n->sent == n->fault_at[i])
			fault = n->faults[i];
	n->sent++;
	for (int i = 0; i < MAD_BYTES; i++)
		n->trace = (n->trace ^ out->mad[i]) * 0x100000001b3;
	assert_true(out->slot == slot_of(!from) || (out->slot == 0 && out->service_id == SERVICE));
	for (int copies = fault == FAULT_DROP ? 0 : fault == FAULT_DUPLICATE ? 2 : 1; copies; copies--) {
		struct flight *f = n->flight;

		while (f->used)
			f++;
		assert_true(f < n->flight + FLIGHTS);
		*f = (struct flight){ .used = true, .to = !from, .at = n->now + DELAY * (fault == FAULT_DELAY ? 3000u : 1u) };
		memcpy(f->mad, out->mad, MAD_BYTES);
	}
}

static void pull(struct net *n)
{
	struct cm_out out;

	for (int i = 0; i < SIDES; i++)
		while (cm_output(&n->side[i].cm, &out))
			launch(n, i, &out);
}

static void start_disconnect(struct net *n)
{
	cm_dreq(n->side[0].id, n->now);
	if (n->plan == PLAN_BOTH_DISCONNECT)
		cm_dreq(n->side[1].id, n->now);
}

static void hear_req(struct net *n, int me, const struct cm_event *event)
{
	struct side *s = &n->side[me];
	struct cm_param param = param_of(me, "yes");

	s->requests++;
	s->id = event->id;
	assert_memory_equal(event->msg.req.private_data, "hello", 5);
	assert_int_equal(event->id->remote_qpn, 0x5000 + !me);
	assert_int_equal(event->id->initiator_depth, 3);
	assert_int_equal(event->id->responder_resources, 4);
	if (n->plan == PLAN_REJECT)
		assert_int_equal(cm_rej(event->id, n->now, CM_REJ_CONSUMER, "no", 2), 0);
	else
		assert_int_equal(cm_rep(event->id, n->now, &param), 0);
}

static void hear(struct net *n, int me, const struct cm_event *event)
{
	struct side *s = &n->side[me];
	struct cm_param param = param_of(me, "dgram");

	switch (event->type) {
	case CM_EVENT_REQ:
		hear_req(n, me, event);
		break;
	case CM_EVENT_REP:
		assert_memory_equal(event->msg.rep.private_data, "yes", 3);
		assert_int_equal(event->id->remote_qpn, 0x5000 + !me);
		assert_int_equal(cm_rtu(event->id, n->now), 0);
		s->established++;
		break;
	case CM_EVENT_RTU:
		s->established++;
		break;
	case CM_EVENT_REJ:
		s->rejected++;
		s->reason = event->msg.rej.reason;
		s->heard = event->msg.rej.private_data[0];
		break;
	case CM_EVENT_DREQ:
		s->disconnected++;
		cm_drep(event->id, n->now);
		break;
	case CM_EVENT_DREP:
	case CM_EVENT_DREQ_LOST:
		s->disconnected++;
		break;
	case CM_EVENT_UNREACHABLE:
		s->unreachable++;
		break;
	case CM_EVENT_TIMEWAIT_EXIT:
		s->timewaits++;
		break;
	case CM_EVENT_SIDR_REQ:
		s->requests++;
		s->id = event->id;
		assert_int_equal(cm_sidr_rep(event->id, n->now, CM_SIDR_VALID, &param), 0);
		break;
	case CM_EVENT_SIDR_REP:
		s->sidr++;
		assert_int_equal(event->msg.sidr_rep.status, CM_SIDR_VALID);
		assert_int_equal(event->id->remote_qkey, 0x01234567);
		assert_memory_equal(event->msg.sidr_rep.private_data, "dgram", 5);
		break;
	}
	pull(n);
}

static struct flight *earliest(struct net *n)
{
	struct flight *first = NULL;

	for (int i = 0; i < FLIGHTS; i++)
		if (n->flight[i].used && (!first || n->flight[i].at < first->at))
			first = &n->flight[i];
	return first;
}

/* One step of virtual time. False when nothing is left to happen. */
static bool step(struct net *n)
{
	struct flight *f = earliest(n);
	struct cm_event event;
	wtime at = f ? f->at : WTIME_NEVER;

	for (int i = 0; i < SIDES; i++)
		at = wtime_min(at, cm_deadline(&n->side[i].cm));
	if (at == WTIME_NEVER)
		return false;
	n->now = at;
	if (f && f->at == at) {
		f->used = false;
		if (cm_input(&n->side[f->to].cm, n->now, 1, slot_of(!f->to), f->mad, MAD_BYTES, &event))
			hear(n, f->to, &event);
	}
	for (int i = 0; i < SIDES; i++)
		while (cm_expire(&n->side[i].cm, n->now, &event))
			hear(n, i, &event);
	pull(n);
	return true;
}

static void net_init(struct net *n, enum plan plan)
{
	memset(n, 0, sizeof(*n));
	n->plan = plan;
	n->fault_at[0] = n->fault_at[1] = -1;
	for (int i = 0; i < SIDES; i++) {
		struct cm_config config = { .slot = slot_of(i), .ca_guid = { 1, 77 + (uint64_t)i }, .seed = 42, .max_ids = 8 };

		assert_int_equal(cm_init(&n->side[i].cm, &config), 0);
	}
}

static void net_fini(struct net *n)
{
	for (int i = 0; i < SIDES; i++)
		cm_fini(&n->side[i].cm);
}

static void open_from(struct net *n, int side)
{
	struct cm_param param = param_of(side, "hello");
	struct cm_id *id = cm_id_create(&n->side[side].cm, NULL);

	param.symmetric = n->plan == PLAN_SYMMETRIC;
	n->side[side].id = id;
	if (n->plan == PLAN_SIDR)
		assert_int_equal(cm_sidr_req(id, n->now, SERVICE, &path[side], "hello", 5), 0);
	else
		assert_int_equal(cm_req(id, n->now, SERVICE, &path[side], &param), 0);
}

static void run(struct net *n)
{
	bool closing = false;

	open_from(n, 0);
	if (n->plan == PLAN_SYMMETRIC)
		open_from(n, 1);
	pull(n);
	while (step(n)) {
		if (!closing && n->plan != PLAN_SYMMETRIC && n->side[0].established && n->side[1].established) {
			closing = true;
			start_disconnect(n);
			pull(n);
		}
		assert_true(n->sent < 1000);
	}
}

static void check(struct net *n)
{
	struct side *a = &n->side[0], *b = &n->side[1];

	switch (n->plan) {
	case PLAN_CONNECT:
	case PLAN_BOTH_DISCONNECT:
		assert_int_equal(b->requests, 1);
		assert_int_equal(a->established, 1);
		assert_int_equal(b->established, 1);
		assert_int_equal(a->disconnected, 1);
		assert_int_equal(b->disconnected, 1);
		assert_int_equal(a->timewaits, 1);
		assert_int_equal(b->timewaits, 1);
		break;
	case PLAN_REJECT:
		assert_int_equal(a->rejected, 1);
		assert_int_equal(a->reason, CM_REJ_CONSUMER);
		assert_int_equal(a->heard, 'n');
		break;
	case PLAN_SIDR:
		assert_int_equal(a->sidr, 1);
		assert_int_equal(b->requests, 1);
		break;
	case PLAN_SYMMETRIC:
		assert_int_equal(a->established, 1);
		assert_int_equal(b->established, 1);
		assert_int_equal(a->requests + b->requests, 1);
		break;
	default:
		break;
	}
	assert_int_equal(a->unreachable + b->unreachable, 0);
}

static void sweep(enum plan plan, int mads)
{
	struct net n;

	for (int i = -1; i < mads; i++)
		for (int j = i; j < mads; j++)
			for (int kinds = 0; kinds < (FAULTS - 1) * (FAULTS - 1); kinds++) {
				net_init(&n, plan);
				n.fault_at[0] = i;
				n.fault_at[1] = j > i ? j : -1;
				n.faults[0] = FAULT_DROP + kinds % (FAULTS - 1);
				n.faults[1] = FAULT_DROP + kinds / (FAULTS - 1);
				run(&n);
				check(&n);
				net_fini(&n);
			}
}

static void connect_survives_every_double_fault(void **state)
{
	sweep(PLAN_CONNECT, 10);
}

/* A rejected REQ whose REJ is lost is asked again, and the passive side, which forgot it, is asked anew. */
static void reject_survives_every_double_fault(void **state)
{
	sweep(PLAN_REJECT, 6);
}

static void sidr_survives_every_double_fault(void **state)
{
	sweep(PLAN_SIDR, 6);
}

static void both_disconnect_survives_every_double_fault(void **state)
{
	sweep(PLAN_BOTH_DISCONNECT, 10);
}

static void symmetric_open_makes_one_connection(void **state)
{
	sweep(PLAN_SYMMETRIC, 8);
}

static void silence_is_unreachable(void **state)
{
	struct cm_param param = param_of(0, "hello");
	struct cm_event event = { 0 };
	struct cm_out out;
	struct net n;
	int sent = 0;

	net_init(&n, PLAN_CONNECT);
	struct cm *cm = &n.side[0].cm;
	struct cm_id *id = cm_id_create(cm, NULL);

	assert_int_equal(cm_req(id, 0, SERVICE, &path[0], &param), 0);
	while (cm_deadline(cm) != WTIME_NEVER && !cm_expire(cm, cm_deadline(cm), &event))
		;
	while (cm_output(cm, &out))
		sent++;
	assert_int_equal(event.type, CM_EVENT_UNREACHABLE);
	assert_int_equal(sent, 1 + 7 + 15 + 1);	/* soon, then 15 retries, and a REJ that says so */
	net_fini(&n);
}

static void nobody_listens(void **state)
{
	struct cm_param param = param_of(0, "");
	struct cm_event event;
	struct cm_out out;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	struct cm *cm = &n.side[0].cm;
	struct cm_id *id = cm_id_create(cm, NULL);

	assert_int_equal(cm_req(id, 0, SERVICE, &path[0], &param), 0);
	wtime now = 0;

	for (int i = 0; i < 6; i++) {	/* a little patience */
		assert_true(cm_output(cm, &out));
		assert_false(cm_returned(cm, now, out.mad, MAD_BYTES, &event));
		assert_true(cm_deadline(cm) <= now + 160 * WTIME_MS);
		now = cm_deadline(cm);
		assert_false(cm_expire(cm, now, &event));
	}
	assert_true(cm_output(cm, &out));
	assert_true(cm_returned(cm, now, out.mad, MAD_BYTES, &event));
	assert_true(now < 320 * WTIME_MS);
	assert_int_equal(event.type, CM_EVENT_REJ);
	assert_int_equal(event.msg.rej.reason, CM_REJ_INVALID_SERVICE_ID);
	assert_false(cm_returned(cm, 2, out.mad, MAD_BYTES, &event));
	net_fini(&n);
}

static void connect_only(struct net *n)
{
	net_init(n, PLAN_SYMMETRIC);	/* which does not disconnect */
	open_from(n, 0);
	pull(n);
	while (!n->side[1].established)
		assert_true(step(n));
}

static void dead_peer_disconnects(void **state)
{
	struct cm_event event;
	struct net n;

	connect_only(&n);
	assert_false(cm_peer_gone(&n.side[0].cm, n.now, 99, &event));
	assert_true(cm_peer_gone(&n.side[0].cm, n.now, slot_of(1), &event));
	assert_int_equal(event.type, CM_EVENT_DREQ);
	assert_false(cm_peer_gone(&n.side[0].cm, n.now, slot_of(1), &event));
	net_fini(&n);
}

static void messages_of_strangers_are_ignored(void **state)
{
	struct cm_msg msg = { .attribute = CM_DREQ };
	struct cm_event event;
	uint8_t mad[MAD_BYTES];
	struct net n;

	connect_only(&n);
	msg.dreq.remote_comm_id = n.side[0].id->local_id;
	msg.dreq.local_comm_id = n.side[0].id->remote_id;
	msg.dreq.remote_qpn = n.side[0].id->local_qpn;
	cm_build(&msg, mad);
	assert_false(cm_input(&n.side[0].cm, n.now, 1, 77, mad, MAD_BYTES, &event));
	assert_int_equal(n.side[0].id->state, CM_ESTABLISHED);
	assert_true(cm_input(&n.side[0].cm, n.now, 1, slot_of(1), mad, MAD_BYTES, &event));
	net_fini(&n);
}

/* A DREQ of a connection that is no more is answered, so that its sender can end, and touches nothing else (MSN-44). */
static void old_connections_are_answered_only(void **state)
{
	struct cm_event event;
	struct cm_out dreq, drep;
	struct cm_msg msg;
	struct net n;

	connect_only(&n);
	assert_int_equal(cm_dreq(n.side[0].id, n.now), 0);
	assert_true(cm_output(&n.side[0].cm, &dreq));
	cm_drop(n.side[1].id);
	assert_false(cm_input(&n.side[1].cm, n.now, 1, slot_of(0), dreq.mad, MAD_BYTES, &event));
	assert_true(cm_output(&n.side[1].cm, &drep));
	assert_true(cm_parse(&msg, drep.mad));
	assert_int_equal(msg.attribute, CM_DREP);
	assert_true(cm_input(&n.side[0].cm, n.now, 1, slot_of(1), drep.mad, MAD_BYTES, &event));
	assert_int_equal(event.type, CM_EVENT_DREP);
	net_fini(&n);
}

static void destroying_tells_the_peer(void **state)
{
	struct net n;

	connect_only(&n);
	cm_id_destroy(n.side[0].id, n.now);
	pull(&n);
	while (step(&n))
		;
	assert_int_equal(n.side[1].disconnected, 1);
	net_fini(&n);
}

static void ids_are_bounded_and_carry_the_slot(void **state)
{
	struct net n;
	struct cm_id *id[8];

	net_init(&n, PLAN_CONNECT);
	for (int i = 0; i < 8; i++) {
		id[i] = cm_id_create(&n.side[0].cm, NULL);
		assert_non_null(id[i]);
		assert_int_equal(id[i]->local_id >> 20, slot_of(0));
	}
	assert_null(cm_id_create(&n.side[0].cm, NULL));
	cm_drop(id[3]);
	assert_non_null(cm_id_create(&n.side[0].cm, NULL));
	net_fini(&n);
}

static void calls_in_the_wrong_state_change_nothing(void **state)
{
	struct cm_param param = param_of(0, "");
	static const uint8_t much[256];
	struct net n;

	net_init(&n, PLAN_CONNECT);
	struct cm_id *id = cm_id_create(&n.side[0].cm, NULL);

	assert_int_equal(cm_rep(id, 0, &param), -EINVAL);
	assert_int_equal(cm_rtu(id, 0), -EINVAL);
	assert_int_equal(cm_dreq(id, 0), -EINVAL);
	assert_int_equal(cm_drep(id, 0), -EINVAL);
	assert_int_equal(cm_rej(id, 0, 28, NULL, 0), -EINVAL);
	assert_int_equal(cm_established(id), -EINVAL);
	assert_int_equal(cm_sidr_rep(id, 0, 0, &param), -EINVAL);
	param.private_data = much;
	param.private_bytes = 93;
	assert_int_equal(cm_req(id, 0, SERVICE, &path[0], &param), -EINVAL);
	param.private_bytes = 92;
	assert_int_equal(cm_req(id, 0, SERVICE, &path[0], &param), 0);
	assert_int_equal(cm_req(id, 0, SERVICE, &path[0], &param), -EINVAL);
	assert_int_equal(cm_rej(id, 0, 28, much, 149), -EINVAL);
	net_fini(&n);
}

static void same_seed_same_trace(void **state)
{
	uint64_t trace[2];
	struct net n;

	for (int i = 0; i < 2; i++) {
		net_init(&n, PLAN_CONNECT);
		n.fault_at[0] = 1;
		n.faults[0] = FAULT_DROP;
		run(&n);
		trace[i] = n.trace;
		net_fini(&n);
	}
	assert_true(trace[0] == trace[1]);
}

static void xrc_names_the_target_as_eec(void **state)
{
	struct cm_param param = param_of(0, "hello");
	struct cm_event event;
	struct cm_out out;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	struct cm *a = &n.side[0].cm, *b = &n.side[1].cm;
	struct cm_id *id = cm_id_create(a, NULL);

	param.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(cm_req(id, 0, SERVICE, &path[0], &param), 0);
	assert_true(cm_output(a, &out));
	assert_true(cm_input(b, 0, 1, slot_of(0), out.mad, MAD_BYTES, &event));
	assert_int_equal(event.id->qp_type, IBV_QPT_XRC_RECV);
	param.qpn = 0x777;
	assert_int_equal(cm_rep(event.id, 0, &param), 0);
	assert_true(cm_output(b, &out));
	assert_true(cm_input(a, 0, 1, slot_of(1), out.mad, MAD_BYTES, &event));
	assert_int_equal(id->remote_qpn, 0x777);
	net_fini(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect_survives_every_double_fault),
		cmocka_unit_test(reject_survives_every_double_fault),
		cmocka_unit_test(sidr_survives_every_double_fault),
		cmocka_unit_test(both_disconnect_survives_every_double_fault),
		cmocka_unit_test(symmetric_open_makes_one_connection),
		cmocka_unit_test(silence_is_unreachable),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(dead_peer_disconnects),
		cmocka_unit_test(messages_of_strangers_are_ignored),
		cmocka_unit_test(old_connections_are_answered_only),
		cmocka_unit_test(destroying_tells_the_peer),
		cmocka_unit_test(ids_are_bounded_and_carry_the_slot),
		cmocka_unit_test(calls_in_the_wrong_state_change_nothing),
		cmocka_unit_test(same_seed_same_trace),
		cmocka_unit_test(xrc_names_the_target_as_eec),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
