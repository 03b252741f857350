/* Fields of the specifications' tables in the tables' own coordinates: a macro gives (byte, bit from the msb, width in bits),
 * wire_get and wire_put move the value. With constant coordinates gcc makes a load, a byte swap and a mask of it. */
#ifndef WEFT_WIRE_FIELD_H
#define WEFT_WIRE_FIELD_H

#include "base/log.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t field_mask(unsigned width)
{
	return width == 64 ? UINT64_MAX : (1ull << width) - 1;
}

/* The bytes of the naturally aligned 1, 2 or 4 byte word around a field, or of the 8 bytes from its first on. Headers
 * are made of 4 byte words, so the word is inside whenever the field is. 0: the field fits into none. */
static inline unsigned field_word(unsigned byte, unsigned bit, unsigned width)
{
	unsigned first = byte + bit / 8, last = byte + (bit + width - 1) / 8;

	if (first == last)
		return 1;
	if (first / 2 == last / 2)
		return 2;
	if (first / 4 == last / 4)
		return 4;
	return width == 64 && bit == 0 ? 8 : 0;
}

/* Where that word begins. */
static inline unsigned field_start(unsigned byte, unsigned bit, unsigned width)
{
	unsigned word = field_word(byte, bit, width), first = byte + bit / 8;

	return word == 0 || word == 8 ? first : first / word * word;
}

#define FIELD_INLINE static inline __attribute__((always_inline))

FIELD_INLINE uint64_t wire_get(const void *header, unsigned byte, unsigned bit, unsigned width)
{
	unsigned word = field_word(byte, bit, width), start = field_start(byte, bit, width);
	unsigned shift = 8 * word - (8 * (byte - start) + bit + width);
	const uint8_t *at = (const uint8_t *)header + start;
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	switch (word) {
	case 1:
		return *at >> shift & field_mask(width);
	case 2:
		memcpy(&v16, at, 2);
		return be16toh(v16) >> shift & field_mask(width);
	case 4:
		memcpy(&v32, at, 4);
		return be32toh(v32) >> shift & field_mask(width);
	case 8:
		memcpy(&v64, at, 8);
		return be64toh(v64);
	}
	weft_bug_on(!"a field across words");
	return 0;
}

/* The value must fit the width; bits around the field stay. */
FIELD_INLINE void wire_put(void *header, uint64_t value, unsigned byte, unsigned bit, unsigned width)
{
	unsigned word = field_word(byte, bit, width), start = field_start(byte, bit, width);
	unsigned shift = 8 * word - (8 * (byte - start) + bit + width);
	uint64_t mask = field_mask(width);
	uint8_t *at = (uint8_t *)header + start;
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	if (word && shift > 64 - width)	/* never: so that analysers know */
		return;
	if (weft_bug_on(value > mask))
		value &= mask;
	switch (word) {
	case 1:
		*at = (uint8_t)((*at & ~(mask << shift)) | value << shift);
		return;
	case 2:
		memcpy(&v16, at, 2);
		v16 = htobe16((uint16_t)((be16toh(v16) & ~(mask << shift)) | value << shift));
		memcpy(at, &v16, 2);
		return;
	case 4:
		memcpy(&v32, at, 4);
		v32 = htobe32((uint32_t)((be32toh(v32) & ~(mask << shift)) | value << shift));
		memcpy(at, &v32, 4);
		return;
	case 8:
		v64 = htobe64(value);
		memcpy(at, &v64, 8);
		return;
	}
	weft_bug_on(!"a field across words");
}

#endif
