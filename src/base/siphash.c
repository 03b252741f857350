#include "base/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

/* Figure 2.1 */
static inline void round_once(struct state *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate(s->v1, 13);
	s->v3 = rotate(s->v3, 16);
	s->v1 ^= s->v0;
	s->v3 ^= s->v2;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate(s->v1, 17);
	s->v3 = rotate(s->v3, 21);
	s->v1 ^= s->v2;
	s->v3 ^= s->v0;
	s->v2 = rotate(s->v2, 32);
}

/* Section 2.1: "somepseudorandomlygeneratedbytes" */
static inline struct state begin(const struct siphash_key *key)
{
	return (struct state){ key->k0 ^ 0x736f6d6570736575, key->k1 ^ 0x646f72616e646f6d,
			       key->k0 ^ 0x6c7967656e657261, key->k1 ^ 0x7465646279746573 };
}

/* 2.2: two rounds a word */
static inline void take(struct state *s, uint64_t word)
{
	s->v3 ^= word;
	round_once(s);
	round_once(s);
	s->v0 ^= word;
}

/* 2.3: four rounds at the end */
static inline uint64_t end(struct state *s)
{
	s->v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		round_once(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t bytes)
{
	struct state s = begin(key);
	const uint8_t *at = data;
	size_t left = bytes;
	uint64_t word;

	for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		take(&s, le64toh(word));
	}
	/* the last word: what is left, and the length in its highest byte */
	word = 0;
	if (left)
		memcpy(&word, at, left);
	take(&s, le64toh(word) | (uint64_t)bytes << 56);
	return end(&s);
}

uint64_t siphash_word(const struct siphash_key *key, uint64_t word)
{
	struct state s = begin(key);

	take(&s, word);
	take(&s, (uint64_t)sizeof(word) << 56);
	return end(&s);
}
