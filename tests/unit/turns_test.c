/* However few polls of a program are in vain, and wherever messages come, what else a poll does has its turn. */
#include "runtime/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A message comes at every so many polls. The longest that it takes until a poll does all, and until ACKs are read. */
static void watch(unsigned period, unsigned first, unsigned *all, unsigned *acks)
{
	unsigned in_vain = 0, done = first, read = first;

	*all = *acks = 0;
	for (unsigned polls = first; polls < first + 5000; polls++) {
		bool comes = polls % period == 0;

		in_vain = comes ? 0 : in_vain + 1;
		if (comes ? polls % TURNS_IDLE : turns_is_idle(polls, in_vain, false, false))
			continue;
		*all = polls - done > *all ? polls - done : *all;
		done = polls;
		if (!turns_reads_acks(polls - read, in_vain))
			continue;
		*acks = polls - read > *acks ? polls - read : *acks;
		read = polls;
	}
	*all = first + 5000 - done > *all ? first + 5000 - done : *all;
	*acks = first + 5000 - read > *acks ? first + 5000 - read : *acks;
}

static void messages_put_nothing_off_for_ever(void **state)
{
	unsigned all, acks;

	(void)state;
	for (unsigned period = 1; period < 300; period++)
		for (unsigned first = 1; first < 140; first++) {
			watch(period, first, &all, &acks);
			assert_in_range(all, 1, TURNS_BUSY);
			assert_in_range(acks, 1, TURNS_ACKS_BUSY + TURNS_BUSY);
		}
}

/* A message takes some polls in vain. It should cost no turn. */
static void turns_are_few_between_messages(void **state)
{
	unsigned turns = 0, reads = 0, read = 0;

	(void)state;
	for (unsigned polls = 1; polls <= 8000; polls++) {
		unsigned in_vain = polls % 8;

		if (in_vain == 0 || turns_is_idle(polls, in_vain, false, false))
			continue;
		turns++;
		if (turns_reads_acks(polls - read, in_vain)) {
			reads++;
			read = polls;
		}
	}
	assert_in_range(turns, 0, 8000 / TURNS_BUSY);
	assert_in_range(reads, 0, 8000 / TURNS_ACKS_BUSY);
}

static void who_waits_has_turns_at_each_32nd_poll(void **state)
{
	(void)state;
	for (unsigned in_vain = 1; in_vain < 1000; in_vain++)
		assert_int_equal(turns_is_idle(1000003, in_vain, false, false), in_vain % TURNS_IDLE != 0);
	assert_true(turns_reads_acks(TURNS_ACKS, TURNS_ACKS));
	assert_false(turns_reads_acks(TURNS_ACKS - 1, TURNS_ACKS));
	assert_false(turns_reads_acks(TURNS_ACKS, TURNS_ACKS - 1));
}

static void what_must_be_asked_is_asked_often(void **state)
{
	(void)state;
	for (unsigned polls = 0; polls < 1000; polls++) {
		assert_int_equal(turns_is_idle(polls, 1, true, true), polls % TURNS_ASKED != 0);
		assert_int_equal(turns_is_idle(polls, 1, true, false), polls % TURNS_IDLE != 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_put_nothing_off_for_ever),
		cmocka_unit_test(turns_are_few_between_messages),
		cmocka_unit_test(who_waits_has_turns_at_each_32nd_poll),
		cmocka_unit_test(what_must_be_asked_is_asked_often),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
