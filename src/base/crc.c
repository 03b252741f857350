/* isa-l computes; here is the one convention. crc32_gzip_refl inverts by itself, crc32_iscsi does not. */
#include "base/crc.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <stdbool.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

/* isa-l's AVX-512 code returns without vzeroupper, and every SSE instruction after it is slow until somebody says so: measured
 * 190 ns instead of 50 to build a small packet. */
static bool has_avx;	/* the processor, and the system saves its registers: Intel SDM vol. 1, 14.3 */

static __attribute__((constructor)) void find_avx(void)
{
	enum { SSE_AND_AVX_STATE = 6 };
	unsigned a, b, c, d, enabled, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
		return;
	__asm__ volatile("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
	has_avx = (enabled & SSE_AND_AVX_STATE) == SSE_AND_AVX_STATE;
}

static __attribute__((target("avx"))) void clear_upper_halves(void)
{
	_mm256_zeroupper();
}

static uint32_t leave(uint32_t crc)
{
	if (has_avx)
		clear_upper_halves();
	return crc;
}
#else
static uint32_t leave(uint32_t crc)
{
	return crc;
}
#endif

uint32_t crc_ieee(uint32_t crc, const void *data, size_t bytes)
{
	return leave(crc32_gzip_refl(crc, data, bytes));
}

uint32_t crc_castagnoli(uint32_t crc, const void *data, size_t bytes)
{
	unsigned char *at = (unsigned char *)(uintptr_t)data;	/* isa-l reads only, its prototype lacks the const */

	for (; bytes > INT_MAX; bytes -= INT_MAX, at += INT_MAX)
		crc = ~crc32_iscsi(at, INT_MAX, ~crc);
	return leave(~crc32_iscsi(at, (int)bytes, ~crc));
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
