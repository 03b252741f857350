/* The lock of a process that mostly one thread enters: threads that enter as often as they can, an owner among them, and what
 * forking and leaving do with it. */
#include "runtime/lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { OTHERS = 3, OWNER_ENTRIES = 2000000, OTHER_ENTRIES = 3000, MANY = 5000 };

struct shared {
	struct runtime_lock lock;
	uint64_t count, twin;	/* guarded */
};

static void count_one(struct shared *s)
{
	lock_enter(&s->lock);
	assert_true(s->count == s->twin);
	s->count++;
	s->twin++;
	lock_leave(&s->lock);
}

static void *enter_often(void *arg)
{
	struct shared *s = arg;

	for (int i = 0; i < OTHER_ENTRIES; i++) {
		count_one(s);
		/* some at once, some after the owner has entered often */
		for (volatile int pause = 0; pause < i % 7 * 1000; pause++)
			;
	}
	return NULL;
}

static void one_at_a_time(void **state)
{
	static struct shared s;
	pthread_t thread[OTHERS];

	(void)state;
	lock_init(&s.lock);
	for (int i = 0; i < OTHERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, enter_often, &s), 0);
	for (int i = 0; i < OWNER_ENTRIES; i++)
		count_one(&s);
	for (int i = 0; i < OTHERS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(s.count, OWNER_ENTRIES + OTHERS * OTHER_ENTRIES);
	lock_fini(&s.lock);
}

static void enter_many(struct runtime_lock *l)
{
	for (int i = 0; i < MANY; i++) {
		lock_enter(l);
		lock_leave(l);
	}
}

static void *enter_once(void *arg)
{
	lock_enter(arg);
	lock_leave(arg);
	return NULL;
}

static void let_another_enter(struct runtime_lock *l)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, enter_once, l), 0);
	pthread_join(thread, NULL);
}

static void who_enters_often_owns_it(void **state)
{
	struct runtime_lock l;

	(void)state;
	lock_init(&l);
	enter_many(&l);
	if (!l.can_own) {	/* the system has no membarrier */
		assert_true(l.owner == 0);
		lock_fini(&l);
		return;
	}
	assert_true(l.owner == lock_self());
	/* another that comes seldom leaves it to the owner, one that comes again at once does not */
	let_another_enter(&l);
	assert_true(l.owner == lock_self());
	let_another_enter(&l);
	assert_true(l.owner == 0);
	enter_many(&l);
	assert_true(l.owner == lock_self());
	lock_fini(&l);
}

struct attempt {
	struct runtime_lock *lock;
	bool entered;
};

static void *attempt(void *arg)
{
	struct attempt *a = arg;

	a->entered = lock_soon(a->lock);
	if (a->entered)
		lock_leave(a->lock);
	return NULL;
}

/* Could a thread that is not the owner get in? */
static bool enters_elsewhere(struct runtime_lock *l)
{
	struct attempt a = { .lock = l };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, attempt, &a), 0);
	pthread_join(thread, NULL);
	return a.entered;
}

/* Held by the owner or as a mutex: neither another thread nor the same one, in a signal handler say, gets in. */
static void trying_ends(void **state)
{
	const int entries_before[] = { 0, MANY };

	(void)state;
	for (unsigned i = 0; i < sizeof(entries_before) / sizeof(entries_before[0]); i++) {
		struct runtime_lock l;

		lock_init(&l);
		for (int n = 0; n < entries_before[i]; n++) {
			lock_enter(&l);
			lock_leave(&l);
		}
		lock_enter(&l);
		assert_false(enters_elsewhere(&l));
		assert_false(lock_soon(&l));
		lock_leave(&l);
		assert_true(enters_elsewhere(&l));
		assert_true(lock_soon(&l));
		lock_leave(&l);
		lock_fini(&l);
	}
}

static void *count_in_turn(void *arg)
{
	count_one(arg);
	return NULL;
}

/* Who is inside all the time lets in who waits; it ends only when that is so. */
static void giving_way_lets_others_in(void **state)
{
	const int entries_before[] = { 0, MANY };

	(void)state;
	for (unsigned i = 0; i < sizeof(entries_before) / sizeof(entries_before[0]); i++) {
		struct shared s = { 0 };
		pthread_t thread[OTHERS];

		lock_init(&s.lock);
		for (int n = 0; n < entries_before[i]; n++) {
			lock_enter(&s.lock);
			lock_leave(&s.lock);
		}
		lock_enter(&s.lock);
		for (int n = 0; n < OTHERS; n++)
			assert_int_equal(pthread_create(&thread[n], NULL, count_in_turn, &s), 0);
		while (s.count < OTHERS)
			lock_give_way(&s.lock);
		lock_leave(&s.lock);
		for (int n = 0; n < OTHERS; n++)
			assert_int_equal(pthread_join(thread[n], NULL), 0);
		lock_fini(&s.lock);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(who_enters_often_owns_it),
		cmocka_unit_test(trying_ends),
		cmocka_unit_test(giving_way_lets_others_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
