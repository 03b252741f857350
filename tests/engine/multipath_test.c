/* The seed's protocol for several paths, to the packet: vector 5.3, order and numbers, what requests are and how they end. Its
 * paths are in multipath_paths_test.c. */
#include "multipath_pair.h"

#include <errno.h>

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
	for (int type = MP_BARRIER; type <= MP_PATH_UP_RSP; type++)
		for (uint32_t epoch = 0; epoch < 2; epoch++) {	/* odd: the path is down */
			bool is_down = type == MP_PATH_DOWN || type == MP_PATH_DOWN_RSP, is_up = type >= MP_PATH_UP;

			p = (struct mp_packet){ .version = MP_VERSION, .type = (uint8_t)type, .epoch = epoch, .payload = data };
			assert_int_equal(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)),
					 epoch ? !is_up : !is_down);
			p.payload_bytes = 1;
			assert_false(mp_packet_parse(&taken, bytes, mp_packet_build(&p, bytes)));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vector_5_3),
		cmocka_unit_test(unordered_packets_follow_on_the_same_path),
		cmocka_unit_test(what_followed_a_lost_packet_goes_again),
		cmocka_unit_test(what_follows_a_refused_packet_waits),
		cmocka_unit_test(a_request_is_done_with_all_its_packets),
		cmocka_unit_test(an_ordered_end_waits_for_the_rest),
		cmocka_unit_test(spaces_are_not_written_at_once),
		cmocka_unit_test(a_target_without_buffers_says_how_long),
		cmocka_unit_test(a_gap_is_told_in_fast_mode),
		cmocka_unit_test(every_distance),
		cmocka_unit_test(what_is_never_unordered),
		cmocka_unit_test(refusals_are_counted_and_have_an_end),
		cmocka_unit_test(an_access_error_ends_it),
		cmocka_unit_test(packets_that_make_no_sense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
