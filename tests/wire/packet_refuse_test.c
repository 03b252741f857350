/* What packet_parse refuses and why: one good frame of each form, one change, the error. */
#include "wire/header.h"
#include "wire/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

enum form { LOCAL, GLOBAL, IPV4, IPV6, FORMS };

static const size_t bth_at[FORMS] = { 8, 48, 28, 48 };

/* RC SEND Only of 5 bytes */
static size_t good_frame(enum form form, uint8_t opcode, uint32_t payload_bytes, uint8_t *frame)
{
	static uint8_t data[PACKET_MAX_PAYLOAD];
	const struct iovec payload = { data, payload_bytes };
	struct packet p = { .form = form <= GLOBAL ? PACKET_IB : PACKET_ROCE, .opcode = opcode, .payload = &payload,
			    .payload_iovs = 1, .payload_bytes = payload_bytes,
			    .path = { .has_grh = form != LOCAL, .is_ipv4 = form == IPV4, .hop_limit = 1 } };

	return packet_build(&p, frame, PACKET_MAX_BYTES);
}

static enum packet_error parse(enum form form, const uint8_t *frame, size_t bytes)
{
	enum packet_error error;
	struct packet p;
	uint8_t *exact = malloc(bytes ? bytes : 1);	/* so that a sanitizer sees every byte read too many */

	memcpy(exact, frame, bytes);
	error = packet_parse(&p, form <= GLOBAL ? PACKET_IB : PACKET_ROCE, exact, bytes, false);
	free(exact);
	return error;
}

static const struct refusal {
	const char *why;
	enum form form;
	unsigned byte;		/* bytes >= 100 count from the BTH: 100 is its first */
	uint8_t value;
	enum packet_error error;
} refusals[] = {
	{ "LVer", LOCAL, 0, 0x01, PACKET_BAD_VERSION },
	{ "LNH raw", LOCAL, 1, 0x00, PACKET_BAD_FORM },
	{ "LNH IPv6 without transport", LOCAL, 1, 0x01, PACKET_BAD_FORM },
	{ "PktLen too long", LOCAL, 5, 9, PACKET_SHORT },
	{ "PktLen too short", LOCAL, 5, 7, PACKET_BAD_LENGTH },
	{ "PktLen 0", LOCAL, 5, 0, PACKET_BAD_LENGTH },
	{ "no room for the GRH that LNH promises", LOCAL, 1, 0x03, PACKET_SHORT },
	{ "GRH IPVer", GLOBAL, 8, 0x40, PACKET_BAD_VERSION },
	{ "GRH NxtHdr", GLOBAL, 14, 17, PACKET_BAD_FORM },
	{ "GRH PayLen too long", GLOBAL, 13, 25, PACKET_SHORT },
	{ "GRH PayLen too short", GLOBAL, 13, 23, PACKET_BAD_LENGTH },
	{ "IP version", IPV4, 0, 0x55, PACKET_BAD_VERSION },
	{ "IP options", IPV4, 0, 0x46, PACKET_BAD_FORM },
	{ "IP header checksum", IPV4, 10, 0xee, PACKET_BAD_FORM },
	{ "IPv6 next header", IPV6, 6, 6, PACKET_BAD_FORM },
	{ "IPv6 length too long", IPV6, 5, 33, PACKET_SHORT },
	{ "IPv6 length too short", IPV6, 5, 31, PACKET_BAD_LENGTH },
	{ "UDP port", IPV6, 43, 0xb8, PACKET_BAD_FORM },
	{ "UDP length too long", IPV6, 45, 33, PACKET_SHORT },
	{ "UDP length too short", IPV6, 45, 31, PACKET_BAD_LENGTH },
	{ "TVer", LOCAL, 101, 0x31, PACKET_BAD_VERSION },
	{ "opcode without a row", LOCAL, 100, 0x15, PACKET_BAD_OPCODE },
	{ "RD", LOCAL, 100, 0x44, PACKET_BAD_OPCODE },
	{ "manufacturer's opcode", IPV4, 100, 0xe0, PACKET_BAD_OPCODE },
	{ "no room for the RETH", IPV4, 100, OPCODE_RC_RDMA_WRITE_ONLY, PACKET_SHORT },
	{ "payload on an ACK", IPV6, 100, OPCODE_RC_ACKNOWLEDGE, PACKET_BAD_LENGTH },
	{ "CNP of another size", IPV6, 100, OPCODE_CNP, PACKET_BAD_LENGTH },
};

static void one_wrong_byte(void **state)
{
	for (unsigned i = 0; i < COUNT(refusals); i++) {
		const struct refusal *r = &refusals[i];
		uint8_t frame[PACKET_MAX_BYTES];
		size_t bytes = good_frame(r->form, OPCODE_RC_SEND_ONLY, 5, frame);
		enum packet_error error;

		assert_int_equal(parse(r->form, frame, bytes), PACKET_OK);
		frame[r->byte < 100 ? r->byte : bth_at[r->form] + r->byte - 100] = r->value;
		error = parse(r->form, frame, bytes);
		if (error != r->error)
			print_message("%s: %s, not %s\n", r->why, packet_error_name(error), packet_error_name(r->error));
		assert_int_equal(error, r->error);
	}
}

/* A change of the IPv4 header with its checksum put right again. */
static const struct {
	const char *why;
	unsigned byte;
	uint8_t value;
	enum packet_error error;
} ipv4_refusals[] = {
	{ "more fragments", 6, 0x20, PACKET_BAD_FORM },
	{ "fragment offset", 7, 0x01, PACKET_BAD_FORM },
	{ "reserved flag", 6, 0xc0, PACKET_BAD_FORM },
	{ "DF off", 6, 0x00, PACKET_OK },
	{ "TCP", 9, 6, PACKET_BAD_FORM },
	{ "length too long", 3, 53, PACKET_SHORT },
	{ "length too short", 3, 51, PACKET_BAD_LENGTH },
};

static void wrong_ipv4_with_a_right_checksum(void **state)
{
	for (unsigned i = 0; i < COUNT(ipv4_refusals); i++) {
		uint8_t frame[PACKET_MAX_BYTES];
		size_t bytes = good_frame(IPV4, OPCODE_RC_SEND_ONLY, 5, frame);
		uint32_t sum = 0;

		assert_int_equal(bytes, 52);
		frame[ipv4_refusals[i].byte] = ipv4_refusals[i].value;
		frame[10] = frame[11] = 0;
		for (unsigned k = 0; k < IPV4_BYTES; k += 2)
			sum += (uint32_t)frame[k] << 8 | frame[k + 1];
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		frame[10] = (uint8_t)(~sum >> 8);
		frame[11] = (uint8_t)~sum;
		assert_int_equal(parse(IPV4, frame, bytes), ipv4_refusals[i].error);
	}
}

/* Every truncation of every opcode in every form is refused, and nothing behind the end is read. */
static void every_truncation(void **state)
{
	uint8_t frame[PACKET_MAX_BYTES];

	for (int form = LOCAL; form < FORMS; form++) {
		for (unsigned code = 0; code < 256; code++) {
			const struct opcode_row *row = opcode_row((uint8_t)code);
			size_t bytes;

			if (!row)
				continue;
			bytes = good_frame(form, (uint8_t)code, row->payload_min > 16 ? row->payload_min :
					   row->payload_max < 16 ? row->payload_max : 16, frame);
			assert_int_equal(parse(form, frame, bytes), PACKET_OK);
			for (size_t cut = 0; cut < bytes; cut++)
				assert_int_equal(parse(form, frame, cut), PACKET_SHORT);
			frame[bytes] = 0;
			assert_int_equal(parse(form, frame, bytes + 1), PACKET_BAD_LENGTH);
		}
	}
}

/* A frame whose lengths agree, but are no multiple of 4, or leave less than the pad. */
static void wrong_pad(void **state)
{
	uint8_t frame[PACKET_MAX_BYTES];
	size_t bytes = good_frame(IPV6, OPCODE_RC_SEND_ONLY, 0, frame);

	frame[bth_at[IPV6] + 1] = 0x30;
	assert_int_equal(parse(IPV6, frame, bytes), PACKET_BAD_LENGTH);
	bytes = good_frame(IPV6, OPCODE_RC_SEND_ONLY, 4, frame);
	frame[5]--;
	frame[45]--;
	assert_int_equal(parse(IPV6, frame, bytes - 1), PACKET_BAD_LENGTH);
}

static void payload_beyond_any_mtu(void **state)
{
	static uint8_t frame[PACKET_MAX_BYTES + 8];
	size_t bytes = good_frame(LOCAL, OPCODE_RC_SEND_ONLY, PACKET_MAX_PAYLOAD, frame);

	assert_int_equal(parse(LOCAL, frame, bytes), PACKET_OK);
	wire_put(frame, bytes / 4 + 1, LRH_PKTLEN);
	assert_int_equal(parse(LOCAL, frame, bytes + 4), PACKET_BAD_LENGTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_wrong_byte),
		cmocka_unit_test(wrong_ipv4_with_a_right_checksum),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(wrong_pad),
		cmocka_unit_test(payload_beyond_any_mtu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
