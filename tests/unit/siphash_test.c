/* The vectors of the paper and of its authors' program. */
#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Key 00 01 .. 0f, message 00 01 .. of 0, 1, 2 .. bytes: the first sixteen of the authors' vectors, and appendix A's of 15. */
static const uint64_t expected[16] = {
	0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
	0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
	0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
	0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
};

static const struct siphash_key key = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };

static void the_papers_vectors(void **state)
{
	uint8_t message[16];

	(void)state;
	for (unsigned i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)i;
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(siphash(&key, message, i), expected[i]);
}

static void a_word_is_its_bytes(void **state)
{
	(void)state;
	assert_int_equal(siphash_word(&key, 0x0706050403020100), expected[8]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_papers_vectors),
		cmocka_unit_test(a_word_is_its_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
