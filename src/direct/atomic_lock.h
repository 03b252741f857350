/* The lock around atomics on one process's memory, in memory that all its users share. The word names its holder, so
 * that the lock of a dead one can be taken over; it guards nothing but a word that is whole in any case. */
#ifndef WEFT_DIRECT_ATOMIC_LOCK_H
#define WEFT_DIRECT_ATOMIC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct atomic_lock {
	_Atomic uint32_t holder;	/* a number of the process that has it; 0: free */
};

/* What waiting needs of its owner. */
struct atomic_lock_ops {
	bool (*is_alive)(void *owner, uint32_t holder);
	void (*relax)(void *owner);	/* let others run */
};

/* Takes it for `self` (not 0). False: a living holder kept it for all of our patience. */
bool atomic_lock_take(struct atomic_lock *l, uint32_t self, const struct atomic_lock_ops *ops, void *owner);
/* Gives it back if it is still ours. */
void atomic_lock_give(struct atomic_lock *l, uint32_t self);

#endif
