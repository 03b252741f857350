#include "runtime/lock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Our choices: to take the lock away costs as much as some hundred entries save, so an owner must enter this often between two
 * others; and a thread that enters so many times in a row may become the owner, twice as many each time it was not worth it. */
enum { WORTH = 1024, NEEDED_LEAST = 64, NEEDED_MOST = 1 << 20 };

/* Our choice: many times what a sleeper's wake takes; one that cannot run (a lower priority, a stopped CPU) must not stop us. */
enum { GIVE_WAY_YIELDS = 4096 };

enum { LONG_WAIT_NS = 10 * 1000 * 1000 };

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* ThreadSanitizer does not see what membarrier orders. */
static bool have_membarrier(void)
{
#ifdef __SANITIZE_THREAD__
	return false;
#else
	return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
#endif
}

void lock_init(struct runtime_lock *l)
{
	*l = (struct runtime_lock){ .needed = NEEDED_LEAST, .can_own = have_membarrier() };
	pthread_mutex_init(&l->mutex, NULL);
}

void lock_fini(struct runtime_lock *l)
{
	pthread_mutex_destroy(&l->mutex);
}

/* False: the deadline, of the clock that mutexes use, has passed. */
static bool wait_inside(struct runtime_lock *l, const struct timespec *deadline)
{
	return syscall(SYS_futex, &l->inside, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 1, deadline, NULL,
		       FUTEX_BITSET_MATCH_ANY) == 0 || errno != ETIMEDOUT;
}

void lock_left(struct runtime_lock *l)
{
	syscall(SYS_futex, &l->inside, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Every thread's stores are seen, and what it loads after this is fresh. A sandbox that came later may forbid it: stores are
 * never held back for as long as we then sleep, and nobody becomes the owner again. */
static void settle_memory(struct runtime_lock *l)
{
	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
		return;
	l->can_own = false;
	nanosleep(&(struct timespec){ .tv_nsec = LONG_WAIT_NS }, NULL);
}

/* With the mutex: nobody is inside but us. False: the owner still was at the deadline (NULL: never comes), and goes on. */
static bool take_away(struct runtime_lock *l, const struct timespec *deadline)
{
	bool waits = true;

	atomic_store_explicit(&l->bias, 0, memory_order_relaxed);
	settle_memory(l);
	while (waits && atomic_load_explicit(&l->inside, memory_order_acquire))
		waits = wait_inside(l, deadline);
	if (waits || !atomic_load_explicit(&l->inside, memory_order_acquire))
		return true;
	atomic_store_explicit(&l->bias, l->owner, memory_order_release);
	return false;
}

/* Inside, with the mutex: is an owner worth it? */
static void judge(struct runtime_lock *l, uintptr_t self)
{
	if (l->owner && l->owner != self) {
		if (l->entries < WORTH || !l->can_own) {
			l->owner = 0;
			l->needed = l->needed < NEEDED_MOST ? 2 * l->needed : NEEDED_MOST;
		} else {
			l->needed = NEEDED_LEAST;
		}
		l->entries = 0;
	}
	l->streak = l->last == self ? l->streak + 1 : 0;
	l->last = self;
	if (!l->owner && l->can_own && l->streak >= l->needed)
		l->owner = self;
}

/* With the mutex, which is given back when it is in vain. */
static bool enter(struct runtime_lock *l, const struct timespec *deadline)
{
	uintptr_t self = lock_self();

	if (l->owner && l->owner != self && !take_away(l, deadline)) {
		pthread_mutex_unlock(&l->mutex);
		return false;
	}
	judge(l, self);
	return true;
}

static void begin_to_wait(struct runtime_lock *l)
{
	atomic_fetch_add(&l->waiting, 1);
}

static void end_to_wait(struct runtime_lock *l)
{
	atomic_fetch_sub(&l->waiting, 1);
	atomic_fetch_add(&l->waited, 1);
}

void lock_enter_slowly(struct runtime_lock *l)
{
	bool has_mutex = pthread_mutex_trylock(&l->mutex) == 0;

	if (has_mutex && !l->owner) {
		enter(l, NULL);
		return;
	}
	begin_to_wait(l);
	if (!has_mutex)
		pthread_mutex_lock(&l->mutex);
	enter(l, NULL);
	end_to_wait(l);
}

void lock_give_way(struct runtime_lock *l)
{
	uint32_t waiting = atomic_load(&l->waiting), before = atomic_load(&l->waited);

	if (!waiting)
		return;
	lock_leave(l);
	for (unsigned n = 0; atomic_load(&l->waited) - before < waiting && n < GIVE_WAY_YIELDS; n++)
		sched_yield();
	lock_enter(l);
}

void lock_leave_slowly(struct runtime_lock *l)
{
	atomic_store_explicit(&l->bias, l->owner, memory_order_release);
	pthread_mutex_unlock(&l->mutex);
}

static bool is_ours(const struct runtime_lock *l)
{
	return atomic_load_explicit(&l->bias, memory_order_relaxed) == lock_self() && l->entered;
}

bool lock_soon(struct runtime_lock *l)
{
	struct timespec limit;
	bool entered;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	if (is_ours(l))
		return false;
	begin_to_wait(l);
	entered = pthread_mutex_timedlock(&l->mutex, &limit) == 0 && enter(l, &limit);
	end_to_wait(l);
	return entered;
}
