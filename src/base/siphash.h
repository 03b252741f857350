/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): 64 bits that nobody can predict who does not
 * have the key, however many others he has seen. For hash tables that others fill, and for numbers that must not be guessed. */
#ifndef WEFT_BASE_SIPHASH_H
#define WEFT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k0, k1;	/* the paper's, from 16 bytes little-endian */
};

uint64_t siphash(const struct siphash_key *key, const void *data, size_t bytes);

/* Of the word's eight bytes, little-endian. */
uint64_t siphash_word(const struct siphash_key *key, uint64_t word);

#endif
