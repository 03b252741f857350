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
			       .payload = data, .payload_bytes = 16 }, taken;
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
	p.order = 3;
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
	p.order = MP_ORDERED;
	p.length = 15;
	assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector_5_3), cmocka_unit_test(a_gap_is_told_in_fast_mode), cmocka_unit_test(every_distance),
		cmocka_unit_test(what_is_never_unordered), cmocka_unit_test(a_path_fails_and_returns),
		cmocka_unit_test(refusals_are_counted_and_have_an_end), cmocka_unit_test(retries_have_an_end),
		cmocka_unit_test(an_access_error_ends_it),
		cmocka_unit_test(packets_that_make_no_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
