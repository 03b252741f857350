/* What a message weighs is what the packets that it would be weigh. */
#include "wire/load.h"
#include "wire/packet.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MTU = 1024, LRH = 8, GRH = 40 };

static uint64_t words_of(int code, uint32_t bytes, bool has_grh)
{
	const struct packet p = { .form = PACKET_IB, .path.has_grh = has_grh, .opcode = (uint8_t)code, .payload_bytes = bytes };

	assert_true(code >= 0);
	assert_int_equal(packet_bytes(&p) % 4, 0);
	return packet_bytes(&p) / 4;
}

/* Packet by packet. */
static struct wire_load made(enum opcode_service service, enum opcode_op op, unsigned trailer, uint32_t bytes, bool has_grh)
{
	struct wire_load l = { 0 };
	uint32_t left = bytes;

	do {
		uint32_t part = left < MTU ? left : MTU;
		bool begins = left == bytes, ends = left <= MTU;
		enum opcode_position at = begins ? (ends ? POS_ONLY : POS_FIRST) : ends ? POS_LAST : POS_MIDDLE;

		l.words += words_of(opcode_find(service, op, at, ends ? trailer : 0), part, has_grh);
		l.packets++;
		left -= part;
	} while (left);
	return l;
}

static void check(struct wire_load got, struct wire_load expected)
{
	assert_int_equal(got.packets, expected.packets);
	assert_int_equal(got.words, expected.words);
}

static void a_message_weighs_what_its_packets_do(void **state)
{
	static const struct {
		enum opcode_service service;
		enum opcode_op op;
		unsigned trailer;
	} rows[] = {
		{ SERVICE_RC, OP_SEND, 0 }, { SERVICE_RC, OP_SEND, HDR_IMM }, { SERVICE_RC, OP_SEND, HDR_IETH },
		{ SERVICE_RC, OP_WRITE, 0 }, { SERVICE_RC, OP_WRITE, HDR_IMM }, { SERVICE_UC, OP_SEND, HDR_IMM },
		{ SERVICE_UC, OP_WRITE, 0 }, { SERVICE_RC, OP_READ_RESPONSE, 0 },
	};
	static const uint32_t sizes[] = { 0, 1, 3, 4, 1023, 1024, 1025, 2048, 2049, 10 * MTU - 1, 10 * MTU, 65537 };

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			for (int grh = 0; grh < 2; grh++)
				check(load_of_message(rows[i].service, rows[i].op, rows[i].trailer, sizes[s], MTU,
						      LRH + (unsigned)grh * GRH),
				      made(rows[i].service, rows[i].op, rows[i].trailer, sizes[s], grh));
		}
	}
	/* as hand makes it: LRH, BTH, RETH and ICRC are 40 bytes, and 24 in packets that follow */
	check(load_of_message(SERVICE_RC, OP_WRITE, 0, 4096, MTU, LRH), (struct wire_load){ 4, (4 * 24 + 16 + 4096) / 4 });
}

static void requests_without_payload_are_one_packet(void **state)
{
	(void)state;
	check(load_of_message(SERVICE_RC, OP_READ_REQUEST, 0, 0, MTU, LRH), (struct wire_load){ 1, (24 + 16) / 4 });
	check(load_of_message(SERVICE_RC, OP_CMP_SWAP, 0, 0, MTU, LRH), (struct wire_load){ 1, (24 + 28) / 4 });
}

static void an_answer_weighs_what_its_packets_do(void **state)
{
	(void)state;
	check(load_of_answer(SERVICE_RC, OP_WRITE, 1 << 20, MTU, LRH), (struct wire_load){ 1, (24 + 4) / 4 });
	check(load_of_answer(SERVICE_RC, OP_SEND, 5, MTU, LRH + GRH), (struct wire_load){ 1, (24 + 40 + 4) / 4 });
	check(load_of_answer(SERVICE_RC, OP_READ_REQUEST, 3 * MTU, MTU, LRH),
	      made(SERVICE_RC, OP_READ_RESPONSE, 0, 3 * MTU, false));
	check(load_of_answer(SERVICE_RC, OP_FETCH_ADD, 8, MTU, LRH), (struct wire_load){ 1, (24 + 4 + 8) / 4 });
	check(load_of_answer(SERVICE_RC, OP_ATOMIC_WRITE, 8, MTU, LRH), (struct wire_load){ 1, (24 + 4) / 4 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_weighs_what_its_packets_do),
		cmocka_unit_test(requests_without_payload_are_one_packet),
		cmocka_unit_test(an_answer_weighs_what_its_packets_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
