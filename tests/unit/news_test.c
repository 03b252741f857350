/* Bells: each that rang is taken once, rings that meet a take are not lost, and only a sleeping owner is to be woken. */
#include "direct/news.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void every_bell_is_taken_once(void **state)
{
	static struct news n;
	static bool taken[NEWS_BELLS];
	int bell, count = 0;

	for (uint32_t i = 0; i < NEWS_BELLS; i++) {
		assert_false(news_ring(&n, i));
		assert_false(news_ring(&n, i));
	}
	for (; (bell = news_take(&n)) >= 0; count++) {
		assert_in_range(bell, 0, NEWS_BELLS - 1);
		assert_false(taken[bell]);
		taken[bell] = true;
	}
	assert_int_equal(count, NEWS_BELLS);
	assert_false(news_waits(&n));
}

static void only_a_sleeping_owner_is_woken(void **state)
{
	struct news n = { 0 };

	assert_true(news_may_sleep(&n, NEWS_WAKE_FD));
	assert_true(news_ring(&n, 5));
	assert_false(news_ring(&n, 6));	/* once is enough */
	assert_false(news_may_sleep(&n, NEWS_WAKE_FD));
	news_awake(&n);
	assert_int_equal(news_take(&n), 5);
	assert_int_equal(news_take(&n), 6);
	assert_int_equal(news_take(&n), -1);
	assert_false(news_ring(&n, 7));
}

/* What a peer that writes nonsense does: a look in vain. */
static void a_summary_without_bells(void **state)
{
	struct news n = { 0 };

	atomic_store(&n.any, UINT64_MAX);
	assert_int_equal(news_take(&n), -1);
	assert_false(news_waits(&n));
}

enum { RINGERS = 3, RINGS = 50000 };

struct ringer {
	struct news *news;
	uint32_t bell;
	_Atomic uint32_t rung, heard;
};

/* Rings again when it was heard, as a channel that rests again does. */
static void *ring(void *arg)
{
	struct ringer *r = arg;

	for (uint32_t i = 1; i <= RINGS; i++) {
		atomic_store(&r->rung, i);
		news_ring(r->news, r->bell);
		while (atomic_load(&r->heard) != i)
			sched_yield();
	}
	return NULL;
}

static void rings_beside_takes_are_heard(void **state)
{
	static struct news n;
	static struct ringer ringers[RINGERS];
	pthread_t thread[RINGERS];
	uint32_t heard = 0;

	for (uint32_t i = 0; i < RINGERS; i++) {
		ringers[i] = (struct ringer){ .news = &n, .bell = i * 63 };	/* two of one word */
		assert_int_equal(pthread_create(&thread[i], NULL, ring, &ringers[i]), 0);
	}
	while (heard < RINGERS * RINGS) {
		int bell = news_take(&n);

		if (bell < 0) {
			sched_yield();
			continue;
		}
		assert_int_equal(bell % 63, 0);
		atomic_store(&ringers[bell / 63].heard, atomic_load(&ringers[bell / 63].rung));
		heard++;
	}
	for (int i = 0; i < RINGERS; i++)
		pthread_join(thread[i], NULL);
	assert_false(news_waits(&n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bell_is_taken_once),
		cmocka_unit_test(only_a_sleeping_owner_is_woken),
		cmocka_unit_test(a_summary_without_bells),
		cmocka_unit_test(rings_beside_takes_are_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
