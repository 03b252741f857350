/* Which QPs' doorbells were rung, for an engine that runs apart from who posts: in another thread, or in another process that
 * maps the memory. A bit stands for each QP whose handle is the bit's number modulo DOORBELL_BITS. The engine believes no bit: it
 * reads the doorbells, which are bounded by their rings. */
#ifndef WEFT_VERBS_DOORBELLS_H
#define WEFT_VERBS_DOORBELLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { DOORBELL_WORDS = 64, DOORBELL_BITS = 64 * DOORBELL_WORDS };

struct doorbells {
	_Atomic uint64_t words;		/* bit i: word[i] may have bits */
	_Atomic uint64_t word[DOORBELL_WORDS];
};

/* The consumer's: after the doorbell itself. The bit is seen with it. */
static inline void doorbells_ring(struct doorbells *r, uint32_t handle)
{
	uint32_t bit = handle % DOORBELL_BITS;

	atomic_fetch_or_explicit(&r->word[bit / 64], UINT64_C(1) << bit % 64, memory_order_release);
	atomic_fetch_or_explicit(&r->words, UINT64_C(1) << bit / 64, memory_order_release);
}

/* The engine's, before it rests. */
static inline bool doorbells_any(const struct doorbells *r)
{
	return atomic_load_explicit(&r->words, memory_order_acquire) != 0;
}

#endif
