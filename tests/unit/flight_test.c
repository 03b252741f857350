/* The book of packets in flight: what acknowledges what, going back, and its bounds across the wrap of PSNs and MSNs.
 * MSN-05, MSN-08, MSN-17, MSN-27, MSN-30, MSN-46. */
#include "ib/flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { WINDOW = 16 };

/* Messages of 3, 6 and 2 packets from PSN FFFFFD on: FFFFFD-FFFFFF, 0-5, 6-7. */
static void fill(struct flight *f, uint32_t msn)
{
	static const uint32_t packets[3] = { 3, 6, 2 };

	assert_int_equal(flight_init(f, WINDOW), 0);
	flight_open(f, 0xfffffd, msn);
	for (uint32_t wqe = 0; wqe < 3; wqe++)
		for (uint32_t i = 0; i < packets[wqe]; i++) {
			struct flight_entry e = {
				.psn = f->psn, .span = 1, .wqe = wqe, .packet = i, .is_last = i + 1 == packets[wqe],
			};

			flight_record(f, &e);
		}
	flight_check(f);
	assert_int_equal(f->psn, 8);
}

/* MSN-08, MSN-30: cumulative, modulo 2^24; what was acknowledged before changes nothing. */
static void acknowledgements_are_cumulative(void **state)
{
	static const struct { psn_t through; unsigned gone; uint32_t msn; } row[] = {
		{ 0xfffffc, 0, 0 }, { 0xfffffd, 1, 0 }, { 0xffffff, 2, 1 }, { 0xfffffe, 0, 1 },
		{ 2, 3, 1 }, { 6, 4, 2 }, { 7, 1, 3 },
	};
	struct flight f;

	(void)state;
	fill(&f, 0);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(flight_ack(&f, row[i].through, false, 0), row[i].gone);
		assert_int_equal(f.msn, row[i].msn);
		flight_check(&f);
	}
	assert_true(flight_empty(&f));
	flight_fini(&f);
}

/* A direct message takes the PSNs of its packets: it is settled by the last of them. */
static void a_whole_message_is_settled_by_its_last_psn(void **state)
{
	struct flight_entry whole = { .psn = 0xfffffe, .span = 4, .answer = ANSWER_ACK, .is_last = true, .is_direct = true };
	struct flight f;

	(void)state;
	assert_int_equal(flight_init(&f, WINDOW), 0);
	flight_open(&f, 0xfffffe, 0);
	flight_record(&f, &whole);
	for (int i = 0; i < 3; i++)
		assert_int_equal(flight_ack(&f, psn_add(0xfffffe, i), false, 0), 0);
	assert_int_equal(flight_ack(&f, 1, false, 0), 1);
	flight_fini(&f);
}

/* MSN-17: in the seed profile ends of messages go as far as the MSN, across its wrap, and no further. */
static void the_msn_takes_whole_messages(void **state)
{
	struct flight f;

	(void)state;
	fill(&f, 0xfffffd);
	assert_int_equal(flight_ack(&f, 0xffffff, true, 0xfffffd), 2);	/* the last packet arrived, its message did not */
	assert_int_equal(flight_ack(&f, 0xffffff, true, 0xffffff), 1 + 6);
	assert_int_equal(f.msn, 0xffffff);
	assert_int_equal(flight_ack(&f, 7, true, 0), 2);
	assert_int_equal(f.msn, 0);
	assert_true(flight_empty(&f));
	flight_fini(&f);
}

/* MSN-27: going back moves what is sent next, and a late acknowledgement still counts. */
static void going_back_keeps_the_book(void **state)
{
	struct flight f;

	(void)state;
	fill(&f, 0);
	assert_true(flight_rewind(&f, 1));
	assert_int_equal(flight_at(&f, f.resend)->psn, 1);
	assert_false(flight_rewind(&f, 3));
	assert_true(flight_rewind(&f, 0xfffffd));
	assert_int_equal(f.resend, f.oldest);
	assert_int_equal(flight_ack(&f, 4, false, 0), 8);
	assert_int_equal(flight_at(&f, f.resend)->psn, 5);
	flight_check(&f);
	flight_fini(&f);
}

/* MSN-46: a book holds its window, and never spans half of the PSNs, so that comparing them always tells the order. */
static void half_the_numbers_at_most(void **state)
{
	struct flight_entry read = { .psn = 0xfffff0, .span = 1 << 22, .answer = ANSWER_READ, .is_last = true };
	struct flight f;

	(void)state;
	assert_int_equal(flight_init(&f, WINDOW), 0);
	flight_open(&f, 0xfffff0, 0);
	assert_true(flight_has_room(&f, 1 << 23));
	flight_record(&f, &read);
	assert_true(flight_has_room(&f, (1 << 22) - 1));
	assert_false(flight_has_room(&f, 1 << 22));
	flight_close(&f);
	flight_fini(&f);
	fill(&f, 0);
	for (unsigned i = 11; i < WINDOW; i++) {
		assert_true(flight_has_room(&f, 1));
		flight_record(&f, &(struct flight_entry){ .psn = f.psn, .span = 1, .wqe = i, .is_last = true });
	}
	assert_false(flight_has_room(&f, 1));
	flight_fini(&f);
}

/* What the peer holds makes room, as far ahead as it can name. */
static void what_is_held_is_not_under_way(void **state)
{
	struct flight f;

	(void)state;
	assert_int_equal(flight_init(&f, WINDOW), 0);
	flight_open(&f, 0xfffff8, 0);
	loss_open(&f);
	for (uint32_t i = 0; i < WINDOW; i++) {
		struct flight_entry e = { .psn = f.psn, .span = 1, .wqe = i, .is_last = true };

		loss_sent(&f, f.newest, 1, true, 0);
		flight_record(&f, &e);
	}
	loss_select(&f);
	loss_widen(&f);
	assert_false(flight_has_room(&f, 1));
	loss_held(&f, 3, 2);
	assert_int_equal(flight_under_way(&f), WINDOW - 1);
	assert_true(flight_has_room(&f, LOSS_SPAN - WINDOW));
	assert_false(flight_has_room(&f, LOSS_SPAN - WINDOW + 1));
	for (uint32_t i = 0; i < WINDOW; i++)
		assert_int_equal(flight_at(&f, i)->psn, psn_add(0xfffff8, i));
	flight_check(&f);
	flight_rewind_all(&f);
	assert_int_equal(flight_under_way(&f), WINDOW);
	flight_check(&f);
	flight_fini(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(acknowledgements_are_cumulative),
		cmocka_unit_test(a_whole_message_is_settled_by_its_last_psn),
		cmocka_unit_test(the_msn_takes_whole_messages),
		cmocka_unit_test(going_back_keeps_the_book),
		cmocka_unit_test(half_the_numbers_at_most),
		cmocka_unit_test(what_is_held_is_not_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
