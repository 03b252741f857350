/* CM messages as frames and back. */
#include "host/mads.h"

#include "verbs/ca.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct ca_device devices[] = {
	{ .form = PACKET_IB, .lid = 1, .pkey = { 0xffff } },
	{ .form = PACKET_ROCE, .pkey = { 0xffff } },
};

static struct control_msg some_message(unsigned char tag)
{
	struct control_msg msg = { .type = CTL_MAD, .slot = 77, .service = 0x1060000 + tag, .device = 1 };

	memset(msg.mad, tag, sizeof(msg.mad));
	memcpy(msg.gid, (uint8_t[16]){ [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 }, 16);
	memcpy(msg.dgid, (uint8_t[16]){ [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2 }, 16);
	return msg;
}

static void a_message_comes_back_from_its_frame(void **state)
{
	struct mads m = { 0 };

	(void)state;
	for (unsigned i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		struct control_msg msg = some_message(5), found;
		uint8_t frame[PACKET_MAX_BYTES];
		size_t bytes = mads_frame(&devices[i], &msg, frame, sizeof(frame));
		uint32_t to = mads_keep(&m, &msg);
		struct packet p;

		assert_true(mads_is_one(to) && !mads_is_one(4095));
		assert_int_equal(packet_parse(&p, devices[i].form, frame, bytes, true), PACKET_OK);
		assert_int_equal(p.dest_qpn, 1);
		assert_true(mads_restore(&m, devices[i].form, frame, bytes, to, &found));
		assert_memory_equal(&found, &msg, sizeof(msg));
		frame[bytes - 20] ^= 1;
		assert_false(mads_restore(&m, devices[i].form, frame, bytes, to, &found));
	}
}

static void what_waits_too_long_is_lost(void **state)
{
	struct control_msg msg = some_message(1), found;
	uint8_t frame[PACKET_MAX_BYTES];
	size_t bytes = mads_frame(&devices[0], &msg, frame, sizeof(frame));
	struct mads m = { 0 };
	uint32_t to = mads_keep(&m, &msg);

	(void)state;
	for (unsigned i = 1; i < MADS_KEPT; i++)
		mads_keep(&m, &msg);
	assert_true(mads_restore(&m, PACKET_IB, frame, bytes, to, &found));
	mads_keep(&m, &msg);
	assert_false(mads_restore(&m, PACKET_IB, frame, bytes, to, &found));
}

static void arrivals_keep_their_order_and_their_bound(void **state)
{
	struct control_msg msg;
	struct mads m = { 0 };

	(void)state;
	for (unsigned i = 0; i < MADS_ARRIVED + 3; i++) {
		msg = some_message((unsigned char)i);
		mads_arrive(&m, &msg);
	}
	for (unsigned i = 0; i < MADS_ARRIVED; i++) {
		assert_true(mads_take(&m, &msg));
		assert_int_equal(msg.mad[0], i);
	}
	assert_false(mads_take(&m, &msg));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_comes_back_from_its_frame),
		cmocka_unit_test(what_waits_too_long_is_lost),
		cmocka_unit_test(arrivals_keep_their_order_and_their_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
