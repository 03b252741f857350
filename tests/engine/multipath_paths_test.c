/* The paths of the seed's protocol, to the packet: timers, BARRIERs, changes, and what neither end may make the other believe. */
#include "multipath_pair.h"

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
	answer_forged(2, MP_BARRIER_RSP, 0, 0, 0);	/* by a path that is not there */
	assert_int_equal(requester.count.foreign, 1);
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
	assert_int_equal(requester.count.foreign, 3);
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
		{ MP_PATH_DOWN, A, A, 1, 7, MP_FOREIGN },	/* no path is taken down by itself */
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

/* Somebody who knows the connection has told the responder that a path is down, and so often up and down again: what leaves by it
 * is filtered, and goes again within the timeout, as the answer to the BARRIER tells the epoch. The path is used again. */
static void a_forged_change_stalls_nothing(void **state)
{
	for (uint32_t epoch = 1; epoch < 6; epoch++) {
		struct mp_completion c;
		wtime t;

		begin(NULL);
		for (uint32_t i = 1; i <= epoch; i++) {
			struct mp_packet reply, p = { .type = i % 2 ? MP_PATH_DOWN : MP_PATH_UP, .path = A, .epoch = i,
						      .connection = 7 };

			assert_true(mp_responder_input(&responder, B, &p, &reply));
			mp_requester_input(&requester, 0, B, &reply);
		}
		assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
		exchange_all(0, false, 0);
		t = mp_requester_deadline(&requester);
		if (epoch % 2) {
			assert_int_equal(responder.count[MP_FILTERED], 1);
			assert_int_equal(t, requester.config.timeout_ns);
			exchange_all(t, false, 0);
			assert_int_equal(requester.count.foreign, 1);
		}
		assert_true(mp_requester_poll(&requester, &c));
		assert_int_equal(c.status, MP_OK);
		assert_int_equal(requester.path[A].state, MP_PATH_GOOD);
		assert_int_equal(responder.epoch[A], epoch + epoch % 2);
		assert_int_equal(executed, 1);
		end();
	}
}

/* The same while the path is away: it comes back all the same, and its next failure is told. */
static void forged_changes_of_a_path_that_is_away(void **state)
{
	for (uint32_t epoch = 2; epoch < 6; epoch++) {
		struct mp_completion c;
		wtime t = 0;

		begin(NULL);
		for (unsigned i = 0; i < 2; i++) {
			requester.turn = A;
			assert_int_equal(post(MP_WRITE, true, 0, 16), 0);
			for (; requester.path[A].state != MP_PATH_BAD; t = mp_requester_deadline(&requester))
				exchange_all(t, true, 0);
			assert_true(mp_requester_poll(&requester, &c));
			assert_int_equal(c.status, MP_OK);
			for (uint32_t to = 2; !i && to <= epoch; to++) {
				struct mp_packet reply, p = { .type = to % 2 ? MP_PATH_DOWN : MP_PATH_UP, .path = A,
							      .epoch = to, .connection = 7 };

				assert_true(mp_responder_input(&responder, B, &p, &reply));
			}
			exchange_all(t, false, 0);
			assert_int_equal(requester.path[A].state, MP_PATH_GOOD);
			assert_int_equal(responder.epoch[A], requester.path[A].epoch);
		}
		assert_int_equal(requester.error, MP_OK);
		end();
	}
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_path_is_borne_with),
		cmocka_unit_test(the_timer_follows_the_round_trip),
		cmocka_unit_test(a_path_fails_and_returns),
		cmocka_unit_test(forged_answers_change_no_path),
		cmocka_unit_test(forged_changes_change_no_path),
		cmocka_unit_test(a_forged_change_stalls_nothing),
		cmocka_unit_test(forged_changes_of_a_path_that_is_away),
		cmocka_unit_test(changes_without_an_answer_have_an_end),
		cmocka_unit_test(a_path_that_flaps_for_ever_stalls_nothing),
		cmocka_unit_test(retries_have_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
