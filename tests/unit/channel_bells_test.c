/* Bells: each that rang is taken once, rings that meet a take are not lost, and only a sleeping owner is to be woken. */
#include "direct/channel_bells.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Every bell is taken: threads that wait for each other's may be started. */
static bool is_sound;

static void every_bell_is_taken_once(void **state)
{
	static struct channel_bells n;
	static bool taken[CHANNEL_BELLS];
	int bell, count = 0;

	for (uint32_t i = 0; i < CHANNEL_BELLS; i++) {
		assert_false(bells_ring(&n, i));
		assert_false(bells_ring(&n, i));
	}
	for (; (bell = bells_take(&n)) >= 0; count++) {
		assert_in_range(bell, 0, CHANNEL_BELLS - 1);
		assert_false(taken[bell]);
		taken[bell] = true;
	}
	assert_int_equal(count, CHANNEL_BELLS);
	assert_false(bells_any(&n));
	is_sound = true;
}

static void only_a_sleeping_owner_is_woken(void **state)
{
	struct channel_bells n = { 0 };

	assert_true(bells_may_sleep(&n, BELL_WAKE_FD));
	assert_true(bells_ring(&n, 5));
	assert_false(bells_ring(&n, 6));	/* once is enough */
	assert_false(bells_may_sleep(&n, BELL_WAKE_FD));
	bells_awake(&n);
	assert_int_equal(bells_take(&n), 5);
	assert_int_equal(bells_take(&n), 6);
	assert_int_equal(bells_take(&n), -1);
	assert_false(bells_ring(&n, 7));
}

/* What a peer that writes nonsense does: a look in vain. */
static void a_summary_without_bells(void **state)
{
	struct channel_bells n = { 0 };

	atomic_store(&n.any, UINT64_MAX);
	assert_int_equal(bells_take(&n), -1);
	assert_false(bells_any(&n));
}

enum { RINGERS = 3, RINGS = 2000, LOOKS = 1000 };

struct ringer {
	struct channel_bells *bells;
	uint32_t bell;
	_Atomic uint32_t rung, heard;
};

/* A thread of ours runs most likely on the other CPU; where others have it, it must be let in. */
static void look_or_yield(unsigned *looks)
{
	if (++*looks % LOOKS == 0)
		sched_yield();
}

/* Rings again when it was heard, as a channel that rests again does. */
static void *ring(void *arg)
{
	struct ringer *r = arg;
	unsigned looks = 0;

	for (uint32_t i = 1; i <= RINGS; i++) {
		atomic_store(&r->rung, i);
		bells_ring(r->bells, r->bell);
		while (atomic_load(&r->heard) != i)
			look_or_yield(&looks);
	}
	return NULL;
}

static void rings_beside_takes_are_heard(void **state)
{
	static struct channel_bells n;
	static struct ringer ringers[RINGERS];
	pthread_t thread[RINGERS];
	uint32_t heard = 0;
	unsigned looks = 0;

	assert_true(is_sound);
	for (uint32_t i = 0; i < RINGERS; i++) {
		ringers[i] = (struct ringer){ .bells = &n, .bell = i * 63 };	/* two of one word */
		assert_int_equal(pthread_create(&thread[i], NULL, ring, &ringers[i]), 0);
	}
	while (heard < RINGERS * RINGS) {
		int bell = bells_take(&n);

		if (bell < 0) {
			look_or_yield(&looks);
			continue;
		}
		assert_int_equal(bell % 63, 0);
		atomic_store(&ringers[bell / 63].heard, atomic_load(&ringers[bell / 63].rung));
		heard++;
	}
	for (int i = 0; i < RINGERS; i++)
		pthread_join(thread[i], NULL);
	assert_false(bells_any(&n));
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
