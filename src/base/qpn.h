/* The QP numbers of weft's networks: the upper half is a slot, which weftd gives to one process, the lower half an index that
 * the process chooses. So the destination of a packet names its process. */
#ifndef WEFT_BASE_QPN_H
#define WEFT_BASE_QPN_H

#include <stdint.h>

enum {
	QPN_INDEX_BITS = 12,
	QPN_INDICES = 1 << QPN_INDEX_BITS,
	QPN_MASK = 0xffffff,			/* IBA 9.2: a QP number has 24 bits */
	QPN_SLOTS = 1 << (24 - QPN_INDEX_BITS),
};

static inline uint32_t qpn_make(uint32_t slot, uint32_t index)
{
	return slot << QPN_INDEX_BITS | index;
}

static inline uint32_t qpn_slot(uint32_t qpn)
{
	return qpn >> QPN_INDEX_BITS;
}

static inline uint32_t qpn_index(uint32_t qpn)
{
	return qpn & (QPN_INDICES - 1);
}

#endif
