/* Requests to a subnet administration that wait for room: their order, what one sender may have, what is asked again. */
#include "sm/sa_queue.h"
#include "wire/field.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint8_t mad[MAD_BYTES];

/* LIDs below have as many answers under way as they may. */
static uint16_t busy_below;
static unsigned asked;

static bool may(void *arg, uint16_t lid)
{
	(void)arg;
	asked++;
	return lid >= busy_below;
}

static struct sa_waiting *take(struct sa_queue *q)
{
	return sa_queue_take(q, may, NULL);
}

static bool put(struct sa_queue *q, uint16_t lid, uint32_t tid)
{
	const struct mad_letter l = { .remote = { .lid = lid, .qpn = 1 }, .data = mad, .bytes = MAD_BYTES };

	wire_put(mad, tid, 8, 0, 64);
	return !sa_queue_put(q, &l);
}

static void expect(struct sa_queue *q, uint16_t lid, uint32_t tid)
{
	struct sa_waiting *w = take(q);

	assert_non_null(w);
	assert_int_equal(w->letter.remote.lid, lid);
	assert_int_equal(wire_get(w->letter.data, 8, 0, 64), tid);
	assert_int_equal(w->letter.bytes, MAD_BYTES);
	free(w);
}

static struct sa_queue *start(void)
{
	struct sa_queue *q = malloc(sizeof(*q));

	assert_non_null(q);
	sa_queue_init(q);
	return q;
}

static void end(struct sa_queue *q)
{
	sa_queue_fini(q);
	assert_int_equal(q->count, 0);
	free(q);
}

static void first_come_first_served(void **state)
{
	struct sa_queue *q = start();

	assert_null(take(q));
	for (uint32_t i = 0; i < 20; i++)
		assert_true(put(q, (uint16_t)(1 + i % 3), i));
	for (uint32_t i = 0; i < 20; i++)
		expect(q, (uint16_t)(1 + i % 3), i);
	assert_null(take(q));
	end(q);
}

/* Who gets no answer sends the same again; it is another question when the first one was taken, or of another sender. */
static void asked_again_is_asked_once(void **state)
{
	struct sa_queue *q = start();

	assert_true(put(q, 5, 1));
	assert_true(put(q, 5, 2));
	assert_false(put(q, 5, 1));
	assert_false(put(q, 5, 2));
	assert_true(put(q, 6, 1));
	expect(q, 5, 1);
	assert_true(put(q, 5, 1));
	assert_false(put(q, 5, 2));
	expect(q, 5, 2);
	expect(q, 6, 1);
	expect(q, 5, 1);
	assert_null(take(q));
	assert_true(put(q, 5, 1));
	end(q);
}

static void one_sender_leaves_places(void **state)
{
	struct sa_queue *q = start();
	uint32_t n = 0;

	while (put(q, 7, n))
		n++;
	assert_int_equal(n, SA_WAITING_OF_ONE);
	for (uint16_t lid = 100; q->count < SA_WAITING; lid++)
		assert_true(put(q, lid, 1));
	assert_false(put(q, 8, 1));
	expect(q, 7, 0);
	assert_true(put(q, 8, 1));
	end(q);
}

static void what_is_no_mad(void **state)
{
	struct sa_queue *q = start();
	struct mad_letter l = { .data = mad, .bytes = MAD_BYTES + 1 };

	assert_int_equal(sa_queue_put(q, &l), -EMSGSIZE);
	l.bytes = MAD_HEADER_BYTES - 1;
	assert_int_equal(sa_queue_put(q, &l), -EINVAL);
	end(q);
}

/* Others go before one who has enough under way, who is served in turn when that has gone. Each is asked for once a search. */
static void who_has_enough_waits_alone(void **state)
{
	struct sa_queue *q = start();

	for (uint32_t i = 0; i < SA_WAITING_OF_ONE; i++)
		assert_true(put(q, 5, i));
	busy_below = 6;
	assert_false(sa_queue_has(q, may, NULL));
	assert_null(take(q));
	assert_true(put(q, 7, 1));
	assert_true(put(q, 6, 2));
	asked = 0;
	assert_true(sa_queue_has(q, may, NULL));
	assert_int_equal(asked, 2);
	expect(q, 7, 1);
	expect(q, 6, 2);
	assert_null(take(q));
	assert_true(put(q, 7, 1));
	busy_below = 0;
	expect(q, 5, 0);
	expect(q, 5, 1);
	assert_int_equal(q->of_lid[5].count, SA_WAITING_OF_ONE - 2);
	end(q);
}

/* Who is not heard hears so, but for what waits already. */
static void why_one_does_not_wait(void **state)
{
	const struct mad_letter l = { .remote = { .lid = 9, .qpn = 1 }, .data = mad, .bytes = MAD_BYTES };
	struct sa_queue *q = start();

	for (uint32_t i = 0; i < SA_WAITING_OF_ONE; i++)
		assert_true(put(q, 9, i));
	wire_put(mad, 3, 8, 0, 64);
	assert_int_equal(sa_queue_put(q, &l), -EALREADY);
	wire_put(mad, 1000, 8, 0, 64);
	assert_int_equal(sa_queue_put(q, &l), -EDQUOT);
	end(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_come_first_served), cmocka_unit_test(asked_again_is_asked_once),
		cmocka_unit_test(one_sender_leaves_places), cmocka_unit_test(what_is_no_mad),
		cmocka_unit_test(who_has_enough_waits_alone), cmocka_unit_test(why_one_does_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
