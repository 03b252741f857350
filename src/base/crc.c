/* isa-l computes; here is the one convention. crc32_gzip_refl inverts by itself, crc32_iscsi does not. */
#include "base/crc.h"

#include <isa-l/crc.h>
#include <limits.h>

uint32_t crc_ieee(uint32_t crc, const void *data, size_t bytes)
{
	return crc32_gzip_refl(crc, data, bytes);
}

uint32_t crc_castagnoli(uint32_t crc, const void *data, size_t bytes)
{
	unsigned char *at = (unsigned char *)(uintptr_t)data;	/* isa-l reads only, its prototype lacks the const */

	for (; bytes > INT_MAX; bytes -= INT_MAX, at += INT_MAX)
		crc = ~crc32_iscsi(at, INT_MAX, ~crc);
	return ~crc32_iscsi(at, (int)bytes, ~crc);
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
