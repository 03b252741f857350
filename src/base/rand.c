/* xoshiro256** seeded by splitmix64, as its authors advise: https://prng.di.unimi.it. */
#include "base/rand.h"

static uint64_t rotate(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void rand_seed(struct rand *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix(&seed);
}

uint64_t rand_u64(struct rand *r)
{
	uint64_t *s = r->s, value = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return value;
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
