/* CM messages of every kind: where each field stands, that the messages fill the MAD, random round trips, refusals. What
 * rdma_rxe sent is in packet_golden_test. */
#include "ones.h"

#include "base/rand.h"
#include "wire/cm.h"
#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* One value at its place in each message, the place counted from the MAD's first byte by hand from IBA chapter 12. */
static void places(void **state)
{
	uint8_t mad[MAD_BYTES];
	struct cm_msg m = { .attribute = CM_REQ, .tid = 0x1122334455667788, .attr_modifier = 5,
			    .req = { .service_id = 0x0106abcd, .local_qpn = 0x123456, .starting_psn = 0xabcdef,
				     .rnr_retry_count = 7, .srq = 1, .extended_transport = 1,
				     .primary = { .local_lid = 0xffff, .ack_timeout = 19 },
				     .alternate = { .hop_limit = 3 } } };

	cm_build(&m, mad);
	assert_memory_equal(mad, ((uint8_t[]){ 1, 7, 2, 3, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0x10,
					       0, 0, 0, 0, 0, 5 }), 24);
	assert_memory_equal(mad + 32, ((uint8_t[]){ 0, 0, 0, 0, 1, 6, 0xab, 0xcd }), 8);
	assert_memory_equal(mad + 56, ((uint8_t[]){ 0x12, 0x34, 0x56 }), 3);
	assert_memory_equal(mad + 68, ((uint8_t[]){ 0xab, 0xcd, 0xef }), 3);
	assert_int_equal(mad[74], 7);			/* RNR retries in the low bits */
	assert_int_equal(mad[75], 0x09);		/* SRQ, extended transport 1 */
	assert_int_equal(mad[24 + 52], 0xff);
	assert_int_equal(mad[24 + 95], 19 << 3);
	assert_int_equal(mad[24 + 96 + 41], 3);

	m = (struct cm_msg){ .attribute = CM_LAP, .lap = { .remote_qpn = 9, .alternate = { .tclass = 0x5a, .packet_rate = 2 } } };
	cm_build(&m, mad);
	assert_int_equal(mad[24 + 14], 9);
	assert_int_equal(mad[24 + 59], 0x5a);
	assert_int_equal(mad[24 + 61], 2);

	m = (struct cm_msg){ .attribute = CM_SIDR_REP, .sidr_rep = { .qpn = 0x10203, .qkey = 0x11111111, .service_id = 0x0111 } };
	cm_build(&m, mad);
	assert_memory_equal(mad + 24 + 8, ((uint8_t[]){ 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x11, 0x11, 0x11, 0x11, 0x11 }), 16);
}

/* The private data of each message ends with the MAD. */
static void private_data_ends_the_mad(void **state)
{
#define END(NAME, member, code)							\
	do {									\
		struct cm_msg m = { .attribute = CM_##NAME };			\
		uint8_t mad[MAD_BYTES];						\
		uint8_t *data = m.member.private_data;				\
										\
		data[sizeof(m.member.private_data) - 1] = 0xee;			\
		cm_build(&m, mad);						\
		assert_int_equal(mad[MAD_BYTES - 1], 0xee);			\
	} while (0);
	CM_MESSAGES(END)
}

/* All fields filled with ones fill as many bits as their widths add up to: none lies on another, nor outside the MAD. */
static void no_field_overlaps_another(void **state)
{
#define FILL(type, member, byte, bit, width) wire_put(at, field_mask(width), byte, bit, width); sum += (width);
#define FILL_BYTES(member, byte, bytes) memset(at + (byte), 0xff, bytes); sum += 8 * (bytes);
#define BEGIN						\
	{						\
		uint8_t mad[MAD_BYTES] = { 0 };		\
		uint8_t *at = mad + MAD_HEADER_BYTES;	\
		unsigned sum = 0;
#define END_OF						\
		assert_int_equal(ones(mad, MAD_BYTES), sum); \
	}
#define FULL(FIELDS) BEGIN FIELDS(FILL, FILL_BYTES) END_OF
	FULL(CM_MRA_FIELDS)
	FULL(CM_REJ_FIELDS)
	FULL(CM_REP_FIELDS)
	FULL(CM_RTU_FIELDS)
	FULL(CM_DREQ_FIELDS)
	FULL(CM_DREP_FIELDS)
	FULL(CM_SIDR_REQ_FIELDS)
	FULL(CM_SIDR_REP_FIELDS)
	FULL(CM_APR_FIELDS)
	FULL(CMA_FIELDS)
	BEGIN
		CM_REQ_FIELDS(FILL, FILL_BYTES)
		at += CM_REQ_PRIMARY;
		CM_PATH_FIELDS(FILL, FILL_BYTES)
		at += CM_REQ_ALTERNATE - CM_REQ_PRIMARY;
		CM_PATH_FIELDS(FILL, FILL_BYTES)
	END_OF
	BEGIN
		CM_LAP_FIELDS(FILL, FILL_BYTES)
		at += CM_LAP_ALTERNATE;
		CM_LAP_PATH_FIELDS(FILL, FILL_BYTES)
	END_OF
}

static void random_round_trips(void **state)
{
	uint8_t mad[MAD_BYTES], built[MAD_BYTES], again[MAD_BYTES];
	struct cm_msg m, n;
	struct rand r;

	rand_seed(&r, 5);
	for (int i = 0; i < 20000; i++) {
		const struct mad_header h = {
			.base_version = 1, .mgmt_class = MAD_CLASS_CM, .class_version = 2, .method = MAD_SEND,
			.tid = rand_u64(&r), .attr_id = (uint16_t)(CM_REQ + rand_below(&r, CM_APR - CM_REQ + 1)),
		};

		for (unsigned k = 0; k < MAD_BYTES; k++)
			mad[k] = (uint8_t)rand_u64(&r);
		mad_header_build(&h, mad);
		assert_true(cm_parse(&m, mad));
		assert_int_equal(m.attribute, h.attr_id);
		cm_build(&m, built);
		/* reserved bits are gone, all others are there */
		for (unsigned k = 0; k < MAD_BYTES; k++)
			assert_int_equal(built[k] & ~mad[k], 0);
		assert_true(cm_parse(&n, built));
		cm_build(&n, again);
		assert_memory_equal(again, built, MAD_BYTES);
	}
}

static const struct {
	const char *why;
	unsigned byte;
	uint8_t value;
} refusals[] = {
	{ "base version", 0, 2 }, { "class", 1, 3 }, { "class version", 2, 1 }, { "method", 3, 0x81 },
	{ "attribute below", 17, 0x0f }, { "attribute above", 17, 0x1b }, { "attribute's high byte", 16, 1 },
};

static void refused(void **state)
{
	for (unsigned i = 0; i < COUNT(refusals); i++) {
		struct cm_msg m = { .attribute = CM_RTU };
		uint8_t mad[MAD_BYTES];

		cm_build(&m, mad);
		assert_true(cm_parse(&m, mad));
		mad[refusals[i].byte] = refusals[i].value;
		assert_false(cm_parse(&m, mad));
	}
}

static void names(void **state)
{
	char text[200];
	const struct cm_msg m = { .attribute = CM_REJ, .tid = 3, .rej = { .reason = CM_REJ_CONSUMER, .local_comm_id = 0xa } };

	assert_string_equal(cm_name(CM_SIDR_REQ), "SIDR_REQ");
	assert_string_equal(cm_name(0x0f), "?");
	cm_dump(&m, text, sizeof(text));
	assert_string_equal(text, "CM REJ tid=0x3 local_comm_id=0xa reason=0x1c");
	assert_int_equal(CM_REJ_STALE_CONNECTION, 10);	/* IBA table 109, spot checks of the counted enum */
	assert_int_equal(CM_REJ_INVALID_MTU, 26);
	assert_int_equal(CM_REJ_CONSUMER, 28);
	assert_int_equal(CM_REJ_INVALID_ALT_FLOW_LABEL, 33);
}

static const struct {
	uint8_t version_byte, ip_byte;
	bool is_good;
} cma_headers[] = {
	{ 0, 0x40, true }, { 0, 0x60, true }, { 1, 0x40, false }, { 0, 0x50, false }, { 0, 0x00, false }, { 0, 0x4f, true },
};

static void rdma_cm_header(void **state)
{
	for (unsigned i = 0; i < COUNT(cma_headers); i++) {
		uint8_t data[CMA_BYTES] = { cma_headers[i].version_byte, cma_headers[i].ip_byte, 0x12, 0x34, [19] = 7, [35] = 9 };
		uint8_t again[CMA_BYTES];
		struct cma_header h;

		assert_int_equal(cma_parse(&h, data), cma_headers[i].is_good);
		assert_int_equal(h.port, 0x1234);
		assert_int_equal(h.source[15], 7);
		assert_int_equal(h.destination[15], 9);
		cma_build(&h, again);
		data[1] &= 0xf0;	/* the reserved bits */
		assert_memory_equal(again, data, CMA_BYTES);
	}
	assert_true(CMA_SERVICE_ID(0x0106, 7471) == 0x1061d2f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places),
		cmocka_unit_test(private_data_ends_the_mad),
		cmocka_unit_test(no_field_overlaps_another),
		cmocka_unit_test(random_round_trips),
		cmocka_unit_test(refused),
		cmocka_unit_test(names),
		cmocka_unit_test(rdma_cm_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
