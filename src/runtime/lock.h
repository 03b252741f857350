/* The lock of a process that mostly one thread enters. Once a thread has entered often enough in a row the lock is *its*: it
 * enters and leaves by plain stores, no atomic instruction that would wait for the lines it has just written for its peers.
 * Others then take the lock away for as long as they are inside, by membarrier(2), which costs them microseconds; when they do
 * that often, the lock becomes an ordinary mutex again. Without membarrier it always is. Not recursive. */
#ifndef WEFT_RUNTIME_LOCK_H
#define WEFT_RUNTIME_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct runtime_lock {
	_Alignas(64) _Atomic uintptr_t bias;	/* the owner, while it may enter by itself; 0 otherwise */
	_Atomic uint32_t inside;	/* the owner is, or tries; a futex */
	bool entered;			/* the owner is, by itself; only its own */
	uint32_t entries;		/* the owner's since another thread was inside; only its own */
	_Alignas(64) pthread_mutex_t mutex;	/* guards the rest; whoever is not the owner has it while inside */
	uintptr_t owner;		/* whose lock it is, or 0 */
	uintptr_t last;			/* who had the mutex last ... */
	uint32_t streak, needed;	/* ... so many times in a row; enough to own the lock */
	_Atomic uint32_t waiting, waited;	/* threads that found it taken: now, and how many no longer wait */
	bool can_own;			/* there is membarrier */
};

void lock_init(struct runtime_lock *l);
void lock_fini(struct runtime_lock *l);

/* For lock_enter and lock_leave: through the mutex, and telling who waits for the owner to leave. */
void lock_enter_slowly(struct runtime_lock *l);
void lock_leave_slowly(struct runtime_lock *l);
void lock_left(struct runtime_lock *l);

/* What tells threads apart: the address of their control block. */
static inline uintptr_t lock_self(void)
{
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ < 11
	uintptr_t self;	/* what that built-in function becomes in GCC 11; older ones have it for other processors only */

	__asm__("mov %%fs:0, %0" : "=r"(self));
	return self;
#else
	return (uintptr_t)__builtin_thread_pointer();
#endif
}

/* The store to `inside` and the load of `bias` may pass each other here; who changes `bias` makes up for that with
 * membarrier, and then looks at `inside`. */
static inline void lock_enter(struct runtime_lock *l)
{
	uintptr_t self = lock_self();

	if (atomic_load_explicit(&l->bias, memory_order_relaxed) == self) {
		atomic_store_explicit(&l->inside, 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&l->bias, memory_order_acquire) == self) {
			l->entered = true;
			l->entries++;
			return;
		}
		atomic_store_explicit(&l->inside, 0, memory_order_release);
		lock_left(l);
	}
	lock_enter_slowly(l);
}

static inline void lock_leave(struct runtime_lock *l)
{
	if (!l->entered) {
		lock_leave_slowly(l);
		return;
	}
	l->entered = false;
	atomic_store_explicit(&l->inside, 0, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&l->bias, memory_order_relaxed) == 0)
		lock_left(l);
}

/* For who is inside for long: lets those in who wait now. To leave alone would be to enter again before a sleeper wakes. */
void lock_give_way(struct runtime_lock *l);

/* Entered? Waits a second at most. False: somebody is inside all the time, perhaps the caller itself in what a signal
 * interrupted. */
bool lock_soon(struct runtime_lock *l);

#endif
