/* Sends to other hosts that are posted one by one: which leave at once, and when the others do. */
#include "runtime/posts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_kept(struct posts *p, unsigned polls, wtime now)
{
	return posts_are_many(p, polls) && posts_keep(p, now);
}

static void a_few_leave_at_once(void **state)
{
	struct posts p = { 0 };

	for (unsigned i = 0; i < POSTS_ALONE; i++)
		assert_false(is_kept(&p, 7, 1000));
	assert_true(is_kept(&p, 7, 1000));
}

static void a_burst_leaves_when_it_is_full(void **state)
{
	struct posts p = { 0 };

	for (unsigned i = 0; i < POSTS_ALONE; i++)
		assert_false(is_kept(&p, 0, 1000));
	for (unsigned burst = 0; burst < 3; burst++) {
		for (unsigned i = 1; i < POSTS_KEPT; i++)
			assert_true(is_kept(&p, 0, 1000));
		assert_false(is_kept(&p, 0, 1000));
	}
}

static void nothing_is_kept_for_long(void **state)
{
	struct posts p = { 0 };

	for (unsigned i = 0; i < POSTS_ALONE; i++)
		assert_false(is_kept(&p, 0, 1000));
	assert_true(is_kept(&p, 0, 1000));
	assert_true(is_kept(&p, 0, 1000 + POSTS_KEPT_NS - 1));
	assert_false(is_kept(&p, 0, 1000 + POSTS_KEPT_NS));
	assert_true(is_kept(&p, 0, 1000 + POSTS_KEPT_NS));	/* the time is that of the next burst */
}

static void a_poll_begins_anew(void **state)
{
	struct posts p = { 0 };

	for (unsigned polls = 1; polls < 4; polls++) {
		for (unsigned i = 0; i < POSTS_ALONE; i++)
			assert_false(is_kept(&p, polls, 1000));
		assert_true(is_kept(&p, polls, 1000));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_leave_at_once),
		cmocka_unit_test(a_burst_leaves_when_it_is_full),
		cmocka_unit_test(nothing_is_kept_for_long),
		cmocka_unit_test(a_poll_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
