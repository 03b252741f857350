/* Both wire forms without captures: the specification's worked packet, what the ICRC covers bit by bit, and seeded random
 * packets through build and parse. */
#include "ones.h"

#include "base/rand.h"
#include "wire/header.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* IBA 7.8.4: the local packet worked through there, an RDMA WRITE Only of 14 bytes, to its ICRC 96 25 b7 5a. */
static const uint8_t local_packet[] = {
	0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2,						/* LRH */
	0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a,			/* BTH */
	0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e,	/* RETH */
	0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c, 0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00,	/* payload, pad 2 */
	0x96, 0x25, 0xb7, 0x5a,
};

static void worked_packet_of_the_specification(void **state)
{
	uint8_t again[sizeof(local_packet)];
	char text[500];
	struct packet p;

	assert_int_equal(packet_parse(&p, PACKET_IB, local_packet, sizeof(local_packet), true), PACKET_OK);
	packet_dump(&p, text, sizeof(text));
	assert_string_equal(text, "IB path.vl=0x7 path.sl=0x1 path.dlid=0x375c path.slid=0x17d2 RC_RDMA_WRITE_ONLY pkey=0x2487 "
			    "dest_qpn=0x87b1b3 psn=0xdec2a reth.va=0x1710a1c015d4002 reth.rkey=0x38f27a05 reth.length=0xe "
			    "payload 14 crc 0x2aae724c");
	assert_int_equal(p.pad, 2);
	assert_false(p.path.has_grh);
	assert_int_equal(packet_build(&p, again, sizeof(again)), sizeof(again));
	assert_memory_equal(again, local_packet, sizeof(again));
}

/* One packet a form, built here, and the bits that must not matter: byte from the start and mask. IBA 7.8.1, A17.3.3. */
struct variant_bits {
	unsigned byte;
	uint8_t mask;
};

static const struct form {
	const char *name;
	struct packet_path path;
	enum packet_form form;
	size_t before_bth;
	struct variant_bits variant[12];
} forms[] = {
	{ "local", { .slid = 3, .dlid = 4, .sl = 5, .vl = 1 }, PACKET_IB, 8, { { 0, 0xf0 }, { 12, 0xff } } },
	{ "global", { .slid = 3, .dlid = 4, .has_grh = true, .tclass = 1, .flow_label = 9, .hop_limit = 2, .sgid = { 1 } },
	  PACKET_IB, 48,
	  { { 0, 0xff }, { 1, 0xfc }, { 2, 0xff }, { 3, 0xff }, { 6, 0xff }, { 7, 0xff },	/* LRH but LNH and PktLen */
	    { 8, 0x0f }, { 9, 0xff }, { 10, 0xff }, { 11, 0xff }, { 15, 0xff }, { 52, 0xff } } },
	{ "ipv4", { .is_ipv4 = true, .hop_limit = 64, .udp_sport = 0xc000, .ip_id = 7 }, PACKET_ROCE, 28,
	  { { 1, 0xff }, { 8, 0xff }, { 10, 0xff }, { 11, 0xff }, { 26, 0xff }, { 27, 0xff }, { 32, 0xff } } },
	{ "ipv6", { .hop_limit = 64, .udp_sport = 0xc000, .sgid = { 0xfd }, .dgid = { 0xfe } }, PACKET_ROCE, 48,
	  { { 0, 0x0f }, { 1, 0xff }, { 2, 0xff }, { 3, 0xff }, { 7, 0xff }, { 46, 0xff }, { 47, 0xff }, { 52, 0xff } } },
};

static uint8_t variant_mask(const struct form *form, size_t byte)
{
	uint8_t mask = 0;

	for (unsigned i = 0; i < COUNT(form->variant); i++)
		if (form->variant[i].mask && form->variant[i].byte == byte)
			mask |= form->variant[i].mask;
	return mask;
}

/* Bits that decide where the headers are: changed, they make another frame of it. */
static bool is_structure(const struct form *form, size_t byte, uint8_t bit)
{
	return form->form == PACKET_IB ? byte == 1 && (bit & 3) : byte == 0 && (bit & 0xf0);
}

static void icrc_covers_all_but_the_variant_bits(void **state)
{
	uint8_t data[] = "eleven more", frame[200];
	const struct iovec payload = { data, 11 };

	for (unsigned f = 0; f < COUNT(forms); f++) {
		struct packet p = { .form = forms[f].form, .path = forms[f].path, .opcode = OPCODE_RC_RDMA_WRITE_ONLY,
				    .pkey = 0xffff, .dest_qpn = 0x123456, .psn = 77,
				    .payload = &payload, .payload_iovs = 1, .payload_bytes = 11 };
		size_t bytes = packet_build(&p, frame, sizeof(frame));
		uint32_t icrc = icrc_compute(p.form, frame, bytes - ICRC_BYTES);

		assert_int_equal(bytes, forms[f].before_bth + 12 + 16 + 11 + 1 + 4);
		for (size_t byte = 0; byte < bytes - ICRC_BYTES; byte++) {
			for (uint8_t bit = 0x80; bit; bit >>= 1) {
				bool is_variant = variant_mask(&forms[f], byte) & bit, same;

				if (is_structure(&forms[f], byte, bit))
					continue;
				frame[byte] ^= bit;
				same = icrc_compute(p.form, frame, bytes - ICRC_BYTES) == icrc;
				frame[byte] ^= bit;
				/* a global packet's whole LRH is replaced, PktLen too */
				if (!strcmp(forms[f].name, "global") && (byte == 4 || byte == 5))
					is_variant = true;
				if (same != is_variant)
					print_message("%s: byte %zu bit 0x%02x\n", forms[f].name, byte, bit);
				assert_int_equal(same, is_variant);
			}
		}
	}
}

/* The bytes of headers that no capture and not the worked packet has, written out by hand from IBA 8.3, 9.3 and 1.5's FETH. */
static void headers_in_bytes(void **state)
{
	static const uint8_t grh[] = { 0x6a, 0x51, 0x23, 0x45, 0, 48, 0x1b, 0x40 };	/* PayLen: BTH to ICRC */
	static const uint8_t fetch_add[] = {
		0x00, 0x0a, 0x0b, 0x0c,							/* XRCETH */
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,					/* va, rkey */
		0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
	};
	static const uint8_t flush[] = { 0, 0, 0, 0x12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3 };
	static const uint8_t invalidate[] = { 0xca, 0xfe, 0xba, 0xbe };
	static const uint8_t bth[] = {
		OPCODE_RC_SEND_ONLY_INV, 0xc0, 0x12, 0x34, 0xc0, 0xab, 0xcd, 0xef, 0x80, 0x65, 0x43, 0x21,
	};
	struct packet p = { .form = PACKET_IB, .opcode = OPCODE_XRC_FETCH_ADD, .xrceth.srqn = 0x0a0b0c,
			    .path = { .has_grh = true, .tclass = 0xa5, .flow_label = 0x12345, .hop_limit = 64 },
			    .atomiceth = { 0x0102030405060708, 0x090a0b0c, 0x1112131415161718, 0x2122232425262728 } };
	uint8_t frame[200];

	assert_int_equal(packet_build(&p, frame, sizeof(frame)), 8 + 40 + 12 + 32 + 4);
	assert_int_equal(frame[1] & 3, 3);
	assert_memory_equal(frame + 60, fetch_add, sizeof(fetch_add));
	assert_memory_equal(frame + 8, grh, sizeof(grh));

	p = (struct packet){ .form = PACKET_IB, .opcode = OPCODE_RC_FLUSH, .feth = { .placement = 2, .selectivity = 1 },
			     .reth = { 1, 2, 3 } };
	assert_int_equal(packet_build(&p, frame, sizeof(frame)), 8 + 12 + 20 + 4);
	assert_memory_equal(frame + 20, flush, sizeof(flush));

	p = (struct packet){ .form = PACKET_IB, .opcode = OPCODE_RC_SEND_ONLY_INV, .ieth_rkey = 0xcafebabe, .solicited = true,
			     .migrated = true, .pkey = 0x1234, .fecn = true, .becn = true, .dest_qpn = 0xabcdef,
			     .ack_requested = true, .psn = 0x654321 };
	assert_int_equal(packet_build(&p, frame, sizeof(frame)), 8 + 12 + 4 + 4);
	assert_memory_equal(frame + 8, bth, sizeof(bth));
	assert_memory_equal(frame + 20, invalidate, sizeof(invalidate));
}

/* All fields of a header filled with ones fill as many bits as their widths add up to: none lies on another. */
static void no_field_overlaps_another(void **state)
{
#define FILL(member, ...) wire_put(header, field_mask(width_of(__VA_ARGS__)), __VA_ARGS__); sum += width_of(__VA_ARGS__);
#define width_of(byte, bit, width) (width)
#define FULL(x, bit, header_bytes, FIELDS)							\
	do {											\
		uint8_t header[64] = { 0 };							\
		unsigned sum = 0;								\
												\
		FIELDS(FILL)									\
		assert_int_equal(ones(header, sizeof(header)), sum);				\
		assert_int_equal(ones(header, header_bytes), sum);				\
	} while (0);
	EXTENDED_HEADERS(FULL, 0)
	FULL(0, 0, LRH_BYTES, LRH_FIELDS)
	FULL(0, 0, BTH_BYTES, BTH_FIELDS)
	FULL(0, 0, IPV4_BYTES, IPV4_FIELDS)
	FULL(0, 0, IPV6_BYTES, IPV6_FIELDS)
	FULL(0, 0, UDP_BYTES, UDP_FIELDS)
}

static void random_bytes(struct rand *r, void *to, size_t bytes)
{
	for (uint8_t *at = to; bytes--; at++)
		*at = (uint8_t)rand_u64(r);
}

static uint8_t random_opcode(struct rand *r)
{
	uint8_t code;

	do
		code = (uint8_t)rand_u64(r);
	while (!opcode_row(code));
	return code;
}

/* Every member that the form and the opcode have, at random within its width. */
static void random_packet(struct rand *r, struct packet *p)
{
	const struct opcode_row *row;

	*p = (struct packet){ .form = rand_chance(r, 500000) ? PACKET_IB : PACKET_ROCE, .opcode = random_opcode(r) };
	row = opcode_row(p->opcode);
#define RANDOM(member, byte, bit, width) p->member = rand_u64(r) & field_mask(width);
	if (p->form == PACKET_IB) {
		LRH_FIELDS(RANDOM)
		p->path.has_grh = rand_chance(r, 500000);
	} else {
		UDP_FIELDS(RANDOM)
		p->path.has_grh = true;
		p->path.is_ipv4 = rand_chance(r, 500000);
	}
	if (p->path.is_ipv4) {
		IPV4_FIELDS(RANDOM)
		p->path.ip_may_fragment = rand_chance(r, 100000);
		p->path.sgid[10] = p->path.sgid[11] = p->path.dgid[10] = p->path.dgid[11] = 0xff;
		random_bytes(r, p->path.sgid + 12, 4);
		random_bytes(r, p->path.dgid + 12, 4);
	} else if (p->path.has_grh) {
		IPV6_FIELDS(RANDOM)
		random_bytes(r, p->path.sgid, 16);
		random_bytes(r, p->path.dgid, 16);
	}
	BTH_FIELDS(RANDOM)
#define RANDOM_HEADER(x, bit, bytes, FIELDS)	\
	if (row->headers & (bit)) {		\
		FIELDS(RANDOM)			\
	}
	EXTENDED_HEADERS(RANDOM_HEADER, 0)
	p->payload_bytes = row->payload_min + (uint32_t)rand_below(r, row->payload_max - row->payload_min + 1u);
	p->pad = -p->payload_bytes & 3;
	random_bytes(r, p->resv.pad, p->pad);
}

/* All members but the payload's whereabouts. */
static void assert_same(const struct packet *a, const struct packet *b)
{
	struct packet x = *a, y = *b;

	x.payload = y.payload = NULL;
	x.payload_iovs = y.payload_iovs = 0;
	x.payload_one = y.payload_one = (struct iovec){ 0 };
#define SAME(member, ...) assert_true(x.member == y.member);
	LRH_FIELDS(SAME)
	IPV4_FIELDS(SAME)
	IPV6_FIELDS(SAME)
	UDP_FIELDS(SAME)
	BTH_FIELDS(SAME)
#define SAME_HEADER(z, bit, bytes, FIELDS) FIELDS(SAME)
	EXTENDED_HEADERS(SAME_HEADER, 0)
	assert_int_equal(x.form, y.form);
	assert_int_equal(x.opcode, y.opcode);
	assert_int_equal(x.pad, y.pad);
	assert_int_equal(x.payload_bytes, y.payload_bytes);
	assert_int_equal(x.path.has_grh, y.path.has_grh);
	assert_int_equal(x.path.is_ipv4, y.path.is_ipv4);
	assert_int_equal(x.path.ip_may_fragment, y.path.ip_may_fragment);
	assert_memory_equal(x.path.sgid, y.path.sgid, 16);
	assert_memory_equal(x.path.dgid, y.path.dgid, 16);
	assert_memory_equal(x.resv.pad, y.resv.pad, 3);
}

/* Cuts the payload into up to 8 pieces, some of them empty. */
static unsigned random_pieces(struct rand *r, uint8_t *data, uint32_t bytes, struct iovec *iov)
{
	unsigned n = 0;
	uint32_t at = 0;

	while (n < 7) {
		uint32_t piece = (uint32_t)rand_below(r, bytes - at + 1u);

		iov[n++] = (struct iovec){ data + at, piece };
		at += piece;
	}
	iov[n++] = (struct iovec){ data + at, bytes - at };
	return n;
}

static void random_round_trips(void **state)
{
	static uint8_t data[PACKET_MAX_PAYLOAD], frame[PACKET_MAX_BYTES], again[PACKET_MAX_BYTES];
	struct rand r;

	rand_seed(&r, 20);
	for (int i = 0; i < 20000; i++) {
		struct packet p, q;
		struct iovec iov[8];
		size_t bytes, flip;

		random_packet(&r, &p);
		random_bytes(&r, data, p.payload_bytes);
		p.payload = iov;
		p.payload_iovs = random_pieces(&r, data, p.payload_bytes, iov);
		bytes = packet_build(&p, frame, packet_bytes(&p));
		assert_int_equal(bytes, packet_bytes(&p));
		assert_true(packet_header_bytes(&p) <= PACKET_MAX_HEADER && bytes <= PACKET_MAX_BYTES);
		assert_int_equal(packet_parse(&q, p.form, frame, bytes, true), PACKET_OK);
		assert_same(&p, &q);
		assert_memory_equal(q.payload->iov_base, data, p.payload_bytes);
		assert_int_equal(packet_build(&q, again, sizeof(again)), bytes);
		assert_memory_equal(again, frame, bytes);

		flip = bytes - 1 - rand_below(&r, p.payload_bytes + 4u);	/* payload, pad or the ICRC itself */
		frame[flip] ^= (uint8_t)(1 << rand_below(&r, 8));
		assert_int_equal(packet_parse(&q, p.form, frame, bytes, true), PACKET_BAD_ICRC);
		assert_int_equal(packet_parse(&q, p.form, frame, bytes, false), PACKET_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worked_packet_of_the_specification),
		cmocka_unit_test(headers_in_bytes),
		cmocka_unit_test(no_field_overlaps_another),
		cmocka_unit_test(icrc_covers_all_but_the_variant_bits),
		cmocka_unit_test(random_round_trips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
