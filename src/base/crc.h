/* CRC-32 of IEEE 802.3 (the ICRC) and CRC-32C of RFC 3385 (of MPA's frames, RFC 5044), both incremental in zlib's convention:
 * start with 0, pass what came back together with the next bytes. */
#ifndef WEFT_BASE_CRC_H
#define WEFT_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

uint32_t crc_ieee(uint32_t crc, const void *data, size_t bytes);
uint32_t crc_castagnoli(uint32_t crc, const void *data, size_t bytes);

/* Over all of the gather list. */
uint32_t crc_ieee_iov(uint32_t crc, const struct iovec *iov, unsigned iovs);
uint32_t crc_castagnoli_iov(uint32_t crc, const struct iovec *iov, unsigned iovs);

#endif
