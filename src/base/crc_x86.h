/* Part of crc.c: its run() for x86-64, by PCLMULQDQ, and by VPCLMULQDQ for what is long. */
#ifndef WEFT_BASE_CRC_X86_H
#define WEFT_BASE_CRC_X86_H

#include <cpuid.h>
#include <immintrin.h>

#define NARROW __attribute__((target("pclmul,sse4.1")))
#define WIDE __attribute__((target("vpclmulqdq,avx512f,avx512vl")))

enum ability { UNKNOWN, TABLE_ONLY, MULTIPLIES, MULTIPLIES_FOUR };

/* Intel SDM vol. 1, 14.3 and 15.2: the system must save the registers too. Asked once, when first needed: a processor that is a
 * virtual one answers slowly, and most programs need no CRC. */
static enum ability find_ability(void)
{
	enum { AVX512_STATE = 0xe6 };
	unsigned a, b, c, d, enabled, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_PCLMUL) || !(c & bit_SSE4_1))
		return TABLE_ONLY;
	if (!(c & bit_OSXSAVE) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c & bit_VPCLMULQDQ) || !(b & bit_AVX512F) ||
	    !(b & bit_AVX512VL))
		return MULTIPLIES;
	__asm__ volatile("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
	return (enabled & AVX512_STATE) == AVX512_STATE ? MULTIPLIES_FOUR : MULTIPLIES;
}

static inline enum ability get_ability(void)
{
	static int known;	/* threads find the same */
	int ability = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (__builtin_expect(ability == UNKNOWN, 0)) {
		ability = (int)find_ability();
		__atomic_store_n(&known, ability, __ATOMIC_RELAXED);
	}
	return (enum ability)ability;
}

static inline NARROW __m128i load(const void *at)
{
	return _mm_loadu_si128(at);
}

static inline NARROW __m128i fold(__m128i x, __m128i powers, __m128i next)
{
	return _mm_clmulepi64_si128(x, powers, 0x00) ^ (_mm_clmulepi64_si128(x, powers, 0x11) ^ next);
}

/* The register after a message of four bytes or less, given as its last bytes: Barrett's reduction. */
static inline NARROW uint32_t reduce_32(uint32_t bytes, const struct crc_poly *k)
{
	__m128i barrett = load(k->barrett);
	uint32_t quotient = (uint32_t)_mm_cvtsi128_si32(_mm_clmulepi64_si128(_mm_cvtsi32_si128((int)bytes), barrett, 0x00));
	__m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)quotient), barrett, 0x10);

	return (uint32_t)((uint64_t)_mm_cvtsi128_si64(product) >> 32);
}

/* The same of sixteen bytes: first to 96 bits, then to 64. */
static inline NARROW uint32_t reduce_128(__m128i x, const struct crc_poly *k)
{
	__m128i powers = load(k->reduce);
	__m128i high = _mm_slli_si128(_mm_srli_si128(x, 8), 4);
	uint64_t rest;

	x = _mm_clmulepi64_si128(x, powers, 0x00) ^ high;
	x = _mm_clmulepi64_si128(x, powers, 0x10) ^ x;
	rest = (uint64_t)_mm_extract_epi64(x, 1);
	return reduce_32((uint32_t)rest, k) ^ (uint32_t)(rest >> 32);
}

/* Less than sixteen bytes: they stand at the end of sixteen, behind zeros, which change nothing. */
static inline NARROW uint32_t run_short(uint32_t crc, const uint8_t *at, size_t bytes, const struct crc_poly *k)
{
	uint8_t block[16] = { 0 };
	uint32_t word = 0;

	if (bytes >= 4) {
		memcpy(block + 16 - bytes, at, bytes);
		memcpy(&word, at, 4);
		word ^= crc;
		memcpy(block + 16 - bytes, &word, 4);
		return reduce_128(load(block), k);
	}
	if (!bytes)
		return crc;
	for (size_t i = 0; i < bytes; i++)
		word |= (uint32_t)at[i] << 8 * i;
	word = (word ^ crc) << (32 - 8 * bytes);
	return crc >> 8 * bytes ^ reduce_32(word, k);
}

/* Fewer than sixteen more bytes behind x, with at least sixteen of the message before their end: x moves up by as many. */
static inline NARROW __m128i fold_rest(__m128i x, const uint8_t *end, size_t bytes, __m128i powers)
{
	static const uint8_t moves[48] = {
		128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
		128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
	};
	__m128i up = load(moves + bytes), down = load(moves + 16 + bytes);
	/* where down has zeros the message's own bytes are taken */
	__m128i next = _mm_blendv_epi8(_mm_shuffle_epi8(x, down), load(end - 16), down);

	return fold(_mm_shuffle_epi8(x, up), powers, next);
}

static inline WIDE __m512i fold_wide(__m512i x, const uint64_t *by, __m512i next)
{
	enum { XOR = 0x96 };	/* of three */
	__m512i powers = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)by));

	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, powers, 0x00), _mm512_clmulepi64_epi128(x, powers, 0x11),
					 next, XOR);
}

/* 256 bytes or more. What is left of the message comes back in *at and *bytes: 0 to 63 bytes. */
static WIDE __m128i run_wide(uint32_t crc, const uint8_t **at, size_t *bytes, const struct crc_poly *k)
{
	const uint8_t *p = *at, *end = p + *bytes;
	__m512i lanes = _mm512_loadu_si512(k->fold_lanes), x[4];

	for (int i = 0; i < 4; i++)
		x[i] = _mm512_loadu_si512(p + 64 * i);
	x[0] ^= _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc));
	for (p += 256; end - p >= 256; p += 256) {
		x[0] = fold_wide(x[0], k->fold_2048, _mm512_loadu_si512(p));
		x[1] = fold_wide(x[1], k->fold_2048, _mm512_loadu_si512(p + 64));
		x[2] = fold_wide(x[2], k->fold_2048, _mm512_loadu_si512(p + 128));
		x[3] = fold_wide(x[3], k->fold_2048, _mm512_loadu_si512(p + 192));
	}
	x[3] = fold_wide(x[0], k->fold_1536, x[3]) ^ fold_wide(x[1], k->fold_1024, fold_wide(x[2], k->fold_512,
			 _mm512_setzero_si512()));
	for (; end - p >= 64; p += 64)
		x[3] = fold_wide(x[3], k->fold_512, _mm512_loadu_si512(p));
	*at = p;
	*bytes = (size_t)(end - p);
	x[0] = _mm512_clmulepi64_epi128(x[3], lanes, 0x00) ^ _mm512_clmulepi64_epi128(x[3], lanes, 0x11);
	return _mm512_extracti32x4_epi32(x[0], 0) ^ _mm512_extracti32x4_epi32(x[0], 1) ^
	       _mm512_extracti32x4_epi32(x[0], 2) ^ _mm512_extracti32x4_epi32(x[3], 3);
}

/* 64 bytes or more. As run_wide. */
static inline NARROW __m128i run_four(uint32_t crc, const uint8_t **at, size_t *bytes, const struct crc_poly *k)
{
	const uint8_t *p = *at, *end = p + *bytes;
	__m128i powers = load(k->fold_512), x[4];

	for (int i = 0; i < 4; i++)
		x[i] = load(p + 16 * i);
	x[0] ^= _mm_cvtsi32_si128((int)crc);
	for (p += 64; end - p >= 64; p += 64) {
		x[0] = fold(x[0], powers, load(p));
		x[1] = fold(x[1], powers, load(p + 16));
		x[2] = fold(x[2], powers, load(p + 32));
		x[3] = fold(x[3], powers, load(p + 48));
	}
	*at = p;
	*bytes = (size_t)(end - p);
	for (int i = 0; i < 3; i++)
		x[3] = fold(x[i], load(k->fold_lanes + 2 * i), x[3]);
	return x[3];
}

static NARROW uint32_t run_narrow(uint32_t crc, const uint8_t *at, size_t bytes, const struct crc_poly *k, bool has_wide)
{
	__m128i powers = load(k->fold_lanes + 4), x;

	if (bytes < 16)
		return run_short(crc, at, bytes, k);
	if (has_wide && bytes >= 256) {
		x = run_wide(crc, &at, &bytes, k);
	} else if (bytes >= 64) {
		x = run_four(crc, &at, &bytes, k);
	} else {
		x = load(at) ^ _mm_cvtsi32_si128((int)crc);
		at += 16;
		bytes -= 16;
	}
	for (; bytes >= 16; at += 16, bytes -= 16)
		x = fold(x, powers, load(at));
	if (bytes)
		x = fold_rest(x, at + bytes, bytes, powers);
	return reduce_128(x, k);
}

static inline uint32_t run(uint32_t crc, const uint8_t *at, size_t bytes, const struct crc_poly *k)
{
	enum ability ability = get_ability();

	if (__builtin_expect(ability == TABLE_ONLY, 0))
		return by_table(crc, at, bytes, k->bits);
	return run_narrow(crc, at, bytes, k, ability == MULTIPLIES_FOUR);
}

#endif
