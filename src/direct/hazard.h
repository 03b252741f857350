/* The hazard word: which region and which QP of its peer a process uses at this moment (Michael 2004, hazard pointers). Each
 * side of a channel has one, in the channel's memory. The user writes its word and then looks the region up; the owner hides
 * the region and then reads the word. All four accesses are sequentially consistent, so one of the two sees the other: either
 * the user misses the region, or the owner waits. */
#ifndef WEFT_DIRECT_HAZARD_H
#define WEFT_DIRECT_HAZARD_H

#include "base/qpn.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HAZARD_BUSY (1ull << 63)

/* Before the lookup. key: 0 for none, which no region has. */
static inline void hazard_begin(_Atomic uint64_t *word, uint32_t qpn, uint32_t key)
{
	atomic_store(word, HAZARD_BUSY | (uint64_t)qpn << 32 | key);
}

static inline void hazard_end(_Atomic uint64_t *word)
{
	atomic_store_explicit(word, 0, memory_order_release);
}

/* Is this region, or this QP, in use? After it was hidden. */
static inline bool hazard_names_key(const _Atomic uint64_t *word, uint32_t key)
{
	uint64_t now = atomic_load(word);

	return now & HAZARD_BUSY && (uint32_t)now == key;
}

static inline bool hazard_names_qp(const _Atomic uint64_t *word, uint32_t qpn)
{
	uint64_t now = atomic_load(word);

	return now & HAZARD_BUSY && (now >> 32 & QPN_MASK) == qpn;
}

#endif
