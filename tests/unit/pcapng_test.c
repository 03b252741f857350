/* Blocks of pcapng: their bytes, and that both lengths lead over them. */
#include "impair/pcapng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint32_t number(const uint8_t *at, unsigned bytes)
{
	uint32_t n = 0;

	while (bytes--)
		n = n << 8 | at[bytes];
	return n;
}

static void is_block(const uint8_t *block, size_t bytes, uint32_t type)
{
	assert_int_equal(bytes % 4, 0);
	assert_true(bytes <= PCAPNG_BLOCK_MOST);
	assert_int_equal(number(block, 4), type);
	assert_int_equal(number(block + 4, 4), bytes);
	assert_int_equal(number(block + bytes - 4, 4), bytes);
}

static void sections_begin_a_file(void **state)
{
	static const uint8_t expected[] = {
		0x0a, 0x0d, 0x0d, 0x0a, 40, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 4, 0, 4, 0, 'w', 'e', 'f', 't', 0, 0, 0, 0, 40, 0, 0, 0,
	};
	uint8_t block[PCAPNG_BLOCK_MOST];

	assert_int_equal(pcapng_section("weft", block), sizeof(expected));
	assert_memory_equal(block, expected, sizeof(expected));
}

static void interfaces_have_names(void **state)
{
	uint8_t block[PCAPNG_BLOCK_MOST];
	char most[200];
	size_t bytes = pcapng_interface(PCAPNG_ERF, "weft0", "a", block);
	static const uint8_t options[] = { 2, 0, 5, 0, 'w', 'e', 'f', 't', '0', 0, 0, 0, 3, 0, 1, 0, 'a', 0, 0, 0,
					   9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0 };

	is_block(block, bytes, 1);
	assert_int_equal(number(block + 8, 2), 197);
	assert_int_equal(bytes, 16 + sizeof(options) + 4);
	assert_memory_equal(block + 16, options, sizeof(options));
	memset(most, 'x', sizeof(most) - 1);
	most[sizeof(most) - 1] = '\0';
	bytes = pcapng_interface(PCAPNG_ETHERNET, most, most, block);
	is_block(block, bytes, 1);
	assert_int_equal(number(block + 18, 2), PCAPNG_TEXT - 1);
}

/* IPv4 from 10.0.0.1 to `last`, of which only the addresses count. */
static void make_ipv4(uint8_t frame[21], const uint8_t to[4])
{
	memset(frame, 0, 21);
	frame[0] = 0x45;
	memcpy(frame + 12, (const uint8_t[]){ 10, 0, 0, 1 }, 4);
	memcpy(frame + 16, to, 4);
	frame[20] = 0xaa;
}

static void roce_gets_an_ethernet_header(void **state)
{
	static const struct { uint8_t to[4], mac[6]; } rows[] = {
		{ { 10, 0, 0, 2 }, { 2, 0, 10, 0, 0, 2 } },
		{ { 239, 129, 3, 4 }, { 1, 0, 0x5e, 1, 3, 4 } },
	};
	uint8_t block[PCAPNG_BLOCK_MOST], frame[40];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		static const uint8_t from[] = { 2, 0, 10, 0, 0, 1, 0x08, 0x00 };
		size_t bytes;

		make_ipv4(frame, rows[i].to);
		bytes = pcapng_frame(3, 0x123456789ull, IMPAIR_OUT, PACKET_ROCE, frame, 21, block);
		is_block(block, bytes, 6);
		assert_int_equal(number(block + 8, 4), 3);
		assert_int_equal(number(block + 12, 4), 1);
		assert_int_equal(number(block + 16, 4), 0x23456789);
		assert_int_equal(number(block + 20, 4), 14 + 21);
		assert_int_equal(number(block + 24, 4), 14 + 21);
		assert_memory_equal(block + 28, rows[i].mac, 6);
		assert_memory_equal(block + 34, from, 8);
		assert_memory_equal(block + 42, frame, 21);
		/* a byte of padding, and the direction */
		assert_int_equal(number(block + 64, 4), 2 | 4 << 16);
		assert_int_equal(number(block + 68, 4), 2);
	}
	memset(frame, 0, sizeof(frame));
	frame[0] = 0x60;
	memcpy(frame + 20, (const uint8_t[]){ 1, 2, 3, 4 }, 4);
	memcpy(frame + 24, (const uint8_t[]){ 0xff, 0x0e }, 2);
	pcapng_frame(0, 0, IMPAIR_IN, PACKET_ROCE, frame, sizeof(frame), block);
	assert_memory_equal(block + 28, ((const uint8_t[]){ 0x33, 0x33, 0, 0, 0, 0, 2, 0, 1, 2, 3, 4, 0x86, 0xdd }), 14);
	/* cut to nothing: no byte behind it is read */
	is_block(block, pcapng_frame(0, 0, IMPAIR_IN, PACKET_ROCE, frame, 0, block), 6);
}

static void infiniband_is_an_erf_record_with_its_vcrc(void **state)
{
	uint8_t block[PCAPNG_BLOCK_MOST], frame[300];
	static const uint8_t head[] = { 0, 0, 0, 0x80, 2, 0, 0, 0, 21, 4, 1, 62, 0, 0, 1, 46 };
	size_t bytes;

	memset(frame, 0, sizeof(frame));
	bytes = pcapng_frame(0, 2500 * WTIME_MS, IMPAIR_IN, PACKET_IB, frame, sizeof(frame), block);
	is_block(block, bytes, 6);
	assert_int_equal(number(block + 20, 4), 16 + 300 + 2);
	assert_memory_equal(block + 28, head, sizeof(head));
	assert_int_equal(number(block + 28 + 318 + 2 + 4, 4), 1);	/* inbound */
}

static void ethernet_stays_as_it_is(void **state)
{
	uint8_t block[PCAPNG_BLOCK_MOST], frame[PACKET_MAX_BYTES];
	size_t bytes;

	memset(frame, 0x5a, sizeof(frame));
	bytes = pcapng_frame(0, 0, IMPAIR_OUT, PACKET_ETHERNET, frame, 60, block);
	assert_int_equal(number(block + 20, 4), 60);
	assert_memory_equal(block + 28, frame, 60);
	for (int form = PACKET_IB; form <= PACKET_ETHERNET; form++) {
		bytes = pcapng_frame(0, 0, IMPAIR_OUT, (enum packet_form)form, frame, PACKET_MAX_BYTES, block);
		is_block(block, bytes, 6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_begin_a_file),
		cmocka_unit_test(interfaces_have_names),
		cmocka_unit_test(roce_gets_an_ethernet_header),
		cmocka_unit_test(infiniband_is_an_erf_record_with_its_vcrc),
		cmocka_unit_test(ethernet_stays_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
