#include "base/rand.h"

void rand_key(struct rand *r, const struct siphash_key *key)
{
	*r = (struct rand){ .key = *key };
}

void rand_seed(struct rand *r, uint64_t seed)
{
	*r = (struct rand){ .key.k0 = seed };
}

uint64_t rand_u64(struct rand *r)
{
	return siphash_word(&r->key, r->count++);
}

uint64_t rand_below(struct rand *r, uint64_t n)
{
	uint64_t uneven = -n % n, value;	/* 2^64 mod n numbers would come up once too often */

	do
		value = rand_u64(r);
	while (value < uneven);
	return value % n;
}

bool rand_chance(struct rand *r, uint32_t ppm)
{
	return rand_below(r, 1000000) < ppm;
}
