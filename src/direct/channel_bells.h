/* The doorbell bitmap of a process: which of its channels it shall look at, so that a poll need not look at all. Its peers of
 * the same user map it. A process that waits for a channel's doorbell says so in the channel, passes a full fence and looks
 * at the channel once more; a sender passes a full fence and looks whether the doorbell is waited for. A doorbell means only
 * "look". A sleeping owner is woken by its eventfd, where its helper thread listens, or by the futex here, where another thread
 * does. */
#ifndef WEFT_DIRECT_CHANNEL_BELLS_H
#define WEFT_DIRECT_CHANNEL_BELLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CHANNEL_BELLS = 64 * 64 };

enum bell_wake { BELL_AWAKE, BELL_WAKE_FD, BELL_WAKE_FUTEX };

struct channel_bells {
	_Alignas(64) _Atomic uint32_t sleeping;		/* enum bell_wake; set by its owner, cleared by either */
	_Atomic uint32_t wakes;				/* a futex: counts up with every wake by it */
	_Alignas(64) _Atomic uint64_t any;		/* bit i: look at word[i] */
	_Atomic uint64_t word[CHANNEL_BELLS / 64];
};

/* bell < CHANNEL_BELLS. How the owner, which sleeps, is the caller's to wake. */
static inline enum bell_wake bells_ring(struct channel_bells *n, uint32_t bell)
{
	atomic_fetch_or(&n->word[bell / 64], 1ull << bell % 64);
	atomic_fetch_or(&n->any, 1ull << bell / 64);
	return atomic_load(&n->sleeping) ? (enum bell_wake)atomic_exchange(&n->sleeping, BELL_AWAKE) : BELL_AWAKE;
}

static inline bool bells_any(const struct channel_bells *n)
{
	return atomic_load_explicit(&n->any, memory_order_relaxed) != 0;
}

/* A doorbell that rang, or -1. */
static inline int bells_take(struct channel_bells *n)
{
	uint64_t any = atomic_load(&n->any);
	int word, bit;
	uint64_t bells;

	while (any) {
		word = __builtin_ctzll(any);
		/* first the summary: a bell that rings meanwhile sets it again */
		any = atomic_fetch_and(&n->any, ~(1ull << word)) & ~(1ull << word);
		bells = atomic_load(&n->word[word]);
		if (!bells)
			continue;
		bit = __builtin_ctzll(bells);
		if (atomic_fetch_and(&n->word[word], ~(1ull << bit)) & ~(1ull << bit))
			atomic_fetch_or(&n->any, 1ull << word);
		return word * 64 + bit;
	}
	return -1;
}

/* From now on who rings wakes the owner in this way. False: something rang. */
static inline bool bells_may_sleep(struct channel_bells *n, enum bell_wake how)
{
	atomic_store(&n->sleeping, how);
	return atomic_load(&n->any) == 0;
}

static inline void bells_awake(struct channel_bells *n)
{
	atomic_store_explicit(&n->sleeping, BELL_AWAKE, memory_order_relaxed);
}

#endif
