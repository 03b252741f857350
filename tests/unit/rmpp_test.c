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

static void begin(struct course *c, uint8_t mgmt_class, uint32_t bytes)
{
	*c = (struct course){ .data = calloc(1, bytes), .bytes = bytes };
	for (uint32_t i = 0; i < bytes; i++)
		c->data[i] = (uint8_t)(i * 7 + i / 251);
	c->data[1] = mgmt_class;
	c->data[3] = 0x92;
	rmpp_send_init(&c->send, c->data, bytes);
	rmpp_recv_init(&c->recv, MOST);
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
		in = rmpp_recv_input(&c->recv, mad, &answers, reply);
		assert_int_not_equal(in, RMPP_FAILED);
		if (answers) {
			c->acks++;
			assert_int_equal(reply[3], 0x12);
			out = rmpp_send_input(&c->send, c->now, reply);
			assert_int_not_equal(out, RMPP_FAILED);
		}
	}
	return in == RMPP_DONE && out == RMPP_DONE;
}

static void transfer(uint8_t mgmt_class, uint32_t bytes, unsigned lose)
{
	struct course c;
	unsigned offset = rmpp_data_offset(mgmt_class);

	begin(&c, mgmt_class, bytes);
	c.lose = lose;
	while (!step(&c)) {
		assert_true(c.send.deadline != WTIME_NEVER);
		c.now = c.send.deadline;
		assert_int_equal(rmpp_send_expire(&c.send, c.now), RMPP_GOES_ON);
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
		assert_int_equal(rmpp_send_expire(&c.send, c.now), RMPP_GOES_ON);
	}
	c.now = c.send.deadline;
	assert_int_equal(rmpp_send_expire(&c.send, c.now), RMPP_FAILED);
	end(&c);
}

static void acks_of_nothing_end_a_transfer(void **state)
{
	uint8_t mad[MAD_BYTES], ack[MAD_BYTES];
	struct course c;

	(void)state;
	begin(&c, 0x03, 5000);
	assert_true(rmpp_send_output(&c.send, 0, mad));
	rmpp_ack(mad, 2, 64, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack), RMPP_FAILED);
	rmpp_ack(mad, 1, 0, ack);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack), RMPP_FAILED);
	rmpp_ack(mad, 1, 64, ack);
	wire_put(ack, RMPP_ABORT, 25, 0, 8);
	assert_int_equal(rmpp_send_input(&c.send, 0, ack), RMPP_FAILED);
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
	c.recv.most = 1000;
	while (verdict == RMPP_GOES_ON && rmpp_send_output(&c.send, 0, mad)) {
		verdict = rmpp_recv_input(&c.recv, mad, &answers, reply);
		if (answers && verdict == RMPP_GOES_ON)
			rmpp_send_input(&c.send, 0, reply);
	}
	assert_int_equal(verdict, RMPP_FAILED);
	assert_true(answers);
	assert_int_equal(wire_get(reply, 25, 0, 8), RMPP_ABORT);
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
	assert_int_equal(rmpp_recv_input(&c.recv, mad, &answers, reply), RMPP_FAILED);
	end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent_arrives),
		cmocka_unit_test(a_lost_segment_is_sent_again),
		cmocka_unit_test(the_window_is_kept),
		cmocka_unit_test(a_sender_gives_up),
		cmocka_unit_test(acks_of_nothing_end_a_transfer),
		cmocka_unit_test(a_datagram_too_long_is_refused),
		cmocka_unit_test(a_segment_zero_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
