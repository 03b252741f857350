/* The seed's protocol for several paths, to the packet: vector 5.3, boundaries, and what the other end may not do. */
#include "multipath_run.h"

#include <errno.h>

enum { A, B };

static struct mp_requester requester;
static struct mp_responder responder;
static unsigned executed;
static enum mp_status answers = MP_OK;
static uint8_t data[4096];

static enum mp_status count(void *arg, const struct mp_packet *p, uint8_t *answer)
{
	executed += answers == MP_OK;
	memset(answer, 0x5a, mp_answer_bytes(p->code, p->length));
	return answers;
}

static void begin(void (*change)(struct mp_config *))
{
	const struct mp_target target = { count, NULL };
	struct mp_config c;

	mp_config_init(&c);
	c.connection = 7;
	c.paths = 2;
	c.mtu_bytes = 16;
	if (change)
		change(&c);
	executed = 0;
	answers = MP_OK;
	assert_int_equal(mp_requester_init(&requester, &c), 0);
	assert_int_equal(mp_responder_init(&responder, &c, &target), 0);
}

static void end(void)
{
	mp_requester_fini(&requester);
	mp_responder_fini(&responder);
}

static int post(enum mp_opcode opcode, bool is_unordered, uint64_t address, uint32_t bytes)
{
	struct mp_request q = { .opcode = opcode, .is_unordered = is_unordered, .address = address, .bytes = bytes, .from = data,
				.into = data };

	return mp_requester_post(&requester, &q);
}

/* The next packet, which is of this type and on this path. */
static struct mp_packet next(wtime now, enum mp_type type, unsigned path)
{
	struct mp_packet p;
	unsigned on;

	assert_true(mp_requester_output(&requester, now, &on, &p));
	assert_int_equal(p.type, type);
	assert_int_equal(on, path);
	return p;
}

static void none(wtime now)
{
	struct mp_packet p;
	unsigned on;

	assert_false(mp_requester_output(&requester, now, &on, &p));
}

static struct mp_packet request(unsigned path, enum mp_order order, uint32_t pkn)
{
	struct mp_packet p = next(0, MP_REQ, path);

	assert_int_equal(p.order, order);
	assert_int_equal(p.pkn, pkn);
	return p;
}

/* The responder's reply to it: a response with its number. */
static struct mp_packet answered(unsigned path, const struct mp_packet *p)
{
	struct mp_packet reply;

	assert_true(mp_responder_input(&responder, path, p, &reply));
	assert_int_equal(reply.pkn, p->pkn);
	assert_int_equal(reply.tag, p->tag);
	return reply;
}

static void dropped(unsigned path, const struct mp_packet *p)
{
	struct mp_packet reply;

	assert_false(mp_responder_input(&responder, path, p, &reply));
}

static void exchange(unsigned path, const struct mp_packet *p)
{
	struct mp_packet reply = answered(path, p);

	assert_int_equal(reply.type, MP_RSP);
	mp_requester_input(&requester, 0, path, &reply);
}

static void vector_5_3(void **state)
{
	struct mp_packet u[6], o[6], reply;

	begin(NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(post(MP_WRITE, true, 100u * (unsigned)i, 16), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	u[1] = request(A, MP_UNORDERED, 0);
	u[2] = request(B, MP_UNORDERED, 0);
	u[3] = request(A, MP_UNORDERED, 0);
	none(0);		/* MPT-14 */
	exchange(B, &u[2]);
	exchange(A, &u[3]);
	none(0);
	exchange(A, &u[1]);
	assert_int_equal(responder.rsn, 0);
	assert_int_equal(requester.rqn, 0);
	o[1] = request(A, MP_ORDERED, 0);
	assert_int_equal(requester.rqn, 1);
	o[2] = request(A, MP_ORDERED, 1);
	o[3] = request(A, MP_ORDERED, 2);
	assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
	assert_int_equal(post(MP_WRITE, true, 16, 16), 0);
	none(0);		/* MPT-15 */
	exchange(A, &o[1]);
	assert_int_equal(responder.rsn, 1);
	exchange(A, &o[2]);
	none(0);
	exchange(A, &o[3]);
	assert_int_equal(responder.rsn, 3);
	u[4] = request(B, MP_UNORDERED, 3);
	u[5] = request(A, MP_UNORDERED, 3);
	assert_int_equal(executed, 6);
	dropped(B, &u[2]);	/* MPT-21 */
	reply = answered(A, &o[1]);	/* MPT-20 */
	assert_int_equal(reply.type, MP_RSP);
	assert_int_equal(executed, 6);
	exchange(B, &u[4]);
	exchange(A, &u[5]);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	o[4] = request(A, MP_ORDERED, 3);
	o[5] = request(A, MP_ORDERED, 4);
	dropped(A, &o[5]);	/* strict: silent */
	assert_int_equal(responder.rsn, 3);
	exchange(A, &o[4]);
	exchange(A, &o[5]);
	assert_int_equal(responder.rsn, 5);
	assert_int_equal(requester.rqn, 5);
	end();
}

static void follow(struct mp_config *c)
{
	c->follows_ordered = true;
}

/* MPT-15: behind ordered packets by their path, at once; by another when they were answered. None is refused. */
static void unordered_packets_follow_on_the_same_path(void **state)
{
	struct mp_packet o, u[4];

	begin(follow);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(post(MP_WRITE, true, 16 * i, 16), 0);
	o = request(A, MP_ORDERED, 0);
	u[0] = request(A, MP_UNORDERED, 1);
	u[1] = request(A, MP_UNORDERED, 1);
	exchange(A, &o);
	u[2] = request(A, MP_UNORDERED, 1);
	u[3] = request(B, MP_UNORDERED, 1);
	for (int i = 0; i < 4; i++)
		exchange(i == 3 ? B : A, &u[i]);
	assert_int_equal(executed, 5);
	end();
}

static void follow_fast(struct mp_config *c)
{
	c->follows_ordered = c->is_fast = true;
}

/* The ordered packet is lost: what followed it is refused, and all of it goes again, once. */
static void what_followed_a_lost_packet_goes_again(void **state)
{
	struct mp_packet o, u[2], nak[2];

	begin(follow_fast);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(post(MP_WRITE, true, 16 * i, 16), 0);
	request(A, MP_ORDERED, 0);
	for (int i = 0; i < 2; i++)
		u[i] = request(A, MP_UNORDERED, 1);
	for (int i = 0; i < 2; i++)
		nak[i] = answered(A, &u[i]);
	mp_requester_input(&requester, 0, A, &nak[0]);
	o = request(A, MP_ORDERED, 0);
	assert_int_equal(o.attempt, 1);
	u[0] = request(A, MP_UNORDERED, 1);
	mp_requester_input(&requester, 0, A, &nak[1]);
	u[1] = request(A, MP_UNORDERED, 1);	/* and not the ordered one a third time */
	none(0);
	exchange(A, &o);
	exchange(A, &u[0]);
	exchange(A, &u[1]);
	assert_int_equal(executed, 3);
	end();
}

/* The target has no buffer for the ordered packet: what follows it waits with it. */
static void what_follows_a_refused_packet_waits(void **state)
{
	struct mp_packet o, u, nak[2];
	wtime now;

	begin(follow_fast);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
	o = request(A, MP_ORDERED, 0);
	u = request(A, MP_UNORDERED, 1);
	answers = MP_NAK_NO_BUFFER;
	nak[0] = answered(A, &o);
	nak[1] = answered(A, &u);
	assert_int_equal(nak[1].code, MP_NAK_SEQUENCE);
	for (int i = 0; i < 2; i++)
		mp_requester_input(&requester, 0, A, &nak[i]);
	none(0);
	now = mp_requester_deadline(&requester);
	mp_requester_expire(&requester, now);
	o = next(now, MP_REQ, A);
	assert_int_equal(o.order, MP_ORDERED);
	u = next(now, MP_REQ, A);
	assert_int_equal(u.order, MP_UNORDERED);
	none(now);
	end();
}

/* the last packet first */
static void a_request_is_done_with_all_its_packets(void **state)
{
	struct mp_packet u[3];
	struct mp_completion c;

	begin(NULL);
	assert_int_equal(post(MP_WRITE, true, 0, 48), 0);
	for (unsigned i = 0; i < 3; i++) {
		u[i] = request(i % 2, MP_UNORDERED, 0);
		assert_int_equal(u[i].last, i == 2);
		assert_int_equal(u[i].number, i);
		assert_int_equal(u[i].total, 48);
	}
	exchange(A, &u[2]);
	exchange(B, &u[1]);
	assert_false(mp_requester_poll(&requester, &c));
	exchange(A, &u[0]);
	assert_true(mp_requester_poll(&requester, &c));
	assert_int_equal(c.status, MP_OK);
	end();
}

/* the last packet of a WRITE with immediate data is the flag, and leaves when all before it were answered. */
static void an_ordered_end_waits_for_the_rest(void **state)
{
	struct mp_request q = { .opcode = MP_WRITE, .ends_ordered = true, .bytes = 48, .from = data, .trailer = MP_IMMEDIATE,
				.extra = 99, .is_solicited = true };
	struct mp_packet u[2], o;

	begin(NULL);
	assert_int_equal(mp_requester_post(&requester, &q), 0);
	u[0] = request(A, MP_UNORDERED, 0);
	u[1] = request(B, MP_UNORDERED, 0);
	none(0);
	exchange(B, &u[1]);
	none(0);
	exchange(A, &u[0]);
	o = request(A, MP_ORDERED, 0);
	assert_int_equal(o.extra, 99);
	assert_int_equal(o.trailer, MP_IMMEDIATE);
	assert_true(o.last && o.solicited && !u[1].trailer && !u[1].solicited);
	exchange(A, &o);
	assert_int_equal(responder.rsn, 1);
	end();
}

/* What has the same address may be elsewhere, and the other way round. */
static void spaces_are_not_written_at_once(void **state)
{
	struct mp_request q = { .opcode = MP_WRITE, .is_unordered = true, .bytes = 16, .from = data, .space = 1 };
	struct mp_packet u;

	begin(NULL);
	assert_int_equal(mp_requester_post(&requester, &q), 0);
	q.address = 64;
	q.space = 2;
	assert_int_equal(mp_requester_post(&requester, &q), 0);
	q.opcode = MP_READ;
	assert_int_equal(mp_requester_post(&requester, &q), 0);
	u = request(A, MP_UNORDERED, 0);
	none(0);
	exchange(A, &u);
	u = request(B, MP_UNORDERED, 0);
	none(0);		/* a READ of what is being written */
	exchange(B, &u);
	request(A, MP_UNORDERED, 0);
	end();
}

static void say_when(struct mp_config *c)
{
	c->refusals = MP_ENDLESS;
}

/* MPT-27: the target says how long it wants to be left alone; any number of times is borne when that is wished. */
static void a_target_without_buffers_says_how_long(void **state)
{
	wtime now = 0;

	begin(say_when);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	answers = MP_NAK_NO_BUFFER;
	for (int i = 0; i < 300; i++) {
		struct mp_packet o = next(now, MP_REQ, A), nak = answered(A, &o);

		nak.extra = i == 5 ? UINT32_MAX : 100;
		mp_requester_input(&requester, now, A, &nak);
		none(now);
		assert_int_equal(mp_requester_deadline(&requester), now + (i == 5 ? 65536 : 100) * 10 * WTIME_US);
		now = mp_requester_deadline(&requester);
		mp_requester_expire(&requester, now);
	}
	end();
}

static void be_patient(struct mp_config *c)
{
	c->last_tries = 20;
}

/* MPT-31: the last path is given more time than one whose packets could go by another. */
static void the_last_path_is_borne_with(void **state)
{
	unsigned barriers[2] = { 0, 0 };
	struct mp_completion c;
	wtime now = 0;

	begin(be_patient);
	assert_int_equal(post(MP_WRITE, true, 0, 32), 0);
	while (!mp_requester_poll(&requester, &c)) {
		struct mp_packet p;
		unsigned path;

		mp_requester_expire(&requester, now);
		while (mp_requester_output(&requester, now, &path, &p))
			barriers[path] += p.type == MP_BARRIER;
		assert_true(now < WTIME_S);
		now = mp_requester_deadline(&requester);
	}
	assert_int_equal(c.status, MP_NO_PATH);
	assert_int_equal(barriers[A], 20);
	assert_int_equal(barriers[B], 20);
	end();
}

static void be_quick(struct mp_config *c)
{
	c->least_ns = 50 * WTIME_US;
}

/* MPT-28: T follows the round trip, within bounds. */
static void the_timer_follows_the_round_trip(void **state)
{
	struct mp_packet u, reply;
	struct mp_config c;

	mp_config_init(&c);
	begin(be_quick);
	for (wtime now = 0, i = 0; i < 40; i++, now += 2 * WTIME_MS) {
		unsigned path = i % 2;
		wtime trip = i < 20 ? WTIME_US : 300 * WTIME_US;

		assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
		u = next(now, MP_REQ, path);
		if (i < 2)
			assert_int_equal(mp_requester_deadline(&requester), now + c.timeout_ns);
		else if (i == 19)
			assert_int_equal(mp_requester_deadline(&requester), now + 50 * WTIME_US);
		else if (i == 39)
			assert_true(mp_requester_deadline(&requester) > now + 300 * WTIME_US &&
				    mp_requester_deadline(&requester) < now + 2 * WTIME_MS);
		reply = answered(path, &u);
		mp_requester_input(&requester, now + trip, path, &reply);
	}
	end();
}

static void be_fast(struct mp_config *c)
{
	c->is_fast = true;
}

static void a_gap_is_told_in_fast_mode(void **state)
{
	struct mp_packet o[3], nak;

	begin(be_fast);
	for (int i = 0; i < 3; i++)
		assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	for (uint32_t i = 0; i < 3; i++)
		o[i] = request(A, MP_ORDERED, i);
	nak = answered(A, &o[1]);
	assert_int_equal(nak.type, MP_NAK);
	assert_int_equal(nak.code, MP_NAK_SEQUENCE);
	assert_int_equal(nak.number, 0);
	mp_requester_input(&requester, 0, A, &nak);
	nak = answered(A, &o[2]);
	for (uint32_t i = 0; i < 3; i++) {
		o[i] = request(A, MP_ORDERED, i);
		assert_int_equal(o[i].attempt, 1);
	}
	mp_requester_input(&requester, 0, A, &nak);	/* of an attempt that is history: nothing goes again */
	none(0);
	for (int i = 0; i < 3; i++)
		exchange(A, &o[i]);
	assert_int_equal(executed, 3);
	end();
}

static void be_narrow(struct mp_config *c)
{
	c->width = 8;
	c->start = 200;
	c->window = 8;
	c->replay = 16;
}

/* MPT-19: each number of 8 bits */
static void every_distance(void **state)
{
	begin(be_narrow);
	for (unsigned d = 0; d < 256; d++) {
		struct mp_packet reply, p = { .type = MP_REQ, .code = MP_WRITE, .order = MP_UNORDERED, .connection = 7,
					      .pkn = (200 + d) % 256 };
		enum mp_verdict verdict = d == 0 ? MP_EXECUTED : d < 128 ? MP_AHEAD : MP_STALE;
		uint64_t before = responder.count[verdict];

		assert_int_equal(mp_responder_input(&responder, A, &p, &reply), d == 0);
		assert_int_equal(responder.count[verdict], before + 1);
	}
	end();
}

/* MPT-23 */
static void what_is_never_unordered(void **state)
{
	begin(NULL);
	assert_int_equal(post(MP_SEND, true, 0, 8), -EINVAL);
	assert_int_equal(post(MP_FETCH_ADD, true, 0, 8), -EINVAL);
	assert_int_equal(post(MP_COMPARE_SWAP, true, 0, 8), -EINVAL);
	assert_int_equal(post(MP_NOP, false, 0, 0), -EINVAL);
	assert_int_equal(post(MP_WRITE, true, UINT64_MAX, 8), -EINVAL);
	none(0);
	end();
}

/* MPT-28..34: a path is cut, its packet goes over the other, and a stale copy does not land until the path is back. */
static void a_path_fails_and_returns(void **state)
{
	wtime t = 0;
	struct mp_packet u, again, down, up, p, reply;

	begin(NULL);
	assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
	u = request(A, MP_UNORDERED, 0);
	for (int i = 0; i < 3; i++) {
		t = mp_requester_deadline(&requester);
		mp_requester_expire(&requester, t);
		p = next(t, MP_BARRIER, A);
		none(t);
		reply = (struct mp_packet){ .type = MP_BARRIER_RSP, .connection = 7, .address = p.address + 1 };
		mp_requester_input(&requester, t, A, &reply);	/* of another BARRIER */
		assert_int_equal(requester.path[A].state, MP_PATH_SUSPECT);
	}
	t = mp_requester_deadline(&requester);
	mp_requester_expire(&requester, t);
	down = next(t, MP_PATH_DOWN, B);
	assert_int_equal(down.path, A);
	assert_int_equal(down.epoch, 1);
	none(t);		/* MPT-32 */
	assert_true(mp_responder_input(&responder, B, &down, &reply));
	mp_requester_input(&requester, t, B, &reply);
	again = next(t, MP_REQ, B);
	assert_int_equal(again.attempt, 1);
	assert_int_equal(again.tag, u.tag);
	dropped(A, &u);
	assert_int_equal(executed, 0);
	reply = answered(B, &again);
	mp_requester_input(&requester, t, A, &reply);	/* by another path than it left by: not taken */
	assert_int_equal(requester.unordered, 1);
	mp_requester_input(&requester, t, B, &reply);
	assert_int_equal(requester.unordered, 0);
	t = mp_requester_deadline(&requester);
	mp_requester_expire(&requester, t);
	p = next(t, MP_BARRIER, A);
	assert_true(mp_responder_input(&responder, A, &p, &reply));
	mp_requester_input(&requester, t, A, &reply);
	up = next(t, MP_PATH_UP, B);
	assert_int_equal(up.epoch, 2);
	assert_true(mp_responder_input(&responder, B, &up, &reply));
	mp_requester_input(&requester, t, B, &reply);
	assert_int_equal(requester.path[A].state, MP_PATH_GOOD);
	dropped(B, &down);	/* MPT-34 */
	up.type = MP_PATH_DOWN;
	up.epoch = 5;		/* of the future */
	dropped(B, &up);
	assert_int_equal(responder.epoch[A], 2);
	end();
}

static void answer_forged(unsigned path, enum mp_type type, uint8_t of, uint32_t epoch, uint64_t identification)
{
	struct mp_packet p = { .type = (uint8_t)type, .connection = 7, .path = of, .epoch = epoch, .address = identification };

	mp_requester_input(&requester, 0, path, &p);
}

/* No answer changes a path but that to what is under way, with its identification or epoch, by the path that it left by. */
static void forged_answers_change_no_path(void **state)
{
	const struct mp_path *a = &requester.path[A];
	wtime t;

	begin(NULL);
	assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
	request(A, MP_UNORDERED, 0);
	answer_forged(A, MP_BARRIER_RSP, 0, 0, 0);	/* nobody asked */
	answer_forged(A, MP_PATH_DOWN_RSP, A, 1, 0);
	answer_forged(A, MP_PATH_UP_RSP, A, 0, 0);
	assert_int_equal(a->state, MP_PATH_GOOD);
	assert_int_equal(requester.unordered, 1);
	t = mp_requester_deadline(&requester);
	mp_requester_expire(&requester, t);
	answer_forged(A, MP_BARRIER_RSP, 0, 0, a->barrier);	/* before it left */
	assert_int_equal(a->state, MP_PATH_SUSPECT);
	next(t, MP_BARRIER, A);
	answer_forged(B, MP_BARRIER_RSP, 0, 0, a->barrier);	/* by another path */
	answer_forged(A, MP_BARRIER_RSP, 0, 0, a->barrier ^ 1);
	assert_int_equal(a->state, MP_PATH_SUSPECT);
	for (int i = 0; i < 3; i++) {
		t = mp_requester_deadline(&requester);
		mp_requester_expire(&requester, t);
		if (i < 2)
			next(t, MP_BARRIER, A);
	}
	assert_int_equal(a->state, MP_PATH_LEAVING);
	next(t, MP_PATH_DOWN, B);
	answer_forged(B, MP_PATH_DOWN_RSP, A, 3, 0);	/* epochs of the future, and of the past */
	answer_forged(B, MP_PATH_DOWN_RSP, A, UINT32_MAX, 0);
	answer_forged(B, MP_PATH_DOWN_RSP, B, 1, 0);	/* of another path */
	answer_forged(B, MP_PATH_UP_RSP, A, 1, 0);	/* of another change */
	answer_forged(B, MP_PATH_DOWN_RSP, 2, 1, 0);	/* there is no such path */
	answer_forged(B, MP_PATH_DOWN_RSP, UINT8_MAX, 1, 0);
	assert_int_equal(requester.count.foreign, 2);
	assert_int_equal(a->state, MP_PATH_LEAVING);
	none(t);		/* MPT-32 */
	answer_forged(B, MP_PATH_DOWN_RSP, A, 1, 0);
	assert_int_equal(a->state, MP_PATH_BAD);
	answer_forged(B, MP_PATH_DOWN_RSP, A, 1, 0);	/* once more */
	assert_int_equal(a->state, MP_PATH_BAD);
	end();
}

/* What a responder does not take is counted for what it is. */
static void forged_changes_change_no_path(void **state)
{
	static const struct {
		enum mp_type type;
		unsigned by;
		uint8_t of;
		uint32_t epoch, connection;
		enum mp_verdict verdict;
	} rows[] = {
		{ MP_PATH_DOWN, A, B, 1, 8, MP_FOREIGN }, { MP_PATH_DOWN, A, 2, 1, 7, MP_FOREIGN },
		{ MP_PATH_DOWN, A, UINT8_MAX, 1, 7, MP_FOREIGN }, { MP_PATH_DOWN, 2, B, 1, 7, MP_FOREIGN },
		{ MP_BARRIER, A, 0, 0, 8, MP_FOREIGN }, { MP_BARRIER, 2, 0, 0, 7, MP_FOREIGN },
		{ MP_PATH_DOWN, A, B, 3, 7, MP_PATH_OLD }, { MP_PATH_UP, A, B, 2, 7, MP_PATH_OLD },
		{ MP_PATH_DOWN, A, B, UINT32_MAX, 7, MP_PATH_OLD }, { MP_PATH_DOWN, A, B, 1, 7, MP_PATH_CHANGED },
		{ MP_PATH_DOWN, A, B, 1, 7, MP_PATH_REPEATED }, { MP_PATH_UP, B, B, 2, 7, MP_FILTERED },
		{ MP_PATH_UP, A, B, 0, 7, MP_PATH_OLD }, { MP_PATH_UP, A, B, 4, 7, MP_PATH_OLD },
		{ MP_PATH_UP, A, B, 2, 7, MP_PATH_CHANGED }, { MP_PATH_DOWN, A, B, 1, 7, MP_PATH_OLD },
		{ MP_PATH_UP, A, B, 2, 7, MP_PATH_REPEATED }, { MP_BARRIER, B, 0, 0, 7, MP_BARRIER_ANSWERED },
	};

	begin(NULL);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mp_packet reply, p = { .type = (uint8_t)rows[i].type, .path = rows[i].of, .epoch = rows[i].epoch,
					      .connection = rows[i].connection };
		uint64_t before = responder.count[rows[i].verdict];
		bool is_answered = rows[i].verdict == MP_PATH_CHANGED || rows[i].verdict == MP_PATH_REPEATED ||
				   rows[i].verdict == MP_BARRIER_ANSWERED;

		print_message("row %u\n", i);
		assert_int_equal(mp_responder_input(&responder, rows[i].by, &p, &reply), is_answered);
		assert_int_equal(responder.count[rows[i].verdict], before + 1);
		assert_int_equal(responder.epoch[A], 0);
	}
	assert_int_equal(responder.epoch[B], 2);
	end();
}

/* Hands over what leaves, but for what is lost: by path A, or of a type. */
static void exchange_all(wtime t, bool is_cut, enum mp_type lost)
{
	struct mp_packet p, reply;
	unsigned path;

	mp_requester_expire(&requester, t);
	while (mp_requester_output(&requester, t, &path, &p))
		if (!(is_cut && path == A) && p.type != lost && mp_responder_input(&responder, path, &p, &reply))
			mp_requester_input(&requester, t, path, &reply);
}

/* A peer that answers all but PATH-DOWN, or PATH-UP: the connection ends within the retries of these. */
static void changes_without_an_answer_have_an_end(void **state)
{
	static const enum mp_type unanswered[] = { MP_PATH_DOWN, MP_PATH_UP };

	for (int i = 0; i < 2; i++) {
		struct mp_completion c;

		begin(NULL);
		assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
		exchange_all(0, true, unanswered[i]);
		while (!requester.error) {
			wtime t = mp_requester_deadline(&requester);

			assert_true(t < WTIME_S);
			exchange_all(t, requester.path[A].state != MP_PATH_BAD, unanswered[i]);
		}
		assert_int_equal(requester.error, MP_RETRIES_EXCEEDED);
		assert_true(mp_requester_poll(&requester, &c));
		assert_int_equal(c.status, i ? MP_OK : MP_RETRIES_EXCEEDED);
		end();
	}
}

/* A path that comes and goes for ever: what it had is answered by the other within the same time each time. */
static void a_path_that_flaps_for_ever_stalls_nothing(void **state)
{
	enum { TIMES = 1000 };
	wtime t = 0, stall;
	struct mp_completion c;

	begin(NULL);
	stall = (1 + requester.config.barrier_tries) * requester.config.timeout_ns;	/* T, and three BARRIERs */
	for (unsigned i = 0; i < TIMES; i++) {
		bool is_done = false, was_bad = false;
		wtime since = t;

		requester.turn = A;
		assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
		while (!is_done || !was_bad || requester.path[A].state != MP_PATH_GOOD) {
			exchange_all(t, !was_bad, 0);
			while (mp_requester_poll(&requester, &c)) {
				assert_int_equal(c.status, MP_OK);
				assert_int_equal(t - since, stall);
				is_done = true;
			}
			was_bad |= requester.path[A].state == MP_PATH_BAD;
			if (mp_requester_deadline(&requester) != WTIME_NEVER)
				t = mp_requester_deadline(&requester);
		}
	}
	assert_int_equal(requester.path[A].epoch, 2 * TIMES);
	assert_int_equal(responder.epoch[A], 2 * TIMES);
	assert_int_equal(requester.count.path_failures, TIMES);
	assert_int_equal(requester.count.path_returns, TIMES);
	end();
}

/* MPT-27 */
static void refusals_are_counted_and_have_an_end(void **state)
{
	struct mp_completion c;
	wtime t = 0;

	begin(NULL);
	answers = MP_NAK_NO_BUFFER;
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	for (int i = 0; i < 8; i++) {
		struct mp_packet p = next(t, MP_REQ, A), reply;

		reply = answered(A, &p);
		p = next(t, MP_REQ, A);
		dropped(A, &p);
		mp_requester_input(&requester, t, A, &reply);
		none(t);
		t = mp_requester_deadline(&requester);
		mp_requester_expire(&requester, t);
	}
	assert_int_equal(responder.rsn, 0);
	assert_true(mp_requester_poll(&requester, &c));
	assert_int_equal(c.status, MP_NAK_NO_BUFFER);
	assert_true(mp_requester_poll(&requester, &c));
	assert_int_equal(c.status, MP_FLUSHED);
	assert_int_equal(post(MP_SEND, false, 0, 16), -EPIPE);
	end();
}

/* MPT-27: it ends the connection at both ends; what is pipelined behind it is not done. */
static void an_access_error_ends_it(void **state)
{
	struct mp_completion c;
	struct mp_packet o[2], reply[2];

	begin(NULL);
	assert_int_equal(post(MP_WRITE, false, 0, 16), 0);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	for (uint32_t i = 0; i < 2; i++)
		o[i] = request(A, MP_ORDERED, i);
	answers = MP_NAK_ACCESS;
	reply[0] = answered(A, &o[0]);
	answers = MP_OK;
	reply[1] = answered(A, &o[0]);
	assert_int_equal(reply[1].code, MP_NAK_ACCESS);
	reply[1] = answered(A, &o[1]);
	assert_int_equal(executed, 0);
	mp_requester_input(&requester, 0, A, &reply[0]);
	none(0);
	assert_true(mp_requester_poll(&requester, &c));
	assert_int_equal(c.status, MP_NAK_ACCESS);
	assert_true(mp_requester_poll(&requester, &c));
	assert_int_equal(c.status, MP_FLUSHED);
	assert_int_equal(mp_requester_deadline(&requester), WTIME_NEVER);
	end();
}

/* MPT-36, over one path that loses every request and answers every BARRIER */
static void retries_have_an_end(void **state)
{
	struct mp_completion c;
	unsigned sent = 0;

	begin(NULL);
	assert_int_equal(post(MP_SEND, false, 0, 16), 0);
	while (!mp_requester_poll(&requester, &c)) {
		wtime t = sent ? mp_requester_deadline(&requester) : 0;
		struct mp_packet p, reply;
		unsigned path;

		assert_true(sent < 100);
		mp_requester_expire(&requester, t);
		while (mp_requester_output(&requester, t, &path, &p)) {
			sent += p.type == MP_REQ;
			if (p.type == MP_BARRIER && mp_responder_input(&responder, path, &p, &reply))
				mp_requester_input(&requester, t, path, &reply);
		}
	}
	assert_int_equal(c.status, MP_RETRIES_EXCEEDED);
	assert_int_equal(sent, 8);
	end();
}

/* A packet that is spoiled, or too short, or makes no sense is none. */
static void packets_that_make_no_sense(void **state)
{
	struct mp_packet p = { .version = MP_VERSION, .type = MP_REQ, .code = MP_WRITE, .order = MP_UNORDERED, .length = 16,
			       .total = 16, .payload = data, .payload_bytes = 16 }, taken;
	uint8_t bytes[MP_HEADER + 16 + MP_CRC];
	size_t size = mp_packet_build(&p, bytes);

	assert_true(mp_packet_parse(&taken, bytes, size));
	for (size_t n = 0; n < size; n++) {
		assert_false(mp_packet_parse(&taken, bytes, n));
		bytes[n] ^= 1;
		assert_false(mp_packet_parse(&taken, bytes, size));
		bytes[n] ^= 1;
	}
	p.code = MP_SEND;	/* MPT-23 */
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
	p.code = MP_WRITE;
	p.trailer = MP_IMMEDIATE;	/* an unordered packet tells nobody anything */
	p.last = 1;
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
	p.order = MP_ORDERED;
	assert_true(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
	p.trailer = MP_INVALIDATE;
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
	p.trailer = MP_PLAIN;
	p.total = 15;
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
	p.total = 16;
	p.order = 3;
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
	p.order = MP_ORDERED;
	p.length = 15;
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unordered_packets_follow_on_the_same_path),
		cmocka_unit_test(what_followed_a_lost_packet_goes_again),
		cmocka_unit_test(what_follows_a_refused_packet_waits),
		cmocka_unit_test(a_request_is_done_with_all_its_packets),
		cmocka_unit_test(an_ordered_end_waits_for_the_rest),
		cmocka_unit_test(spaces_are_not_written_at_once),
		cmocka_unit_test(a_target_without_buffers_says_how_long),
		cmocka_unit_test(the_last_path_is_borne_with),
		cmocka_unit_test(the_timer_follows_the_round_trip),
		cmocka_unit_test(vector_5_3), cmocka_unit_test(a_gap_is_told_in_fast_mode), cmocka_unit_test(every_distance),
		cmocka_unit_test(what_is_never_unordered), cmocka_unit_test(a_path_fails_and_returns),
		cmocka_unit_test(forged_answers_change_no_path),
		cmocka_unit_test(forged_changes_change_no_path),
		cmocka_unit_test(changes_without_an_answer_have_an_end),
		cmocka_unit_test(a_path_that_flaps_for_ever_stalls_nothing),
		cmocka_unit_test(refusals_are_counted_and_have_an_end), cmocka_unit_test(retries_have_an_end),
		cmocka_unit_test(an_access_error_ends_it),
		cmocka_unit_test(packets_that_make_no_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
