/* Numbers that must not be guessed, from the kernel. */
#ifndef WEFT_WEFTD_RANDOM_H
#define WEFT_WEFTD_RANDOM_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Up to 256 of them come whole once the kernel's pool is seeded (getrandom(2)). */
static inline void random_bytes(void *to, size_t bytes)
{
	if (getrandom(to, bytes, 0) != (ssize_t)bytes)
		abort();
}

/* 0..bound-1, bound > 0. The bias of the remainder is below bound / 2^64. */
static inline uint32_t random_below(uint32_t bound)
{
	uint64_t x;

	random_bytes(&x, sizeof(x));
	return (uint32_t)(x % bound);
}

#endif
