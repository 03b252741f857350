/* Datagrams of several segments, between a sender and a receiver of which one may lose what the other sends. */
#include "mgmt/rmpp.h"

#include "wire/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 1 << 20 };

struct course {
	struct rmpp_send send;
	struct rmpp_recv recv;
	uint8_t *data;
	uint32_t bytes;
	unsigned sent, acks, lose;	/* the segment that is lost once: 0 none */
	wtime now;
};

static const struct rmpp_config config = { .most = MOST };

static void begin(struct course *c, uint8_t mgmt_class, uint32_t bytes)
{
	*c = (struct course){ .data = calloc(1, bytes), .bytes = bytes };
	for (uint32_t i = 0; i < bytes; i++)
		c->data[i] = (uint8_t)(i * 7 + i / 251);
	c->data[1] = mgmt_class;
	c->data[3] = 0x92;
	rmpp_send_init(&c->send, &config, c->data, bytes);
	rmpp_recv_init(&c->recv, &config);
}

static void end(struct course *c)
{
	rmpp_recv_fini(&c->recv);
	free(c->data);
}

/* All that may go now, and the ACKs of it. True when both sides have done. */
static bool step(struct course *c)
{
	enum rmpp_verdict in = RMPP_GOES_ON, out = RMPP_GOES_ON;
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	bool answers;

	while (rmpp_send_output(&c->send, c->now, mad)) {
		c->sent++;
		if (c->lose && wire_get(mad, 28, 0, 32) == c->lose) {
			c->lose = 0;
			continue;
		}
		if (in == RMPP_DONE)
			continue;
		in = rmpp_recv_input(&c->recv, c->now, mad, &answers, reply);
		assert_int_not_equal(in, RMPP_FAILED);
		if (answers) {
			c->acks++;
			assert_int_equal(reply[3], 0x12);
			out = rmpp_send_input(&c->send, c->now, reply, &answers, mad);
			assert_int_not_equal(out, RMPP_FAILED);
		}
	}
	return in == RMPP_DONE && out == RMPP_DONE;
}

static void transfer(uint8_t mgmt_class, uint32_t bytes, unsigned lose)
{
	struct course c;
	unsigned offset = rmpp_data_offset(mgmt_class);
	uint8_t mad[MAD_BYTES];

	begin(&c, mgmt_class, bytes);
	c.lose = lose;
	while (!step(&c)) {
		assert_true(c.send.deadline != WTIME_NEVER);
		c.now = c.send.deadline;
		assert_int_equal(rmpp_send_expire(&c.send, c.now, mad), RMPP_GOES_ON);
	}
	assert_int_equal(c.recv.bytes, bytes);
	assert_memory_equal(c.recv.data + offset, c.data + offset, bytes - offset);
	assert_memory_equal(c.recv.data, c.data, 24);
	end(&c);
}

static void what_is_sent_arrives(void **state)
{
	static const uint8_t classes[] = { 0x03, 0x06, 0x0a, 0x32 };

	(void)state;
	for (size_t i = 0; i < sizeof(classes); i++) {
		unsigned offset = rmpp_data_offset(classes[i]);

		for (uint32_t bytes = offset; bytes < offset + 3 * MAD_BYTES; bytes++)
			transfer(classes[i], bytes, 0);
		transfer(classes[i], 100000, 0);
	}
}

static void a_lost_segment_is_sent_again(void **state)
{
	(void)state;
	for (unsigned lose = 1; lose <= 100; lose++)
		transfer(0x03, 56 + 200 * 100, lose);
}

/* The receiver's window alone lets segments go: the first alone, then so many that an ACK for each window is enough. */
static void the_window_is_kept(void **state)
{
	struct course c;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 1000);
	while (!step(&c))
		;
	assert_int_equal(c.sent, 1000);
	assert_in_range(c.acks, 1000 / RMPP_WINDOW, 1000 / RMPP_WINDOW + 2);
	end(&c);
}

static void a_sender_gives_up(void **state)
{
	struct course c;
	uint8_t mad[MAD_BYTES];

	(void)state;
	begin(&c, 0x03, 5000);
	for (int i = 0; i < RMPP_RETRIES; i++) {
		assert_true(rmpp_send_output(&c.send, c.now, mad));
		c.now = c.send.deadline;
		assert_int_equal(rmpp_send_expire(&c.send, c.now, mad), RMPP_GOES_ON);
	}
	c.now = c.send.deadline;
	assert_int_equal(rmpp_send_expire(&c.send, c.now, mad), RMPP_FAILED);
	assert_int_equal(c.send.status, RMPP_RETRIES_OVER);
	/* and says so, as it said its segments */
	assert_int_equal(mad[3], 0x92);
	assert_int_equal(mad[25], RMPP_ABORT);
	assert_int_equal(mad[27], RMPP_RETRIES_OVER);
	end(&c);
}

/* The ACK comes when all is about to go again: nothing does. */
static void an_ack_may_be_late(void **state)
{
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 10);
	c.send.window_last = 8;
	while (rmpp_send_output(&c.send, 0, mad))
		;
	assert_int_equal(rmpp_send_expire(&c.send, c.send.deadline, mad), RMPP_GOES_ON);
	rmpp_ack(mad, 8, 72, ack);
	ack[1] = 0x03;
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_GOES_ON);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	assert_int_equal(wire_get(mad, 28, 0, 32), 9);
	end(&c);
}

static void acks_of_nothing_end_a_transfer(void **state)
{
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 5000);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	rmpp_ack(mad, 2, 64, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_FAILED);
	rmpp_ack(mad, 1, 0, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_FAILED);
	rmpp_ack(mad, 1, 64, ack);
	wire_put(ack, RMPP_ABORT, 25, 0, 8);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_FAILED);
	end(&c);
}

static void a_datagram_too_long_is_refused(void **state)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	enum rmpp_verdict verdict = RMPP_GOES_ON;
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 5000);
	c.recv.config.most = 1000;
	while (verdict == RMPP_GOES_ON && rmpp_send_output(&c.send, 0, mad)) {
		verdict = rmpp_recv_input(&c.recv, 0, mad, &answers, reply);
		if (answers && verdict == RMPP_GOES_ON)
			rmpp_send_input(&c.send, 0, reply, &answers, mad);
	}
	assert_int_equal(verdict, RMPP_FAILED);
	assert_true(answers);
	assert_int_equal(wire_get(reply, 25, 0, 8), RMPP_STOP);
	assert_int_equal(reply[27], RMPP_NO_RESOURCES);
	end(&c);
}

/* Says a segment to a receiver that has the first two of five; then one with one field changed. */
static void segment_is_refused(unsigned byte, unsigned bit, unsigned width, uint64_t value, uint32_t segment, uint8_t status)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	begin(&c, 0x03, 56 + 200 * 4 + 30);
	for (uint32_t i = 1; i < segment; i++) {
		c.send.again = i;
		assert_true(rmpp_send_output(&c.send, 0, mad));
		assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_GOES_ON);
	}
	c.send.again = segment;
	assert_true(rmpp_send_output(&c.send, 0, mad));
	wire_put(mad, value, byte, bit, width);
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_FAILED);
	assert_int_equal(c.recv.status, status);
	assert_true(answers);
	assert_int_equal(reply[25], RMPP_ABORT);
	assert_int_equal(reply[26] & 7, 1);
	assert_int_equal(reply[27], status);
	assert_int_equal(reply[3], 0x12);
	end(&c);
}

static void segments_that_make_no_sense(void **state)
{
	(void)state;
	segment_is_refused(24, 0, 8, 2, 1, RMPP_BAD_VERSION);
	segment_is_refused(25, 0, 8, 0, 1, RMPP_BAD_TYPE);
	segment_is_refused(25, 0, 8, 5, 3, RMPP_BAD_TYPE);
	segment_is_refused(27, 0, 8, 1, 1, RMPP_BAD_STATUS);
	segment_is_refused(26, 6, 1, 0, 1, RMPP_BAD_FIRST);
	segment_is_refused(26, 6, 1, 1, 3, RMPP_BAD_FIRST);
	segment_is_refused(28, 0, 32, 0, 3, RMPP_BAD_FIRST);
	/* the end comes early, late, and with other bytes than the first one said */
	segment_is_refused(26, 5, 1, 1, 3, RMPP_BAD_LENGTH);
	segment_is_refused(26, 5, 1, 0, 5, RMPP_BAD_LENGTH);
	segment_is_refused(32, 0, 32, 51, 5, RMPP_BAD_LENGTH);
	segment_is_refused(32, 0, 32, 221, 5, RMPP_BAD_LENGTH);
	segment_is_refused(32, 0, 32, 19, 5, RMPP_BAD_LENGTH);
	/* a STOP or ABORT with a status of the other */
	segment_is_refused(25, 0, 8, RMPP_STOP, 3, RMPP_BAD_STATUS);
	segment_is_refused(25, 0, 8, RMPP_ABORT, 3, RMPP_BAD_STATUS);
}

/* Without a length in the first one, the last one alone tells the end; one beyond it is of no transfer. */
static void a_length_may_be_unknown(void **state)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	enum rmpp_verdict verdict = RMPP_GOES_ON;
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 4 + 30);
	for (uint32_t i = 1; i <= 5; i++) {
		static const uint32_t order[] = { 0, 1, 2, 5, 3, 4 };

		c.send.again = order[i];
		assert_true(rmpp_send_output(&c.send, 0, mad));
		if (order[i] == 1)
			wire_put(mad, 0, 32, 0, 32);
		verdict = rmpp_recv_input(&c.recv, 0, mad, &answers, reply);
		assert_int_equal(verdict, i == 5 ? RMPP_DONE : RMPP_GOES_ON);
	}
	assert_int_equal(c.recv.bytes, c.bytes);
	assert_memory_equal(c.recv.data + 56, c.data + 56, c.bytes - 56);
	wire_put(mad, 6, 28, 0, 32);
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_FAILED);
	assert_int_equal(c.recv.status, RMPP_SEGMENT_BIG);
	end(&c);
}

/* The next segment, which the receiver takes. */
static void pass_one(struct course *c)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	bool answers;

	assert_true(rmpp_send_output(&c->send, c->now, mad));
	assert_false(wire_get(mad, 26, 5, 1));
	assert_int_equal(wire_get(mad, 32, 0, 32), 0);
	assert_int_equal(rmpp_recv_input(&c->recv, c->now, mad, &answers, reply), RMPP_GOES_ON);
	if (answers)
		assert_int_equal(rmpp_send_input(&c->send, c->now, reply, &answers, mad), RMPP_GOES_ON);
}

/* Of one that is made while it is sent: neither a length nor an end is said before all is there, and both sides wait longer for
 * each MB that has come. */
static void what_has_yet_to_be_made_has_no_end(void **state)
{
	enum { SEGMENTS = 4 << 20, ROOM = 200 };
	const struct rmpp_config wide = { .most = 64 << 20, .window = RMPP_WINDOW_MOST };
	struct course c;

	(void)state;
	begin(&c, 0x03, 56 + SEGMENTS);
	rmpp_recv_init(&c.recv, &wide);
	rmpp_send_init(&c.send, &wide, c.data, 56 + 10 * ROOM);
	rmpp_send_more(&c.send, c.data, 56 + 10 * ROOM, true);
	/* the last one may be the end */
	for (int i = 0; i < 9; i++)
		pass_one(&c);
	assert_false(rmpp_send_output(&c.send, 0, (uint8_t[MAD_BYTES]){ 0 }));
	assert_true(c.send.ends == RMPP_TOTAL_NS);
	rmpp_send_more(&c.send, c.data, 56 + SEGMENTS, true);
	while (c.send.next < c.send.segments)
		pass_one(&c);
	assert_in_range(c.send.ends, RMPP_TOTAL_NS + 3 * RMPP_TOTAL_EACH_NS, RMPP_TOTAL_NS + 4 * RMPP_TOTAL_EACH_NS);
	/* after a minute */
	c.now = 62 * WTIME_S;
	pass_one(&c);
	assert_true(c.recv.deadline > 63 * WTIME_S);
	end(&c);
}

/* All that is there has come, and the receiver lets nothing more go: that is no reason to make more, and it has an end. */
static void a_closed_window_is_no_hunger(void **state)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	enum rmpp_verdict verdict = RMPP_GOES_ON;
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 400);
	rmpp_send_more(&c.send, c.data, 56 + 201, true);
	assert_false(rmpp_send_is_starved(&c.send));
	assert_true(rmpp_send_output(&c.send, 0, mad));
	rmpp_ack(mad, 1, 2, reply);
	assert_int_equal(rmpp_send_input(&c.send, 0, reply, &answers, mad), RMPP_GOES_ON);
	assert_true(rmpp_send_is_starved(&c.send));
	end(&c);
	begin(&c, 0x03, 56 + 400);
	rmpp_send_more(&c.send, c.data, 56 + 201, true);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	rmpp_ack(mad, 1, 1, reply);
	assert_int_equal(rmpp_send_input(&c.send, 0, reply, &answers, mad), RMPP_GOES_ON);
	assert_false(rmpp_send_is_starved(&c.send));
	for (int i = 0; i < 20 && verdict == RMPP_GOES_ON; i++) {
		c.now = c.send.deadline;
		verdict = rmpp_send_expire(&c.send, c.now, mad);
	}
	assert_int_equal(verdict, RMPP_FAILED);
	assert_true(c.now < RMPP_TOTAL_NS / 2);
	end(&c);
}

/* Within a window no ACK is awaited, so nothing goes again while more is made; with all that is kept on its way one is, however
 * wide the window. Both have an end. */
static void a_pause_within_a_window_is_hunger(void **state)
{
	enum { MANY = RMPP_WINDOW_MOST + 1 };
	static const struct { uint32_t there, window; bool is_starved; } rows[] = {
		{ 3, 64, true }, { 64, 64, false }, { 65, 64, false },
		{ MANY - 1, UINT32_MAX, true }, { MANY, UINT32_MAX, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
		unsigned sent = 0;
		struct course c;
		bool answers;

		begin(&c, 0x03, 56 + 200 * (MANY + 1));
		rmpp_send_more(&c.send, c.data, 56 + 200 * rows[i].there + 1, true);
		assert_true(rmpp_send_output(&c.send, 0, mad));
		rmpp_ack(mad, 1, rows[i].window, reply);
		assert_int_equal(rmpp_send_input(&c.send, 0, reply, &answers, mad), RMPP_GOES_ON);
		assert_false(rmpp_send_is_starved(&c.send));
		while (rmpp_send_output(&c.send, 0, mad))
			sent++;
		assert_int_equal(sent, (rows[i].there < rows[i].window ? rows[i].there : rows[i].window) - 1);
		assert_int_equal(rmpp_send_is_starved(&c.send), rows[i].is_starved);
		assert_int_equal(rmpp_send_expire(&c.send, c.send.deadline, mad), RMPP_GOES_ON);
		assert_int_equal(rmpp_send_output(&c.send, RMPP_ACK_NS, mad), !rows[i].is_starved);
		assert_int_equal(rmpp_send_expire(&c.send, c.send.ends, mad), RMPP_FAILED);
		assert_int_equal(mad[27], RMPP_TOO_LONG);
		end(&c);
	}
}

static void an_end_has_no_more_than_a_segment(void **state)
{
	static const uint32_t lengths[] = { 0, 19, 221, UINT32_MAX };
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	bool answers;

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct course c;

		begin(&c, 0x03, 56 + 200 + 30);
		assert_true(rmpp_send_output(&c.send, 0, mad));
		wire_put(mad, 0, 32, 0, 32);
		assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_GOES_ON);
		c.send.again = 2;
		assert_true(rmpp_send_output(&c.send, 0, mad));
		wire_put(mad, lengths[i], 32, 0, 32);
		assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_FAILED);
		assert_int_equal(c.recv.status, RMPP_BAD_LENGTH);
		end(&c);
	}
}

static void ack_is_refused(uint32_t segment, uint32_t window_last, unsigned byte, uint8_t value, uint8_t status)
{
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	begin(&c, 0x03, 5000);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	rmpp_ack(mad, segment, window_last, ack);
	if (byte)
		ack[byte] = value;
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_FAILED);
	assert_int_equal(c.send.status, status);
	assert_true(answers);
	assert_int_equal(reply[25], RMPP_ABORT);
	assert_int_equal(reply[27], status);
	assert_int_equal(reply[3], 0x92);
	end(&c);
}

static void acks_that_make_no_sense(void **state)
{
	(void)state;
	ack_is_refused(2, 64, 0, 0, RMPP_SEGMENT_BIG);
	ack_is_refused(1, 0, 0, 0, RMPP_WINDOW_SMALL);
	ack_is_refused(1, 64, 24, 0, RMPP_BAD_VERSION);
	ack_is_refused(1, 64, 25, 9, RMPP_BAD_TYPE);
	ack_is_refused(1, 64, 27, 1, RMPP_BAD_STATUS);
}

/* What was let go stays so; an ACK of before may say less. The last one need not let go what there is not. */
static void a_window_does_not_close(void **state)
{
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 30);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	rmpp_ack(mad, 1, 20, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_GOES_ON);
	while (rmpp_send_output(&c.send, 0, mad))
		;
	rmpp_ack(mad, 1, 10, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_GOES_ON);
	rmpp_ack(mad, 20, 40, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_GOES_ON);
	while (rmpp_send_output(&c.send, 0, mad))
		;
	rmpp_ack(mad, 25, 30, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_GOES_ON);
	rmpp_ack(mad, 26, 29, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_FAILED);
	assert_true(answers);
	assert_int_equal(reply[27], RMPP_WINDOW_SMALL);
	end(&c);
}

static void has_oui(const uint8_t mad[MAD_BYTES], uint8_t method)
{
	assert_int_equal(mad[25], RMPP_ABORT);
	assert_int_equal(mad[3], method);
	assert_int_equal(wire_get(mad, 37, 0, 24), 0x616263);
	assert_int_equal(mad[40], 0);
}

/* An ABORT of a vendor's class has its OUI, or it would come to nobody. */
static void an_end_has_its_class_header(void **state)
{
	uint8_t mad[MAD_BYTES], last[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x32, 5000);
	wire_put(c.data, 0x616263, 37, 0, 24);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, last), RMPP_GOES_ON);
	rmpp_end(mad, RMPP_UNSPECIFIED, last);
	has_oui(last, 0x12);
	assert_int_equal(rmpp_recv_expire(&c.recv, c.recv.deadline, last), RMPP_FAILED);
	has_oui(last, 0x12);
	while (rmpp_send_expire(&c.send, c.send.deadline, last) == RMPP_GOES_ON)
		;
	has_oui(last, 0x92);
	rmpp_send_abort(&c.send, RMPP_UNSPECIFIED, last);
	has_oui(last, 0x92);
	end(&c);
}

/* Why the other side ended it is known, and it is not answered. */
static void a_stop_and_each_abort_are_heard(void **state)
{
	uint8_t mad[MAD_BYTES], ending[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	for (unsigned status = 0; status < 256; status++) {
		bool is_good = status == RMPP_NO_RESOURCES || status >= RMPP_TOO_LONG;

		begin(&c, 0x03, 5000);
		assert_true(rmpp_send_output(&c.send, 0, mad));
		rmpp_end(mad, (enum rmpp_status)status, ending);
		assert_int_equal(rmpp_send_input(&c.send, 0, ending, &answers, reply), RMPP_FAILED);
		assert_int_equal(answers, !is_good);
		assert_int_equal(c.send.status, is_good ? status : RMPP_BAD_STATUS);
		assert_int_equal(rmpp_recv_input(&c.recv, 0, ending, &answers, reply), RMPP_FAILED);
		assert_int_equal(answers, !is_good);
		assert_int_equal(c.recv.status, is_good ? status : RMPP_BAD_STATUS);
		end(&c);
	}
}

/* After its last ACK the other side is told that it may answer in segments. */
static void a_request_lets_its_answer_begin(void **state)
{
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	for (int two = 0; two < 2; two++) {
		begin(&c, 0x03, 100);
		c.data[3] = 0x14;
		c.send.is_two_sided = two;
		assert_true(rmpp_send_output(&c.send, 0, mad));
		rmpp_ack(mad, 1, 64, ack);
		assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_DONE);
		assert_int_equal(answers, two);
		assert_true(c.send.deadline == WTIME_NEVER);
		if (two) {
			assert_int_equal(reply[3], 0x14);
			assert_int_equal(reply[25], RMPP_ACK);
			assert_int_equal(wire_get(reply, 28, 0, 32), 0);
			assert_int_equal(wire_get(reply, 32, 0, 32), 1);
		}
		end(&c);
		/* who answers hears it, before his first segment or after it */
		begin(&c, 0x03, 5000);
		rmpp_ack(mad, 0, 3, ack);
		assert_true(rmpp_send_output(&c.send, 0, mad));
		assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_GOES_ON);
		for (uint32_t i = 2; i <= 3; i++) {
			assert_true(rmpp_send_output(&c.send, 0, mad));
			assert_int_equal(wire_get(mad, 28, 0, 32), i);
		}
		assert_int_equal(rmpp_send_input(&c.send, 0, ack, &answers, reply), RMPP_GOES_ON);
		assert_false(rmpp_send_output(&c.send, 0, mad));
		end(&c);
	}
}

/* The receiver's time for an ACK, and twice the flight. */
static void a_receiver_says_how_long_it_takes(void **state)
{
	static const struct rmpp_config far = { .flight_ns = 3 * WTIME_MS, .ack_ns = 70 * WTIME_MS };
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	for (uint8_t n = 0; n < 32; n++) {
		wtime said = 2 * far.flight_ns + (4096ull << n), most = wtime_min(said, RMPP_ACK_MOST_NS);

		begin(&c, 0x03, 5000);
		rmpp_send_init(&c.send, &far, c.data, c.bytes);
		assert_true(rmpp_send_output(&c.send, 5, mad));
		assert_true(c.send.deadline == 5 + far.ack_ns);
		rmpp_ack(mad, 1, 64, ack);
		wire_put(ack, n, 26, 0, 5);
		assert_int_equal(rmpp_send_input(&c.send, 7, ack, &answers, reply), RMPP_GOES_ON);
		assert_true(c.send.deadline == 7 + (n == 31 || most < far.ack_ns ? far.ack_ns : most));
		end(&c);
	}
}

static void a_receiver_does_not_wait_for_ever(void **state)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	wtime now = 1;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 40);
	assert_true(c.recv.deadline == WTIME_NEVER);
	for (uint32_t i = 1; i < 8; i++, now += 9 * WTIME_S) {
		c.send.again = i;
		assert_true(rmpp_send_output(&c.send, now, mad));
		assert_int_equal(rmpp_recv_input(&c.recv, now, mad, &answers, reply), RMPP_GOES_ON);
		assert_true(c.recv.deadline == wtime_min(now + RMPP_IDLE_NS, 1 + RMPP_TOTAL_NS));
		assert_int_equal(rmpp_recv_expire(&c.recv, c.recv.deadline - 1, reply), RMPP_GOES_ON);
	}
	assert_int_equal(rmpp_recv_expire(&c.recv, c.recv.deadline, reply), RMPP_FAILED);
	assert_int_equal(c.recv.status, RMPP_TOO_LONG);
	assert_int_equal(reply[25], RMPP_ABORT);
	assert_int_equal(reply[27], RMPP_TOO_LONG);
	assert_int_equal(reply[3], 0x12);
	end(&c);
}

/* Of what is beyond the window nothing is kept. */
static void beyond_the_window_is_not_taken(void **state)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 100);
	for (int i = 0; i < 3; i++) {
		static const uint32_t order[] = { 1, 66, 65 };

		c.send.again = order[i];
		assert_true(rmpp_send_output(&c.send, 0, mad));
		assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_GOES_ON);
		assert_int_equal(answers, i != 1);
		assert_int_equal(c.recv.kept, i == 2);
	}
	assert_int_equal(wire_get(reply, 28, 0, 32), 1);
	assert_int_equal(wire_get(reply, 32, 0, 32), 65);
	end(&c);
}

/* The sender hears this ACK each time, after so long or (0) when its timer is due, and gives up. */
static void hear_the_same(struct course *c, const uint8_t ack[MAD_BYTES], wtime after)
{
	enum rmpp_verdict verdict = RMPP_GOES_ON;
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	bool answers;

	while (verdict == RMPP_GOES_ON && c->now < RMPP_TOTAL_NS) {
		while (rmpp_send_output(&c->send, c->now, mad))
			;
		assert_int_equal(rmpp_send_input(&c->send, c->now, ack, &answers, reply), RMPP_GOES_ON);
		c->now = after ? c->now + after : c->send.deadline;
		verdict = rmpp_send_expire(&c->send, c->now, mad);
	}
	assert_int_equal(verdict, RMPP_FAILED);
	assert_int_equal(c->send.status, RMPP_RETRIES_OVER);
	end(c);
}

/* A receiver says ever the same: it does not put off the timer. */
static void acks_of_nothing_new_put_off_nothing(void **state)
{
	uint8_t ack[MAD_BYTES];
	struct course c;

	(void)state;
	begin(&c, 0x03, 5000);
	rmpp_ack(c.data, 0, 1, ack);
	hear_the_same(&c, ack, RMPP_ACK_NS - WTIME_MS);
}

/* Nor do they make the next wait as short as the first one again, of a sender that has seen quick ACKs: its tries have an end. */
static void acks_of_nothing_new_shorten_nothing(void **state)
{
	const struct rmpp_config quick = { .soonest_ns = WTIME_MS };
	uint8_t ack[MAD_BYTES];
	struct course c;

	(void)state;
	begin(&c, 0x03, 5000);
	rmpp_send_init(&c.send, &quick, c.data, c.bytes);
	rmpp_ack(c.data, 1, 4, ack);
	hear_the_same(&c, ack, 0);
}

/* A segment at a time is progress, and ends all the same. */
static void a_slow_receiver_has_an_end(void **state)
{
	enum rmpp_verdict verdict = RMPP_GOES_ON;
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 2000);
	for (uint32_t segment = 1; verdict == RMPP_GOES_ON && segment < 1900; segment++) {
		while (rmpp_send_output(&c.send, c.now, mad))
			;
		c.now += RMPP_ACK_NS - WTIME_MS;
		verdict = rmpp_send_expire(&c.send, c.now, mad);
		rmpp_ack(c.data, segment, segment + 1, ack);
		if (verdict == RMPP_GOES_ON)
			assert_int_equal(rmpp_send_input(&c.send, c.now, ack, &answers, reply), RMPP_GOES_ON);
	}
	assert_int_equal(verdict, RMPP_FAILED);
	assert_int_equal(c.send.status, RMPP_TOO_LONG);
	assert_int_equal(mad[25], RMPP_ABORT);
	assert_int_equal(mad[27], RMPP_TOO_LONG);
	assert_in_range(c.now, RMPP_TOTAL_NS, RMPP_TOTAL_NS + RMPP_ACK_NS);
	end(&c);
}

/* All that may go leaves at c->now; an ACK of the last of it comes after that time, and lets two more go. */
static void acknowledge_after(struct course *c, wtime took)
{
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES], reply[MAD_BYTES];
	bool answers;

	while (rmpp_send_output(&c->send, c->now, mad))
		;
	c->now += took;
	rmpp_ack(c->data, c->send.sent, c->send.sent + 2, ack);
	assert_int_equal(rmpp_send_input(&c->send, c->now, ack, &answers, reply), RMPP_GOES_ON);
}

/* Who has seen that ACKs take microseconds misses one after milliseconds, and has as much patience as others. */
static void a_sender_learns_how_long_acks_take(void **state)
{
	enum { BYTES = 56 + 200 * 2000, EARLY = 5 };	/* 2, 4, 8, 16 and 32 ms */
	const struct rmpp_config quick = { .soonest_ns = 2 * WTIME_MS };
	uint8_t mad[MAD_BYTES];
	unsigned again = 0;
	struct course c;
	wtime took, began;

	(void)state;
	begin(&c, 0x03, BYTES);
	rmpp_send_init(&c.send, &quick, c.data, BYTES);
	assert_true(rmpp_send_output(&c.send, c.now, mad));
	assert_true(c.send.deadline == c.now + RMPP_ACK_NS);
	/* no time at all is known too */
	for (int i = 0; i < 3; i++)
		acknowledge_after(&c, 0);
	assert_true(c.send.deadline == c.now + quick.soonest_ns);
	for (int i = 0; i < 60; i++)
		acknowledge_after(&c, 10000);
	assert_true(c.send.deadline == c.now + quick.soonest_ns);
	took = c.send.took;
	assert_in_range(took, 9000, 11000);
	/* one that went twice tells nothing */
	assert_true(rmpp_send_output(&c.send, c.now, mad));
	assert_true(rmpp_send_output(&c.send, c.now, mad));
	c.now = c.send.deadline;
	assert_int_equal(rmpp_send_expire(&c.send, c.now, mad), RMPP_GOES_ON);
	acknowledge_after(&c, 10000);
	assert_true(c.send.took == took);
	/* nor does one that was missing, and went again alone */
	assert_true(rmpp_send_output(&c.send, c.now, mad));
	assert_true(rmpp_send_output(&c.send, c.now, mad));
	c.now += WTIME_MS;
	c.send.again = c.send.acked + 1;
	acknowledge_after(&c, 10000);
	assert_true(c.send.took == took);
	/* ACKs that come later are waited for, but no longer than by others */
	for (int i = 0; i < 20; i++)
		acknowledge_after(&c, i % 2 ? 5 * WTIME_MS : 4 * WTIME_MS);
	assert_in_range(c.send.deadline - c.now, 5 * WTIME_MS, 10 * WTIME_MS);
	acknowledge_after(&c, 45 * WTIME_MS);
	assert_in_range(c.send.deadline - c.now, 20 * WTIME_MS, RMPP_ACK_NS);
	for (int i = 0; i < 60; i++)
		acknowledge_after(&c, 10000);
	assert_true(c.send.deadline == c.now + quick.soonest_ns);
	began = c.now;
	while (rmpp_send_output(&c.send, c.now, mad))
		;
	for (c.now = c.send.deadline; rmpp_send_expire(&c.send, c.now, mad) == RMPP_GOES_ON; c.now = c.send.deadline)
		again++;
	assert_int_equal(again, EARLY + RMPP_RETRIES);
	assert_int_equal(c.send.status, RMPP_RETRIES_OVER);
	assert_in_range(c.now - began, 7 * WTIME_S, 9 * WTIME_S);
	end(&c);
}

static void nothing_is_beyond_the_last(void **state)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 56 + 200 * 10);
	c.send.window_last = c.recv.window_last = 10;
	for (uint32_t segment = 1; segment <= 5; segment++) {
		assert_true(rmpp_send_output(&c.send, 0, mad));
		if (segment == 1)
			wire_put(mad, 0, 32, 0, 32);
		if (segment != 4)
			assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_GOES_ON);
	}
	wire_put(mad, 4, 28, 0, 32);
	wire_put(mad, 1, 26, 5, 1);
	wire_put(mad, 220, 32, 0, 32);
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_FAILED);
	assert_int_equal(c.recv.status, RMPP_BAD_LENGTH);
	end(&c);
}

/* Segments count from 1: the last of none is no datagram. */
static void a_segment_zero_is_refused(void **state)
{
	uint8_t mad[MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 100);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	wire_put(mad, 0, 28, 0, 32);
	wire_put(mad, 0, 26, 6, 1);
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad, &answers, reply), RMPP_FAILED);
	end(&c);
}

/* Found by rmpp_fuzz: data of another class begins elsewhere, so a datagram would be longer than its memory. */
static void a_segment_of_another_class_is_not_taken(void **state)
{
	uint8_t mad[3][MAD_BYTES], reply[MAD_BYTES];
	struct course c;
	bool answers;

	(void)state;
	begin(&c, 0x03, 500);
	c.send.window_last = 3;
	for (int i = 0; i < 3; i++)
		assert_true(rmpp_send_output(&c.send, 0, mad[i]));
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad[0], &answers, reply), RMPP_GOES_ON);
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad[1], &answers, reply), RMPP_GOES_ON);
	mad[2][1] = MAD_CLASS_DEVICE;
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad[2], &answers, reply), RMPP_GOES_ON);
	assert_false(answers);
	mad[2][1] = 0x03;
	assert_int_equal(rmpp_recv_input(&c.recv, 0, mad[2], &answers, reply), RMPP_DONE);
	assert_int_equal(c.recv.bytes, 500);
	end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_of_another_class_is_not_taken),
		cmocka_unit_test(what_is_sent_arrives),
		cmocka_unit_test(a_lost_segment_is_sent_again),
		cmocka_unit_test(the_window_is_kept),
		cmocka_unit_test(a_sender_gives_up),
		cmocka_unit_test(an_ack_may_be_late),
		cmocka_unit_test(acks_of_nothing_end_a_transfer),
		cmocka_unit_test(a_datagram_too_long_is_refused),
		cmocka_unit_test(a_segment_zero_is_refused),
		cmocka_unit_test(acks_of_nothing_new_put_off_nothing),
		cmocka_unit_test(acks_of_nothing_new_shorten_nothing),
		cmocka_unit_test(a_slow_receiver_has_an_end),
		cmocka_unit_test(a_sender_learns_how_long_acks_take),
		cmocka_unit_test(nothing_is_beyond_the_last),
		cmocka_unit_test(segments_that_make_no_sense),
		cmocka_unit_test(a_length_may_be_unknown),
		cmocka_unit_test(what_has_yet_to_be_made_has_no_end),
		cmocka_unit_test(a_closed_window_is_no_hunger),
		cmocka_unit_test(a_pause_within_a_window_is_hunger),
		cmocka_unit_test(an_end_has_no_more_than_a_segment),
		cmocka_unit_test(acks_that_make_no_sense),
		cmocka_unit_test(a_window_does_not_close),
		cmocka_unit_test(an_end_has_its_class_header),
		cmocka_unit_test(a_stop_and_each_abort_are_heard),
		cmocka_unit_test(a_request_lets_its_answer_begin),
		cmocka_unit_test(a_receiver_says_how_long_it_takes),
		cmocka_unit_test(a_receiver_does_not_wait_for_ever),
		cmocka_unit_test(beyond_the_window_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
