/* Polynomials modulo the CRC's, reflected: bit 31 is the coefficient of x^0. */
#include "wire/icrc_id.h"

#include "base/crc_poly.h"
#include "base/log.h"

#define ONE 0x80000000u

static uint32_t times_x(uint32_t a)
{
	return a >> 1 ^ (a & 1 ? crc_poly_ieee.bits : 0);
}

/* The polynomial has an x^0, so times_x sets bit 31 if and only if it reduced. */
static uint32_t over_x(uint32_t a)
{
	return a & ONE ? (a ^ crc_poly_ieee.bits) << 1 | 1 : a << 1;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1, b = times_x(b))
		product ^= a & ONE ? b : 0;
	return product;
}

void icrc_id_init(struct icrc_id *s)
{
	uint32_t power = ONE;

	for (int bit = 0; bit < 8; bit++)
		power = over_x(power);
	for (unsigned k = 0; k < ICRC_ID_POWERS; k++, power = multiply(power, power))
		s->back[k] = power;
	s->bytes = 0;
	s->factor = ONE;
}

static void set_distance(struct icrc_id *s, size_t bytes)
{
	s->bytes = bytes;
	s->factor = ONE;
	for (unsigned k = 0; k < ICRC_ID_POWERS; k++)
		if (bytes >> k & 1)
			s->factor = multiply(s->factor, s->back[k]);
}

bool icrc_id_solve(struct icrc_id *s, size_t bytes, uint32_t difference, uint16_t *id)
{
	uint32_t found;

	if (weft_bug_on(bytes >> ICRC_ID_POWERS))
		return false;
	if (bytes != s->bytes)
		set_distance(s, bytes);
	/* a register that held the field's two bytes, the first in the lowest bits, went `bytes` bytes on from there */
	found = multiply(difference, s->factor);
	if (found > UINT16_MAX)
		return false;
	*id = (uint16_t)(found >> 8 | found << 8);
	return true;
}
