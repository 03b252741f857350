/* Numbers that must not be guessed, from the kernel. */
#ifndef WEFT_WEFTD_RANDOM_H
#define WEFT_WEFTD_RANDOM_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* 0..bound-1, bound > 0. The bias of the remainder is below bound / 2^64. */
static inline uint32_t random_below(uint32_t bound)
{
	uint64_t x;

	/* Up to 256 bytes come whole once the kernel's pool is seeded (getrandom(2)) */
	if (getrandom(&x, sizeof(x), 0) != sizeof(x))
		abort();
	return (uint32_t)(x % bound);
}

#endif
