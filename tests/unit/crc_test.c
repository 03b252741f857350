/* Both CRCs: published vectors, any split gives the same, and every way of computing gives what a register bit by bit does. */
#include "base/crc.c"	/* the ways that this processor has are chosen from here */
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

static uint32_t bit_by_bit(uint32_t crc, const uint8_t *at, size_t bytes, uint32_t poly)
{
	for (; bytes; bytes--) {
		crc ^= *at++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? poly : 0);
	}
	return crc;
}

static const struct crc_poly *const polys[] = { &crc_poly_ieee, &crc_poly_castagnoli };

static void every_length_and_way(void **state)
{
	enum { MOST = 1400 };
	uint8_t data[MOST + 3];
	struct rand r;

	rand_seed(&r, 2);
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)rand_u64(&r);
	for (size_t bytes = 0; bytes <= MOST; bytes++) {
		for (unsigned i = 0; i < 2; i++) {
			const struct crc_poly *k = polys[i];
			const uint8_t *at = data + bytes % 4;
			uint32_t crc = (uint32_t)rand_u64(&r), end = bit_by_bit(crc, at, bytes, k->bits);

			assert_int_equal(run(crc, at, bytes, k), end);
			assert_int_equal(by_table(crc, at, bytes, k->bits), end);
#ifdef __x86_64__
			if (get_ability() >= MULTIPLIES)
				assert_int_equal(run_narrow(crc, at, bytes, k, false), end);
#endif
		}
	}
}

/* x^n modulo the polynomial, reflected: the register after so many zero bits behind a one. */
static uint64_t power(unsigned n, uint32_t poly)
{
	uint32_t x = 1u << 31;

	for (; n; n--)
		x = x >> 1 ^ (x & 1 ? poly : 0);
	return (uint64_t)x << 32;
}

static void constants_are_powers(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct crc_poly *k = polys[i];
		const struct {
			const uint64_t *at;
			unsigned bits;
		} folds[] = {
			{ k->fold_2048, 2048 }, { k->fold_1536, 1536 }, { k->fold_1024, 1024 }, { k->fold_512, 512 },
			{ k->fold_lanes, 384 }, { k->fold_lanes + 2, 256 }, { k->fold_lanes + 4, 128 },
		};

		for (unsigned f = 0; f < sizeof(folds) / sizeof(*folds); f++) {
			assert_true(folds[f].at[0] == power(folds[f].bits + 63, k->bits));
			assert_true(folds[f].at[1] == power(folds[f].bits - 1, k->bits));
		}
		assert_true(k->reduce[0] == power(95, k->bits) && k->reduce[1] == power(63, k->bits));
		assert_true(k->barrett[1] == ((uint64_t)k->bits << 1 | 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(vectors), cmocka_unit_test(every_split),
		cmocka_unit_test(every_length_and_way), cmocka_unit_test(constants_are_powers) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
