/* Which of its channels a process shall look at, so that a poll need not look at all: bells in memory that its peers of
 * the same user map. Who waits for a channel's bell says so in the channel, passes a full fence and looks at the channel
 * once more; who sends passes a full fence and looks whether the bell is waited for. A bell means only "look". And how a
 * sleeping owner is woken: by its eventfd, where its helper thread listens, or by the futex here, where another thread does. */
#ifndef WEFT_DIRECT_NEWS_H
#define WEFT_DIRECT_NEWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { NEWS_BELLS = 64 * 64 };

enum news_wake { NEWS_AWAKE, NEWS_WAKE_FD, NEWS_WAKE_FUTEX };

struct news {
	_Alignas(64) _Atomic uint32_t sleeping;		/* enum news_wake; set by its owner, cleared by either */
	_Atomic uint32_t wakes;				/* a futex: counts up with every wake by it */
	_Alignas(64) _Atomic uint64_t any;		/* bit i: look at word[i] */
	_Atomic uint64_t word[NEWS_BELLS / 64];
};

/* bell < NEWS_BELLS. How the owner, which sleeps, is the caller's to wake. */
static inline enum news_wake news_ring(struct news *n, uint32_t bell)
{
	atomic_fetch_or(&n->word[bell / 64], 1ull << bell % 64);
	atomic_fetch_or(&n->any, 1ull << bell / 64);
	return atomic_load(&n->sleeping) ? (enum news_wake)atomic_exchange(&n->sleeping, NEWS_AWAKE) : NEWS_AWAKE;
}

static inline bool news_waits(const struct news *n)
{
	return atomic_load_explicit(&n->any, memory_order_relaxed) != 0;
}

/* A bell that rang, or -1. */
static inline int news_take(struct news *n)
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
static inline bool news_may_sleep(struct news *n, enum news_wake how)
{
	atomic_store(&n->sleeping, how);
	return atomic_load(&n->any) == 0;
}

static inline void news_awake(struct news *n)
{
	atomic_store_explicit(&n->sleeping, NEWS_AWAKE, memory_order_relaxed);
}

#endif
