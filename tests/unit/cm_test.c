/* What two communication managers make of every single and double fault of an exchange, of strangers, of late and of false
 * messages. */
#include "cm_net.h"

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
	struct gmp out;
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

/* What the owner of QP1 answers, where no process is. */
static bool stray(struct cm *cm, wtime now, const struct gmp *out, struct cm_event *event)
{
	struct cm_msg msg, answer;
	uint8_t mad[MAD_BYTES];

	assert_true(cm_parse(&msg, out->mad));
	assert_true(cm_answer_stray(&msg, &answer));
	cm_build(&answer, mad);
	return deliver(cm, 0, now, mad, event);
}

static void ask_nobody(bool sidr)
{
	struct cm_event event;
	struct gmp out;
	struct net n;
	struct cm *cm = &n.side[0].cm;
	wtime now = 0;

	net_init(&n, sidr ? PLAN_SIDR : PLAN_CONNECT);
	open_from(&n, 0);

	for (int i = 0; i < 6; i++) {	/* a little patience */
		assert_true(cm_output(cm, &out));
		assert_false(stray(cm, now, &out, &event));
		assert_true(cm_deadline(cm) <= now + 160 * WTIME_MS);
		now = cm_deadline(cm);
		assert_false(cm_expire(cm, now, &event));
	}
	assert_true(cm_output(cm, &out));
	assert_true(stray(cm, now, &out, &event));
	assert_true(now < 320 * WTIME_MS);
	assert_int_equal(event.type, sidr ? CM_EVENT_SIDR_REP : CM_EVENT_REJ);
	if (!sidr)
		assert_int_equal(event.msg.rej.reason, CM_REJ_INVALID_SERVICE_ID);
	assert_false(stray(cm, now, &out, &event));
	net_fini(&n);
}

static void nobody_listens(void **state)
{
	ask_nobody(false);
	ask_nobody(true);
}

/* A listener that refuses the service is believed at once: it has an id. */
static void a_listener_that_refuses_is_not_asked_again(void **state)
{
	struct cm_event event;
	struct gmp out;
	struct cm_msg msg = { .attribute = CM_REJ };
	uint8_t mad[MAD_BYTES];
	struct net n;

	net_init(&n, PLAN_CONNECT);
	open_from(&n, 0);
	assert_true(cm_output(&n.side[0].cm, &out));
	msg.tid = n.side[0].id->tid;
	msg.rej.local_comm_id = 0x600001;
	msg.rej.remote_comm_id = n.side[0].id->local_id;
	msg.rej.reason = CM_REJ_INVALID_SERVICE_ID;
	cm_build(&msg, mad);
	assert_true(deliver(&n.side[0].cm, 0, 0, mad, &event));
	assert_int_equal(event.type, CM_EVENT_REJ);
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

static void run_abroad(struct net *n, enum plan plan)
{
	net_init(n, plan);
	run(n);
	net_fini(n);
}

static void dead_peer_disconnects(void **state)
{
	struct cm_event event;
	struct net n;

	connect_only(&n);
	cm_peer_gone(&n.side[0].cm, 99);
	assert_false(cm_next_gone(&n.side[0].cm, n.now, &event));
	cm_peer_gone(&n.side[0].cm, slot_of(1));
	assert_true(cm_next_gone(&n.side[0].cm, n.now, &event));
	assert_int_equal(event.type, CM_EVENT_DREQ);
	assert_false(cm_next_gone(&n.side[0].cm, n.now, &event));
	cm_peer_gone(&n.side[0].cm, slot_of(1));
	assert_false(cm_next_gone(&n.side[0].cm, n.now, &event));
	net_fini(&n);
}

/* A process of this host ends. What another host calls its conversations says nothing of processes here. */
static void the_end_of_a_process_ends_nothing_elsewhere(void **state)
{
	struct cm_event event;
	struct net n;

	connect_only(&n);
	n.side[0].id->peer_is_here = false;
	cm_peer_gone(&n.side[0].cm, slot_of(1));
	assert_false(cm_next_gone(&n.side[0].cm, n.now, &event));
	assert_int_equal(n.side[0].id->state, CM_ESTABLISHED);
	net_fini(&n);
}

/* The message from the peer's port, or another: does anything come of it? */
static bool hears(struct net *n, uint8_t from, const struct cm_msg *msg)
{
	struct cm_event event;
	struct gmp in, out;
	uint8_t mad[MAD_BYTES];
	bool heard;

	cm_build(msg, mad);
	in = arriving(0, from, mad);
	heard = cm_input(&n->side[0].cm, n->now, &in, &event);
	while (cm_output(&n->side[0].cm, &out))
		;
	return heard;
}

/* Two ports may name their conversations alike. */
static void one_id_at_two_ports_is_two_peers(void **state)
{
	struct cm_msg msg = { .attribute = CM_REQ, .tid = 1, .req = { .local_comm_id = 0x700001, .service_id = SERVICE } };
	uint8_t mad[MAD_BYTES];
	struct net n;

	net_init(&n, PLAN_CONNECT);
	cm_build(&msg, mad);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(hears(&n, STRANGER, &msg), !again);
		assert_int_equal(hears(&n, STRANGER + 1, &msg), !again);
	}
	assert_int_equal(n.side[0].cm.ids, 2);
	msg.req.local_comm_id = 0;
	assert_false(hears(&n, STRANGER, &msg));
	net_fini(&n);
}

/* Which address answers is not the engine's to choose: the path that a MAD came by leads back (IBA 13.5.4). */
static void an_answer_goes_back_by_the_path_that_its_question_came_by(void **state)
{
	struct cm_msg msg = { .attribute = CM_REQ, .tid = 1, .req = { .local_comm_id = 0x700001, .service_id = SERVICE } };
	struct cm_event event;
	struct gmp in, out;
	uint8_t mad[MAD_BYTES];
	struct net n;

	net_init(&n, PLAN_CONNECT);
	cm_build(&msg, mad);
	in = arriving(0, STRANGER, mad);
	in.device = 0;
	in.pkey = 0x8001;
	in.path = (struct packet_path){ .slid = 7, .dlid = 9, .sl = 3 };
	assert_true(cm_input(&n.side[0].cm, 0, &in, &event));
	assert_int_equal(cm_rej(event.id, 0, CM_REJ_CONSUMER, NULL, 0), 0);
	assert_true(cm_output(&n.side[0].cm, &out));
	assert_int_equal(out.device, 0);
	assert_int_equal(out.path.dlid, 7);
	assert_int_equal(out.path.slid, 9);
	assert_int_equal(out.path.sl, 3);
	assert_false(out.path.has_grh);
	/* again, from another LID: that is another port */
	in.path.slid = 8;
	assert_true(cm_input(&n.side[0].cm, 0, &in, &event));
	net_fini(&n);
}

static void messages_of_strangers_are_ignored(void **state)
{
	struct cm_msg msg = { .attribute = CM_DREQ };
	struct cm_event event;
	uint8_t mad[MAD_BYTES];
	struct gmp in;
	struct net n;

	connect_only(&n);
	msg.dreq.remote_comm_id = n.side[0].id->local_id;
	msg.dreq.local_comm_id = n.side[0].id->remote_id;
	msg.dreq.remote_qpn = n.side[0].id->local_qpn;
	cm_build(&msg, mad);
	in = arriving(0, STRANGER, mad);
	assert_false(cm_input(&n.side[0].cm, n.now, &in, &event));
	assert_int_equal(n.side[0].id->state, CM_ESTABLISHED);
	assert_true(deliver(&n.side[0].cm, 0, n.now, mad, &event));
	net_fini(&n);
}

/* All numbers are right, but for the device that the message came by. */
static void a_conversation_has_one_device(void **state)
{
	struct cm_msg msg = { .attribute = CM_DREQ };
	uint8_t mad[MAD_BYTES];
	struct cm_event event;
	struct cm_id *id;
	struct gmp in;
	struct net n;

	connect_only(&n);
	id = n.side[0].id;
	msg.tid = id->tid;
	msg.dreq.local_comm_id = id->remote_id;
	msg.dreq.remote_comm_id = id->local_id;
	msg.dreq.remote_qpn = id->local_qpn;
	cm_build(&msg, mad);
	in = arriving(0, port_of(1), mad);
	in.device = 0;
	assert_false(cm_input(&n.side[0].cm, n.now, &in, &event));
	assert_int_equal(id->state, CM_ESTABLISHED);
	in.device = 1;
	assert_true(cm_input(&n.side[0].cm, n.now, &in, &event));
	net_fini(&n);
}

/* Who knows one number of a conversation, or all of them but is not its peer, changes nothing. */
static void a_conversation_is_known_by_all_its_numbers(void **state)
{
	static const enum cm_attribute attributes[] = { CM_RTU, CM_DREP, CM_REJ, CM_MRA, CM_REP, CM_LAP, CM_DREQ };
	struct net n;
	struct cm_id *id;

	connect_only(&n);
	id = n.side[0].id;
	for (unsigned i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		/* 0, 1: an id is wrong; 2: the port; 3: the QP number, of what has one */
		for (unsigned wrong = 0; wrong < 4; wrong++) {
			uint32_t ours = id->local_id ^ (wrong == 0), theirs = id->remote_id ^ (wrong == 1);
			struct cm_msg msg = { .attribute = attributes[i], .tid = id->tid };

			if (wrong == 3 && attributes[i] != CM_DREQ)
				continue;
			switch (attributes[i]) {
			case CM_RTU:
				msg.rtu.remote_comm_id = ours, msg.rtu.local_comm_id = theirs;
				break;
			case CM_DREP:
				msg.drep.remote_comm_id = ours, msg.drep.local_comm_id = theirs;
				break;
			case CM_REJ:
				msg.rej.remote_comm_id = ours, msg.rej.local_comm_id = theirs;
				break;
			case CM_MRA:
				msg.mra.remote_comm_id = ours, msg.mra.local_comm_id = theirs;
				break;
			case CM_REP:
				msg.rep.remote_comm_id = ours, msg.rep.local_comm_id = theirs;
				break;
			case CM_DREQ:
				msg.dreq.remote_comm_id = ours, msg.dreq.local_comm_id = theirs;
				msg.dreq.remote_qpn = id->local_qpn ^ (wrong == 3);
				break;
			default:
				break;
			}
			assert_false(hears(&n, wrong == 2 ? STRANGER : port_of(1), &msg));
			assert_int_equal(id->state, CM_ESTABLISHED);
			assert_int_equal(id->to.dgid[0], port_of(1));
		}
	}
	/* a REJ without one of the ids was for a request that nobody had answered */
	assert_false(hears(&n, port_of(1), &(struct cm_msg){ .attribute = CM_REJ, .tid = id->tid,
							     .rej.local_comm_id = id->remote_id }));
	assert_false(hears(&n, port_of(1), &(struct cm_msg){ .attribute = CM_REJ, .tid = id->tid,
							     .rej.remote_comm_id = id->local_id }));
	assert_false(hears(&n, port_of(1), &(struct cm_msg){ .attribute = CM_REJ, .tid = id->tid + 1,
							     .rej = { .local_comm_id = id->remote_id,
								      .remote_comm_id = id->local_id } }));
	assert_int_equal(id->state, CM_ESTABLISHED);
	assert_true(hears(&n, port_of(1), &(struct cm_msg){ .attribute = CM_REJ, .tid = id->tid,
							    .rej = { .local_comm_id = id->remote_id,
								     .remote_comm_id = id->local_id } }));
	net_fini(&n);
}

/* Whoever has answered a request is the one who goes on: here its listener asked for time, and another port, and another process
 * of that port, answer. */
static void who_asked_for_time_answers(void **state)
{
	struct cm_msg msg = { .attribute = CM_MRA };
	struct cm_id *id;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	open_from(&n, 0);
	id = n.side[0].id;
	msg.tid = id->tid;
	msg.mra.remote_comm_id = id->local_id;
	msg.mra.local_comm_id = 0x600001;
	msg.mra.message = CM_ANSWERS_REQ;
	msg.tid++;
	assert_false(hears(&n, port_of(1), &msg));
	assert_int_equal(id->state, CM_REQ_SENT);
	msg.tid--;
	assert_false(hears(&n, port_of(1), &msg));
	assert_int_equal(id->state, CM_MRA_REQ_RECEIVED);
	assert_false(hears(&n, STRANGER, &msg));
	msg = (struct cm_msg){ .attribute = CM_REP, .tid = id->tid,
			       .rep = { .remote_comm_id = id->local_id, .local_comm_id = 0x600001 } };
	assert_false(hears(&n, STRANGER, &msg));
	msg.rep.local_comm_id++;
	assert_false(hears(&n, port_of(1), &msg));
	assert_int_equal(id->to.dgid[0], port_of(1));
	assert_int_equal(id->state, CM_MRA_REQ_RECEIVED);
	msg.rep.local_comm_id--;
	assert_true(hears(&n, port_of(1), &msg));
	net_fini(&n);
}

/* A DREQ of a connection that is no more is answered, so that its sender can end, and touches nothing else (MSN-44). */
static void old_connections_are_answered_only(void **state)
{
	struct cm_event event;
	struct gmp dreq, drep;
	struct cm_msg msg;
	struct net n;

	connect_only(&n);
	assert_int_equal(cm_dreq(n.side[0].id, n.now), 0);
	assert_true(cm_output(&n.side[0].cm, &dreq));
	cm_drop(n.side[1].id);
	assert_false(deliver(&n.side[1].cm, 1, n.now, dreq.mad, &event));
	assert_true(cm_output(&n.side[1].cm, &drep));
	assert_true(cm_parse(&msg, drep.mad));
	assert_int_equal(msg.attribute, CM_DREP);
	assert_true(deliver(&n.side[0].cm, 0, n.now, drep.mad, &event));
	assert_int_equal(event.type, CM_EVENT_DREP);
	net_fini(&n);
}

/* IBA 12.6.6: who was asked for time waits for as long as the MRA says and the path takes, and asks again only then. */
static void an_mra_stretches_the_wait(void **state)
{
	enum { SERVICE_TIMEOUT = 24 };
	struct cm_msg msg = { .attribute = CM_MRA, .mra = { .message = CM_ANSWERS_REQ, .service_timeout = SERVICE_TIMEOUT } };
	struct cm_event event;
	struct gmp out;
	struct cm *cm;
	struct net n;
	wtime until;

	net_init(&n, PLAN_CONNECT);
	open_from(&n, 0);
	cm = &n.side[0].cm;
	msg.tid = n.side[0].id->tid;
	msg.mra.remote_comm_id = n.side[0].id->local_id;
	msg.mra.local_comm_id = 0x600001;
	until = n.now + (4096ull << SERVICE_TIMEOUT) + (4096ull << path[0].ack_timeout);
	assert_false(hears(&n, port_of(1), &msg));
	assert_true(cm_deadline(cm) == until);
	assert_false(cm_expire(cm, until - 1, &event));
	assert_false(cm_output(cm, &out));
	assert_false(cm_expire(cm, until, &event));
	assert_true(cm_output(cm, &out));
	net_fini(&n);
}

/* While it waits the peer does not repeat its REP, by which it would learn that the RTU is lost. */
static void who_is_slow_to_take_a_rep_asks_for_seconds(void **state)
{
	struct cm_msg rep = { .attribute = CM_REP }, answer;
	struct cm_event event;
	struct gmp in, out;
	uint8_t mad[MAD_BYTES];
	struct cm *cm;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	open_from(&n, 0);
	cm = &n.side[0].cm;
	assert_true(cm_output(cm, &out));
	rep.tid = n.side[0].id->tid;
	rep.rep.remote_comm_id = n.side[0].id->local_id;
	rep.rep.local_comm_id = 0x600001;
	assert_true(hears(&n, port_of(1), &rep));
	cm_build(&rep, mad);
	in = arriving(0, port_of(1), mad);
	assert_false(cm_input(cm, n.now, &in, &event));
	assert_true(cm_output(cm, &out));
	assert_true(cm_parse(&answer, out.mad));
	assert_int_equal(answer.attribute, CM_MRA);
	assert_int_equal(answer.mra.message, CM_ANSWERS_REP);
	assert_in_range(answer.mra.service_timeout, 1, cm->response_timeout);
	net_fini(&n);
}

static void a_rep_of_an_earlier_conversation_is_refused(void **state)
{
	struct cm_msg msg = { .attribute = CM_REP }, refusal;
	struct cm_event event;
	struct gmp out;
	uint8_t mad[MAD_BYTES];
	struct cm_id *id;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	open_from(&n, 0);
	id = n.side[0].id;
	assert_true(cm_output(&n.side[0].cm, &out));
	msg.tid = id->tid + 1;
	msg.rep.remote_comm_id = id->local_id;
	msg.rep.local_comm_id = 0x600001;
	cm_build(&msg, mad);
	assert_false(deliver(&n.side[0].cm, 0, n.now, mad, &event));
	assert_int_equal(id->state, CM_REQ_SENT);
	assert_true(cm_output(&n.side[0].cm, &out));
	assert_true(cm_parse(&refusal, out.mad));
	assert_int_equal(refusal.attribute, CM_REJ);
	assert_int_equal(refusal.rej.reason, CM_REJ_INVALID_COMM_ID);
	msg.tid = id->tid;
	assert_true(hears(&n, port_of(1), &msg));
	net_fini(&n);
}

/* A retry count has three bits in REQ and REP (IBA 12.6.5, 12.6.8): more than 7 is 7, not what is left of it. */
static void retry_counts_above_7_are_7(void **state)
{
	struct cm_param param = param_of(0, "");
	struct cm_event event;
	struct gmp out;
	struct cm_msg msg;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	param.retry_count = 8;
	param.rnr_retry_count = 255 - 7;
	assert_int_equal(cm_req(cm_id_create(&n.side[0].cm, NULL), 0, SERVICE, &path[0], &param), 0);
	assert_true(cm_output(&n.side[0].cm, &out));
	assert_true(cm_parse(&msg, out.mad));
	assert_int_equal(msg.req.retry_count, 7);
	assert_int_equal(msg.req.rnr_retry_count, 7);
	assert_true(deliver(&n.side[1].cm, 1, 0, out.mad, &event));
	assert_int_equal(cm_rep(event.id, 0, &param), 0);
	assert_true(cm_output(&n.side[1].cm, &out));
	assert_true(cm_parse(&msg, out.mad));
	assert_int_equal(msg.rep.rnr_retry_count, 7);
	net_fini(&n);
}

/* The DREP was lost: timewait answers the DREQ that comes again, and ends when no packet can be on its way any more. */
static void timewait_answers_a_dreq_and_ends_in_time(void **state)
{
	struct cm_event event;
	struct gmp dreq, lost, drep;
	struct net n;
	struct cm *a, *b;
	wtime until;

	connect_only(&n);
	a = &n.side[0].cm, b = &n.side[1].cm;
	assert_int_equal(cm_dreq(n.side[0].id, n.now), 0);
	assert_true(cm_output(a, &dreq));
	assert_true(deliver(b, 1, n.now, dreq.mad, &event));
	assert_int_equal(cm_drep(event.id, n.now), 0);
	assert_true(cm_output(b, &lost));
	until = n.now + (4096ull << path[0].ack_timeout);
	assert_true(cm_deadline(b) == until);
	assert_false(deliver(b, 1, until - 1, dreq.mad, &event));
	assert_true(cm_output(b, &drep));
	assert_true(deliver(a, 0, until - 1, drep.mad, &event));
	assert_int_equal(event.type, CM_EVENT_DREP);
	assert_false(cm_expire(b, until - 1, &event));
	assert_true(cm_expire(b, until, &event));
	assert_int_equal(event.type, CM_EVENT_TIMEWAIT_EXIT);
	net_fini(&n);
}

/* What a peer asks for as its path's timeout, up to 2.4 hours, makes no wait that long. */
static void no_path_makes_a_wait_without_end(void **state)
{
	struct cm_path far = path[0];
	struct cm_param param = param_of(0, "hello"), answer = param_of(1, "yes");
	struct cm_event event;
	struct gmp out;
	struct cm *cm;
	struct net n;
	wtime now = WTIME_S;

	far.ack_timeout = 31;
	net_init(&n, PLAN_CONNECT);
	cm = &n.side[1].cm;
	assert_int_equal(cm_req(cm_id_create(&n.side[0].cm, NULL), now, SERVICE, &far, &param), 0);
	assert_true(cm_output(&n.side[0].cm, &out));
	assert_true(deliver(cm, 1, now, out.mad, &event));
	assert_int_equal(event.id->path.ack_timeout, 31);
	assert_int_equal(cm_rep(event.id, now, &answer), 0);
	while (!cm_expire(cm, now, &event)) {
		now = cm_deadline(cm);
		while (cm_output(cm, &out))
			;
	}
	assert_int_equal(event.type, CM_EVENT_UNREACHABLE);
	assert_in_range(now, 100 * WTIME_S, 180 * WTIME_S);
	net_fini(&n);
	connect_only(&n);
	n.side[1].id->path.ack_timeout = 31;
	assert_int_equal(cm_dreq(n.side[0].id, n.now), 0);
	assert_true(cm_output(&n.side[0].cm, &out));
	assert_true(deliver(cm, 1, n.now, out.mad, &event));
	assert_int_equal(cm_drep(event.id, n.now), 0);
	assert_int_equal(event.id->state, CM_TIMEWAIT);
	assert_true(cm_deadline(cm) <= n.now + 5 * WTIME_S);
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

/* What a process wants to be rid of is ended all the same, whatever is lost. */
static void a_destroyed_connection_repeats_its_dreq(void **state)
{
	struct net n;

	for (int disconnected = 0; disconnected < 2; disconnected++) {
		connect_only(&n);
		n.faults[0] = n.faults[1] = FAULT_DROP;
		n.fault_at[0] = n.sent;
		n.fault_at[1] = n.sent + 1;
		if (disconnected)
			cm_dreq(n.side[0].id, n.now);
		cm_id_destroy(n.side[0].id, n.now);
		pull(&n);
		while (step(&n))
			;
		assert_int_equal(n.side[1].disconnected, 1);
		assert_int_equal(n.side[0].disconnected, 0);
		assert_int_equal(n.side[0].cm.ids, 0);
		assert_int_equal(n.side[0].cm.orphans, 0);
		net_fini(&n);
	}
}

static void both_destroy_at_once(void **state)
{
	struct net n;

	connect_only(&n);
	for (int i = 0; i < SIDES; i++)
		cm_id_destroy(n.side[i].id, n.now);
	pull(&n);
	while (step(&n))
		;
	for (int i = 0; i < SIDES; i++)
		assert_int_equal(n.side[i].cm.ids, 0);
	net_fini(&n);
}

static void a_dreq_that_nobody_answers_ends(void **state)
{
	struct cm_event event;
	struct gmp out;
	struct net n;
	int sent = 0;
	wtime at;

	connect_only(&n);
	cm_id_destroy(n.side[0].id, n.now);
	while ((at = cm_deadline(&n.side[0].cm)) != WTIME_NEVER) {
		assert_false(cm_expire(&n.side[0].cm, at, &event));
		while (cm_output(&n.side[0].cm, &out))
			sent++;
		assert_true(sent < 100);
	}
	/* 15 retries of a period, and those that come sooner at first */
	assert_in_range(sent, 1 + 15, 1 + 15 + 8);
	assert_int_equal(n.side[0].cm.ids, 0);
	net_fini(&n);
}

/* Peers that do not answer do not use up the ids: of 8, 2 may be kept for them. */
static void destroyed_connections_are_bounded(void **state)
{
	struct cm_connection at = { .remote_id = 5, .device = 1, .to = { .has_grh = true } };
	struct net n;

	net_init(&n, PLAN_CONNECT);
	for (uint32_t i = 0; i < 20; i++) {
		at.local_id = slot_of(0) << CM_SLOT_SHIFT | (i + 1);
		cm_id_destroy(cm_adopt(&n.side[0].cm, &at), 1);
		assert_int_equal(n.side[0].cm.ids, i ? 2 : 1);
	}
	net_fini(&n);
}

static void connections_with_other_hosts_are_noted(void **state)
{
	struct net n;

	connect_only(&n);
	assert_int_equal(noted_count[0] + noted_count[1], 0);
	net_fini(&n);
	is_abroad = true;
	connect_only(&n);
	for (int i = 0; i < SIDES; i++) {
		assert_int_equal(noted_count[i], 1);
		assert_int_equal(noted_last[i].remote_id, n.side[!i].id->local_id);
		assert_int_equal(noted_last[i].remote_qpn, 0x5000 + !i);
		assert_int_equal(noted_last[i].to.dgid[0], port_of(!i));
	}
	start_disconnect(&n);
	assert_int_equal(noted_count[0], 1);	/* no answer yet */
	pull(&n);
	while (step(&n))
		;
	for (int i = 0; i < SIDES; i++)
		assert_int_equal(noted_count[i], 0);
	net_fini(&n);
	run_abroad(&n, PLAN_REJECT);
	assert_int_equal(noted_count[0] + noted_count[1], 0);
	is_abroad = false;
}

/* The peer of a process that was killed hears of it from who was told. */
static void who_was_told_of_a_connection_ends_it(void **state)
{
	struct cm_config config = { .seed = 43, .max_ids = 4 };
	struct cm_id *id;
	struct net n;

	is_abroad = true;
	connect_only(&n);
	cm_fini(&n.side[0].cm);
	noted_count[0] = 0;
	assert_int_equal(cm_init(&n.side[0].cm, &config), 0);
	id = cm_adopt(&n.side[0].cm, &noted_last[0]);
	assert_non_null(id);
	assert_true(cm_knows(&n.side[0].cm, noted_last[0].local_id));
	n.faults[0] = FAULT_DROP;
	n.fault_at[0] = n.sent;
	cm_id_destroy(id, n.now);
	pull(&n);
	while (step(&n))
		;
	assert_int_equal(n.side[1].disconnected, 1);
	assert_int_equal(n.side[0].cm.ids, 0);
	assert_false(cm_knows(&n.side[0].cm, noted_last[0].local_id));
	net_fini(&n);
	is_abroad = false;
}

/* More retries are due than the queue has room for: what is pulled makes room, and nothing is lost. */
static void retries_wait_for_room(void **state)
{
	enum { MANY = 3 * CM_OUTS };
	struct cm_config config = { .slot = 5, .seed = 44, .max_ids = MANY };
	struct cm_param param = param_of(0, "hello");
	struct cm_event event;
	struct gmp out;
	struct cm cm;
	int sent = 0;
	wtime at;

	assert_int_equal(cm_init(&cm, &config), 0);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(cm_req(cm_id_create(&cm, NULL), 1, SERVICE, &path[0], &param), 0);
		assert_true(cm_output(&cm, &out));
	}
	at = cm_deadline(&cm) + WTIME_S;	/* of the last of them, too */
	while (cm_deadline(&cm) <= at) {
		assert_false(cm_expire(&cm, at, &event));
		while (cm_output(&cm, &out))
			sent++;
	}
	assert_int_equal(sent, MANY);
	assert_int_equal(cm.counters.out_dropped, 0);
	cm_fini(&cm);
}

/* Who asks a thousand times at once gives the peer the time to answer all, and is not in its way meanwhile. */
static void who_asks_much_waits_longer(void **state)
{
	enum { MANY = 1000 };
	struct cm_config config = { .slot = 5, .seed = 44, .max_ids = MANY };
	struct cm_param param = param_of(0, "hello");
	struct cm_event event;
	struct gmp out;
	int again = 0;
	struct cm cm;

	assert_int_equal(cm_init(&cm, &config), 0);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(cm_req(cm_id_create(&cm, NULL), 1, SERVICE, &path[0], &param), 0);
		assert_true(cm_output(&cm, &out));
	}
	assert_int_equal(cm_deadline(&cm), 1 + 64 * WTIME_MS);
	assert_false(cm_expire(&cm, 1 + 100 * WTIME_MS, &event));
	while (cm_output(&cm, &out))
		again++;
	assert_in_range(again, 1, MANY / 5);
	cm_fini(&cm);
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

/* The peer has lost the connection, as who starts again after a crash, and asks for another one with the same QP. */
static void a_stale_connection_ends_when_its_qp_asks_again(void **state)
{
	struct cm_param param = param_of(0, "hello");
	struct cm_event event;
	struct cm_msg msg;
	struct gmp out, in;
	struct cm_id *old;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	open_from(&n, 0);
	pull(&n);
	while (n.side[0].established + n.side[1].established < 2)
		assert_true(step(&n));
	old = n.side[1].id;
	assert_int_equal(old->state, CM_ESTABLISHED);
	/* it knows nothing any more */
	cm_drop(n.side[0].id);
	n.side[0].id = cm_id_create(&n.side[0].cm, NULL);
	assert_int_equal(cm_req(n.side[0].id, n.now, SERVICE, &path[0], &param), 0);
	assert_true(cm_output(&n.side[0].cm, &out));
	/* from elsewhere the same QPN is another QP */
	in = arriving(1, STRANGER, out.mad);
	assert_true(cm_input(&n.side[1].cm, n.now, &in, &event));
	assert_int_equal(event.type, CM_EVENT_REQ);
	assert_false(cm_end_stale(event.id, n.now));
	cm_drop(event.id);
	/* so it is at another adapter there */
	assert_true(cm_parse(&msg, out.mad));
	msg.req.local_ca_guid++;
	cm_build(&msg, in.mad);
	assert_true(deliver(&n.side[1].cm, 1, n.now, in.mad, &event));
	assert_false(cm_end_stale(event.id, n.now));
	cm_drop(event.id);
	assert_true(deliver(&n.side[1].cm, 1, n.now, out.mad, &event));
	assert_int_equal(event.type, CM_EVENT_REQ);
	assert_int_equal(old->state, CM_ESTABLISHED);
	assert_true(cm_end_stale(event.id, n.now));
	assert_int_equal(cm_rej(event.id, n.now, CM_REJ_STALE_CONNECTION, NULL, 0), 0);
	cm_drop(event.id);
	assert_int_equal(n.side[1].cm.counters.stale, 1);
	assert_true(cm_output(&n.side[1].cm, &out));
	assert_true(cm_parse(&msg, out.mad));
	assert_int_equal(msg.attribute, CM_DREQ);
	assert_true(cm_output(&n.side[1].cm, &out));
	assert_true(cm_parse(&msg, out.mad));
	assert_int_equal(msg.rej.reason, CM_REJ_STALE_CONNECTION);
	assert_true(deliver(&n.side[0].cm, 0, n.now, out.mad, &event));
	assert_int_equal(event.type, CM_EVENT_REJ);
	/* the old one ends, and then the QP connects */
	assert_int_equal(old->state, CM_DREQ_SENT);
	pull(&n);
	while (!n.side[1].disconnected)
		assert_true(step(&n));
	assert_int_equal(old->state, CM_TIMEWAIT);
	assert_int_equal(cm_req(n.side[0].id, n.now, SERVICE, &path[0], &param), 0);
	n.side[0].established = n.side[1].established = 0;
	pull(&n);
	while (n.side[0].established + n.side[1].established < 2)
		assert_true(step(&n));
	net_fini(&n);
}

/* The adapter of the passive side is known from its REP. */
static void who_was_asked_may_lose_the_connection_too(void **state)
{
	struct cm_param param = param_of(1, "hello");
	struct cm_event event;
	struct gmp out;
	struct net n;

	net_init(&n, PLAN_CONNECT);
	open_from(&n, 0);
	pull(&n);
	while (n.side[0].established + n.side[1].established < 2)
		assert_true(step(&n));
	cm_drop(n.side[1].id);
	n.side[1].id = cm_id_create(&n.side[1].cm, NULL);
	assert_int_equal(cm_req(n.side[1].id, n.now, SERVICE, &path[1], &param), 0);
	assert_true(cm_output(&n.side[1].cm, &out));
	assert_true(deliver(&n.side[0].cm, 0, n.now, out.mad, &event));
	assert_true(cm_end_stale(event.id, n.now));
	assert_int_equal(n.side[0].id->state, CM_DREQ_SENT);
	/* once */
	assert_false(cm_end_stale(event.id, n.now));
	net_fini(&n);
}

/* From side 0, up to the REP. */
static void open_xrc(struct net *n)
{
	struct cm_param param = param_of(0, "hello");
	struct cm_event event;
	struct gmp out;

	net_init(n, PLAN_CONNECT);
	struct cm *a = &n->side[0].cm, *b = &n->side[1].cm;
	struct cm_id *id = cm_id_create(a, NULL);

	n->side[0].id = id;
	param.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(cm_req(id, 0, SERVICE, &path[0], &param), 0);
	assert_true(cm_output(a, &out));
	assert_true(deliver(b, 1, 0, out.mad, &event));
	assert_int_equal(event.id->qp_type, IBV_QPT_XRC_RECV);
	n->side[1].id = event.id;
	param.qpn = 0x777;
	assert_int_equal(cm_rep(event.id, 0, &param), 0);
	assert_true(cm_output(b, &out));
	assert_true(deliver(a, 0, 0, out.mad, &event));
}

static void xrc_names_the_target_as_eec(void **state)
{
	struct net n;

	open_xrc(&n);
	assert_int_equal(n.side[0].id->remote_qpn, 0x777);
	net_fini(&n);
}

/* Who has made an XRC target and needs no more of its connection destroys the id. */
static void a_target_is_connected_without_its_id(void **state)
{
	struct cm_event event;
	struct gmp out;
	struct net n;

	for (int disconnects = 0; disconnects < 2; disconnects++) {
		open_xrc(&n);
		struct cm *a = &n.side[0].cm, *b = &n.side[1].cm;

		assert_int_equal(cm_rtu(n.side[0].id, 0), 0);
		assert_true(cm_output(a, &out));
		assert_true(deliver(b, 1, 0, out.mad, &event));
		assert_int_equal(event.type, CM_EVENT_RTU);
		if (disconnects)
			assert_int_equal(cm_dreq(n.side[1].id, 0), 0);
		cm_id_destroy(n.side[1].id, 0);
		assert_int_equal(b->ids, disconnects);
		assert_int_equal(cm_output(b, &out), disconnects);
		if (disconnects) {
			assert_true(deliver(a, 0, 0, out.mad, &event));
			assert_int_equal(event.type, CM_EVENT_DREQ);
		}
		net_fini(&n);
	}
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
		cmocka_unit_test(a_listener_that_refuses_is_not_asked_again),
		cmocka_unit_test(the_end_of_a_process_ends_nothing_elsewhere),
		cmocka_unit_test(one_id_at_two_ports_is_two_peers),
		cmocka_unit_test(an_answer_goes_back_by_the_path_that_its_question_came_by),
		cmocka_unit_test(messages_of_strangers_are_ignored),
		cmocka_unit_test(a_conversation_has_one_device),
		cmocka_unit_test(a_conversation_is_known_by_all_its_numbers),
		cmocka_unit_test(a_target_is_connected_without_its_id),
		cmocka_unit_test(who_asked_for_time_answers),
		cmocka_unit_test(old_connections_are_answered_only),
		cmocka_unit_test(an_mra_stretches_the_wait),
		cmocka_unit_test(who_is_slow_to_take_a_rep_asks_for_seconds),
		cmocka_unit_test(a_rep_of_an_earlier_conversation_is_refused),
		cmocka_unit_test(retry_counts_above_7_are_7),
		cmocka_unit_test(timewait_answers_a_dreq_and_ends_in_time),
		cmocka_unit_test(no_path_makes_a_wait_without_end),
		cmocka_unit_test(destroying_tells_the_peer),
		cmocka_unit_test(a_destroyed_connection_repeats_its_dreq),
		cmocka_unit_test(both_destroy_at_once),
		cmocka_unit_test(a_dreq_that_nobody_answers_ends),
		cmocka_unit_test(destroyed_connections_are_bounded),
		cmocka_unit_test(connections_with_other_hosts_are_noted),
		cmocka_unit_test(who_was_told_of_a_connection_ends_it),
		cmocka_unit_test(retries_wait_for_room), cmocka_unit_test(who_asks_much_waits_longer),
		cmocka_unit_test(ids_are_bounded_and_carry_the_slot),
		cmocka_unit_test(calls_in_the_wrong_state_change_nothing),
		cmocka_unit_test(same_seed_same_trace),
		cmocka_unit_test(a_stale_connection_ends_when_its_qp_asks_again),
		cmocka_unit_test(who_was_asked_may_lose_the_connection_too),
		cmocka_unit_test(xrc_names_the_target_as_eec),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
