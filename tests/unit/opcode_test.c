/* The opcode table: its size, its derived columns and its reverse. */
#include "wire/opcode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* IBA table 38: which of the 32 codes of a service are in use. */
static const struct {
	unsigned service;
	uint32_t codes;
} services[] = {
	{ SERVICE_RC, 0x30dfffff }, { SERVICE_UC, 0x00000fff }, { SERVICE_RD, 0 }, { SERVICE_UD, 0x00000030 },
	{ SERVICE_CNP, 0x00000002 }, { SERVICE_XRC, 0x30dfffff }, { SERVICE_MAKER, 0x001e0000 }, { 0xe0, 0 },
};

static void codes_in_use(void **state)
{
	for (unsigned s = 0; s < COUNT(services); s++)
		for (unsigned i = 0; i < 32; i++)
			assert_int_equal(opcode_row((uint8_t)(services[s].service + i)) != NULL, services[s].codes >> i & 1);
}

static void found_again(void **state)
{
	unsigned rows = 0;

	for (unsigned code = 0; code < 256; code++) {
		const struct opcode_row *row = opcode_row((uint8_t)code);

		if (!row)
			continue;
		rows++;
		assert_int_equal(row->code, code);
		assert_int_equal(row->service, code & 0xe0);
		assert_int_equal(opcode_find(row->service, row->op, row->position, row->headers & (HDR_IMM | HDR_IETH)), code);
	}
	assert_int_equal(rows, 25 + 12 + 2 + 1 + 25 + 4);
}

static void not_found(void **state)
{
	assert_int_equal(opcode_find(SERVICE_UD, OP_SEND, POS_FIRST, 0), -1);
	assert_int_equal(opcode_find(SERVICE_UC, OP_READ_REQUEST, POS_ONLY, 0), -1);
	assert_int_equal(opcode_find(SERVICE_UC, OP_SEND, POS_ONLY, HDR_IETH), -1);
	assert_int_equal(opcode_find(SERVICE_RC, OP_SEND, POS_FIRST, HDR_IMM), -1);
	assert_int_equal(opcode_find(SERVICE_RC, OP_WRITE, POS_ONLY, HDR_IETH), -1);
	assert_int_equal(opcode_find(SERVICE_RD, OP_SEND, POS_ONLY, 0), -1);
}

/* IBA 9.3's header sizes, summed by hand for one opcode of each kind. */
static const struct {
	uint8_t code;
	const char *name;
	uint8_t header_bytes;
	bool is_response;
	uint16_t payload_min, payload_max;
} rows[] = {
	{ 0x04, "RC_SEND_ONLY", 0, false, 0, 4096 },
	{ 0x0b, "RC_RDMA_WRITE_ONLY_IMM", 20, false, 0, 4096 },
	{ 0x0c, "RC_RDMA_READ_REQUEST", 16, false, 0, 0 },
	{ 0x0d, "RC_RDMA_READ_RESPONSE_FIRST", 4, true, 0, 4096 },
	{ 0x0e, "RC_RDMA_READ_RESPONSE_MIDDLE", 0, true, 0, 4096 },
	{ 0x11, "RC_ACKNOWLEDGE", 4, true, 0, 0 },
	{ 0xd1, "WEFT_SELECTIVE_ACK", 40, true, 0, 0 },
	{ 0xd2, "WEFT_PATH_PROBE", 0, false, 72, 72 },
	{ 0xd4, "WEFT_MULTIPATH", 0, false, 0, 4096 },
	{ 0xd3, "WEFT_PATH_ANSWER", 0, true, 72, 72 },
	{ 0x12, "RC_ATOMIC_ACKNOWLEDGE", 12, true, 0, 0 },
	{ 0x13, "RC_CMP_SWAP", 28, false, 0, 0 },
	{ 0x17, "RC_SEND_ONLY_INV", 4, false, 0, 4096 },
	{ 0x1c, "RC_FLUSH", 20, false, 0, 0 },
	{ 0x1d, "RC_ATOMIC_WRITE", 16, false, 8, 8 },
	{ 0x26, "UC_RDMA_WRITE_FIRST", 16, false, 0, 4096 },
	{ 0x65, "UD_SEND_ONLY_IMM", 12, false, 0, 4096 },
	{ 0x81, "CNP", 0, false, 16, 16 },
	{ 0xa1, "XRC_SEND_MIDDLE", 4, false, 0, 4096 },
	{ 0xb1, "XRC_ACKNOWLEDGE", 4, true, 0, 0 },
	{ 0xb4, "XRC_FETCH_ADD", 32, false, 0, 0 },
	{ 0xbc, "XRC_FLUSH", 24, false, 0, 0 },
};

static void derived_columns(void **state)
{
	for (unsigned i = 0; i < COUNT(rows); i++) {
		const struct opcode_row *row = opcode_row(rows[i].code);

		assert_string_equal(row->name, rows[i].name);
		assert_int_equal(row->header_bytes, rows[i].header_bytes);
		assert_int_equal(row->is_response, rows[i].is_response);
		assert_int_equal(row->payload_min, rows[i].payload_min);
		assert_int_equal(row->payload_max, rows[i].payload_max);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_in_use),
		cmocka_unit_test(found_again),
		cmocka_unit_test(not_found),
		cmocka_unit_test(derived_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
