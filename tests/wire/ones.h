#ifndef WEFT_TESTS_WIRE_ONES_H
#define WEFT_TESTS_WIRE_ONES_H

#include <stddef.h>
#include <stdint.h>

/* How many bits are set. */
static inline unsigned ones(const uint8_t *data, size_t bytes)
{
	unsigned n = 0;

	while (bytes--)
		n += (unsigned)__builtin_popcount(data[bytes]);
	return n;
}

#endif
