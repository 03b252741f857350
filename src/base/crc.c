/* Both CRCs by carry-less multiplication where the processor has it, by tables elsewhere. Inside, crc is the inverted register,
 * and the first bit of a message is the coefficient of its highest power. A stretch of 128 bits that stands n bits before
 * another is added to it after multiplication by x^n mod P: in halves, by x^(n+64) and x^n. A product of reflected factors is
 * short of one power, so each constant has one less. */
#include "base/crc.h"
#include "base/crc_poly.h"

#include <stdbool.h>
#include <string.h>

static uint32_t by_table(uint32_t crc, const uint8_t *at, size_t bytes, uint32_t poly)
{
	uint32_t table[16];	/* of half bytes: what they add to the register */

	for (uint32_t i = 0; i < 16; i++) {
		table[i] = i;
		for (int bit = 0; bit < 4; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? poly : 0);
	}
	for (; bytes; bytes--, at++) {
		crc ^= *at;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return crc;
}

#ifdef __x86_64__
#include "base/crc_x86.h"
#else
static uint32_t run(uint32_t crc, const uint8_t *at, size_t bytes, const struct crc_poly *k)
{
	return by_table(crc, at, bytes, k->bits);
}
#endif

uint32_t crc_ieee(uint32_t crc, const void *data, size_t bytes)
{
	return ~run(~crc, data, bytes, &crc_poly_ieee);
}

uint32_t crc_castagnoli(uint32_t crc, const void *data, size_t bytes)
{
	return ~run(~crc, data, bytes, &crc_poly_castagnoli);
}

uint32_t crc_ieee_iov(uint32_t crc, const struct iovec *iov, unsigned iovs)
{
	for (unsigned i = 0; i < iovs; i++)
		crc = crc_ieee(crc, iov[i].iov_base, iov[i].iov_len);
	return crc;
}

uint32_t crc_castagnoli_iov(uint32_t crc, const struct iovec *iov, unsigned iovs)
{
	for (unsigned i = 0; i < iovs; i++)
		crc = crc_castagnoli(crc, iov[i].iov_base, iov[i].iov_len);
	return crc;
}
