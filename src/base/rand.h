/* Random numbers: SipHash-2-4 of a counter. Who does not have the key cannot tell the next one from those that he has seen, as
 * ids, keys and PSNs are. The same key gives the same sequence on every machine. */
#ifndef WEFT_BASE_RAND_H
#define WEFT_BASE_RAND_H

#include "base/siphash.h"

#include <stdbool.h>
#include <stdint.h>

struct rand {
	struct siphash_key key;
	uint64_t count;
};

/* With the kernel's bytes for what others must not guess. */
void rand_key(struct rand *r, const struct siphash_key *key);
/* For sequences that shall come again. Every seed is good, 0 included. */
void rand_seed(struct rand *r, uint64_t seed);
uint64_t rand_u64(struct rand *r);

/* Uniform in 0 .. n-1; n > 0. */
uint64_t rand_below(struct rand *r, uint64_t n);

/* True ppm times in a million; ppm >= 1000000 is always. Draws one number whatever ppm is. */
bool rand_chance(struct rand *r, uint32_t ppm);

#endif
