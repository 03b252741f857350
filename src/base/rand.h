/* Seeded random numbers (xoshiro256**, Blackman and Vigna 2018): the same seed gives the same sequence on every machine.
 * As unguessable as the seed, and not for cryptography. */
#ifndef WEFT_BASE_RAND_H
#define WEFT_BASE_RAND_H

#include <stdbool.h>
#include <stdint.h>

struct rand {
	uint64_t s[4];
};

/* Every seed is good, 0 included. */
void rand_seed(struct rand *r, uint64_t seed);
uint64_t rand_u64(struct rand *r);

/* Uniform in 0 .. n-1; n > 0. */
uint64_t rand_below(struct rand *r, uint64_t n);

/* True ppm times in a million; ppm >= 1000000 is always. Draws one number whatever ppm is. */
bool rand_chance(struct rand *r, uint32_t ppm);

#endif
