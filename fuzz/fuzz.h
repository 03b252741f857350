/* What the targets share: their entry, what must hold in every build, and reading the input from its front. */
#ifndef WEFT_FUZZ_FUZZ_H
#define WEFT_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(fact)		\
	do {			\
		if (!(fact))	\
			abort(); \
	} while (0)

struct input {
	const uint8_t *at, *end;
};

/* The next bytes as one number; what is beyond the end adds nothing. */
static inline uint64_t take(struct input *in, unsigned bytes)
{
	uint64_t v = 0;

	for (; bytes && in->at < in->end; bytes--)
		v = v << 8 | *in->at++;
	return v;
}

static inline uint8_t take_byte(struct input *in)
{
	return (uint8_t)take(in, 1);
}

#endif
