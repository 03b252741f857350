/* Direct messages as records: what is built is what is read, anything else is refused, and the right bytes are pulled. */
#include "direct/record.h"

#include "base/rand.h"
#include "wire/opcode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t opcodes[] = {
	OPCODE_RC_SEND_ONLY, OPCODE_RC_SEND_ONLY_IMM, OPCODE_RC_SEND_ONLY_INV, OPCODE_RC_RDMA_WRITE_ONLY,
	OPCODE_RC_RDMA_WRITE_ONLY_IMM, OPCODE_UC_SEND_ONLY, OPCODE_UC_RDMA_WRITE_ONLY_IMM,
	OPCODE_UD_SEND_ONLY, OPCODE_UD_SEND_ONLY_IMM,
};

static struct direct_message example(uint8_t opcode, enum direct_payload payload, uint32_t bytes, const struct iovec *iov,
				     unsigned iovs)
{
	const struct opcode_row *row = opcode_row(opcode);

	struct direct_datagram datagram = {
		.qkey = 0x87654321, .slid = 0x1234, .dlid = 0x4321, .pkey = 0x8001, .sl = 15, .network = 3,
	};

	if (!(row->headers & HDR_DETH))
		datagram = (struct direct_datagram){ 0 };
	return (struct direct_message){
		.datagram = datagram,
		.opcode = opcode, .solicited = bytes & 1, .payload = payload, .dest_qpn = 0x123456, .src_qpn = 0xfedcba,
		.psn = PSN_MASK, .received = 5, .trailer = row->headers & (HDR_IMM | HDR_IETH) ? 0xdeadbeef : 0,
		.bytes = bytes, .iov = iov, .iovs = iovs,
		.va = row->headers & HDR_RETH ? 0x1122334455667788 : 0, .rkey = row->headers & HDR_RETH ? 0xabcdef01 : 0,
	};
}

static void assert_same(const struct direct_message *a, const struct direct_message *b)
{
	assert_int_equal(a->opcode, b->opcode);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->payload, b->payload);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->src_qpn, b->src_qpn);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->received, b->received);
	assert_int_equal(a->trailer, b->trailer);
	assert_true(a->va == b->va);
	assert_int_equal(a->rkey, b->rkey);
	assert_int_equal(a->bytes, b->bytes);
	assert_memory_equal(&a->datagram, &b->datagram, sizeof(a->datagram));
}

static void what_is_built_is_read(void **state)
{
	static uint8_t payload[8128], record[RECORD_MAX_BYTES];
	struct iovec three[3] = { { payload, 1 }, { payload + 1, 40 }, { payload + 41, sizeof(payload) - 41 } }, iov[DIRECT_IOVS];
	struct direct_message got;

	(void)state;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7);
	for (unsigned i = 0; i < sizeof(opcodes); i++) {
		for (unsigned iovs = 0; iovs <= 3; iovs++) {
			static const uint32_t lengths[] = { 0, 1, 41, sizeof(payload) };
			struct direct_message m = example(opcodes[i], PAYLOAD_EAGER, lengths[iovs], three, iovs);
			size_t bytes = record_bytes(&m);

			assert_true(bytes <= sizeof(record));
			record_build(&m, record);
			assert_true(record_parse(&got, record, bytes, iov));
			assert_same(&got, &m);
			assert_int_equal(got.iovs, 1);
			assert_memory_equal(got.iov->iov_base, payload, m.bytes);
		}
	}
}

/* A line of the ring has 56 bytes for a record. */
static void a_small_send_is_one_line(void **state)
{
	uint8_t payload[40];
	struct iovec iov = { payload, sizeof(payload) };
	struct direct_message m = example(OPCODE_RC_SEND_ONLY, PAYLOAD_EAGER, sizeof(payload), &iov, 1);

	(void)state;
	assert_int_equal(record_bytes(&m), 56);
}

static void a_short_message_is_as_any(void **state)
{
	uint8_t payload[300], brief[RECORD_MAX_BYTES], any[RECORD_MAX_BYTES];
	struct rand r;

	(void)state;
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7);
	rand_seed(&r, 7);
	for (unsigned i = 0; i < 10000; i++) {
		struct iovec iov = { payload, 1 + rand_below(&r, sizeof(payload)) };
		struct direct_message m = {
			.opcode = OPCODE_RC_SEND_ONLY,
			.dest_qpn = (uint32_t)rand_u64(&r) & PSN_MASK, .src_qpn = (uint32_t)rand_u64(&r) & PSN_MASK,
			.psn = (uint32_t)rand_u64(&r) & PSN_MASK, .received = (uint32_t)rand_u64(&r) & PSN_MASK,
			.bytes = (uint32_t)iov.iov_len, .iov = &iov, .iovs = 1, .solicited = rand_below(&r, 2),
		};

		record_build(&m, any);
		record_build_short(brief, m.dest_qpn, m.src_qpn, m.psn, m.received, (struct direct_promise){ 0 }, payload,
				   m.bytes, m.solicited);
		assert_int_equal(record_bytes(&m), RECORD_HEAD_BYTES + m.bytes);
		assert_memory_equal(brief, any, RECORD_HEAD_BYTES + m.bytes);
	}
}

/* Also where it is taken as any message. */
static void a_short_message_may_promise(void **state)
{
	uint8_t record[RECORD_MAX_BYTES], payload[8] = "promise";
	struct direct_promise all = { PROMISE_RECEIVES, PROMISE_SIZE }, beyond = { 1, PROMISE_SIZE + 1 };
	struct iovec iov[DIRECT_IOVS];
	struct direct_message any;
	struct record_short m;

	(void)state;
	record_build_short(record, 1, 2, PSN_MASK, PSN_MASK - 1, all, payload, sizeof(payload), false);
	assert_true(record_parse_short(&m, record, RECORD_HEAD_BYTES + sizeof(payload)));
	assert_true(record_parse(&any, record, RECORD_HEAD_BYTES + sizeof(payload), iov));
	assert_int_equal(m.promise.receives, PROMISE_RECEIVES);
	assert_int_equal(m.promise.size, PROMISE_SIZE);
	assert_int_equal(m.psn, PSN_MASK);
	assert_int_equal(any.psn, PSN_MASK);
	assert_int_equal(m.received, PSN_MASK - 1);
	assert_int_equal(any.received, PSN_MASK - 1);
	record_build_short(record, 1, 2, 3, 4, beyond, payload, sizeof(payload), false);
	assert_false(record_parse_short(&m, record, RECORD_HEAD_BYTES + sizeof(payload)));
	assert_false(record_parse(&any, record, RECORD_HEAD_BYTES + sizeof(payload), iov));
}

static void what_is_elsewhere_is_named(void **state)
{
	static uint8_t record[RECORD_MAX_BYTES];
	struct iovec pieces[2] = { { (void *)0x1000, 70000 }, { (void *)0x7000000, 30000 } }, iov[DIRECT_IOVS];
	struct direct_message got, m = example(OPCODE_RC_SEND_ONLY_IMM, PAYLOAD_RENDEZVOUS, 100000, pieces, 2);

	(void)state;
	record_build(&m, record);
	assert_true(record_parse(&got, record, record_bytes(&m), iov));
	assert_same(&got, &m);
	assert_int_equal(got.iovs, 2);
	assert_memory_equal(iov, pieces, sizeof(pieces));
	m = example(OPCODE_RC_RDMA_WRITE_ONLY_IMM, PAYLOAD_PLACED, 1 << 30, NULL, 0);
	record_build(&m, record);
	assert_true(record_parse(&got, record, record_bytes(&m), iov));
	assert_same(&got, &m);
}

/* Of a long send. */
static void parts_are_messages(void **state)
{
	static const uint8_t parts[] = {
		OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_LAST, OPCODE_RC_SEND_LAST_IMM,
	};
	static uint8_t record[RECORD_MAX_BYTES];
	struct iovec piece = { (void *)0x1000, DIRECT_SLICE }, iov[DIRECT_IOVS];

	(void)state;
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct direct_message got, m = example(parts[i], PAYLOAD_RENDEZVOUS, DIRECT_SLICE, &piece, 1);

		record_build(&m, record);
		assert_true(record_parse(&got, record, record_bytes(&m), iov));
		assert_same(&got, &m);
	}
}

static bool is_refused(const struct direct_message *m, size_t cut, size_t at, uint8_t flip)
{
	static uint8_t record[RECORD_MAX_BYTES];
	struct iovec iov[DIRECT_IOVS];
	struct direct_message got;

	record_build(m, record);
	record[at] ^= flip;
	return !record_parse(&got, record, record_bytes(m) - cut, iov);
}

static void others_are_refused(void **state)
{
	struct iovec piece = { (void *)0x1000, 9000 };
	struct direct_message pulled = example(OPCODE_RC_SEND_ONLY, PAYLOAD_RENDEZVOUS, 9000, &piece, 1);
	struct direct_message placed = example(OPCODE_RC_RDMA_WRITE_ONLY_IMM, PAYLOAD_PLACED, 9000, NULL, 0);
	struct iovec bytes = { "12345678", 8 }, much = { (void *)0x1000, DIRECT_LONG };
	struct direct_message carried = example(OPCODE_RC_SEND_ONLY, PAYLOAD_EAGER, 8, &bytes, 1);
	struct direct_message too_long = example(OPCODE_RC_SEND_ONLY, PAYLOAD_RENDEZVOUS, DIRECT_LONG, &much, 1);

	(void)state;
	assert_false(is_refused(&carried, 0, 0, 0));
	assert_false(is_refused(&pulled, 0, 0, 0));
	assert_false(is_refused(&placed, 0, 0, 0));
	for (size_t cut = 1; cut <= record_bytes(&pulled); cut++)
		assert_true(is_refused(&pulled, cut, 0, 0));
	for (size_t cut = 1; cut <= record_bytes(&placed); cut++)
		assert_true(is_refused(&placed, cut, 0, 0));
	assert_true(is_refused(&carried, 0, 3, OPCODE_RC_SEND_ONLY ^ OPCODE_RC_SEND_FIRST));
	assert_true(is_refused(&placed, 0, 3, OPCODE_RC_RDMA_WRITE_ONLY_IMM ^ OPCODE_RC_RDMA_WRITE_LAST_IMM));
	assert_true(is_refused(&too_long, 0, 0, 0));
	assert_true(is_refused(&pulled, 0, 3, OPCODE_RC_SEND_ONLY ^ OPCODE_RC_RDMA_READ_REQUEST));
	assert_true(is_refused(&pulled, 0, 3, 0xff ^ OPCODE_RC_SEND_ONLY));
	assert_true(is_refused(&carried, 0, 3, OPCODE_RC_SEND_ONLY ^ OPCODE_RC_ACKNOWLEDGE));
	/* writes are not pulled */
	assert_true(is_refused(&pulled, 0, 3, OPCODE_RC_SEND_ONLY ^ OPCODE_RC_RDMA_WRITE_ONLY));
	assert_true(is_refused(&pulled, 0, 7, 6));		/* a payload of no kind */
	assert_true(is_refused(&pulled, 0, 7, 8));		/* a flag nobody knows */
	assert_true(is_refused(&pulled, 0, 11, 1));		/* a PSN of 25 bits */
	assert_true(is_refused(&pulled, 0, 16, 1));		/* the pieces are not as long as the whole */
	assert_true(is_refused(&pulled, 0, 19, 0x80));		/* longer than anything */
	assert_true(is_refused(&placed, 0, 28, 1));		/* reserved */
}

static void other_datagrams_are_refused(void **state)
{
	struct iovec bytes = { "", 0 }, piece = { (void *)0x1000, 100 };
	struct direct_message m = example(OPCODE_UD_SEND_ONLY, PAYLOAD_EAGER, 0, &bytes, 1);
	struct direct_message pulled = example(OPCODE_UD_SEND_ONLY, PAYLOAD_RENDEZVOUS, 100, &piece, 1);

	(void)state;
	assert_false(is_refused(&m, 0, 0, 0));
	for (size_t cut = 1; cut <= record_bytes(&m); cut++)
		assert_true(is_refused(&m, cut, 0, 0));
	assert_true(is_refused(&pulled, 0, 0, 0));
	assert_true(is_refused(&m, 0, 26, 0x10));	/* a service level of 5 bits */
}

/* What carries no payload ends with its fields. */
static void bytes_behind_a_placed_write_are_refused(void **state)
{
	static uint8_t record[RECORD_MAX_BYTES];
	struct direct_message got, placed = example(OPCODE_RC_RDMA_WRITE_ONLY_IMM, PAYLOAD_PLACED, 9000, NULL, 0);
	struct iovec iov[DIRECT_IOVS];

	(void)state;
	record_build(&placed, record);
	assert_true(record_parse(&got, record, record_bytes(&placed), iov));
	for (size_t more = 1; more <= 40; more++)
		assert_false(record_parse(&got, record, record_bytes(&placed) + more, iov));
}

static bool read_memory(void *peer, uint64_t address, const struct iovec *iov, unsigned iovs, uint32_t bytes)
{
	const uint8_t *from = (const uint8_t *)peer + address;

	for (unsigned i = 0; i < iovs; bytes -= (uint32_t)iov[i].iov_len, from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	assert_int_equal(bytes, 0);
	return true;
}

/* Cuts `bytes` into at most `most` pieces, some of them empty. */
static unsigned cut(struct rand *r, uint64_t bytes, unsigned most, struct iovec *iov, const uint8_t *from)
{
	unsigned n = 1 + (unsigned)rand_below(r, most);

	for (unsigned i = 0; i < n; i++) {
		uint64_t some = i + 1 == n ? bytes : rand_below(r, bytes + 1);

		iov[i] = (struct iovec){ (uint8_t *)(uintptr_t)from, some };
		from += some;
		bytes -= some;
	}
	return n;
}

static void the_right_bytes_are_pulled(void **state)
{
	static const struct rma_mover mover = { .read = read_memory };
	static uint8_t theirs[2000], ours[2000];
	struct rand r;

	(void)state;
	rand_seed(&r, 7);
	for (size_t i = 0; i < sizeof(theirs); i++)
		theirs[i] = (uint8_t)rand_u64(&r);
	for (int round = 0; round < 20000; round++) {
		uint32_t bytes = 1 + (uint32_t)rand_below(&r, sizeof(theirs)), offset = (uint32_t)rand_below(&r, bytes);
		struct iovec pieces[5], to[5];
		/* addresses are offsets in the mover's memory */
		unsigned pulled = cut(&r, bytes, 5, pieces, NULL);
		struct direct_message m = example(OPCODE_RC_SEND_ONLY, PAYLOAD_RENDEZVOUS, bytes, pieces, pulled);
		unsigned tos = cut(&r, bytes - offset, 5, to, ours);

		memset(ours, 0, sizeof(ours));
		assert_true(record_pull(&m, offset, &mover, theirs, to, tos));
		assert_memory_equal(ours, theirs + offset, bytes - offset);
		/* a receive of more bytes than there are is not filled */
		to[tos - 1].iov_len += bytes;
		assert_false(record_pull(&m, offset, &mover, theirs, to, tos));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_built_is_read),
		cmocka_unit_test(a_small_send_is_one_line),
		cmocka_unit_test(a_short_message_is_as_any),
		cmocka_unit_test(a_short_message_may_promise),
		cmocka_unit_test(what_is_elsewhere_is_named),
		cmocka_unit_test(parts_are_messages),
		cmocka_unit_test(others_are_refused),
		cmocka_unit_test(other_datagrams_are_refused),
		cmocka_unit_test(bytes_behind_a_placed_write_are_refused),
		cmocka_unit_test(the_right_bytes_are_pulled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
