/* Serial numbers modulo 2^24 (PSN, MSN) and modulo 2^32 (TCP and segment numbers). The only place where they are
 * compared or added: one routine, parameterised by width. */
#ifndef WEFT_BASE_PSN_H
#define WEFT_BASE_PSN_H

#include <stdint.h>

typedef uint32_t psn_t;

#define PSN_MASK 0xffffffu

/* a + n modulo 2^width; n may be negative. */
static inline uint32_t serial_add(uint32_t a, int64_t n, unsigned width)
{
	return (uint32_t)(((uint64_t)a + (uint64_t)n) & ((1ull << width) - 1));
}

/* The signed distance from b to a, in -2^(width-1) .. 2^(width-1)-1: negative when a is before b. */
static inline int64_t serial_diff(uint32_t a, uint32_t b, unsigned width)
{
	return (int64_t)(((uint64_t)a - b) << (64 - width)) >> (64 - width);	/* the upper bits become copies of the sign */
}

static inline psn_t psn_add(psn_t a, int64_t n)
{
	return serial_add(a, n, 24);
}

static inline int32_t psn_diff(psn_t a, psn_t b)
{
	return (int32_t)serial_diff(a, b, 24);
}

/* <0, 0 or >0 as a is before, equal to or after b. */
static inline int32_t psn_cmp(psn_t a, psn_t b)
{
	return psn_diff(a, b);
}

#endif
