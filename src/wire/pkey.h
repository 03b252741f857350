/* P_Keys: a partition and a membership. IBA vol. 1, 10.9.1. */
#ifndef WEFT_WIRE_PKEY_H
#define WEFT_WIRE_PKEY_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PKEY_FULL = 0x8000,	/* 10.9.1.1: the membership bit */
	PKEY_DEFAULT = 0xffff,	/* 10.9.1.2: the default partition, full membership */
};

/* Partition 0 is none (10.9.1.2). */
static inline bool pkey_is_same_partition(uint16_t a, uint16_t b)
{
	return a & ~PKEY_FULL && ((a ^ b) & ~PKEY_FULL) == 0;
}

/* 10.9.3: two P_Keys let a packet in when they are of one partition and one of them is a full member's. */
static inline bool pkey_matches(uint16_t a, uint16_t b)
{
	return pkey_is_same_partition(a, b) && (a | b) & PKEY_FULL;
}

#endif
