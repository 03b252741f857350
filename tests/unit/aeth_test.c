/* Syndromes and timer codes against the tables of IBA 9.7.5 and 9.7.6. */
#include "wire/aeth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static const struct {
	uint8_t syndrome;
	enum aeth_kind kind;
	unsigned value;
} syndromes[] = {
	{ 0x00, AETH_ACK, 0 }, { 0x1f, AETH_ACK, AETH_NO_CREDITS }, { 0x20, AETH_RNR_NAK, 0 }, { 0x2c, AETH_RNR_NAK, 12 },
	{ 0x3f, AETH_RNR_NAK, 31 }, { 0x40, AETH_RESERVED, 0 },
	{ 0x60, AETH_NAK, NAK_PSN_SEQUENCE }, { 0x61, AETH_NAK, NAK_INVALID_REQUEST }, { 0x62, AETH_NAK, NAK_REMOTE_ACCESS },
	{ 0x63, AETH_NAK, NAK_REMOTE_OPERATIONAL }, { 0x64, AETH_NAK, NAK_INVALID_RD_REQUEST }, { 0x65, AETH_NAK, NAK_CODES },
};

static void syndrome_table(void **state)
{
	for (unsigned i = 0; i < COUNT(syndromes); i++) {
		assert_int_equal(aeth_kind(syndromes[i].syndrome), syndromes[i].kind);
		assert_int_equal(aeth_value(syndromes[i].syndrome), syndromes[i].value);
		assert_int_equal(aeth_syndrome(syndromes[i].kind, syndromes[i].value), syndromes[i].syndrome);
	}
	for (unsigned s = 0x80; s < 0x100; s++)
		assert_int_equal(aeth_kind((uint8_t)s), AETH_RESERVED);
}

/* Table 45 */
static void credit_table(void **state)
{
	static const uint32_t credits[31] = {
		0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
		6144, 8192, 12288, 16384, 24576, 32768,
	};

	for (unsigned i = 0; i < 31; i++) {
		assert_int_equal(aeth_credits(i), credits[i]);
		assert_int_equal(aeth_credit_code(credits[i]), i);
		if (i > 3)
			assert_int_equal(aeth_credit_code(credits[i] - 1), i - 1);
	}
	assert_int_equal(aeth_credits(AETH_NO_CREDITS), UINT32_MAX);
	assert_int_equal(aeth_credit_code(UINT32_MAX), 30);
}

/* Table 47, in units of 10 us */
static void rnr_table(void **state)
{
	static const uint32_t tens[32] = {
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
		6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(rnr_timer_ns(i), tens[i] * 10000ull);
}

static void ack_timeouts(void **state)
{
	assert_true(ack_timeout_ns(0) == WTIME_NEVER);
	assert_int_equal(ack_timeout_ns(1), 8192);
	assert_int_equal(ack_timeout_ns(14), 67108864);		/* 67 ms, the usual choice */
	assert_int_equal(ack_timeout_ns(31), 4096ull << 31);	/* 8800 s */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(syndrome_table),
		cmocka_unit_test(credit_table),
		cmocka_unit_test(rnr_table),
		cmocka_unit_test(ack_timeouts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
