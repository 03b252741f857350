/* What the AETH's syndrome and the QP attributes' timer codes mean: IBA 9.7.5.1 and 11.6.2 (tables 44 to 47). */
#ifndef WEFT_WIRE_AETH_H
#define WEFT_WIRE_AETH_H

#include "base/time.h"

#include <stdbool.h>
#include <stdint.h>

/* Table 44: the syndrome's upper three bits; 2 is reserved and bit 7 too. The lower five are the value. */
enum aeth_kind { AETH_ACK = 0, AETH_RNR_NAK = 1, AETH_RESERVED = 2, AETH_NAK = 3 };

/* Table 46 */
enum aeth_nak {
	NAK_PSN_SEQUENCE = 0, NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATIONAL, NAK_INVALID_RD_REQUEST,
	NAK_CODES,		/* the first reserved one */
};

enum { AETH_NO_CREDITS = 31 };	/* 9.7.7.2: the credit field is not valid */

static inline uint8_t aeth_syndrome(enum aeth_kind kind, unsigned value)
{
	return (uint8_t)(kind << 5 | (value & 31));
}

/* A set bit 7 makes it AETH_RESERVED. */
static inline enum aeth_kind aeth_kind(uint8_t syndrome)
{
	return syndrome & 0x80 ? AETH_RESERVED : (enum aeth_kind)(syndrome >> 5);
}

/* Credit code of an ACK, timer code of an RNR NAK, enum aeth_nak of a NAK. */
static inline unsigned aeth_value(uint8_t syndrome)
{
	return syndrome & 31;
}

/* The series behind tables 45 and 47: 0 1 2 3 4 6 8 12 16 24 ...: from 2 on powers of two, and half as much again. */
static inline uint32_t half_power(unsigned code)
{
	if (code < 2)
		return code;
	return code % 2 ? 3u << (code / 2 - 1) : 1u << (code / 2);
}

/* Table 45, end-to-end flow control: the credits that an ACK's code stands for; UINT32_MAX for AETH_NO_CREDITS. */
static inline uint32_t aeth_credits(unsigned code)
{
	return code >= AETH_NO_CREDITS ? UINT32_MAX : half_power(code);
}

/* The greatest code that stands for at most that many credits. */
static inline unsigned aeth_credit_code(uint32_t credits)
{
	unsigned code = AETH_NO_CREDITS - 1;

	while (aeth_credits(code) > credits)
		code--;
	return code;
}

/* Table 47: the RNR timer, in units of 10 us; code 0 is the longest, 655.36 ms. */
static inline wtime rnr_timer_ns(unsigned code)
{
	return half_power(code & 31 ? code & 31 : 32) * 10 * WTIME_US;
}

/* IBA 9.7.6.1.3: local ACK timeout 4.096 us * 2^code; code 0 is none. */
static inline wtime ack_timeout_ns(unsigned code)
{
	return code & 31 ? 4096ull << (code & 31) : WTIME_NEVER;
}

#endif
