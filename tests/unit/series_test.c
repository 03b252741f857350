/* Rules of one end of a series, one by one, and of the other end of a transaction. */
#include "mgmt/transaction.h"

#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct series_config plain = { .subnet_timeout = 10, .response_time = 8, .retries = 7 };
static uint8_t data[200 * SERIES_DATA];

static unsigned burst(struct series_out *s, wtime now)
{
	struct series_header h;
	const uint8_t *from;
	unsigned sent = 0;
	uint32_t bytes;

	for (; series_out_next(s, now, &h, &from, &bytes); sent++)
		assert_int_equal(h.flags & SERIES_CONTROL, 0);
	return sent;
}

static enum series_verdict say(struct series_out *s, wtime now, uint8_t flags, uint32_t segment, uint16_t window)
{
	const struct series_header h = { .flags = flags, .segment = segment, .window = window };

	return series_out_input(s, now, &h);
}

/* RMP-19..25: a window, then silence; Acks may come early and say what may go. */
static void an_answer_keeps_its_window(void **state)
{
	struct series_out s;

	(void)state;
	series_out_init(&s, &plain, false, 4);
	series_out_set(&s, 0, data, 10 * SERIES_DATA, true);
	assert_int_equal(burst(&s, 0), 4);
	assert_int_equal(series_out_kept(&s), 4);
	assert_int_equal(say(&s, 1, SERIES_ACK, 2, 0), SERIES_GOES_ON);
	assert_int_equal(burst(&s, 1), 2);
	assert_int_equal(series_out_kept(&s), 4);
	/* what is old, or was never sent, changes nothing */
	assert_int_equal(say(&s, 1, SERIES_ACK, 1, 0), SERIES_GOES_ON);
	assert_int_equal(say(&s, 1, SERIES_ACK, 7, 0), SERIES_GOES_ON);
	assert_int_equal(burst(&s, 1), 0);
	assert_int_equal(say(&s, 1, SERIES_ACK, 6, 0), SERIES_GOES_ON);
	assert_int_equal(series_out_kept(&s), 0);
	assert_int_equal(burst(&s, 1), 4);
	assert_int_equal(say(&s, 1, SERIES_ACK, 10, 0), SERIES_DONE);
	assert_true(s.deadline == WTIME_NEVER);
}

/* RMP-26..29, 31 */
static void windows_that_are_granted(void **state)
{
	static const struct { bool is_request, heeds; uint16_t first, ack; unsigned sent, then; } want[] = {
		{ true, false, 0, 10, 64, 64 }, { true, false, 0, 100, 64, 100 }, { true, false, 0, 0, 64, 64 },
		{ false, false, 5, 9, 5, 5 }, { false, true, 5, 9, 5, 9 }, { false, true, 5, 0, 5, 5 },
		{ false, false, 0, 0, 64, 64 },
		{ false, false, 1, 0, 1, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct series_config c = plain;
		struct series_out s;

		c.heeds_window = want[i].heeds;
		series_out_init(&s, &c, want[i].is_request, want[i].first);
		series_out_set(&s, 0, data, sizeof(data), true);
		assert_int_equal(burst(&s, 0), want[i].sent);
		assert_int_equal(say(&s, 0, SERIES_ACK, want[i].sent, want[i].ack), SERIES_GOES_ON);
		assert_int_equal(burst(&s, 0), want[i].then);
	}
}

/* RMP-24, 44, 46, 51 */
static void what_is_asked_for_goes_again(void **state)
{
	struct series_out s;

	(void)state;
	series_out_init(&s, &plain, false, 12);
	series_out_set(&s, 0, data, 12 * SERIES_DATA, true);
	assert_int_equal(burst(&s, 0), 12);
	assert_int_equal(say(&s, 0, SERIES_RESEND, 5, 0), SERIES_GOES_ON);
	assert_int_equal(series_out_kept(&s), 12);
	assert_int_equal(burst(&s, 0), 8);
	assert_int_equal(say(&s, 0, SERIES_RESEND, 0, 0), SERIES_GOES_ON);
	assert_int_equal(say(&s, 0, SERIES_RESEND, 13, 0), SERIES_GOES_ON);
	assert_int_equal(burst(&s, 0), 0);
	assert_int_equal(say(&s, 0, SERIES_ACK, 5, 0), SERIES_GOES_ON);
	assert_int_equal(say(&s, 0, SERIES_RESEND, 5, 0), SERIES_FAILED);
	assert_true(s.is_gone);
}

/* RMP-57: the answer ends a Config, not the Ack of its last packet. */
static void an_ack_ends_no_config(void **state)
{
	struct series_out s;

	(void)state;
	for (int is_request = 0; is_request < 2; is_request++) {
		series_out_init(&s, &plain, is_request, 12);
		series_out_set(&s, 0, data, 12 * SERIES_DATA, true);
		assert_int_equal(burst(&s, 0), 12);
		assert_int_equal(say(&s, 0, SERIES_ACK, 12, 0), is_request ? SERIES_GOES_ON : SERIES_DONE);
	}
}

static void a_receiver_that_asks_for_ever_is_left(void **state)
{
	struct series_out s;

	(void)state;
	series_out_init(&s, &plain, false, 12);
	series_out_set(&s, 0, data, 12 * SERIES_DATA, true);
	assert_int_equal(burst(&s, 0), 12);
	for (int i = 0; i < SERIES_TRIES; i++)
		assert_int_equal(say(&s, 0, SERIES_RESEND, 5, 0), SERIES_GOES_ON);
	assert_int_equal(say(&s, 0, SERIES_RESEND, 5, 0), SERIES_FAILED);
	assert_false(s.is_gone);
}

/* RMP-36, 37: the packet that is waited on goes again, so often; RMP-43: a KeepAlive gives time. */
static void a_silent_receiver_gets_the_last_packet_again(void **state)
{
	const uint8_t *from;
	struct series_header h;
	struct series_out s;
	uint32_t bytes;
	wtime now = 5;

	(void)state;
	series_out_init(&s, &plain, false, 3);
	series_out_set(&s, now, data, 12 * SERIES_DATA, true);
	assert_int_equal(burst(&s, now), 3);
	assert_true(s.deadline == now + series_response_ns(&plain));
	assert_int_equal(say(&s, 7, SERIES_KEEP_ALIVE, 0, 0), SERIES_GOES_ON);
	assert_true(s.deadline == 7 + series_segment_ns(&plain));
	for (int i = 0; i < 7; i++) {
		assert_int_equal(series_out_expire(&s, s.deadline - 1), SERIES_GOES_ON);
		assert_false(series_out_next(&s, now, &h, &from, &bytes));
		now = s.deadline;
		assert_int_equal(series_out_expire(&s, now), SERIES_GOES_ON);
		assert_true(series_out_next(&s, now, &h, &from, &bytes));
		assert_int_equal(h.segment, 3);
		assert_ptr_equal(from, data + 2 * SERIES_DATA);
		assert_true(s.deadline == now + series_response_ns(&plain));
	}
	assert_int_equal(series_out_expire(&s, s.deadline), SERIES_FAILED);
}

/* A receiver, and the packets that it is given. */
static enum series_verdict give(struct series_in *s, wtime now, uint8_t flags, uint32_t segment, uint32_t length,
				struct series_header *reply)
{
	const struct series_header h = { .flags = flags, .segment = segment, .length = length };
	uint8_t mad[MAD_BYTES];

	memset(mad, (int)segment, sizeof(mad));
	return series_in_input(s, now, &h, mad, reply);
}

/* RMP-45..49 */
static void a_gap_is_asked_for_once(void **state)
{
	struct series_header reply;
	struct series_in s;

	(void)state;
	series_in_init(&s, &plain, false, 12);
	assert_int_equal(give(&s, 0, SERIES_FIRST, 1, 5000, &reply), SERIES_GOES_ON);
	assert_true(s.deadline == series_segment_ns(&plain));
	assert_int_equal(give(&s, 0, 0, 3, 0, &reply), SERIES_GOES_ON);
	assert_int_equal(reply.flags, SERIES_RESEND);
	assert_int_equal(reply.segment, 2);
	assert_true(s.deadline == series_response_ns(&plain));
	for (uint32_t i = 4; i <= 12; i++) {
		give(&s, 0, 0, i, 0, &reply);
		assert_int_equal(reply.flags, 0);
	}
	assert_int_equal(s.last, 1);
	/* a duplicate is none */
	give(&s, 0, SERIES_FIRST, 1, 5000, &reply);
	assert_int_equal(reply.flags, 0);
	for (uint32_t i = 2; i <= 12; i++) {
		give(&s, 0, 0, i, 0, &reply);
		assert_int_equal(reply.flags, i == 12 ? SERIES_ACK : 0);
	}
	assert_int_equal(reply.segment, 12);
	assert_true(s.deadline == series_response_ns(&plain));
	/* the end of the window again: so is its Ack */
	give(&s, 0, 0, 12, 0, &reply);
	assert_int_equal(reply.flags, SERIES_ACK);
	give(&s, 0, 0, 11, 0, &reply);
	assert_int_equal(reply.flags, 0);
	assert_int_equal(s.bytes, 12 * SERIES_DATA);
	series_in_fini(&s);
}

static void what_never_comes_is_asked_for_seven_times(void **state)
{
	struct series_header reply;
	struct series_in s;

	(void)state;
	series_in_init(&s, &plain, false, 12);
	give(&s, 0, SERIES_FIRST, 1, 5000, &reply);
	for (int i = 0; i < 7; i++) {
		assert_int_equal(series_in_expire(&s, s.deadline - 1, &reply), SERIES_GOES_ON);
		assert_int_equal(reply.flags, 0);
		assert_int_equal(series_in_expire(&s, s.deadline, &reply), SERIES_GOES_ON);
		assert_int_equal(reply.flags, SERIES_RESEND);
		assert_int_equal(reply.segment, 2);
	}
	assert_int_equal(series_in_expire(&s, s.deadline, &reply), SERIES_FAILED);
	series_in_fini(&s);
}

/* RMP-37, 47: the question for a missing packet was lost, and the sender repeats its last packet in vain, a bit sooner than the
 * timer here ends, which is late. */
static void a_repeated_packet_puts_off_no_question(void **state)
{
	struct series_header reply;
	struct series_in s;

	(void)state;
	series_in_init(&s, &plain, false, 12);
	give(&s, 0, SERIES_FIRST, 1, 5000, &reply);
	give(&s, 0, 0, 12, 0, &reply);
	assert_int_equal(reply.flags, SERIES_RESEND);
	for (int i = 1; i < 7; i++) {
		wtime deadline = s.deadline;

		give(&s, deadline - 1, 0, 12, 0, &reply);
		assert_int_equal(reply.flags, 0);
		assert_int_equal(series_in_expire(&s, deadline, &reply), SERIES_GOES_ON);
		assert_int_equal(reply.flags, SERIES_RESEND);
		assert_int_equal(reply.segment, 2);
	}
	series_in_fini(&s);
	/* what is new does, as the sender is on its way to the missing one */
	series_in_init(&s, &plain, false, 12);
	give(&s, 0, SERIES_FIRST, 1, 5000, &reply);
	for (uint32_t i = 3; i <= 12; i++) {
		give(&s, (i - 3) * series_segment_ns(&plain), 0, i, 0, &reply);
		assert_int_equal(reply.flags, i == 3 ? SERIES_RESEND : 0);
	}
	assert_true(s.deadline == 10 * series_segment_ns(&plain));
	series_in_fini(&s);
}

/* RMP-28, 43: without room for 64 the Ack waits, and the sender is told to. */
static void an_ack_waits_for_room(void **state)
{
	struct series_header reply = { 0 };
	struct series_in s;

	(void)state;
	series_in_init(&s, &plain, true, 64);
	series_in_space(&s, 0, 32, &reply);
	for (uint32_t i = 1; i <= 64; i++)
		give(&s, 0, i == 1 ? SERIES_FIRST : 0, i, i == 1 ? 100 * SERIES_DATA : 0, &reply);
	assert_int_equal(reply.flags, SERIES_KEEP_ALIVE);
	for (wtime now = series_processing_ns(&plain); now < WTIME_S; now += series_processing_ns(&plain)) {
		assert_int_equal(series_in_expire(&s, now, &reply), SERIES_GOES_ON);
		assert_int_equal(reply.flags, SERIES_KEEP_ALIVE);
	}
	give(&s, WTIME_S, 0, 64, 0, &reply);
	assert_int_equal(reply.flags, SERIES_KEEP_ALIVE);
	series_in_space(&s, WTIME_S, 63, &reply);
	assert_int_equal(reply.flags, 0);
	series_in_space(&s, WTIME_S, 70, &reply);
	assert_int_equal(reply.flags, SERIES_ACK);
	assert_int_equal(reply.segment, 64);
	assert_int_equal(reply.window, 70);
	series_in_fini(&s);
}

/* RMP-05, 07, 08, 58, 60, A-14: how many bytes are valid. */
static void lengths_of_the_last_packet(void **state)
{
	static const struct { bool is_request; uint32_t first, last; bool is_good; uint32_t bytes; } want[] = {
		{ false, 1000, 40, true, 232 }, { false, 7, 0, true, 192 }, { false, 0, 192, true, 384 },
		{ false, 232, 193, false, 0 },
		{ true, 232, 0, true, 232 }, { true, 232, 40, true, 232 }, { true, 232, 41, false, 0 },
		{ true, 384, 0, true, 384 }, { true, 384, 168, true, 360 }, { true, 384, 193, false, 0 },
		{ true, 360, 192, false, 0 },
		{ true, 192, 0, false, 0 }, { true, 385, 0, false, 0 }, { true, 0, 0, false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct series_header reply;
		struct series_in s;

		series_in_init(&s, &plain, want[i].is_request, 64);
		assert_int_equal(give(&s, 0, SERIES_FIRST, 1, want[i].first, &reply), SERIES_GOES_ON);
		assert_int_equal(give(&s, 0, SERIES_LAST, 2, want[i].last, &reply),
				 want[i].is_good ? SERIES_DONE : SERIES_FAILED);
		if (want[i].is_good)
			assert_int_equal(s.bytes, want[i].bytes);
		series_in_fini(&s);
	}
	for (uint32_t length = 0; length <= SERIES_DATA + 1; length++) {
		struct series_header reply;
		struct series_in s;

		series_in_init(&s, &plain, false, 64);
		assert_int_equal(give(&s, 0, 0, 0, length, &reply), length <= SERIES_DATA ? SERIES_DONE : SERIES_FAILED);
		assert_int_equal(reply.flags, 0);
		if (length <= SERIES_DATA)
			assert_int_equal(s.bytes, length ? length : SERIES_DATA);
		series_in_fini(&s);
	}
}

static void a_series_too_long_is_refused(void **state)
{
	struct series_config c = plain;
	struct series_header reply;
	struct series_in s;

	(void)state;
	c.most = 3 * SERIES_DATA;
	series_in_init(&s, &c, false, 64);
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(give(&s, 0, i == 1 ? SERIES_FIRST : 0, i, 0, &reply), SERIES_GOES_ON);
	assert_int_equal(give(&s, 0, 0, 4, 0, &reply), SERIES_FAILED);
	series_in_fini(&s);
}

/* Beyond the window nothing is even asked for; First and Last at once, or at a wrong number, are nothing. */
static void packets_that_make_no_sense(void **state)
{
	static const struct { uint8_t flags; uint32_t segment; } want[] = {
		{ 0, 1 }, { SERIES_FIRST | SERIES_LAST, 1 }, { SERIES_FIRST, 2 }, { SERIES_LAST, 0 }, { SERIES_FIRST, 0 },
		{ 0, 13 }, { 0, UINT32_MAX }, { SERIES_ACK, 1 }, { SERIES_RESEND, 1 },
	};
	struct series_header reply;
	struct series_in s;

	(void)state;
	series_in_init(&s, &plain, false, 12);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_int_equal(give(&s, 0, want[i].flags, want[i].segment, 0, &reply), SERIES_GOES_ON);
		assert_int_equal(reply.flags, 0);
		assert_int_equal(s.bytes, 0);
	}
	series_in_fini(&s);
}

/* RMP-15, RMP-16: of control packets the other fields change nothing. */
static void other_fields_of_control_packets_are_ignored(void **state)
{
	struct series_header h = { .flags = SERIES_RESEND, .segment = 2, .length = 77, .window = 99, .key = 5, .edit = 6 };
	struct series_out a, b;

	(void)state;
	series_out_init(&a, &plain, true, 4);
	series_out_set(&a, 0, data, 12 * SERIES_DATA, true);
	burst(&a, 0);
	b = a;
	assert_int_equal(series_out_input(&a, 1, &h), SERIES_GOES_ON);
	assert_int_equal(say(&b, 1, SERIES_RESEND, 2, 0), SERIES_GOES_ON);
	assert_memory_equal(&a, &b, sizeof(a));
	h.flags = SERIES_KEEP_ALIVE;
	assert_int_equal(series_out_input(&a, 2, &h), SERIES_GOES_ON);
	assert_int_equal(say(&b, 2, SERIES_KEEP_ALIVE, 0, 0), SERIES_GOES_ON);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void ask_server(struct transaction *t, unsigned method, uint8_t flags, uint32_t segment, uint16_t window, bool begins)
{
	const struct series_header h = { .flags = flags, .segment = segment, .window = window, .length = segment == 1 ? 400 : 0 };
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, (uint8_t)method };

	series_build(&h, &plain, mad);
	if (begins)
		assert_true(transaction_serve(t, &plain, 0, mad));
	transaction_input(t, 0, mad);
}

static unsigned drain(struct transaction *t, struct series_header *last, uint8_t mad[MAD_BYTES])
{
	unsigned n = 0;

	for (; transaction_output(t, 0, mad); n++)
		series_parse(last, &plain, mad);
	return n;
}

/* The three packets of a table's first flight were sent. */
static void answer_in_three(struct transaction *t)
{
	uint8_t mad[MAD_BYTES];
	struct series_header h;

	ask_server(t, TXN_GET_TABLE, 0, 0, 3, true);
	transaction_answer(t, 0, 0, data, 1400, true);
	assert_int_equal(drain(t, &h, mad), 3);
}

/* RMP-44: it is told by a status, and the transaction ends. */
static void what_is_gone_is_told(void **state)
{
	uint8_t mad[MAD_BYTES];
	struct series_header h;
	struct transaction t;

	(void)state;
	answer_in_three(&t);
	ask_server(&t, TXN_GET_TABLE, SERIES_ACK, 3, 0, false);
	assert_int_equal(drain(&t, &h, mad), 3);
	ask_server(&t, TXN_GET_TABLE, SERIES_RESEND, 2, 0, false);
	assert_int_equal(drain(&t, &h, mad), 1);
	assert_int_equal(wire_get(mad, 3, 0, 8), 0x92);
	assert_int_equal(wire_get(mad, 4, 0, 16), 0x1c);
	assert_int_equal(t.phase, TXN_FAILED);
	/* who has not heard of it asks again */
	ask_server(&t, TXN_GET_TABLE, SERIES_RESEND, 2, 0, false);
	assert_int_equal(drain(&t, &h, mad), 1);
	assert_int_equal(wire_get(mad, 4, 0, 16), 0x1c);
	ask_server(&t, TXN_GET_TABLE, SERIES_ACK, 3, 0, false);
	assert_int_equal(drain(&t, &h, mad), 0);
	transaction_fini(&t);
}

/* RMP-52 */
static void a_repeated_request_begins_nothing(void **state)
{
	uint8_t mad[MAD_BYTES];
	struct series_header h;
	struct transaction t;

	(void)state;
	answer_in_three(&t);
	ask_server(&t, TXN_GET_TABLE, 0, 0, 3, false);
	assert_int_equal(drain(&t, &h, mad), 0);
	transaction_fini(&t);
	/* one packet alone is repeated */
	ask_server(&t, TXN_GET_TABLE, 0, 0, 3, true);
	transaction_answer(&t, 0, 0, data, 100, true);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(drain(&t, &h, mad), 1);
		assert_int_equal(h.length, 100);
		assert_int_equal(h.flags, 0);
		assert_int_equal(h.segment, 0);
		assert_int_equal(t.phase, TXN_DONE);
		ask_server(&t, TXN_GET_TABLE, 0, 0, 3, false);
	}
	transaction_fini(&t);
}

/* RMP-54: the SA has no part of a Config, ever. */
static void half_of_a_config_is_not_applied(void **state)
{
	uint8_t mad[MAD_BYTES];
	struct series_header h;
	struct transaction t;

	(void)state;
	ask_server(&t, TXN_CONFIG, SERIES_FIRST, 1, 64, true);
	while (t.phase == TXN_RECEIVING) {
		transaction_answer(&t, 0, 0, data, 100, true);
		assert_int_equal(t.out.sent, 0);
		transaction_expire(&t, transaction_deadline(&t));
		drain(&t, &h, mad);
	}
	assert_int_equal(t.phase, TXN_FAILED);
	transaction_fini(&t);
}

static void what_begins_no_transaction(void **state)
{
	static const struct { uint8_t method, flags; uint32_t segment; } want[] = {
		{ 0x92, 0, 0 }, { 0x01, 0, 0 }, { TXN_GET_TABLE, SERIES_ACK, 0 }, { TXN_GET_TABLE, 0, 1 },
		{ TXN_CONFIG, SERIES_KEEP_ALIVE, 0 }, { TXN_CONFIG, 0, 65 }, { TXN_CONFIG, 0, 1 }, { TXN_CONFIG, SERIES_LAST, 0 },
		{ TXN_CONFIG, SERIES_FIRST, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct series_header h = { .flags = want[i].flags, .segment = want[i].segment };
		uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, want[i].method };
		struct transaction t;

		series_build(&h, &plain, mad);
		assert_false(transaction_serve(&t, &plain, 0, mad));
	}
}

/* A packet that makes no sense, or is beyond the window, ends no wait. */
static void nonsense_is_no_answer(void **state)
{
	static const struct { uint8_t flags; uint32_t segment; } want[] = {
		{ 0, 65 }, { SERIES_FIRST, 2 }, { 0, 1 }, { SERIES_LAST, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct series_header h = { .flags = want[i].flags, .segment = want[i].segment };
		uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };
		struct transaction t;

		transaction_ask(&t, &plain, 0, mad, 64);
		mad[3] |= 0x80;
		series_build(&h, &plain, mad);
		transaction_input(&t, 1, mad);
		assert_int_equal(t.phase, TXN_ASKING);
		assert_true(transaction_deadline(&t) == series_response_ns(&plain));
		transaction_fini(&t);
	}
}

/* RMP-47: another number does not begin the count anew. */
static void asks_that_alternate_have_an_end(void **state)
{
	enum series_verdict verdict = SERIES_GOES_ON;
	struct series_out s;
	unsigned asks = 0;

	(void)state;
	series_out_init(&s, &plain, false, 12);
	series_out_set(&s, 0, data, 12 * SERIES_DATA, true);
	for (; verdict == SERIES_GOES_ON && asks < 100; asks++) {
		burst(&s, 0);
		verdict = say(&s, 0, SERIES_RESEND, 5 + asks % 2, 0);
	}
	assert_int_equal(verdict, SERIES_FAILED);
	assert_in_range(asks, 1, SERIES_TRIES + 2);
}

/* The other end says KeepAlives and nothing else: until when. */
static wtime held_until(struct transaction *t)
{
	const struct series_header h = { .flags = SERIES_KEEP_ALIVE };
	uint8_t mad[MAD_BYTES] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE | (t->is_server ? 0 : 0x80) };
	enum transaction_phase phase = t->phase;
	wtime now;

	series_build(&h, &plain, mad);
	for (now = 0; t->phase == phase && now < 2 * SERIES_TOTAL_NS; now += 4 * WTIME_MS) {
		transaction_input(t, now, mad);
		transaction_expire(t, now);
	}
	assert_int_equal(t->phase, TXN_FAILED);
	return now;
}

/* Our choice: KeepAlives do not hold a transaction for ever. */
static void keep_alives_have_an_end(void **state)
{
	uint8_t mad[MAD_BYTES];
	struct series_header h;
	struct transaction t;

	(void)state;
	ask_server(&t, TXN_GET_TABLE, 0, 0, 3, true);
	transaction_answer(&t, 0, 0, data, 1400, true);
	drain(&t, &h, mad);
	assert_in_range(held_until(&t), SERIES_TOTAL_NS, SERIES_TOTAL_NS + 8 * WTIME_MS);
	transaction_fini(&t);
}

/* Our choice: each MB that has arrived puts the end off, at both ends. */
static void a_long_answer_may_take_its_time(void **state)
{
	enum { MBS = 2, SEGMENTS = (MBS << 20) / SERIES_DATA + 1 };
	static uint8_t much[(SEGMENTS + 1) * SERIES_DATA];
	const uint8_t head[SERIES_HEAD] = { 1, MAD_CLASS_SA, SERIES_CLASS_VERSION, TXN_GET_TABLE };
	const wtime end = SERIES_TOTAL_NS + MBS * SERIES_TOTAL_EACH_NS;
	struct transaction sa, asker;
	uint8_t mad[MAD_BYTES];

	(void)state;
	ask_server(&sa, TXN_GET_TABLE, 0, 0, 1, true);
	transaction_answer(&sa, 0, 0, much, sizeof(much), true);
	transaction_ask(&asker, &plain, 0, head, 1);
	assert_true(transaction_output(&asker, 0, mad));
	while (asker.in.last < SEGMENTS) {
		assert_true(transaction_output(&sa, 0, mad));
		transaction_input(&asker, 0, mad);
		assert_true(transaction_output(&asker, 0, mad));
		transaction_input(&sa, 0, mad);
	}
	assert_int_equal(sa.out.acked, SEGMENTS);
	assert_in_range(held_until(&sa), end, end + 8 * WTIME_MS);
	assert_in_range(held_until(&asker), end, end + 8 * WTIME_MS);
	transaction_fini(&sa);
	transaction_fini(&asker);
}

/* RMP-28: room that was granted is not granted again. */
static void granted_room_is_gone(void **state)
{
	struct series_header reply = { 0 };
	struct series_in s;
	unsigned acks = 0;

	(void)state;
	series_in_init(&s, &plain, true, 64);
	series_in_space(&s, 0, 64, &reply);
	for (uint32_t i = 1; i <= 128; i++) {
		give(&s, 0, i == 1 ? SERIES_FIRST : 0, i, i == 1 ? 300 * SERIES_DATA : 0, &reply);
		acks += reply.flags == SERIES_ACK;
	}
	assert_int_equal(acks, 1);
	assert_int_equal(reply.flags, SERIES_KEEP_ALIVE);
	series_in_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_keeps_its_window),
		cmocka_unit_test(windows_that_are_granted),
		cmocka_unit_test(what_is_asked_for_goes_again),
		cmocka_unit_test(an_ack_ends_no_config),
		cmocka_unit_test(a_receiver_that_asks_for_ever_is_left),
		cmocka_unit_test(a_silent_receiver_gets_the_last_packet_again),
		cmocka_unit_test(a_gap_is_asked_for_once),
		cmocka_unit_test(what_never_comes_is_asked_for_seven_times),
		cmocka_unit_test(a_repeated_packet_puts_off_no_question),
		cmocka_unit_test(an_ack_waits_for_room),
		cmocka_unit_test(lengths_of_the_last_packet),
		cmocka_unit_test(a_series_too_long_is_refused),
		cmocka_unit_test(packets_that_make_no_sense),
		cmocka_unit_test(other_fields_of_control_packets_are_ignored),
		cmocka_unit_test(what_is_gone_is_told),
		cmocka_unit_test(a_repeated_request_begins_nothing),
		cmocka_unit_test(half_of_a_config_is_not_applied),
		cmocka_unit_test(what_begins_no_transaction),
		cmocka_unit_test(nonsense_is_no_answer),
		cmocka_unit_test(asks_that_alternate_have_an_end),
		cmocka_unit_test(keep_alives_have_an_end),
		cmocka_unit_test(a_long_answer_may_take_its_time),
		cmocka_unit_test(granted_room_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
