/* Sends that the peer has promised to take: they are complete as soon as they are in the ring, and whatever would break the
 * promise executes them first. */
#include "direct_stubs.h"
#include "engine_test.h"

#include "direct/record.h"
#include "ib/engine.h"

enum { RECORDS = 16, PLACE = 8192, SHORT = 8, SIZE = 64 };

struct record {
	uint8_t bytes[RECORD_MAX_BYTES];
	size_t length;
};

/* The ring in both directions, by who receives, and what its ends show. */
static struct {
	struct pair *pair;
	struct record ring[2][RECORDS];
	unsigned head[2], tail[2];
	psn_t received[2];
	_Atomic uint64_t shown;		/* the sequence of both QPs */
	bool has_left;
	unsigned executed;		/* directly */
} way;

static int side_of(const void *owner)
{
	return way.pair->side[1].node == owner;
}

static bool connect(void *owner, struct qp *qp)
{
	(void)owner;
	qp->direct_path = (struct direct_path){ .channel = &way, .entry = &way.shown, .sequence = way.shown };
	return true;
}

static struct record *next_record(const void *owner)
{
	int to = !side_of(owner);

	assert_true(way.tail[to] < RECORDS);
	return &way.ring[to][way.tail[to]++];
}

static bool send(void *owner, struct qp *qp, const struct direct_message *m)
{
	struct record *r = next_record(owner);

	(void)qp;
	r->length = record_bytes(m);
	record_build(m, r->bytes);
	return true;
}

static bool send_short(void *owner, struct qp *qp, psn_t psn, psn_t received, const void *data, uint32_t bytes, bool solicited)
{
	struct record *r = next_record(owner);

	r->length = RECORD_HEAD_BYTES + (size_t)bytes;
	record_build_short(r->bytes, qp->attr.dest_qp_num, qp->qpn, psn, received, qp_promise(qp), data, bytes,
			   solicited);
	return true;
}

static bool take(int side, const struct record *r)
{
	struct ca *ca = &way.pair->side[side].node->ca;
	struct record_short m;

	return record_parse_short(&m, r->bytes, r->length) &&
	       ca_short_message(ca, &way, m.dest_qpn, m.src_qpn, m.psn, m.received, m.promise, m.data, m.bytes, m.solicited);
}

static bool stands(void *owner, struct qp *qp)
{
	(void)owner;
	return direct_path_is_current(&qp->direct_path) && !way.has_left;
}

static void keep_promise(void *owner, struct qp *qp)
{
	int side = side_of(owner);

	assert_int_equal(qp->published, 0);
	for (unsigned i = way.head[side]; i < way.tail[side]; i++)
		take(side, &way.ring[side][i]);
}

static void publish(void *owner, struct qp *qp, psn_t received)
{
	(void)qp;
	way.received[side_of(owner)] = received;
}

static bool received(void *owner, struct qp *qp, psn_t *psn)
{
	(void)qp;
	*psn = way.received[!side_of(owner)];
	return true;
}

static void show(void *owner, struct qp *qp)
{
	(void)owner;
	qp->published = 1;
}

static void hide(void *owner, struct qp *qp)
{
	(void)owner;
	qp->published = 0;
	way.shown += 2;
}

static bool execute(void *owner, struct qp *qp, struct direct_request *r)
{
	(void)owner;
	(void)qp;
	(void)r;
	way.executed++;
	return true;
}

static enum direct_write write(void *owner, struct qp *qp, uint32_t rkey, uint64_t va, const void *data, uint32_t bytes)
{
	(void)rkey;
	(void)va;
	(void)data;
	(void)bytes;
	return execute(owner, qp, NULL) ? WRITE_DONE : WRITE_REFUSED;
}

static bool reaches(void *owner, struct qp *qp)
{
	(void)owner;
	(void)qp;
	return true;
}

static const struct direct_ops direct = {
	.publish_mr = show_no_mr, .unpublish_mr = unpublish_mr, .publish_qp = show, .unpublish_qp = hide,
	.execute = execute, .write = write, .reaches = reaches, .connect = connect, .send = send, .send_short = send_short,
	.stands = stands, .keep_promise = keep_promise, .publish = publish, .received = received,
};

static bool deliver(int side)
{
	struct ca *ca = &way.pair->side[side].node->ca;
	struct iovec iov[DIRECT_IOVS];
	struct direct_message m;
	struct record *r;

	if (way.head[side] == way.tail[side])
		return false;
	r = &way.ring[side][way.head[side]++];
	if (!take(side, r)) {
		assert_true(record_parse(&m, r->bytes, r->length, iov));
		ca_message(ca, way.pair->sim->now, &way, &m);
	}
	sim_pump(way.pair->sim);
	return true;
}

static void collect(int side)
{
	ca_read_acks(&way.pair->side[side].node->ca, way.pair->sim->now, UINT32_MAX);
	sim_pump(way.pair->sim);
}

/* The program polls. */
static bool settle(int side)
{
	return ca_ack_postponed(&way.pair->side[side].node->ca, way.pair->sim->now);
}

static void post_send(int side, uint64_t wr_id, uint32_t bytes)
{
	post_wr(way.pair, side, (struct pair_wr){ .wr_id = wr_id, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED,
						  .bytes = bytes });
}

static void pass_one(int from)
{
	assert_int_equal(pair_recv(way.pair, !from, 1, PLACE, SHORT), 0);
	post_send(from, 2, SHORT);
	assert_true(deliver(!from));
	expect_received(way.pair, !from, 1, IBV_WC_SUCCESS);
	collect(from);
	expect_sent(way.pair, from, 2, IBV_WC_SUCCESS);
}

/* Both ends know each other, and side 0 polls. */
static struct pair *start(void)
{
	struct pair *pair = pair_new(&(struct pair_config){ .psn = { 0xfffffd, 5 }, .rnr_retry = 7, .min_rnr_timer = 1 });

	memset(&way, 0, sizeof(way));
	way.pair = pair;
	way.shown = 2;
	for (int i = 0; i < 2; i++) {
		pair->side[i].node->ca.direct = &direct;
		pair->side[i].qp->published = 1;
		way.received[i] = psn_add(pair->side[i].qp->attr.rq_psn, -1);
		pattern_fill(pair->side[i].memory, 1024, (uint32_t)i);
	}
	pass_one(0);
	pass_one(1);
	pair->side[0].node->ca.acks.postpones = true;
	return pair;
}

static void finish(struct pair *pair)
{
	assert_int_equal(pair->side[0].qp->state, IBV_QPS_RTS);
	pair_delete(pair);
}

/* Side 1 posts receives, and says so. */
static struct pair *start_promised(unsigned receives, uint32_t bytes)
{
	struct pair *pair = start();

	for (unsigned i = 0; i < receives; i++)
		assert_int_equal(pair_recv(pair, 1, i, PLACE + i * 1024, bytes), 0);
	pass_one(1);
	assert_int_equal(pair->side[0].qp->direct_path.promised, receives ? 1u << (31 - __builtin_clz(bytes)) : 0);
	return pair;
}

static bool is_complete_at_once(uint64_t wr_id)
{
	struct cqe cqe;

	expect_nothing(way.pair, 0);
	if (!settle(0)) {
		expect_nothing(way.pair, 0);
		return false;
	}
	while (pair_poll_send(way.pair, 0, &cqe) && cqe.wr_id != wr_id)
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	return cqe.wr_id == wr_id && cqe.status == IBV_WC_SUCCESS;
}

static void as_many_as_are_promised_complete_at_once(void **state)
{
	enum { PROMISED = 5 };
	struct pair *pair = start_promised(PROMISED, SIZE);

	(void)state;
	post_send(0, 0, SHORT);
	assert_true(is_complete_at_once(0));
	for (uint64_t i = 1; i < PROMISED - 1; i++)
		post_send(0, i, SHORT);
	assert_true(is_complete_at_once(PROMISED - 2));
	post_send(0, PROMISED - 1, SIZE);
	assert_true(is_complete_at_once(PROMISED - 1));
	post_send(0, PROMISED, SHORT);
	assert_false(is_complete_at_once(PROMISED));
	assert_int_equal(pair_recv(pair, 1, PROMISED, PLACE, SIZE), 0);
	for (uint64_t i = 0; i <= PROMISED; i++) {
		assert_true(deliver(1));
		expect_received(pair, 1, i, IBV_WC_SUCCESS);
		assert_true(pattern_holds(pair->side[1].memory + PLACE + i % PROMISED * 1024, SHORT, 0));
	}
	collect(0);
	expect_sent(pair, 0, PROMISED, IBV_WC_SUCCESS);
	assert_int_equal(pair->side[0].node->ca.counters.sent_pkts, 0);
	finish(pair);
}

/* The next message makes another promise. */
static void a_message_renews_the_promise(void **state)
{
	struct pair *pair = start_promised(1, SIZE);

	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		post_send(0, i, SHORT);
		assert_true(is_complete_at_once(i));
		post_send(0, i, SHORT);
		assert_false(is_complete_at_once(i));
		for (int n = 0; n < 2; n++)
			assert_int_equal(pair_recv(pair, 1, 0, PLACE, SIZE), 0);
		while (deliver(1))
			expect_received(pair, 1, 0, IBV_WC_SUCCESS);
		collect(0);
		expect_sent(pair, 0, i, IBV_WC_SUCCESS);
		way.head[1] = way.tail[1] = 0;
		pass_one(1);
	}
	finish(pair);
}

/* Promised are 64 bytes of each. */
static void a_long_send_is_not_promised(void **state)
{
	struct pair *pair = start_promised(2, 100);

	(void)state;
	post_send(0, 7, 65);
	assert_false(is_complete_at_once(7));
	/* nor what follows it */
	post_send(0, 8, 64);
	assert_false(is_complete_at_once(8));
	while (deliver(1))
		;
	collect(0);
	expect_sent(pair, 0, 7, IBV_WC_SUCCESS);
	expect_sent(pair, 0, 8, IBV_WC_SUCCESS);
	finish(pair);
}

static void post_receive_of(struct pair_side *s, struct ibv_sge first, int num_sge)
{
	struct ibv_sge sge[2] = { first, first };
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = num_sge };
	const struct ibv_recv_wr *bad;

	assert_int_equal(qp_post_recv(s->qp, way.pair->sim->now, &wr, &bad), 0);
}

static struct mr *new_region(struct pair_side *s, struct pd *pd, enum mr_kind kind, int access)
{
	struct mr *mr;

	assert_int_equal(mr_create_kind(pd, kind, s->memory, 4096, PAIR_IOVA, access, &mr), 0);
	return mr;
}

/* Neither it, nor what follows it before the queue was empty. */
static void a_receive_that_could_refuse_is_not_promised(void **state)
{
	struct pair *pair = start();
	struct pair_side *s = &pair->side[1];
	struct ibv_sge good = { PAIR_IOVA, SIZE, s->mr->key };
	struct pd *foreign;

	(void)state;
	assert_int_equal(pd_create(&s->node->ca, s->node->dev, &foreign), 0);
	struct ibv_sge odd[] = {
		{ PAIR_IOVA, SIZE, s->mr->key ^ 1 },
		{ PAIR_IOVA, 0, s->mr->key },
		{ PAIR_IOVA + s->mr->length - SIZE + 1, SIZE, s->mr->key },
		{ PAIR_IOVA - 1, SIZE, s->mr->key },
		{ PAIR_IOVA, SIZE, new_region(s, s->pd, MR_MEMORY, 0)->key },
		{ PAIR_IOVA, SIZE, new_region(s, foreign, MR_MEMORY, IBV_ACCESS_LOCAL_WRITE)->key },
		{ PAIR_IOVA, SIZE, new_region(s, s->pd, MR_ON_DEMAND, IBV_ACCESS_LOCAL_WRITE)->key },
		good, good,
	};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		bool has_none = i + 2 == sizeof(odd) / sizeof(odd[0]), has_two = i + 1 == sizeof(odd) / sizeof(odd[0]);
		unsigned before = s->qp->rq.ulp.written - s->qp->rq.engine.started;

		s->qp->receives.until = s->qp->rq.ulp.written;
		post_receive_of(s, good, 1);
		assert_int_equal(qp_promise(s->qp).receives, before + 1);
		post_receive_of(s, odd[i], has_none ? 0 : 1 + has_two);
		post_receive_of(s, good, 1);
		assert_int_equal(qp_promise(s->qp).receives, before + 1);
	}
	finish(pair);
}

static void what_is_posted_to_an_empty_queue_is_promised_again(void **state)
{
	struct pair *pair = start();
	struct pair_side *s = &pair->side[1];
	struct ibv_sge good = { PAIR_IOVA, SIZE, s->mr->key };

	(void)state;
	post_receive_of(s, good, 2);
	post_receive_of(s, good, 1);
	assert_int_equal(qp_promise(s->qp).receives, 0);
	for (uint64_t i = 0; i < 2; i++) {
		post_send(0, i, SHORT);
		assert_true(deliver(1));
		expect_received(pair, 1, 0, IBV_WC_SUCCESS);
	}
	post_receive_of(s, good, 1);
	assert_int_equal(qp_promise(s->qp).receives, 1);
	assert_int_equal(qp_promise(s->qp).size, 6);
	/* of the shortest */
	post_receive_of(s, (struct ibv_sge){ PAIR_IOVA, 31, s->mr->key }, 1);
	post_receive_of(s, good, 1);
	assert_int_equal(qp_promise(s->qp).receives, 3);
	assert_int_equal(qp_promise(s->qp).size, 4);
	finish(pair);
}

/* A peer that is not there any more takes nothing. */
static void a_peer_that_has_left_keeps_no_promise(void **state)
{
	struct pair *pair = start_promised(2, SIZE);

	(void)state;
	post_send(0, 7, SHORT);
	way.has_left = true;
	assert_false(is_complete_at_once(7));
	assert_true(deliver(1));
	collect(0);
	expect_sent(pair, 0, 7, IBV_WC_SUCCESS);
	finish(pair);
}

/* Who sleeps, or does not poll, gets an ACK. */
static void a_program_that_does_not_poll_waits(void **state)
{
	struct pair *pair = start_promised(2, SIZE);

	(void)state;
	pair->side[0].node->ca.acks.postpones = false;
	post_send(0, 7, SHORT);
	assert_false(is_complete_at_once(7));
	assert_true(deliver(1));
	collect(0);
	expect_sent(pair, 0, 7, IBV_WC_SUCCESS);
	pair->side[0].node->ca.acks.postpones = true;
	cq_arm(pair->side[0].send_cq, false);
	post_send(0, 8, SHORT);
	assert_false(is_complete_at_once(8));
	finish(pair);
}

/* After half of all PSNs it would seem to be ahead again. */
static void a_promise_of_long_ago_is_none(void **state)
{
	struct pair *pair = start_promised(2, SIZE);
	struct qp *qp = pair->side[0].qp;

	(void)state;
	qp->direct_path.limit = psn_add(engine_of(qp)->flight.psn, PROMISE_RECEIVES + 1);
	post_send(0, 7, SHORT);
	assert_false(is_complete_at_once(7));
	finish(pair);
}

/* Nor when its PSNs come again, after all the others. */
static void a_promise_that_is_used_up_is_none(void **state)
{
	struct pair *pair = start_promised(1, SIZE);
	struct qp *qp = pair->side[0].qp;

	(void)state;
	post_send(0, 7, SHORT);
	assert_true(is_complete_at_once(7));
	post_send(0, 8, SHORT);
	assert_false(is_complete_at_once(8));
	assert_int_equal(pair_recv(pair, 1, 1, PLACE, SIZE), 0);
	while (deliver(1))
		;
	collect(0);
	expect_sent(pair, 0, 8, IBV_WC_SUCCESS);
	qp->direct_path.limit = psn_add(engine_of(qp)->flight.psn, PROMISE_RECEIVES);
	post_send(0, 9, SHORT);
	assert_false(is_complete_at_once(9));
	finish(pair);
}

/* What was trusted on the path before: the peer may have refused it, and says nothing of it on this one. */
static void a_promise_is_of_the_path_that_the_send_took(void **state)
{
	struct pair *pair = start_promised(2, SIZE);
	struct qp *qp = pair->side[0].qp;

	(void)state;
	post_send(0, 7, SHORT);
	way.shown += 2;
	assert_true(connect(pair->side[0].node, qp));
	assert_false(is_complete_at_once(7));
	assert_true(deliver(1));
	collect(0);
	expect_sent(pair, 0, 7, IBV_WC_SUCCESS);
	finish(pair);
}

/* Two messages wait that were promised receives, whose CQ is full. */
static struct pair *start_full(void)
{
	struct pair *pair = start();
	struct pair_side *s = &pair->side[1];
	uint32_t room;

	assert_int_equal(cq_resize(s->recv_cq, 1), 0);
	room = s->recv_cq->engine.ring.capacity;
	for (uint32_t i = 0; i < room + 3; i++)
		assert_int_equal(pair_recv(pair, 1, i, PLACE, SIZE), 0);
	pass_one(1);
	for (uint32_t i = 0; i < room + 2; i++) {
		post_send(0, i, SHORT);
		assert_true(i >= room || deliver(1));
	}
	return pair;
}

/* The first finds the CQ full, and the second is executed before the QP stops: each once. */
static void a_message_whose_completion_overruns_its_cq_is_executed_once(void **state)
{
	struct pair *pair = start_full();
	struct pair_side *s = &pair->side[1];
	uint64_t received = s->qp->messages_received;

	(void)state;
	assert_true(take(1, &way.ring[1][way.head[1]]));	/* where it lies: it is the ring's oldest still */
	assert_int_equal(s->qp->messages_received, received + 2);
	assert_int_equal(s->qp->state, IBV_QPS_ERR);
	assert_int_equal(sim_events(s->node, IBV_EVENT_QP_FATAL), 1);
	pair_delete(pair);
}

/* From there only RESET leads on (IBA 11.2.5.2). */
static void a_qp_that_a_promise_ends_enters_no_other_state(void **state)
{
	struct pair *pair = start_full();
	struct pair_side *s = &pair->side[1];

	(void)state;
	assert_int_equal(qp_modify(s->qp, pair->sim->now, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD }, IBV_QP_STATE), 0);
	assert_int_equal(s->qp->state, IBV_QPS_ERR);
	assert_int_equal(sim_events(s->node, IBV_EVENT_QP_FATAL), 1);
	pair_delete(pair);
}

/* What the ACK completes finds the CQ full: the QP stops, and what waited is flushed, not executed. */
static void what_stops_on_the_way_is_not_executed(void **state)
{
	struct pair *pair = start();
	struct pair_side *s = &pair->side[0];

	(void)state;
	assert_int_equal(cq_resize(s->send_cq, 1), 0);
	for (uint32_t i = 0; i <= s->send_cq->engine.ring.capacity; i++) {
		collect(0);
		assert_int_equal(pair_recv(pair, 1, i, PLACE, SHORT), 0);
		post_send(0, i, SHORT);
		assert_true(deliver(1));
	}
	assert_int_equal(pair_recv(pair, 0, 1, PLACE, SHORT), 0);
	post_send(1, 8, SHORT);		/* and with it the ACK */
	assert_true(deliver(0));
	assert_true(list_linked(&s->qp->postponed));
	way.executed = 0;
	post_wr(pair, 0, (struct pair_wr){ .wr_id = 9, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .bytes = SHORT });
	sim_pump(pair->sim);
	assert_int_equal(s->qp->state, IBV_QPS_ERR);
	assert_int_equal(way.executed, 0);
	pair_delete(pair);
}

/* The receiver's QP stops, by itself or by its program, when two of three have come. */
static void an_error_executes_first_what_was_promised(void **state)
{
	(void)state;
	for (int how = 0; how < 2; how++) {
		struct pair *pair = start_promised(3, SIZE);
		struct qp *qp = pair->side[1].qp;

		for (uint64_t i = 0; i < 2; i++) {
			post_send(0, i, SHORT);
			assert_true(is_complete_at_once(i));
		}
		if (how)
			qp_error(qp, pair->sim->now, -1);
		else
			assert_int_equal(qp_modify(qp, pair->sim->now, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
						   IBV_QP_STATE), 0);
		for (uint64_t i = 0; i < 2; i++) {
			expect_received(pair, 1, i, IBV_WC_SUCCESS);
			assert_true(pattern_holds(pair->side[1].memory + PLACE + i * 1024, SHORT, 0));
		}
		expect_received(pair, 1, 2, IBV_WC_WR_FLUSH_ERR);
		while (deliver(1))
			;
		expect_nothing(pair, 1);
		finish(pair);
	}
}

static void a_region_goes_when_what_was_promised_is_executed(void **state)
{
	struct pair *pair = start();
	struct pair_side *s = &pair->side[1];
	struct mr *mr = new_region(s, s->pd, MR_MEMORY, IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	for (uint64_t i = 0; i < 2; i++)
		post_receive_of(s, (struct ibv_sge){ PAIR_IOVA + 2048, SIZE, mr->key }, 1);
	pass_one(1);
	post_send(0, 7, SHORT);
	assert_true(is_complete_at_once(7));
	assert_int_equal(mr_destroy(mr), 0);
	expect_received(pair, 1, 0, IBV_WC_SUCCESS);
	assert_true(pattern_holds(s->memory + 2048, SHORT, 0));
	assert_int_equal(qp_promise(s->qp).receives, 0);
	/* it is a repeat, and the next one is refused as ever */
	assert_true(deliver(1));
	expect_nothing(pair, 1);
	assert_int_equal(s->qp->state, IBV_QPS_RTS);
	post_send(0, 8, SHORT);
	assert_false(is_complete_at_once(8));
	assert_true(deliver(1));
	expect_received(pair, 1, 0, IBV_WC_LOC_PROT_ERR);
	pair_run(pair);
	expect_sent(pair, 0, 8, IBV_WC_REM_OP_ERR);
	pair_delete(pair);
}

static int post_from(struct mr *mr, uint64_t addr, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { addr, SHORT, mr->key };
	struct ibv_send_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { PAIR_IOVA, way.pair->side[1].mr->key } }, *bad;

	return qp_post_send(way.pair->side[0].qp, way.pair->sim->now, &wr, &bad);
}

/* What a QP knows of the region that it has sent from ends with the region, before its end and behind it. */
static void a_region_is_known_while_it_is_there(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE };

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		struct pair *pair = start();
		struct pair_side *s = &pair->side[0];
		struct mr *mr = new_region(s, s->pd, MR_MEMORY, 0);
		enum ibv_wr_opcode opcode = opcodes[i % 2];

		for (int n = 0; n < 2; n++) {
			assert_int_equal(pair_recv(pair, 1, 1, PLACE, SHORT), 0);
			assert_int_equal(post_from(mr, PAIR_IOVA + 4096 - SHORT, opcode), 0);
			while (deliver(1))
				;
			collect(0);
			expect_sent(pair, 0, 9, IBV_WC_SUCCESS);
		}
		if (i < 2) {
			assert_int_equal(post_from(mr, PAIR_IOVA + 4096 - SHORT + 1, opcode), 0);
		} else if (i < 4) {
			assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, s->memory, SHORT, 0), 0);
			assert_int_equal(post_from(mr, PAIR_IOVA + 4096 - SHORT, opcode), 0);
		} else {
			struct mr gone = *mr;

			assert_int_equal(mr_destroy(mr), 0);
			assert_int_equal(post_from(&gone, PAIR_IOVA + 4096 - SHORT, opcode), 0);
		}
		sim_pump(pair->sim);
		expect_sent(pair, 0, 9, IBV_WC_LOC_PROT_ERR);
		pair_delete(pair);
	}
}

static void post_access(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	post_wr(way.pair, 0, (struct pair_wr){ .wr_id = wr_id, .opcode = opcode, .flags = IBV_SEND_SIGNALED, .remote = PLACE,
					       .local = 4096, .bytes = SHORT });
}

/* Neither a write nor a read goes by what is in the ring: the write goes behind it, the read as a packet. */
static void requests_do_not_pass_what_was_promised(void **state)
{
	struct pair *pair = start_promised(3, SIZE);
	const struct counters *c = &pair->side[0].node->ca.counters;

	(void)state;
	post_send(0, 7, SHORT);
	assert_true(is_complete_at_once(7));
	post_access(IBV_WR_RDMA_WRITE, 8);
	assert_int_equal(way.executed, 0);
	assert_int_equal(way.tail[1] - way.head[1], 2);
	while (deliver(1))
		;
	collect(0);
	expect_sent(pair, 0, 8, IBV_WC_SUCCESS);
	post_access(IBV_WR_RDMA_WRITE, 9);
	assert_int_equal(way.executed, 1);
	expect_sent(pair, 0, 9, IBV_WC_SUCCESS);
	expect_received(pair, 1, 0, IBV_WC_SUCCESS);
	pass_one(1);
	post_send(0, 10, SHORT);
	assert_true(is_complete_at_once(10));
	assert_int_equal(c->sent_pkts, 0);
	sim_stop(pair->sim, 1);
	post_access(IBV_WR_RDMA_READ, 11);
	assert_int_equal(way.executed, 1);
	assert_true(c->sent_pkts > 0);
	finish(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_as_are_promised_complete_at_once),
		cmocka_unit_test(a_message_renews_the_promise),
		cmocka_unit_test(a_long_send_is_not_promised),
		cmocka_unit_test(a_receive_that_could_refuse_is_not_promised),
		cmocka_unit_test(what_is_posted_to_an_empty_queue_is_promised_again),
		cmocka_unit_test(a_peer_that_has_left_keeps_no_promise),
		cmocka_unit_test(a_program_that_does_not_poll_waits),
		cmocka_unit_test(a_promise_of_long_ago_is_none),
		cmocka_unit_test(a_promise_that_is_used_up_is_none),
		cmocka_unit_test(a_promise_is_of_the_path_that_the_send_took),
		cmocka_unit_test(a_message_whose_completion_overruns_its_cq_is_executed_once),
		cmocka_unit_test(a_qp_that_a_promise_ends_enters_no_other_state),
		cmocka_unit_test(what_stops_on_the_way_is_not_executed),
		cmocka_unit_test(an_error_executes_first_what_was_promised),
		cmocka_unit_test(a_region_goes_when_what_was_promised_is_executed),
		cmocka_unit_test(a_region_is_known_while_it_is_there),
		cmocka_unit_test(requests_do_not_pass_what_was_promised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
