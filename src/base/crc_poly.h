/* The two polynomials and the powers of x modulo them that crc.c multiplies by. All are reflected; a power stands in the upper
 * half of 64 bits, which are the coefficients of x^63 to x^0 from the lowest bit on. unit/crc_test computes them again. */
#ifndef WEFT_BASE_CRC_POLY_H
#define WEFT_BASE_CRC_POLY_H

#include <stdint.h>

struct crc_poly {
	uint64_t fold_2048[2];	/* x^2111, x^2047 */
	uint64_t fold_1536[2];	/* x^1599, x^1535 */
	uint64_t fold_1024[2];	/* x^1087, x^1023 */
	uint64_t fold_512[2];	/* x^575, x^511 */
	uint64_t fold_lanes[8];	/* by 384, 256 and 128 bits; the last is not moved */
	uint64_t reduce[2];	/* x^95, x^63 */
	uint64_t barrett[2];	/* x^64 divided by the polynomial, and the polynomial: 33 bits */
	uint32_t bits;		/* the polynomial without its x^32 */
};

/* IEEE 802.3, 3.2.9 */
static const struct crc_poly crc_poly_ieee = {
	.fold_2048 = { 0x7cc8e1e700000000, 0x03f9f86300000000 },
	.fold_1536 = { 0x67f7947600000000, 0xc56d949600000000 },
	.fold_1024 = { 0x7d657a1000000000, 0x7406fa9500000000 },
	.fold_512 = { 0x653d982200000000, 0xcad38e8f00000000 },
	.fold_lanes = { 0x69ccfc0d00000000, 0x2a28386200000000, 0x9570d49500000000, 0x01b5fd1d00000000,
		0x65673b4600000000, 0x9ba54c6f00000000 },
	.reduce = { 0xccaa009e00000000, 0xb8bc676500000000 },
	.barrett = { 0x1f7011641, 0x1db710641 },
	.bits = 0xedb88320,
};

/* RFC 3385, 5 */
static const struct crc_poly crc_poly_castagnoli = {
	.fold_2048 = { 0xe9a5d8be00000000, 0x1426a81500000000 },
	.fold_1536 = { 0x7ccbbbf200000000, 0x31c9460800000000 },
	.fold_1024 = { 0x6577b24500000000, 0x7417153f00000000 },
	.fold_512 = { 0x1c19243b00000000, 0x75bba45b00000000 },
	.fold_lanes = { 0xa46ef4aa00000000, 0x6051243f00000000, 0x33ccbbbc00000000, 0xa2158b3400000000,
		0x3743f7bd00000000, 0x3171d43000000000 },
	.reduce = { 0x493c7d2700000000, 0xdd45aab800000000 },
	.barrett = { 0xdea713f1, 0x105ec76f1 },
	.bits = 0x82f63b78,
};

#endif
