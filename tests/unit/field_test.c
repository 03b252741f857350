/* wire_get and wire_put against a bit by bit model, for every field that fits a word. */
#include "base/rand.h"
#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { BYTES = 16 };

static uint64_t model_get(const uint8_t *header, unsigned byte, unsigned bit, unsigned width)
{
	uint64_t value = 0;

	for (unsigned at = 8 * byte + bit; width--; at++)
		value = value << 1 | (header[at / 8] >> (7 - at % 8) & 1);
	return value;
}

static void every_field(void **state)
{
	uint8_t header[BYTES], before[BYTES];
	unsigned fields = 0;
	struct rand r;

	rand_seed(&r, 1);
	for (unsigned byte = 0; byte < BYTES; byte++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			for (unsigned width = 1; width <= 64 && 8 * byte + bit + width <= 8 * BYTES; width++) {
				uint64_t value = rand_u64(&r) & field_mask(width);

				if (!field_word(byte, bit, width))
					continue;
				fields++;
				for (unsigned i = 0; i < BYTES; i++)
					header[i] = before[i] = (uint8_t)rand_u64(&r);
				assert_true(wire_get(header, byte, bit, width) == model_get(header, byte, bit, width));
				wire_put(header, value, byte, bit, width);
				assert_true(wire_get(header, byte, bit, width) == value);
				wire_put(header, model_get(before, byte, bit, width), byte, bit, width);
				assert_memory_equal(header, before, BYTES);	/* the bits around it stayed */
			}
		}
	}
	assert_true(fields > 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_field) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
