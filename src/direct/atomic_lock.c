/* Patience is counted in tries, as nothing here knows the time. */
#include "direct/atomic_lock.h"

enum {
	SPINS = 256,		/* our choice: a holder copies 8 bytes twice, in a microsecond */
	PATIENCE = 1 << 16,	/* tries in all: some 10 ms of a stopped holder */
};

/* From *holder, 0 when it is free. False: *holder has it. */
static bool take_from(struct atomic_lock *l, uint32_t self, uint32_t *holder)
{
	return atomic_compare_exchange_strong_explicit(&l->holder, holder, self, memory_order_acquire, memory_order_relaxed);
}

bool atomic_lock_take(struct atomic_lock *l, uint32_t self, const struct atomic_lock_ops *ops, void *owner)
{
	for (unsigned tries = 0; tries < PATIENCE; tries++) {
		uint32_t holder = 0;

		if (take_from(l, self, &holder))
			return true;
		if (tries < SPINS)
			continue;
		if (!ops->is_alive(owner, holder) && take_from(l, self, &holder))
			return true;
		ops->relax(owner);
	}
	return false;
}

void atomic_lock_give(struct atomic_lock *l, uint32_t self)
{
	uint32_t holder = self;

	atomic_compare_exchange_strong_explicit(&l->holder, &holder, 0, memory_order_release, memory_order_relaxed);
}
