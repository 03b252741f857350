/* Both CRCs: published vectors, and any split gives the same. */
#include "base/crc.h"
#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef uint32_t (*crc_function)(uint32_t crc, const void *data, size_t bytes);
typedef uint32_t (*crc_iov_function)(uint32_t crc, const struct iovec *iov, unsigned iovs);

static const struct {
	crc_function crc;
	crc_iov_function iov;
	uint32_t check;		/* of "123456789", the catalogues' check value */
	uint32_t zeros;		/* of 32 zero bytes; for CRC-32C RFC 3720, B.4 */
} kinds[] = {
	{ crc_ieee, crc_ieee_iov, 0xcbf43926, 0x190a55ad },
	{ crc_castagnoli, crc_castagnoli_iov, 0xe3069283, 0x8a9136aa },
};

static void vectors(void **state)
{
	static const uint8_t zero[32];

	for (unsigned k = 0; k < 2; k++) {
		assert_int_equal(kinds[k].crc(0, "123456789", 9), kinds[k].check);
		assert_int_equal(kinds[k].crc(0, zero, sizeof(zero)), kinds[k].zeros);
		assert_int_equal(kinds[k].crc(0, zero, 0), 0);
		assert_int_equal(kinds[k].crc(0x12345678, zero, 0), 0x12345678);
	}
}

static void every_split(void **state)
{
	uint8_t data[300];
	struct rand r;

	rand_seed(&r, 1);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rand_u64(&r);
	for (unsigned k = 0; k < 2; k++) {
		uint32_t whole = kinds[k].crc(0, data, sizeof(data));

		for (size_t at = 0; at <= sizeof(data); at++) {
			const struct iovec iov[3] = {
				{ data, at / 2 }, { data + at / 2, at - at / 2 }, { data + at, sizeof(data) - at },
			};

			assert_int_equal(kinds[k].crc(kinds[k].crc(0, data, at), data + at, sizeof(data) - at), whole);
			assert_int_equal(kinds[k].iov(0, iov, 3), whole);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(vectors), cmocka_unit_test(every_split) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
