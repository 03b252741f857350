/* The direct path between threads: hazard words against an owner that hides, and two that want the atomics' lock. */
#include "adapter.h"

#include "direct/hazard.h"
#include "direct/share.h"

#include <pthread.h>
#include <sched.h>

enum { ROUNDS = 20000, ATOMIC_ROUNDS = 20000 };

static struct share_memory *make_memory(void)
{
	struct share_memory *m = aligned_alloc(SHARE_LINE, sizeof(*m));

	assert_non_null(m);
	memset(m, 0, sizeof(*m));
	return m;
}

/* ---- an owner that hides against a user ---- */

struct duel {
	struct share_memory *memory;
	struct share share;
	_Atomic uint64_t access;
	_Atomic uint32_t valid;		/* the region's memory "exists" */
	_Atomic bool stop;
	unsigned used;
};

static void *use(void *arg)
{
	struct duel *d = arg;
	struct share_region got;

	while (!atomic_load(&d->stop)) {
		hazard_begin(&d->access, 1, 99);
		if (share_find_region(d->memory, 99, &got)) {
			assert_int_equal(atomic_load(&d->valid), 1);
			assert_int_equal(got.address, got.iova);
			d->used++;
			assert_int_equal(atomic_load(&d->valid), 1);
		}
		hazard_end(&d->access);
	}
	return NULL;
}

static void hidden_is_not_used(void **state)
{
	struct duel *d = calloc(1, sizeof(*d));
	pthread_t user;

	d->memory = make_memory();
	assert_int_equal(share_init(&d->share, d->memory), 0);
	assert_int_equal(pthread_create(&user, NULL, use, d), 0);
	for (unsigned i = 0; i < ROUNDS || (d->used == 0 && i < 100 * ROUNDS); i++) {
		struct share_region r = { .key = 99, .address = i, .iova = i };
		uint32_t handle;

		atomic_store(&d->valid, 1);
		handle = share_show_region(&d->share, &r);
		if (i % 64 == 0)
			sched_yield();
		share_hide_region(&d->share, handle);
		while (hazard_names_key(&d->access, 99))
			;
		atomic_store(&d->valid, 0);
	}
	atomic_store(&d->stop, true);
	pthread_join(user, NULL);
	share_fini(&d->share);
	free(d->memory);
	free(d);
}

/* ---- the lock ---- */

static bool is_alive(void *owner, uint32_t holder)
{
	return holder != *(const uint32_t *)owner;
}

static void relax(void *owner)
{
	sched_yield();
}

static const struct atomic_lock_ops lock_ops = { is_alive, relax };

struct adder {
	struct atomic_lock *lock;
	uint64_t *sum;
	uint32_t self, dead;
};

static void *add(void *arg)
{
	struct adder *a = arg;

	for (unsigned i = 0; i < ATOMIC_ROUNDS; i++) {
		while (!atomic_lock_take(a->lock, a->self, &lock_ops, &a->dead))
			;
		++*a->sum;
		atomic_lock_give(a->lock, a->self);
	}
	return NULL;
}

static void lock_excludes(void **state)
{
	struct atomic_lock lock = { 0 };
	uint64_t sum = 0;
	struct adder a[2] = { { &lock, &sum, 1, 9 }, { &lock, &sum, 2, 9 } };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, add, &a[1]), 0);
	add(&a[0]);
	pthread_join(thread, NULL);
	assert_int_equal(sum, 2 * ATOMIC_ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hidden_is_not_used),
		cmocka_unit_test(lock_excludes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
